from dataclasses import replace
from typing import Any

import pytest

from table_format.errors import Invalid
from table_format.io.faults import Counting
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.lines import FileLine
from table_format.metadata.document import TableMetadata
from table_format.scan.lines import snapshot_lines, whole_tasks
from table_format.scan.plan import (
    SnapshotFiles,
    ancestor_ids,
    entries_added_since,
    is_ancestor,
    snapshot_files,
    snapshot_manifests,
)
from tests.factories.lake import BY_NAME, IDENT, Lake
from tests.fakes.clock import ManualClock


def row(number: int, name: str = "a") -> dict[str, Any]:
    return {"id": number, "name": name}


@pytest.fixture
def lake() -> Lake:
    return Lake(MemoryObjectStore(ManualClock()))


def ids_of(lake: Lake) -> list[int]:
    return [snapshot["snapshot-id"] for snapshot in lake.metadata.snapshots]


def added(lake: Lake, base: int | None, head: int | None) -> set[str]:
    entries = entries_added_since(lake.store, lake.metadata, base, head)
    assert len({entry.data_file.file_path for entry in entries}) == len(entries)
    return {entry.data_file.file_path for entry in entries}


def test_empty_table(lake: Lake) -> None:
    assert snapshot_files(lake.store, lake.metadata) == SnapshotFiles(None, 0, [], [])


def test_unknown_snapshot(lake: Lake) -> None:
    with pytest.raises(Invalid, match="no snapshot 7"):
        snapshot_files(lake.store, lake.metadata, 7)


def test_live_files_with_their_deletes() -> None:
    lake = Lake(MemoryObjectStore(ManualClock()), spec=BY_NAME)
    a = lake.append_rows(row(1), row(2), partition=("a",))
    b = lake.append_rows(row(3, "b"), partition=("b",))
    position = lake.position_file([(a.file_path, 0)], partition=("a",))
    equality = lake.equality_file([row(3)], [1], partition=("b",))
    late = lake.data_file([row(3, "b")], partition=("b",))
    lake.row_delta([late], [position, equality])
    files = snapshot_files(lake.store, lake.metadata)
    assert (files.snapshot_id, files.sequence_number) == (lake.metadata.current_snapshot_id, 3)
    attached = {t.entry.data_file.file_path: [d.data_file for d in t.deletes] for t in files.tasks}
    assert attached == {a.file_path: [position], b.file_path: [equality], late.file_path: []}
    assert {entry.data_file.file_path for entry in files.delete_entries} == {
        position.file_path,
        equality.file_path,
    }


def test_older_snapshot_is_planned_as_it_was(lake: Lake) -> None:
    first = lake.append_rows(row(1))
    lake.append_rows(row(2))
    lake.rewrite(lake.group())
    files = snapshot_files(lake.store, lake.metadata, ids_of(lake)[0])
    assert [task.entry.data_file for task in files.tasks] == [first]
    assert files.sequence_number == 1


def test_each_manifest_is_read_once_per_call(lake: Lake) -> None:
    for number in range(4):
        lake.append_rows(row(number))
    counting = Counting(lake.store)
    snapshot_files(counting, lake.metadata)
    assert counting.calls["get"] == 5


def test_lines_tell_the_same_and_whole_tasks_are_read_for_some_files_later(lake: Lake) -> None:
    made = [replace(lake.data_file([row(n)]), value_counts={1: 1}, split_offsets=[4]) for n in range(6)]
    for first in range(0, 6, 2):
        lake.append(*made[first : first + 2])
    lake.row_delta([], [lake.equality_file([row(9)], [1])])
    whole = snapshot_files(lake.store, lake.metadata)
    counting = Counting(lake.store)
    files = snapshot_lines(counting, lake.metadata)
    assert (files.snapshot_id, files.sequence_number) == (whole.snapshot_id, whole.sequence_number)
    assert files.delete_entries == whole.delete_entries
    assert list(files.lines) == [FileLine.of(task.entry) for task in whole.tasks]
    paths = {task.entry.data_file.file_path for task in whole.tasks}
    gone = {"value_counts": None, "split_offsets": None, "column_sizes": None}
    bare = [
        replace(t, entry=replace(t.entry, data_file=replace(t.entry.data_file, **gone))) for t in whole.tasks
    ]
    assert list(files.bare_tasks(paths).values()) == bare
    counting.reset()
    wanted = {made[0].file_path, made[1].file_path, made[5].file_path}
    found = whole_tasks(counting, lake.metadata, files, wanted)
    assert {task.entry.data_file.file_path for task in found} == wanted
    assert all(task in whole.tasks for task in found)
    assert counting.calls["get"] == 2  # the manifests that hold them


