"""Tables of one row per key, with keys of every format: what is put, and what a record without a value deletes."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.factories.ingest_lab import Lab
from tests.factories.schemas import avro_body, json_body, prefixed
from tests.fakes.registry import FakeRegistry, serve

KEY = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "int"}]}
ROW = {
    "type": "record",
    "name": "V",
    "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": "string"}],
}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve() as running:
        yield running


def lab_of(registry: FakeRegistry, **keys: Any) -> Lab:
    lab = Lab(**{"upsert.enable": True, "metadata.columns": False, **keys})
    lab.document["registry"] = {"url": registry.url}
    return lab


def test_typed_keys_delete_their_rows(registry: FakeRegistry) -> None:
    lab = lab_of(
        registry,
        **{"convert.value.type": "by_schema_id", "convert.key.type": "by_schema_id", "id.columns": "[id]"},
    )
    row, key = registry.register("v", ROW), registry.register("k", KEY)
    for number, value in ((1, "a"), (2, "b"), (3, "c"), (1, None), (2, "d"), (3, None), (3, "e")):
        body = None if value is None else prefixed(row, avro_body(ROW, {"id": number, "v": value}))
        lab.cluster.produce(lab.topic, body, key=prefixed(key, avro_body(KEY, {"id": number})))
        if number == 2:
            assert lab.run().stopped == {}
    assert lab.run().stopped == {}
    assert sorted(lab.values("id", "v", "_kafka_key"), key=str) == [
        (2, "d", {"id": 2}),
        (3, "e", {"id": 3}),
    ]
    lab.cluster.produce(lab.topic, None, key=prefixed(key, avro_body(KEY, {"id": 3})))
    lab.cluster.produce(lab.topic, None, key=b"broken")
    lab.cluster.produce(lab.topic, None)
    assert lab.run().stopped == {}
    assert lab.values("id") == [2]
    assert [row["offset"] for row in lab.dead_letters()] == [8, 9]


def test_a_key_of_one_value_is_the_one_key_column(registry: FakeRegistry) -> None:
    lab = lab_of(registry, **{"convert.key.type": "by_schema_id", "id.columns": "[id]"})
    key = registry.register("k", "long")
    for number, value in ((1, {"id": 1, "v": "a"}), (2, {"id": 2, "v": "b"}), (1, None)):
        body = None if value is None else json_body(value)
        lab.cluster.produce(lab.topic, body, key=prefixed(key, avro_body("long", number)))
    assert lab.run().stopped == {}
    assert lab.values("id", "v") == [(2, "b")]


@pytest.mark.parametrize("values", ["json", "string"])
@pytest.mark.parametrize("form", ["string", "raw", "by_schema_id"])
def test_ingest_case_43_the_records_own_key(registry: FakeRegistry, values: str, form: str) -> None:
    lab = lab_of(
        registry, **{"convert.value.type": values, "convert.key.type": form, "id.columns": "[_kafka_key]"}
    )
    schema = registry.register("k", "string")
    for name, value in (
        ("x", b'{"v": 1}'),
        ("y", b'{"v": 2}'),
        ("x", b'{"v": 3}'),
        ("y", None),
        (None, b'{"v": 4}'),
    ):
        key = None if name is None else name.encode()
        if form == "by_schema_id" and name is not None:
            key = prefixed(schema, avro_body("string", name))
        lab.cluster.produce(lab.topic, value, key=key)
    assert lab.run().stopped == {}
    (row,) = lab.rows()
    assert row["_kafka_key"] == (b"x" if form == "raw" else "x")
    assert row.get("v", row.get("_kafka_value")) in (3, '{"v": 3}')
    # Nobody could tell which row a record without a key means.
    (letter,) = lab.dead_letters()
    assert (letter["offset"], "_kafka_key" in letter["reason"]) == (4, True)
