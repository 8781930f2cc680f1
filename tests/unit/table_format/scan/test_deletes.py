"""Data files read with their deletes applied."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from table_format.errors import Invalid, Unsupported
from table_format.io.faults import Counting
from table_format.io.memory import MemoryObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, ManifestEntry, Status
from table_format.metadata.document import TableMetadata
from table_format.scan.deletes import (
    DeleteCache,
    read_task,
    with_deletes_that_name_them,
)
from table_format.scan.equality import KeySet
from table_format.scan.plan import FileTask
from table_format.scan.positions import referenced_paths
from tests.factories.lake import IDENT, Lake
from tests.factories.lines import lines_of
from tests.factories.vectors import put_vector
from tests.fakes.clock import ManualClock


def row(number: int | None, name: str | None = "a") -> dict[str, Any]:
    return {"id": number, "name": name}


@pytest.fixture
def lake() -> Lake:
    return Lake(MemoryObjectStore(ManualClock()))


def task_of(data: DataFile, *deletes: DataFile) -> FileTask:
    def entry(file: DataFile) -> ManifestEntry:
        return ManifestEntry(
            status=Status.ADDED, snapshot_id=1, sequence_number=1, file_sequence_number=1, data_file=file
        )

    return FileTask(entry(data), tuple(entry(file) for file in deletes))


def read(lake: Lake, task: FileTask, **options: Any) -> list[dict[str, Any]]:
    batches = read_task(lake.store, task, lake.metadata, **options)
    return [found for batch in batches for found in batch.to_pylist()]


def ids(rows: Sequence[dict[str, Any]]) -> list[int | None]:
    return [found["id"] for found in rows]


def evolve(lake: Lake, *fields: JsonObject) -> None:
    schema = {"type": "struct", "fields": list(fields)}
    lake.catalog.commit(
        IDENT,
        [],
        [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}],
    )


def test_no_deletes(lake: Lake) -> None:
    data = lake.data_file([row(1), row(2)])
    assert ids(read(lake, task_of(data))) == [1, 2]


def test_position_deletes_of_several_files_and_other_data_files(lake: Lake) -> None:
    data = lake.data_file([row(n) for n in range(100)])
    first = lake.position_file([(data.file_path, 0), (data.file_path, 64), ("memory://other", 1)])
    second = lake.position_file([(data.file_path, 99), (data.file_path, 64), (data.file_path, 5000)])
    for batch_rows in (1, 7, 64, 65_536):
        found = ids(read(lake, task_of(data, first, second), batch_rows=batch_rows))
        assert found == [n for n in range(100) if n not in (0, 64, 99)]


def test_every_row_deleted(lake: Lake) -> None:
    data = lake.data_file([row(1), row(2)])
    delete = lake.position_file([(data.file_path, 0), (data.file_path, 1)])
    assert read(lake, task_of(data, delete)) == []


def test_equality_deletes_on_one_column(lake: Lake) -> None:
    data = lake.data_file([row(n, str(n % 3)) for n in range(9)])
    delete = lake.equality_file([row(4), row(7), row(100)], [1])
    for batch_rows in (2, 65_536):
        assert ids(read(lake, task_of(data, delete), batch_rows=batch_rows)) == [0, 1, 2, 3, 5, 6, 8]


def test_equality_deletes_on_two_columns_need_both(lake: Lake) -> None:
    data = lake.data_file([row(1, "a"), row(1, "b"), row(2, "a"), row(2, "b")])
    delete = lake.equality_file([row(1, "b"), row(2, "a")], [2, 1])
    assert read(lake, task_of(data, delete)) == [row(1, "a"), row(2, "b")]


def test_several_sets_of_equality_ids_and_files(lake: Lake) -> None:
    data = lake.data_file([row(n, f"n{n}") for n in range(6)])
    deletes = [
        lake.equality_file([row(0)], [1]),
        lake.equality_file([row(1)], [1]),
        lake.equality_file([row(9, "n2")], [2]),
        lake.equality_file([row(3, "n3"), row(4, "n5")], [1, 2]),
        lake.position_file([(lake.metadata.location, 0), (data.file_path, 4)]),
    ]
    assert ids(read(lake, task_of(data, *deletes))) == [5]


def test_null_equals_null(lake: Lake) -> None:
    data = lake.data_file([row(1, None), row(None, "x"), row(None, None), row(2, "y")])
    one = lake.equality_file([row(None)], [1])
    assert read(lake, task_of(data, one)) == [row(1, None), row(2, "y")]
    both = lake.equality_file([row(None, None)], [1, 2])
    assert read(lake, task_of(data, both)) == [row(1, None), row(None, "x"), row(2, "y")]
    neither = lake.equality_file([row(5, "z")], [1, 2])
    assert len(read(lake, task_of(data, neither))) == 4


def test_empty_equality_delete_file_deletes_nothing(lake: Lake) -> None:
    data = lake.data_file([row(1), row(None)])
    assert len(read(lake, task_of(data, lake.equality_file([], [1])))) == 2


def test_delete_on_a_column_that_was_dropped_since(lake: Lake) -> None:
    data = lake.data_file([row(1, "a"), row(2, "b")])
    delete = lake.equality_file([row(9, "b")], [2])
    evolve(lake, {"id": 1, "name": "id", "required": False, "type": "long"})
    assert read(lake, task_of(data, delete)) == [{"id": 1}]


def test_delete_on_a_column_that_was_renamed_and_widened_since(lake: Lake) -> None:
    schema = {"type": "struct", "fields": [{"id": 1, "name": "n", "required": False, "type": "int"}]}
    lake = Lake(MemoryObjectStore(ManualClock()), schema=schema)
    data = lake.data_file([{"n": 1}, {"n": 2}])
    old_delete = lake.equality_file([{"n": 1}], [1])
    evolve(lake, {"id": 1, "name": "wide", "required": False, "type": "long"})
    new_data = lake.data_file([{"wide": 1}, {"wide": 2}])
    new_delete = lake.equality_file([{"wide": 2}], [1])
    assert read(lake, task_of(data, old_delete)) == [{"wide": 2}]
    assert read(lake, task_of(data, new_delete)) == [{"wide": 1}]
    assert read(lake, task_of(new_data, old_delete)) == [{"wide": 2}]
    assert read(lake, task_of(data, old_delete, new_delete)) == []


def test_delete_on_a_column_that_the_data_file_does_not_have(lake: Lake) -> None:
    data = lake.data_file([row(1), row(2)])
    evolve(
        lake,
        *lake.metadata.schema()["fields"],
        {"id": 3, "name": "late", "required": False, "type": "string"},
    )
    none = lake.equality_file([{"late": "x"}], [3])
    every = lake.equality_file([{"late": None}], [3])
    assert len(read(lake, task_of(data, none))) == 2
    assert read(lake, task_of(data, every)) == []


def test_delete_on_a_field_inside_a_struct() -> None:
    inner = {"type": "struct", "fields": [{"id": 2, "name": "k", "required": False, "type": "int"}]}
    schema = {"type": "struct", "fields": [{"id": 1, "name": "s", "required": False, "type": inner}]}
    lake = Lake(MemoryObjectStore(ManualClock()), schema=schema)
    data = lake.data_file([{"s": {"k": 1}}, {"s": {"k": 2}}, {"s": None}, {"s": {"k": None}}])
    keys = [{"s": {"k": 2}}, {"s": None}]
    delete = replace(lake.equality_file(keys, [1]), equality_ids=[2])
    assert read(lake, task_of(data, delete)) == [{"s": {"k": 1}}]


KEYS: list[tuple[str, list[Any]]] = [
    ("double", [float("nan"), 1.5, -1.5]),
    ("boolean", [True, None]),
    ("uuid", [b"\x01" * 16, b"\x02" * 16]),
    ("decimal(9, 2)", [1, 2]),
    ("timestamptz", [0, 1]),
    ("binary", [b"", b"\x00"]),
]


@pytest.mark.parametrize(("kind", "values"), KEYS)
def test_keys_of_every_kind(kind: str, values: list[Any]) -> None:
    schema = {"type": "struct", "fields": [{"id": 1, "name": "k", "required": False, "type": kind}]}
    lake = Lake(MemoryObjectStore(ManualClock()), schema=schema)
    data = lake.data_file([{"k": value} for value in values])
    delete = lake.equality_file([{"k": values[0]}], [1])
    assert len(read(lake, task_of(data, delete))) == len(values) - 1
    assert len(read(lake, task_of(data, lake.equality_file([{"k": v} for v in values], [1])))) == 0


def test_many_columns_of_many_values_do_not_overflow() -> None:
    rows = 3000
    columns = [pa.array([(n * (3 + c)) % rows for n in range(rows)], pa.int64()) for c in range(6)]
    fields: list[JsonObject] = [{"id": c, "name": str(c), "type": "long"} for c in range(6)]
    keys = KeySet(fields, [pa.table(columns, names=[str(c) for c in range(6)])])
    assert keys.matches(columns).all()
    shifted = [*columns[:5], pa.array([(v + 1) % rows for v in columns[5].to_pylist()], pa.int64())]
    assert not keys.matches(shifted).any()


@pytest.mark.parametrize("most", [0, 2, 4])
def test_more_keys_than_are_held_delete_the_same_rows(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    data = lake.data_file([row(n, "ab"[n % 2]) for n in range(50)] + [row(None, None), row(9, "a")])
    deletes = [
        lake.equality_file([row(3), row(None), row(99)], [1]),
        lake.equality_file([row(9), row(3)], [1]),
        lake.equality_file([row(4, "a"), row(5, "a"), row(6, None)], [1, 2]),
        lake.position_file([(data.file_path, 0)]),
    ]
    monkeypatch.setattr("table_format.scan.sweep.MOST_KEYS_HELD", most)
    for batch_rows in (1, 7, 65_536):
        found = ids(read(lake, task_of(data, *deletes), batch_rows=batch_rows))
        assert found == [n for n in range(50) if n not in (0, 3, 4, 9)]


def test_deletes_that_make_no_sense_are_refused(lake: Lake) -> None:
    data = lake.data_file([row(1)])
    good = lake.equality_file([row(1)], [1])
    for equality_ids in (None, [], [77]):
        with pytest.raises(Invalid):
            read(lake, task_of(data, replace(good, equality_ids=equality_ids)))
    with pytest.raises(Unsupported, match="only Parquet"):
        read(lake, task_of(data, replace(good, file_format="LANCE")))


def test_delete_inside_a_list_is_refused() -> None:
    many = {"type": "list", "element-id": 2, "element": "int", "element-required": False}
    schema = {"type": "struct", "fields": [{"id": 1, "name": "l", "required": False, "type": many}]}
    lake = Lake(MemoryObjectStore(ManualClock()), schema=schema)
    data = lake.data_file([{"l": [1]}])
    delete = lake.equality_file([{"l": [1]}], [1])
    for wanted in ([1], [2]):
        with pytest.raises(Invalid, match="not a plain value"):
            read(lake, task_of(data, replace(delete, equality_ids=wanted)))


def test_deletion_vector(lake: Lake) -> None:
    data = lake.data_file([row(n) for n in range(100)])
    vector = put_vector(lake.store, lake.path("v"), data, [0, 64, 99, 5000])
    keys = lake.equality_file([row(5)], [1])
    for batch_rows in (1, 7, 64, 65_536):
        found = ids(read(lake, task_of(data, vector, keys), batch_rows=batch_rows))
        assert found == [n for n in range(100) if n not in (0, 5, 64, 99)]


def test_deletion_vector_of_another_file_is_refused(lake: Lake) -> None:
    data, other = lake.data_file([row(1)]), lake.data_file([row(2)])
    vector = put_vector(lake.store, lake.path("v"), other, [0])
    with pytest.raises(Invalid, match="has a deletion vector of"):
        read(lake, task_of(data, vector))


def evolved(lake: Lake, *fields: JsonObject, old: bool = False) -> TableMetadata:
    """The table's metadata with another schema; `old` keeps it as a former one only."""
    schema = {"type": "struct", "schema-id": 9, "fields": list(fields)}
    document = dict(lake.metadata.document)
    document["schemas"] = [*document["schemas"], schema]
    return TableMetadata(document if old else document | {"current-schema-id": 9})


