"""Old rows leave files that hold others too: what is written, what stays, races, limits, and how the job is told."""

import pickle
from dataclasses import replace
from datetime import date, datetime
from itertools import islice

import pyarrow as pa
import pytest

from maintenance.executors.inline import InlineExecutor
from maintenance.ports import JobKind
from maintenance.records.job import run
from maintenance.records.rewrite import FreeWork
from maintenance.report import Outcome
from table_format.errors import CommitFailed, CommitStateUnknown, Internal, Invalid, NoSuchFile
from table_format.metadata.document import TableMetadata
from table_format.scan.deletes import read_task
from tests.factories.lake import IDENT
from tests.factories.timed import ago, by, schema, timed_lake, write
from tests.fakes.catalog import fault, unknown
from tests.fakes.jobs import FakeContext, job

LIMIT = "2026-06-05T12:00:00.000+00:00"


def context(lake, **settings):
    given = {"days": 10, "column": "at", "rowDeleteShare": 1e-6, **settings}
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        documents={JobKind.RECORDS: {"status": "enabled", "settings": given}},
        ident=IDENT,
    )


def expire(lake, ctx=None, **changes):
    return run(ctx or context(lake), job(JobKind.RECORDS, IDENT, lake.metadata.uuid, **changes))


def times(lake):
    return sorted((row["at"] for row in lake.rows()), key=str)


def data_files(lake):
    return {info.path for info in lake.store.list(f"{lake.metadata.location}/data")}


@pytest.fixture
def lake():
    lake = timed_lake()
    write(lake, [ago(30), ago(20), ago(5), None])
    return lake


def with_schema(lake, fields):
    """The table with other columns, as a client would have evolved it."""
    table = lake.catalog._tables[IDENT]
    known = table.metadata.document["schemas"]
    schemas = [*known, {"type": "struct", "schema-id": len(known), "fields": fields}]
    evolved = {
        **table.metadata.document,
        "schemas": schemas,
        "current-schema-id": len(known),
        "last-column-id": 9,
    }
    lake.catalog._tables[IDENT] = replace(table, metadata=TableMetadata(evolved))


def test_old_rows_leave_and_young_and_timeless_ones_stay(lake):
    before, files = lake.metadata.current_snapshot_id, data_files(lake)
    size = lake.tasks()[0].entry.data_file.file_size_in_bytes
    report = expire(lake)
    assert times(lake) == sorted([ago(5), None], key=str)
    assert len(lake.rows(before)) == 4
    assert files < data_files(lake)
    assert (report.outcome, report.again_after_ms) == (Outcome.DONE, None)
    assert report.reason == f"2 rows left 1 file with other rows, with at before {LIMIT}"
    (task,) = lake.tasks()
    figures = report.figures
    assert {name: figures[name] for name in ("deletedDataFiles", "deletedRecords", "removedFilesSize")} == {
        "deletedDataFiles": 0,
        "deletedRecords": 2,
        "removedFilesSize": 0,
    }
    assert (figures["filesRewritten"], figures["filesWritten"], figures["bytesRead"]) == (1, 1, size)
    assert figures["bytesWritten"] == task.entry.data_file.file_size_in_bytes
    summary = lake.summary
    assert {
        key: summary[key]
        for key in ("operation", "deleted-data-files", "added-data-files", "deleted-records", "added-records")
    } == {
        "operation": "overwrite",
        "deleted-data-files": "1",
        "added-data-files": "1",
        "deleted-records": "4",
        "added-records": "2",
    }
    assert summary["maintenance.job-id"] == "7"


def test_a_second_run_reads_nothing_and_commits_nothing(lake):
    expire(lake)
    location = lake.table.metadata_location
    report = expire(lake)
    assert (report.outcome, lake.table.metadata_location) == (Outcome.NOTHING, location)
    assert report.reason.endswith("1 with younger rows")


def test_whole_files_go_in_a_snapshot_of_their_own_first(lake):
    write(lake, [ago(40), ago(40)])
    report = expire(lake)
    operations = [snapshot["summary"]["operation"] for snapshot in lake.metadata.snapshots]
    assert operations == ["append", "append", "delete", "overwrite"]
    assert (report.figures["deletedDataFiles"], report.figures["deletedRecords"]) == (1, 4)
    assert report.reason.startswith("1 file with 2 rows, all with at before")


