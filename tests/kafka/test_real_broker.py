"""Ingest against a real Kafka broker: what librdkafka's mock does not have."""

import io
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import fastavro
import orjson
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public by its documents
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from ingest_plugin.assembly import assemble, broker_of, outbox_of
from ingest_plugin.confluent import ConfluentBroker
from ingest_plugin.kafka import Broker
from ingest_plugin.kafka import TopicPartition as Place
from ingest_plugin.registered import RegisteredTopics
from ingest_plugin.settings import KafkaSettings, load
from ingest_plugin.tables import find
from ingest_plugin.worker import Worker
from table_format.clock import SystemClock, SystemIds
from table_format.ident import TableIdent
from table_format.io.memory import MemoryObjectStore
from table_format.scan.deletes import read_task
from table_format.scan.plan import snapshot_files
from tests.behaviours.broker_behaviour import BrokerBehaviour, Harness
from tests.fakes.catalog import FakeCatalog
from tests.fakes.registry import FakeRegistry, serve

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


def create(bootstrap: str, name: str, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(20)
    while len(admin.list_topics(name, timeout=10).topics[name].partitions) < partitions:
        time.sleep(0.05)


def delete(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([name])[name].result(20)


class RealHarness:
    def __init__(self, bootstrap: str, assignment: str, **client: str) -> None:
        self.topic = f"t.{uuid.uuid4().hex[:8]}"
        create(bootstrap, self.topic)
        self._settings = KafkaSettings.model_validate(
            {
                "group": self.topic,
                "assignment": assignment,
                "client": {"bootstrap.servers": bootstrap, "log_level": "0", **client},
            }
        )
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})

    def broker(self) -> Broker:
        return ConfluentBroker(self._settings)

    def produce(self, partition: int, values: Sequence[bytes | None], topic: str | None = None) -> None:
        for value in values:
            self._producer.produce(topic or self.topic, value, partition=partition)
        assert self._producer.flush(20) == 0

    def another(self) -> str:
        name = f"u.{uuid.uuid4().hex[:8]}"
        create(self._settings.client["bootstrap.servers"], name)
        return name

    def configure(self, topic: str, key: str, value: str) -> bool:
        admin = AdminClient({"bootstrap.servers": self._settings.client["bootstrap.servers"]})
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([wanted])[wanted].result(20)
        return True


MODES: dict[str, dict[str, str]] = {
    "all": {"assignment": "all"},
    "group": {"assignment": "group"},
    "cooperative": {"assignment": "group", "partition.assignment.strategy": "cooperative-sticky"},
    "kip-848": {"assignment": "group", "group.protocol": "consumer"},
}


class TestConfluentBrokerOnRealKafka(BrokerBehaviour):
    @pytest.fixture(params=list(MODES))
    def harness(self, broker: str, request: pytest.FixtureRequest) -> Harness:
        return RealHarness(broker, **MODES[request.param])