LATE: JsonObject = {"id": 3, "name": "late", "required": False, "type": "string", "initial-default": "x"}


@pytest.mark.parametrize("dropped", [False, True])
def test_delete_on_a_column_with_an_initial_default_that_the_data_file_does_not_have(
    lake: Lake, dropped: bool
) -> None:
    """Null deletes nothing there, the default everything; also when the column is gone again."""
    data = lake.data_file([row(1), row(2)])
    metadata = evolved(lake, *lake.metadata.schema()["fields"], LATE, old=dropped)
    schema: JsonObject = {"type": "struct", "fields": [LATE]}
    for value, left in (("x", 0), ("y", 2), (None, 2)):
        delete = lake.equality_file([{"late": value}], [3], schema=schema)
        found = list(read_task(lake.store, task_of(data, delete), metadata))
        assert sum(batch.num_rows for batch in found) == left, value


def test_delete_on_a_default_inside_a_struct_spares_rows_whose_struct_is_null() -> None:
    inner = {"type": "struct", "fields": [{"id": 2, "name": "k", "required": False, "type": "int"}]}
    schema = {"type": "struct", "fields": [{"id": 1, "name": "s", "required": False, "type": inner}]}
    lake = Lake(MemoryObjectStore(ManualClock()), schema=schema)
    data = lake.data_file([{"s": {"k": 1}}, {"s": None}])
    late = {"id": 3, "name": "d", "required": False, "type": "int", "initial-default": 7}
    wider = {"type": "struct", "fields": [*inner["fields"], late]}
    other = {
        "id": 4,
        "name": "t",
        "required": False,
        "type": {"type": "struct", "fields": [late | {"id": 5}]},
    }
    fields = [{"id": 1, "name": "s", "required": False, "type": wider}, other]
    metadata = evolved(lake, *fields)

    def left(number: int, value: int | None) -> list[Any]:
        holder = {1: "s", 4: "t"}[1 if number == 3 else 4]
        keys = lake.equality_file(
            [{holder: {"d": value}}], [1 if number == 3 else 4], schema={"type": "struct", "fields": fields}
        )
        task = task_of(data, replace(keys, equality_ids=[number]))
        return [r["s"] for b in read_task(lake.store, task, metadata) for r in b.to_pylist()]

    assert left(3, 7) == [None]
    assert left(3, None) == [{"k": 1, "d": 7}]
    assert left(5, 7) == [{"k": 1, "d": 7}, None]
    assert left(5, None) == []


