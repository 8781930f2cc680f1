"""The expiration job: metadata first, then exactly the files that nothing reaches any more."""

import pytest

from maintenance import reach
from maintenance.expiration.job import run
from maintenance.ports import DroppedNeighbour, JobKind, JobSettings
from maintenance.reach import metadata_files
from maintenance.report import Outcome
from table_format.errors import CommitStateUnknown, NoSuchFile, Unavailable
from table_format.ident import TableIdent
from table_format.io.faults import Failing, Rule
from table_format.io.memory import MemoryObjectStore
from tests.factories.lake import IDENT, Lake
from tests.factories.reach import files_reachable
from tests.fakes.catalog import fault, unknown
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

HOUR = 3600


@pytest.fixture
def lake():
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock)


def context(lake, *, keep=1, hours=1, **settings):
    document = {"status": "enabled", "settings": {"minSnapshotsToKeep": keep, "maxSnapshotAgeHours": hours}}
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(**settings),
        documents={JobKind.SNAPSHOTS: document},
        ident=IDENT,
    )


def expire(lake, ctx=None, **changes):
    return run(ctx or context(lake), expiration_job(lake, **changes))


def expiration_job(lake, **changes):
    return job(JobKind.SNAPSHOTS, IDENT, lake.metadata.uuid, **changes)


def rewritten_history(lake, appends=3):
    """Appends, a rewrite of them into one file, and enough time that all but the head are old."""
    for n in range(appends):
        lake.append_rows({"id": n, "name": f"n{n}"})
        lake.clock.advance(60)
    lake.rewrite(lake.group())
    lake.clock.advance(2 * HOUR)


def objects(lake):
    return {info.path for info in lake.store.list(lake.metadata.location)}


def reachable(lake):
    ids = [snapshot["snapshot-id"] for snapshot in lake.metadata.snapshots]
    return set(files_reachable(lake.store, lake.metadata, ids).all) | set(metadata_files(lake.table))


def snapshot_ids(lake):
    return [snapshot["snapshot-id"] for snapshot in lake.metadata.snapshots]


def set_ref(lake, name, snapshot_id, kind="tag", **more):
    update = {
        "action": "set-snapshot-ref",
        "ref-name": name,
        "snapshot-id": snapshot_id,
        "type": kind,
        **more,
    }
    lake.catalog.commit(IDENT, [], [update])


def test_maint_B8_the_files_that_only_old_snapshots_needed_are_deleted_and_no_other(lake):
    rewritten_history(lake)
    rows, before = lake.rows(), objects(lake)
    report = expire(lake)
    assert len(snapshot_ids(lake)) == 1
    assert lake.rows() == rows
    gone = before - objects(lake)
    assert objects(lake) >= reachable(lake)
    assert sum("/data/" in path for path in gone) == 3
    assert objects(lake) == reachable(lake)
    assert report.outcome is Outcome.DONE
    assert report.figures == {
        "snapshotsExpired": 3,
        "refsExpired": [],
        "snapshotsKept": 1,
        "remainingSnapshots": 0,
        "filesDeleted": len(gone),
        "filesStillReferenced": 0,
        "filesOutsideTheTable": 0,
        "deleteFailures": [],
    }
    assert report.reason == f"3 snapshots expired, {len(gone)} files deleted"


def test_a_second_run_does_nothing_and_says_when_the_next_snapshot_is_due(lake):
    rewritten_history(lake)
    lake.append_rows({"id": 9, "name": "x"})
    lake.append_rows({"id": 10, "name": "x"})
    expire(lake)
    lake.clock.advance(HOUR - 600)
    location = lake.table.metadata_location
    report = expire(lake)
    assert report.outcome is Outcome.NOTHING
    assert lake.table.metadata_location == location
    assert report.again_after_ms == 600_000 + 1


def test_the_saved_list_of_files_holds_nothing_that_is_still_reached(lake):
    for n in range(3):
        lake.append_rows({"id": n, "name": "x"})
    lake.clock.advance(2 * HOUR)
    ctx = context(lake)
    report = expire(lake, ctx)
    assert ctx.plans[-1]["phase"] == "deleting"
    assert len(ctx.plans[-1]["paths"]) == 2  # two manifest lists; every manifest and data file is still live
    assert not set(ctx.plans[-1]["paths"]) & reachable(lake)
    assert report.figures["filesStillReferenced"] == 0


