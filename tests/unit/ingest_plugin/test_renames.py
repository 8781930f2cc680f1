"""Fields that their schema renames keep their column: Avro's aliases, Protobuf's numbers, in any order of schemas."""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from ingest_plugin.bind.identity import PROPERTY, Known, Labels, read_memory, write_memory
from tests.factories.ingest_lab import Lab
from tests.factories.schemas import avro_body, prefixed, proto_class
from tests.fakes.broker import FakeBroker
from tests.fakes.registry import FakeRegistry, serve


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve() as running:
        yield running


def lab_of(registry: FakeRegistry, **keys: Any) -> Lab:
    lab = Lab(**{"convert.value.type": "by_schema_id", "metadata.columns": False, **keys})
    lab.document["registry"] = {"url": registry.url}
    return lab


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any = "int", *aliases: str) -> dict[str, Any]:
    return {"name": name, "type": kind, **({"aliases": list(aliases)} if aliases else {})}


def avro(lab: Lab, registry: FakeRegistry, schema: Any, *values: Any) -> None:
    schema_id = registry.register("s", schema)
    for value in values:
        lab.cluster.produce(lab.topic, prefixed(schema_id, avro_body(schema, value)))


def proto(body: str, *, head: str = 'syntax = "proto3"; package x; ') -> str:
    return head + body


def protobuf(lab: Lab, registry: FakeRegistry, text: str, *values: dict[str, Any]) -> None:
    schema_id = registry.register("p", text, kind="PROTOBUF")
    for value in values:
        message = proto_class(text, "x.M")(**value)
        lab.cluster.produce(lab.topic, prefixed(schema_id, b"\0" + message.SerializeToString()))


OLD, NEW = record(field("a"), field("b")), record(field("c", "int", "a"), field("b"))


@pytest.mark.parametrize("order", sorted(set(itertools.permutations([0, 1, 0, 1]))))
def test_an_alias_keeps_the_column_in_any_order(registry: FakeRegistry, order: tuple[int, ...]) -> None:
    lab = lab_of(registry)
    for number, which in enumerate(order):
        schema = (OLD, NEW)[which]
        avro(lab, registry, schema, {("a", "c")[which]: number, "b": 9})
        if number % 2:
            assert lab.run().stopped == {}
    (renamed, other) = (name for name in lab.columns())
    assert (renamed, other) == ("c", "b")
    assert sorted(lab.values("c")) == [0, 1, 2, 3]
    assert lab.values("b") == [9] * 4
    ids = [one["id"] for one in lab.table().metadata.schema()["fields"]]
    assert ids == [1, 2]


def test_an_alias_of_an_alias(registry: FakeRegistry) -> None:
    lab = lab_of(registry)
    third = record(field("d", "int", "c"), field("b"))
    for schema, name in ((OLD, "a"), (NEW, "c"), (third, "d"), (OLD, "a"), (NEW, "c")):
        avro(lab, registry, schema, {name: 1, "b": 2})
        assert lab.run().stopped == {}
    assert list(lab.columns()) == ["d", "b"]
    assert lab.values("d") == [1] * 5


def test_aliases_inside_structs_lists_and_maps(registry: FakeRegistry) -> None:
    def whole(inner: dict[str, Any], suffix: str = "") -> dict[str, Any]:
        def named(name: str) -> dict[str, Any]:
            return record(inner, name=name + suffix)

        return record(
            field("s", named("S")),
            field("l", {"type": "array", "items": ["null", named("L")]}),
            field("m", {"type": "map", "values": named("M")}),
        )

    lab = lab_of(registry)
    for inner, name in ((field("x"), "x"), (field("y", "int", "x"), "y"), (field("x"), "x")):
        value = {name: 1}
        avro(lab, registry, whole(inner), {"s": value, "l": [value, None], "m": {"k": value}})
        assert lab.run().stopped == {}
    assert lab.rows() == [{"s": {"y": 1}, "l": [{"y": 1}, None], "m": [("k", {"y": 1})]}] * 3


