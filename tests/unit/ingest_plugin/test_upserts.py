"""Rows that take the place of those of their key: what is left after inserts, updates, deletes and tombstones."""

from typing import Any

import orjson
import pytest

from ingest_plugin.keys import ConfigError
from table_format.catalog import NewTable
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import Content
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import snapshot_files
from tests.factories.ingest_lab import Lab, settings_of
from tests.fakes.broker import FakeBroker
from tests.fakes.catalog import unknown

KEY = {"upsert.enable": True, "id.columns": "[id]"}


def lab(**keys: Any) -> Lab:
    return Lab(**{**KEY, **keys})


def put(lab: Lab, *rows: dict[str, Any], partition: int = 0) -> None:
    lab.json(*rows, partition=partition)


def tombstone(lab: Lab, key: object, partition: int = 0) -> None:
    data = key if isinstance(key, bytes | None) else orjson.dumps(key)
    lab.cluster.produce(lab.topic, None, partition=partition, key=data)


def state(lab: Lab, *names: str) -> list[Any]:
    rows = [tuple(row[name] for name in names) for row in lab.rows()]
    return sorted(rows, key=lambda row: [str(value) for value in row])


def deletes(lab: Lab) -> int:
    return int(lab.summary().get("total-equality-deletes", "0"))


def test_a_later_row_takes_the_place_of_the_earlier_in_one_commit_and_across() -> None:
    world = lab()
    put(world, {"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 1, "v": "c"})
    assert world.run().stopped == {}
    assert state(world, "id", "v") == [(1, "c"), (2, "b")]
    assert world.summary()["added-records"] == "2"
    put(world, {"id": 2, "v": "d"}, {"id": 3, "v": "e"})
    assert world.run().stopped == {}
    assert state(world, "id", "v") == [(1, "c"), (2, "d"), (3, "e")]
    assert world.summary()["operation"] == "overwrite"
    assert world.summary()["ingest.offsets"] == '{"flights":{"0":5}}'


def test_the_key_is_the_tables_identifier() -> None:
    world = lab()
    put(world, {"v": "a", "id": 1})
    world.run()
    schema = world.table().metadata.schema()
    (key,) = [field for field in schema["fields"] if field["name"] == "id"]
    assert schema["identifier-field-ids"] == [key["id"]]
    assert key["required"] is True


def test_id_columns_alone_only_name_the_identifier() -> None:
    world = Lab(**{"id.columns": "id"})
    put(world, {"id": 1}, {"id": 1})
    world.run()
    assert world.values("id") == [1, 1]
    assert len(world.table().metadata.schema()["identifier-field-ids"]) == 1


@pytest.mark.parametrize("key", [1, {"id": 1}, {"id": 1, "more": 2}])
def test_ingest_case_37_a_tombstone_deletes_the_row_of_its_key(key: object) -> None:
    world = lab()
    put(world, {"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    world.run()
    tombstone(world, key)
    assert world.run().stopped == {}
    assert state(world, "id", "v") == [(2, "b")]
    assert world.summary()["operation"] == "delete"


def test_ingest_case_37_a_tombstone_whose_key_does_not_tell_is_a_dead_letter() -> None:
    world = lab()
    put(world, {"id": 1, "v": "a"})
    for key in (None, {"other": 1}, [1], b"\xff", {"id": None}, b"null"):
        tombstone(world, key)
    assert world.run().stopped == {}
    assert state(world, "id") == [(1,)]
    assert [row["offset"] for row in world.dead_letters()] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("key", [b"123", b'"123"'])
def test_a_tombstones_key_of_digits_is_text_where_the_column_is(key: bytes) -> None:
    world = lab()
    put(world, {"id": "123", "v": "a"})
    world.run()
    tombstone(world, key)
    assert world.run().stopped == {}
    assert world.rows() == []


def test_a_tombstone_needs_every_column_of_the_key() -> None:
    world = lab(**{"id.columns": ["a", "b"]})
    put(world, {"a": 1, "b": "x", "v": 1}, {"a": 1, "b": "y", "v": 2})
    tombstone(world, 1)
    tombstone(world, {"a": 1, "b": "x"})
    assert world.run().stopped == {}
    assert state(world, "a", "b") == [(1, "y")]
    assert len(world.dead_letters()) == 1


def test_ingest_case_40_insert_delete_insert_of_one_key_in_one_batch() -> None:
    """All with the same timestamp: what counts is the order of the log."""
    world = lab()
    put(world, {"id": 1, "v": "first"})
    tombstone(world, 1)
    put(world, {"id": 1, "v": "last"}, {"id": 2, "v": "x"})
    tombstone(world, 2)
    assert world.run().stopped == {}
    assert state(world, "id", "v") == [(1, "last")]
    assert world.summary()["added-records"] == "1"


def test_the_operation_may_stand_in_a_field() -> None:
    world = Lab(**{"id.columns": "[id]", "cdc.field": "meta.op"})
    put(
        world,
        {"id": 1, "v": 1, "meta": {"op": "insert"}},
        {"id": 2, "v": 1, "meta": {"op": "I"}},
        {"id": 3, "v": 1},
    )
    world.run()
    put(
        world,
        {"id": 1, "v": 2, "meta": {"op": "U"}},
        {"id": 2, "meta": {"op": "delete"}},
        {"id": 4, "v": 9, "meta": {"op": "?"}},
    )
    assert world.run().stopped == {}
    assert state(world, "id", "v") == [(1, 2), (3, 1)]
    (letter,) = world.dead_letters()
    assert "is no operation" in letter["reason"]


def test_ingest_case_43_a_row_without_its_key_is_a_dead_letter() -> None:
    world = lab()
    put(world, {"id": 1, "v": 1}, {"v": 2}, {"id": None, "v": 3})
    assert world.run().stopped == {}
    assert state(world, "id", "v") == [(1, 1)]
    assert [letter["reason"] for letter in world.dead_letters()] == [
        "the record has no value for key column 'id'"
    ] * 2


def test_a_refused_row_does_not_replace() -> None:
    world = lab(schema={"columns": {"id": "long", "v": "int"}, "extra": "reject"})
    put(world, {"id": 1, "v": 1}, {"id": 1, "v": "no number"})
    world.run()
    assert state(world, "id", "v") == [(1, 1)]
    assert len(world.dead_letters()) == 1


def test_ingest_case_38_a_row_that_moves_to_another_partition_leaves_none_behind() -> None:
    world = lab(**{"partition.by": "[place]"})
    put(world, {"id": 1, "place": "a"}, {"id": 2, "place": "a"})
    world.run()
    put(world, {"id": 1, "place": "b"})
    assert world.run().stopped == {}
    assert state(world, "id", "place") == [(1, "b"), (2, "a")]
    specs = world.table().metadata.partition_specs
    assert [len(spec["fields"]) for spec in specs] == [1, 0]
    assert len(world.table().metadata.spec()["fields"]) == 1


def test_a_key_that_tells_the_partition_needs_no_second_spec() -> None:
    world = lab(**{"partition.by": "[bucket(id, 4)]"})
    put(world, *({"id": number, "v": 1} for number in range(8)))
    world.run()
    put(world, *({"id": number, "v": 2} for number in range(8)))
    world.run()
    assert state(world, "id", "v") == [(number, 2) for number in range(8)]
    assert len(world.table().metadata.partition_specs) == 1
    files = snapshot_files(world.store, world.table().metadata).tasks
    assert all(len(task.deletes) == 0 for task in files if task.entry.sequence_number == 2)


def repartition(world: Lab) -> None:
    table = world.table()
    (key,) = [field for field in table.metadata.schema()["fields"] if field["name"] == "id"]
    fields = [{"source-id": key["id"], "name": "id_b2", "transform": "bucket[2]"}]
    updates: list[JsonObject] = [
        {"action": "add-spec", "spec": {"fields": fields}},
        {"action": "set-default-spec", "spec-id": -1},
    ]
    world.catalog.commit(table.ident, [], updates)


@pytest.mark.parametrize("during", [False, True])
def test_ingest_case_38_deletes_reach_files_of_an_old_partitioning(during: bool) -> None:
    world = lab(**{"partition.by": "[bucket(id, 4)]"})
    put(world, *({"id": number, "v": 1} for number in range(6)))
    world.run()
    if during:
        world.catalog.before_commit.append(lambda: repartition(world))
    else:
        repartition(world)
    put(world, *({"id": number, "v": 2} for number in range(4)))
    assert world.run().stopped == {}
    world.run()
    assert state(world, "id", "v") == [(n, 2) for n in range(4)] + [(n, 1) for n in (4, 5)]


def test_a_schema_change_between_two_rows_of_one_key() -> None:
    world = lab(**{"commit.interval.ms": 900_000})
    put(world, {"id": 1, "v": 1}, {"id": 2, "v": 1})
    put(world, {"id": 1, "v": 2, "extra": "x"})
    assert world.run().stopped == {}
    put(world, {"id": 2, "other": 0.5})
    assert world.run().stopped == {}
    assert state(world, "id", "v", "extra", "other") == [(1, 2, "x", None), (2, None, None, 0.5)]


def test_text_keys_of_raw_topics() -> None:
    world = Lab(**{**KEY, "id.columns": "_kafka_key", "convert.value.type": "string"})
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None)):
        world.cluster.produce(world.topic, value, key=key)
    world.cluster.produce(world.topic, b"x", key=None)
    assert world.run().stopped == {}
    assert state(world, "_kafka_key", "_kafka_value") == [("a", "2")]
    assert len(world.dead_letters()) == 1


def test_a_tombstone_before_any_row_makes_the_table() -> None:
    world = lab()
    tombstone(world, 1)
    assert world.run().stopped == {}
    assert world.rows() == []
    put(world, {"id": 1, "v": 1})
    world.run()
    assert state(world, "id", "v") == [(1, 1)]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("2024-05-06", "date"),
        ("12.50", "decimal(9,2)"),
        ("0f8fad5b-d9cb-469f-a165-70867728950e", "uuid"),
        ("2024-05-06T07:08:09Z", "timestamptz"),
        ("text", "string"),
        (True, "boolean"),
        (7, "int"),
    ],
)
def test_keys_of_every_type(value: object, kind: str) -> None:
    world = lab(schema={"columns": {"id": kind, "v": "int"}})
    put(world, {"id": value, "v": 1}, {"id": value, "v": 2})
    world.run()
    put(world, {"id": value, "v": 3})
    assert world.run().stopped == {}
    assert [row["v"] for row in world.rows()] == [3]
    tombstone(world, {"id": value})
    assert world.run().stopped == {}
    assert world.rows() == []


