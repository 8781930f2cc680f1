"""Any JSON object becomes an equal row or a dead letter; nothing is changed, dropped or lost on the way."""

import datetime
import json
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.factories.ingest_lab import Lab


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "ü", "2024-01-01T00:00:00Z", "1"]),
)
keys = st.sampled_from(["a", "b", "c", "A", "a.b", "element"])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)
objects = st.dictionaries(keys, values, max_size=4)


def plain(value: Any) -> Any:
    """The value without what says nothing: nulls in objects, empty objects and lists; names in lower case."""
    if isinstance(value, dict):
        held = ((name.lower(), plain(inner)) for name, inner in value.items())
        return {name: inner for name, inner in held if inner is not None} or None
    if isinstance(value, list):
        inner = [plain(item) for item in value]
        return inner if any(item is not None for item in inner) else None
    if isinstance(value, float) and value == 0:
        return 0.0
    return value


def same(sent: Any, stored: Any) -> bool:
    if isinstance(sent, dict) and isinstance(stored, dict):
        return sent.keys() == stored.keys() and all(same(sent[name], stored[name]) for name in sent)
    if isinstance(sent, list) and isinstance(stored, list):
        return len(sent) == len(stored) and all(map(same, sent, stored))
    if isinstance(sent, bool) or isinstance(stored, bool):
        return sent is stored
    return bool(sent == stored)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batches=st.lists(st.lists(objects, min_size=1, max_size=5), min_size=1, max_size=3))
def test_every_object_is_an_equal_row_or_a_dead_letter(batches: list[list[dict[str, Any]]]) -> None:
    lab = Lab()
    sent: list[dict[str, Any]] = []
    for batch in batches:
        for document in batch:
            lab.cluster.produce(lab.topic, json.dumps(document).encode())
        sent.extend(batch)
        assert lab.run().stopped == {}
    rows = {row.pop("_kafka_metadata")["offset"]: row for row in lab.rows()}
    letters = set()
    if len(rows) < len(sent):
        letters = {row["offset"] for row in lab.dead_letters()}
    assert rows.keys() | letters == set(range(len(sent)))
    assert not rows.keys() & letters
    for offset, row in rows.items():
        original = json.loads(json.dumps(sent[offset]))
        assert same(plain(original), plain(row)), (original, row)


moments = st.datetimes(
    min_value=datetime.datetime.fromisoformat("1900-01-01"),
    max_value=datetime.datetime.fromisoformat("2200-01-01"),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    stamps=st.lists(st.tuples(moments, st.integers(-14 * 60, 14 * 60)), min_size=1, max_size=6),
    blanks=st.integers(0, 2),
)
def test_timestamps_keep_their_microseconds_and_their_moment(
    stamps: list[tuple[datetime.datetime, int]], blanks: int
) -> None:
    lab = Lab(schema={"columns": {"z": "timestamptz", "l": "timestamp", "d": "date", "t": "time"}})
    zoned = [at.replace(tzinfo=datetime.timezone(datetime.timedelta(minutes=shift))) for at, shift in stamps]
    lab.json(
        *(
            {
                "z": at.isoformat(),
                "l": local.isoformat(),
                "d": local.date().isoformat(),
                "t": local.time().isoformat(),
            }
            for at, (local, _) in zip(zoned, stamps, strict=True)
        ),
        *({"z": None} for _ in range(blanks)),
    )
    assert lab.run().stopped == {}
    rows = lab.rows()[: len(stamps)]
    assert [row["z"] for row in rows] == zoned
    assert [row["l"] for row in rows] == [local for local, _ in stamps]
    assert [row["d"] for row in rows] == [local.date() for local, _ in stamps]
    assert [row["t"] for row in rows] == [local.time() for local, _ in stamps]
