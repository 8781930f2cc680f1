"""The compaction job over real small Parquet files, a fake catalog and a store in memory."""

from dataclasses import replace

import pytest

from maintenance.compaction.job import run
from maintenance.compaction.plan_types import CompactionPlan, PlannedFile, PlannedGroup
from maintenance.compaction.rewrite import check_rows
from maintenance.ports import JobKind, JobSettings
from maintenance.report import Outcome
from table_format.errors import (
    CommitFailed,
    CommitStateUnknown,
    Internal,
    Invalid,
    NoSuchFile,
    Unavailable,
)
from table_format.ident import TableIdent
from table_format.io.faults import Counting, Failing, Rule
from table_format.io.memory import MemoryObjectStore
from tests.factories.lake import BY_NAME, IDENT, SCHEMA, Lake
from tests.fakes.catalog import fault, unknown
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

TIERS = [{"belowBytes": 1024 * 16, "targetBytes": 1024 * 64}]


@pytest.fixture
def lake():
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock)


def context(lake, *, tiers=TIERS, minimum=2, **settings):
    document = {"status": "enabled", "settings": {"tiers": tiers, "minInputFiles": minimum}}
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(**settings),
        documents={JobKind.COMPACTION: document},
        ident=IDENT,
    )


def compact(lake, ctx=None, **changes):
    return run(ctx or context(lake), compaction_job(lake, **changes))


def compaction_job(lake, **changes):
    return job(JobKind.COMPACTION, IDENT, lake.metadata.uuid, **changes)


def fill(lake, files=4, partition=()):
    for n in range(files):
        lake.append_rows({"id": n, "name": partition[0] if partition else f"n{n}"}, partition=partition)


def objects(lake):
    return {info.path for info in lake.store.list(lake.metadata.location)}


def data_objects(lake):
    return {path for path in objects(lake) if "/data/" in path}


def live(lake):
    return {task.entry.data_file.file_path for task in lake.tasks()}


def test_small_files_become_one_and_every_row_stays(lake):
    fill(lake)
    rows, inputs = lake.rows(), live(lake)
    sizes = sum(task.entry.data_file.file_size_in_bytes for task in lake.tasks())
    ctx = context(lake)
    report = compact(lake, ctx)
    (output,) = [task.entry for task in lake.tasks()]
    assert lake.rows() == rows
    assert (report.outcome, report.again_after_ms) == (Outcome.DONE, 0)
    assert report.reason == "4 files became 1 in 1 commit"
    cost = {name for name in report.figures if name.endswith(("Ms", "PerScan"))} | {"storeCalls"}
    assert {name: value for name, value in report.figures.items() if name not in cost} == {
        "leftAlone": [],
        "dataFilesBefore": 4,
        "dataFilesAfter": 1,
        "groups": 1,
        "groupsCopied": 0,
        "groupsRewritten": 1,
        "notCopied": ["1 small row groups"],
        "conflicts": 0,
        "remainingGroups": 0,
        "commits": 1,
        "filesRewritten": 4,
        "filesWritten": 1,
        "bytesRead": sizes,
        "bytesWritten": output.data_file.file_size_in_bytes,
        "rowsRead": 4,
        "rowsDeleted": 0,
        "deleteFilesRemoved": 0,
        "deleteFilesWritten": 0,
    }
    assert output.sequence_number == 4
    assert lake.metadata.current_snapshot["summary"]["operation"] == "replace"
    assert lake.summary["maintenance.job-id"] == "7"
    assert CompactionPlan.from_json(report.plan).groups[0].inputs[0].path in inputs


def test_maint_C17_the_inputs_stay_for_the_snapshots_that_need_them(lake):
    fill(lake)
    before, old = lake.metadata.current_snapshot_id, live(lake)
    rows = lake.rows()
    compact(lake)
    assert old <= data_objects(lake)
    assert lake.rows(before) == rows


