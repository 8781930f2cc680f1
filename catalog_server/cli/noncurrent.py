"""`frazil maintenance noncurrent|hold|release`: files that nothing refers to, before they are deleted."""

import re
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import typer

from catalog_server.cli.client import (
    DEFAULT_URL,
    TABLE_HELP,
    TABLES,
    Bucket,
    Json,
    ManagementClient,
    Url,
    parse_table,
    table_path,
)
from catalog_server.cli.output import moment, print_json, print_line, print_table
from table_format.clock import SystemClock
from table_format.jsontypes import JsonObject

_TIME_TO_COME = re.compile(r"(\d{1,9})([smhdw])")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

OfTable = Annotated[str, typer.Argument(help=TABLE_HELP, autocompletion=TABLES)]
FilePath = Annotated[str, typer.Argument(metavar="PATH", help="The file, as the listing names it.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("noncurrent")(noncurrent)
    app.command("hold")(hold)
    app.command("release")(release)


def noncurrent(
    *,
    table: OfTable,
    held: Annotated[bool, typer.Option("--held", help="Only files that are held.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most so many.")] = 1000,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List files that nothing refers to, since when, after when they are deleted, and which are held."""
    path = f"{table_path(bucket, parse_table(table))}/noncurrent-files"
    pages = ManagementClient(url).pages(path, "files", {"held": "true" if held else "false"})
    found = list(islice(pages, limit))
    if as_json:
        print_json(found)
        return
    columns = ["PATH", "BYTES", "NOTED", "DELETED AFTER", "HELD"]
    print_table("Noncurrent files", columns, [_row(one) for one in found])


def hold(
    *,
    table: OfTable,
    file: FilePath,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", help="For so long (24h, 7d) or until a time (2026-01-31); else until released."
        ),
    ] = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Hold a noncurrent file back from deletion. It is not part of the table again until somebody adds it."""
    until_ms = None if until is None else _to_come(until, SystemClock().now_ms())
    path = f"{table_path(bucket, parse_table(table))}/noncurrent-files/hold"
    found = ManagementClient(url).send("PUT", path, body={"untilMs": until_ms}, query={"path": file}).document
    if as_json:
        print_json(found)
    else:
        print_line(f"{file} is held {_held(found)}")


def release(
    *,
    table: OfTable,
    file: FilePath,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
) -> None:
    """Hold a noncurrent file back no more: it is deleted once it has been noted for long enough."""
    path = f"{table_path(bucket, parse_table(table))}/noncurrent-files/hold"
    ManagementClient(url).send("DELETE", path, query={"path": file})
    print_line(f"{file} is not held any more")


def _row(one: JsonObject) -> list[str]:
    return [
        one["path"],
        "" if one["size"] is None else str(one["size"]),
        moment(one["notedAtMs"]) or "",
        "being deleted" if one["deleting"] else moment(one["deletedAfterMs"]) or "never",
        _held(one) if one["hold"] else "",
    ]


def _held(one: JsonObject) -> str:
    until = one["hold"]["untilMs"]
    return "until it is released" if until is None else f"until {moment(until)}"


def _to_come(text: str, now_ms: int) -> int:
    """Milliseconds since 1970 of a time to come, or of a while from now."""
    if (age := _TIME_TO_COME.fullmatch(text)) is not None:
        return now_ms + int(age[1]) * _UNIT_SECONDS[age[2]] * 1000
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither a while (24h, 7d) nor a time (2026-01-31 or 2026-01-31T12:00:00Z)"
        ) from None
    moment_of = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
    return max(int(moment_of.timestamp() * 1000), 0)