class Site:
    """A catalog and store for workers over the real broker."""

    def __init__(self, bootstrap: str, partitions: int = 3) -> None:
        self.bootstrap = bootstrap
        self.topic = f"flights-{uuid.uuid4().hex[:8]}"
        create(bootstrap, self.topic, partitions)
        self.clock, self.ids = SystemClock(), SystemIds()
        self.store = MemoryObjectStore(self.clock)
        self.catalog = FakeCatalog(self.store, self.clock, self.ids)
        self.ident = TableIdent.of("demo", self.topic)
        self.keys: dict[str, Any] = {
            "namespace": "demo",
            "convert.value.type": "json",
            "commit.interval.ms": 300,
        }
        self.kafka: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group": self.topic,
            "session.timeout.ms": 6000,
        }
        self.registry: FakeRegistry | None = None
        self.patterns: dict[str, Any] = {}
        self.registered: RegisteredTopics | None = None
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})

    def worker(self, *, exit_at_end: bool = True, should_stop: Callable[[], bool] = lambda: False) -> Worker:
        document: dict[str, Any] = {
            "catalog": {"uri": "http://unused"},
            "kafka": self.kafka,
            "discovery": {"interval_seconds": 0.5},
        }
        if self.registered is not None:
            document["discovery"]["registered"] = True
        elif self.patterns:
            document["patterns"] = self.patterns
        else:
            document["topics"] = {self.topic: self.keys}
        if self.registry is not None:
            document["registry"] = {"url": self.registry.url}
        settings = load(None, {}, document=document)
        return assemble(
            settings,
            broker=broker_of(settings),
            outbox=outbox_of(settings),
            catalog=self.catalog,
            store_for=lambda _location, _config: self.store,
            clock=self.clock,
            ids=self.ids,
            should_stop=should_stop,
            exit_at_end=exit_at_end,
            registered=self.registered,
        )

    def run(self) -> Worker:
        worker = self.worker()
        worker.run()
        return worker

    def produce(self, first: int, count: int, partitions: int = 3) -> None:
        for number in range(first, first + count):
            self.producer.produce(self.topic, orjson.dumps({"n": number}), partition=number % partitions)
        assert self.producer.flush(20) == 0

    def rows(self, table: str = "") -> list[dict[str, Any]]:
        """What is in a table, the topic's if no other is named; nothing while there is none."""
        found = find(self.catalog, TableIdent.of("demo", table or self.topic))
        if found is None:
            return []
        metadata = found.metadata
        return [
            row
            for task in snapshot_files(self.store, metadata).tasks
            for batch in read_task(self.store, task, metadata)
            for row in batch.to_pylist()
        ]

    def numbers(self, table: str = "") -> Counter[int]:
        return Counter(row["n"] for row in self.rows(table))

    def summary(self) -> dict[str, str]:
        head = self.catalog.load(self.ident).metadata.current_snapshot
        assert head is not None
        summary: dict[str, str] = head["summary"]
        return summary


@pytest.fixture
def site(broker: str) -> Site:
    return Site(broker)


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve() as running:
        yield running


def test_json_is_ingested_once_and_goes_on_after_a_restart(site: Site) -> None:
    site.produce(0, 3000)
    assert site.run().stopped == {}
    assert site.numbers() == Counter(range(3000))
    summary = site.summary()
    assert orjson.loads(summary["ingest.offsets"]) == {site.topic: {"0": 1000, "1": 1000, "2": 1000}}
    assert summary["ingest.topic-id"]
    assert summary["ingest.cluster-id"]
    site.produce(3000, 100)
    assert site.run().stopped == {}
    assert site.numbers() == Counter(range(3100))


def test_avro_is_ingested_with_schema_changes(site: Site, registry: FakeRegistry) -> None:
    site.registry = registry
    site.keys["convert.value.type"] = "by_schema_id"
    before = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    after = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "n", "type": "long"},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        ],
    }
    for number in range(200):
        schema, value = (before, {"n": number}) if number < 100 else (after, {"n": number, "at": number})
        schema_id = registry.register(f"{site.topic}-value", schema)
        body = io.BytesIO(b"\0" + schema_id.to_bytes(4, "big"))
        body.seek(5)
        fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
        site.producer.produce(site.topic, body.getvalue(), partition=number % 3)
    site.producer.produce(site.topic, b"\0garbage", partition=0)
    assert site.producer.flush(20) == 0
    assert site.run().stopped == {}
    assert site.numbers() == Counter(range(200))
    types = {
        field["name"]: field["type"] for field in site.catalog.load(site.ident).metadata.schema()["fields"]
    }
    assert (types["n"], types["at"]) == ("long", "timestamptz")


def test_a_group_of_two_with_rebalances(site: Site) -> None:
    """One joins while the other works, one leaves: every record once."""
    stop_first, stop_second = threading.Event(), threading.Event()
    first = site.worker(exit_at_end=False, should_stop=stop_first.is_set)
    second = site.worker(exit_at_end=False, should_stop=stop_second.is_set)
    threads = [threading.Thread(target=first.run), threading.Thread(target=second.run)]
    threads[0].start()
    try:
        for chunk in range(12):
            if chunk == 3:
                threads[1].start()
            if chunk == 8:
                stop_first.set()
            site.produce(chunk * 300, 300)
            time.sleep(0.5)
        end = time.monotonic() + 60
        while sum(site.numbers().values()) < 3600 and time.monotonic() < end:
            time.sleep(0.2)
    finally:
        stop_first.set()
        stop_second.set()
        for thread in threads:
            thread.join(60)
    assert site.numbers() == Counter(range(3600))
    assert first.stopped == second.stopped == {}


