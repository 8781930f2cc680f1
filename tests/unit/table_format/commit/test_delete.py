"""Whole files leave in a DELETE snapshot; what is not there as it was read is refused before anything is written."""

import pytest

from table_format.commit.delete import delete_files
from table_format.commit.tree import HeadTree, TreeCache
from table_format.errors import Invalid
from table_format.io.memory import MemoryObjectStore
from tests.factories.lake import Lake
from tests.fakes.clock import ManualClock


@pytest.fixture
def lake():
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock)
    for number in range(3):
        lake.append_rows({"id": number, "name": f"n{number}"})
    return lake


def change(lake, pick):
    table = lake.table
    tree = HeadTree(lake.store, table.metadata, TreeCache())
    entries = pick([listed.line for same in tree.data_by_path(lambda _: False) for listed in same])
    return delete_files(table, tree, entries, summary={"k": "v"}, clock=lake.clock, ids=lake.ids)


def objects(lake):
    return {info.path for info in lake.store.list(lake.metadata.location)}


def test_nothing_to_delete_is_no_change(lake):
    before = objects(lake)
    assert change(lake, lambda entries: []) is None
    assert objects(lake) == before


def test_the_others_keep_their_sequence_numbers_and_snapshots(lake):
    kept = {task.entry.data_file.file_path: task.entry for task in lake.tasks()[:-1]}
    lake.commit(lambda table: change(lake, lambda entries: entries[-1:]))
    after = {task.entry.data_file.file_path: task.entry for task in lake.tasks()}
    assert {
        path: (entry.sequence_number, entry.file_sequence_number, entry.snapshot_id)
        for path, entry in after.items()
    } == {
        path: (entry.sequence_number, entry.file_sequence_number, entry.snapshot_id)
        for path, entry in kept.items()
    }
    assert (lake.summary["operation"], lake.summary["k"]) == ("delete", "v")


@pytest.mark.parametrize(
    "pick",
    [
        lambda entries: [entries[0]._replace(sequence_number=99)],
        lambda entries: [entries[0]._replace(file_path="memory://warehouse/x")],
    ],
)
def test_what_is_not_live_as_it_was_read_is_refused_and_leaves_no_file(lake, pick):
    before = objects(lake)
    with pytest.raises(Invalid, match="is not a live data file of the table as it was read"):
        change(lake, pick)
    assert objects(lake) == before


def test_a_file_that_is_live_twice_is_refused(lake):
    (first, *_) = [task.entry.data_file for task in lake.tasks()]
    lake.append(first)
    with pytest.raises(Invalid, match="not a live data file"):
        change(lake, lambda entries: [e for e in entries if e.file_path == first.file_path][:1])