def test_equal_partitions_of_lines_are_one_object_unless_equal_is_not_the_same() -> None:
    spec = {
        "spec-id": 0,
        "fields": [{"source-id": 1, "field-id": 1000, "name": "d", "transform": "identity"}],
    }
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "d", "required": False, "type": "double"}],
    }
    lake = Lake(MemoryObjectStore(ManualClock()), spec=spec, schema=schema)
    values = (0.0, 0.0, -0.0, None, None)
    lake.append(*(lake.data_file([{"d": value}], partition=(value,)) for value in values))
    partitions = [line.partition for line in snapshot_lines(lake.store, lake.metadata).lines]
    assert [str(value) for (value,) in partitions] == ["0.0", "0.0", "-0.0", "None", "None"]
    assert (
        len({id(partition) for partition in partitions}) <= 4
    )  # the first entry of a shape is read by itself


def test_v1_snapshot_with_embedded_manifests() -> None:
    lake = Lake(MemoryObjectStore(ManualClock()), **{"format-version": "1"})
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    document = lake.metadata.document
    head = document["snapshots"][-1]
    paths = [manifest.path for manifest in snapshot_manifests(lake.store, head)]
    embedded = {key: value for key, value in head.items() if key != "manifest-list"} | {"manifests": paths}
    lake.catalog.put(IDENT, TableMetadata({**document, "snapshots": [*document["snapshots"][:-1], embedded]}))
    assert lake.rows() == [row(1), row(2)]
    lake.append_rows(row(3))
    assert lake.rows() == [row(1), row(2), row(3)]


def test_snapshot_without_any_manifests_is_refused(lake: Lake) -> None:
    with pytest.raises(Invalid, match="neither a manifest list nor manifests"):
        snapshot_manifests(lake.store, {"snapshot-id": 1})


def test_entries_added_since(lake: Lake) -> None:
    first = lake.append_rows(row(1), row(2))
    second = lake.append_rows(row(3))
    delete = lake.position_file([(first.file_path, 0)])
    lake.row_delta([], [delete])
    one, two, three = ids_of(lake)
    assert added(lake, one, three) == {second.file_path, delete.file_path}
    assert added(lake, two, three) == {delete.file_path}
    assert added(lake, three, three) == set()
    assert added(lake, None, three) == {first.file_path, second.file_path, delete.file_path}
    assert added(lake, None, one) == {first.file_path}
    assert added(lake, None, None) == set()


def test_entries_added_since_are_found_in_merged_manifests(lake: Lake) -> None:
    lake.append_rows(row(1))
    second = lake.append_rows(row(2))
    lake.append(merge_min=0)
    one, *_, head = ids_of(lake)
    assert added(lake, one, head) == {second.file_path}


def test_entries_removed_again_are_not_among_the_added(lake: Lake) -> None:
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    group = lake.group()
    lake.rewrite(group)
    one, *_, head = ids_of(lake)
    assert added(lake, one, head) == {group.outputs[0].file_path}


def test_entries_added_since_needs_an_ancestor(lake: Lake) -> None:
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    one, two = ids_of(lake)
    with pytest.raises(Invalid, match="not a known ancestor"):
        entries_added_since(lake.store, lake.metadata, two, one)
    with pytest.raises(Invalid, match="no snapshot"):
        entries_added_since(lake.store, lake.metadata, one, 5)


def test_ancestors_end_at_an_expired_snapshot_or_a_cycle() -> None:
    def metadata(*pairs: tuple[int, int | None]) -> TableMetadata:
        snapshots = [{"snapshot-id": own, "parent-snapshot-id": parent} for own, parent in pairs]
        return TableMetadata({"snapshots": snapshots})

    broken = metadata((3, 2), (5, 4))
    assert list(ancestor_ids(broken, 3)) == [3, 2]
    assert is_ancestor(broken, 2, 3)
    assert not is_ancestor(broken, 1, 3)
    assert is_ancestor(broken, 3, 3)
    assert list(ancestor_ids(metadata((1, 2), (2, 1)), 1)) == [1, 2]
    assert list(ancestor_ids(metadata((1, None)), 1)) == [1]