def replace_table(lake):
    metadata = lake.metadata
    lake.catalog.drop(IDENT)
    lake.catalog.put(IDENT, type(metadata)({**metadata.document, "table-uuid": "another"}))


def test_a_table_replaced_before_the_commit_is_left_alone(lake):
    rewritten_history(lake)
    wanted = expiration_job(lake)
    before = objects(lake)
    lake.catalog.before_commit.append(lambda: replace_table(lake))
    report = run(context(lake), wanted)
    assert report.outcome is Outcome.CONFLICT
    assert "became another table" in report.reason
    assert before <= objects(lake)


def test_a_table_replaced_after_the_commit_loses_no_file(lake):
    rewritten_history(lake)
    wanted = expiration_job(lake)
    before = objects(lake)
    commit = lake.catalog.commit

    def commit_then_replace(*args):
        done = commit(*args)
        replace_table(lake)
        return done

    lake.catalog.commit = commit_then_replace
    report = run(context(lake), wanted)
    assert report.outcome is Outcome.SKIPPED
    assert "given to another table" in report.reason
    assert before <= objects(lake)


def test_a_table_replaced_between_two_batches_loses_no_more_files(lake):
    rewritten_history(lake)
    wanted = expiration_job(lake)
    ctx = context(lake, delete_batch=1)

    class Replacing(Failing):
        def delete_many(self, paths):
            if lake.metadata.uuid != "another":
                replace_table(lake)
            return super().delete_many(paths)

    ctx.store = Replacing(lake.store)
    assert run(ctx, wanted).figures["filesDeleted"] == 1


@pytest.mark.parametrize("saved", [{"phase": "done"}, {"something": "else"}])
def test_a_saved_plan_that_leaves_nothing_to_resume_is_passed_over(lake, saved):
    rewritten_history(lake)
    assert expire(lake, plan=saved).figures["snapshotsExpired"] == 3


def test_a_dry_run_with_nothing_to_expire_says_so(lake):
    lake.append_rows({"id": 1, "name": "x"})
    assert expire(lake, dry_run=True).outcome is Outcome.NOTHING


def test_gc_disabled_after_the_policy_was_read_is_respected(lake):
    rewritten_history(lake)
    ctx = context(lake)
    stale = ctx.policy(JobKind.SNAPSHOTS)
    ctx.policy = lambda kind: stale
    update = {"action": "set-properties", "updates": {"gc.enabled": "false"}}
    lake.catalog.commit(IDENT, [], [update])
    assert expire(lake, ctx).outcome is Outcome.SKIPPED
    assert len(snapshot_ids(lake)) == 4


def test_the_metadata_goes_first(lake):
    rewritten_history(lake)
    before = objects(lake)
    seen = []
    ctx = context(lake)

    class Watching(Failing):
        def delete_many(self, paths):
            seen.append((len(snapshot_ids(lake)), objects(lake) >= before))
            return super().delete_many(paths)

    ctx.store = Watching(lake.store)
    expire(lake, ctx)
    assert seen == [(1, True)]


def test_maint_B1_files_reached_from_main_stay_when_a_branch_expires_with_its_snapshots(lake):
    lake.append_rows({"id": 1, "name": "a"})
    set_ref(lake, "audit", lake.metadata.current_snapshot_id, "branch", **{"max-ref-age-ms": HOUR * 1000})
    set_ref(lake, "v1", lake.metadata.current_snapshot_id, **{"max-ref-age-ms": HOUR * 1000})
    lake.append_rows({"id": 2, "name": "b"})
    rows = lake.rows()
    lake.clock.advance(3 * HOUR)
    report = expire(lake)
    assert report.figures["refsExpired"] == ["audit", "v1"]
    assert (list(lake.metadata.refs), len(snapshot_ids(lake))) == (["main"], 1)
    assert lake.rows() == rows
    assert reachable(lake) <= objects(lake)


