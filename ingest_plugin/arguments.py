"""What the commands of ingest have in common: their options, the configuration read, an error as a line."""

import sys
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
        help="TOML file with the sections catalog, kafka, registry, defaults, topics.NAME, patterns.NAME, "
        "discovery and status.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]


def settings_of(config: Path, catalog_default: str = "") -> IngestSettings:
    """The configuration; a wrong one ends the command with code 2."""
    try:
        return load(config, catalog_default=catalog_default)
    except ConfigError as error:
        fail(str(error), 2)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is changed that people may regret; no answer, or no, ends the command with code 1."""
    if yes:
        return
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        typer.echo("", err=True)  # the question's line
        fail("there is nobody to ask: say --yes to do it", 1)
    if not agreed:
        fail("nothing was changed", 1)


def fail(message: str, code: int) -> NoReturn:
    """End the command with one line."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)
