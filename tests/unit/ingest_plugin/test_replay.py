"""Dead letters tried again: which become rows, which stay, and that each becomes one once."""

from typing import Any

import pytest

from ingest_plugin.assembly import decoder_of
from ingest_plugin.keys import ConfigError
from ingest_plugin.replay import Replay, Replayed
from table_format.errors import CommitFailed
from tests.factories.ingest_lab import Lab, settings_of
from tests.fakes.catalog import fault, unknown

STRICT = {"schema": {"columns": {"a": "int"}, "extra": "reject"}}
WIDER = {"schema": {"columns": {"a": "long"}, "extra": "add"}}


def spoilt(**keys: Any) -> Lab:
    """Two letters that a wider schema would take, and one that nothing takes."""
    lab = Lab(**{**STRICT, **keys})
    lab.json({"a": 1}, {"a": 2**40}, {"a": 3, "b": "x"})
    lab.cluster.produce(
        lab.topic, b"{", key=b"k", headers=[("h", b"\xff"), ("i", None), ("j", b"t")], timestamp_ms=1234
    )
    lab.run()
    assert lab.values("a") == [1]
    assert [row["offset"] for row in lab.dead_letters()] == [1, 2, 3]
    return lab


def replay(lab: Lab, limit: int = 100, **keys: Any) -> Replayed:
    lab.document["topics"][lab.topic] = {**lab.keys, **WIDER, **keys}
    (topic,) = settings_of(lab.document).topics
    return Replay(
        topic=topic,
        decoder=decoder_of(topic, None),
        catalog=lab.catalog,
        store_for=lambda _location, _config: lab.store,
        clock=lab.clock,
        ids=lab.ids,
        limit=limit,
    ).run()


def left(lab: Lab) -> list[int]:
    return [row["offset"] for row in lab.dead_letters()]


def test_what_fits_by_now_becomes_rows_and_leaves() -> None:
    lab = spoilt()
    found = replay(lab)
    assert (found.rows, found.left) == (2, 1)
    assert next(iter(found.reasons)).startswith("not valid JSON")
    assert lab.values("a", "b") == [(1, None), (2**40, None), (3, "x")]
    assert [row["_kafka_metadata"]["offset"] for row in lab.rows()] == [0, 1, 2]
    assert left(lab) == [3]
    assert replay(lab).rows == 0
    assert len(lab.rows()) == 3


def test_where_ingest_stands_is_carried_on() -> None:
    lab = spoilt()
    replay(lab)
    assert lab.summary()["ingest.offsets"] == '{"flights":{"0":4}}'
    lab.json({"a": 9})
    assert lab.run().stopped == {}
    assert lab.values("a") == [1, 2**40, 3, 9]


@pytest.mark.parametrize("applied", [True, False])
def test_an_unanswered_replay_is_not_repeated(applied: bool) -> None:
    lab = spoilt()
    lab.catalog.faults.append(unknown(applied=applied))
    assert replay(lab).rows == 2
    assert lab.values("a") == [1, 2**40, 3]
    assert left(lab) == [3]


def test_two_replays_at_once_make_each_row_once() -> None:
    lab = spoilt()
    # The first change of the schema is the outer replay's; the inner one runs in the middle of its commit.
    lab.catalog.before_commit.extend([lambda: None, lambda: replay(lab)])
    replay(lab)
    assert lab.values("a") == [1, 2**40, 3]
    assert left(lab) == [3]


def test_ingest_adds_letters_meanwhile() -> None:
    lab = spoilt()

    def more() -> None:
        lab.json({"a": 5}, "bad")
        lab.run()

    lab.catalog.before_commit.extend([lambda: None, more])
    assert replay(lab).rows == 2
    assert lab.values("a") == [1, 2**40, 3, 5]
    assert left(lab) == [3, 5]


def test_a_catalog_that_refuses_leaves_everything() -> None:
    lab = spoilt()
    replay(lab, limit=1)
    assert left(lab) == [2, 3]
    lab.catalog.faults.extend(fault("conflict") for _ in range(20))
    with pytest.raises(CommitFailed):
        replay(lab)
    lab.catalog.faults.clear()
    assert left(lab) == [2, 3]
    assert replay(lab).rows == 1


def test_what_cannot_be_replayed() -> None:
    lab = spoilt()
    lab.catalog.together = False
    with pytest.raises(ConfigError, match="does not commit to two tables"):
        replay(lab)
    with pytest.raises(ConfigError, match="produce the corrected records"):
        replay(lab, **{"upsert.enable": True, "id.columns": "a"})
    assert replay_of_nothing() == Replayed()


def replay_of_nothing() -> Replayed:
    return replay(Lab())