def test_maint_B2_a_path_that_was_removed_and_added_again_stays(lake):
    """The last snapshot lists the same file that a rewrite took out before."""
    first = lake.append_rows({"id": 1, "name": "a"})
    lake.append_rows({"id": 2, "name": "b"})
    lake.rewrite(lake.group())
    lake.append(first)
    rows = lake.rows()
    lake.clock.advance(2 * HOUR)
    report = expire(lake)
    assert report.outcome is Outcome.DONE
    assert first.file_path in objects(lake)
    assert lake.rows() == rows


def test_maint_B13_files_that_a_cherry_pick_published_stay_when_the_staged_snapshot_expires(lake):
    lake.append_rows({"id": 0, "name": "n0"})
    before = lake.metadata.current_snapshot_id
    staged = lake.append_rows({"id": 1, "name": "staged"})
    staging = lake.metadata.current_snapshot_id
    set_ref(lake, "main", before, "branch")  # audited there, on no branch
    lake.append(staged)  # what publishing it does: the same file in a snapshot of main's own
    rows = lake.rows()
    lake.append_rows({"id": 2, "name": "n2"})
    lake.clock.advance(2 * HOUR)
    expire(lake)
    assert staging not in snapshot_ids(lake)
    assert staged.file_path in objects(lake)
    assert len(lake.rows()) == len(rows) + 1


def test_maint_B4_R41_a_retained_ref_keeps_its_head_and_its_files(lake):
    lake.append_rows({"id": 1, "name": "a"})
    old = lake.metadata.current_snapshot_id
    set_ref(lake, "v1", old)
    rewritten_history(lake)
    rows = lake.rows(old)
    expire(lake)
    assert old in snapshot_ids(lake)
    assert lake.rows(old) == rows


def test_maint_B5_the_only_ref_is_not_main(lake):
    rewritten_history(lake)
    metadata = lake.metadata
    head = metadata.current_snapshot_id
    document = {**metadata.document, "refs": {"dev": {"snapshot-id": head, "type": "branch"}}}
    document.pop("current-snapshot-id")
    lake.catalog.put(IDENT, type(metadata)(document))
    rows = lake.rows(head)
    expire(lake)
    assert snapshot_ids(lake) == [head]
    assert lake.rows(head) == rows


def test_maint_B7_an_unreadable_manifest_that_is_still_needed_stops_every_deletion(lake):
    rewritten_history(lake)
    needed = min(files_reachable(lake.store, lake.metadata, [lake.metadata.current_snapshot_id]).manifests)
    lake.store.delete_many([needed])
    before = objects(lake)
    with pytest.raises(NoSuchFile):
        expire(lake)
    assert before <= objects(lake)


def test_maint_B7_a_store_that_is_away_for_one_manifest_deletes_nothing(lake):
    rewritten_history(lake)
    needed = min(files_reachable(lake.store, lake.metadata, [lake.metadata.current_snapshot_id]).manifests)
    before = objects(lake)
    ctx = context(lake)
    ctx.store = Failing(lake.store, [Rule(pattern=needed, times=None)])
    with pytest.raises(Unavailable):
        expire(lake, ctx)
    assert before <= objects(lake)


def test_maint_B14_statistics_leave_the_metadata_and_then_the_store(lake):
    lake.append_rows({"id": 1, "name": "a"})
    old = lake.metadata.current_snapshot_id
    lake.append_rows({"id": 2, "name": "b"})
    new = lake.metadata.current_snapshot_id
    for snapshot_id in (old, new):
        path = f"{lake.metadata.location}/metadata/{snapshot_id}.puffin"
        lake.store.put(path, b"puffin")
        entry = {
            "snapshot-id": snapshot_id,
            "statistics-path": path,
            "file-size-in-bytes": 6,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }
        update = {"action": "set-statistics", "snapshot-id": snapshot_id, "statistics": entry}
        lake.catalog.commit(IDENT, [], [update])
    lake.clock.advance(2 * HOUR)
    expire(lake)
    assert [entry["snapshot-id"] for entry in lake.metadata.statistics] == [new]
    left = {path for path in objects(lake) if path.endswith(".puffin")}
    assert left == {f"{lake.metadata.location}/metadata/{new}.puffin"}


