"""The record expiration job over real files: one delete snapshot, what it carries on, races, and what it reports."""

from dataclasses import replace

import pytest

from maintenance.ports import JobKind
from maintenance.records.job import run
from maintenance.report import Outcome
from table_format.errors import CommitStateUnknown, NoSuchFile
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import snapshot_files
from tests.factories.lake import IDENT
from tests.factories.timed import ago, by, timed_lake, write
from tests.fakes.catalog import fault, unknown
from tests.fakes.jobs import FakeContext, job

METRICS = ("deletedDataFiles", "deletedRecords", "removedFilesSize")


@pytest.fixture
def lake():
    lake = timed_lake(spec=by("day"))
    for days in (30, 20, 5):
        write(lake, [ago(days), ago(days)])
    return lake


def context(lake, *, status="enabled", **settings):
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        documents={JobKind.RECORDS: {"status": status, "settings": {"days": 10, **settings}}},
        ident=IDENT,
    )


def expire(lake, ctx=None, **changes):
    return run(ctx or context(lake), job(JobKind.RECORDS, IDENT, lake.metadata.uuid, **changes))


def times(lake):
    return {row["at"] for row in lake.rows()}


def test_old_files_leave_in_one_delete_snapshot_and_stay_in_the_store(lake):
    before, sizes = (
        lake.metadata.current_snapshot_id,
        sum(task.entry.data_file.file_size_in_bytes for task in lake.tasks()[1:]),
    )
    report = expire(lake)
    assert times(lake) == {ago(5)}
    assert len(lake.rows(before)) == 6
    assert report.outcome is Outcome.DONE
    assert (
        report.reason
        == "2 files with 4 rows, all with at before 2026-06-05T12:00:00.000+00:00, left the table"
    )
    figures = report.figures
    assert (figures["deletedDataFiles"], figures["deletedRecords"], figures["removedFilesSize"]) == (
        2,
        4,
        sizes,
    )
    assert (figures["dataFilesBefore"], figures["leftAlone"]) == (3, ["1 with younger rows"])
    summary = lake.summary
    assert {
        key: summary[key]
        for key in ("operation", "deleted-data-files", "deleted-records", "total-data-files", "total-records")
    } == {
        "operation": "delete",
        "deleted-data-files": "2",
        "deleted-records": "4",
        "total-data-files": "1",
        "total-records": "2",
    }
    assert summary["maintenance.job-id"] == "7"


def test_a_second_run_has_nothing_to_do_and_commits_nothing(lake):
    expire(lake)
    location = lake.table.metadata_location
    report = expire(lake)
    assert (report.outcome, lake.table.metadata_location) == (Outcome.NOTHING, location)
    assert report.reason.endswith("before 2026-06-05T12:00:00.000+00:00: 1 with younger rows")
    assert report.again_after_ms is None
    assert {name: report.figures[name] for name in METRICS} == dict.fromkeys(METRICS, 0)


def test_a_dry_run_names_the_files_and_changes_nothing(lake):
    location = lake.table.metadata_location
    report = expire(lake, dry_run=True)
    assert lake.table.metadata_location == location
    assert (report.plan["files"], report.plan["records"], len(report.plan["paths"])) == (2, 4, 2)
    assert report.reason.startswith("dry run: 2 files with 4 rows")
    by_policy = expire(lake, context(lake, dryRun=True))
    assert (by_policy.reason, lake.table.metadata_location) == (report.reason, location)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"status": "disabled"}, "the policy is disabled"),
        ({"days": None}, "the policy does not say after how many days rows expire"),
        ({"column": "id"}, "column 'id' is of type long: rows expire by a date or timestamp"),
    ],
)
def test_what_can_not_be_done_is_skipped_with_its_reason(lake, settings, reason):
    ctx = context(lake, **settings)
    settings = ctx.documents[JobKind.RECORDS]["settings"]
    ctx.documents[JobKind.RECORDS]["settings"] = {k: v for k, v in settings.items() if v is not None}
    report = expire(lake, ctx)
    assert (report.outcome, report.reason, len(lake.rows())) == (Outcome.SKIPPED, reason, 6)


def test_without_a_policy_nothing_expires(lake):
    ctx = context(lake)
    ctx.documents.clear()
    assert expire(lake, ctx).reason == "no policy asks for it"
    assert len(lake.rows()) == 6


def test_progress_of_ingest_is_carried_on(lake):
    lake.append(**{"ingest.offsets": "{}", "ingest.commit-id": "c"})
    expire(lake)
    assert (lake.summary["ingest.offsets"], lake.summary["ingest.commit-id"]) == ("{}", "c")


def test_an_append_during_the_run_is_no_conflict_and_stays(lake):
    lake.catalog.before_commit.append(lambda: write(lake, [ago(1), ago(40)]))
    lake.catalog.before_commit.append(lambda: None)
    report = expire(lake)
    assert times(lake) == {ago(5), ago(1)}
    assert report.figures["deletedDataFiles"] == 3  # what came meanwhile and is old goes with the others