LINES: JsonObject = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2147483540, "name": "_row_id", "required": False, "type": "long"},
        {"id": 2147483539, "name": "_last_updated_sequence_number", "required": False, "type": "long"},
    ],
}


def lines(lake: Lake, task: FileTask, **options: Any) -> list[tuple[Any, ...]]:
    found = read(lake, task, lineage=True, **options)
    return [(r["id"], r["_row_id"], r["_last_updated_sequence_number"]) for r in found]


def test_lineage_is_made_before_deletes_apply(lake: Lake) -> None:
    data = replace(lake.data_file([row(n) for n in range(6)]), first_row_id=100)
    vector = put_vector(lake.store, lake.path("v"), data, [0, 3])
    keys = lake.equality_file([row(4)], [1])
    for batch_rows in (1, 4, 100):
        found = lines(lake, task_of(data, vector, keys), batch_rows=batch_rows)
        assert found == [(1, 101, 1), (2, 102, 1), (5, 105, 1)]


def test_stored_lineage_counts_where_it_is_not_null(lake: Lake) -> None:
    rows = [(1, 7, 3), (2, None, 4), (3, 9, None), (4, None, None)]
    names = [f["name"] for f in LINES["fields"]]
    data = lake.data_file([dict(zip(names, each, strict=True)) for each in rows], schema=LINES)
    known = task_of(replace(data, first_row_id=100))
    assert lines(lake, known) == [(1, 7, 3), (2, 101, 4), (3, 9, 1), (4, 103, 1)]
    assert lines(lake, task_of(data)) == rows, "without a first row id the rest is unknown"
    assert ids(read(lake, known)) == [1, 2, 3, 4]


