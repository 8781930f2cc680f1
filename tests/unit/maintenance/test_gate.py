"""What a policy says before a job begins: quiet hours, and planning only."""

from dataclasses import replace

import pytest

from maintenance.compaction.job import run as compact
from maintenance.expiration.job import run as expire
from maintenance.orphans.job import run as remove
from maintenance.policies import PolicyType, effective
from maintenance.ports import URGENT_PRIORITY, JobKind
from maintenance.records.job import run as expire_rows
from maintenance.report import Outcome
from maintenance.schedule import OpenRun, Past, Why, due_at, next_run
from maintenance.statistics.job import run as compute_statistics
from table_format.io.memory import MemoryObjectStore
from tests.factories.lake import IDENT, Lake
from tests.factories.timed import ago, timed_lake, write
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

HOUR_MS = 3_600_000
# The clock of these tests stands at 2023-11-14T22:13:20Z, a Tuesday.
QUIET = {"timeZone": "UTC", "windows": [{"days": ["tue"], "from": "22:00", "to": "23:00"}]}
END_MS = 1_700_002_800_000  # 23:00
RUNS = [
    (compact, JobKind.COMPACTION),
    (expire, JobKind.SNAPSHOTS),
    (remove, JobKind.UNREFERENCED),
    (expire_rows, JobKind.RECORDS),
    (compute_statistics, JobKind.STATISTICS),
]


def context(lake, kind, **settings):
    rows = {"days": 1, "column": "at"} if kind is JobKind.RECORDS else {}
    document = {"status": "enabled", "settings": {**settings, **rows}}
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        documents={kind: document},
        ident=IDENT,
    )


@pytest.fixture
def lake():
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock)


def quietly(lake, run, kind, **changes):
    return run(context(lake, kind, quietHours=QUIET), job(kind, IDENT, lake.metadata.uuid, **changes))


@pytest.mark.parametrize(("run", "kind"), RUNS)
def test_in_quiet_hours_a_job_is_put_off_to_their_end(lake, run, kind):
    report = quietly(lake, run, kind)
    assert report.outcome is Outcome.SKIPPED
    assert report.reason == "quiet hours of the policy until 2023-11-14T23:00:00Z: it runs after that"
    assert lake.clock.now_ms() + report.again_after_ms == END_MS


@pytest.mark.parametrize(("run", "kind"), RUNS)
@pytest.mark.parametrize(
    "changes", [{"priority": URGENT_PRIORITY}, {"dry_run": True}, {"plan": {"phase": "begun"}}]
)
def test_what_a_person_asked_for_or_has_begun_runs_in_quiet_hours(lake, run, kind, changes):
    assert "quiet hours" not in quietly(lake, run, kind, **changes).reason


@pytest.mark.parametrize(("run", "kind"), RUNS)
def test_after_quiet_hours_it_runs(lake, run, kind):
    lake.clock.advance(47 * 60)
    assert "quiet hours" not in quietly(lake, run, kind).reason


def test_a_disabled_policy_is_told_before_quiet_hours(lake):
    ctx = context(lake, JobKind.COMPACTION, quietHours=QUIET)
    ctx.documents[JobKind.COMPACTION]["status"] = "disabled"
    report = compact(ctx, job(JobKind.COMPACTION, IDENT, lake.metadata.uuid))
    assert (report.reason, report.again_after_ms) == ("the policy is disabled", None)


