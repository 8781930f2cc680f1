"""Jobs: asked for, listed, claimed by workers, due by the clock; and what a running job has around it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from catalog_server.bootstrap import Platform, build
from catalog_server.services.handles import TableHandle
from catalog_server.services.job_context import DatabaseJobContext
from catalog_server.services.jobs import JobFilter, JobState
from catalog_server.services.paging import PageRequest
from catalog_server.services.policies import PolicyScope
from catalog_server.services.principals import ANONYMOUS
from catalog_server.settings import load
from catalog_server.store import dropped
from maintenance.deletion import delete_in_batches
from maintenance.policies import CompactionPolicy
from maintenance.ports import Job, JobContext, JobKind, JobQueue, NewJob, PolicySource, Unreferenced
from maintenance.purge.job import run as run_purge
from maintenance.report import Outcome
from maintenance.worker import RUNNERS
from table_format.catalog import NewTable, TableCatalog
from table_format.clock import SystemClock, SystemIds
from table_format.errors import AlreadyExists, CommitFailed, Invalid, NoSuchJob, NoSuchTable
from table_format.ident import Namespace, TableIdent
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import ManifestFile
from table_format.manifest.lists import write_manifest_list
from tests.databases import away
from tests.factories.commits import SCHEMA, append
from tests.factories.platforms import WAREHOUSE, create
from tests.fakes.clock import ManualClock

pytestmark = pytest.mark.anyio

T = TableIdent.of("ns", "t")
R = TypeVar("R")
HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def platform(database_url: str, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Platform]:
    """As the shared one, on a clock that the test moves."""
    memory = MemoryObjectStore(SystemClock())
    settings = load(
        None,
        {},
        {
            "server.data_dir": tmp_path / "data",
            "storage.default_bucket_location": WAREHOUSE,
            "database.url": database_url,
        },
    )
    built = build(settings, clock=clock, ids=SystemIds(), store_for=lambda _: memory)
    await built.start()
    await built.namespaces.create(ANONYMOUS, "default", Namespace(("ns",)), {})
    yield built
    await built.close()


async def claim(platform: Platform, owner: str = "w") -> Job:
    job = await platform.jobs.claim(owner, list(JobKind), 60_000)
    assert job is not None
    return job


async def off_loop(work: Callable[[], R]) -> R:
    return await asyncio.to_thread(work)


async def ask(platform: Platform, kind: str = "icebergCompaction", *, dry_run: bool = False) -> int:
    return (await platform.jobs.request(ANONYMOUS, "default", T, kind, dry_run=dry_run)).id


async def test_the_service_is_queue_and_source(platform: Platform) -> None:
    queue: JobQueue = platform.jobs
    source: PolicySource = platform.jobs
    assert await queue.claim("w", list(JobKind), 1000) is None
    assert await source.due(0) == []


async def test_a_requested_job_is_run_and_reported(platform: Platform, table: TableHandle) -> None:
    asked = await platform.jobs.request(ANONYMOUS, "default", T, "icebergCompaction", dry_run=False)
    assert (asked.state, asked.origin, asked.bucket, asked.namespace, asked.table) == (
        JobState.QUEUED,
        "api",
        "default",
        Namespace(("ns",)),
        "t",
    )
    assert await ask(platform) == asked.id
    job = await claim(platform)
    assert (job.id, job.kind, job.ident, job.attempts) == (asked.id, JobKind.COMPACTION, T, 1)
    assert await platform.jobs.heartbeat(job.id, job.lease_token, 60_000)
    assert await platform.jobs.finish(
        job.id, job.lease_token, {"outcome": "nothing", "reason": "r"}, {"groups": []}
    )
    done = await platform.jobs.get(ANONYMOUS, str(asked.id))
    assert (done.state, done.report, done.plan) == (
        JobState.DONE,
        {"outcome": "nothing", "reason": "r"},
        {"groups": []},
    )


async def test_what_can_not_be_asked_for(platform: Platform, table: TableHandle) -> None:
    for kind in ("nope", "tablePurge", ""):
        with pytest.raises(Invalid):
            await ask(platform, kind)
    with pytest.raises(NoSuchTable):
        await platform.jobs.request(
            ANONYMOUS, "default", TableIdent.of("ns", "no"), "icebergCompaction", dry_run=False
        )
    for job_id in ("1", "x", "-1", "1.0", "9" * 30, "٣"):
        with pytest.raises(NoSuchJob):
            await platform.jobs.get(ANONYMOUS, job_id)
    for wrong in (JobFilter(kind="x"), JobFilter(states=["x"])):
        with pytest.raises(Invalid):
            await platform.jobs.list(ANONYMOUS, wrong, None)


async def test_jobs_are_listed_newest_first_in_pages(platform: Platform, table: TableHandle) -> None:
    asked = [
        (kind, dry) for kind in ("icebergCompaction", "icebergSnapshotManagement") for dry in (True, False)
    ]
    ids = [await ask(platform, kind, dry_run=dry) for kind, dry in asked]
    first = await platform.jobs.list(ANONYMOUS, JobFilter(bucket="default"), PageRequest(size=3))
    assert [job.id for job in first.items] == ids[:0:-1]
    assert first.next_token is not None
    rest = await platform.jobs.list(ANONYMOUS, JobFilter(), PageRequest(token=first.next_token))
    assert [job.id for job in rest.items] == ids[:1]
    only = JobFilter(namespace=Namespace(("ns",)), table="t", kind="icebergCompaction", states=["queued"])
    assert [job.id for job in (await platform.jobs.list(ANONYMOUS, only, None)).items] == ids[1::-1]


async def test_a_job_whose_worker_dies_goes_to_another(
    platform: Platform, table: TableHandle, clock: ManualClock
) -> None:
    await ask(platform)
    job = await claim(platform, "w1")
    assert await platform.jobs.save_plan(job.id, job.lease_token, {"delete": ["a"]})
    assert await platform.jobs.requeue_stalled(clock.now_ms()) == 0
    clock.advance(61)
    assert await platform.jobs.requeue_stalled(clock.now_ms()) == 1
    again = await claim(platform, "w2")
    assert (again.id, again.attempts, again.plan) == (job.id, 2, {"delete": ["a"]})
    assert not await platform.jobs.finish(job.id, job.lease_token, {}, None)
    assert not await platform.jobs.save_plan(job.id, job.lease_token, {})
    assert await platform.jobs.fail(job.id, again.lease_token, "away", clock.now_ms() + 5000)
    assert await platform.jobs.claim("w3", list(JobKind), 1000) is None
    clock.advance(5)
    assert (await claim(platform, "w3")).attempts == 3


async def test_a_lease_that_is_renewed_has_not_run_out_whatever_the_time_is_here(
    platform: Platform, table: TableHandle, clock: ManualClock
) -> None:
    """A server whose clock is minutes ahead of the workers' took every job from its worker, again and again."""
    await ask(platform)
    job = await claim(platform, "w1")
    ahead_ms = 300_000
    for _ in range(6):
        clock.advance(20)
        assert await platform.jobs.heartbeat(job.id, job.lease_token, 60_000)
        assert await platform.jobs.requeue_stalled(clock.now_ms() + ahead_ms) == 0
    clock.advance(59)
    assert await platform.jobs.requeue_stalled(clock.now_ms() + ahead_ms) == 0
    clock.advance(1)
    assert await platform.jobs.requeue_stalled(clock.now_ms() - ahead_ms) == 0  # not yet, by a clock behind
    assert await platform.jobs.requeue_stalled(clock.now_ms() + ahead_ms) == 1


