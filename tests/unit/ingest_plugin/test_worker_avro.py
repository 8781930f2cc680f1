"""Avro topics over fakes: schema changes on the way, and schemas that do not fit the table."""

import io
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

from tests.factories.ingest_lab import Lab
from tests.fakes.registry import FakeRegistry, serve


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve() as running:
        yield running


def lab_of(registry: FakeRegistry, **keys: Any) -> Lab:
    lab = Lab(**{"convert.value.type": "by_schema_id", "metadata.columns": False, **keys})
    lab.document["registry"] = {"url": registry.url}
    return lab


def record(**types: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": n, "type": kind} for n, kind in types.items()]}


def send(lab: Lab, registry: FakeRegistry, schema: dict[str, Any], *values: dict[str, Any]) -> None:
    schema_id = registry.register(f"{lab.topic}-value", schema)
    for value in values:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
        lab.cluster.produce(lab.topic, b"\0" + schema_id.to_bytes(4, "big") + body.getvalue())


def test_ingest_case_28_schemas_change_within_one_batch(registry: FakeRegistry) -> None:
    lab = lab_of(registry)
    send(lab, registry, record(a="int"), {"a": 1})
    send(lab, registry, record(a="long", b=["null", "string"]), {"a": 2**40, "b": "x"})
    send(lab, registry, record(a="int"), {"a": 3})
    send(lab, registry, record(B="string"), {"B": "y"})
    assert lab.run().stopped == {}
    assert lab.columns() == {"a": "long", "b": "string"}
    found = sorted(lab.values("a", "b"), key=str)
    assert found == [(1, None), (1099511627776, "x"), (3, None), (None, "y")]


def test_a_schema_that_contradicts_the_table(registry: FakeRegistry) -> None:
    lab = lab_of(registry)
    send(lab, registry, record(a="int"), {"a": 1})
    send(lab, registry, record(a="string"), {"a": "x"})
    send(lab, registry, record(a="int"), {"a": 2})
    (reason,) = lab.run().stopped.values()
    assert "record at partition 0 offset 1: does not fit the table: column 'a' is int" in reason
    assert lab.values("a") == [1]
    lab.keys["errors.tolerance"] = "all"
    assert lab.run().stopped == {}
    assert sorted(lab.values("a")) == [1, 2]
    assert [row["offset"] for row in lab.dead_letters()] == [1]


def test_ingest_case_34_unions_reach_the_table(registry: FakeRegistry) -> None:
    lab = lab_of(registry)
    send(lab, registry, record(u=["null", "int", "string"]), {"u": 5}, {"u": "x"}, {"u": None})
    assert lab.run().stopped == {}
    assert lab.values("u") == [{"int": 5, "string": None}, {"int": None, "string": "x"}, None]


def test_a_registry_that_is_away_delays_and_blames_nobody(registry: FakeRegistry) -> None:
    lab = lab_of(registry)
    send(lab, registry, record(a="int"), {"a": 1})
    registry.status = 503
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 10:
            registry.status = None
        return polls > 200

    assert lab.run(should_stop=should_stop).stopped == {}
    assert lab.values("a") == [1]
    assert len(lab.catalog.commits) == 1


def test_a_registry_that_refuses_us_stops_the_topic(registry: FakeRegistry) -> None:
    lab = lab_of(registry)
    send(lab, registry, record(a="int"), {"a": 1})
    registry.status = 403
    (reason,) = lab.run().stopped.values()
    assert "refuses us: HTTP 403" in reason
