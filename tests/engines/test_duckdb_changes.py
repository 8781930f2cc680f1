"""DuckDB reads tables kept by key while their deletes are files beside the rows."""

from collections.abc import Callable
from typing import Any

import duckdb
import orjson
import pytest
import structlog

from ingest_plugin.assembly import assemble, catalog_of
from ingest_plugin.settings import load
from table_format.clock import SystemClock, SystemIds
from table_format.io.resolve import store_for
from tests.factories.change_logs import KEYED, LAYOUTS
from tests.fakes.broker import FakeBroker, FakeCluster, FakeOutbox
from tests.process.servers import Server

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def ingest(server: Server, cluster: FakeCluster, topic: str, keys: dict[str, Any]) -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    document = {
        "catalog": {"uri": server.iceberg},
        "kafka": {"bootstrap.servers": "unused"},
        "topics": {topic: {"namespace": "changes", "convert.value.type": "json", **keys}},
    }
    settings, clock = load(None, {}, document=document), SystemClock()
    worker = assemble(
        settings,
        broker=FakeBroker(cluster, clock),
        outbox=FakeOutbox(cluster),
        catalog=catalog_of(settings.catalog),
        store_for=store_for,
        clock=clock,
        ids=SystemIds(),
        should_stop=lambda: False,
        exit_at_end=True,
    )
    worker.run()
    structlog.reset_defaults()
    assert worker.stopped == {}


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_the_rows_left(server: Server, connect: Callable[[], duckdb.DuckDBPyConnection], layout: str) -> None:
    topic = layout.replace(" ", "_")
    cluster = FakeCluster()
    cluster.create(topic)

    def put(key: int, place: str, version: int) -> None:
        row = {"id": key, "place": place, "version": version}
        cluster.produce(topic, orjson.dumps(row), key=str(key).encode())

    for key in range(6):
        put(key, "a", 1)
    ingest(server, cluster, topic, {**KEYED, **LAYOUTS[layout]})
    put(1, "b", 2)
    put(2, "a", 2)
    cluster.produce(topic, None, key=b"3")
    ingest(server, cluster, topic, {**KEYED, **LAYOUTS[layout]})
    put(1, "a", 3)
    put(3, "b", 3)
    ingest(server, cluster, topic, {**KEYED, **LAYOUTS[layout]})
    found = connect().execute(f"SELECT id, place, version FROM lake.changes.{topic} ORDER BY id").fetchall()
    assert found == [(0, "a", 1), (1, "a", 3), (2, "a", 2), (3, "b", 3), (4, "a", 1), (5, "a", 1)]
