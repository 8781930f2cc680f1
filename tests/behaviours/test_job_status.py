"""What people see of jobs and their future: status, plans, what falls due after a downtime, what history forgets."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from catalog_server.bootstrap import Platform, build
from catalog_server.services import job_due
from catalog_server.services.handles import TableHandle
from catalog_server.services.job_pace import PaceLimits
from catalog_server.services.job_status import KindStatus, Result
from catalog_server.services.jobs import JobFilter, JobLimits, JobService, JobState
from catalog_server.services.policies import PolicyScope
from catalog_server.services.principals import ANONYMOUS
from catalog_server.services.tables import TableSpec
from catalog_server.settings import load
from maintenance.executors.port import UNLIMITED, Pace
from maintenance.policies import PolicyType
from maintenance.ports import MOST_BENEFIT, Job, JobKind
from maintenance.schedule import Why
from table_format.clock import SystemIds
from table_format.errors import Invalid, NoSuchTable
from table_format.ident import Namespace, TableIdent
from table_format.io.memory import MemoryObjectStore
from tests.factories.commits import SCHEMA, append
from tests.factories.platforms import WAREHOUSE, commit, create
from tests.fakes.clock import ManualClock

pytestmark = pytest.mark.anyio

T = TableIdent.of("ns", "t")
COMPACTION, SNAPSHOTS = "icebergCompaction", "icebergSnapshotManagement"
HOUR_MS, DAY_S = 3_600_000, 86_400


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def platform(database_url: str, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Platform]:
    """On a clock that the test moves, with two jobs per bucket at most."""
    memory = MemoryObjectStore(clock)
    settings = load(
        None,
        {},
        {
            "server.data_dir": tmp_path / "data",
            "storage.default_bucket_location": WAREHOUSE,
            "database.url": database_url,
            "maintenance.bucket_concurrency": 2,
        },
    )
    built = build(settings, clock=clock, ids=SystemIds(), store_for=lambda _: memory)
    await built.start()
    await built.namespaces.create(ANONYMOUS, "default", Namespace(("ns",)), {})
    yield built
    await built.close()


@pytest.fixture
async def table(platform: Platform) -> TableHandle:
    return await create(platform, T)


async def status(platform: Platform, kind: str = COMPACTION) -> KindStatus:
    found = await platform.jobs.status(ANONYMOUS, "default", T)
    return next(one for one in found if one.kind.value == kind)


async def ask(platform: Platform, kind: str = COMPACTION, ident: TableIdent = T) -> int:
    return (await platform.jobs.request(ANONYMOUS, "default", ident, kind, dry_run=False)).id


async def claim(platform: Platform) -> int:
    job = await platform.jobs.claim("w", list(JobKind), 60_000)
    assert job is not None
    return job.id


async def token(platform: Platform, job_id: int) -> str:
    return (await platform.jobs.get(ANONYMOUS, job_id)).lease_token or ""


async def test_maint_D3_a_table_says_why_nothing_was_done_and_when_the_next_run_is(
    platform: Platform, table: TableHandle, clock: ManualClock
) -> None:
    before = await status(platform)
    assert (before.result, before.last, before.next.why) == (Result.NOT_YET_RUN, None, Why.INTERVAL)
    job_id = await ask(platform)
    assert (await status(platform)).next.why is Why.QUEUED
    await claim(platform)
    running = await status(platform)
    assert (running.next.why, running.open and running.open.id) == (Why.RUNNING, job_id)
    clock.advance(9)
    await platform.jobs.finish(
        job_id, await token(platform, job_id), {"outcome": "nothing", "reason": "all files are large"}, None
    )
    after = await status(platform)
    assert (after.result, after.reason, after.open) == (Result.SUCCESSFUL, "all files are large", None)
    assert after.next.at_ms == clock.now_ms() + HOUR_MS
    with pytest.raises(NoSuchTable):
        await platform.jobs.status(ANONYMOUS, "default", TableIdent.of("ns", "no"))


async def test_a_failure_is_told_with_its_back_off_and_with_its_end(
    platform: Platform, table: TableHandle, clock: ManualClock
) -> None:
    job_id = await ask(platform)
    await claim(platform)
    await platform.jobs.fail(
        job_id, await token(platform, job_id), "the store is away", clock.now_ms() + 5_000
    )
    waiting = await status(platform)
    assert (waiting.result, waiting.next.why) == (Result.NOT_YET_RUN, Why.BACK_OFF)
    assert waiting.next.at_ms == clock.now_ms() + 5_000
    assert "attempt 1 of 5" in waiting.next.reason
    assert "the store is away" in waiting.next.reason
    clock.advance(5)
    await claim(platform)
    await platform.jobs.fail(job_id, await token(platform, job_id), "broken", None)
    ended = await status(platform)
    assert (ended.result, ended.reason, ended.next.why) == (Result.FAILED, "broken", Why.INTERVAL)
    job = await platform.jobs.get(ANONYMOUS, job_id)
    assert [one["error"] for one in job.failures] == ["the store is away", "broken"]
    upcoming = await platform.jobs.next_run(ANONYMOUS, job)
    assert upcoming == ended.next
    await platform.jobs.retry(ANONYMOUS, job_id)
    await platform.jobs.cancel(ANONYMOUS, job_id)
    assert (await status(platform)).result is Result.CANCELLED
    await platform.tables.drop(ANONYMOUS, "default", T)
    assert await platform.jobs.next_run(ANONYMOUS, job) is None


async def test_a_run_that_was_put_off_is_no_run_to_s3_tables(
    platform: Platform, table: TableHandle, clock: ManualClock
) -> None:
    entry = await platform.table_entries.get(ANONYMOUS, "default", T)

    async def told() -> tuple[str, int | None]:
        run = await platform.table_maintenance.last_run(ANONYMOUS, entry, PolicyType.COMPACTION)
        return run.status.value, run.finished_at_ms

    async def ended(outcome: str, again_after_ms: int | None) -> None:
        await ask(platform)
        job_id = await claim(platform)
        clock.advance(9)
        report = {"outcome": outcome, "reason": "because", "againAfterMs": again_after_ms}
        assert await platform.jobs.finish(job_id, await token(platform, job_id), report, None)

    await ended("skipped", HOUR_MS)
    assert await told() == ("Not_Yet_Run", None)
    await ended("done", 0)
    ran = ("Successful", clock.now_ms())
    assert await told() == ran
    await ended("skipped", HOUR_MS)
    assert await told() == ran
    # It ran, and found that it must not do it.
    await ended("skipped", None)
    assert await told() == ("Successful", clock.now_ms())


async def test_a_disabled_kind_is_told_with_its_reason(platform: Platform, table: TableHandle) -> None:
    scope = PolicyScope(bucket="default")
    await platform.policies.put(ANONYMOUS, scope, COMPACTION, {"status": "disabled"})
    told = await status(platform)
    assert (told.next.why, told.next.at_ms) == (Why.DISABLED, None)
    assert told.disabled_reason
    assert (await status(platform, SNAPSHOTS)).disabled_reason is None


async def test_a_plan_is_waited_for_and_shared(platform: Platform, table: TableHandle) -> None:
    async def plan() -> tuple[JobState, object]:
        made = await platform.jobs.plan(ANONYMOUS, "default", T, COMPACTION, wait_seconds=60)
        return made.state, made.plan

    same = [await platform.jobs.plan(ANONYMOUS, "default", T, COMPACTION, wait_seconds=0) for _ in range(2)]
    assert same[0].id == same[1].id
    asked = [asyncio.create_task(plan()) for _ in range(2)]
    while not all(task.done() for task in asked):  # one that asks after the other's run has a run of its own
        job = await platform.jobs.claim("w", list(JobKind), 60_000, dry_only=True)
        if job is not None:
            await platform.jobs.finish(job.id, job.lease_token, {"outcome": "done"}, {"groups": [1]})
        await asyncio.sleep(0.01)
    assert await asyncio.gather(*asked) == [(JobState.DONE, {"groups": [1]})] * 2
    assert (await platform.jobs.list(ANONYMOUS, JobFilter(), None)).items == []
    assert (await status(platform)).result is Result.NOT_YET_RUN
    late = await platform.jobs.plan(ANONYMOUS, "default", T, COMPACTION, wait_seconds=0)
    assert late.state is JobState.QUEUED
    with pytest.raises(Invalid):
        await platform.jobs.plan(ANONYMOUS, "default", T, "tablePurge", wait_seconds=0)


async def test_after_a_downtime_the_most_overdue_come_first_within_room_and_apart(
    platform: Platform, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [TableIdent.of("ns", f"t{number}") for number in range(6)]
    for ident in tables:
        await create(platform, ident)
    clock.advance(3600)
    on_time = await platform.jobs.due(clock.now_ms())
    assert {job.run_after_ms for job in on_time} == {0}
    clock.advance(7 * DAY_S)
    late = await platform.jobs.due(clock.now_ms())
    assert [job.kind for job in late[:6]] != [
        JobKind.UNREFERENCED
    ] * 6  # a week is more to an hour than to a day
    hourly = [job for job in late if job.kind is JobKind.COMPACTION]
    waits = [job.run_after_ms - clock.now_ms() for job in hourly]
    assert all(0 <= wait <= 300_000 for wait in waits)
    assert len(set(waits)) == len(tables)
    assert [job.run_after_ms for job in await platform.jobs.due(clock.now_ms())] == [
        job.run_after_ms for job in late
    ]
    monkeypatch.setattr(job_due, "MOST_QUEUED", 4)
    some = await platform.jobs.due(clock.now_ms())
    assert len(some) == 4
    for job in some:
        await platform.jobs.enqueue(job)
    assert await platform.jobs.due(clock.now_ms()) == []


async def test_as_many_jobs_run_at_once_as_the_settings_say(platform: Platform) -> None:
    for number in range(3):
        await create(platform, TableIdent.of("ns", f"t{number}"))
        await ask(platform, ident=TableIdent.of("ns", f"t{number}"))
    claimed = [await platform.jobs.claim(f"w{n}", list(JobKind), 60_000) for n in range(3)]
    assert [job is not None for job in claimed] == [True, True, False]
    assert claimed[0] is not None
    await platform.jobs.finish(claimed[0].id, claimed[0].lease_token, {}, None)
    assert await platform.jobs.claim("w", list(JobKind), 60_000) is not None


async def test_what_jobs_may_do_together_each_may_do_an_even_part_of(platform: Platform) -> None:
    """By the installation, a worker, a bucket and its policies: the smallest part counts, and follows what runs."""
    await platform.buckets.create(ANONYMOUS, "other")
    await platform.namespaces.create(ANONYMOUS, "other", Namespace(("ns",)), {})
    jobs = JobService(
        platform.database,
        (platform.clock, platform.ids),
        platform.policies,
        JobLimits(
            max_attempts=5,
            kept_ms=1,
            lease_ms=60_000,
            pace=PaceLimits(
                of_worker=700.0, of_bucket=500.0, of_all=900.0, memory_mb=9000, group_memory_mb=1000
            ),
        ),
    )

    async def run(name: str, worker: str, bucket: str = "default", *, dry: bool = False) -> Job:
        ident = TableIdent.of("ns", name)
        if not dry:
            await platform.tables.create(ANONYMOUS, bucket, ident, TableSpec(schema=SCHEMA, properties={}))
        await jobs.request(ANONYMOUS, bucket, ident, COMPACTION, dry_run=dry)
        job = await jobs.claim(worker, list(JobKind), 60_000)
        assert job is not None
        return job

    one = await run("a", "w1")
    assert await jobs.pace(one, "w1") == Pace(bytes_per_second=500.0, pieces=9)
    await run("a", "w3", dry=True)  # reads metadata only
    assert await jobs.pace(one, "w1") == Pace(bytes_per_second=500.0, pieces=9)
    two = await run("b", "w2")
    assert await jobs.pace(one, "w1") == await jobs.pace(two, "w2") == Pace(bytes_per_second=250.0, pieces=4)
    far = await run("c", "w2", "other")
    assert await jobs.pace(far, "w2") == Pace(bytes_per_second=300.0, pieces=3)
    assert await jobs.pace(one, "w1") == Pace(bytes_per_second=250.0, pieces=3)

    scope = PolicyScope(bucket="default", namespace=None)
    document = {"settings": {"maxMBPerSecond": 1, "maxMemoryMB": 2500}}
    await platform.policies.put(ANONYMOUS, scope, COMPACTION, document)
    assert await jobs.pace(one, "w1") == Pace(bytes_per_second=250.0, pieces=1)
    await jobs.finish(two.id, two.lease_token, {}, None)
    assert await jobs.pace(one, "w1") == Pace(bytes_per_second=450.0, pieces=2)
    unlimited = JobService(
        platform.database,
        (platform.clock, platform.ids),
        platform.policies,
        JobLimits(max_attempts=5, kept_ms=1, lease_ms=60_000),
    )
    assert await unlimited.pace(one, "w1") == Pace(bytes_per_second=float(1 << 20), pieces=2)
    assert await unlimited.pace(far, "w2") == UNLIMITED


async def test_history_is_forgotten_after_its_time_the_last_of_each_kind_aside(
    platform: Platform, table: TableHandle, clock: ManualClock
) -> None:
    made = []
    for _ in range(3):
        made.append(await ask(platform))
        await claim(platform)
        await platform.jobs.finish(made[-1], await token(platform, made[-1]), {}, None)
        clock.advance(60)
    assert await platform.jobs.forget_expired() == 0
    clock.advance(31 * DAY_S)
    assert await platform.jobs.forget_expired() == 2
    left = await platform.jobs.list(ANONYMOUS, JobFilter(), None)
    assert [job.id for job in left.items] == made[-1:]
    await ask(platform)
    await claim(platform)
    await platform.jobs.finish(left.items[0].id + 1, await token(platform, left.items[0].id + 1), {}, None)
    assert await platform.jobs.forget_expired() == 0  # it looks now and then only
    clock.advance(600)
    assert await platform.jobs.forget_expired() == 1


async def test_maint_E5_a_table_tells_that_compaction_falls_behind_until_it_has_caught_up(
    platform: Platform, table: TableHandle, clock: ManualClock
) -> None:
    """What ingest may ask before it commits: null while compaction keeps up, else why not."""

    async def behind() -> str | None:
        found = await platform.backlogs.of(ANONYMOUS, "default", T)
        return None if found is None else found.reason

    summary = {
        "operation": "append",
        "added-data-files": "100",
        "total-data-files": "100",
        "total-files-size": "9",
    }
    assert await behind() is None
    await commit(platform, T, *append(table.metadata, 1, summary=summary))
    assert await behind() == "100 data files wait for compaction, which 10 ask for"
    job_id = await claim(platform)
    assert (await platform.jobs.get(ANONYMOUS, job_id)).priority == MOST_BENEFIT  # 100 files of 9 bytes
    await platform.jobs.fail(job_id, await token(platform, job_id), "the store is away", clock.now_ms() + 1)
    assert "the last attempt failed: the store is away" in str(await behind())
    clock.advance(1)
    await claim(platform)
    left = {"outcome": "done", "reason": "", "figures": {"remainingGroups": 1}}
    await platform.jobs.finish(job_id, await token(platform, job_id), left, None)
    assert await behind() is not None
    clock.advance(1)
    await ask(platform)
    job_id = await claim(platform)
    await platform.jobs.finish(
        job_id, await token(platform, job_id), {"outcome": "nothing", "reason": "", "figures": {}}, None
    )
    assert await behind() is None
    with pytest.raises(NoSuchTable):
        await platform.backlogs.of(ANONYMOUS, "default", TableIdent.of("ns", "no"))
