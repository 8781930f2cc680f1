"""The fake broker and the real adapter (over librdkafka's mock cluster) behave alike."""

import uuid
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Producer

from ingest_plugin.confluent import ConfluentBroker
from ingest_plugin.kafka import Broker
from ingest_plugin.settings import KafkaSettings
from tests.behaviours.broker_behaviour import BrokerBehaviour, Harness
from tests.fakes.broker import FakeBroker, FakeCluster
from tests.fakes.clock import ManualClock
from tests.fakes.mock_cluster import mock_cluster


class FakeHarness:
    topic = "t"

    def __init__(self) -> None:
        self._cluster = FakeCluster()
        self._cluster.create(self.topic, 2)

    def broker(self) -> Broker:
        return FakeBroker(self._cluster, ManualClock())

    def produce(self, partition: int, values: Sequence[bytes | None], topic: str | None = None) -> None:
        for value in values:
            self._cluster.produce(topic or self.topic, value, partition=partition)

    def another(self) -> str:
        self._cluster.create("u", 2)
        return "u"

    def configure(self, topic: str, key: str, value: str) -> bool:
        self._cluster.topics[topic].settings[key] = value
        return True


class ClientHarness:
    def __init__(self, bootstrap: str, assignment: str, **client: str) -> None:
        self.topic = f"t-{uuid.uuid4().hex[:8]}"
        self._settings = KafkaSettings.model_validate(
            {
                "group": self.topic,
                "assignment": assignment,
                "client": {"bootstrap.servers": bootstrap, "log_level": "0", **client},
            }
        )
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
        self._producer.list_topics(self.topic, timeout=10)

    def broker(self) -> Broker:
        return ConfluentBroker(self._settings)

    def produce(self, partition: int, values: Sequence[bytes | None], topic: str | None = None) -> None:
        for value in values:
            self._producer.produce(topic or self.topic, value, partition=partition)
        assert self._producer.flush(10) == 0

    def another(self) -> str:
        name = f"u-{uuid.uuid4().hex[:8]}"
        self._producer.list_topics(name, timeout=10)
        return name

    def configure(self, topic: str, key: str, value: str) -> bool:
        return False


class TestFakeBroker(BrokerBehaviour):
    @pytest.fixture
    def harness(self) -> Harness:
        return FakeHarness()


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with mock_cluster() as address:
        yield address


class TestConfluentBroker(BrokerBehaviour):
    @pytest.fixture
    def harness(self, bootstrap: str) -> Harness:
        return ClientHarness(bootstrap, "all")

    def test_a_mock_cluster_has_no_topic_ids(self, harness: Harness) -> None:
        broker = harness.broker()
        info = broker.topic(harness.topic)
        assert info is not None
        assert info.topic_id is None
        assert (broker.cluster_id() or "").startswith("mockCluster")
        broker.close()


class TestConfluentBrokerInAGroup(BrokerBehaviour):
    @pytest.fixture
    def harness(self, bootstrap: str) -> Harness:
        return ClientHarness(bootstrap, "group")
