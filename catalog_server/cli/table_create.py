"""`frazil table create`: a new, empty table, its columns written as `NAME:TYPE`."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer

from catalog_server.cli.client import (
    DEFAULT_URL,
    TABLE_HELP,
    Bucket,
    Json,
    ManagementClient,
    Url,
    namespace_path,
    parse_table,
    shown_name,
)
from catalog_server.cli.output import Failed, print_json, print_line
from catalog_server.cli.pairs import parse_pairs
from catalog_server.cli.table_settings import tables
from table_format.jsontypes import JsonObject

__all__ = ["tables"]

_TRANSFORM: Final = re.compile(r"(?P<name>[a-z]+)\((?:(?P<number>[0-9]+) *, *)?(?P<column>[^()]+)\)")
_ORDER: Final = re.compile(
    r"(?P<field>.+?)(?: +(?P<direction>asc|desc))?(?: +(?P<nulls>nulls-first|nulls-last))?"
)


@tables.command("create")
def create(  # noqa: PLR0913 - each is one option of the command
    *,
    table: Annotated[str, typer.Argument(help=TABLE_HELP)],
    columns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME:TYPE...",
            help="Columns, such as id:long or 'price:decimal(10,2)'; a ! at the end makes one required.",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", metavar="FILE", help="Iceberg's JSON of a schema, instead of columns."),
    ] = None,
    partitions: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-by", help="A column, or such as day(at) and bucket(16, id); may be repeated."
        ),
    ] = None,
    sorting: Annotated[
        list[str] | None,
        typer.Option("--sort-by", help="As --partition-by, with asc or desc and nulls-first or nulls-last."),
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="A property; may be repeated.")
    ] = None,
    location: Annotated[
        str | None, typer.Option("--location", help="Inside the bucket; a place of its own when left out.")
    ] = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Create an empty table of these columns.

    Example: frazil table create sales.orders 'id:long!' at:timestamptz --partition-by 'day(at)'
    """
    if bool(columns) == (schema is not None):
        raise typer.BadParameter("give columns as NAME:TYPE, or --schema FILE")
    ident = parse_table(table)
    wanted = _read(schema) if schema is not None else _schema(columns or [])
    ids = {str(one.get("name")): one.get("id") for one in wanted.get("fields", []) if isinstance(one, dict)}
    body: JsonObject = {"name": ident.name, "schema": wanted, "properties": parse_pairs(properties)}
    if partitions:
        body["partitionSpec"] = {"fields": [_partition(text, ids) for text in partitions]}
    if sorting:
        body["writeOrder"] = {"order-id": 1, "fields": [_sort(text, ids) for text in sorting]}
    if location is not None:
        body["location"] = location
    answer = ManagementClient(url).send(
        "POST", f"{namespace_path(bucket, ident.namespace)}/tables", body=body
    )
    if as_json:
        print_json(answer.document)
    else:
        shown = shown_name(list(ident.namespace.levels), ident.name)
        print_line(f"{shown} is at {answer.document['location']}")


def _schema(columns: Sequence[str]) -> JsonObject:
    fields = []
    for number, text in enumerate(columns, 1):
        name, colon, kind = text.rpartition(":")
        required = kind.endswith("!")
        kind = kind.removesuffix("!").strip()
        if not (colon and name and kind):
            raise typer.BadParameter(f"{text!r} is not NAME:TYPE")
        fields.append({"id": number, "name": name, "type": kind, "required": required})
    return {"type": "struct", "fields": fields}


def _read(file: str) -> JsonObject:
    try:
        found = orjson.loads(Path(file).read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise Failed(f"{file} can not be read as a schema: {error}") from None
    if not isinstance(found, dict):
        raise Failed(f"{file} holds no schema: it must be a JSON object of type struct")
    return found


def _partition(text: str, ids: dict[str, object]) -> JsonObject:
    source, transform, column = _field(text, ids)
    kind = transform.partition("[")[0]
    name = column if kind == "identity" else f"{column}_{kind}"
    return {"source-id": source, "transform": transform, "name": name}


def _sort(text: str, ids: dict[str, object]) -> JsonObject:
    found = _ORDER.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no field to sort by")
    source, transform, _ = _field(found["field"], ids)
    direction = found["direction"] or "asc"
    nulls = found["nulls"] or ("nulls-first" if direction == "asc" else "nulls-last")
    return {"source-id": source, "transform": transform, "direction": direction, "null-order": nulls}


def _field(text: str, ids: dict[str, object]) -> tuple[object, str, str]:
    """Source id, transform and column of a column's name, or of a transform of it."""
    found = _TRANSFORM.fullmatch(text.strip())
    column = text.strip() if found is None else found["column"].strip()
    if column not in ids:
        raise typer.BadParameter(f"{text!r} names no column of the table: it has {', '.join(ids)}")
    if found is None:
        return ids[column], "identity", column
    return ids[column], found["name"] + (f"[{found['number']}]" if found["number"] else ""), column