def test_a_widened_key_still_meets_its_rows() -> None:
    world = lab(schema={"columns": {"id": "int", "v": "int"}})
    put(world, {"id": 1, "v": 1})
    world.run()
    world.document["topics"]["flights"]["schema"] = {"columns": {"id": "long", "v": "int"}}
    put(world, {"id": 1, "v": 2}, {"id": 2**40, "v": 1})
    assert world.run().stopped == {}
    assert state(world, "id", "v") == [(1, 2), (2**40, 1)]


def test_memory_asks_for_a_commit_before_the_interval() -> None:
    world = lab(**{"commit.interval.ms": 900_000, "write.upsert.memory.bytes": 1024})
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls % 3 == 0:
            put(world, *({"id": number, "v": "x" * 100} for number in range(polls * 10)))
        return polls > 12

    world.run(exit_at_end=False, should_stop=should_stop)
    assert len([commit for commit in world.catalog.commits if commit[0] == world.ident]) >= 3


def test_an_unanswered_commit_of_changes_is_not_repeated() -> None:
    world = lab()
    put(world, {"id": 1, "v": 1})
    world.run()
    put(world, {"id": 1, "v": 2})
    world.catalog.faults.append(unknown(applied=True))
    assert world.run().stopped == {}
    assert state(world, "id", "v") == [(1, 2)]
    assert deletes(world) == 2