def test_maint_D4_a_second_run_right_after_does_nothing_and_commits_nothing(lake):
    fill(lake)
    compact(lake)
    location = lake.table.metadata_location
    report = compact(lake)
    assert report.outcome is Outcome.NOTHING
    assert "1 alone in its bin" in report.reason
    assert report.again_after_ms is None
    assert lake.table.metadata_location == location


def test_maint_E7_outputs_have_absolute_paths_below_the_table(lake):
    fill(lake)
    compact(lake)
    (path,) = live(lake)
    assert path.startswith(f"{lake.metadata.location}/data/compact-7-")
    assert path.endswith(".parquet")


def test_the_name_of_the_outputs_is_saved_before_the_first_is_written(lake):
    fill(lake)
    ctx = context(lake)
    seen = []
    ctx.save_plan = lambda plan: seen.append((plan["output-prefix"], data_objects(lake)))
    before = data_objects(lake)
    compact(lake, ctx)
    ((prefix, at_that_time),) = seen
    assert at_that_time == before
    assert all(prefix in path for path in live(lake))


def test_each_partition_and_each_spec_keeps_to_itself():
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock, spec=BY_NAME)
    for name in ("x", "y/ü#"):
        fill(lake, 3, (name,))
    rows = lake.rows()
    compact(lake)
    assert lake.rows() == rows
    found = sorted((t.entry.data_file.partition, t.entry.data_file.record_count) for t in lake.tasks())
    assert found == [(("x",), 3), (("y/ü#",), 3)]
    assert all("#" not in path and " " not in path for path in live(lake))


def test_files_of_an_old_spec_are_rewritten_under_that_spec():
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock, spec=BY_NAME)
    fill(lake, 3, ("x",))
    spec = {"spec-id": -1, "fields": []}
    updates = [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}]
    lake.catalog.commit(IDENT, [], updates)
    fill(lake, 2)
    rows = lake.rows()
    compact(lake)
    assert lake.rows() == rows
    found = sorted((t.entry.data_file.spec_id, t.entry.data_file.partition) for t in lake.tasks())
    assert found == [(0, ("x",)), (1, ())]


def test_files_of_older_schemas_are_read_into_the_current_one(lake):
    fill(lake, 2)
    grown = {
        **SCHEMA,
        "fields": [*SCHEMA["fields"], {"id": 3, "name": "more", "required": False, "type": "int"}],
    }
    lake.catalog.commit(
        IDENT,
        [],
        [{"action": "add-schema", "schema": grown}, {"action": "set-current-schema", "schema-id": -1}],
    )
    lake.append_rows({"id": 9, "name": "n", "more": 3})
    rows = lake.rows()
    compact(lake)
    assert len(lake.tasks()) == 1
    assert lake.rows() == rows
    assert {row["more"] for row in rows} == {None, 3}


def test_maint_C9_strings_with_different_dictionaries_keep_their_values(lake):
    for letters in ("abc", "cba", "xyz"):
        lake.append_rows(*({"id": n, "name": letters[n % 3] * (n % 5 + 1)} for n in range(60)))
    rows = lake.rows()
    compact(lake)
    assert len(lake.tasks()) == 1
    assert lake.rows() == rows


def test_a_v1_table_is_compacted_too():
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock, **{"format-version": "1"})
    fill(lake)
    rows = lake.rows()
    assert compact(lake).outcome is Outcome.DONE
    assert (lake.rows(), len(lake.tasks()), lake.metadata.format_version) == (rows, 1, 1)


def test_one_row_deleted_by_duckdb_does_not_stop_compaction_of_all_files(lake):
    """DuckDB's manifests name no data file for a delete file: without a look inside, it concerns all older files."""
    fill(lake)
    first = lake.tasks()[0].entry.data_file.file_path
    lake.row_delta([], [lake.position_file([(first, 0)])])
    rows = lake.rows()
    before = lake.metadata.current_snapshot_id
    report = compact(lake)
    assert lake.rows() == lake.rows(before) == rows
    assert (report.figures["filesRewritten"], len(rows)) == (4, 3)
    assert (report.figures["rowsDeleted"], report.figures["deleteFilesRemoved"]) == (1, 1)


