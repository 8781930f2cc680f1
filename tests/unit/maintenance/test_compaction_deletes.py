"""Compaction of files to which row-level deletes apply: they are applied, they go, and nothing else changes."""

from dataclasses import replace

import pyarrow as pa
import pytest

from maintenance.compaction import rewrite
from maintenance.compaction.job import run
from maintenance.ports import JobKind, JobSettings
from maintenance.report import Outcome
from table_format.commit.summary import count, totals_of
from table_format.errors import Internal, Invalid, NoSuchFile
from table_format.io.faults import Failing
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import DataFile
from table_format.scan.deletes import read_task
from table_format.scan.plan import snapshot_files
from tests.factories.lake import IDENT, Lake
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

TIERS = [{"belowBytes": 1024 * 16, "targetBytes": 1024 * 64}]


def row(number, name="a"):
    return {"id": number, "name": name}


def new_lake(**options):
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock, **options)


@pytest.fixture
def lake():
    return new_lake()


def compact(lake, ctx=None, **changes):
    settings = {"tiers": TIERS, "minInputFiles": 2, **changes}
    ctx = ctx or FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(),
        documents={JobKind.COMPACTION: {"status": "enabled", "settings": settings}},
        ident=IDENT,
    )
    return run(ctx, job(JobKind.COMPACTION, IDENT, lake.metadata.uuid))


def totals(lake):
    return {key: int(value) for key, value in lake.summary.items() if key.startswith("total-")}


def recounted(lake):
    files = snapshot_files(lake.store, lake.metadata)
    entries = [task.entry for task in files.tasks] + files.delete_entries
    return {key: int(value) for key, value in totals_of(count(e.data_file for e in entries)).items()}


def upsert(lake, *rows, **options):
    lake.row_delta([lake.data_file(rows, **options)], [lake.equality_file(rows, [1], **options)])


def paths(lake):
    return [task.entry.data_file.file_path for task in lake.tasks()]


def test_deletes_of_every_kind_are_applied_and_gone(lake):
    first = lake.append_rows(row(1), row(2), row(3))
    second = lake.append_rows(row(4), row(5))
    lake.row_delta([], [lake.position_file([(first.file_path, 0), (second.file_path, 1)])])
    lake.row_delta([], [lake.position_file([(first.file_path, 1)], referenced_data_file=first.file_path)])
    upsert(lake, row(4, "new"))
    before, rows = lake.metadata.current_snapshot_id, lake.rows()
    report = compact(lake)
    assert lake.rows() == lake.rows(before) == rows == [row(3), row(4, "new")]
    assert (report.outcome, len(lake.tasks())) == (Outcome.DONE, 1)
    wanted = {"rowsRead": 6, "rowsDeleted": 4, "deleteFilesRemoved": 3, "filesRewritten": 3}
    assert wanted.items() <= report.figures.items()
    assert report.reason == ("3 files became 1 in 1 commit; 4 deleted rows left out; 3 delete files are gone")
    assert totals(lake) == recounted(lake)
    assert (totals(lake)["total-records"], totals(lake)["total-delete-files"]) == (2, 0)
    assert compact(lake).outcome is Outcome.NOTHING


def test_maint_C3_a_key_upserted_twice_keeps_its_last_row(lake):
    """The delete of a commit does not reach the row of the same commit, before and after."""
    upsert(lake, row(1, "first"))
    upsert(lake, row(1, "second"))
    compact(lake)
    assert lake.rows() == [row(1, "second")]
    upsert(lake, row(1, "third"))
    compact(lake)
    assert lake.rows() == [row(1, "third")]
    assert totals(lake)["total-equality-deletes"] == 0


