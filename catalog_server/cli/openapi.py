"""`frazil openapi`: the documents of the APIs."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer

from catalog_server.api.iceberg.router import describe
from catalog_server.api.management.router import describe_api
from catalog_server.api.s3tables import router as s3tables
from catalog_server.cli.output import Failed, print_line
from table_format.jsontypes import JsonObject

openapi = typer.Typer(no_args_is_help=True, help="The OpenAPI documents of the APIs.")


class Api(StrEnum):
    """Which document."""

    ICEBERG = "iceberg"
    MANAGEMENT = "management"
    S3TABLES = "s3tables"


_DOCUMENTS: dict[Api, Callable[[], JsonObject]] = {
    Api.ICEBERG: describe,
    Api.MANAGEMENT: lambda: describe_api().openapi(),
    Api.S3TABLES: s3tables.describe,
}


@openapi.callback()
def _group() -> None:
    """The OpenAPI documents of the APIs."""


@openapi.command("export")
def export(
    path: Annotated[
        Path | None,
        typer.Argument(
            help="File to write, or a directory for the documents of all APIs; standard output when omitted."
        ),
    ] = None,
    api: Annotated[
        Api, typer.Option(help="Whose document goes to a file or standard output.")
    ] = Api.MANAGEMENT,
) -> None:
    """Write the OpenAPI documents as JSON."""
    if path is None:
        print_line(_text(api).decode())
    elif path.is_dir():
        for each in Api:
            _write(path / f"{each}.json", each)
    else:
        _write(path, api)


def _write(path: Path, api: Api) -> None:
    try:
        path.write_bytes(_text(api) + b"\n")
    except OSError as error:
        raise Failed(f"cannot write {path}: {error.strerror or error}") from None


def _text(api: Api) -> bytes:
    """The same wherever it goes, so that it can be compared."""
    return orjson.dumps(_DOCUMENTS[api](), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