@pytest.mark.parametrize("meanwhile", [False, True])
def test_a_delete_that_duckdb_filed_under_the_new_spec_keeps_its_row_deleted(lake, meanwhile):
    """By the specification it concerns no file of the old spec, but DuckDB applies it: neither file may go."""
    fill(lake)
    lake.append_rows({"id": 9, "name": "other"})
    first = lake.tasks()[0].entry.data_file.file_path
    add = {"action": "add-spec", "spec": {"fields": [{"source-id": 2, "name": "n", "transform": "identity"}]}}
    lake.catalog.commit(IDENT, [], [add, {"action": "set-default-spec", "spec-id": -1}])
    delete = lake.position_file([(first, 0)], partition=(None,))
    assert delete.spec_id == 1
    if meanwhile:
        lake.catalog.before_commit.append(lambda: lake.row_delta([], [delete]))
    else:
        lake.row_delta([], [delete])
    report = compact(lake)
    assert (report.figures["conflicts"] if meanwhile else report.figures["filesRewritten"]) == (
        1 if meanwhile else 4
    )
    assert first in live(lake)
    assert lake.summary["total-delete-files"] == "1"
    if not meanwhile:
        odd = "1 a position delete that names it is filed under another partition"
        assert report.figures["leftAlone"] == [odd]


def test_maint_D1_appends_during_compaction_never_make_it_fail(lake):
    fill(lake)
    for n in range(15):
        lake.catalog.before_commit.append(lambda n=n: lake.append_rows({"id": 100 + n, "name": "late"}))
    report = compact(lake)
    lake.catalog.before_commit.clear()
    assert report.outcome is Outcome.DONE
    assert report.figures["conflicts"] == 0
    assert sorted(row["id"] for row in lake.rows()) == [0, 1, 2, 3, *range(100, 115)]


def test_load_17_an_upsert_during_compaction_wins_over_the_old_row(lake):
    fill(lake)
    lake.catalog.before_commit.append(
        lambda: lake.row_delta(
            [lake.data_file([{"id": 2, "name": "new"}])], [lake.equality_file([{"id": 2}], [1])]
        )
    )
    assert compact(lake).outcome is Outcome.DONE
    assert [row["name"] for row in lake.rows() if row["id"] == 2] == ["new"]
    assert len(lake.rows()) == 4


def test_a_position_delete_of_an_input_drops_that_group_alone():
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock, spec=BY_NAME)
    fill(lake, 3, ("x",))
    fill(lake, 3, ("y",))
    victim = next(t.entry.data_file for t in lake.tasks() if t.entry.data_file.partition == ("x",))
    before = data_objects(lake)
    lake.catalog.before_commit.append(
        lambda: lake.row_delta([], [lake.position_file([(victim.file_path, 0)], partition=("x",))])
    )
    report = compact(lake)
    assert (report.outcome, report.figures["groups"], report.figures["conflicts"]) == (Outcome.DONE, 1, 1)
    assert len(lake.rows()) == 5
    written = {path for path in data_objects(lake) - before if "compact-" in path}
    assert written <= live(lake)  # the lost group's output is gone again


def test_maint_C20_two_compactors_at_once_lose_nothing(lake):
    fill(lake)
    rows = lake.rows()
    inner = []
    lake.catalog.before_commit.append(lambda: inner.append(compact(lake)))
    report = compact(lake)
    assert inner[0].outcome is Outcome.DONE
    assert (report.outcome, report.again_after_ms) == (Outcome.CONFLICT, 5000)
    assert lake.rows() == rows
    assert {path for path in data_objects(lake) if "compact-" in path} == live(lake)


