"""Ingest put together over fakes: a cluster, a catalog, a store, and any number of workers over them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from ingest_plugin.assembly import assemble
from ingest_plugin.kafka import TopicPartition
from ingest_plugin.registered import RegisteredTopics
from ingest_plugin.settings import IngestSettings, load
from ingest_plugin.worker import Worker
from table_format.catalog import LoadedTable
from table_format.ident import TableIdent
from table_format.io.memory import MemoryObjectStore
from table_format.io.store import ObjectStore
from table_format.scan.deletes import read_task
from table_format.scan.plan import snapshot_files
from tests.fakes.broker import FakeBroker, FakeCluster, FakeOutbox
from tests.fakes.catalog import FakeCatalog
from tests.fakes.clock import CountingIds, ManualClock

Row = dict[str, Any]


def settings_of(document: Mapping[str, Any]) -> IngestSettings:
    """Settings from a document as the TOML file would give it."""
    environ = {
        "FRAZIL_INGEST__CATALOG__URI": "http://unused",
        "FRAZIL_INGEST__KAFKA__BOOTSTRAP_SERVERS": "unused",
    }
    return load(None, environ, document=document)


class Lab:
    """Everything but Kafka, HTTP and time."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        topic: str = "flights",
        with_ids: bool = True,
        store: ObjectStore | None = None,
        location: str = "memory://warehouse",
        **keys: Any,
    ) -> None:
        self.topic = topic
        self.clock = ManualClock()
        self.ids = CountingIds()
        self.store: ObjectStore = store or MemoryObjectStore(self.clock)
        self.catalog = FakeCatalog(self.store, self.clock, self.ids, location=location)
        self.cluster = FakeCluster(with_ids=with_ids)
        self.cluster.create(topic, partitions)
        self.keys: dict[str, Any] = {
            "namespace": "demo",
            "convert.value.type": "json",
            "commit.interval.ms": 1000,
            **keys,
        }
        self.document: dict[str, Any] = {"topics": {topic: self.keys}}
        self.registered: RegisteredTopics | None = None

    @property
    def ident(self) -> TableIdent:
        return TableIdent.of("demo", self.topic)

    def json(self, *values: object, partition: int = 0) -> None:
        for value in values:
            self.cluster.produce(
                self.topic, orjson.dumps(value), partition=partition, timestamp_ms=1_700_000_000_000
            )

    def worker(
        self,
        *,
        broker: FakeBroker | None = None,
        exit_at_end: bool = True,
        should_stop: Callable[[], bool] = lambda: False,
        share: Iterable[int] | None = None,
    ) -> Worker:
        places = None if share is None else [TopicPartition(self.topic, partition) for partition in share]
        return assemble(
            settings_of(self.document),
            broker=broker or FakeBroker(self.cluster, self.clock, places),
            outbox=FakeOutbox(self.cluster),
            catalog=self.catalog,
            store_for=lambda _location, _config: self.store,
            clock=self.clock,
            ids=self.ids,
            should_stop=should_stop,
            exit_at_end=exit_at_end,
            registered=self.registered,
        )

    def run(self, **options: Any) -> Worker:
        worker = self.worker(**options)
        worker.run()
        return worker

    def table(self, ident: TableIdent | None = None) -> LoadedTable:
        return self.catalog.load(ident or self.ident)

    def rows(self, ident: TableIdent | None = None) -> list[Row]:
        """All rows, in the order of the log where they say it."""
        table = self.table(ident)
        found = [
            row
            for task in snapshot_files(self.store, table.metadata).tasks
            for batch in read_task(self.store, task, table.metadata)
            for row in batch.to_pylist()
        ]
        return sorted(found, key=_place)

    def values(self, *names: str) -> list[Any]:
        """The values of one column, or tuples of several."""
        rows = self.rows()
        return [row[names[0]] if len(names) == 1 else tuple(row[name] for name in names) for row in rows]

    def dead_letters(self) -> list[Row]:
        return self.rows(TableIdent(self.ident.namespace, f"{self.ident.name}__dead_letters"))

    def summary(self) -> dict[str, str]:
        head = self.table().metadata.current_snapshot
        assert head is not None
        summary: dict[str, str] = head["summary"]
        return summary

    def columns(self) -> dict[str, Any]:
        return {field["name"]: field["type"] for field in self.table().metadata.schema()["fields"]}


def _place(row: Row) -> tuple[int, int]:
    where = row.get("_kafka_metadata") or row
    return where.get("partition") or 0, where.get("offset") or 0
