"""Schemas by latest version and in headers; keys in every format, and headers, as columns."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ingest_plugin.decode.framing import Framed, Part, from_headers, from_prefix
from ingest_plugin.decode.values import DataError
from tests.factories.ingest_lab import Lab
from tests.factories.schemas import avro_body, json_body, prefixed, proto_class
from tests.fakes.registry import FakeRegistry, serve

PERSON = {"type": "record", "name": "Person", "namespace": "x", "fields": [{"name": "a", "type": "int"}]}
PROTO = 'syntax = "proto3"; package x; message A { int32 a = 1; } message B { string b = 1; }'


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve() as running:
        yield running


def lab_of(registry: FakeRegistry, **keys: Any) -> Lab:
    lab = Lab(**{"metadata.columns": False, **keys})
    lab.document["registry"] = {"url": registry.url}
    return lab


@pytest.mark.parametrize(
    ("kind", "schema", "body"),
    [
        ("AVRO", PERSON, avro_body(PERSON, {"a": 7})),
        ("PROTOBUF", PROTO, b"\x08\x07"),
        ("JSON", {"type": "object", "properties": {"a": {"type": "integer"}}}, b'{"a": 7}'),
    ],
)
def test_bare_bodies_by_the_latest_schema(
    registry: FakeRegistry, kind: str, schema: Any, body: bytes
) -> None:
    lab = lab_of(registry, **{"convert.value.type": "by_latest_schema"})
    registry.register("flights-value", schema, kind=kind)
    lab.cluster.produce(lab.topic, body)
    assert lab.run().stopped == {}
    assert lab.rows() == [{"a": 7}]


@pytest.mark.parametrize(
    ("subject", "keys"),
    [
        ("other", {"convert.value.by_latest_schema.subject": "other"}),
        (
            "x.B",
            {
                "convert.value.subject.name.strategy": "record",
                "convert.value.by_latest_schema.message.full.name": "x.B",
            },
        ),
        (
            "flights-x.B",
            {
                "convert.value.subject.name.strategy": "topic_record",
                "automq.table.topic.convert.value.by_latest_schema.message.full.name": "x.B",
            },
        ),
    ],
)
def test_subjects_by_name_and_by_strategy(registry: FakeRegistry, subject: str, keys: dict[str, str]) -> None:
    lab = lab_of(registry, **{"convert.value.type": "by_latest_schema", **keys})
    registry.register(subject, PROTO, kind="PROTOBUF")
    lab.cluster.produce(lab.topic, b"\x0a\x01z" if len(keys) > 1 else b"\x08\x07")
    assert lab.run().stopped == {}
    assert lab.rows() == [{"b": "z"} if len(keys) > 1 else {"a": 7}]


def test_a_newer_version_is_asked_for_when_a_body_does_not_fit(registry: FakeRegistry) -> None:
    wider = {**PERSON, "fields": [*PERSON["fields"], {"name": "b", "type": "string"}]}
    lab = lab_of(registry, **{"convert.value.type": "by_latest_schema"})
    registry.register("flights-value", PERSON)
    lab.cluster.produce(lab.topic, avro_body(PERSON, {"a": 1}))
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 4:
            registry.register("flights-value", wider)
            lab.cluster.produce(lab.topic, avro_body(wider, {"a": 2, "b": "x"}))
            lab.clock.sleep(10)
        return polls > 12

    worker = lab.worker(should_stop=should_stop, exit_at_end=False)
    worker.run()
    assert worker.stopped == {}
    assert sorted(lab.values("a")) == [1, 2]
    asked = [path for path in registry.requests if path.endswith("latest")]
    assert len(asked) == 2


def test_a_subject_that_is_not_there_stops_the_topic(registry: FakeRegistry) -> None:
    lab = lab_of(registry, **{"convert.value.type": "by_latest_schema"})
    lab.cluster.produce(lab.topic, b"x")
    (reason,) = lab.run().stopped.values()
    assert "no subject flights-value" in reason


GUID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([("apicurio.value.contentId", (7).to_bytes(8, "big"))], Framed(7, 0)),
        ([("apicurio.value.globalId", (8).to_bytes(8, "big"))], Framed(8, 0)),
        ([("x", None), ("__value_schema_id", b"\0\0\0\0\x09")], Framed(9, 0, b"")),
        ([("__value_schema_id", b"\0\0\0\0\x09\x02\x02")], Framed(9, 0, b"\x02\x02")),
        ([("__value_schema_id", b"\1" + GUID.bytes + b"\0")], Framed(str(GUID), 0, b"\0")),
        ([], None),
        (None, None),
        ([("apicurio.key.contentId", (7).to_bytes(8, "big"))], None),
        ([("apicurio.value.contentId", b"7")], None),
        ([("__value_schema_id", b"\0\0")], None),
        ([("__value_schema_id", b"\2" + bytes(20))], None),
        ([("__value_schema_id", None)], None),
    ],
)
def test_schema_ids_in_headers(headers: Any, found: Framed | None) -> None:
    result = from_headers(Part.VALUE, headers)
    assert isinstance(result, DataError) if found is None else result == found


def test_schema_ids_in_front() -> None:
    assert from_prefix(b"\0\0\0\1\0x") == Framed(256, 5)
    assert from_prefix(b"\1" + GUID.bytes + b"x") == Framed(str(GUID), 17)
    assert isinstance(from_prefix(b"\1\0\0\0\1"), DataError)


def test_records_with_their_schema_in_the_headers(registry: FakeRegistry) -> None:
    lab = lab_of(
        registry,
        **{
            "convert.value.type": "by_schema_id",
            "convert.value.schema.id": "headers",
            "convert.key.type": "by_schema_id",
            "convert.key.schema.id": "headers",
        },
    )
    avro, proto = registry.register("v", PERSON), registry.register("p", PROTO, kind="PROTOBUF")
    key = registry.register("k", "string")
    lab.cluster.produce(
        lab.topic,
        avro_body(PERSON, {"a": 1}),
        key=avro_body("string", "one"),
        headers=[
            ("apicurio.value.contentId", avro.to_bytes(8, "big")),
            ("apicurio.key.contentId", key.to_bytes(8, "big")),
        ],
    )
    lab.cluster.produce(
        lab.topic,
        proto_class(PROTO, "x.B")(b="z").SerializeToString(),  # type: ignore[call-arg]  # its fields are its own
        headers=[("__value_schema_id", b"\0" + proto.to_bytes(4, "big") + b"\x02\x02")],
    )
    lab.cluster.produce(lab.topic, b"\0\0\0\0\1\2")
    assert lab.run().stopped == {}
    assert lab.rows() == [
        {"a": 1, "b": None, "_kafka_key": "one"},
        {"a": None, "b": "z", "_kafka_key": None},
    ]
    (letter,) = lab.dead_letters()
    assert "no header says the schema of the value" in letter["reason"]


@pytest.mark.parametrize(
    ("form", "key", "kind", "value"),
    [
        ("string", b"k1", "string", "k1"),
        ("raw", b"\xff", "binary", b"\xff"),
        ("json", b'{"id": 1}', "string", '{"id": 1}'),
        (
            "connect_json",
            json_body({"schema": {"type": "int64", "optional": False}, "payload": 5}),
            "long",
            5,
        ),
    ],
)
def test_keys_as_a_column(registry: FakeRegistry, form: str, key: bytes, kind: str, value: object) -> None:
    lab = lab_of(registry, **{"convert.key.type": form})
    lab.cluster.produce(lab.topic, b'{"a": 1}', key=key)
    lab.cluster.produce(lab.topic, b'{"a": 2}')
    assert lab.run().stopped == {}
    assert lab.columns() == {"a": "long", "_kafka_key": kind}
    assert lab.values("_kafka_key") == [value, None]


def test_keys_of_registered_schemas(registry: FakeRegistry) -> None:
    lab = lab_of(registry, **{"convert.value.type": "string", "convert.key.type": "by_schema_id"})
    schema_id = registry.register("k", PERSON)
    lab.cluster.produce(lab.topic, b"one", key=prefixed(schema_id, avro_body(PERSON, {"a": 5})))
    lab.cluster.produce(lab.topic, b"two", key=b"\0\0\0\0\x63x")
    lab.cluster.produce(lab.topic, b"three")
    assert lab.run().stopped == {}
    assert lab.rows() == [
        {"_kafka_value": "one", "_kafka_key": {"a": 5}},
        {"_kafka_value": "three", "_kafka_key": None},
    ]
    (letter,) = lab.dead_letters()
    assert (letter["offset"], letter["reason"]) == (1, "key: the schema registry has no schema 99")


def test_ingest_case_43_a_null_key_keeps_its_row(registry: FakeRegistry) -> None:
    lab = lab_of(registry, **{"convert.key.type": "by_schema_id"})
    lab.cluster.produce(lab.topic, b'{"a": 1}')
    assert lab.run().stopped == {}
    assert lab.rows() == [{"a": 1}]
    schema_id = registry.register("k", "long")
    lab.cluster.produce(lab.topic, b'{"a": 2}', key=prefixed(schema_id, avro_body("long", 7)))
    lab.cluster.produce(lab.topic, b'{"a": 3}')
    assert lab.run().stopped == {}
    assert sorted(lab.values("a", "_kafka_key"), key=str) == [(1, None), (2, 7), (3, None)]


def test_ingest_case_44_one_header_without_a_value(registry: FakeRegistry) -> None:
    lab = lab_of(registry, **{"header.column": True})
    lab.cluster.produce(lab.topic, b'{"a": 1}', headers=[("h", None)])
    lab.cluster.produce(lab.topic, b'{"a": 2}', headers=[("h", b"\xff"), ("g", b""), ("h", b"last")])
    lab.cluster.produce(lab.topic, b'{"a": 3}', headers=[])
    lab.cluster.produce(lab.topic, b'{"a": 4}')
    assert lab.run().stopped == {}
    kind = {"type": "map", "key": "string", "value": "binary"}
    column = lab.columns()["_kafka_header"]
    assert {name: column[name] for name in kind} == kind
    assert lab.values("_kafka_header") == [[("h", None)], [("h", b"last"), ("g", b"")], None, None]


def test_keys_of_several_schemas_in_one_batch(registry: FakeRegistry) -> None:
    lab = lab_of(registry, **{"convert.key.type": "by_schema_id"})
    for number, kind in enumerate(["int", "long", "int"]):
        schema_id = registry.register(f"k{number}", kind)
        lab.cluster.produce(
            lab.topic, b'{"a": %d}' % number, key=prefixed(schema_id, avro_body(kind, number))
        )
    assert lab.run().stopped == {}
    assert lab.columns()["_kafka_key"] == "long"
    assert sorted(lab.values("a", "_kafka_key")) == [(0, 0), (1, 1), (2, 2)]


def test_a_field_with_the_name_of_a_column_of_ours_is_refused(registry: FakeRegistry) -> None:
    lab = lab_of(registry, **{"convert.key.type": "string", "header.column": True})
    lab.json({"a": 1, "_kafka_key": "x"}, {"a": 2, "_KAFKA_HEADER": 1}, {"a": 3})
    assert lab.run().stopped == {}
    assert lab.values("a") == [3]
    assert len(lab.dead_letters()) == 2