def test_a_file_that_a_compaction_took_meanwhile_is_not_doubled_nor_lost(lake):
    def compact():
        lake.rewrite(lake.group(lake.tasks()[-1:]))  # the file of 30 days ago

    lake.catalog.before_commit.append(compact)
    lake.catalog.before_commit.append(lambda: None)
    expire(lake)
    # The rewritten file has no metrics here, but its partition proves its age.
    assert times(lake) == {ago(5)}


def test_row_level_deletes_of_the_files_go_with_them_and_others_stay():
    lake = timed_lake(spec=by("day"))
    (old,) = write(lake, [ago(30), ago(30)])
    (young,) = write(lake, [ago(5), ago(5)])
    lake.row_delta(
        [],
        [
            lake.position_file(
                [(file.file_path, 0)], partition=file.partition, referenced_data_file=file.file_path
            )
            for file in (old, young)
        ],
    )
    assert len(lake.rows()) == 2
    expire(lake)
    assert [row["at"] for row in lake.rows()] == [ago(5)]
    assert (lake.summary["total-delete-files"], lake.summary["total-position-deletes"]) == ("1", "1")
    assert len(snapshot_files(lake.store, lake.metadata).delete_entries) == 1


def test_an_upserted_row_does_not_come_back():
    lake = timed_lake()
    write(lake, [ago(30)])
    young = lake.data_file([{"id": 0, "at": ago(5)}])
    lake.row_delta([young], [lake.equality_file([{"id": 0}], [1])])
    middle = lake.rows()
    expire(lake, context(lake, column="at"))
    assert lake.rows() == middle
    assert lake.summary["total-data-files"] == "1"


def test_all_rows_may_go():
    lake = timed_lake(spec=by("day"))
    write(lake, [ago(30)])
    expire(lake)
    assert (lake.rows(), lake.summary["total-records"]) == ([], "0")
    assert expire(lake).reason == "the table has no data files"


def test_tables_of_format_v1_and_v3_too():
    for version in ("1", "3"):
        lake = timed_lake(spec=by("day"), **{"format-version": version})
        write(lake, [ago(30)])
        write(lake, [ago(5)])
        assert expire(lake).outcome is Outcome.DONE
        assert (times(lake), lake.metadata.format_version) == ({ago(5)}, int(version))


def test_a_lost_lease_commits_nothing(lake):
    ctx = context(lake)
    ctx.leases = [False]
    report = expire(lake, ctx)
    assert (report.outcome, len(lake.rows())) == (Outcome.SKIPPED, 6)
    assert "the lease was lost" in report.reason


def test_a_table_that_keeps_changing_is_tried_again_soon(lake):
    ctx = context(lake)
    ctx.settings = replace(ctx.settings, commit_attempts=2)
    lake.catalog.faults.extend([fault("conflict"), fault("conflict")])
    report = expire(lake, ctx)
    assert (report.outcome, report.again_after_ms, len(lake.rows())) == (Outcome.CONFLICT, 5000, 6)


def test_an_unanswered_commit_that_happened_is_reported_as_done(lake):
    lake.catalog.faults.append(unknown(applied=True))
    report = expire(lake)
    assert (report.outcome, report.figures["deletedDataFiles"], times(lake)) == (Outcome.DONE, 2, {ago(5)})


def test_another_table_of_the_name_is_left_alone(lake):
    report = run(context(lake), job(JobKind.RECORDS, IDENT, "another"))
    assert report.outcome is Outcome.SKIPPED
    assert len(lake.rows()) == 6


def test_a_table_replaced_before_the_commit_is_left_alone(lake):
    """By one of the same name and rows, registered under another uuid while the job read its policy."""
    ctx = context(lake)
    policy = ctx.policy(JobKind.RECORDS)
    wanted = job(JobKind.RECORDS, IDENT, lake.metadata.uuid)

    def replaced(kind):
        table = lake.table
        other = TableMetadata(
            {**table.metadata.document, "table-uuid": "4f1b5e0e-0000-4000-8000-000000000001"}
        )
        lake.catalog._tables[IDENT] = replace(table, metadata=other)
        return policy

    ctx.policy = replaced
    report = run(ctx, wanted)
    assert (report.outcome, len(lake.rows())) == (Outcome.CONFLICT, 6)
    assert "became another table while its rows were expired" in report.reason


def test_a_manifest_that_is_gone_stops_the_job(lake):
    manifests = [i.path for i in lake.store.list(lake.metadata.location) if i.path.endswith("-m0.avro")]
    lake.store.delete_many(manifests[:1])
    with pytest.raises(NoSuchFile):
        expire(lake)


def test_a_commit_in_doubt_is_an_error(lake):
    ctx = context(lake)
    ctx.settings = replace(ctx.settings, commit_attempts=1)
    lake.catalog.faults.append(unknown(applied=False))
    with pytest.raises(CommitStateUnknown):
        expire(lake, ctx)
