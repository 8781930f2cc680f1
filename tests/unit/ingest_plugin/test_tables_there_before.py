"""Tables that were there before ingest: other order, other case, required columns, columns that no record has."""

from collections.abc import Iterator
from typing import Any

import pytest

from table_format.catalog import NewTable
from table_format.ident import TableIdent
from tests.factories.ingest_lab import Lab
from tests.factories.schemas import avro_body, json_body, prefixed, proto_class
from tests.fakes.registry import FakeRegistry, serve

PROTO = """syntax = "proto3"; package x;
message M { int32 b = 1; string Name = 2; In s = 3; }
message In { int64 deep = 1; }"""
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "b", "type": "int"},
        {"name": "Name", "type": "string"},
        {"name": "s", "type": {"type": "record", "name": "In", "fields": [{"name": "deep", "type": "long"}]}},
    ],
}
JSON = {
    "type": "object",
    "properties": {
        "b": {"type": "integer"},
        "Name": {"type": "string"},
        "s": {"type": "object", "properties": {"deep": {"type": "integer"}}},
    },
}
VALUE = {"b": 1, "Name": "x", "s": {"deep": 7}}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve() as running:
        yield running


def make_table(lab: Lab, *, required: bool) -> None:
    fields: list[dict[str, Any]] = [
        {"id": 1, "name": "only", "required": False, "type": "string"},
        {"id": 2, "name": "name", "required": required, "type": "string"},
        {
            "id": 3,
            "name": "S",
            "required": required,
            "type": {
                "type": "struct",
                "fields": [
                    {"id": 5, "name": "other", "required": required, "type": "long"},
                    {"id": 6, "name": "Deep", "required": required, "type": "long"},
                ],
            },
        },
        {"id": 4, "name": "B", "required": required, "type": "long"},
    ]
    lab.catalog.create(
        TableIdent.of("demo", lab.topic),
        NewTable(
            schema={"type": "struct", "schema-id": 0, "fields": fields}, partition_spec=None, properties={}
        ),
    )


def produce(lab: Lab, registry: FakeRegistry, kind: str) -> None:
    if kind == "json":
        lab.cluster.produce(lab.topic, json_body(VALUE))
        return
    schema, body = {
        "AVRO": (AVRO, avro_body(AVRO, VALUE)),
        "JSON": (JSON, json_body(VALUE)),
        "PROTOBUF": (PROTO, b"\0" + proto_class(PROTO, "x.M")(**VALUE).SerializeToString()),
    }[kind]
    lab.cluster.produce(lab.topic, prefixed(registry.register("s", schema, kind=kind), body))


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("kind", ["json", "AVRO", "PROTOBUF", "JSON"])
def test_ingest_case_17_and_14_columns_are_found_whatever_their_order_and_case(
    registry: FakeRegistry, kind: str, required: bool
) -> None:
    form = "json" if kind == "json" else "by_schema_id"
    lab = Lab(**{"convert.value.type": form, "metadata.columns": False})
    lab.document["registry"] = {"url": registry.url}
    make_table(lab, required=required)
    produce(lab, registry, kind)
    assert lab.run().stopped == {}
    if kind in ("json", "JSON") and required:
        # JSON's missing field leaves a required column as it is: the record is a bad one.
        (letter,) = lab.dead_letters()
        assert "required field 'other' is missing" in letter["reason"]
        return
    assert list(lab.columns()) == ["only", "name", "S", "B"]
    assert lab.rows() == [{"only": None, "name": "x", "S": {"other": None, "Deep": 7}, "B": 1}]


def test_a_column_of_another_kind_is_told(registry: FakeRegistry) -> None:
    lab = Lab(**{"convert.value.type": "by_schema_id", "metadata.columns": False})
    lab.document["registry"] = {"url": registry.url}
    lab.catalog.create(
        TableIdent.of("demo", lab.topic),
        NewTable(
            schema={
                "type": "struct",
                "schema-id": 0,
                "fields": [{"id": 1, "name": "NAME", "required": False, "type": "long"}],
            },
            partition_spec=None,
            properties={},
        ),
    )
    produce(lab, registry, "AVRO")
    (reason,) = lab.run().stopped.values()
    assert "column 'NAME' is long, the data has string" in reason
