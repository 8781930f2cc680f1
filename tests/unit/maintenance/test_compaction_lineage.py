"""Compaction of tables of format version 3: every row keeps its id and the number of its last change."""

import pyarrow.parquet as pq
import pytest

from maintenance.compaction import rewrite
from maintenance.compaction.job import run
from maintenance.ports import JobKind, JobSettings
from maintenance.report import Outcome
from table_format.commit.summary import count, totals_of
from table_format.errors import Invalid
from table_format.io.memory import MemoryObjectStore
from table_format.scan.index import is_vector
from table_format.scan.lineage import LAST_UPDATED, ROW_ID, with_lineage
from table_format.scan.plan import snapshot_files
from tests.factories.lake import BY_NAME, IDENT, Lake
from tests.factories.lineage_histories import put_vectors
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

TIERS = [{"belowBytes": 1500, "targetBytes": 1024 * 64}]
"""Two of the small files here are worth merging, one is not."""
UPGRADE = {"action": "upgrade-format-version", "format-version": 3}


def row(number, name="a"):
    return {"id": number, "name": name}


def new_lake(version=3, **options):
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock, **{"format-version": str(version)}, **options)


@pytest.fixture
def lake():
    return new_lake()


def compact(lake, **changes):
    settings = {"tiers": TIERS, "minInputFiles": 2, **changes}
    ctx = FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(),
        documents={JobKind.COMPACTION: {"status": "enabled", "settings": settings}},
        ident=IDENT,
    )
    return run(ctx, job(JobKind.COMPACTION, IDENT, lake.metadata.uuid))


def lines(lake, snapshot_id=None):
    """By id: the row's id and its last change."""
    return {
        found["id"]: (found[ROW_ID], found[LAST_UPDATED])
        for task in lake.tasks(snapshot_id)
        for batch in rewrite.read_task(lake.store, task, lake.metadata, lineage=True)
        for found in batch.to_pylist()
    }


def totals(lake):
    return {key: int(value) for key, value in lake.summary.items() if key.startswith("total-")}


def recounted(lake):
    files = snapshot_files(lake.store, lake.metadata)
    entries = [task.entry for task in files.tasks] + files.delete_entries
    return {key: int(value) for key, value in totals_of(count(e.data_file for e in entries)).items()}


def upgrade(lake):
    lake.catalog.commit(IDENT, [], [UPGRADE])


def vectors(lake):
    files = snapshot_files(lake.store, lake.metadata)
    return [entry.data_file for entry in files.delete_entries if is_vector(entry.data_file)]


def task_of(lake, file):
    (found,) = [task for task in lake.tasks() if task.entry.data_file.file_path == file.file_path]
    return found