def test_an_old_name_that_is_used_again_beside_its_successor(registry: FakeRegistry) -> None:
    lab = lab_of(registry)
    avro(lab, registry, OLD, {"a": 1, "b": 2})
    avro(lab, registry, NEW, {"c": 3, "b": 4})
    avro(lab, registry, record(field("c"), field("a"), field("b")), {"c": 5, "a": 6, "b": 7})
    assert lab.run().stopped == {}
    assert lab.values("c", "a", "b") == [(1, None, 2), (3, None, 4), (5, 6, 7)]


def test_a_column_that_settings_speak_of_keeps_its_name(registry: FakeRegistry) -> None:
    lab = lab_of(registry, **{"partition.by": "[bucket(a, 4)]"})
    avro(lab, registry, OLD, {"a": 1, "b": 2})
    avro(lab, registry, NEW, {"c": 3, "b": 4})
    assert lab.run().stopped == {}
    assert sorted(lab.values("a", "b")) == [(1, 2), (3, 4)]


FIRST = proto("message M { int32 a = 1; string s = 2; In in = 3; } message In { int32 x = 1; }")
SECOND = proto("message M { string s = 2; int32 renamed = 1; In in = 3; } message In { int32 y = 1; }")


@pytest.mark.parametrize("order", ["0101", "1010", "0011", "1100"])
def test_a_number_keeps_the_column_in_any_order(registry: FakeRegistry, order: str) -> None:
    lab = lab_of(registry)
    for text in (FIRST, SECOND):
        registry.register("p", text, kind="PROTOBUF")
    for number, which in enumerate(order):
        text, a, x = ((FIRST, "a", "x"), (SECOND, "renamed", "y"))[int(which)]
        protobuf(lab, registry, text, {a: number, "s": which, "in": {x: number}})
        if number % 2:
            assert lab.run().stopped == {}
    assert set(lab.columns()) == {"renamed", "s", "in"}
    expected = [(n, which, {"y": n}) for n, which in enumerate(order)]
    assert sorted(lab.values("renamed", "s", "in"), key=str) == expected


def test_names_that_change_places(registry: FakeRegistry) -> None:
    lab = lab_of(registry)
    protobuf(lab, registry, proto("message M { int32 a = 1; int32 b = 2; }"), {"a": 1, "b": 2})
    assert lab.run().stopped == {}
    protobuf(lab, registry, proto("message M { int32 b = 1; int32 a = 2; }"), {"b": 3, "a": 4})
    assert lab.run().stopped == {}
    # A column keeps its name while the other has the wanted one; the values are under their numbers all the same.
    assert sorted(lab.values("a", "b")) == [(1, 2), (3, 4)]


def test_a_name_with_another_number_is_another_field(registry: FakeRegistry) -> None:
    lab = lab_of(registry)
    protobuf(lab, registry, proto("message M { int32 a = 1; }"), {"a": 1})
    protobuf(lab, registry, proto("message M { int32 a = 7; }"), {"a": 2})
    (reason,) = lab.run().stopped.values()
    assert "column 'a' is field x.M#1, the data's 'a' is x.M#7" in reason
    assert lab.values("a") == [1]
    lab.keys["errors.tolerance"] = "all"
    assert lab.run().stopped == {}
    assert [row["offset"] for row in lab.dead_letters()] == [1]


def test_messages_of_one_topic_have_numbers_of_their_own(registry: FakeRegistry) -> None:
    lab = lab_of(registry)
    text = proto("message M { int32 a = 1; int32 c = 2; } message O { int32 b = 1; int32 a = 2; }")
    schema_id = registry.register("p", text, kind="PROTOBUF")
    for path, name, value in ((b"\0", "x.M", {"a": 1, "c": 2}), (b"\2\2", "x.O", {"b": 3, "a": 4})) * 2:
        body = proto_class(text, name)(**value).SerializeToString()
        lab.cluster.produce(lab.topic, prefixed(schema_id, path + body))
        assert lab.run().stopped == {}
    assert sorted(lab.values("a", "b", "c"), key=str) == [
        (1, None, 2),
        (1, None, 2),
        (4, 3, None),
        (4, 3, None),
    ]
    newer = proto("message M { int32 z = 1; int32 c = 2; } message O { int32 b = 1; int32 a = 2; }")
    protobuf(lab, registry, newer, {"z": 5, "c": 6})
    assert lab.run().stopped == {}
    assert max(lab.values("z", "b", "c"), key=str) == (5, None, 6)