async def test_a_claim_is_known_by_its_token_whatever_its_worker_is_called(
    platform: Platform, table: TableHandle, clock: ManualClock
) -> None:
    """Two processes with one name, or one that claims again what it lost: the zombie is told so at every door."""
    await ask(platform)
    zombie = await claim(platform, "same")
    stale = platform.job_context(zombie)
    await platform.jobs.requeue_stalled(clock.now_ms())  # seen as it is
    clock.advance(61)
    await platform.jobs.requeue_stalled(clock.now_ms())
    holder = await claim(platform, "same")
    assert (holder.id, holder.attempts) == (zombie.id, 2)
    fresh = platform.job_context(holder)
    assert await off_loop(fresh.still_leased)
    assert not await off_loop(stale.still_leased)
    with pytest.raises(CommitFailed, match="belongs to another worker now"):
        await off_loop(lambda: stale.save_plan({"of": "the zombie"}))
    jobs, number = platform.jobs, zombie.id
    for token in (zombie.lease_token, "", "same"):
        assert not await jobs.heartbeat(number, token, 60_000)
        assert not await jobs.finish(number, token, {"of": "the zombie"}, None)
        assert not await jobs.fail(number, token, "of the zombie", None)
        assert not await jobs.fail(number, token, "of the zombie", clock.now_ms())
        assert not await jobs.hand_back(number, token)
        assert not await jobs.end_cancelled(number, token, {"of": "the zombie"}, None)
    row = await jobs.get(ANONYMOUS, number)
    assert (row.state, row.lease_owner, row.plan, row.report) == (JobState.RUNNING, "same", None, None)
    assert await jobs.hand_back(number, holder.lease_token)
    third = await claim(platform, "same")
    assert len({zombie.lease_token, holder.lease_token, third.lease_token}) == 3
    assert not await jobs.finish(number, holder.lease_token, {}, None)
    assert await jobs.finish(number, third.lease_token, {"outcome": "done"}, None)


