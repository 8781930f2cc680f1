"""Avro schemas that contain themselves: JSON text from where they do, read in bounded depth and memory."""

import datetime
import decimal
import io
import json
import random
import uuid
from collections.abc import Iterator
from typing import Any

import fastavro
import orjson
import pytest

from ingest_plugin.decode.avro import compile_avro
from ingest_plugin.decode.avro_reader import MAX_DEPTH, RecordReader
from ingest_plugin.decode.formats import Unmappable
from ingest_plugin.decode.registry import RegisteredSchema
from tests.factories.ingest_lab import Lab
from tests.factories.schemas import avro_body, prefixed
from tests.fakes.registry import FakeRegistry, serve

NODE = {
    "type": "record",
    "name": "Node",
    "namespace": "x.y",
    "fields": [
        {"name": "v", "type": "long"},
        {"name": "next", "type": ["null", "Node"]},
        {"name": "kids", "type": {"type": "array", "items": "x.y.Node"}},
        {"name": "named", "type": {"type": "map", "values": "Node"}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "raw", "type": "bytes"},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "u", "type": ["null", "int", "string", "Node"]},
    ],
}
AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
ID = uuid.UUID(int=5)


def node(v: int, **more: Any) -> dict[str, Any]:
    return {
        "v": v, "next": None, "kids": [], "named": {}, "d": decimal.Decimal("1.50"), "at": AT, "raw": b"\xff",
        "id": ID, "u": None, **more,
    }  # fmt: skip


def shown(v: int, **more: Any) -> dict[str, Any]:
    """The node in JSON."""
    return {
        "v": v, "next": None, "kids": [], "named": {}, "d": "1.50", "at": "2026-01-02T03:04:05.000006+00:00",
        "raw": "/w==", "id": str(ID), "u": None, **more,
    }  # fmt: skip


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve() as running:
        yield running


def reader_of(schema: Any) -> Any:
    return compile_avro(RegisteredSchema(kind="AVRO", text=json.dumps(schema))).reader


def test_the_inside_is_json_text(registry: FakeRegistry) -> None:
    lab = Lab(**{"convert.value.type": "by_schema_id", "metadata.columns": False})
    lab.document["registry"] = {"url": registry.url}
    value = node(1, next=node(2, next=node(3)), kids=[node(4)], named={"k": node(5)}, u=node(6, u="x"))
    body = avro_body(NODE, value)
    lab.cluster.produce(lab.topic, prefixed(registry.register("s", NODE), body))
    assert lab.run().stopped == {}
    (row,) = lab.rows()
    assert (row["v"], row["d"], row["at"], row["raw"]) == (1, decimal.Decimal("1.50"), AT, b"\xff")
    assert orjson.loads(row["next"]) == shown(2, next=shown(3))
    assert [orjson.loads(one) for one in row["kids"]] == [shown(4)]
    assert [(key, orjson.loads(one)) for key, one in row["named"]] == [("k", shown(5))]
    # A branch that is told apart is told apart in the text, too.
    union = shown(6, u={"string": "x"})
    assert orjson.loads(row["u"]["Node"]) == union
    assert lab.columns()["next"] == "string"


def test_our_reader_reads_what_fastavro_reads() -> None:
    """All kinds of values, against the reader that other schemas are read with."""
    schema = fastavro.parse_schema(
        {
            "type": "record",
            "name": "A",
            "fields": [
                {"name": "b", "type": "boolean"},
                {"name": "i", "type": "int"},
                {"name": "l", "type": "long"},
                {"name": "f", "type": "float"},
                {"name": "d", "type": "double"},
                {"name": "s", "type": "string"},
                {"name": "y", "type": "bytes"},
                {"name": "x", "type": {"type": "fixed", "name": "F", "size": 3}},
                {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["P", "Q"]}},
                {"name": "e2", "type": "E"},
                {"name": "a", "type": {"type": "array", "items": ["null", "long"]}},
                {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
                {"name": "n", "type": ["null", "A"]},
            ],
        }
    )
    draw = random.Random(3)

    def value(depth: int) -> dict[str, Any]:
        return {
            "b": draw.random() < 0.5,
            "i": draw.choice([0, -1, 2**31 - 1, -(2**31)]),
            "l": draw.choice([0, -1, 2**63 - 1, -(2**63), draw.getrandbits(40)]),
            "f": draw.choice([0.0, 1.5, float("inf")]),
            "d": draw.random(),
            "s": draw.choice(["", "ü✓", "x" * 200]),
            "y": draw.randbytes(draw.randrange(80)),
            "x": draw.randbytes(3),
            "e": draw.choice("PQ"),
            "e2": "P",
            "a": [draw.choice([None, 5]) for _ in range(draw.randrange(70))],
            "m": {f"k{n}": ["v"] * n for n in range(draw.randrange(4))},
            "n": value(depth - 1) if depth else None,
        }

    own = RecordReader(schema)
    for _ in range(50):
        body = avro_body(schema, value(draw.randrange(5)))
        assert own.read(b"\0" + body, 1) == fastavro.schemaless_reader(io.BytesIO(body), schema, None)
        for damaged in (body[:-1], body + b"\0"):
            with pytest.raises((ValueError, EOFError)):
                own.read(damaged, 0)


def test_negative_block_counts_have_their_size() -> None:
    own = RecordReader({"type": "array", "items": "long"})
    assert own.read(b"\x03\x04\x02\x04\x00", 0) == [1, 2]


@pytest.mark.parametrize(
    "body",
    [
        b"\2\2" * 100_000,
        b"\2" + b"\xff" * 8 + b"\x7f",
        b"\2" + b"\xff" * 12,
        b"\2\0\xfe\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\2\0\0\xfe\xff\xff\xff\x0f",
        b"\2\4",
        b"",
    ],
)
def test_deep_and_long_lies_are_refused_in_bounded_memory(body: bytes) -> None:
    with pytest.raises((ValueError, EOFError)):
        reader_of(NODE).read(body, 0)


def test_as_deep_as_may_be() -> None:
    chain = {"type": "record", "name": "C", "fields": [{"name": "n", "type": ["null", "C"]}]}
    reader = reader_of(chain)
    assert reader.read(b"\2" * (MAX_DEPTH - 1) + b"\0", 0)["n"].count("{") == MAX_DEPTH - 1
    with pytest.raises(ValueError, match="levels deep"):
        reader.read(b"\2" * MAX_DEPTH + b"\0", 0)


def test_a_record_that_cannot_end() -> None:
    endless = {"type": "record", "name": "E", "fields": [{"name": "e", "type": "E"}]}
    with pytest.raises(ValueError, match="levels deep"):
        reader_of(endless).read(b"", 0)


def test_counts_of_what_takes_no_bytes_are_refused_with_the_schema() -> None:
    empty = {"type": "record", "name": "N", "fields": [{"name": "x", "type": "null"}]}
    with pytest.raises(Unmappable, match="take no bytes"):
        reader_of(
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": "a", "type": {"type": "array", "items": empty}}],
            }
        )