def test_a_freed_name_may_be_given_to_a_new_field(registry: FakeRegistry) -> None:
    lab = lab_of(registry)
    protobuf(lab, registry, proto("message M { int32 a = 1; }"), {"a": 1})
    protobuf(lab, registry, proto("message M { int32 z = 1; int32 a = 2; }"), {"z": 2, "a": 3})
    assert lab.run().stopped == {}
    assert sorted(lab.values("z", "a"), key=str) == [(1, None), (2, 3)]


def test_a_table_that_was_there_before_learns_its_numbers(registry: FakeRegistry) -> None:
    lab = lab_of(registry)
    avro(lab, registry, record(field("a")), {"a": 1})
    assert lab.run().stopped == {}
    assert PROPERTY not in lab.table().metadata.properties
    protobuf(lab, registry, proto("message M { int32 a = 1; }"), {"a": 2})
    protobuf(lab, registry, proto("message M { int32 b = 1; }"), {"b": 3})
    assert lab.run().stopped == {}
    assert sorted(lab.values("b")) == [1, 2, 3]


def test_two_workers_change_the_schema_at_once(registry: FakeRegistry) -> None:
    """Whoever comes second finds it done, or does the rest; rows and columns are the same in any order."""
    texts = [
        proto("message M { int32 a = 1; }"),
        proto("message M { int64 a = 1; string s = 2; }"),
        proto("message M { int64 b = 1; string s = 2; double d = 3; }"),
    ]
    lab = Lab(partitions=2, **{"convert.value.type": "by_schema_id"})
    lab.document["registry"] = {"url": registry.url}
    ids = [registry.register("p", text, kind="PROTOBUF") for text in texts]
    draw = random.Random(7)
    for number in range(40):
        which = draw.randrange(3)
        name = "b" if which == 2 else "a"
        body = proto_class(texts[which], "x.M")(**{name: number}).SerializeToString()
        lab.cluster.produce(lab.topic, prefixed(ids[which], b"\0" + body), partition=number % 2)
    turns = [0, 0]
    workers = []
    for share in range(2):

        def should_stop(share: int = share) -> bool:
            turns[share] += 1
            return turns[share] > 30

        broker = FakeBroker(lab.cluster, lab.clock, None)
        workers.append(lab.worker(broker=broker, should_stop=should_stop, share=[share]))
    for worker in workers:
        worker.run()
        assert worker.stopped == {}
    assert sorted(row["b"] for row in lab.rows()) == list(range(40))
    assert set(lab.columns()) == {"b", "s", "d", "_kafka_metadata"}


def test_memory_survives_nonsense() -> None:
    memory = {1: Known(("M#3",), 7, ("a", "b")), 2: Known(), 5: Known((), 0, ("x",))}
    assert read_memory({PROPERTY: write_memory(memory)}) == {1: memory[1], 5: memory[5]}
    for text in ("", "{", "[]", '{"x": 1}', '{"1": 5}', '{"1": {"was": 5}}'):
        assert read_memory({PROPERTY: text}) == {}
    assert read_memory({}) == {}


def test_labels_reach_everything() -> None:
    inner = Labels({"x": "y"})
    labels = Labels(
        {"a": "b"}, {"s": inner, "l": Labels(inside={"": inner}), "m": Labels(inside={"": inner})}
    )
    row = {"a": 1, "s": {"x": 1}, "l": [{"x": 1}, None], "m": [("k", {"x": 1}), ("n", None)], "o": None}
    assert labels.row(row) == {
        "b": 1,
        "s": {"y": 1},
        "l": [{"y": 1}, None],
        "m": [("k", {"y": 1}), ("n", None)],
        "o": None,
    }
    assert labels.row({"m": {"k": {"x": 1}}, "s": None}) == {"m": {"k": {"y": 1}}, "s": None}