def test_aborted_transactions_are_not_ingested(site: Site) -> None:
    producer = Producer({"bootstrap.servers": site.bootstrap, "transactional.id": site.topic})
    producer.init_transactions(60)
    for number in range(4):
        producer.begin_transaction()
        producer.produce(site.topic, orjson.dumps({"n": number}), partition=0)
        producer.flush(20)
        if number % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    assert site.run().stopped == {}
    assert site.numbers() == Counter([0, 2])
    assert site.run().stopped == {}
    assert site.numbers() == Counter([0, 2])


def test_a_recreated_topic_stops_with_a_reason(site: Site) -> None:
    site.produce(0, 30)
    site.run()
    delete(site.bootstrap, site.topic)
    time.sleep(1.5)
    create(site.bootstrap, site.topic, 3)
    site.produce(100, 90)
    (reason,) = site.run().stopped.values()
    assert "filled from another topic" in reason
    assert site.numbers() == Counter(range(30))


def test_records_deleted_before_they_were_ingested_stop_with_a_reason(site: Site) -> None:
    site.produce(0, 30)
    site.run()
    site.produce(30, 30)
    admin = AdminClient({"bootstrap.servers": site.bootstrap})
    for future in admin.delete_records([TopicPartition(site.topic, 1, 15)]).values():
        future.result(20)
    (reason,) = site.run().stopped.values()
    assert "records 10 to 14 were deleted from the log" in reason


def test_partitions_added_to_a_topic_are_discovered(broker: str) -> None:
    harness = RealHarness(broker, "all")
    reader = harness.broker()
    reader.open([harness.topic], lambda _places, _lost: None)
    assert len(reader.poll(1, 0.1).assigned) == 2
    reader.discover()
    assert list(reader.poll(1, 0.1).assigned) == []
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_partitions([NewPartitions(harness.topic, 3)])[harness.topic].result(20)
    added: list[Place] = []
    end = time.monotonic() + 20
    while not added and time.monotonic() < end:
        reader.discover()
        added += reader.poll(1, 0.1).assigned
    assert added == [Place(harness.topic, 2)]
    harness.produce(2, [b"x"])
    reader.start({added[0]: 0})
    found = []
    while not found and time.monotonic() < end:
        found += reader.poll(10, 0.2).messages
    assert [message.value() for message in found] == [b"x"]
    reader.close()


@pytest.mark.parametrize("mode", list(MODES))
def test_topics_of_a_pattern_are_read_as_they_come_and_go(site: Site, mode: str) -> None:
    """One more topic while the first is read: each record once, and a deleted topic is told."""
    late = f"{site.topic}-late"
    site.kafka |= MODES[mode]
    if mode == "kip-848":
        del site.kafka["session.timeout.ms"]
    site.patterns = {"all": {"glob": f"{site.topic}*", **site.keys}}
    stop = threading.Event()
    worker = site.worker(exit_at_end=False, should_stop=stop.is_set)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        site.produce(0, 300)
        until(lambda: site.numbers() == Counter(range(300)))
        create(site.bootstrap, late, 2)
        for number in range(100):
            site.producer.produce(late, orjson.dumps({"n": number}), partition=number % 2)
        site.produce(300, 300)
        until(lambda: site.numbers(late) == Counter(range(100)))
        until(lambda: site.numbers() == Counter(range(600)))
        delete(site.bootstrap, late)
        until(lambda: late in worker.stopped)
        site.produce(600, 30)
        until(lambda: site.numbers() == Counter(range(630)))
    finally:
        stop.set()
        thread.join(60)
    assert "does not exist any more" in worker.stopped[late]
    assert (site.numbers(), site.numbers(late)) == (Counter(range(630)), Counter(range(100)))


def read_all(bootstrap: str, topic: str) -> list[Any]:
    """What is in a topic, committed records only."""
    harness = ConfluentBroker(
        KafkaSettings.model_validate(
            {"group": topic, "assignment": "all", "client": {"bootstrap.servers": bootstrap}}
        )
    )
    harness.open([topic], lambda _places, _lost: None)
    places = harness.poll(1, 0.1).assigned
    harness.start(dict.fromkeys(places, 0))
    count = sum(harness.watermarks(place)[1] for place in places)
    found: list[Any] = []
    until(lambda: len(found) >= count or (not found.extend(harness.poll(1000, 0.2).messages) and False))
    harness.close()
    return found