def test_maint_A10_gc_enabled_false_is_skipped_with_its_reason():
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock, **{"gc.enabled": "false"})
    rewritten_history(lake)
    before = objects(lake)
    report = expire(lake)
    assert report.outcome is Outcome.SKIPPED
    assert "gc.enabled is false" in report.reason
    assert objects(lake) == before


def test_a_tag_moved_while_the_commit_is_under_way_stops_that_attempt(lake):
    rewritten_history(lake)
    first, second = snapshot_ids(lake)[:2]
    set_ref(lake, "v1", first)
    lake.catalog.before_commit.append(lambda: set_ref(lake, "v1", second))
    rows = lake.rows(second)
    report = expire(lake)
    assert report.outcome is Outcome.DONE
    assert first not in snapshot_ids(lake)
    assert second in snapshot_ids(lake)
    assert lake.rows(second) == rows


def test_a_file_that_came_to_be_referenced_before_a_batch_stays(lake):
    rewritten_history(lake)
    inputs = {t.entry.data_file.file_path: t.entry.data_file for t in lake.tasks(snapshot_ids(lake)[0])}
    ctx = context(lake, delete_batch=1)
    saved = ctx.save_plan

    def save(plan):
        saved(plan)
        if plan["phase"] == "deleting":
            lake.append(*inputs.values())  # someone registers the old file again

    ctx.save_plan = save
    report = expire(lake, ctx)
    assert report.figures["filesStillReferenced"] == 1
    assert set(inputs) <= objects(lake)


def test_maint_B10_the_lease_is_asked_before_each_batch_and_the_rest_is_carried_on_later(lake):
    rewritten_history(lake)
    before = objects(lake)
    ctx = context(lake, delete_batch=2)
    ctx.leases = [True, False]
    report = expire(lake, ctx)
    assert report.outcome is Outcome.SKIPPED
    assert "the lease was lost" in report.reason
    assert len(before - objects(lake)) == 2
    second = expire(lake, context(lake), plan=ctx.plans[-1])
    assert second.outcome is Outcome.DONE
    assert second.again_after_ms == 0
    assert objects(lake) == reachable(lake)


def test_a_deletion_that_was_interrupted_is_checked_against_the_newest_metadata(lake):
    rewritten_history(lake)
    ctx = context(lake)
    ctx.lease_lost = False
    ctx.leases = [False]
    old = lake.tasks(snapshot_ids(lake)[0])[0].entry.data_file
    expire(lake, ctx)
    lake.append(old)
    expire(lake, context(lake), plan=ctx.plans[-1])
    assert old.file_path in objects(lake)
    assert objects(lake) == reachable(lake)


def crash_before_the_list_is_saved(lake, ctx):
    saved = ctx.save_plan

    def save(plan):
        if plan["phase"] == "deleting":
            raise Unavailable("the database is away")
        saved(plan)

    ctx.save_plan = save
    with pytest.raises(Unavailable):
        expire(lake, ctx)


def test_a_crash_between_commit_and_deletion_list_loses_no_file_of_it(lake):
    rewritten_history(lake)
    ctx = context(lake)
    crash_before_the_list_is_saved(lake, ctx)
    assert len(snapshot_ids(lake)) == 1
    assert ctx.plans[-1]["phase"] == "committing"
    report = expire(lake, context(lake), plan=ctx.plans[-1])
    assert report.figures["snapshotsExpired"] == 3
    assert objects(lake) == reachable(lake)


def test_an_interrupted_run_whose_commit_never_happened_starts_anew(lake):
    rewritten_history(lake)
    ctx = context(lake, commit_attempts=1)
    lake.catalog.faults.append(unknown())
    with pytest.raises(CommitStateUnknown):
        run(ctx, expiration_job(lake))
    assert len(snapshot_ids(lake)) == 4
    report = expire(lake, context(lake), plan=ctx.plans[-1])
    assert report.figures["snapshotsExpired"] == 3
    assert objects(lake) == reachable(lake)


