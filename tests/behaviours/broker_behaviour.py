"""What every broker adapter does, whatever is behind it. Subclasses provide `harness`."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from ingest_plugin.kafka import Broker, Message, TopicPartition


class Harness(Protocol):
    """A cluster with an empty topic of two partitions, and consumers on it."""

    topic: str

    def broker(self) -> Broker: ...

    def produce(self, partition: int, values: Sequence[bytes | None], topic: str | None = None) -> None: ...

    def another(self) -> str:
        """One more topic of the kind."""
        ...

    def configure(self, topic: str, key: str, value: str) -> bool:
        """Set something on a topic itself; False where the cluster has no such settings."""
        ...


def gather(broker: Broker, enough: Callable[[list[Message]], bool], seconds: float = 20.0) -> list[Message]:
    """Poll until there is enough."""
    found: list[Message] = []
    end = time.monotonic() + seconds
    while not enough(found):
        assert time.monotonic() < end, f"only {len(found)} messages"
        found.extend(broker.poll(100, 0.1).messages)
    return found


def assigned(broker: Broker, harness: Harness, count: int = 2) -> list[TopicPartition]:
    broker.open([harness.topic], lambda _places, _lost: None)
    found: list[TopicPartition] = []
    end = time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < end
        polled = broker.poll(100, 0.1)
        assert not polled.messages, "an assigned partition delivers nothing before it is started"
        found.extend(polled.assigned)
    return sorted(found)


class BrokerBehaviour:
    def test_topics_and_watermarks(self, harness: Harness) -> None:
        broker = harness.broker()
        info = broker.topic(harness.topic)
        assert info is not None
        assert set(info.partitions) >= {0, 1}
        harness.produce(0, [b"a", b"b"])
        assert broker.watermarks(TopicPartition(harness.topic, 0)) == (0, 2)
        assert broker.watermarks(TopicPartition(harness.topic, 1)) == (0, 0)
        places = [TopicPartition(harness.topic, partition) for partition in (0, 1)]
        assert broker.ends(places) == dict(zip(places, (2, 0), strict=True))
        assert broker.ends([]) == {}
        broker.close()

    def test_nothing_is_delivered_before_a_start(self, harness: Harness) -> None:
        harness.produce(0, [b"a"])
        broker = harness.broker()
        assert TopicPartition(harness.topic, 0) in assigned(broker, harness)
        assert [broker.poll(100, 0.1).messages for _ in range(3)] == [[], [], []]
        broker.close()

    def test_partitions_start_where_they_are_told(self, harness: Harness) -> None:
        harness.produce(0, [b"%d" % n for n in range(10)])
        harness.produce(1, [b"x", b"y"])
        broker = harness.broker()
        assigned(broker, harness)
        zero, one = TopicPartition(harness.topic, 0), TopicPartition(harness.topic, 1)
        broker.start({zero: 7})
        found = gather(broker, lambda found: len(found) >= 3)
        assert [(m.partition(), m.offset(), m.value()) for m in found] == [
            (0, 7, b"7"),
            (0, 8, b"8"),
            (0, 9, b"9"),
        ]
        broker.start({one: 1})
        found = gather(broker, lambda found: len(found) >= 1)
        assert [(m.partition(), m.offset(), m.value()) for m in found] == [(1, 1, b"y")]
        assert (broker.position(zero), broker.position(one)) == (10, 2)
        broker.close()

    def test_a_running_partition_is_moved_and_stopped(self, harness: Harness) -> None:
        harness.produce(0, [b"%d" % n for n in range(5)])
        broker = harness.broker()
        assigned(broker, harness)
        zero = TopicPartition(harness.topic, 0)
        broker.start({zero: 0})
        gather(broker, lambda found: len(found) >= 5)
        broker.start({zero: 2})
        assert [m.offset() for m in gather(broker, lambda found: len(found) >= 3)] == [2, 3, 4]
        broker.stop([zero])
        harness.produce(0, [b"5"])
        assert [broker.poll(100, 0.1).messages for _ in range(3)] == [[], [], []]
        assert broker.position(zero) is None
        broker.start({zero: 5})
        assert [m.offset() for m in gather(broker, lambda found: len(found) >= 1)] == [5]
        broker.close()

    def test_a_null_value_and_a_null_key_stay_null(self, harness: Harness) -> None:
        harness.produce(0, [None, b""])
        broker = harness.broker()
        assigned(broker, harness)
        broker.start({TopicPartition(harness.topic, 0): 0})
        found = gather(broker, lambda found: len(found) >= 2)
        assert [(m.value(), m.key()) for m in found] == [(None, None), (b"", None)]
        broker.close()

    def test_a_position_that_the_log_does_not_have_is_broken(self, harness: Harness) -> None:
        harness.produce(0, [b"a"])
        broker = harness.broker()
        assigned(broker, harness)
        zero = TopicPartition(harness.topic, 0)
        broker.start({zero: 50})
        end = time.monotonic() + 20
        broken: dict[TopicPartition, str] = {}
        while zero not in broken:
            assert time.monotonic() < end
            broken |= broker.poll(100, 0.1).broken
        assert "no longer has the next offset" in broken[zero]
        broker.close()

    def test_progress_notes_do_not_matter(self, harness: Harness) -> None:
        harness.produce(0, [b"a", b"b"])
        broker = harness.broker()
        assigned(broker, harness)
        zero = TopicPartition(harness.topic, 0)
        broker.note_progress({zero: 2})
        broker.start({zero: 0})
        assert len(gather(broker, lambda found: len(found) >= 2)) == 2
        broker.note_progress({})
        broker.close()

    def test_topics_come_and_go_while_others_are_read(self, harness: Harness) -> None:
        other = harness.another()
        broker = harness.broker()
        assert {harness.topic, other} <= set(broker.topics())
        assigned(broker, harness)
        broker.subscribe([harness.topic, other])
        found: set[TopicPartition] = set()
        end = time.monotonic() + 30
        while TopicPartition(other, 0) not in found:
            assert time.monotonic() < end
            found.update(broker.poll(100, 0.1).assigned)
        harness.produce(0, [b"a"])
        harness.produce(0, [b"b"], topic=other)
        # A group may have given our partitions up and back: what is ours is started where we are told, again.
        broker.start({TopicPartition(harness.topic, 0): 0, TopicPartition(other, 0): 0})
        messages = gather(broker, lambda found: len({m.topic() for m in found}) == 2)
        assert {(m.topic(), m.value()) for m in messages} == {(harness.topic, b"a"), (other, b"b")}
        broker.subscribe([harness.topic])
        harness.produce(0, [b"c"], topic=other)
        while broker.position(TopicPartition(other, 0)) is not None:
            assert time.monotonic() < end + 30
            broker.poll(100, 0.1)
        assert all(m.topic() == harness.topic for _ in range(3) for m in broker.poll(100, 0.1).messages)
        broker.close()

    def test_settings_of_a_topic_are_those_that_were_set_on_it(self, harness: Harness) -> None:
        other = harness.another()
        broker = harness.broker()
        assert broker.own_settings([harness.topic, other], "retention.") == {}
        if harness.configure(harness.topic, "retention.ms", "86400001"):
            harness.configure(harness.topic, "segment.ms", "86400002")
            names = [harness.topic, other, "there-is-no-such-topic"]
            end = time.monotonic() + 20
            while not (found := broker.own_settings(names, "retention.")):
                assert time.monotonic() < end
            assert found == {harness.topic: {"retention.ms": "86400001"}}
        # No stock broker takes AutoMQ's keys.
        assert broker.own_settings([harness.topic], "automq.table.topic.") == {}
        broker.close()

    def test_nothing_may_be_read_for_a_while(self, harness: Harness) -> None:
        broker = harness.broker()
        broker.open([], lambda _places, _lost: None)
        assert [broker.poll(100, 0.1).assigned for _ in range(2)] == [[], []]
        broker.subscribe([harness.topic])
        found: list[TopicPartition] = []
        end = time.monotonic() + 30
        while len(found) < 2:
            assert time.monotonic() < end
            found.extend(broker.poll(100, 0.1).assigned)
        broker.close()