async def test_a_zombie_deletes_nothing_though_its_job_runs_again_under_its_name(
    platform: Platform, table: TableHandle, clock: ManualClock
) -> None:
    store = platform.stores.store_for(WAREHOUSE)
    paths = [f"{table.metadata.location}/data/{number}.parquet" for number in range(3)]
    for path in paths:
        store.put(path, b"x")
    await ask(platform)
    zombie = await claim(platform, "same")
    one_each = replace(platform.job_context(zombie).settings, delete_batch=1)
    contexts = [replace(platform.job_context(zombie), settings=one_each)]
    loop = asyncio.get_running_loop()

    async def taken_over() -> DatabaseJobContext:
        await platform.jobs.requeue_stalled(clock.now_ms())
        return platform.job_context(await claim(platform, "same"))

    def check(batch: Sequence[str]) -> Sequence[str]:
        """Between the first batch and the second it sleeps past its lease, and its job is claimed again."""
        if paths[1] in batch:
            asyncio.run_coroutine_threadsafe(platform.jobs.requeue_stalled(clock.now_ms()), loop).result()
            clock.advance(61)
            contexts.append(asyncio.run_coroutine_threadsafe(taken_over(), loop).result())
        return batch

    done = await off_loop(lambda: delete_in_batches(contexts[0], store, paths, check))
    assert (done.paths, done.lease_lost, done.left) == (paths[:1], True, 2)
    assert [store.exists(path) for path in paths] == [False, True, True]
    assert await off_loop(contexts[1].still_leased)


async def test_a_job_follows_its_table_to_another_name(platform: Platform, table: TableHandle) -> None:
    asked = await ask(platform)
    moved = TableIdent.of("ns", "moved")
    await platform.tables.rename(ANONYMOUS, "default", T, moved)
    stranger = await create(platform, T)
    job = await claim(platform)
    assert (job.id, job.ident, job.table_uuid) == (asked, moved, table.metadata.uuid)
    assert job.table_uuid != stranger.metadata.uuid
    for name, expected in ((moved, [asked]), (T, [])):
        wanted = JobFilter(bucket="default", namespace=name.namespace, table=name.name)
        listed = await platform.jobs.list(ANONYMOUS, wanted, None)
        assert [view.id for view in listed.items] == expected


async def test_maintenance_enqueues_through_its_port(platform: Platform, table: TableHandle) -> None:
    assert table.row is not None
    new = NewJob(
        kind=JobKind.SNAPSHOTS,
        bucket_id=table.row.bucket_id,
        table_id=table.row.id,
        table_uuid=table.row.table_uuid,
        ident=T,
    )
    first = await platform.jobs.enqueue(new)
    assert (await platform.jobs.enqueue(new)).id == first.id
    assert (await claim(platform)).kind is JobKind.SNAPSHOTS


