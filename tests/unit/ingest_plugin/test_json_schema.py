"""JSON Schema by schema id: which columns a schema gives, what its values become, what is inferred and refused."""

import datetime
import decimal
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ingest_plugin.decode.formats import Unmappable
from ingest_plugin.decode.json_schema import compile_json_schema
from ingest_plugin.decode.registry import Reference, RegisteredSchema
from tests.factories.ingest_lab import Lab
from tests.factories.schemas import json_body, prefixed
from tests.fakes.registry import FakeRegistry, serve


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve() as running:
        yield running


def compiled(schema: Any, **references: Any) -> Any:
    named = tuple(Reference(name=name, text=json.dumps(one)) for name, one in references.items())
    return compile_json_schema(RegisteredSchema(kind="JSON", text=json.dumps(schema), references=named))


def column(schema: Any, **references: Any) -> Any:
    whole = {"type": "object", "properties": {"c": schema}}
    (field,) = compiled(whole, **references).reader.struct["fields"]
    return field["type"]


def lab_of(registry: FakeRegistry, schema: Any, *values: Any, **keys: Any) -> Lab:
    lab = Lab(**{"convert.value.type": "by_schema_id", "metadata.columns": False, **keys})
    lab.document["registry"] = {"url": registry.url}
    schema_id = registry.register("flights-value", schema, kind="JSON")
    for value in values:
        body = value if isinstance(value, bytes) else json_body(value)
        lab.cluster.produce(lab.topic, prefixed(schema_id, body))
    return lab


_STRUCT = {"type": "struct", "fields": [{"name": "x", "required": False, "type": "long"}]}
_POINT = {"type": "object", "properties": {"x": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "boolean"}, "boolean"),
        ({"type": "integer"}, "long"),
        ({"type": "integer", "connect.type": "int16"}, "int"),
        ({"type": "number"}, "double"),
        ({"type": "number", "connect.type": "float32"}, "float"),
        ({"type": ["integer", "number", "null"]}, "double"),
        ({"type": "number", "multipleOf": 0.01}, "decimal(38, 2)"),
        ({"type": "number", "multipleOf": 1}, "decimal(38, 0)"),
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string"),
        ({"type": "string", "format": "date-time"}, "timestamptz"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "time"}, "time"),
        ({"type": "string", "format": "uuid"}, "uuid"),
        ({"type": "string", "format": "email"}, "string"),
        ({"type": "string", "contentEncoding": "base64"}, "binary"),
        ({"type": "string", "format": "byte"}, "binary"),
        ({"enum": ["a", "b", None]}, "string"),
        ({"const": 5}, "long"),
        ({"enum": ["a", 1]}, "string"),
        (_POINT, _STRUCT),
        ({"properties": {"x": {"type": "integer"}}}, _STRUCT),
        ({"oneOf": [{"type": "null"}, _POINT]}, _STRUCT),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "string"),
        ({"allOf": [_POINT]}, _STRUCT),
        (
            {"type": "object", "additionalProperties": {"type": "number"}},
            {"type": "map", "key": "string", "value": "double", "value-required": False},
        ),
        (
            {"type": "array", "items": {"type": "integer"}},
            {"type": "list", "element": "long", "element-required": False},
        ),
        ({"type": "array"}, "string"),
        ({"type": "array", "items": [{"type": "integer"}]}, "string"),
        ({"type": "object"}, "string"),
        ({"type": "object", "patternProperties": {"^x": {"type": "integer"}}}, "string"),
        ({"type": ["integer", "string"]}, "string"),
        ({}, "string"),
        (True, "string"),
        (
            {
                "type": "string",
                "connect.type": "bytes",
                "title": "org.apache.kafka.connect.data.Decimal",
                "connect.parameters": {"scale": "2", "connect.decimal.precision": "9"},
            },
            "decimal(9, 2)",
        ),
        (
            {"type": "integer", "connect.type": "int64", "title": "io.debezium.time.MicroTimestamp"},
            "timestamp",
        ),
    ],
)
def test_types(schema: Any, kind: Any) -> None:
    assert column(schema) == kind


def test_references_inside_and_outside() -> None:
    whole = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/definitions/P"},
            "b": {"$ref": "#/$defs/Q~1x"},
            "c": {"$ref": "http://example.com/point.json"},
            "d": {"$ref": "http://example.com/point.json#/properties/x"},
        },
        "definitions": {"P": _POINT},
        "$defs": {"Q/x": {"type": "string"}},
    }
    reader = compiled(whole, **{"http://example.com/point.json": _POINT}).reader
    assert [field["type"] for field in reader.struct["fields"]] == [_STRUCT, "string", _STRUCT, "long"]
    with pytest.raises(Unmappable, match="not among the schema's references"):
        column({"$ref": "http://example.com/none.json"})
    with pytest.raises(Unmappable, match="nothing is at"):
        column({"$ref": "#/definitions/None"})