@pytest.mark.parametrize("priority", [0, URGENT_PRIORITY])
def test_plan_only_policies_change_nothing_whoever_asks(priority):
    lake = timed_lake()
    for days in (9, 8, 7):
        write(lake, [ago(days)])
    lake.clock.advance(30 * 86_400)
    stray = f"{lake.metadata.location}/data/stray.parquet"
    lake.store.put(stray, b"x", if_absent=True)
    lake.clock.advance(30 * 86_400)
    objects = {info.path for info in lake.store.list(lake.metadata.location)}
    location = lake.table.metadata_location
    settings = {
        JobKind.COMPACTION: {"minInputFiles": 2},
        JobKind.SNAPSHOTS: {"maxSnapshotAgeHours": 1},
        JobKind.UNREFERENCED: {},
        JobKind.RECORDS: {},
        JobKind.STATISTICS: {},
    }
    for run, kind in RUNS:
        ctx = context(lake, kind, dryRun=True, **settings[kind])
        report = run(ctx, job(kind, IDENT, lake.metadata.uuid, priority=priority))
        assert (report.outcome, report.again_after_ms) == (Outcome.DONE, None), kind
        assert report.reason.startswith("dry run: "), kind
        assert ctx.unreferenced.seen == {}
    assert {info.path for info in lake.store.list(lake.metadata.location)} == objects
    assert lake.table.metadata_location == location


def test_a_run_takes_no_more_than_its_policy_allows(lake):
    for n in range(6):
        lake.append_rows({"id": n, "name": f"n{n}"})
    spread = {"tiers": [{"belowBytes": 1024 * 16, "targetBytes": 1024 * 64}], "minInputFiles": 2}
    unbounded = compact(
        context(lake, JobKind.COMPACTION, **spread),
        job(JobKind.COMPACTION, IDENT, lake.metadata.uuid, dry_run=True),
    )
    assert unbounded.figures["remainingGroups"] == 0
    small = {"tiers": [{"belowBytes": 1024, "targetBytes": 2048}], "minInputFiles": 2}
    ctx = context(lake, JobKind.COMPACTION, **small)
    groups = compact(ctx, job(JobKind.COMPACTION, IDENT, lake.metadata.uuid, dry_run=True)).figures["groups"]
    assert groups > 1
    ctx = context(lake, JobKind.COMPACTION, maxBytesPerRun=1, **small)
    bounded = compact(ctx, job(JobKind.COMPACTION, IDENT, lake.metadata.uuid, dry_run=True))
    assert (bounded.figures["groups"], bounded.figures["remainingGroups"]) == (1, groups - 1)


def policy(**settings):
    return effective(
        PolicyType.SNAPSHOTS, [{"status": "enabled", "settings": {"intervalSeconds": 3600, **settings}}], {}
    )


def test_the_clock_asks_when_the_quiet_hours_are_over():
    now = END_MS - HOUR_MS // 2
    of = policy(quietHours=QUIET)
    assert due_at(of, now - HOUR_MS - 1, now) == END_MS  # fell due in them
    assert due_at(of, now - 9 * HOUR_MS, now) == END_MS  # fell due before them
    assert due_at(of, now - 1, now) == now - 1 + HOUR_MS  # falls due after them
    assert due_at(policy(), now - 9 * HOUR_MS, now) == now - 8 * HOUR_MS


def test_maint_D3_the_next_run_and_why_it_is_put_off_is_told():
    now = END_MS - HOUR_MS // 2
    found = next_run(policy(quietHours=QUIET), Past(born_ms=0, ended_ms=now - 2 * HOUR_MS, open=None), now)
    assert (found.at_ms, found.why) == (END_MS, Why.INTERVAL)
    assert found.reason == "3600 s after the last run, but not in quiet hours"
    waiting = OpenRun(job_id=7, running=False, run_after_ms=END_MS, attempts=0, max_attempts=5, error=None)
    put_off = next_run(policy(quietHours=QUIET), Past(born_ms=0, ended_ms=None, open=waiting), now)
    assert (put_off.at_ms, put_off.why) == (END_MS, Why.POSTPONED)
    due = next_run(policy(), Past(born_ms=0, ended_ms=now - 2 * HOUR_MS, open=None), now)
    assert due.reason == "due now: 3600 s after the last run"
    assert replace(due, reason="") == replace(due, at_ms=now, why=Why.INTERVAL, reason="")