def test_by_default_a_file_is_written_anew_when_half_of_it_is_old():
    lake = timed_lake()
    write(lake, [ago(19), ago(0)])  # 9 of 19 days
    write(lake, [ago(21), ago(0)])  # 11 of 21
    documents = {"days": 10, "column": "at"}
    ctx = context(lake)
    ctx.documents[JobKind.RECORDS]["settings"] = documents
    report = expire(lake, ctx)
    assert times(lake) == [ago(19), ago(0), ago(0)]
    assert report.figures["leftAlone"] == ["1 with younger rows, and too few old ones to rewrite it"]


def test_rows_written_so_that_half_is_old_are_written_again_only_when_half_of_the_rest_is():
    """What is rewritten for one file stays below its size, however long it takes to grow old."""
    lake = timed_lake()
    write(lake, [ago(day) for day in range(32)])
    size, written = lake.tasks()[0].entry.data_file.record_count, 0
    for _ in range(45):
        report = expire(lake, context(lake, rowDeleteShare=0.5))
        written += sum(task.entry.data_file.record_count for task in lake.tasks()) * report.figures.get(
            "filesWritten", 0
        )
        lake.clock.advance(86_400)
    assert lake.rows() == []
    assert 0 < written <= size


def test_what_bounds_promise_and_rows_do_not_keep_is_left_alone_as_counted():
    lake = timed_lake()
    write(lake, [ago(400), *[ago(1)] * 9])  # by the bounds nearly all is old
    files = data_files(lake)
    report = expire(lake, context(lake, rowDeleteShare=0.5))
    assert (report.outcome, len(lake.rows()), data_files(lake)) == (Outcome.NOTHING, 10, files)
    assert report.figures["leftAlone"] == ["1 with old rows, but too few of them, as counted"]


def test_files_go_only_whole_when_the_policy_says_so(lake):
    report = expire(lake, context(lake, rowDeleteShare=1))
    assert (report.outcome, len(lake.rows())) == (Outcome.NOTHING, 4)


def test_a_file_whose_age_nothing_tells_is_read_for_it():
    lake = timed_lake()
    lake.append(lake.data_file([{"id": 1, "at": ago(30)}, {"id": 2, "at": ago(1)}]))
    lake.append(lake.data_file([{"id": 3, "at": ago(1)}]))
    lake.append(lake.data_file([{"id": 4, "at": ago(30)}]))
    report = expire(lake)
    assert [row["id"] for row in lake.rows()] == [2, 3]
    assert (report.figures["deletedDataFiles"], report.figures["filesRewritten"]) == (1, 1)
    assert report.figures["leftAlone"] == ["1 with old rows, but too few of them, as counted"]


PLAIN_TYPES = ["timestamp", "timestamptz", "date"]
TYPES = [
    *[(kind, version) for kind in PLAIN_TYPES for version in "123"],
    ("timestamp_ns", "3"),
    ("timestamptz_ns", "3"),
]


@pytest.mark.parametrize(("kind", "version"), TYPES)
def test_the_limit_is_exact_in_every_type_and_version(kind, version):
    lake = timed_lake(kind=kind, **{"format-version": version})
    micro = 1 / 86_400_000_000
    write(lake, [ago(10 + micro), ago(10), ago(10 - micro), ago(11), None])
    expire(lake)
    days = kind == "date"
    assert len(lake.rows()) == 4 if days else 3
    kept = [row["at"] for row in lake.rows() if row["at"] is not None]
    assert min(kept) == (date(2026, 6, 5) if days else _plain(ago(10), kind))


def _plain(time, kind):
    return time if kind.startswith("timestamptz") else time.replace(tzinfo=None)


def test_a_renamed_and_moved_column_is_still_the_same(lake):
    fields = [
        {"id": 2, "name": "happened", "required": False, "type": "timestamptz"},
        {"id": 1, "name": "number", "required": False, "type": "long"},
    ]
    with_schema(lake, fields)
    expire(lake, context(lake, column="happened"))
    assert sorted(row["number"] for row in lake.rows()) == [2, 3]