def test_files_of_changes_that_no_commit_named_are_deleted() -> None:
    world = lab()
    put(world, {"id": 1, "v": 1})
    world.run()
    put(world, {"id": 1, "v": 2})
    world.document["topics"]["flights"]["commit.interval.ms"] = 500
    broker = FakeBroker(world.cluster, world.clock)
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 4:
            world.run()
        return polls > 8

    world.run(broker=broker, exit_at_end=False, should_stop=should_stop)
    assert state(world, "id", "v") == [(1, 2)]
    entries = [
        *(task.entry.data_file for task in snapshot_files(world.store, world.table().metadata).tasks),
        *(
            entry.data_file
            for task in snapshot_files(world.store, world.table().metadata).tasks
            for entry in task.deletes
        ),
    ]
    named = {file.file_path for file in entries}
    there = {info.path for info in world.store.list("memory://warehouse") if info.path.endswith(".parquet")}
    # The first commit's deletes reach nothing: no row was older.
    assert len(there - named) == 1


def existing(world: Lab, **properties: str) -> TableMetadata:
    fields = [
        {"id": 1, "name": "ID", "required": False, "type": "long"},
        {"id": 2, "name": "must", "required": True, "type": "string"},
    ]
    new = NewTable(schema={"type": "struct", "schema-id": 0, "fields": fields}, properties=properties)
    return world.catalog.create(world.ident, new).metadata


