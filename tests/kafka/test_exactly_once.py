"""Exactly once while the brokers are the trouble: restarts, storms of rebalances, new partitions, compaction."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import orjson
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from ingest_plugin.worker import Worker
from table_format.errors import NoSuchTable
from tests.kafka.real_broker import RealBroker
from tests.kafka.test_real_broker import Site, create, delete

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]


@pytest.fixture
def site(broker: str) -> Site:
    return Site(broker)


@contextmanager
def running(site: Site) -> Iterator[Worker]:
    """A worker in a thread, for the length of the block."""
    stop = threading.Event()
    worker = site.worker(exit_at_end=False, should_stop=stop.is_set)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()


def eventually(what: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.1)


def there(site: Site) -> int:
    try:
        return sum(site.numbers().values())
    except NoSuchTable:
        return 0


def test_the_broker_is_killed_and_comes_back(site: Site, kafka: RealBroker) -> None:
    with running(site) as worker:
        site.produce(0, 300)
        eventually(lambda: there(site) == 300)
        kafka.kill()
        kafka.start()
        site.produce(300, 300)
        eventually(lambda: there(site) >= 600)
        assert worker.stopped == {}
    assert site.numbers() == Counter(range(600))


def test_workers_join_and_leave_all_the_time(site: Site) -> None:
    """Progress never stops for good, and nothing is lost or doubled."""
    produced = 0
    for _ in range(5):
        with running(site), running(site):
            site.produce(produced, 300)
            produced += 300
            eventually(lambda before=produced - 300: there(site) > before)
    site.run()
    assert site.numbers() == Counter(range(produced))


def test_partitions_added_while_it_runs(site: Site) -> None:
    site.kafka["topic.metadata.refresh.interval.ms"] = 500
    with running(site) as worker:
        site.produce(0, 300)
        eventually(lambda: there(site) == 300)
        admin = AdminClient({"bootstrap.servers": site.bootstrap})
        admin.create_partitions([NewPartitions(site.topic, 5)])[site.topic].result(20)
        fresh = Producer({"bootstrap.servers": site.bootstrap})  # the other one does not know them yet
        for number in range(300, 400):
            fresh.produce(site.topic, orjson.dumps({"n": number}), partition=3 + number % 2)
        assert fresh.flush(20) == 0
        eventually(lambda: there(site) >= 400)
        assert worker.stopped == {}
    assert site.numbers() == Counter(range(400))


def test_a_recreated_topic_is_read_from_its_beginning_where_that_is_wanted(site: Site) -> None:
    site.keys["on.topic.recreated"] = "restart"
    site.produce(0, 90)
    assert site.run().stopped == {}
    delete(site.bootstrap, site.topic)
    admin = AdminClient({"bootstrap.servers": site.bootstrap})
    eventually(lambda: site.topic not in admin.list_topics(timeout=10).topics)
    create(site.bootstrap, site.topic, 3)
    # More than before: the old offsets lie within the new topic, and a stock consumer would go on there.
    site.produce(100, 300)
    assert site.run().stopped == {}
    assert site.numbers() == Counter([*range(90), *range(100, 400)])


def test_a_compacted_topic_is_the_last_value_of_each_key(broker: str) -> None:
    """Offsets that compaction took away are gaps, whether ingest saw their records or not."""
    site = Site(broker)
    site.topic = f"{site.topic}-compacted"
    site.kafka["group"] = site.topic
    admin = AdminClient({"bootstrap.servers": broker})
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "100",
        "max.compaction.lag.ms": "200",
    }
    admin.create_topics([NewTopic(site.topic, 1, 1, config=config)])[site.topic].result(20)
    site.keys |= {"upsert.enable": True, "id.columns": "k"}
    site.ident = type(site.ident).of("demo", site.topic)

    def write(first: int, count: int) -> None:
        for number in range(first, first + count):
            key = number % 7
            gone = number % 5 == 4
            value = None if gone else orjson.dumps({"k": key, "n": number})
            site.producer.produce(site.topic, value, str(key))
            state.pop(key, None) if gone else state.update({key: number})
        assert site.producer.flush(20) == 0

    state: dict[int, int] = {}
    write(0, 100)
    assert site.run().stopped == {}
    assert {row["k"]: row["n"] for row in site.rows()} == state
    write(100, 100)
    end = 200

    def compacted() -> bool:
        nonlocal end
        write(end, 1)  # a record begins a new segment once the last one is old enough
        end += 1
        return records_kept(broker, site.topic) < 100

    eventually(compacted)
    assert site.run().stopped == {}
    assert {row["k"]: row["n"] for row in site.rows()} == state
    assert len(site.rows()) == len(state)


def records_kept(bootstrap: str, topic: str) -> int:
    """How many records of partition 0 can still be read."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "count", "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    count = 0
    while True:
        for message in consumer.consume(1000, 5):
            if message.error() is not None:
                consumer.close()
                return count
            count += 1