def test_maint_E1_a_stream_of_upserts_leaves_no_delete_behind(lake):
    for number in range(12):
        upsert(lake, row(number % 3, f"v{number}"))
    assert totals(lake)["total-delete-files"] == 12
    compact(lake)
    assert lake.rows() == [row(0, "v9"), row(1, "v10"), row(2, "v11")]
    assert totals(lake) == recounted(lake)
    assert (totals(lake)["total-delete-files"], totals(lake)["total-equality-deletes"]) == (0, 0)


def test_maint_E1_one_old_file_does_not_block_its_partition(lake):
    """A large old file, untouched by merges, would keep all equality deletes alive: it is rewritten for them."""
    big = lake.append_rows(*(row(n * 7919 % 2**40, f"{n:040d}") for n in range(4000)))
    assert big.file_size_in_bytes > TIERS[-1]["belowBytes"]
    for number in range(3):
        upsert(lake, row(number * 7919, f"v{number}"))
    rows = lake.rows()
    light = compact(lake, deleteFileThreshold=10)
    assert light.figures["leftAlone"] == ["1 large enough, with few deletes"]
    assert totals(lake)["total-delete-files"] == 3
    report = compact(lake, deleteFileThreshold=3)
    assert (report.figures["filesRewritten"], report.figures["deleteFilesRemoved"]) == (1, 3)
    assert lake.rows() == rows
    assert totals(lake)["total-delete-files"] == 0
    assert compact(lake, deleteFileThreshold=1).outcome is Outcome.NOTHING


def test_maint_E2_both_boundaries_of_ages(lake):
    """In one commit: the position delete reaches its file, the equality delete does not."""
    data = lake.data_file([row(1), row(2)])
    positions = lake.position_file([(data.file_path, 0)])
    lake.row_delta([data], [positions, lake.equality_file([row(2)], [1])])
    lake.append_rows(row(3))
    compact(lake)
    assert lake.rows() == [row(2), row(3)]


def test_maint_D7_many_position_delete_files_become_none(lake):
    files = [lake.append_rows(*(row(10 * n + k) for k in range(10))) for n in range(4)]
    for number in range(8):
        for file in files:
            lake.row_delta([], [lake.position_file([(file.file_path, number)])])
    assert totals(lake)["total-delete-files"] == 32
    rows = lake.rows()
    report = compact(lake)
    assert (lake.rows(), len(rows)) == (rows, 8)
    assert report.figures["deleteFilesRemoved"] == 32
    assert totals(lake)["total-delete-files"] == 0


def test_maint_E8_more_delete_rows_than_deleted_rows_is_no_fault(lake):
    """The same row deleted thrice, a position beyond the file's end, keys that are in no row."""
    file = lake.append_rows(row(1), row(2))
    lake.append_rows(row(3))
    for _ in range(3):
        lake.row_delta([], [lake.position_file([(file.file_path, 0), (file.file_path, 99)])])
    lake.row_delta([], [lake.equality_file([row(n) for n in range(50, 90)], [1])])
    report = compact(lake)
    assert (lake.rows(), report.figures["rowsDeleted"]) == ([row(2), row(3)], 1)
    assert totals(lake)["total-delete-files"] == 0


@pytest.mark.parametrize(
    ("transform", "values"), [("bucket[2]", (0, 1)), ("truncate[10]", (0, 10)), ("identity", (1, 11))]
)
def test_maint_C8_transformed_partitions_neither_double_nor_lose(transform, values):
    spec = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "p", "transform": transform}]}
    lake = new_lake(spec=spec)
    for value in values:
        for number in range(3):
            lake.append_rows(row(value, f"n{number}"), row(value, f"m{number}"), partition=(value,))
    file = lake.tasks()[0].entry.data_file
    lake.row_delta([], [lake.position_file([(file.file_path, 0)], partition=file.partition)])
    upsert(lake, row(values[1], "new"), partition=(values[1],))
    rows = lake.rows()
    compact(lake)
    assert lake.rows() == rows
    found = [task.entry.data_file for task in lake.tasks()]
    assert sorted(file.partition for file in found) == [(value,) for value in values]
    assert (totals(lake), totals(lake)["total-delete-files"]) == (recounted(lake), 0)


