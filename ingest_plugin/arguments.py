"""What the commands of ingest have in common: their options, the configuration read, an error as a line."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ingest_plugin.keys import ConfigError
from ingest_plugin.settings import IngestSettings, load

Config = Annotated[
    Path,
    typer.Option(
        "--config",
        "-c",
        help="TOML file with the sections catalog, kafka, registry, defaults and topics.NAME.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]


def settings_of(config: Path, catalog_default: str = "") -> IngestSettings:
    """The configuration; a wrong one ends the command with code 2."""
    try:
        return load(config, catalog_default=catalog_default)
    except ConfigError as error:
        fail(str(error), 2)


def fail(message: str, code: int) -> NoReturn:
    """End the command with one line."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)
