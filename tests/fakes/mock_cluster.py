"""librdkafka's mock cluster: a broker inside this process that speaks the real protocol."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer


@contextmanager
def mock_cluster() -> Iterator[str]:
    """The bootstrap address of a cluster that lives as long as the block."""
    owner = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = owner.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    owner.flush(1)
    del owner