def test_a_file_all_of_whose_rows_are_deleted_goes_without_successor(lake):
    file = lake.append_rows(row(1), row(2))
    lake.row_delta([], [lake.position_file([(file.file_path, 0), (file.file_path, 1)])])
    report = compact(lake)
    assert (lake.rows(), lake.tasks()) == ([], [])
    assert (report.figures["filesRewritten"], report.figures["filesWritten"]) == (1, 0)
    assert set(totals(lake).values()) == {0}


def test_maint_D1_upserts_during_the_run_do_not_conflict_though_deletes_were_applied(lake):
    lake.append_rows(row(1), row(2))
    upsert(lake, row(1, "new"))
    for n in range(6):
        lake.catalog.before_commit.append(lambda n=n: upsert(lake, row(2, f"late{n}")))
    report = compact(lake)
    lake.catalog.before_commit.clear()
    assert (report.outcome, report.figures["conflicts"]) == (Outcome.DONE, 0)
    names = [found["name"] for found in lake.rows()]
    assert (len(names), "new" in names, "a" in names) == (2, True, False)


def test_a_position_delete_during_the_run_keeps_its_row_deleted(lake):
    file = lake.append_rows(row(1), row(2), row(3))
    lake.row_delta([], [lake.position_file([(file.file_path, 0)])])
    lake.catalog.before_commit.append(lambda: lake.row_delta([], [lake.position_file([(file.file_path, 1)])]))
    assert compact(lake).outcome is Outcome.CONFLICT
    assert (paths(lake), lake.rows()) == ([file.file_path], [row(3)])
    assert compact(lake).outcome is Outcome.DONE
    assert lake.rows() == [row(3)]


def test_a_delete_of_an_old_specs_partition_during_the_run_reaches_the_output():
    by_name = {
        "spec-id": 0,
        "fields": [{"source-id": 2, "field-id": 1000, "name": "n", "transform": "identity"}],
    }
    lake = new_lake(spec=by_name)
    for number in range(3):
        lake.append_rows(row(number), row(10 + number), partition=("a",))
    file = lake.tasks()[0].entry.data_file.file_path
    lake.row_delta([], [lake.position_file([(file, 0)], partition=("a",))])
    late = lake.equality_file([row(1)], [1], partition=("a",))
    updates = [{"action": "add-spec", "spec": {"fields": []}}, {"action": "set-default-spec", "spec-id": -1}]
    lake.catalog.commit(IDENT, [], updates)
    lake.catalog.before_commit.append(lambda: lake.row_delta([], [late]))
    assert compact(lake).outcome is Outcome.DONE
    assert 1 not in [found["id"] for found in lake.rows()]
    assert len(lake.rows()) == 4


def test_a_delete_by_a_column_dropped_during_the_run_is_not_lost(lake):
    """A writer that knows the old schema still deletes by the column; the output does not have it any more."""
    lake.append_rows(row(1, "x"), row(2, "y"))
    lake.append_rows(row(3, "z"))
    lake.append_rows(row(4, "z"))
    late = lake.equality_file([row(9, "y")], [2])
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    lake.catalog.commit(
        IDENT,
        [],
        [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}],
    )
    lake.catalog.before_commit.append(lambda: lake.row_delta([], [late]))
    assert compact(lake).outcome is Outcome.CONFLICT
    assert lake.rows() == [{"id": 1}, {"id": 3}, {"id": 4}]
    assert compact(lake).outcome is Outcome.DONE
    assert lake.rows() == [{"id": 1}, {"id": 3}, {"id": 4}]


def test_a_delete_file_that_is_gone_stops_its_group_and_no_other(lake):
    lake.append_rows(row(1))
    delete = lake.equality_file([row(7)], [1])
    lake.row_delta([], [delete])
    lake.append_rows(row(2))
    lake.store.delete_many([delete.file_path])
    with pytest.raises(NoSuchFile, match=delete.file_path):
        compact(lake)
    assert len(lake.tasks()) == 2