def test_rows_of_files_without_the_column_have_its_default_or_no_time():
    lake = timed_lake(**{"format-version": "3"})
    write(lake, [ago(1), ago(1)])
    added = {"id": 5, "name": "since", "required": False, "type": "timestamptz"}
    with_schema(lake, [*schema()["fields"], added])
    assert expire(lake, context(lake, column="since")).outcome is Outcome.NOTHING
    assert len(lake.rows()) == 2
    for default, left in (("2026-06-10T00:00:00+00:00", 2), ("2020-01-01T00:00:00+00:00", 0)):
        with_schema(lake, [*schema()["fields"], {**added, "initial-default": default}])
        expire(lake, context(lake, column="since"))
        assert len(lake.rows()) == left


def test_a_date_that_became_a_timestamp_is_its_midnight_in_utc():
    lake = timed_lake(kind="date", **{"format-version": "3"})
    write(lake, [ago(30), ago(10), ago(9), None])
    with_schema(lake, schema("timestamp")["fields"])
    expire(lake)
    assert [row["at"] for row in lake.rows()] == [datetime(2026, 6, 6), None]  # noqa: DTZ001 - has no zone


def test_deletes_of_before_are_applied_and_those_of_meanwhile_still_count():
    lake = timed_lake()
    (file,) = write(lake, [ago(30), ago(30), ago(5), ago(5), ago(5)])
    lake.row_delta([], [lake.position_file([(file.file_path, 0), (file.file_path, 2)])])
    # An equality delete that comes while the file is written anew reaches what was written.
    lake.catalog.before_commit.append(
        lambda: lake.row_delta([], [lake.equality_file([{"id": 3}, {"id": 1}], [1])])
    )
    lake.catalog.before_commit.append(lambda: None)
    report = expire(lake)
    assert [row["id"] for row in lake.rows()] == [4]
    assert (report.figures["deletedRecords"], report.figures["rowsDeleted"]) == (1, 2)
    assert [len(task.deletes) for task in lake.tasks()] == [1]


def test_a_file_that_loses_a_row_meanwhile_is_left_to_the_next_run(lake):
    (task,) = lake.tasks()
    path, files = task.entry.data_file.file_path, data_files(lake)
    deleting = lake.position_file([(path, 2)])
    lake.catalog.before_commit.append(lambda: lake.row_delta([], [deleting]))
    lake.catalog.before_commit.append(lambda: None)
    report = expire(lake)
    assert (report.outcome, report.again_after_ms, report.figures["conflicts"]) == (Outcome.CONFLICT, 5000, 1)
    assert (len(lake.rows()), data_files(lake)) == (3, {*files, deleting.file_path})
    expire(lake)
    assert times(lake) == [None]


def test_a_file_that_a_compaction_took_meanwhile_is_not_doubled(lake):
    lake.catalog.before_commit.append(lambda: lake.rewrite(lake.group()))
    lake.catalog.before_commit.append(lambda: None)
    assert expire(lake).outcome is Outcome.CONFLICT
    assert len(lake.rows()) == 4
    expire(lake)
    assert len(lake.rows()) == 2


def test_row_ids_and_last_changes_stay():
    lake = timed_lake(spec=by("year"), **{"format-version": "3"})
    write(lake, [ago(30), ago(5), ago(20), ago(4)])
    lineage = _lineage(lake)
    assert expire(lake).outcome is Outcome.DONE
    assert _lineage(lake) == [row for row in lineage if row["id"] in (1, 3)]
    assert [row["_row_id"] for row in _lineage(lake)] == [1, 3]


def _lineage(lake):
    found = (
        row
        for task in lake.tasks()
        for batch in read_task(lake.store, task, lake.metadata, lineage=True)
        for row in batch.to_pylist()
    )
    return sorted(found, key=lambda row: row["id"])


def test_a_run_reads_as_much_as_it_may_and_the_next_goes_on():
    lake = timed_lake()
    for _ in range(3):
        write(lake, [ago(30), ago(5)])
    ctx = context(lake)
    policy = replace(ctx.policy(JobKind.RECORDS), max_bytes_per_run=1)
    ctx.policy = lambda kind: policy
    report = expire(lake, ctx)
    assert (report.figures["filesRewritten"], report.figures["remainingFiles"], report.again_after_ms) == (
        1,
        2,
        0,
    )
    assert report.reason.endswith("2 files left for the next run")
    expire(lake, ctx)
    assert expire(lake, ctx).again_after_ms is None
    assert times(lake) == [ago(5)] * 3


