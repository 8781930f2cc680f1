"""The manifest rewrite job over real files: the same entries in fewer manifests, races, what is left alone, reports."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from maintenance.manifests import job as module
from maintenance.manifests.job import run
from maintenance.policy_types import ManifestPolicy
from maintenance.ports import JobKind, JobSettings
from maintenance.report import Outcome
from table_format.commit.manifests import cluster
from table_format.errors import CommitStateUnknown, NoSuchFile
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import ManifestContent, Status
from table_format.manifest.read import read_manifest
from table_format.scan.plan import snapshot_manifests
from tests.factories.lake import BY_NAME, IDENT, Lake
from tests.fakes.catalog import fault, unknown
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

NAMES = ("x", "y", "z")


def new_lake(version=2, spec=BY_NAME, **properties):
    clock = ManualClock()
    return Lake(
        MemoryObjectStore(clock), clock=clock, spec=spec, **{"format-version": str(version), **properties}
    )


def filled(version=2, commits=12):
    lake = new_lake(version)
    for number in range(commits):
        name = NAMES[number % 3]
        lake.append_rows({"id": number, "name": name}, {"id": -number, "name": name}, partition=(name,))
    return lake


@pytest.fixture(params=[1, 2, 3])
def lake(request):
    return filled(request.param)


def context(lake, *, target=None, status="enabled", limits=None, **settings):
    ctx = FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=limits or JobSettings(),
        documents={JobKind.MANIFESTS: {"status": status, "settings": {"minManifests": 3, **settings}}},
        ident=IDENT,
    )
    if target is not None:
        in_force = ctx.policy(JobKind.MANIFESTS)
        ctx.policy = lambda kind: replace(in_force, target_size_bytes=target)
    return ctx


def rewrite(lake, ctx=None, **changes):
    return run(ctx or context(lake), job(JobKind.MANIFESTS, IDENT, lake.metadata.uuid, **changes))


def manifests(lake, snapshot_id=None):
    head = lake.metadata.current_snapshot if snapshot_id is None else lake.metadata.snapshot(snapshot_id)
    return snapshot_manifests(lake.store, head)


def entries(lake, snapshot_id=None):
    """What every live entry says, but for its status: which must not change."""
    return Counter(
        (
            entry.data_file.file_path,
            entry.snapshot_id,
            entry.sequence_number,
            entry.file_sequence_number,
            entry.data_file.first_row_id,
            repr(replace(entry.data_file, first_row_id=None)),
        )
        for manifest in manifests(lake, snapshot_id)
        for entry in read_manifest(lake.store, manifest, lake.metadata)
        if entry.status is not Status.DELETED
    )


def files(lake):
    return {info.path for info in lake.store.list("memory://warehouse")}


def test_maint_E4_thousands_of_commits_leave_few_manifests_with_the_same_entries(lake):
    before, head, rows = entries(lake), lake.metadata.current_snapshot_id, lake.rows()
    totals = {key: value for key, value in lake.summary.items() if key.startswith("total-")}
    report = rewrite(lake)
    assert entries(lake) == before == entries(lake, head)
    assert lake.rows() == rows == lake.rows(head)
    (only,) = manifests(lake)
    assert (only.existing_files_count, only.existing_rows_count, only.added_files_count) == (12, 24, 0)
    assert only.min_sequence_number == (0 if lake.metadata.format_version == 1 else 1)
    statuses = {entry.status for entry in read_manifest(lake.store, only, lake.metadata)}
    assert statuses == {Status.EXISTING}
    assert (report.outcome, report.reason) == (Outcome.DONE, "12 manifests became 1")
    figures = report.figures
    assert [figures[name] for name in ("manifestsBefore", "manifestsReplaced", "manifestsCreated")] == [
        12,
        12,
        1,
    ]
    assert (figures["entriesProcessed"], figures["bytesWritten"]) == (12, only.length)
    assert totals.items() <= lake.summary.items()
    assert {
        key: value for key, value in lake.summary.items() if key not in totals and key != "engine-name"
    } == {
        "operation": "replace",
        "maintenance.job-id": "7",
        "manifests-created": "1",
        "manifests-kept": "0",
        "manifests-replaced": "12",
        "entries-processed": "12",
        "changed-partition-count": "0",
    }


def test_a_second_run_has_nothing_to_do_says_why_and_commits_nothing(lake):
    rewrite(lake)
    location = lake.table.metadata_location
    report = rewrite(lake)
    assert (report.outcome, lake.table.metadata_location, report.again_after_ms) == (
        Outcome.NOTHING,
        location,
        None,
    )
    assert report.reason == (
        "data of spec 0: of 1 manifests 1 are smaller than three quarters of 8388608 bytes, fewer than 3, and at "
        "most 1 overlap in one partition"
    )


def test_entries_come_in_the_order_of_their_partitions_up_to_the_target():
    lake = new_lake()
    for _ in range(12):
        lake.append(*(lake.data_file([{"id": 1, "name": n}], partition=(n,)) for n in "hgfedcba" * 6))
    target = max(manifest.length for manifest in manifests(lake)) * 3 // 2
    report = rewrite(lake, context(lake, target=target))
    made = manifests(lake)
    assert report.figures["manifestsCreated"] == len(made) > 2
    assert max(manifest.length for manifest in made) <= target
    found = [
        entry.data_file.partition[0]
        for manifest in made
        for entry in read_manifest(lake.store, manifest, lake.metadata)
    ]
    assert found == sorted(found)
    ranges = [(m.partitions[0].lower_bound, m.partitions[0].upper_bound) for m in made]
    assert all(later[0] >= earlier[1] for earlier, later in pairwise(ranges))
    assert rewrite(lake, context(lake, target=target)).outcome is Outcome.NOTHING


def test_well_sized_manifests_that_overlap_are_sorted_out_once():
    lake = new_lake()
    for _ in range(4):
        rows = [lake.data_file([{"id": 1, "name": name}], partition=(name,)) for name in "abcdefghij" * 3]
        lake.append(*rows)
    # Nothing is small by this target, but each manifest covers all partitions.
    target = max(manifest.length for manifest in manifests(lake)) + 200
    before = entries(lake)
    report = rewrite(lake, context(lake, target=target))
    assert report.outcome is Outcome.DONE
    assert report.plan["parts"][0]["why"] == "overlapping"
    assert entries(lake) == before
    again = rewrite(lake, context(lake, target=target))
    assert again.outcome is Outcome.NOTHING
    assert "at most 1 overlap in one partition" in again.reason
    bounded = context(lake, target=target, limits=JobSettings(max_manifest_bytes_per_run=1))
    assert rewrite(lake, bounded).outcome is Outcome.NOTHING


def test_overlapping_manifests_of_more_than_a_run_takes_are_told():
    lake = new_lake()
    for _ in range(3):
        lake.append(*(lake.data_file([{"id": 1, "name": n}], partition=(n,)) for n in "abc"))
    ctx = context(lake, target=1, limits=JobSettings(max_manifest_bytes_per_run=100))
    report = rewrite(lake, ctx)
    assert report.outcome is Outcome.NOTHING
    assert "3 overlap, but their " in report.reason
    assert report.reason.endswith("bytes are more than one run takes (100)")


def test_a_run_takes_no_more_than_its_limit_and_goes_on_at_once():
    lake = filled(commits=12)
    before = entries(lake)
    size = manifests(lake)[0].length
    ctx = context(lake, limits=JobSettings(max_manifest_bytes_per_run=size * 4))
    counts = []
    while (report := rewrite(lake, ctx)).outcome is Outcome.DONE:
        counts.append(len(manifests(lake)))
        assert report.again_after_ms == (0 if report.figures["remainingManifests"] else None)
    assert counts == sorted(counts, reverse=True)
    assert len(counts) > 1
    assert counts[-1] < 3
    assert entries(lake) == before


def test_data_and_delete_manifests_stay_apart_and_deletes_stay_in_force():
    lake = filled(commits=6)
    for number in range(4):
        lake.row_delta(
            [lake.data_file([{"id": number, "name": "x"}], partition=("x",))],
            [lake.equality_file([{"id": number}], [1], partition=("x",))],
        )
    before, rows = entries(lake), lake.rows()
    report = rewrite(lake)
    assert report.reason == "14 manifests became 2"
    assert sorted(manifest.content for manifest in manifests(lake)) == [
        ManifestContent.DATA,
        ManifestContent.DELETES,
    ]
    assert (entries(lake), lake.rows()) == (before, rows)


def test_each_spec_keeps_its_own_manifests():
    lake = filled(commits=6)
    spec = {
        "spec-id": 1,
        "fields": [{"source-id": 1, "field-id": 1001, "name": "b", "transform": "bucket[4]"}],
    }
    lake.catalog.commit(
        IDENT,
        [],
        [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}],
    )
    for number in range(3):
        lake.append_rows({"id": number, "name": "x"}, partition=(number,))
    before = entries(lake)
    assert rewrite(lake).reason == "9 manifests became 2"
    assert {manifest.spec_id for manifest in manifests(lake)} == {0, 1}
    assert entries(lake) == before


def test_entries_marked_deleted_are_left_out():
    lake = filled(commits=4)
    lake.rewrite(lake.group([t for t in lake.tasks() if t.entry.data_file.partition == ("x",)]))
    before = entries(lake)
    rewrite(lake, context(lake, minManifests=2))
    assert entries(lake) == before
    assert sum(m.deleted_files_count for m in manifests(lake)) == 0


def test_progress_of_ingest_is_carried_on():
    lake = filled()
    lake.append(**{"ingest.offsets": "{}", "ingest.commit-id": "c"})
    rewrite(lake)
    assert (lake.summary["ingest.offsets"], lake.summary["ingest.commit-id"]) == ("{}", "c")


def test_a_dry_run_names_the_manifests_and_changes_nothing():
    lake = filled()
    known, location = files(lake), lake.table.metadata_location
    report = rewrite(lake, dry_run=True)
    assert (files(lake), lake.table.metadata_location) == (known, location)
    assert report.reason.startswith("dry run: 12 manifests (")
    (part,) = report.plan["parts"]
    assert (part["why"], part["content"], part["manifests"], len(part["paths"])) == ("small", "data", 12, 12)
    by_policy = rewrite(lake, context(lake, dryRun=True))
    assert (by_policy.reason, lake.table.metadata_location) == (report.reason, location)


def test_writers_that_commit_before_every_attempt_do_not_stop_it_and_lose_nothing(lake):
    rows = lake.rows()
    late = [{"id": 100 + n, "name": "y"} for n in range(20)]
    for row in late:
        lake.catalog.before_commit.append(lambda row=row: lake.append_rows(row, partition=("y",)))
        lake.catalog.before_commit.append(lambda: None)  # runs before that append's own commit
    report = rewrite(lake)
    assert report.outcome is Outcome.DONE
    assert report.figures["manifestsReplaced"] == 12
    assert sorted(row["id"] for row in lake.rows()) == sorted(
        [*(row["id"] for row in rows), *(row["id"] for row in late)]
    )


def test_the_rewritten_manifests_are_written_once_however_often_the_commit_is_tried(monkeypatch):
    lake = filled()
    for _ in range(5):
        lake.catalog.faults.append(fault("conflict"))
    calls = []

    def counted(*args, **more):
        calls.append(args)
        return cluster(*args, **more)

    monkeypatch.setattr(module, "cluster", counted)
    report = rewrite(lake)
    assert (report.outcome, len(calls)) == (Outcome.DONE, 1)


def test_when_its_manifests_were_replaced_meanwhile_it_plans_anew():
    lake = filled()
    before = entries(lake)

    def merge():
        lake.append(merge_min=1)
        for number in range(3):
            lake.append_rows({"id": 500 + number, "name": "x"}, partition=("x",))

    lake.catalog.before_commit.append(merge)
    for _ in range(4):
        lake.catalog.before_commit.append(lambda: None)
    report = rewrite(lake)
    assert report.outcome is Outcome.DONE
    assert report.figures["manifestsReplaced"] == 4
    assert before.items() <= entries(lake).items()
    assert len(lake.rows()) == 27
    listed = {
        m.path for snapshot in lake.metadata.snapshots for m in manifests(lake, snapshot["snapshot-id"])
    }
    assert {path for path in files(lake) if "-m" in path.rpartition("/")[2]} == listed


def test_a_group_whose_manifest_went_is_lost_alone():
    lake = filled(commits=6)
    for number in range(3):
        lake.row_delta([], [lake.equality_file([{"id": 99 + number}], [1], partition=("z",))])
    before = entries(lake)
    lake.catalog.before_commit.append(lambda: lake.append(merge_min=1))
    lake.catalog.before_commit.append(lambda: None)
    report = rewrite(lake)
    assert (report.figures["conflicts"], report.figures["manifestsReplaced"], report.again_after_ms) == (
        1,
        3,
        0,
    )
    assert entries(lake) == before


def test_a_table_that_is_upgraded_meanwhile_is_planned_anew():
    lake = filled(version=2)
    before = lake.rows()
    lake.catalog.before_commit.append(
        lambda: lake.catalog.commit(IDENT, [], [{"action": "upgrade-format-version", "format-version": 3}])
    )
    lake.catalog.before_commit.append(lambda: None)
    lake.catalog.faults.extend([None, fault("conflict")])
    report = rewrite(lake)
    assert report.outcome is Outcome.DONE
    assert lake.rows() == before
    ids = sorted(entry[4] for entry in entries(lake))
    assert len(set(ids)) == 12
    assert None not in ids


def test_row_ids_of_an_upgraded_table_stay_once_they_are_given():
    lake = filled(version=2)
    lake.catalog.commit(IDENT, [], [{"action": "upgrade-format-version", "format-version": 3}])
    lake.append_rows({"id": 1, "name": "x"}, partition=("x",))
    before = entries(lake)
    assert None not in [entry[4] for entry in before]
    rewrite(lake)
    assert entries(lake) == before
    lake.append_rows({"id": 1, "name": "x"}, partition=("x",))
    assert before.items() <= entries(lake).items()


def test_an_unknown_outcome_keeps_the_manifests_and_the_next_attempt_finds_nothing_to_do():
    lake = filled()
    before = entries(lake)
    lake.catalog.faults.append(unknown(applied=True))
    assert rewrite(lake).outcome is Outcome.DONE
    assert entries(lake) == before
    lake = filled()
    lake.catalog.faults.append(unknown(late=True))
    lake.catalog.load_faults.extend([None, None, None])
    ctx = context(lake)
    known = files(lake)
    ctx.settings = JobSettings(commit_attempts=1)
    with pytest.raises(CommitStateUnknown):
        rewrite(lake, ctx)
    assert [path for path in files(lake) - known if path.endswith("-m0.avro")] != []
    lake.catalog.deliver_late()
    assert entries(lake) == before
    assert rewrite(lake).outcome is Outcome.NOTHING


def test_a_refused_run_removes_what_it_wrote():
    lake = filled()
    known = files(lake)
    ctx = context(lake, limits=JobSettings(commit_attempts=2))
    for _ in range(2):
        lake.catalog.faults.append(fault("conflict"))
    report = rewrite(lake, ctx)
    assert (report.outcome, report.again_after_ms) == (Outcome.CONFLICT, 5000)
    assert files(lake) == known


@pytest.mark.parametrize("leases", [[False], [True, False]])
def test_a_lost_lease_ends_it_without_a_commit(leases):
    lake = filled()
    known = files(lake)
    ctx = context(lake)
    ctx.leases = leases
    if len(leases) == 2:
        lake.catalog.faults.append(fault("conflict"))
    report = rewrite(lake, ctx)
    assert (report.outcome, report.reason) == (
        Outcome.SKIPPED,
        "nothing was committed: the lease was lost, another worker takes over",
    )
    assert files(lake) == known


def test_a_cancelled_run_stops_while_it_writes():
    lake = filled()
    known = files(lake)
    ctx = context(lake)
    ctx.cancelled = True
    assert rewrite(lake, ctx).reason == "nothing was committed: it was cancelled"
    assert files(lake) == known


def test_a_missing_manifest_fails_the_run_and_nothing_changes():
    lake = filled()
    lake.store.delete_many([manifests(lake)[3].path])
    location = lake.table.metadata_location
    with pytest.raises(NoSuchFile):
        rewrite(lake)
    assert lake.table.metadata_location == location


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"existing_files_count": 3}, "1 with other entries than the manifest list says"),
        ({"key_metadata": b"k"}, "1 encrypted"),
    ],
)
def test_a_manifest_that_is_not_what_its_list_says_is_left_alone(monkeypatch, change, reason):
    lake = filled()
    odd = manifests(lake)[2].path

    def listed(store, head):
        return [replace(m, **change) if m.path == odd else m for m in snapshot_manifests(store, head)]

    monkeypatch.setattr(module, "snapshot_manifests", listed)
    report = rewrite(lake)
    assert report.figures["leftAlone"] == [reason]
    assert report.figures["manifestsReplaced"] == 11
    assert odd in {manifest.path for manifest in manifests(lake)}


def test_a_file_that_a_broken_table_lists_twice_stays_listed_twice():
    lake = filled(commits=4)
    file = lake.data_file([{"id": 1, "name": "x"}], partition=("x",))
    lake.append(file)
    lake.append(file)
    before = entries(lake)
    report = rewrite(lake)
    assert report.figures["leftAlone"] == ["1 with a file that is listed twice"]
    assert entries(lake) == before
    assert len(lake.rows()) == 10


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"status": "disabled"}, "the policy is disabled"),
        ({"minManifests": 20}, None),
    ],
)
def test_what_is_not_due_is_told(settings, reason):
    lake = filled()
    report = rewrite(lake, context(lake, **settings))
    if reason is None:
        assert report.outcome is Outcome.NOTHING
        assert "12 are smaller" in report.reason
    else:
        assert (report.outcome, report.reason) == (Outcome.SKIPPED, reason)


def test_an_empty_table_and_an_encrypted_one_have_nothing_to_rewrite():
    assert rewrite(new_lake()).reason == "the table has no manifests"
    report = rewrite(new_lake(3, **{"encryption.key-id": "k"}))
    assert report.outcome is Outcome.SKIPPED
    assert "is encrypted" in report.reason


def test_the_table_property_sets_the_target_above_its_floor():
    lake = new_lake(**{"commit.manifest.target-size-bytes": "100000"})
    policy = context(lake).policy(JobKind.MANIFESTS)
    assert isinstance(policy, ManifestPolicy)
    assert (policy.target_size_bytes, policy.notes) == (100_000, ())
    low = context(new_lake(**{"commit.manifest.target-size-bytes": "10"})).policy(JobKind.MANIFESTS)
    assert low.target_size_bytes == 65536
    assert low.notes == (
        "table property commit.manifest.target-size-bytes is 10, below the floor: 65536 used",
    )