async def test_jobs_fall_due_by_their_policys_interval(
    platform: Platform, table: TableHandle, clock: ManualClock
) -> None:
    async def due() -> list[str]:
        return sorted(job.kind.value for job in await platform.jobs.due(clock.now_ms()))

    assert await due() == []
    clock.advance(3600)
    assert await due() == ["icebergCompaction", "icebergSnapshotManagement"]
    await ask(platform)
    assert await due() == ["icebergSnapshotManagement"]  # one is queued already
    job = await claim(platform)
    assert await due() == ["icebergSnapshotManagement"]
    await platform.jobs.finish(job.id, job.lease_token, {}, None)
    assert await due() == ["icebergSnapshotManagement"]
    scope = PolicyScope(bucket="default", namespace=Namespace(("ns",)))
    await platform.policies.put(
        ANONYMOUS, scope, "icebergCompaction", {"status": "enabled", "settings": {"intervalSeconds": 5}}
    )
    clock.advance(4)
    assert await due() == ["icebergSnapshotManagement"]
    clock.advance(1)
    assert await due() == ["icebergCompaction", "icebergSnapshotManagement"]
    await platform.policies.put(ANONYMOUS, scope, "icebergSnapshotManagement", {"status": "disabled"})
    assert await due() == ["icebergCompaction"]
    clock.advance(24 * 3600)
    assert await due() == ["icebergCompaction", "icebergManifests", "icebergUnreferencedFileRemoval"]


async def test_the_catalog_of_a_job_goes_through_the_same_door(
    platform: Platform, table: TableHandle
) -> None:
    catalog: TableCatalog = platform.catalog("default")
    loaded = await off_loop(lambda: catalog.load(T))
    assert (loaded.metadata, loaded.metadata_location) == (table.metadata, table.metadata_location)
    needs, updates = append(loaded.metadata, 1)
    after = await off_loop(lambda: catalog.commit(T, needs, updates))
    assert after.metadata.current_snapshot_id == 1
    with pytest.raises(CommitFailed):
        await off_loop(lambda: catalog.commit(T, needs, updates))
    deep = TableIdent.of("new", "deeper", "t")
    made = await off_loop(lambda: catalog.create(deep, NewTable(schema=SCHEMA, properties={"a": "b"})))
    assert made.metadata.properties["a"] == "b"
    with pytest.raises(AlreadyExists):
        await off_loop(lambda: catalog.create(deep, NewTable(schema=SCHEMA)))


async def test_the_surroundings_of_a_running_job(
    platform: Platform, table: TableHandle, clock: ManualClock
) -> None:
    other = await create(platform, TableIdent.of("ns", "other"))
    gone = await create(platform, TableIdent.of("ns", "gone"))
    await platform.tables.purge(ANONYMOUS, "default", TableIdent.of("ns", "gone"))
    kept = await create(platform, TableIdent.of("ns", "kept"))
    await platform.tables.drop(ANONYMOUS, "default", TableIdent.of("ns", "kept"))
    await ask(platform)
    job = await claim(platform)
    context: JobContext = platform.job_context(job)

    policy = await off_loop(lambda: context.policy(JobKind.COMPACTION))
    assert isinstance(policy, CompactionPolicy)
    assert policy.min_input_files == 5
    assert await off_loop(context.other_table_locations) == [other.metadata.location]
    places = [gone.metadata.location, kept.metadata.location, table.metadata.location]
    # The purge of one has not begun: both may be had back.
    neighbours = await off_loop(lambda: context.dropped_neighbours(places))
    assert [(one.location, one.metadata_location, one.purged) for one in neighbours] == [
        (one.metadata.location, one.metadata_location, False) for one in (gone, kept)
    ]
    assert await off_loop(lambda: context.dropped_neighbours([table.metadata.location])) == []
    assert await off_loop(context.still_leased)
    await off_loop(lambda: context.save_plan({"a": 1}))
    assert (await platform.jobs.get(ANONYMOUS, job.id)).plan == {"a": 1}
    log = context.unreferenced
    await off_loop(lambda: log.mark("u", [Unreferenced(path="p", size=1, first_seen_ms=5)]))
    await off_loop(lambda: log.mark("u", [Unreferenced(path="p", size=1, first_seen_ms=9)]))
    assert await off_loop(lambda: log.known("u")) == {"p": 5}
    await off_loop(lambda: log.forget("u", ["p"]))
    assert await off_loop(lambda: log.known("u")) == {}
    store = await off_loop(lambda: context.store_for(table.metadata.location))
    assert store.exists(table.metadata_location or "")
    assert context.reaches(table.metadata.location)
    for outside in ("memory://elsewhere/x", f"{table.metadata.location}/../../../x", "/etc/passwd"):
        assert not context.reaches(outside)
        with pytest.raises(Invalid, match="is not inside the table bucket's location"):
            store.get(outside)

    await platform.jobs.requeue_stalled(clock.now_ms())
    clock.advance(61)
    assert not await off_loop(context.still_leased)
    await platform.jobs.requeue_stalled(clock.now_ms())
    with pytest.raises(CommitFailed):
        await off_loop(lambda: context.save_plan({"a": 2}))
    await platform.tables.drop(ANONYMOUS, "default", T)
    with pytest.raises(NoSuchTable):
        await off_loop(lambda: context.policy(JobKind.COMPACTION))


