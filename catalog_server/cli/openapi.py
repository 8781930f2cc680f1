"""`frazil openapi`: the API document."""

from pathlib import Path
from typing import Annotated

import orjson
import typer

from catalog_server.api.management.router import describe_api
from catalog_server.cli.output import Failed, print_json

openapi = typer.Typer(no_args_is_help=True, help="The OpenAPI document of the management API.")


@openapi.callback()
def _group() -> None:
    """The OpenAPI document of the management API."""


@openapi.command("export")
def export(
    path: Annotated[Path | None, typer.Argument(help="File to write; standard output when omitted.")] = None,
) -> None:
    """Write the management API's OpenAPI document as JSON."""
    document = describe_api().openapi()
    if path is None:
        print_json(document)
        return
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    try:
        path.write_bytes(orjson.dumps(document, option=options))
    except OSError as error:
        raise Failed(f"cannot write {path}: {error.strerror or error}") from None
