"""Topics registered at a running server by the command line, and ingested by its child."""

import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import Result
from confluent_kafka import Producer
from typer.testing import CliRunner

from ingest_plugin.cli import app
from table_format.errors import NotFound
from table_format.ident import TableIdent
from table_format.io.resolve import store_for
from table_format.rest import RestCatalog
from table_format.scan.deletes import read_task
from table_format.scan.plan import snapshot_files
from tests.fakes.mock_cluster import mock_cluster
from tests.process.servers import Server, serving

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


def numbers(server: Server, table: str) -> Counter[int]:
    try:
        found = RestCatalog(server.iceberg, "default").load(TableIdent.of("demo", table))
    except NotFound:
        return Counter()
    store = store_for(found.metadata.location, found.config)
    return Counter(
        row["n"]
        for task in snapshot_files(store, found.metadata).tasks
        for batch in read_task(store, task, found.metadata)
        for row in batch.to_pylist()
    )


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)


class Site:
    """A broker, a server that runs ingest, and the commands."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.embedded = directory / "embedded.toml"
        self.commands = directory / "commands.toml"
        self.embedded.write_text(self.text(""))

    def text(self, catalog: str) -> str:
        return (
            f'{catalog}[kafka]\n"bootstrap.servers" = "{self.bootstrap}"\nassignment = "all"\n'
            "[discovery]\nregistered = true\ninterval_seconds = 0.5\n"
        )

    def produce(self, topic: str, first: int, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(first, first + count):
            producer.produce(topic, orjson.dumps({"n": number}), partition=number % 4)
        assert producer.flush(20) == 0

    def topic(self, *arguments: str, typed: str = "") -> Result:
        """A command, in this process: the server is another one."""
        line = ["topic", *arguments, "--config", str(self.commands)]
        return CliRunner().invoke(app, line, input=typed)

    def json(self, *arguments: str) -> Any:
        done = self.topic(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


def test_topics_are_registered_changed_and_removed_while_ingest_runs(tmp_path: Path) -> None:
    with mock_cluster() as bootstrap:
        site = Site(tmp_path, bootstrap)
        env = {"FRAZIL_INGEST__ENABLED": "true", "FRAZIL_INGEST__CONFIG": str(site.embedded)}
        with serving(tmp_path / "server", env=env) as server:
            site.commands.write_text(site.text(f'[catalog]\nuri = "{server.iceberg}"\n'))
            _play(site, server)


def _play(site: Site, server: Server) -> None:
    keys = ["namespace=demo", "automq.table.topic.convert.value.type=json", "commit.interval.ms=300"]
    site.produce("flights", 0, 200)
    site.produce("orders.v1", 0, 40)
    added = site.topic("add", "flights", *keys)
    assert (added.exit_code, added.stderr) == (0, "")
    assert "flights is registered" in added.stdout
    again = site.topic("add", "flights", *keys)
    assert (again.exit_code, "registered already" in again.stderr) == (1, True)
    until(lambda: numbers(server, "flights") == Counter(range(200)))
    wrong = site.topic("add", "orders.v1", *keys, "partition.by=[day(")
    assert (wrong.exit_code, "partition.by" in wrong.stderr) == (1, True)
    site.json("add", "orders.v1", *keys, "table=orders", "fields.exclude=[x, y]", 'schema={ extra = "add" }')
    until(lambda: numbers(server, "orders") == Counter(range(40)))
    assert [each["topic"] for each in site.json("list")] == ["flights", "orders.v1"]
    assert "orders.v1" in site.topic("list").stdout
    told = site.json("set", "orders.v1", "commit.interval.ms=500", "--unset", "fields.exclude")["settings"]
    assert told == {
        "namespace": "demo",
        "convert.value.type": "json",
        "commit.interval.ms": "500",
        "table": "orders",
        "schema": {"extra": "add"},
    }
    site.produce("orders.v1", 40, 40)
    until(lambda: numbers(server, "orders") == Counter(range(80)))
    kept = site.topic("remove", "orders.v1", typed="n\n")
    assert (kept.exit_code, "nothing was changed" in kept.stderr) == (1, True)
    assert site.topic("remove", "orders.v1", "--yes").exit_code == 0
    site.produce("flights", 200, 200)
    until(lambda: numbers(server, "flights") == Counter(range(400)))
    assert numbers(server, "orders") == Counter(range(80))
    changes = site.json("history", "orders.v1")
    assert [each["after"] is None for each in changes] == [True, False, False]
    told = site.topic("history").stdout
    assert "removed" in told
    assert f"{datetime.fromtimestamp(changes[0]['atMs'] / 1000, tz=UTC):%Y-%m-%d}" in told
    missing = site.topic("show", "orders.v1")
    assert (missing.exit_code, "is not registered" in missing.stderr) == (1, True)
    status = CliRunner().invoke(app, ["status", "--config", str(site.commands), "--json"])
    assert [(each["topic"], each["state"]) for each in json.loads(status.stdout)] == [("flights", "ok")]
