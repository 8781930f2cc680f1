"""Topics that come, go and change while a worker runs."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from ingest_plugin import offsets
from ingest_plugin.worker import Worker
from table_format.errors import Forbidden, TableFormatError, Unavailable, Unsupported
from table_format.ident import TableIdent
from tests.factories.ingest_lab import Lab
from tests.fakes.broker import FakeBroker
from tests.fakes.catalog import fault, unknown

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


class Told:
    """Registrations as the test says; or the error that asking meets."""

    def __init__(self, **topics: dict[str, Any]) -> None:
        self.topics = topics
        self.error: TableFormatError | None = None

    def of(self, group: str) -> Mapping[str, Mapping[str, Any]]:
        assert group == "frazil"
        if self.error is not None:
            raise self.error
        return self.topics


class Registry(Shop):
    """A lab whose topics are registered."""

    def __init__(self, **keys: Any) -> None:
        super().__init__(**keys)
        self.document = {"discovery": {"registered": True}}
        self.told = Told(**{"shop.a": self.keys})
        self.registered = self.told


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


def test_a_new_cluster_for_one_of_two_topics_makes_no_offsets_of_the_other_valid() -> None:
    """Where brokers tell no ids of topics, too."""
    lab = Shop(**{"table.shared": True})
    for topic in lab.cluster.topics.values():
        topic.topic_id = None
    keys = {**lab.keys, "table": "t"}
    lab.document = {"topics": {"shop.a": keys, "shop.b": {**keys, "on.topic.recreated": "restart"}}}
    lab.cluster.create("shop.b")
    lab.cluster.topics["shop.b"].topic_id = None
    lab.produce("shop.a", 1)
    lab.produce("shop.b", 2)
    assert lab.run().stopped == {}
    lab.cluster.id = "cluster-2"
    for topic in lab.cluster.topics.values():
        topic.logs[0].clear()
    lab.produce("shop.a", 3, 4)
    lab.produce("shop.b", 5)
    for _ in range(2):
        assert "filled from another cluster" in lab.run().stopped["shop.a"]
        assert sorted(lab.numbers("t")) == [1, 2, 5]


def test_registered_topics_come_and_go_without_a_restart() -> None:
    lab = Registry()
    lab.cluster.create("b")
    lab.produce("shop.a", 1)
    lab.produce("b", 2)

    def add() -> None:
        lab.told.topics = {**lab.told.topics, "b": lab.keys}

    def remove() -> None:
        lab.told.topics = {"b": lab.keys}

    def more() -> None:
        lab.produce("shop.a", 3)
        lab.produce("b", 4)

    with capture_logs() as logs:
        worker = lab.play(nothing, add, remove, more)
    assert (lab.numbers("shop.a"), lab.numbers("b")) == ([1], [2, 4])
    assert set(worker.document()) == {"b"}
    assert [line["topic"] for line in logs if line["event"] == "topic_left"] == ["shop.a"]
    # Registered again it goes on where its table is.
    lab.told.topics = {"shop.a": lab.keys}
    lab.play(nothing)
    assert lab.numbers("shop.a") == [1, 3]


def test_a_removed_topic_commits_what_was_read_of_it() -> None:
    lab = Registry(**{"commit.interval.ms": 900_000})
    lab.produce("shop.a", 1, 2)
    lab.play(nothing, lab.told.topics.clear, lambda: lab.produce("shop.a", 3))
    assert lab.numbers("shop.a") == [1, 2]


def test_a_topic_that_is_asked_for_again_before_it_has_gone_goes_on_in_a_new_lane() -> None:
    """The old one is delivered nothing any more: kept, it would wait for ever."""
    lab = Registry()
    members = lab.worker(exit_at_end=False)._members
    members.refresh()
    lab.told.topics = {}
    members.refresh()
    lab.told.topics = {"shop.a": lab.keys}
    members.refresh()
    before = members.lanes["shop.a"]
    before.owned = {0}
    assert before.leaving
    members.leave(before)
    after = members.lanes["shop.a"]
    assert after is not before
    assert (after.leaving, after.owned, after.unstarted) == (False, {0}, {0})


@pytest.mark.parametrize("applied", [True, False])
def test_a_removed_topic_stays_until_its_commit_is_settled(*, applied: bool) -> None:
    """An answer that says nothing, and then a catalog that is away: each row is there once, and nothing is lost."""
    lab = Registry(**{"commit.interval.ms": 900_000})
    lab.produce("shop.a", 1, 2)

    def remove() -> None:
        lab.told.topics = {}
        lab.catalog.faults.extend([unknown(applied=applied)])
        lab.catalog.load_faults.extend([None, *[Unavailable("away")] * 10])

    worker = lab.play(nothing, remove, nothing, nothing)
    assert lab.numbers("shop.a") == [1, 2]
    assert worker.document() == {}
    lab.told.topics = {"shop.a": lab.keys}
    lab.produce("shop.a", 3)
    lab.play(nothing)
    assert lab.numbers("shop.a") == [1, 2, 3]


def test_a_topic_that_is_told_otherwise_commits_first_and_goes_on_as_told() -> None:
    lab = Registry(**{"commit.interval.ms": 900_000})
    lab.produce("shop.a", 1, 2)

    def change() -> None:
        lab.told.topics = {"shop.a": {**lab.keys, "commit.interval.ms": 500, "metadata.columns": False}}

    worker = lab.play(nothing, change, lambda: lab.produce("shop.a", 3))
    assert sorted(lab.numbers("shop.a")) == [1, 2, 3]
    rows = {row["a"]: row["_kafka_metadata"] for row in lab.rows(TableIdent.of("demo", "shop.a"))}
    assert rows[1] is not None
    assert rows[3] is None
    assert worker.stopped == {}


def test_another_table_for_a_topic_is_filled_from_its_beginning() -> None:
    lab = Registry()
    lab.produce("shop.a", 1)

    def change() -> None:
        lab.told.topics = {"shop.a": {**lab.keys, "table": "other"}}

    lab.play(nothing, change, lambda: lab.produce("shop.a", 2))
    assert (lab.numbers("shop.a"), lab.numbers("other")) == ([1], [1, 2])


def test_a_stopped_topic_is_tried_again_when_it_is_told_otherwise() -> None:
    lab = Registry(**{"errors.tolerance": "none"})
    lab.cluster.produce("shop.a", b"{")
    stopped: list[str] = []

    def change() -> None:
        stopped.extend(lab.playing.stopped.values())
        lab.told.topics = {"shop.a": {**lab.keys, "errors.tolerance": "all"}}
        lab.produce("shop.a", 1)

    worker = lab.play(nothing, change)
    assert "errors.tolerance = none" in stopped[0]
    assert (lab.numbers("shop.a"), worker.stopped) == ([1], {})


@pytest.mark.parametrize("error", [Unavailable("away"), Forbidden("no"), Unsupported("gone")])
def test_a_catalog_that_does_not_tell_takes_no_topic_from_a_worker(error: TableFormatError) -> None:
    lab = Registry()
    lab.produce("shop.a", 1)

    def away() -> None:
        lab.told.error = error
        lab.produce("shop.a", 2)

    worker = lab.play(nothing, away, nothing)
    assert (lab.numbers("shop.a"), worker.stopped) == ([1, 2], {})


@pytest.mark.parametrize("error", [Forbidden("no"), Unsupported("other catalog")])
def test_a_catalog_without_registrations_is_told_once_and_the_file_is_read(error: TableFormatError) -> None:
    lab = Shop()
    lab.registered = told = Told()
    told.error = error
    lab.produce("shop.a", 1)
    with capture_logs() as logs:
        lab.play(nothing, nothing)
    assert lab.numbers("shop.a") == [1]
    off = [line for line in logs if line["event"] == "registered_topics_are_off"]
    assert [line["reason"] for line in off] == [error.message]


def test_a_registration_that_cannot_be_followed_is_told_and_others_are() -> None:
    lab = Registry()
    lab.produce("shop.a", 1)
    lab.told.topics |= {
        "newer": {**lab.keys, "some.key.of.tomorrow": 1},
        "registry": {**lab.keys, "convert.value.type": "by_schema_id"},
    }
    stopped = lab.play(nothing).stopped
    assert lab.numbers("shop.a") == [1]
    assert "unknown key 'some.key.of.tomorrow'" in stopped["newer"]
    assert "needs a section [registry]" in stopped["registry"]


def test_the_file_counts_before_a_registration_and_that_before_a_pattern() -> None:
    lab = Registry()
    lab.document = {"topics": {"shop.a": {**lab.keys, "table": "file"}}}
    lab.document["patterns"] = {"all": {"glob": "*", **lab.keys, "table": "found_{topic}"}}
    lab.told.topics = {name: {**lab.keys, "table": f"registered_{name}"} for name in ("shop.a", "b")}
    for topic in ("b", "c"):
        lab.cluster.create(topic)
    for topic in ("shop.a", "b", "c"):
        lab.produce(topic, 1)
    with capture_logs() as logs:
        lab.play(nothing, nothing)
    assert {commit[0].name for commit in lab.catalog.commits} == {"file", "registered_b", "found_c"}
    events = [line["event"] for line in logs]
    assert events.count("registration_not_followed_for_the_file_lists_the_topic") == 1


def test_two_workers_follow_a_removal_and_neither_loses_nor_doubles_a_row() -> None:
    """One has noticed, the other not yet: partitions move to it, and the table decides."""
    lab = Registry(**{"commit.interval.ms": 900_000})
    lab.produce("shop.a", 1, 2)
    lab.play(nothing, lab.told.topics.clear, nothing)
    # The other still has it, takes its partitions over and reads on.
    lab.told.topics = {"shop.a": lab.keys}
    lab.produce("shop.a", 3)
    other = lab.worker(broker=FakeBroker(lab.cluster, lab.clock))
    other.run()
    assert lab.numbers("shop.a") == [1, 2, 3]


def test_a_lost_race_while_leaving_drops_nothing() -> None:
    lab = Registry(**{"commit.interval.ms": 900_000})
    lab.produce("shop.a", 1)

    def remove() -> None:
        lab.told.topics = {}
        lab.catalog.faults.extend([fault("conflict")] * 3)

    lab.play(nothing, remove, nothing)
    assert lab.numbers("shop.a") == [1]