def test_a_commit_that_always_loses_is_a_conflict_and_leaves_nothing_behind(lake):
    fill(lake)
    before = data_objects(lake)
    lake.catalog.faults.extend([fault("conflict")] * 3)
    report = compact(lake, context(lake, commit_attempts=3))
    assert report.outcome is Outcome.CONFLICT
    assert data_objects(lake) == before


@pytest.mark.parametrize("late", [False, True])
def test_after_an_unanswered_commit_no_output_is_deleted(lake, late):
    fill(lake)
    rows = lake.rows()
    before = data_objects(lake)
    lake.catalog.faults.append(unknown(late=late))
    with pytest.raises(CommitStateUnknown):
        compact(lake, context(lake, commit_attempts=1))
    assert len(data_objects(lake) - before) == 1
    assert lake.catalog.deliver_late() == ([True] if late else [])
    assert lake.rows() == rows
    assert len(lake.tasks()) == (1 if late else 4)


def test_a_group_dropped_after_an_unanswered_attempt_keeps_its_output():
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock, spec=BY_NAME)
    fill(lake, 3, ("x",))
    fill(lake, 3, ("y",))
    victim = next(t.entry.data_file for t in lake.tasks() if t.entry.data_file.partition == ("x",))
    before = data_objects(lake)
    lake.catalog.before_commit.append(
        lambda: lake.row_delta([], [lake.position_file([(victim.file_path, 0)], partition=("x",))])
    )
    lake.catalog.faults.extend([None, unknown()])  # the delete's own commit, then the first attempt
    report = compact(lake)
    assert (report.figures["groups"], report.figures["conflicts"]) == (1, 1)
    (left,) = report.figures["leftForUnreferencedFileRemoval"]
    assert left in data_objects(lake) - before
    assert left not in live(lake)
    assert len(lake.rows()) == 5


def test_an_unanswered_commit_that_happened_counts_as_done(lake):
    fill(lake)
    rows = lake.rows()
    lake.catalog.faults.append(unknown(applied=True))
    report = compact(lake)
    assert (report.outcome, report.figures["groups"]) == (Outcome.DONE, 1)
    assert lake.rows() == rows
    assert len(lake.tasks()) == 1


def test_an_unexpected_error_of_the_catalog_leaves_the_outputs_alone(lake):
    fill(lake)
    before = data_objects(lake)

    def burst():
        raise MemoryError("who knows what happened before")

    lake.catalog.before_commit.append(burst)
    with pytest.raises(MemoryError):
        compact(lake)
    assert len(data_objects(lake) - before) == 1


def test_a_catalog_that_is_certainly_away_leaves_nothing_behind(lake):
    fill(lake)
    before = data_objects(lake)
    lake.catalog.faults.extend([fault("unavailable")] * 2)
    with pytest.raises(Unavailable):
        compact(lake, context(lake, commit_attempts=2))
    assert data_objects(lake) == before


def test_the_lease_is_asked_before_each_group_and_without_it_nothing_is_committed():
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock, spec=BY_NAME)
    fill(lake, 3, ("x",))
    fill(lake, 3, ("y",))
    before, location = data_objects(lake), lake.table.metadata_location
    ctx = context(lake)
    ctx.leases = [True, False]
    report = compact(lake, ctx)
    assert report.outcome is Outcome.SKIPPED
    assert "stopped after 0 groups: the lease was lost" in report.reason
    assert (data_objects(lake), lake.table.metadata_location) == (before, location)


def test_groups_are_committed_in_batches_and_what_is_left_is_told():
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock, spec=BY_NAME)
    for name in "abcde":
        fill(lake, 2, (name,))
    rows = lake.rows()
    report = compact(lake, context(lake, groups_per_commit=2, max_groups_per_run=3))
    assert (report.figures["commits"], report.figures["groups"], report.figures["remainingGroups"]) == (
        2,
        3,
        2,
    )
    assert report.again_after_ms == 0
    assert report.reason.endswith("2 groups are left for the next run")
    assert lake.rows() == rows