def test_maint_C14_rows_keep_their_ids_and_last_changes(lake):
    for number in range(4):
        lake.append_rows(row(2 * number), row(2 * number + 1))
    expected = {n: (n, n // 2 + 1) for n in range(8)}
    assert lines(lake) == expected
    following = lake.metadata.document["next-row-id"]
    report = compact(lake)
    assert (report.outcome, len(lake.tasks())) == (Outcome.DONE, 1)
    assert lines(lake) == expected
    head = lake.metadata.current_snapshot
    assert (head["first-row-id"], head["first-row-id"] + head["added-rows"]) == (
        following,
        lake.metadata.document["next-row-id"],
    )
    # Compacted once more together with later rows, each still has its own.
    lake.append_rows(row(8))
    expected[8] = lines(lake)[8]
    assert expected[8] == (lake.metadata.current_snapshot["first-row-id"], 6)
    compact(lake)
    assert (lines(lake), len(lake.tasks())) == (expected, 1)
    assert compact(lake).outcome is Outcome.NOTHING


def test_maint_C14_an_updated_row_keeps_its_id_in_the_file_it_moved_to(lake):
    first = lake.append_rows(row(0), row(1))
    (task,) = lake.tasks()
    moved = {**row(1, "new"), ROW_ID: 1, LAST_UPDATED: None}
    schema = with_lineage(lake.metadata.schema())
    put_vectors(lake, [(task, [1])], [lake.data_file([moved], schema=schema)])
    assert lines(lake) == {0: (0, 1), 1: (1, 2)}
    compact(lake)
    assert lines(lake) == {0: (0, 1), 1: (1, 2)}
    assert lake.rows() == [row(0), row(1, "new")]
    assert first.file_path not in {task.entry.data_file.file_path for task in lake.tasks()}


def test_the_written_file_stores_both_columns(lake):
    lake.append_rows(row(5))
    lake.append_rows(row(6))
    compact(lake)
    (task,) = lake.tasks()
    with lake.store.open_input(task.entry.data_file.file_path) as source:
        table = pq.ParquetFile(source).read()
    assert table.column_names == ["id", "name", ROW_ID, LAST_UPDATED]
    assert [field.metadata[b"PARQUET:field_id"] for field in table.schema] == [
        b"1",
        b"2",
        b"2147483540",
        b"2147483539",
    ]
    assert table.column(ROW_ID).to_pylist() == [0, 1]
    assert table.column(LAST_UPDATED).to_pylist() == [1, 2]


def test_sorted_rows_take_their_lineage_along():
    order = {
        "order-id": 1,
        "fields": [
            {"source-id": 1, "transform": "identity", "direction": "desc", "null-order": "nulls-last"}
        ],
    }
    lake = new_lake(order=order)
    lake.append_rows(row(2), row(0))
    lake.append_rows(row(1), row(3))
    expected = {2: (0, 1), 0: (1, 1), 1: (2, 2), 3: (3, 2)}
    assert lines(lake) == expected
    compact(lake, strategy="sort")
    assert lines(lake) == expected
    (task,) = lake.tasks()
    content = [r["id"] for b in rewrite.read_task(lake.store, task, lake.metadata) for r in b.to_pylist()]
    assert content == [3, 2, 1, 0]


def test_maint_C15_rows_compacted_before_the_upgrade_are_as_old_as_their_data():
    """The compacted file is of commit 3, its data of sequence number 2: that counts once the table is version 3."""
    lake = new_lake(version=2)
    lake.append_rows(row(0))
    lake.append_rows(row(1))
    compact(lake)
    (task,) = lake.tasks()
    assert (task.entry.sequence_number, task.entry.file_sequence_number) == (2, 3)
    upgrade(lake)
    assert lines(lake) == {0: (None, None), 1: (None, None)}
    lake.append_rows(row(2))
    before = lines(lake)
    assert {n: changed for n, (_, changed) in before.items()} == {0: 2, 1: 2, 2: 4}
    compact(lake)
    assert (lines(lake), len(lake.tasks())) == (before, 1)


def test_maint_C15_the_first_commit_after_the_upgrade_is_the_compaction():
    """It gives the ids, as any commit would, and rows stay as old as they were."""
    lake = new_lake(version=2)
    lake.append_rows(row(0), row(1))
    lake.append_rows(row(2))
    upgrade(lake)
    assert compact(lake).outcome is Outcome.DONE
    found = lines(lake)
    assert {n: changed for n, (_, changed) in found.items()} == {0: 1, 1: 1, 2: 2}
    assert sorted(row_id for row_id, _ in found.values()) == [0, 1, 2]
    assert lake.metadata.document["next-row-id"] >= 3
    lake.append_rows(row(3))
    compact(lake)
    assert lines(lake) == {**found, 3: lines(lake)[3]}


def test_maint_C15_ids_given_while_compaction_ran_are_kept():
    """The plan saw rows without ids; a commit that came first gave them some, which the outputs do not have."""
    lake = new_lake(version=2)
    lake.append_rows(row(0), row(1))
    lake.append_rows(row(2))
    upgrade(lake)
    lake.catalog.before_commit.append(lambda: lake.append_rows(row(3)))
    report = compact(lake)
    assert (report.outcome, report.figures["conflicts"]) == (Outcome.CONFLICT, 1)
    given = lines(lake)
    assert None not in {row_id for row_id, _ in given.values()}
    compact(lake)
    assert (lines(lake), len(lake.tasks())) == (given, 1)


@pytest.mark.parametrize("appended", [False, True])
def test_an_upgrade_during_compaction_loses_no_id(appended):
    """Read as version 2, the outputs store no lineage, so they are not committed to a table of version 3."""
    lake = new_lake(version=2)
    lake.append_rows(row(0))
    lake.append_rows(row(1))

    def others():
        upgrade(lake)
        if appended:
            lake.append_rows(row(2))

    lake.catalog.before_commit.append(others)
    assert compact(lake).outcome is Outcome.CONFLICT
    given = lines(lake)
    assert compact(lake).outcome is Outcome.DONE
    found = lines(lake)
    assert len(lake.tasks()) == 1
    assert {n: found[n][1] for n in (0, 1)} == {0: 1, 1: 2}
    assert given == (found if appended else {0: (None, None), 1: (None, None)})


def test_outputs_without_lineage_are_refused(lake):
    lake.append_rows(row(1))
    with pytest.raises(Invalid, match="have ids, which its rewrite does not store"):
        lake.rewrite(lake.group())


def test_maint_C18_counts_are_those_of_the_rows_after_deletes_are_merged(lake):
    lake.append_rows(*(row(n) for n in range(10)))
    lake.append_rows(*(row(n) for n in range(10, 15)))
    two, one = lake.tasks()
    put_vectors(lake, [(one, [0, 1, 2]), (two, [4])])
    rows, before = lake.rows(), lines(lake)
    report = compact(lake)
    wanted = {"rowsRead": 15, "rowsDeleted": 4, "deleteFilesRemoved": 2, "filesRewritten": 2}
    assert wanted.items() <= report.figures.items()
    assert (lake.rows(), lines(lake), len(rows)) == (rows, before, 11)
    assert totals(lake) == recounted(lake)
    assert totals(lake)["total-records"] == 11
    assert (totals(lake)["total-delete-files"], totals(lake)["total-position-deletes"]) == (0, 0)
    summary = lake.summary
    assert (summary["removed-dvs"], summary["removed-position-deletes"]) == ("2", "4")
    assert (summary["deleted-records"], summary["added-records"]) == ("15", "11")


def test_a_vector_goes_with_its_file_alone_though_others_share_its_puffin_file():
    lake = new_lake(spec=BY_NAME)
    lake.append_rows(row(1, "a"), row(2, "a"), partition=("a",))
    lake.append_rows(row(3, "b"), row(4, "b"), partition=("b",))
    lake.append_rows(row(5, "a"), partition=("a",))
    a, b, _ = sorted(lake.tasks(), key=lambda task: task.entry.data_file.file_path)
    shared = lake.path("shared")
    put_vectors(lake, [(a, [0])])
    # Both in one Puffin file: what was one vector long is followed by another.
    (own,) = vectors(lake)
    blob = lake.store.get(own.file_path)[4 : 4 + own.content_size_in_bytes]
    lake.store.put(shared, b"PFA1" + blob + blob + b"PFA1")
    size = own.content_size_in_bytes
    placed = {"content_offset": 4, "file_path": shared}
    a, b, _ = sorted(lake.tasks(), key=lambda task: task.entry.data_file.file_path)
    put_vectors(lake, [(a, [0])], **placed)
    put_vectors(lake, [(b, [0])], **{**placed, "content_offset": 4 + size})
    lake.store.put(shared, b"PFA1" + blob + blob + b"PFA1")
    assert lake.rows() == [row(2, "a"), row(4, "b"), row(5, "a")]
    before = lines(lake)
    compact(lake, deleteRatio=1)
    assert lines(lake) == before
    (left,) = vectors(lake)
    assert (left.file_path, left.content_offset) == (shared, 4 + size)
    assert left.referenced_data_file == b.entry.data_file.file_path
    assert totals(lake) == recounted(lake)


def test_a_vector_that_arrives_during_compaction_drops_its_group_alone():
    lake = new_lake(spec=BY_NAME)
    first = lake.append_rows(row(1, "a"), row(2, "a"), partition=("a",))
    lake.append_rows(row(3, "a"), partition=("a",))
    lake.append_rows(row(4, "b"), row(5, "b"), partition=("b",))
    lake.append_rows(row(6, "b"), partition=("b",))
    before = lines(lake)
    lake.catalog.before_commit.append(lambda: put_vectors(lake, [(task_of(lake, first), [0])]))
    report = compact(lake)
    assert (report.figures["conflicts"], report.figures["groups"]) == (1, 1)
    del before[1]
    assert lines(lake) == before
    compact(lake)
    assert (lines(lake), len(lake.tasks()), vectors(lake)) == (before, 2, [])


def test_a_vector_replaced_during_compaction_drops_the_group(lake):
    first = lake.append_rows(*(row(n) for n in range(4)))
    lake.append_rows(row(4))
    put_vectors(lake, [(task_of(lake, first), [0])])
    lake.catalog.before_commit.append(lambda: put_vectors(lake, [(task_of(lake, first), [0, 1])]))
    assert compact(lake).outcome is Outcome.CONFLICT
    assert lake.rows() == [row(2), row(3), row(4)]
    compact(lake)
    assert (lake.rows(), vectors(lake)) == ([row(2), row(3), row(4)], [])


def test_a_file_whose_rows_are_all_deleted_goes_without_a_successor(lake):
    lake.append_rows(row(1), row(2))
    put_vectors(lake, [(lake.tasks()[0], [0, 1])])
    compact(lake)
    assert (lake.tasks(), vectors(lake)) == ([], [])
    assert totals(lake) == recounted(lake)


def test_a_vector_counts_instead_of_older_position_deletes():
    """By the specification readers pass over them; whatever they say, the vector's rows are the deleted ones."""
    lake = new_lake(version=2)
    data = lake.append_rows(row(0), row(1), row(2))
    lake.append_rows(row(3))
    lake.row_delta([], [lake.position_file([(data.file_path, 0)])])
    upgrade(lake)
    put_vectors(lake, [(task_of(lake, data), [0, 1])])
    assert lake.rows() == [row(2), row(3)]
    compact(lake)
    assert lake.rows() == [row(2), row(3)]
    assert snapshot_files(lake.store, lake.metadata).delete_entries == []


def test_a_row_id_column_of_another_type_is_an_error_not_a_guess(lake):
    schema = with_lineage(lake.metadata.schema())
    schema["fields"][2] = {**schema["fields"][2], "type": "string"}
    bad = lake.data_file([{**row(1), ROW_ID: "x", LAST_UPDATED: 1}], schema=schema)
    lake.append(bad)
    lake.append_rows(row(2))
    location = lake.table.metadata_location
    with pytest.raises(Invalid, match=ROW_ID):
        compact(lake, tiers=[{"belowBytes": 2000, "targetBytes": 64 * 1024}])
    assert lake.table.metadata_location == location