def test_dead_letters_go_to_a_topic_of_the_brokers(site: Site) -> None:
    """Waited for while the topic is missing, as they were when it is there, each once; too large is told."""
    letters = f"{site.topic}-letters"
    site.keys["errors.deadletter.topic"] = letters
    site.produce(0, 30)
    for number in range(300):
        site.producer.produce(site.topic, b"{%d" % number, key=b"k", headers=[("h", None)], partition=0)
    assert site.producer.flush(20) == 0
    stop = threading.Event()
    worker = site.worker(exit_at_end=False, should_stop=stop.is_set)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        until(lambda: "dead letters cannot be produced" in str(worker.document()[site.topic]))
        assert site.rows() == []
        create(site.bootstrap, letters, 2)
        until(lambda: site.numbers() == Counter(range(30)))
    finally:
        stop.set()
        thread.join(90)
    assert worker.stopped == {}
    found = read_all(site.bootstrap, letters)
    offsets = [int(dict(message.headers())["__connect.errors.offset"]) for message in found]
    assert sorted(offsets) == list(range(10, 310))
    assert {message.value() for message in found} == {b"{%d" % number for number in range(300)}
    assert {(message.key(), message.headers()[0]) for message in found} == {(b"k", ("h", None))}
    assert site.run().stopped == {}
    assert len(read_all(site.bootstrap, letters)) == 300
    admin = AdminClient({"bootstrap.servers": site.bootstrap})
    small = f"{site.topic}-small"
    admin.create_topics([NewTopic(small, 1, 1, config={"max.message.bytes": "500"})])[small].result(20)
    site.keys["errors.deadletter.topic"] = small
    site.producer.produce(site.topic, b"{" * 1000, partition=1)
    assert site.producer.flush(20) == 0
    (reason,) = site.run().stopped.values()
    assert "1 dead letters cannot be produced" in reason
    assert site.numbers() == Counter(range(30))


class Told:
    """Registrations that the test changes while workers run."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, Any]] = {}

    def of(self, group: str) -> Mapping[str, Mapping[str, Any]]:
        return dict(self.topics)


@pytest.mark.parametrize("mode", ["group", "cooperative"])
def test_two_workers_follow_registrations_and_each_record_is_there_once(site: Site, mode: str) -> None:
    """Added, changed, removed and added again, while records flow and each worker notices in its own time."""
    site.kafka |= MODES[mode]
    site.registered = told = Told()
    other = f"{site.topic}-other"
    create(site.bootstrap, other, 2)
    stop = threading.Event()
    workers = [site.worker(exit_at_end=False, should_stop=stop.is_set) for _ in range(2)]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    produced = 0

    def has(count: int) -> bool:
        return site.numbers() == Counter(range(count))

    def produce(topic: str, count: int) -> None:
        for number in range(produced, produced + count):
            site.producer.produce(topic, orjson.dumps({"n": number}), partition=number % 2)
        assert site.producer.flush(20) == 0

    try:
        for round_ in range(6):
            both = {site.topic: site.keys, other: {**site.keys, "commit.interval.ms": 200 + round_}}
            told.topics = both if round_ % 2 == 0 else {site.topic: site.keys}
            produce(site.topic, 200)
            produce(other, 200)
            produced += 200
            until(partial(has, produced))
        told.topics = both
        until(lambda: site.numbers(other) == Counter(range(produced)))
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert [worker.stopped for worker in workers] == [{}, {}]
    assert (site.numbers(), site.numbers(other)) == (Counter(range(1200)), Counter(range(1200)))


def until(done: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_questions_are_answered_while_a_fetch_waits(broker: str) -> None:
    """Brokers answer one connection's requests in order: a fetch that waits would make questions time out."""
    harness = RealHarness(broker, "all", **{"fetch.wait.max.ms": "25000"})
    reader = harness.broker()
    reader.open([harness.topic], lambda _places, _lost: None)
    places = reader.poll(1, 0.1).assigned
    reader.start(dict.fromkeys(places, 0))
    for _ in range(4):
        reader.poll(10, 0.25)
    for place in places:
        assert reader.watermarks(place) == (0, 0)
    assert reader.topic(harness.topic) is not None
    reader.close()
