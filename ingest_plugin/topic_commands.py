"""`frazil ingest topic …`: topics registered at the catalog; processes that ingest take note without a restart.

The configuration says which catalog, bucket and group of processes are meant; its topics have nothing to do with these.
"""

import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import orjson
import typer
from rich.console import Console
from rich.table import Table

from ingest_plugin.arguments import Config, Json, confirm, fail
from ingest_plugin.keys import PREFIX, ConfigError
from ingest_plugin.registered import Registration, Registrations
from ingest_plugin.settings import IngestSettings, load
from table_format.errors import TableFormatError, VersionConflict
from table_format.jsontypes import JsonObject

app = typer.Typer(
    name="topic",
    help="Topics registered at a Frazil catalog: ingest processes read them without a restart.",
    no_args_is_help=True,
)

T = TypeVar("T")

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the Kafka topic.")]
Pairs = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE...", help="Keys of a topic's section; {...} and [...] as in TOML."),
]
File = Annotated[
    Path | None, typer.Option("--file", help="TOML file with the topic's keys; KEY=VALUE come on top.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command()
def add(config: Config, topic: Name, pairs: Pairs = None, file: File = None, json: Json = False) -> None:
    """Register a topic: it is read from its beginning, or from where its table is."""
    settings, client = _client(config)
    told = _told(file, pairs)

    def put() -> Registration:
        return client.put(topic, settings.kafka.group, told, None)

    try:
        _show(_asked(put), json=json, first=f"{topic} is registered; it is read from now on")
    except VersionConflict:
        fail(f"{topic} is registered already: change it with `frazil ingest topic set`", 1)


@app.command("set")
def set_(
    *,
    config: Config,
    topic: Name,
    pairs: Pairs = None,
    file: File = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", help="Key to leave out.")] = None,
    json: Json = False,
) -> None:
    """Tell a registered topic something else: keys that are not named stay."""
    _, client = _client(config)
    before = _existing(client, topic)
    told = {name.removeprefix(PREFIX): value for name, value in before.settings.items()}
    for key in unset or []:
        if told.pop(key.removeprefix(PREFIX), None) is None:
            fail(f"{topic} has no key '{key}'", 1)
    told |= {name.removeprefix(PREFIX): value for name, value in _told(file, pairs).items()}

    def put() -> Registration:
        return client.put(topic, before.group, told, before.etag)

    try:
        _show(_asked(put), json=json, first=f"{topic} is told this from now on")
    except VersionConflict:
        fail(f"{topic} was changed by somebody else meanwhile: look, and try again", 1)


@app.command("list")
def list_(config: Config, json: Json = False) -> None:
    """List the topics that are registered at the bucket, those of other groups too."""
    _, client = _client(config)
    found = _asked(lambda: list(client.all()))
    if json:
        typer.echo(orjson.dumps([_document(each) for each in found]).decode())
        return
    table = Table(header_style="bold")
    for column in ("topic", "group", "settings"):
        table.add_column(column, overflow="fold")
    for each in found:
        table.add_row(each.topic, each.group, _settings_text(each.settings))
    Console(width=None).print(table)


@app.command()
def show(config: Config, topic: Name, json: Json = False) -> None:
    """Show what a registered topic is told."""
    _, client = _client(config)
    _show(_existing(client, topic), json=json)


@app.command()
def remove(config: Config, topic: Name, yes: Yes = False) -> None:
    """Register a topic no more: what was read of it is committed, and its table stays."""
    _, client = _client(config)
    before = _existing(client, topic)
    confirm(f"Read {topic} no more?", yes=yes)
    try:
        _asked(lambda: client.remove(topic, before.etag))
    except VersionConflict:
        fail(f"{topic} was changed by somebody else meanwhile: look, and try again", 1)
    typer.echo(f"{topic} is not registered any more; its table stays as it is")


@app.command()
def history(
    config: Config,
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only of this topic.")] = None,
    json: Json = False,
) -> None:
    """Show who changed registrations and when, the newest first."""
    _, client = _client(config)
    found = _asked(lambda: client.history(topic))
    if json:
        typer.echo(orjson.dumps(found).decode())
        return
    table = Table(header_style="bold")
    for column in ("change", "when", "by", "topic", "settings"):
        table.add_column(column, overflow="fold")
    for each in found:
        after = "removed" if each["after"] is None else _settings_text(each["after"]["settings"])
        table.add_row(str(each["id"]), _moment(each["atMs"]), each["by"], each["topic"], after)
    Console(width=None).print(table)


def _moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, tz=UTC):%Y-%m-%d %H:%M:%SZ}"


def _client(config: Path) -> tuple[IngestSettings, Registrations]:
    try:
        # A file without topics of its own will do: registrations are what it is for.
        settings = load(config, may_be_empty=True)
    except ConfigError as error:
        fail(str(error), 2)
    return settings, Registrations(settings.catalog)


def _asked(ask: Callable[[], T]) -> T:
    """The catalog's answer; a refusal ends the command, unless it says that somebody was faster."""
    try:
        return ask()
    except VersionConflict:
        raise
    except TableFormatError as error:
        fail(str(error), 1)


def _existing(client: Registrations, topic: str) -> Registration:
    found = _asked(lambda: client.find(topic))
    return found if found is not None else _not_registered(topic)


def _not_registered(topic: str) -> NoReturn:
    fail(f"{topic} is not registered: `frazil ingest topic list` shows what is", 1)


def _told(file: Path | None, pairs: list[str] | None) -> JsonObject:
    told: JsonObject = {}
    if file is not None:
        try:
            told = tomllib.loads(file.read_text("utf-8"))
        except OSError as error:
            fail(f"cannot read {file}: {error.strerror or error}", 2)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            fail(f"{file} is not valid TOML: {error}", 2)
    for pair in pairs or []:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            fail(f"{pair!r}: write KEY=VALUE", 2)
        told[key.strip()] = _value(value.strip())
    return told


def _value(text: str) -> Any:
    """Lists and tables as TOML has them; what is none of TOML's, such as `[day(at)]`, is text."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _show(found: Registration, *, json: bool, first: str = "") -> None:
    if json:
        typer.echo(orjson.dumps(_document(found)).decode())
        return
    if first:
        typer.echo(first)
    typer.echo(f"topic {found.topic}, group {found.group}")
    for key, value in sorted(found.settings.items()):
        typer.echo(f"  {key} = {_text(value)}")


def _document(found: Registration) -> JsonObject:
    return {"topic": found.topic, "group": found.group, "settings": found.settings}


def _settings_text(settings: JsonObject) -> str:
    return ", ".join(f"{key}={_text(value)}" for key, value in sorted(settings.items()))


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
