"""Topics that come, go and change while a worker runs."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from ingest_plugin import offsets
from ingest_plugin.worker import Worker
from table_format.errors import Unavailable
from table_format.ident import TableIdent
from tests.factories.ingest_lab import Lab

INTERVAL = 30


class Shop(Lab):
    """A lab whose topics are found by a pattern, and steps of time at which something happens."""

    def __init__(self, **keys: Any) -> None:
        super().__init__(topic="shop.a", **{"commit.interval.ms": 1000, **keys})
        self.document = {"patterns": {"shop": {"glob": "shop.*", **self.keys}}}

    def produce(self, topic: str, *values: object) -> None:
        for value in values:
            self.cluster.produce(topic, orjson.dumps({"a": value}), timestamp_ms=1_700_000_000_000)

    def numbers(self, table: str) -> list[Any]:
        return [row["a"] for row in self.rows(TableIdent.of("demo", table))]

    def play(self, *steps: Callable[[], None], seconds: float = INTERVAL + 5) -> Worker:
        """Run a worker, each step followed by so many seconds."""
        left, due = list(steps), 0.0

        def should_stop() -> bool:
            nonlocal due
            if self.clock.monotonic() < due:
                return False
            if not left:
                return True
            left.pop(0)()
            due = self.clock.monotonic() + seconds
            return False

        self.playing = self.worker(exit_at_end=False, should_stop=should_stop)
        self.playing.run()
        assert not left, "the worker ended early"
        return self.playing


def nothing() -> None:
    """A step in which time passes."""


def test_new_topics_are_read_without_a_restart_and_each_row_is_there_once() -> None:
    lab = Shop()
    lab.produce("shop.a", 1, 2)

    def second() -> None:
        lab.cluster.create("shop.b")
        lab.cluster.create("other")
        lab.produce("shop.b", 3)
        lab.produce("other", 4)
        lab.produce("shop.a", 5)

    worker = lab.play(nothing, second, lambda: lab.produce("shop.b", 6))
    assert (lab.numbers("shop.a"), lab.numbers("shop.b")) == ([1, 2, 5], [3, 6])
    assert worker.stopped == {}
    assert {commit[0].name for commit in lab.catalog.commits} == {"shop.a", "shop.b"}


def test_a_worker_waits_where_no_topic_matches_yet() -> None:
    lab = Shop()
    lab.cluster.delete("shop.a")

    def first() -> None:
        lab.cluster.create("shop.x")
        lab.produce("shop.x", 1)

    lab.play(nothing, first)
    assert lab.numbers("shop.x") == [1]


def test_a_batch_load_reads_what_matches_at_its_start() -> None:
    lab = Shop()
    lab.produce("shop.a", 1)
    worker = lab.run()
    assert worker.stopped == {}
    assert lab.numbers("shop.a") == [1]
    lab.cluster.away = True
    with pytest.raises(Unavailable):
        lab.run()


def test_a_topic_that_disappears_is_told_and_read_anew_when_it_is_back() -> None:
    lab = Shop(**{"on.topic.recreated": "restart"})
    lab.produce("shop.a", 1)
    told: list[Any] = []

    def back() -> None:
        told.append(lab.playing.document()["shop.a"])
        lab.cluster.create("shop.a")
        lab.produce("shop.a", 2)

    worker = lab.play(nothing, lambda: lab.cluster.delete("shop.a"), back)
    assert (told[0]["state"], told[0]["reason"]) == ("stopped", "the topic does not exist any more")
    assert sorted(lab.numbers("shop.a")) == [1, 2]
    assert worker.stopped == {}


def test_a_topic_made_anew_under_a_pattern_stops_with_a_reason() -> None:
    lab = Shop()
    lab.produce("shop.a", 1)

    def back() -> None:
        lab.cluster.create("shop.a")
        lab.produce("shop.a", 2)

    worker = lab.play(nothing, lambda: lab.cluster.delete("shop.a"), back, nothing)
    assert "filled from another topic" in worker.stopped["shop.a"]
    assert lab.numbers("shop.a") == [1]


def test_brokers_that_are_away_take_no_topic_from_a_worker() -> None:
    lab = Shop()
    lab.produce("shop.a", 1)

    def away() -> None:
        lab.cluster.away = True

    def back() -> None:
        lab.cluster.away = False
        lab.produce("shop.a", 2)

    with capture_logs() as logs:
        worker = lab.play(nothing, away, back)
    assert lab.numbers("shop.a") == [1, 2]
    assert worker.stopped == {}
    assert [line["event"] for line in logs].count("topic_found") == 1


def test_a_refused_topic_is_told_and_the_others_go_on() -> None:
    lab = Shop()
    lab.document["patterns"]["shop"] |= {"regex": r"shop\.(\w)\d?", "table": "{1}"}
    del lab.document["patterns"]["shop"]["glob"]
    lab.cluster.create("shop.a1")
    lab.produce("shop.a", 1)
    lab.produce("shop.a1", 2)
    worker = lab.play(nothing)
    assert lab.numbers("a") == [1]
    assert "would both write table demo.a" in worker.stopped["shop.a1"]
    assert worker.document()["shop.a1"]["state"] == "refused"


def test_a_pattern_takes_no_table_that_another_topic_has_filled() -> None:
    """Whatever order the names come in after a restart, rows of two topics are not mixed by accident."""
    lab = Shop()
    lab.document["patterns"]["shop"] |= {"regex": r"shop\.\w", "table": "t"}
    del lab.document["patterns"]["shop"]["glob"]
    lab.cluster.topics["shop.b"] = lab.cluster.topics.pop("shop.a")
    lab.produce("shop.b", 1)
    assert lab.run().stopped == {}
    lab.cluster.create("shop.a")
    lab.produce("shop.a", 2)
    stopped = lab.run().stopped
    assert "table demo.t holds topic 'shop.b'" in stopped["shop.a"]
    assert "would both write" in stopped["shop.b"]
    assert lab.numbers("t") == [1]


def test_two_topics_share_a_table_and_each_goes_on_where_it_was() -> None:
    lab = Shop(**{"table.shared": True})
    lab.document["patterns"]["shop"]["table"] = "t"
    lab.cluster.create("shop.b")
    lab.produce("shop.a", 1, 2)
    lab.produce("shop.b", 3)
    assert lab.run().stopped == {}
    lab.produce("shop.a", 4)
    assert lab.run().stopped == {}
    lab.produce("shop.b", 5)
    assert lab.run().stopped == {}
    assert sorted(lab.numbers("t")) == [1, 2, 3, 4, 5]
    metadata = lab.table(TableIdent.of("demo", "t")).metadata
    for topic, ends, topic_id in (("shop.a", {0: 3}, "topic-1"), ("shop.b", {0: 2}, "topic-2")):
        known = offsets.recorded(metadata, topic)
        assert (known.offsets, known.topic_id) == (ends, topic_id)
    # A topic of the two that is made anew is noticed, and is not taken for the other.
    lab.cluster.create("shop.a")
    lab.produce("shop.a", 6)
    stopped = lab.run().stopped
    assert set(stopped) == {"shop.a"}
    assert "filled from another topic" in stopped["shop.a"]