def test_an_unanswered_commit_that_happened_still_gets_its_files_deleted(lake):
    rewritten_history(lake)
    lake.catalog.faults.append(unknown(applied=True))
    report = expire(lake)
    assert report.figures["snapshotsExpired"] == 3
    assert objects(lake) == reachable(lake)


def test_metadata_that_fell_off_the_log_leaves_the_files_to_unreferenced_removal(lake):
    rewritten_history(lake)
    ctx = context(lake)
    crash_before_the_list_is_saved(lake, ctx)
    (intent,) = ctx.plans[-1]["intents"]
    lake.store.delete_many([intent["metadata-location"]])
    before = objects(lake)
    report = expire(lake, context(lake), plan=ctx.plans[-1])
    assert report.outcome is Outcome.NOTHING
    assert objects(lake) == before


def test_files_outside_the_tables_places_are_kept(lake):
    elsewhere = "memory://warehouse/elsewhere/x.parquet"
    file = lake.data_file([{"id": 1, "name": "a"}])
    lake.store.put(elsewhere, lake.store.get(file.file_path))
    moved = type(file)(
        file_path=elsewhere, record_count=1, file_size_in_bytes=file.file_size_in_bytes, spec_id=0
    )
    lake.append(moved)
    lake.append_rows({"id": 2, "name": "b"})
    lake.rewrite(lake.group())
    lake.clock.advance(2 * HOUR)
    report = expire(lake)
    assert report.figures["filesOutsideTheTable"] == 1
    assert lake.store.exists(elsewhere)


def dropped_beside(lake):
    """A dropped table at the same place."""
    other = Lake(lake.store, clock=lake.clock, ids=lake.ids, first_file=100)
    return other, lambda: DroppedNeighbour(
        metadata_location=other.table.metadata_location, location=other.metadata.location, purged=False
    )


def test_what_a_dropped_table_at_the_same_place_needs_stays(lake):
    """Its files taken into snapshots of the new one (add_files) are no reason to delete them with those."""
    other, beside = dropped_beside(lake)
    taken = other.append_rows({"id": 7, "name": "of the dropped one"})
    lake.append(taken)
    rewritten_history(lake)
    before = objects(lake)
    ctx = context(lake)
    ctx.neighbours = [beside()]
    planned = expire(lake, ctx, dry_run=True)
    report = expire(lake, ctx)
    assert lake.store.exists(taken.file_path)
    assert reachable(other) <= objects(lake)
    gone = before - objects(lake)
    assert sum("/data/" in path for path in gone) == 3
    assert gone == set(planned.plan["paths"])
    assert (report.outcome, report.figures["filesStillReferenced"]) == (Outcome.DONE, 1)
    assert len(other.rows()) == 1


def test_a_table_that_was_dropped_at_the_same_place_between_two_batches_keeps_its_files_too(lake):
    other, beside = dropped_beside(lake)
    taken = other.append_rows({"id": 7, "name": "of the dropped one"})
    lake.append(taken)
    rewritten_history(lake)
    ctx = context(lake, delete_batch=1)

    class Dropping(Failing):
        def delete_many(self, paths):
            ctx.neighbours = [beside()]
            return super().delete_many(paths)

    first, *_ = sorted(path for path in objects(lake) if "/data/" in path)
    assert first != taken.file_path
    ctx.store = Dropping(lake.store)
    expire(lake, ctx)
    assert lake.store.exists(taken.file_path)


@pytest.mark.parametrize("broken", ["metadata", "manifest list"])
def test_no_file_goes_while_it_can_not_be_told_what_a_dropped_table_there_needs(lake, broken):
    other, beside = dropped_beside(lake)
    other.append_rows({"id": 7, "name": "x"})
    dropped = beside()
    gone = dropped.metadata_location
    if broken == "manifest list":
        gone = other.metadata.current_snapshot["manifest-list"]
    lake.store.delete_many([gone])
    rewritten_history(lake)
    before = objects(lake)
    ctx = context(lake)
    ctx.neighbours = [dropped]
    report = expire(lake, ctx)
    assert before <= objects(lake)
    assert (report.outcome, report.figures["filesDeleted"]) == (Outcome.DONE, 0)
    assert "the others kept: another dropped table has files at the same place" in report.reason


