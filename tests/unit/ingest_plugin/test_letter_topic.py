"""Dead letters in a topic: as they were, there before the offsets, and not lost by anything that fails between."""

from typing import Any

import pytest

from ingest_plugin.keys import ConfigError
from ingest_plugin.roster import roster
from table_format.errors import NotFound
from table_format.ident import TableIdent
from tests.factories.ingest_lab import Lab, settings_of
from tests.fakes.broker import FakeMessage
from tests.fakes.catalog import fault, unknown


def lab_of(**keys: Any) -> Lab:
    lab = Lab(**{"errors.deadletter.topic": "letters", **keys})
    lab.cluster.create("letters")
    return lab


def letters(lab: Lab) -> list[FakeMessage]:
    return [message for message in lab.cluster.topics["letters"].logs[0] if message is not None]


def coordinates(lab: Lab) -> list[int]:
    return [int(dict(message.headers() or [])["__connect.errors.offset"] or b"") for message in letters(lab)]


def test_a_letter_is_the_record_and_says_where_it_was_and_why() -> None:
    lab = lab_of()
    lab.json({"a": 1})
    headers = [("h", b"\xff"), ("h", None)]
    lab.cluster.produce("flights", b"{\x00", key=b"\x00k", headers=headers, timestamp_ms=1_600_000_000_000)
    lab.cluster.produce("flights", b"[]")
    assert lab.run().stopped == {}
    assert lab.values("a") == [1]
    first, second = letters(lab)
    assert (first.key(), first.value(), second.key(), second.value()) == (b"\x00k", b"{\x00", None, b"[]")
    told = first.headers() or []
    assert told[:2] == headers
    named = {name: (value or b"").decode() for name, value in told[2:]}
    assert named.pop("__connect.errors.exception.message")
    assert named.pop("frazil.errors.commit.id") == lab.summary()["ingest.commit-id"]
    assert named == {
        "__connect.errors.topic": "flights",
        "__connect.errors.partition": "0",
        "__connect.errors.offset": "1",
        "__connect.errors.connector.name": "frazil",
        "__connect.errors.exception.class.name": "DataError.invalid",
        "frazil.errors.timestamp": "1600000000000",
        "frazil.errors.cluster.id": "cluster-1",
        "frazil.errors.topic.id": "topic-1",
    }
    assert "frazil.errors.timestamp" not in dict(second.headers() or [])
    with pytest.raises(NotFound):
        lab.table(TableIdent.of("demo", "flights__dead_letters"))


def test_letters_are_there_before_the_offsets_and_once_when_nothing_fails() -> None:
    lab = lab_of()
    lab.json({"a": 1})
    lab.run()
    lab.cluster.produce("flights", b"{")
    seen: list[list[int]] = []
    lab.catalog.before_commit.append(lambda: seen.append(coordinates(lab)))
    lab.run()
    lab.run()
    assert (seen, coordinates(lab)) == ([[1]], [1])


@pytest.mark.parametrize("applied", [True, False])
def test_an_answer_that_says_nothing_repeats_no_letter(*, applied: bool) -> None:
    lab = lab_of()
    lab.json({"a": 1})
    lab.run()
    lab.cluster.produce("flights", b"{")
    lab.json({"a": 2})
    lab.catalog.faults.append(unknown(applied=applied))
    assert lab.run().stopped == {}
    assert (lab.values("a"), coordinates(lab)) == ([1, 2], [1])


def test_a_lost_race_repeats_no_letter() -> None:
    lab = lab_of()
    lab.json({"a": 1})
    lab.run()
    lab.cluster.produce("flights", b"{")
    lab.catalog.faults.extend([fault("conflict"), fault("unavailable")])
    assert lab.run().stopped == {}
    assert coordinates(lab) == [1]