def test_files_that_are_only_counted_do_not_use_up_what_a_run_may_read():
    lake = timed_lake()
    for _ in range(3):
        lake.append(lake.data_file([{"id": 1, "at": ago(1)}]))
    lake.append(lake.data_file([{"id": 2, "at": ago(30)}, {"id": 3, "at": ago(1)}]))
    ctx = context(lake)
    policy = replace(ctx.policy(JobKind.RECORDS), max_bytes_per_run=1)
    ctx.policy = lambda kind: policy
    report = expire(lake, ctx)
    assert (report.figures["filesRewritten"], report.again_after_ms) == (1, None)


class SideBySide(InlineExecutor):
    """Asks for two pieces of work before one has ended, as a pool of processes does."""

    def run(self, works, reach, go_on):
        pending = iter(works)
        while some := list(islice(pending, 2)):
            yield from super().run(some, reach, go_on)


def test_a_file_that_was_only_counted_does_not_keep_others_from_their_turn():
    """Else each run would count it again, and tell that more is left for the next one: at once, and for ever."""
    lake = timed_lake()
    write(lake, [ago(400), *[ago(1)] * 99])  # by the bounds nearly all is old, and it is the largest
    write(lake, [ago(30), ago(5)])
    ctx = replace(context(lake, rowDeleteShare=0.5), executor=SideBySide())
    policy = replace(ctx.policy(JobKind.RECORDS), max_bytes_per_run=1)
    ctx.policy = lambda kind: policy
    report = expire(lake, ctx)
    assert (report.figures["filesRewritten"], report.again_after_ms) == (1, None)
    assert ago(30) not in times(lake)
    assert expire(lake, ctx).outcome is Outcome.NOTHING


def test_a_bad_file_does_not_use_up_what_a_run_may_read():
    lake = timed_lake()
    write(lake, [ago(30)] * 50 + [ago(5)])
    write(lake, [ago(30), ago(5)])
    first = max((task.entry.data_file for task in lake.tasks()), key=lambda file: file.record_count)
    lake.store.delete_many([first.file_path])
    ctx = context(lake)
    policy = replace(ctx.policy(JobKind.RECORDS), max_bytes_per_run=1)
    ctx.policy = lambda kind: policy
    with pytest.raises(NoSuchFile):
        expire(lake, ctx)
    assert lake.metadata.current_snapshot["summary"]["operation"] == "overwrite"


def test_batches_commit_as_they_are_done_and_a_bad_file_stops_no_other():
    lake = timed_lake()
    for _ in range(3):
        write(lake, [ago(30), ago(5)])
    gone = lake.tasks()[1].entry.data_file.file_path
    lake.store.delete_many([gone])
    ctx = context(lake)
    ctx.settings = replace(ctx.settings, groups_per_commit=1)
    files = data_files(lake)
    with pytest.raises(NoSuchFile):
        expire(lake, ctx)
    assert sum(snapshot["summary"]["operation"] == "overwrite" for snapshot in lake.metadata.snapshots) == 2
    named = {task.entry.data_file.file_path for task in lake.tasks()}
    assert data_files(lake) - files == named - {gone} - files


def test_a_manifest_that_counts_other_rows_is_an_error_and_the_file_stays():
    lake = timed_lake()
    file = lake.data_file([{"id": 1, "at": ago(30)}, {"id": 2, "at": ago(1)}])
    lake.append(replace(file, record_count=3))
    files = data_files(lake)
    with pytest.raises(Invalid, match="has 2 rows, its manifest says 3"):
        expire(lake)
    assert data_files(lake) == files


@pytest.mark.parametrize(
    "fault_in", ["one row more is taken", "one old row is kept", "a row is written twice"]
)
def test_rows_that_do_not_add_up_are_never_committed(lake, monkeypatch, fault_in):
    honest = FreeWork._young

    def wrong(self, *args):
        for batch in honest(self, *args):
            if fault_in == "one row more is taken":
                yield batch.slice(1)
            elif fault_in == "a row is written twice":
                yield pa.concat_batches([batch, batch.slice(0, 1)])
            else:
                names = batch.schema.names
                old = pa.array([ago(30)], batch.column(names.index("at")).type)
                row = [old if name == "at" else batch.column(names.index(name)).slice(0, 1) for name in names]
                yield pa.concat_batches([batch, pa.RecordBatch.from_arrays(row, schema=batch.schema)])

    monkeypatch.setattr(FreeWork, "_young", wrong)
    files = data_files(lake)
    with pytest.raises(Internal, match="the file stays"):
        expire(lake)
    assert (len(lake.rows()), data_files(lake)) == (4, files)