async def test_for_a_purge_a_table_registered_again_from_the_same_metadata_is_another(
    platform: Platform, table: TableHandle
) -> None:
    """It has the dropped table's uuid, and its files: not counting it would delete a living table."""
    await platform.tables.purge(ANONYMOUS, "default", T)
    job = await claim(platform)
    assert job.kind is JobKind.PURGE
    context: JobContext = platform.job_context(job)
    at = table.metadata.location
    around = await off_loop(lambda: context.purge_surroundings([at]))
    assert (around.wanted, around.others, around.neighbours) == (True, [], [])
    again = TableIdent.of("ns", "again")
    registering = platform.tables.register(
        ANONYMOUS, "default", again, table.metadata_location or "", overwrite=False
    )
    with pytest.raises(CommitFailed, match="its files are being deleted by job"):
        await registering
    await platform.database.write(dropped.purged, job.id)  # as if another worker had come to the end
    await platform.tables.register(
        ANONYMOUS, "default", again, table.metadata_location or "", overwrite=False
    )
    around = await off_loop(lambda: context.purge_surroundings([at]))
    assert (around.wanted, around.others) == (False, [at])
    report = await off_loop(lambda: run_purge(context, job))
    assert report.outcome is Outcome.SKIPPED
    assert (await platform.tables.load(ANONYMOUS, "default", again)).metadata.uuid == table.metadata.uuid


async def test_for_any_other_job_the_table_itself_is_no_other(platform: Platform, table: TableHandle) -> None:
    await ask(platform)
    context: JobContext = platform.job_context(await claim(platform))
    assert await off_loop(context.other_table_locations) == []


async def test_a_lease_that_can_not_be_checked_is_lost(platform: Platform, table: TableHandle) -> None:
    await ask(platform)
    job = await claim(platform)
    context = platform.job_context(job)
    assert await off_loop(context.still_leased)
    async with away(platform.database):
        assert not await off_loop(context.still_leased)


@pytest.mark.parametrize("kind", ["icebergCompaction", "icebergUnreferencedFileRemoval", "icebergManifests"])
async def test_S22_a_job_reads_no_manifest_outside_the_bucket(
    platform: Platform, table: TableHandle, kind: str
) -> None:
    store = platform.stores.store_for(WAREHOUSE)
    secrets = [f"memory://elsewhere/secret{number}.avro" for number in range(2)]
    at = f"{table.metadata.location}/metadata/hostile.avro"
    for secret in secrets:
        store.put(secret, b"secret")
    listed = [
        ManifestFile(
            path=secret,
            length=6,
            spec_id=0,
            sequence_number=1,
            min_sequence_number=1,
            added_snapshot_id=1,
            **dict.fromkeys(("added_files_count", "added_rows_count"), 1),
            **dict.fromkeys(
                ("existing_files_count", "deleted_files_count", "existing_rows_count", "deleted_rows_count"),
                0,
            ),
        )
        for secret in secrets
    ]
    write_manifest_list(
        store, at, listed, format_version=2, snapshot_id=1, parent_snapshot_id=None, sequence_number=1
    )
    needs, updates = append(table.metadata, 1, **{"manifest-list": at})
    await platform.commits.commit(ANONYMOUS, "default", T, needs, updates)
    scope = PolicyScope(bucket="default", namespace=None)
    document = {"status": "enabled", "settings": {"minManifests": 2}}
    await platform.policies.put(ANONYMOUS, scope, "icebergManifests", document)
    await ask(platform, kind=kind)
    job = await claim(platform)
    context = platform.job_context(job)
    with pytest.raises(Invalid, match=r"secret0\.avro' is not inside the table bucket's location"):
        await off_loop(lambda: RUNNERS[job.kind](context, job))
    assert all(store.exists(secret) for secret in secrets)
