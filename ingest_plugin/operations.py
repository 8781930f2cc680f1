"""`frazil ingest status|pause|resume|reset|replay`: what an operator asks, confirmed where it cannot be taken back."""

import re
from datetime import UTC, datetime
from typing import Annotated, Literal

import orjson
import typer
from rich.console import Console
from rich.table import Table

from ingest_plugin import operate
from ingest_plugin.arguments import Config, Json, confirm, fail, settings_of
from ingest_plugin.assembly import broker_of, catalog_of, decoder_of, registered_of
from ingest_plugin.decode.registry import SchemaRegistry
from ingest_plugin.discovery import Discovery
from ingest_plugin.keys import ConfigError
from ingest_plugin.operate import TopicStatus
from ingest_plugin.replay import Replay
from ingest_plugin.settings import IngestSettings
from ingest_plugin.tables import SchemaConflict
from ingest_plugin.topic_settings import TopicSettings
from table_format.clock import SystemClock, SystemIds
from table_format.errors import TableFormatError
from table_format.io.resolve import store_for

Topic = Annotated[str, typer.Argument(help="The topic, as the configuration names it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_PLACE = re.compile(r"(\d+)=(\d+)")


def status(config: Config, json: Json = False) -> None:
    """Show per topic and partition how far the table is behind the log, and up to when it is complete."""
    settings = settings_of(config)
    catalog = catalog_of(settings.catalog)
    try:
        broker = broker_of(settings)
    except (ConfigError, TableFormatError) as error:
        fail(str(error), 1)
    try:
        wanted = Discovery(settings, broker, registered_of(settings)).now(())
        found = [operate.status(topic, catalog, broker) for topic in wanted.topics.values()]
        found += [operate.refused(topic, reason) for topic, reason in wanted.refused.items()]
    except TableFormatError as error:
        fail(str(error), 1)
    finally:
        broker.close()
    if json:
        typer.echo(orjson.dumps([each.document() for each in found]).decode())
    else:
        _print(found, SystemClock().now_ms())
    raise typer.Exit(0 if all(each.state in ("ok", "paused", "no table") for each in found) else 1)


def _print(found: list[TopicStatus], now_ms: int) -> None:
    table = Table(header_style="bold")
    for column in ("topic", "state", "partition", "committed", "end", "lag", "complete"):
        table.add_column(column, justify="left" if column in ("topic", "state") else "right")
    for each in found:
        for place in each.partitions:
            age = "" if place.through_ms is None else f"{max(0, now_ms - place.through_ms) // 1000} s ago"
            figures = (place.partition, place.committed, place.end, place.lag)
            table.add_row(each.topic, each.state, *("" if f is None else str(f) for f in figures), age)
        if not each.partitions:
            table.add_row(each.topic, each.state)
    Console(width=None).print(table)
    for each in found:
        if each.valid_through_ms is not None:
            moment = datetime.fromtimestamp(each.valid_through_ms / 1000, UTC)
            typer.echo(f"{each.topic}: complete through {moment.isoformat(timespec='milliseconds')}")
        if each.reason is not None:
            typer.echo(f"{each.topic}: {each.reason}", err=True)


def pause(config: Config, topic: Topic) -> None:
    """Leave a topic alone: what has been read is committed, its partitions stay with their processes."""
    _set_paused(settings_of(config), topic, paused=True)


def resume(config: Config, topic: Topic) -> None:
    """Read a paused topic again, from where its table is."""
    _set_paused(settings_of(config), topic, paused=False)


def _set_paused(settings: IngestSettings, name: str, *, paused: bool) -> None:
    topic = _topic(settings, name)
    try:
        changed = operate.set_paused(topic, catalog_of(settings.catalog), paused=paused)
    except (ConfigError, TableFormatError) as error:
        fail(str(error), 1)
    word = "paused" if paused else "resumed"
    what = (
        f"{topic.topic} is {word}"
        if changed
        else f"{topic.topic} was {'' if paused else 'not '}paused already"
    )
    typer.echo(f"{what}; processes that run take note within half a minute" if changed else what)


def reset(
    config: Config,
    topic: Topic,
    to: Annotated[
        str, typer.Option("--to", help="earliest, latest, or offsets by partition such as 0=120,1=95.")
    ],
    yes: Yes = False,
) -> None:
    """Set the offsets from which a topic is read on; rows that are in the table stay there."""
    settings = settings_of(config)
    chosen = _topic(settings, topic)
    try:
        broker = broker_of(settings)
        try:
            source, ends = operate.targets(chosen, broker, _target(to))
        finally:
            broker.close()
        listed = ", ".join(f"{partition}={offset}" for partition, offset in sorted(ends.items()))
        if not chosen.keyed:
            typer.echo("Records behind these offsets that are in the table come in once more.", err=True)
        typer.echo("Records before them that are not in the table are left out.", err=True)
        confirm(f"Read {topic} into {chosen.ident} from {listed} on?", yes=yes)
        operate.reset(
            chosen,
            catalog_of(settings.catalog),
            store_for,
            source,
            ends,
            clock=SystemClock(),
            ids=SystemIds(),
        )
    except (ConfigError, TableFormatError) as error:
        fail(str(error), 1)
    typer.echo(f"{topic} is read from {listed} on")


def replay(
    config: Config,
    topic: Topic,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most letters tried in one go.")] = 10_000,
    json: Json = False,
) -> None:
    """Try a topic's dead letters again: those that fit by now become rows and leave their table, in one commit."""
    settings = settings_of(config)
    chosen, clock = _topic(settings, topic), SystemClock()
    try:
        registry = None if settings.registry is None else SchemaRegistry(settings.registry, clock)
        found = Replay(
            topic=chosen,
            decoder=decoder_of(chosen, registry),
            catalog=catalog_of(settings.catalog),
            store_for=store_for,
            clock=clock,
            ids=SystemIds(),
            limit=limit,
        ).run()
    except (ConfigError, SchemaConflict, TableFormatError) as error:
        fail(str(error), 1)
    if json:
        typer.echo(orjson.dumps({"rows": found.rows, "left": found.left, "reasons": found.reasons}).decode())
        return
    typer.echo(f"{found.rows} became rows, {found.left} still cannot")
    for reason, count in found.reasons.items():
        typer.echo(f"{count} x {reason}", err=True)


def _target(text: str) -> Literal["earliest", "latest"] | dict[int, int]:
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    places = [_PLACE.fullmatch(part.strip()) for part in text.split(",")]
    found = {int(place[1]): int(place[2]) for place in places if place is not None}
    if len(found) != len(places):
        raise ConfigError(
            f"--to {text!r}: write earliest, latest, or partition=offset pairs such as 0=120,1=95"
        )
    return found


def _topic(settings: IngestSettings, name: str) -> TopicSettings:
    found = next((topic for topic in settings.topics if topic.topic == name), None)
    if found is None:
        found = _discovered(settings, name)
    if found is None:
        fail(f"the configuration has no topic '{name}'", 2)
    return found


def _discovered(settings: IngestSettings, name: str) -> TopicSettings | None:
    try:
        broker = broker_of(settings)
        try:
            wanted = Discovery(settings, broker, registered_of(settings)).now(())
        finally:
            broker.close()
    except (ConfigError, TableFormatError) as error:
        fail(str(error), 1)
    if name in wanted.refused:
        fail(wanted.refused[name], 2)
    return wanted.topics.get(name)


def attach(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (status, pause, resume, reset, replay):
        app.command()(command)