def test_an_existing_table_with_another_case_and_a_required_column() -> None:
    world = lab()
    existing(world)
    put(world, {"id": 1, "must": "a"}, {"id": 2, "must": "b"})
    world.run()
    tombstone(world, 1)
    put(world, {"id": 2, "must": "c"})
    assert world.run().stopped == {}
    assert state(world, "ID", "must") == [(2, "c")]


def test_a_table_of_the_first_format_version_stops_with_a_reason() -> None:
    world = lab()
    existing(world, **{"format-version": "1"})
    put(world, {"id": 1, "must": "a"})
    (reason,) = world.run().stopped.values()
    assert "format version 1" in reason


def test_a_key_that_cannot_be_one_stops_with_a_reason() -> None:
    world = lab()
    put(world, {"id": 1.5})
    (reason,) = world.run().stopped.values()
    assert "column 'id' cannot be part of a key: its type is double" in reason


def test_delete_files_are_equality_deletes_of_the_key() -> None:
    world = lab()
    put(world, {"id": 1, "v": 1})
    world.run()
    put(world, {"id": 1, "v": 2})
    world.run()
    tasks = snapshot_files(world.store, world.table().metadata).tasks
    (old,) = [task for task in tasks if task.entry.sequence_number == 1]
    (delete,) = [entry.data_file for entry in old.deletes]
    assert delete.content is Content.EQUALITY_DELETES
    assert delete.equality_ids == world.table().metadata.schema()["identifier-field-ids"]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"upsert.enable": True}, "upsert.enable needs 'id.columns'"),
        ({"cdc.field": "op"}, "cdc.field needs 'id.columns'"),
        ({"id.columns": "[a, A]"}, "twice"),
        ({"id.columns": 5}, "list of column names"),
        ({"id.columns": "[a,,b]"}, "list of column names"),
        ({"id.columns": "[_from_debezium_key_]"}, "name the columns of the connector's key"),
        ({"id.columns": "a", "cdc.field": "a..b"}, "cdc.field must be"),
        ({"id.columns": "a", "convert.value.type": "raw"}, "can only be [_kafka_key]"),
        ({"id.columns": "_kafka_metadata"}, "cannot be part of id.columns"),
    ],
)
def test_settings_that_are_refused(keys: dict[str, Any], expected: str) -> None:
    document = {"topics": {"t": {"namespace": "n", "convert.value.type": "json", **keys}}}
    with pytest.raises(ConfigError) as caught:
        settings_of(document)
    assert expected in str(caught.value)