@pytest.mark.parametrize(
    "rule",
    [
        Rule(methods=frozenset({"open_output"}), pattern="compact-"),
        Rule(methods=frozenset({"close_output"}), pattern="compact-"),
        Rule(methods=frozenset({"close_output"}), pattern="compact-", after=True),
        Rule(methods=frozenset({"open_input"}), pattern="/data/", nth=3),
        Rule(methods=frozenset({"open_input"}), pattern="compact-"),
        Rule(methods=frozenset({"put", "open_output", "close_output"}), pattern="/metadata/"),
    ],
)
def test_a_store_that_fails_leaves_the_table_as_it_was(lake, rule):
    fill(lake)
    before, location = data_objects(lake), lake.table.metadata_location
    ctx = context(lake)
    ctx.store = Failing(lake.store, [rule])
    with pytest.raises(Unavailable):
        compact(lake, ctx)
    assert (data_objects(lake), lake.table.metadata_location) == (before, location)


def test_a_manifest_that_lies_about_rows_stops_the_group_before_any_commit(lake):
    lying = replace(lake.data_file([{"id": 1, "name": "a"}]), record_count=2)
    lake.append(lying)
    fill(lake, 2)
    before, location = data_objects(lake), lake.table.metadata_location
    with pytest.raises(Invalid, match="has 1 rows, its manifest says 2"):
        compact(lake)
    assert (data_objects(lake), lake.table.metadata_location) == (before, location)


@pytest.mark.parametrize("groups_per_commit", [1, 16])
def test_a_group_that_cannot_be_rewritten_does_not_starve_the_others(groups_per_commit):
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock, spec=BY_NAME)
    fill(lake, 4, ("bad",))
    fill(lake, 3, ("good",))
    fill(lake, 2, ("fine",))
    rows = lake.rows()
    lost = next(t.entry.data_file for t in lake.tasks() if t.entry.data_file.partition == ("bad",)).file_path
    content = lake.store.get(lost)
    lake.store.delete_many([lost])
    with pytest.raises(NoSuchFile, match=lost):
        compact(lake, context(lake, groups_per_commit=groups_per_commit))
    partitions = [task.entry.data_file.partition[0] for task in lake.tasks()]
    assert sorted(partitions) == ["bad"] * 4 + ["fine", "good"]
    assert {path for path in data_objects(lake) if "compact-" in path} <= live(lake)
    lake.store.put(lost, content)
    assert lake.rows() == rows


