"""Damaged records of every format: none is accepted with a neighbour changed, none hangs, memory stays bounded.

A slice runs with the suite; `make test-fuzz-ingest` damages 100,000 records of each format (FUZZ_RECORDS, FUZZ_SEED).
"""

import os
import random
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.factories.ingest_lab import Lab
from tests.factories.schemas import avro_body, json_body, prefixed, proto_class
from tests.fakes.registry import FakeRegistry, serve

RECORDS = int(os.environ.get("FUZZ_RECORDS", "500"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
CHUNK = 250
MEMORY_MIB = 400

pytestmark = pytest.mark.timeout(3600 if RECORDS > 1000 else 300)

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "i", "type": "long"},
        {"name": "s", "type": "string"},
        {"name": "d", "type": "double"},
        {"name": "b", "type": "bytes"},
        {"name": "l", "type": {"type": "array", "items": "string"}},
        {"name": "m", "type": {"type": "map", "values": "long"}},
        {
            "name": "u",
            "type": ["null", {"type": "record", "name": "N", "fields": [{"name": "x", "type": "int"}]}],
        },
    ],
}
RECURSIVE = {**AVRO, "fields": [*AVRO["fields"], {"name": "next", "type": ["null", "R"]}]}
PROTO = """syntax = "proto3"; package x; import "google/protobuf/struct.proto";
message M { int64 i = 1; string s = 2; double d = 3; bytes b = 4; repeated string l = 5; map<string, int64> m = 6;
  N u = 7; M next = 8; google.protobuf.Struct free = 9; }
message N { int32 x = 1; }"""
JSON = {
    "type": "object",
    "properties": {
        "i": {"type": "integer"},
        "s": {"type": "string"},
        "d": {"type": "number"},
        "b": {"type": "string", "contentEncoding": "base64"},
        "l": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "u": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "next": {},
    },
}
COLUMNS = {
    "i": "long", "s": "string", "d": "double", "b": "binary", "l": "list<string>", "m": "map<string,long>",
    "u": "struct<x: int>",
}  # fmt: skip
CONNECT = {
    "type": "struct",
    "fields": [
        {"field": "i", "type": "int64"},
        {"field": "s", "type": "string"},
        {"field": "d", "type": "double"},
        {"field": "b", "type": "bytes"},
        {"field": "l", "type": "array", "items": {"type": "string"}},
        {"field": "m", "type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}},
        {"field": "u", "type": "struct", "fields": [{"field": "x", "type": "int32"}]},
    ],
}


def value(number: int) -> dict[str, Any]:
    return {
        "i": number,
        "s": f"text {number} ü",
        "d": number / 4,
        "b": b"raw",
        "l": ["a", str(number)],
        "m": {"k": number},
        "u": {"x": number % 1000},
    }


def expected(number: int) -> dict[str, Any]:
    return {**value(number), "m": [("k", number)]}


def in_json(number: int) -> dict[str, Any]:
    return {**value(number), "b": "cmF3"}


@dataclass(frozen=True)
class Kind:
    """A format: its settings, its schema in the registry, and how the record of a number is written."""

    keys: dict[str, Any]
    body: Callable[[int], bytes]
    schema: tuple[str, Any] | None = None


def kind_of(name: str) -> Kind:
    by_id = {"convert.value.type": "by_schema_id"}
    match name:
        case "avro":
            return Kind(by_id, lambda n: avro_body(AVRO, value(n)), ("AVRO", AVRO))
        case "avro-recursive":
            return Kind(
                by_id, lambda n: avro_body(RECURSIVE, {**value(n), "next": None}), ("AVRO", RECURSIVE)
            )
        case "avro-latest":
            latest = {"convert.value.type": "by_latest_schema"}
            return Kind(latest, lambda n: avro_body(AVRO, value(n)), ("AVRO", AVRO))
        case "protobuf":
            made = proto_class(PROTO, "x.M")
            return Kind(by_id, lambda n: b"\0" + made(**value(n)).SerializeToString(), ("PROTOBUF", PROTO))
        case "json-schema":
            return Kind(by_id, lambda n: json_body(in_json(n)), ("JSON", JSON))
        case "connect":
            return Kind(
                {"convert.value.type": "connect_json"},
                lambda n: json_body({"schema": CONNECT, "payload": in_json(n)}),
            )
        case "debezium":
            return Kind(
                {"transform.value.type": "flatten_debezium", "fields.cast": COLUMNS},
                lambda n: json_body({"op": "c", "before": None, "after": in_json(n), "source": {}}),
            )
        case _:
            return Kind({"schema": {"columns": COLUMNS}}, lambda n: json_body(in_json(n)))


FORMATS = ["json", "connect", "debezium", "avro", "avro-recursive", "avro-latest", "protobuf", "json-schema"]


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve() as running:
        yield running


def damaged(body: bytes, draw: random.Random) -> bytes:
    """The record with one or more faults of the kinds that happen, and of those that somebody makes."""
    data = bytearray(body)
    for _ in range(draw.choice([1, 1, 1, 2, 8])):
        place = draw.randrange(len(data) + 1)
        match draw.randrange(9):
            case 0:
                del data[place:]
            case 1:
                del data[place : place + draw.randrange(1, 5)]
            case 2:
                data[place:place] = draw.randbytes(draw.randrange(1, 5))
            case 3 | 4:
                if place < len(data):
                    data[place] ^= 1 << draw.randrange(8)
            case 5:
                data[place : place + 9] = b"\xff" * draw.choice([4, 8, 9]) + draw.choice([b"\x01", b"\x7f"])
            case 6:
                data[place:place] = data[draw.randrange(len(data) + 1) :]
            case 7:
                data[place:] = draw.choice(
                    [b"[" * 3000, b'{"a":' * 3000, b"\x02\x02" * 3000, b"\x42\xff\x7f" * 500]
                )
            case _:
                data[:] = draw.randbytes(draw.randrange(60))
    return bytes(data)


def lab_with(kind: Kind, registry: FakeRegistry) -> tuple[Lab, Callable[[bytes], bytes]]:
    lab = Lab(**{"errors.tolerance": "all", **kind.keys})
    lab.document["registry"] = {"url": registry.url}
    if kind.schema is None:
        return lab, lambda body: body
    schema_id = registry.register("flights-value", kind.schema[1], kind=kind.schema[0])
    if kind.keys["convert.value.type"] == "by_latest_schema":
        return lab, lambda body: body
    return lab, lambda body: prefixed(schema_id, body)


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_records_hurt_nobody_else(registry: FakeRegistry, name: str) -> None:
    draw = random.Random(f"{SEED} {name}")
    kind = kind_of(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    accepted = hurt = 0
    for first in range(0, RECORDS * 4 // 3, CHUNK):
        lab, framed = lab_with(kind, registry)
        bad: set[int] = set()
        for offset in range(CHUNK):
            body = framed(kind.body(first + offset))
            # The first is whole, so that the table is what the format says.
            if offset and draw.random() < 0.75:
                bad.add(offset)
                body = damaged(body, draw)
            lab.cluster.produce(lab.topic, body)
        worker = lab.run()
        assert worker.stopped == {}
        rows = {row["_kafka_metadata"]["offset"]: row for row in lab.rows()}
        letters = {row["offset"] for row in lab.dead_letters()} if len(rows) < CHUNK else set()
        skipped = sum(next(iter(worker._lanes.values())).task.skipped.values())
        assert len(rows) + len(letters) + skipped == CHUNK
        assert not rows.keys() & letters
        for offset in set(range(CHUNK)) - bad:
            wanted = expected(first + offset)
            row = rows[offset]
            # Other records may have added fields, which are null here.
            row["u"] = {name: inner for name, inner in row["u"].items() if inner is not None}
            assert {column: row[column] for column in wanted} == wanted, (name, SEED, first, offset)
            assert all(
                row[other] in (None, [], "{}") for other in row.keys() - wanted.keys() if other[0] != "_"
            )
        accepted += len(bad & rows.keys())
        hurt += len(bad)
    assert hurt >= RECORDS * 0.9
    assert accepted < hurt
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < MEMORY_MIB, f"{grown:.0f} MiB more"


@pytest.mark.parametrize("name", FORMATS)
def test_records_that_claim_the_world(registry: FakeRegistry, name: str) -> None:
    """Counts and lengths beyond all bytes, nesting beyond all depth: each is a bad record, and cheap."""
    kind = kind_of(name)
    huge = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    bodies = [
        huge * 3,
        b"\0" + huge,
        b"\2" * 200_000,
        b"\x42" + b"\xff\xff\xff\xff\x07" * 3,
        b"[" * 200_000,
        b'{"i":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"i": %s}' % (b"9" * 5000) if name != "protobuf" else b"\x08" + b"\xff" * 200,
        b'{"op":"c","after":' * 50_000,
        kind.body(1) + b"\0" * 100_000,
    ]
    lab, framed = lab_with(kind, registry)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for body in [kind.body(0), *bodies, kind.body(2)]:
        lab.cluster.produce(lab.topic, framed(body))
    assert lab.run().stopped == {}
    assert [row["i"] for row in lab.rows()] == [0, 2]
    assert len(lab.dead_letters()) == len(bodies)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < MEMORY_MIB, f"{grown:.0f} MiB more"