def test_last_update_is_the_data_sequence_number(lake: Lake) -> None:
    task = task_of(replace(lake.data_file([row(1)]), first_row_id=0))
    entry = replace(task.entry, sequence_number=3, file_sequence_number=8)
    assert lines(lake, replace(task, entry=entry)) == [(1, 0, 3)]


def test_lineage_of_a_file_without_any_wanted_column(lake: Lake) -> None:
    other = {"type": "struct", "fields": [{"id": 8, "name": "x", "required": False, "type": "int"}]}
    data = lake.data_file([{"x": 1}, {"x": 2}], schema=other)
    assert lines(lake, task_of(replace(data, first_row_id=5))) == [(None, 5, 1), (None, 6, 1)]


@pytest.mark.parametrize("claimed", [1, 3])
def test_file_with_another_number_of_rows_than_its_manifest_says_is_refused(lake: Lake, claimed: int) -> None:
    data = replace(lake.data_file([row(1), row(2)]), record_count=claimed)
    with pytest.raises(Invalid, match="has 2 rows"):
        read(lake, task_of(data))


def test_shared_delete_files_are_read_once_per_cache(lake: Lake) -> None:
    files = [lake.data_file([row(n), row(n + 1)]) for n in range(3)]
    deletes = [
        lake.position_file([(file.file_path, 0) for file in files]),
        lake.equality_file([row(99)], [1]),
    ]
    counting = Counting(lake.store)
    cache = DeleteCache()
    for file in files:
        found = list(read_task(counting, task_of(file, *deletes), lake.metadata, cache=cache))
        assert sum(batch.num_rows for batch in found) == 1
    assert [counting.paths["open_input"].count(delete.file_path) for delete in deletes] == [1, 1]


