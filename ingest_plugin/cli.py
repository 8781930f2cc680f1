"""`frazil ingest run|validate`: builds the parts from the settings, and turns errors into lines and exit codes.

0: done; 1: a topic stopped, or something is away; 2: the configuration is wrong. Operators' commands: `operations`.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import orjson
import typer

from ingest_plugin import check, operations, status, topic_commands
from ingest_plugin.arguments import Config, Json, fail, settings_of
from ingest_plugin.assembly import build
from ingest_plugin.keys import ConfigError
from ingest_plugin.watch import watched
from table_format.errors import TableFormatError

app = typer.Typer(
    name="ingest",
    help="Kafka topics as Iceberg tables: read topics, write tables, each record exactly once.",
    no_args_is_help=True,
)


@app.command()
def run(
    config: Config,
    exit_at_end: Annotated[
        bool,
        typer.Option(
            "--exit-at-end", help="Stop once every partition has been read to the end it had at the start."
        ),
    ] = False,
    json: Json = False,
    catalog_default: Annotated[str, typer.Option("--catalog-default", hidden=True)] = "",
    until_stdin_ends: Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)] = False,
) -> None:
    """Ingest the configured topics until stopped (SIGTERM or Ctrl-C commits what has been read)."""
    settings = settings_of(config, catalog_default)
    status.configure(json=json)
    with _stop_signals(until_stdin_ends=until_stdin_ends) as should_stop:
        try:
            worker = build(settings, should_stop=should_stop, exit_at_end=exit_at_end)
            with watched(settings.status.listen, worker.document):
                clean = worker.run()
        except ConfigError as error:
            fail(str(error), 2)
        except TableFormatError as error:
            fail(f"ingest stopped: {error}", 1)
    for topic, reason in worker.stopped.items():
        typer.echo(f"error: topic {topic}: {reason}", err=True)
    raise typer.Exit(0 if clean else 1)


@app.command()
def validate(config: Config, json: Json = False) -> None:
    """Check the configuration against brokers, registry and catalog, without writing anything."""
    settings = settings_of(config)
    status.configure(json=json)
    findings = check.run(settings)
    if json:
        typer.echo(orjson.dumps([finding.document() for finding in findings]).decode())
    else:
        for finding in findings:
            typer.echo(f"{'ok   ' if finding.ok else 'ERROR'} {finding.what}: {finding.detail}")
    raise typer.Exit(0 if all(finding.ok for finding in findings) else 1)


operations.attach(app)
app.add_typer(topic_commands.app)


@contextmanager
def _stop_signals(*, until_stdin_ends: bool) -> Iterator[Callable[[], bool]]:
    """SIGTERM and SIGINT ask for an orderly end, a second one ends at once; so does a server that runs us, by stdin."""
    asked: list[int] = []

    def watch() -> None:
        # os.read, not sys.stdin: a buffered reader is locked while it waits, which breaks the interpreter's exit.
        while os.read(0, 1024):
            pass
        asked.append(0)

    if until_stdin_ends:
        threading.Thread(target=watch, name="stdin-watch", daemon=True).start()

    def ask(number: int, _frame: FrameType | None) -> None:
        if asked:
            sys.exit(128 + number)
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