def test_maint_C6_rows_out_must_be_rows_in(lake):
    output = lake.data_file([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    group = PlannedGroup(
        spec_id=0,
        partition=(),
        below_bytes=10,
        target_bytes=20,
        reason="remainder",
        inputs=tuple(PlannedFile(path=n, size=1, records=1, sequence_number=1) for n in "ab"),
    )
    check_rows(group, 2, (output,), lake.store)
    for wrong in (
        lambda: check_rows(group, 1, (output,), lake.store),
        lambda: check_rows(group, 2, (), lake.store),
        lambda: check_rows(group, 2, (replace(output, record_count=1),), lake.store),
        lambda: check_rows(replace(group, inputs=group.inputs[:1]), 2, (output,), lake.store),
    ):
        with pytest.raises(Internal, match="nothing of it is committed"):
            wrong()
    lone = replace(group, inputs=(replace(group.inputs[0], records=2),))
    with pytest.raises(Internal, match="would never end"):
        check_rows(lone, 2, (output,), lake.store)


def test_a_dry_run_shows_the_plan_and_writes_nothing(lake):
    fill(lake)
    before, location = objects(lake), lake.table.metadata_location
    ctx = context(lake)
    report = compact(lake, ctx, dry_run=True)
    assert (report.outcome, report.again_after_ms) == (Outcome.DONE, None)
    assert report.reason.startswith("dry run: 1 group of 4 files")
    assert len(CompactionPlan.from_json(report.plan).groups[0].inputs) == 4
    assert (objects(lake), lake.table.metadata_location, ctx.plans) == (before, location, [])


def test_it_does_nothing_to_a_disabled_dropped_or_replaced_table(lake):
    fill(lake)
    ctx = context(lake)
    ctx.documents[JobKind.COMPACTION] = {"status": "disabled", "settings": {}}
    assert (compact(lake, ctx).outcome, compact(lake, ctx).reason) == (
        Outcome.SKIPPED,
        "the policy is disabled",
    )
    other = run(context(lake), job(JobKind.COMPACTION, IDENT, "another-uuid"))
    assert other.outcome is Outcome.SKIPPED
    assert "is another table now" in other.reason
    gone = run(context(lake), job(JobKind.COMPACTION, TableIdent.of("db", "gone"), lake.metadata.uuid))
    assert gone.reason == "table db.gone does not exist any more"
    assert run(context(lake), job(JobKind.COMPACTION, None, "u")).reason == "the job names no table"
    assert len(lake.tasks()) == 4


def test_a_table_replaced_during_the_run_is_not_touched(lake):
    fill(lake)
    wanted = compaction_job(lake)
    before = data_objects(lake)
    location = lake.metadata.location

    def replaced():
        metadata = lake.metadata
        lake.catalog.drop(IDENT)
        document = {**metadata.document, "table-uuid": "00000000-0000-4000-8000-00000000beef"}
        lake.catalog.put(IDENT, type(metadata)(document))
        raise CommitFailed("moved")

    lake.catalog.before_commit.append(replaced)
    report = run(context(lake), wanted)
    assert report.outcome is Outcome.CONFLICT
    assert {info.path for info in lake.store.list(location) if "/data/" in info.path} == before


def test_a_table_with_one_file_per_partition_is_planned_as_nothing():
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock, spec=BY_NAME)
    for name in "abc":
        fill(lake, 1, (name,))
    report = compact(lake)
    assert report.outcome is Outcome.NOTHING
    found = {"leftAlone": ["3 alone in its bin"], "dataFilesBefore": 3, "storeCalls": ["4 read"]}
    assert report.figures == found | {"planMs": 0, "rewriteMs": 0, "commitMs": 0, "throttledMs": 0}


class Ticking(ManualClock):
    """Every look at it takes a second."""

    def monotonic(self):
        self.advance(1)
        return super().monotonic()


def test_the_report_tells_what_the_run_cost_and_spares():
    clock = Ticking()
    lake = Lake(MemoryObjectStore(clock), clock=clock)
    fill(lake, 8)
    lake.row_delta([], [lake.equality_file([{"id": 1, "name": None}], [1])])
    counting = Counting(lake.store)
    ctx = context(lake)
    ctx.store = counting
    report = compact(lake, ctx)
    figures = report.figures
    assert (figures["filesRewritten"], figures["filesWritten"], figures["deleteFilesRemoved"]) == (8, 1, 1)
    assert figures["planMs"] == 1000
    assert figures["commitMs"] >= 1000
    assert figures["rewriteMs"] >= 0
    # A footer and a content of eight files less; planning for seven of eight.
    assert (figures["storeCallsSparedPerScan"], figures["planMsSparedPerScan"]) == (2 * 8, 875)
    told = {kind: int(number) for number, kind in (text.split() for text in figures["storeCalls"])}
    assert told["write"] == counting.calls["put"] + counting.calls["open_output"]
    assert told["read"] >= counting.calls["get"] + counting.calls["open_input"]
    assert "delete" not in told


def test_a_run_that_fails_to_commit_spares_nothing():
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock)
    fill(lake)
    file = lake.tasks()[0].entry.data_file
    lake.catalog.before_commit.append(lambda: lake.row_delta([], [lake.position_file([(file.file_path, 0)])]))
    report = compact(lake)
    assert report.outcome is Outcome.CONFLICT
    assert (report.figures["storeCallsSparedPerScan"], report.figures["planMsSparedPerScan"]) == (0, 0)
    assert any(text.endswith(" delete") for text in report.figures["storeCalls"])