def test_a_lease_lost_before_the_commit_leaves_no_file(lake):
    files = data_files(lake)
    ctx = context(lake)
    ctx.leases = [True, True, False]
    report = expire(lake, ctx)
    assert (report.outcome, len(lake.rows()), data_files(lake)) == (Outcome.SKIPPED, 4, files)


def test_after_a_commit_in_doubt_the_files_stay_and_the_job_fails(lake):
    files = data_files(lake)
    ctx = context(lake)
    ctx.settings = replace(ctx.settings, commit_attempts=1)
    lake.catalog.faults.append(unknown(applied=False))
    with pytest.raises(CommitStateUnknown):
        expire(lake, ctx)
    assert len(data_files(lake) - files) == 1


def test_an_unanswered_commit_that_happened_counts(lake):
    lake.catalog.faults.append(unknown(applied=True))
    report = expire(lake)
    assert (report.outcome, report.figures["deletedRecords"], len(lake.rows())) == (Outcome.DONE, 2, 2)


def test_a_refused_commit_leaves_no_file(lake):
    files = data_files(lake)
    ctx = context(lake)
    ctx.settings = replace(ctx.settings, commit_attempts=1)
    lake.catalog.faults.append(fault("conflict"))
    report = expire(lake, ctx)
    assert (report.outcome, len(lake.rows()), data_files(lake)) == (Outcome.CONFLICT, 4, files)


def test_a_column_that_is_another_one_by_the_commit_takes_no_row(lake):
    """Dropped, and a new one of its name added, while the file was written anew."""

    def swap():
        with_schema(
            lake, [schema()["fields"][0], {"id": 7, "name": "at", "required": False, "type": "timestamptz"}]
        )

    lake.catalog.before_commit.append(lambda: (swap(), _conflict()))
    files = data_files(lake)
    report = expire(lake)
    assert (report.outcome, len(lake.rows()), data_files(lake)) == (Outcome.CONFLICT, 4, files)


def _conflict():
    raise CommitFailed("somebody changed the schema")


def test_tables_and_files_that_cannot_be_rewritten_keep_their_rows_with_a_reason(lake):
    fields = [*schema()["fields"], {"id": 5, "name": "v", "required": False, "type": "variant"}]
    with_schema(lake, fields)
    report = expire(lake)
    assert (report.outcome, report.figures["filesRewritten"]) == (Outcome.NOTHING, 0)
    (told,) = report.figures["leftAlone"]
    assert "column 'v' is of type variant, which is not rewritten here" in told


def test_a_file_outside_the_bucket_is_not_read(lake):
    ctx = context(lake)
    ctx.within = "memory://elsewhere"
    report = expire(lake, ctx)
    assert (report.outcome, len(lake.rows())) == (Outcome.NOTHING, 4)
    assert report.figures["leftAlone"] == ["1 outside the table bucket"]


def test_a_dry_run_tells_the_files_and_changes_nothing(lake):
    write(lake, [ago(40)])
    location, files = lake.table.metadata_location, data_files(lake)
    report = expire(lake, dry_run=True)
    assert (lake.table.metadata_location, data_files(lake)) == (location, files)
    figures = report.figures
    assert (figures["filesToDelete"], figures["filesToRewrite"]) == (1, 1)
    (told,) = report.plan["rewrite"]
    assert (told["records"], told["old-share"]) == (4, pytest.approx(20 / 25 * 3 / 4, abs=1e-3))
    assert report.reason == (
        f"dry run: 1 file with 1 row, all with at before {LIMIT}, would go; 1 file with 4 rows would be read, and "
        "written anew where enough of them are old"
    )


def test_the_work_travels(lake):
    seen = []
    ctx = context(lake)
    inner = ctx.executor

    class Travelling:
        def run(self, works, reach, go_on):
            def through(work):
                seen.append(work.title)
                return pickle.loads(pickle.dumps(work))

            return inner.run(map(through, works), reach, go_on)

    ctx.executor = Travelling()
    assert expire(lake, ctx).outcome is Outcome.DONE
    assert seen[0].startswith("expiration of rows of memory://")
