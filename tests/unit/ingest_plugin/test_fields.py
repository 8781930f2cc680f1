"""Fields chosen, renamed and cast, of values with and without a schema."""

import datetime
import decimal
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.factories.ingest_lab import Lab
from tests.factories.schemas import avro_body, prefixed
from tests.fakes.registry import FakeRegistry, serve

UTC = datetime.UTC
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "s", "type": "string"},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "t", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "n", "type": {"type": "record", "name": "N", "fields": [{"name": "x", "type": "bytes"}]}},
        {"name": "ms", "type": ["null", "long"]},
    ],
}
VALUE = {
    "i": 7,
    "s": "12",
    "d": decimal.Decimal("1.50"),
    "t": datetime.time(1, 2, 3),
    "at": datetime.datetime(2026, 1, 2, tzinfo=UTC),
    "n": {"x": b"\xff"},
    "ms": 1_700_000_000_123,
}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve() as running:
        yield running


def avro_lab(registry: FakeRegistry, **keys: Any) -> Lab:
    lab = Lab(**{"convert.value.type": "by_schema_id", "metadata.columns": False, **keys})
    lab.document["registry"] = {"url": registry.url}
    lab.cluster.produce(lab.topic, prefixed(registry.register("s", AVRO), avro_body(AVRO, VALUE)))
    return lab


def json_lab(*values: Any, **keys: Any) -> Lab:
    lab = Lab(**{"metadata.columns": False, **keys})
    for value in values:
        lab.cluster.produce(lab.topic, json.dumps(value).encode())
    return lab


def only(lab: Lab) -> dict[str, Any]:
    assert lab.run().stopped == {}
    (row,) = lab.rows()
    return row


def test_include_exclude_and_rename(registry: FakeRegistry) -> None:
    assert only(avro_lab(registry, **{"fields.include": "[i, s]"})) == {"i": 7, "s": "12"}
    rest = only(avro_lab(registry, **{"fields.exclude": ["d", "t", "at", "n", "ms"]}))
    assert rest == {"i": 7, "s": "12"}
    both = only(avro_lab(registry, **{"fields.include": "i", "fields.rename": {"i": "id"}}))
    assert both == {"id": 7}
    assert only(
        json_lab({"a": 1, "b": {"x": 1}}, **{"fields.exclude": "[b]", "fields.rename": {"a": "c"}})
    ) == {"c": 1}


def test_two_fields_of_one_name_are_a_fault_of_the_record() -> None:
    lab = json_lab({"a": 1}, {"a": 1, "b": 2}, {"b": 3}, **{"fields.rename": {"a": "b"}})
    assert lab.run().stopped == {}
    assert lab.values("b") == [1, 3]
    assert "fields.rename" in lab.dead_letters()[0]["reason"]


def test_names_can_be_swapped() -> None:
    assert only(json_lab({"a": 1, "b": 2}, **{"fields.rename": {"a": "b", "b": "a"}})) == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("name", "cast", "value"),
    [
        ("i", "long", 7),
        ("i", "string", "7"),
        ("i", "decimal(9,3)", decimal.Decimal("7.000")),
        ("i", "double", 7.0),
        ("s", "int", 12),
        ("s", "decimal(4,1)", decimal.Decimal("12.0")),
        ("s", "double", 12.0),
        ("d", "decimal(14,4)", decimal.Decimal("1.5000")),
        ("d", "string", "1.50"),
        ("t", "string", "01:02:03.000000"),
        ("t", "long", 3_723_000_000),
        ("at", "string", "2026-01-02T00:00:00.000000+00:00"),
        ("at", "long", 1_767_312_000_000_000),
        ("n", "string", '{"x":"/w=="}'),
        ("ms", "timestamptz from millis", datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)),
        ("ms", "timestamp from micros", datetime.datetime.fromisoformat("1970-01-20T16:13:20.000123")),
    ],
)
def test_casts_of_values_with_a_schema(registry: FakeRegistry, name: str, cast: str, value: Any) -> None:
    row = only(avro_lab(registry, **{"fields.include": [name], "fields.cast": {name: cast}}))
    assert row == {name: value}
    assert type(row[name]) is type(value)


@pytest.mark.parametrize(
    ("given", "cast", "value"),
    [
        (1, "long", 1),
        ("12", "long", 12),
        ("1e3", "long", 1000),
        ("NaN", "string", "NaN"),
        ("-Infinity", "double", float("-inf")),
        ("1.10", "decimal(5,2)", decimal.Decimal("1.10")),
        ("AwI=", "decimal(10,2) from bytes", decimal.Decimal("7.70")),
        ({"a": [1, None]}, "string", '{"a":[1,null]}'),
        (5, "string", "5"),
        (2**70, "string", str(2**70)),
        (20513, "date from days", datetime.date(2026, 3, 1)),
        (45_296_789, "time from millis", datetime.time(12, 34, 56, 789000)),
        (1_700_000_000, "timestamptz from seconds", datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        (1_999, "timestamp from nanos", datetime.datetime.fromisoformat("1970-01-01T00:00:00.000001")),
    ],
)
def test_casts_of_values_without_a_schema(given: Any, cast: str, value: Any) -> None:
    assert only(json_lab({"v": given}, **{"fields.cast": {"v": cast}})) == {"v": value}


@pytest.mark.parametrize(
    ("given", "cast"),
    [
        ("x", "long"),
        ("1_0", "long"),
        (1.5, "long"),
        ("1.005", "decimal(5,2)"),
        (1.5, "timestamptz from millis"),
        ("now", "date from days"),
        ("!!", "decimal(10,2) from bytes"),
        (2**62, "timestamptz from seconds"),
        ("", "decimal(10,2) from bytes"),
    ],
)
def test_what_a_cast_does_not_take_is_a_bad_record(given: Any, cast: str) -> None:
    lab = json_lab({"v": None}, {"v": given}, {"w": 1}, **{"fields.cast": {"v": cast}})
    assert lab.run().stopped == {}
    assert len(lab.rows()) == 2
    (letter,) = lab.dead_letters()
    assert letter["offset"] == 1
    assert "'v'" in letter["reason"]


def test_what_a_cast_does_not_take_of_a_schema_is_a_bad_record(registry: FakeRegistry) -> None:
    for cast in ({"n": "list<long>"}, {"i": "date"}):
        lab = avro_lab(registry, **{"fields.cast": cast})
        (reason,) = lab.run().stopped.values()
        assert "none of the first 1 records could become a row" in reason


def test_the_value_as_one_column(registry: FakeRegistry) -> None:
    row = only(avro_lab(registry, **{"transform.value.type": "none"}))
    assert list(row) == ["_kafka_value"]
    assert row["_kafka_value"]["i"] == 7
    lab = Lab(
        **{"convert.value.type": "by_schema_id", "metadata.columns": False, "transform.value.type": "none"}
    )
    lab.document["registry"] = {"url": registry.url}
    lab.cluster.produce(lab.topic, prefixed(registry.register("l", "long"), avro_body("long", 5)))
    assert only(lab) == {"_kafka_value": 5}
    assert only(json_lab({"a": 1}, **{"transform.value.type": "none"})) == {"_kafka_value": {"a": 1}}
    lab = json_lab({"a": 1}, **{"transform.value.type": "none", "convert.value.type": "string"})
    assert only(lab) == {"_kafka_key": None, "_kafka_value": '{"a": 1}'}