def test_a_schema_inside_itself_is_json_text(registry: FakeRegistry) -> None:
    node = {
        "type": "object",
        "properties": {
            "v": {"type": "integer"},
            "next": {"$ref": "#"},
            "kids": {"type": "array", "items": {"$ref": "#/definitions/K"}},
        },
        "definitions": {
            "K": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "sub": {"$ref": "#/definitions/K"}},
            }
        },
    }
    value = {
        "v": 1,
        "next": {"v": 2, "next": {"v": 2**70}},
        "kids": [{"name": "k", "sub": {"name": "ü", "sub": None}}],
    }
    lab = lab_of(registry, node, value, {"v": 2})
    assert lab.run().stopped == {}
    assert lab.rows() == [
        {
            "v": 1,
            "next": '{"v":2,"next":{"v":1180591620717411303424}}',
            "kids": [{"name": "k", "sub": '{"name":"ü","sub":null}'}],
        },
        {"v": 2, "next": None, "kids": None},
    ]


def test_values(registry: FakeRegistry) -> None:
    schema = {
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "clock": {"type": "string", "format": "time"},
            "price": {"type": "number", "multipleOf": 0.01},
            "raw": {"type": "string", "contentEncoding": "base64"},
            "any": {},
            "tags": {"type": "object", "additionalProperties": {"type": "integer"}},
            "amount": {
                "type": "string",
                "connect.type": "bytes",
                "title": "org.apache.kafka.connect.data.Decimal",
                "connect.parameters": {"scale": "2"},
            },
            "micros": {
                "type": "integer",
                "connect.type": "int64",
                "title": "io.debezium.time.MicroTimestamp",
            },
        },
    }
    value = {
        "at": "2026-01-02T03:04:05.123456+01:00",
        "day": "2026-01-02",
        "clock": "23:30:00-01:00",
        "price": 12.34,
        "raw": "AP8=",
        "any": [1, {"x": "y"}],
        "tags": {"a": 2**40},
        "amount": "AwI=",
        "micros": 1_767_323_045_000_001,
    }
    lab = lab_of(registry, schema, value)
    assert lab.run().stopped == {}
    (row,) = lab.rows()
    assert row == {
        "at": datetime.datetime(2026, 1, 2, 2, 4, 5, 123456, tzinfo=datetime.UTC),
        "day": datetime.date(2026, 1, 2),
        "clock": datetime.time(0, 30),
        "price": decimal.Decimal("12.34"),
        "raw": b"\0\xff",
        "any": '[1,{"x":"y"}]',
        "tags": [("a", 2**40)],
        "amount": decimal.Decimal("7.70"),
        "micros": datetime.datetime.fromisoformat("2026-01-02T03:04:05.000001"),
    }


def test_properties_beyond_the_schema_are_inferred_and_values_beyond_their_type_refused(
    registry: FakeRegistry,
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "s": _POINT}}
    lab = lab_of(
        registry,
        schema,
        {"a": 1, "more": 1.5, "s": {"x": 1, "y": "deep"}},
        {"a": "1"},
        {"a": 1.5},
        {"s": {"x": "1"}},
        [1],
        b"{",
        b"",
        {"a": 2**63},
        {"a": 2, "more": 2},
    )
    assert lab.run().stopped == {}
    assert lab.columns()["more"] == "double"
    assert lab.rows() == [
        {"a": 1, "s": {"x": 1, "y": "deep"}, "more": 1.5},
        {"a": 2, "s": None, "more": 2.0},
    ]
    assert [row["offset"] for row in lab.dead_letters()] == [1, 2, 3, 4, 5, 6, 7]


def test_types_of_the_schema_meet_those_of_the_table(registry: FakeRegistry) -> None:
    lab = lab_of(registry, {"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1, "b": "x"})
    assert lab.run().stopped == {}
    other = registry.register(
        "flights-value", {"type": "object", "properties": {"b": {"type": "integer"}}}, kind="JSON"
    )
    lab.cluster.produce(lab.topic, prefixed(other, json_body({"b": 5})))
    (reason,) = lab.run().stopped.values()
    assert "column 'b' is string, the data has long" in reason


def test_a_root_that_is_no_record(registry: FakeRegistry) -> None:
    lab = lab_of(registry, {"type": "array", "items": {"type": "string"}}, ["a", "b"])
    assert lab.run().stopped == {}
    assert lab.rows() == [{"value": ["a", "b"]}]


@pytest.mark.parametrize("schema", [{"type": "object", "properties": {"a": 5}}, {"properties": [1]}, 5, "x"])
def test_documents_that_are_no_schema(schema: Any) -> None:
    with pytest.raises((Unmappable, AttributeError)):
        compiled(schema)