def lying(change):
    """`read_task` that changes batches or the tally after the fact."""

    def read(store, task, metadata, **options):
        for batch in read_task(store, task, metadata, **options):
            yield change(batch, options["tally"])

    return read


def drop_one(batch, tally):
    return batch.slice(1)


def double_one(batch, tally):
    return pa.Table.from_batches([batch, batch.slice(0, 1)]).combine_chunks().to_batches()[0]


def claim_more(batch, tally):
    tally.deleted += 1
    return batch.slice(1)


def lose_in_silence(batch, tally):
    tally.rows -= 1
    return batch


@pytest.mark.parametrize("change", [drop_one, double_one, claim_more, lose_in_silence])
def test_maint_C6_rows_out_must_be_rows_in_less_deleted_rows(lake, monkeypatch, change):
    file = lake.append_rows(row(1), row(2), row(3))
    lake.append_rows(row(4), row(5))
    lake.row_delta([], [lake.position_file([(file.file_path, 0)], referenced_data_file=file.file_path)])
    location, rows = lake.table.metadata_location, lake.rows()
    monkeypatch.setattr(rewrite, "read_task", lying(change))
    with pytest.raises(Internal, match="nothing of it is committed"):
        compact(lake)
    assert (lake.table.metadata_location, lake.rows()) == (location, rows)
    assert not [info.path for info in lake.store.list(lake.metadata.location) if "compact-" in info.path]


def test_a_delete_file_that_names_no_columns_stops_its_group(lake):
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    lake.row_delta([], [replace(lake.equality_file([row(1)], [1]), equality_ids=[77])])
    with pytest.raises(Invalid, match="which no schema of the table has"):
        compact(lake)
    assert len(lake.tasks()) == 2


def test_S22_a_data_file_outside_the_bucket_is_left_alone_and_told(lake):
    for number in range(6):
        lake.append_rows(row(number))
    foreign = "memory://elsewhere/secret.parquet"
    size = lake.parquet(lake.metadata.schema(), [row(99)], foreign)
    lake.append(DataFile(file_path=foreign, record_count=1, file_size_in_bytes=size))
    before = lake.rows()
    ctx = FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=Bounded(lake.store),
        documents={JobKind.COMPACTION: {"status": "enabled", "settings": {"minInputFiles": 2}}},
        ident=IDENT,
        within="memory://warehouse",
    )
    report = compact(lake, ctx)
    assert report.outcome is Outcome.DONE
    assert "1 outside the table bucket" in report.figures["leftAlone"]
    assert report.figures["filesRewritten"] == 6
    assert lake.rows() == before
    # Which rows a delete file deletes that is not read, nobody knows: no file is rewritten.
    delete = lake.equality_file([row(1)], [1])
    lake.row_delta([], [replace(delete, file_path="memory://elsewhere/delete.parquet")])
    head = lake.metadata.current_snapshot_id
    report = compact(lake, ctx)
    assert (report.outcome, lake.metadata.current_snapshot_id) == (Outcome.SKIPPED, head)
    assert report.reason.startswith(
        "delete file memory://elsewhere/delete.parquet lies outside the table bucket"
    )


class Bounded(Failing):
    """Nothing outside the warehouse may be asked for."""

    def get(self, path, byte_range=None):
        assert path.startswith("memory://warehouse/"), path
        return super().get(path, byte_range)

    def open_input(self, path):
        assert path.startswith("memory://warehouse/"), path
        return super().open_input(path)


def test_a_table_with_delete_files_and_no_data_has_nothing_to_compact(lake):
    lake.row_delta([], [lake.equality_file([row(1)], [1])])
    assert compact(lake).outcome is Outcome.NOTHING