def test_cache_forgets_the_least_used() -> None:
    cache = DeleteCache(max_bytes=10)
    made: list[str] = []

    def get(key: str) -> str:
        def make() -> str:
            made.append(key)
            return key

        found: str = cache.get((key,), make, lambda _: 5)
        return found

    for key in ("a", "b", "a", "c", "a", "b"):
        assert get(key) == key
    assert made == ["a", "b", "c", "b"]


def test_referenced_paths(lake: Lake) -> None:
    delete = lake.position_file([("memory://w/a", 1), ("memory://w/a", 2), ("memory://w/b", 0)])
    assert referenced_paths(lake.store, delete) == {"memory://w/a", "memory://w/b"}


def test_deletes_concern_the_files_that_they_name_when_read(lake: Lake) -> None:
    hit, missed = lake.data_file([row(1)]), lake.data_file([row(2)])
    shared = lake.position_file([(hit.file_path, 0)])
    elsewhere = lake.position_file([("memory://other", 0)])
    misfiled = replace(lake.position_file([(missed.file_path, 0)]), spec_id=7, partition=(None,))
    keys = lake.equality_file([row(9)], [1])
    named = lake.position_file([("memory://other", 0)], referenced_data_file=missed.file_path)
    # What cannot be read may concern any file.
    gone, odd = replace(shared, file_path="memory://warehouse/gone"), replace(elsewhere, file_format="ORC")

    def narrowed(*deletes: DataFile, extra: Sequence[DataFile] = ()) -> list[list[DataFile]]:
        tasks = [task_of(file, *deletes) for file in (hit, missed)]
        entries = list(task_of(hit, *deletes, *extra).deletes)
        found = with_deletes_that_name_them(lake.store, lines_of(1, 1, tasks, entries))
        return [[e.data_file for e in found.deletes.get(file.file_path, ())] for file in (hit, missed)]

    assert narrowed(shared, elsewhere, keys, named, extra=[misfiled]) == [
        [shared, keys, named],
        [misfiled, keys, named],
    ]
    assert narrowed(gone) == [[gone], [gone]]
    assert narrowed(odd) == [[odd], [odd]]
    assert narrowed() == [[], []]