def test_maint_A7_files_below_another_tables_location_are_kept(lake):
    rewritten_history(lake)
    inputs = {path for path in objects(lake) if "/data/" in path}
    ctx = context(lake)
    ctx.others = [f"{lake.metadata.location}/data"]
    report = expire(lake, ctx)
    assert report.figures["filesOutsideTheTable"] == 3
    assert inputs <= objects(lake)


def test_objects_that_are_gone_already_are_no_error(lake):
    rewritten_history(lake)
    old = lake.tasks(snapshot_ids(lake)[0])[0].entry.data_file.file_path
    lake.store.delete_many([old])
    report = expire(lake)
    assert report.outcome is Outcome.DONE
    assert objects(lake) == reachable(lake)


def test_a_removed_manifest_that_is_gone_already_is_no_error(lake):
    rewritten_history(lake)
    kept = files_reachable(lake.store, lake.metadata, [lake.metadata.current_snapshot_id]).all
    gone = files_reachable(lake.store, lake.metadata, snapshot_ids(lake)[:1])
    lake.store.delete_many(sorted(gone.manifests - kept))
    rows = lake.rows()
    assert expire(lake).outcome is Outcome.DONE
    assert reachable(lake) <= objects(lake)
    assert lake.rows() == rows


@pytest.mark.parametrize("one_by_one", [500, 0])
def test_a_dry_run_lists_what_would_go_and_changes_nothing(lake, monkeypatch, one_by_one):
    monkeypatch.setattr(reach, "_ASKED_ONE_BY_ONE", one_by_one)
    rewritten_history(lake)
    before, location = objects(lake), lake.table.metadata_location
    report = expire(lake, dry_run=True)
    sizes = {info.path: info.size for info in lake.store.list(lake.metadata.location)}
    assert report.figures["bytesToDelete"] == sum(sizes[path] for path in report.plan["paths"]) > 0
    assert (objects(lake), lake.table.metadata_location) == (before, location)
    planned = set(report.plan["paths"])
    expire(lake)
    assert before - objects(lake) == planned


def test_a_table_that_keeps_changing_is_a_conflict(lake):
    rewritten_history(lake)
    before = objects(lake)
    lake.catalog.faults.extend([fault("conflict")] * 2)
    report = expire(lake, context(lake, commit_attempts=2))
    assert report.outcome is Outcome.CONFLICT
    assert objects(lake) == before


def test_one_run_takes_its_limit_and_asks_for_the_next(lake):
    rewritten_history(lake)
    report = expire(lake, context(lake, max_snapshots_per_run=2))
    assert (report.figures["remainingSnapshots"], report.again_after_ms) == (1, 0)
    assert len(snapshot_ids(lake)) == 2
    assert expire(lake).again_after_ms is None
    assert objects(lake) == reachable(lake)


def test_it_does_nothing_to_a_disabled_or_dropped_table(lake):
    rewritten_history(lake)
    ctx = context(lake)
    ctx.documents[JobKind.SNAPSHOTS] = {"status": "disabled", "settings": {}}
    assert expire(lake, ctx).reason == "the policy is disabled"
    gone = run(context(lake), job(JobKind.SNAPSHOTS, TableIdent.of("db", "gone"), "u"))
    assert gone.reason == "table db.gone does not exist any more"


def test_a_store_that_refuses_to_delete_is_told(lake):
    rewritten_history(lake)
    ctx = context(lake)

    class Refusing(Failing):
        def delete_many(self, paths):
            from table_format.io.store import DeleteFailure

            return [DeleteFailure(path, "locked") for path in paths]

    ctx.store = Refusing(lake.store)
    report = expire(lake, ctx)
    assert "could not be deleted" in report.reason
    assert report.figures["filesDeleted"] == 0
    assert report.figures["deleteFailures"][0].endswith(": locked")