def test_what_was_acknowledged_is_not_sent_again_and_the_rest_is() -> None:
    """The topic waits; its rows and offsets are not committed before every letter is there."""
    lab = lab_of()
    lab.json({"a": 1})
    lab.run()
    for _ in range(3):
        lab.cluster.produce("flights", b"{")
    lab.json({"a": 2})
    lab.cluster.refusals.extend([(2, False), (0, False)])
    assert lab.run().stopped == {}
    assert (lab.values("a"), coordinates(lab)) == ([1, 2], [1, 2, 3])


def test_a_topic_that_never_takes_the_letters_stops_ours_and_nothing_is_committed() -> None:
    lab = lab_of()
    lab.json({"a": 1})
    lab.run()
    lab.cluster.produce("flights", b"{")
    lab.cluster.refusals.append((0, True))
    stopped = lab.run().stopped["flights"]
    assert "1 dead letters cannot be produced to topic letters: refused" in stopped
    assert lab.summary()["ingest.offsets"] == '{"flights":{"0":1}}'
    assert lab.run().stopped == {}
    assert coordinates(lab) == [1]


def test_a_missing_topic_is_waited_for() -> None:
    lab = lab_of()
    lab.json({"a": 1})
    lab.run()
    lab.cluster.delete("letters")
    lab.cluster.produce("flights", b"{")
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 200:
            lab.cluster.create("letters")
        return polls > 2000

    worker = lab.run(exit_at_end=False, should_stop=should_stop)
    assert (worker.stopped, coordinates(lab)) == ({}, [1])


def test_a_crash_before_the_commit_repeats_letters_and_loses_none() -> None:
    lab = lab_of()
    lab.json({"a": 1})
    lab.run()
    lab.cluster.produce("flights", b"{")
    lab.json({"a": 2})

    class Crash(BaseException):
        """The process is gone."""

    def crash() -> None:
        raise Crash

    lab.catalog.before_commit.append(crash)
    with pytest.raises(Crash):
        lab.run()
    assert coordinates(lab) == [1]
    assert lab.run().stopped == {}
    assert (lab.values("a"), coordinates(lab)) == ([1, 2], [1, 1])


def test_many_letters_ask_for_a_commit_before_memory_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest_plugin.write.letter_topic.MEMORY", 1000)
    lab = lab_of(**{"commit.interval.ms": 900_000, "schema": {"columns": {"a": "long"}}})
    lab.cluster.produce("flights", b"{" * 2000)
    polls = iter(range(10))
    lab.run(exit_at_end=False, should_stop=lambda: next(polls, None) is None)
    assert coordinates(lab) == [0]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"errors.deadletter.topic": "flights"}, "no name of another topic"),
        ({"errors.deadletter.topic": "a b"}, "no name of another topic"),
        ({"errors.deadletter.topic": 5}, "errors.deadletter.topic"),
        ({"errors.deadletter.topic": "x", "errors.tolerance": "none"}, "errors.tolerance = none"),
    ],
)
def test_what_cannot_be_the_place(keys: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match="flights") as refused:
        settings_of({"topics": {"flights": {"namespace": "n", **keys}}})
    assert expected in str(refused.value)


def test_a_topic_of_dead_letters_is_not_ingested_beside() -> None:
    keys = {"namespace": "n", "errors.deadletter.topic": "b"}
    with pytest.raises(ConfigError, match="keeps the dead letters of topic 'a'"):
        settings_of({"topics": {"a": keys, "b": {"namespace": "n"}}})
    found = {"glob": "*", "namespace": "n", "errors.deadletter.topic": "{topic}-letters"}
    now = roster(
        settings_of({"patterns": {"all": found}}), seen=["a", "a-letters"], own={}, registered={}, reading=()
    )
    assert {name: topic.dead_letter_topic for name, topic in now.topics.items()} == {"a": "a-letters"}
    listed = settings_of({"topics": {"a": keys}})
    now = roster(listed, seen=(), own={}, registered={"b": {"namespace": "n"}}, reading=())
    assert (set(now.topics), "dead letters" in now.refused["b"]) == ({"a"}, True)
