"""Dropped tables: had back, purged, forgotten; and that no order of events leaves half a table."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.all_tables import protection_tag
from catalog_server.services.drops import DropFilter, DroppedRow
from catalog_server.services.handles import TableHandle
from catalog_server.services.jobs import JobFilter, JobState, JobView
from catalog_server.services.paging import PageRequest
from catalog_server.services.policies import PolicyScope
from catalog_server.services.principals import ANONYMOUS
from catalog_server.services.tables import TableSpec
from catalog_server.store import dropped, tags, unreferenced
from maintenance.ports import JobKind
from maintenance.worker import Worker, WorkerSettings
from table_format.clock import SystemIds
from table_format.errors import (
    AlreadyExists,
    BucketNotEmpty,
    CommitFailed,
    Forbidden,
    Invalid,
    NoSuchFile,
    NoSuchNamespace,
    NoSuchTable,
    NotFound,
    TableFormatError,
    VersionConflict,
)
from table_format.ident import Namespace, TableIdent
from table_format.io.memory import MemoryObjectStore
from table_format.metadata.document import TableMetadata
from tests.factories.commits import SCHEMA, append
from tests.factories.lake import Lake
from tests.factories.platforms import WAREHOUSE, Starter, commit, create
from tests.fakes.clock import ManualClock

pytestmark = pytest.mark.anyio

NS = Namespace(("ns",))
T, U = TableIdent(NS, "t"), TableIdent(NS, "u")
DAY = 86_400.0
PLACE = f"{WAREHOUSE}/given"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def files(memory: MemoryObjectStore, below: str = "memory://lake") -> list[str]:
    return sorted(info.path for info in memory.list(below))


async def listed(platform: Platform, **wanted: Any) -> list[DroppedRow]:
    return (await platform.drops.list(ANONYMOUS, "default", DropFilter(**wanted), None)).items


async def drop(platform: Platform, ident: TableIdent = T, *, purge: bool = False) -> DroppedRow:
    remove = platform.tables.purge if purge else platform.tables.drop
    gone = await remove(ANONYMOUS, "default", ident)
    assert gone is not None
    return gone


async def undrop(platform: Platform, gone: DroppedRow, ident: TableIdent | None = None) -> TableHandle:
    return await platform.drops.undrop(ANONYMOUS, "default", gone.resource_id, ident)


async def register(platform: Platform, ident: TableIdent, at: str, *, overwrite: bool = False) -> TableHandle:
    return await platform.tables.register(ANONYMOUS, "default", ident, at, overwrite=overwrite)


async def jobs_of(platform: Platform, **wanted: Any) -> list[JobView]:
    return (await platform.jobs.list(ANONYMOUS, JobFilter(**wanted), None)).items


async def work(platform: Platform) -> int:
    """Run all jobs that are due; how many."""
    worker = Worker(
        platform.jobs, platform.job_context, platform.clock, SystemIds(), WorkerSettings(owner="worker")
    )
    done = 0
    while await worker.run_once():
        done += 1
    return done


async def outcomes(*calls: Awaitable[Any]) -> list[Any]:
    """What came of calls that run at the same time; anything but an error of ours is a fault."""
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, TableFormatError) or not isinstance(one, BaseException) for one in found), (
        found
    )
    return found


async def test_a_dropped_table_comes_back_as_it_was(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore, clock: ManualClock
) -> None:
    assert table.row is not None
    scope = PolicyScope(bucket="default", namespace=NS, table="t")
    document = {"status": "enabled", "settings": {"targetFileSizeMB": 128}}
    await platform.policies.put(ANONYMOUS, scope, "icebergCompaction", document)
    await platform.database.write(tags.put, table.row.resource_id, {"team": "a"})
    await platform.database.write(unreferenced.mark, str(table.metadata.uuid), [("p", 10, 1)])
    last = await commit(platform, T, *append(table.metadata, 1))
    before = files(memory)

    gone = await drop(platform)
    assert (gone.ident, gone.resource_id) == (T, table.row.resource_id)
    assert gone.metadata_location == last.metadata_location
    assert gone.expires_at_ms == clock.now_ms() + 7 * DAY * 1000
    assert (
        await listed(platform) == [gone] == [await platform.drops.get(ANONYMOUS, "default", gone.resource_id)]
    )
    with pytest.raises(NoSuchTable):
        await platform.tables.load(ANONYMOUS, "default", T)
    assert files(memory) == before

    clock.advance(6 * DAY)
    back = await undrop(platform, gone)
    assert back.raw == last.raw
    assert back.row is not None
    assert (back.row.id, back.row.resource_id) == (table.row.id, table.row.resource_id)
    assert last.row is not None
    assert back.row.version > last.row.version
    assert await listed(platform) == []
    assert (await platform.policies.get(ANONYMOUS, scope, "icebergCompaction")).document == document
    assert await platform.database.read(tags.of, table.row.resource_id) == {"team": "a"}
    assert await platform.database.read(unreferenced.known, str(table.metadata.uuid)) == {}
    after = await commit(platform, T, *append(back.metadata, 2))
    assert after.metadata.current_snapshot_id == 2
    with pytest.raises(AlreadyExists, match="overlaps"):
        await create(platform, U, location=table.metadata.location)


async def test_the_name_is_free_at_once_and_undrop_says_what_to_do(
    platform: Platform, table: TableHandle
) -> None:
    gone = await drop(platform)
    await create(platform, T)
    with pytest.raises(AlreadyExists, match=r"Table already exists: ns\.t; restore .* under another name"):
        await undrop(platform, gone)
    back = await undrop(platform, gone, U)
    assert (back.ident, back.metadata.uuid) == (U, table.metadata.uuid)
    with pytest.raises(Invalid):
        await undrop(platform, gone, TableIdent(NS, ".."))


async def test_an_undrop_asked_for_again_answers_the_table(platform: Platform, table: TableHandle) -> None:
    gone = await drop(platform)
    first = await undrop(platform, gone, U)
    for ident in (None, U):
        again = await undrop(platform, gone, ident)
        assert (again.ident, again.metadata_location) == (U, first.metadata_location)
    with pytest.raises(NotFound, match="was restored, purged or forgotten"):
        await undrop(platform, gone, T)
    await drop(platform, U)
    await platform.drops.forget(ANONYMOUS, "default", gone.resource_id)
    for call in (
        undrop(platform, gone),
        platform.drops.get(ANONYMOUS, "default", gone.resource_id),
        platform.drops.purge(ANONYMOUS, "default", gone.resource_id),
        platform.drops.forget(ANONYMOUS, "default", gone.resource_id),
    ):
        with pytest.raises(NotFound, match="Dropped table does not exist"):
            await call


async def test_a_namespace_may_go_before_what_was_dropped_from_it(
    platform: Platform, table: TableHandle
) -> None:
    gone = await drop(platform)
    await platform.namespaces.drop(ANONYMOUS, "default", NS)
    with pytest.raises(NoSuchNamespace, match=r"ns; create it, or restore the table into another one"):
        await undrop(platform, gone)
    await platform.namespaces.create(ANONYMOUS, "default", Namespace(("other",)), {})
    back = await undrop(platform, gone, TableIdent.of("other", "t"))
    assert back.metadata.uuid == table.metadata.uuid


async def test_after_its_time_only_the_row_goes(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore, clock: ManualClock
) -> None:
    assert table.row is not None
    scope = PolicyScope(bucket="default", namespace=NS, table="t")
    await platform.policies.put(ANONYMOUS, scope, "icebergCompaction", {"status": "disabled", "settings": {}})
    await platform.database.write(tags.put, table.row.resource_id, {"team": "a"})
    before = files(memory)
    gone = await drop(platform)
    clock.advance(7 * DAY - 1)
    assert await platform.drops.forget_expired() == 0
    clock.advance(1)
    assert await platform.drops.forget_expired() == 1
    assert await platform.drops.forget_expired() == 0
    assert files(memory) == before
    assert await platform.database.read(tags.of, table.row.resource_id) == {}
    with pytest.raises(NotFound):
        await undrop(platform, gone)
    back = await register(platform, T, gone.metadata_location)
    assert back.metadata.uuid == table.metadata.uuid
    with pytest.raises(NotFound):
        await platform.policies.get(ANONYMOUS, scope, "icebergCompaction")


async def test_many_are_forgotten_in_batches(
    platform: Platform, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catalog_server.services.drops._EXPIRED_AT_ONCE", 2)
    for n in range(5):
        await create(platform, TableIdent(NS, f"t{n}"))
        await drop(platform, TableIdent(NS, f"t{n}"))
    clock.advance(8 * DAY)
    assert await platform.drops.forget_expired() == 5
    assert await listed(platform) == []


async def test_nothing_is_kept_where_the_settings_say_so(start: Starter, platform: Platform) -> None:
    async with start(**{"drops.keep_days": 0}) as brief:
        made = await create(brief, T)
        assert await brief.tables.drop(ANONYMOUS, "default", T) is None
        assert await listed(brief) == []
        await register(brief, T, str(made.metadata_location))
        purged = await brief.tables.purge(ANONYMOUS, "default", T)
        assert await listed(brief) == [purged]


async def test_pages_come_with_the_last_dropped_first(platform: Platform, clock: ManualClock) -> None:
    await platform.namespaces.create(ANONYMOUS, "default", Namespace(("other",)), {})
    for ident in (T, U, T, TableIdent.of("other", "t"), U):
        await create(platform, ident)
        await drop(platform, ident)
        if ident != U:
            clock.advance(1)
    seen: list[str] = []
    token: str | None = ""
    while token is not None:
        page = await platform.drops.list(ANONYMOUS, "default", DropFilter(), PageRequest(token=token, size=2))
        seen += [str(row.ident) for row in page.items]
        token = page.next_token
    assert seen == ["ns.u", "other.t", "ns.t", "ns.u", "ns.t"]
    assert [str(row.ident) for row in await listed(platform, namespace=NS, name="t")] == ["ns.t", "ns.t"]
    with pytest.raises(Invalid):
        await platform.drops.list(ANONYMOUS, "default", DropFilter(), PageRequest(token="x", size=2))


async def test_unregister_leaves_no_dropped_table(platform: Platform, table: TableHandle) -> None:
    await platform.tables.unregister(ANONYMOUS, "default", T)
    assert await listed(platform) == []


@pytest.mark.parametrize("purge", [False, True])
async def test_registering_a_dropped_tables_metadata_takes_it_over(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore, purge: bool
) -> None:
    assert table.row is not None
    before = files(memory)
    await drop(platform, purge=purge)
    back = await register(platform, U, str(table.metadata_location))
    assert back.row is not None
    assert (back.row.id, back.row.resource_id) == (table.row.id, table.row.resource_id)
    assert await listed(platform) == []
    assert await work(platform) == 0
    assert files(memory) == before
    await commit(platform, U, *append(back.metadata, 1))


async def test_registering_over_a_table_takes_the_dropped_row_with_it(
    platform: Platform, table: TableHandle
) -> None:
    await drop(platform)
    second = await create(platform, T)
    back = await register(platform, T, str(table.metadata_location), overwrite=True)
    assert back.row is not None
    assert second.row is not None
    assert back.row.resource_id == second.row.resource_id
    assert await listed(platform) == []


async def test_purge_deletes_by_the_metadata_it_was_dropped_with_and_is_listed_until_then(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore, clock: ManualClock
) -> None:
    other = await create(platform, U)
    clock.advance(3600)
    memory.put(f"{table.metadata.location}/data/stray", b"x")
    clock.advance(3600)
    gone = await drop(platform, purge=True)
    assert (gone.expires_at_ms, gone.purge_state) == (None, "queued")
    assert [row.purge_job_id for row in await listed(platform)] == [gone.purge_job_id]
    again = await platform.drops.purge(ANONYMOUS, "default", gone.resource_id)
    assert again.purge_job_id == gone.purge_job_id
    assert await work(platform) == 1
    assert files(memory) == [other.metadata_location]
    assert await listed(platform) == []
    (job,) = await jobs_of(platform, kind="tablePurge")
    assert job.state is JobState.DONE


async def test_a_purge_leaves_the_files_of_a_table_that_is_just_being_made_at_its_place(
    platform: Platform, memory: MemoryObjectStore, clock: ManualClock
) -> None:
    """As Spark replaces a table: DROP TABLE t PURGE; CREATE TABLE t LOCATION ... AS SELECT, which is staged."""
    first = await create(platform, T, location=PLACE)
    clock.advance(3600)
    await drop(platform, purge=True)
    early = f"{PLACE}/data/of-the-new-one.parquet"
    clock.advance(1)
    memory.put(early, b"x")
    assert await work(platform) == 1
    assert files(memory) == [early]
    await create(platform, T, location=PLACE)
    assert early in files(memory)
    assert first.metadata_location not in files(memory)


@pytest.mark.parametrize("how", ["forgotten", "unregistered"])
async def test_a_purge_leaves_the_files_of_a_table_that_left_the_place_before(
    platform: Platform, memory: MemoryObjectStore, clock: ManualClock, how: str
) -> None:
    """They stay when a table is forgotten or handed over, also where another one is made and purged later."""
    first = await create(platform, T, location=PLACE)
    data = f"{PLACE}/data/1.parquet"
    memory.put(data, b"x")
    if how == "forgotten":
        await drop(platform)
        clock.advance(8 * DAY)
        assert await platform.drops.forget_expired() == 1
    else:
        await platform.tables.unregister(ANONYMOUS, "default", T)
    await create(platform, T, location=PLACE)
    clock.advance(3600)
    await drop(platform, purge=True)
    assert await work(platform) == 1
    assert files(memory) == sorted([data, str(first.metadata_location)])


async def test_a_purge_asked_for_again_of_what_was_restored_never_goes_by_older_metadata(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    before = await drop(platform, purge=True)
    assert before.purge_job_id is not None
    await undrop(platform, before)
    await platform.jobs.retry(ANONYMOUS, before.purge_job_id)
    kept = await commit(platform, T, [], [{"action": "set-properties", "updates": {"gc.enabled": "false"}}])
    with pytest.raises(CommitFailed, match=f"job {before.purge_job_id} is queued to purge .* or cancel it"):
        await drop(platform, purge=True)
    assert await work(platform) == 1  # it finds nothing to do
    assert (await platform.tables.load(ANONYMOUS, "default", T)).metadata_location == kept.metadata_location
    await drop(platform, purge=True)
    assert await work(platform) == 1
    assert kept.metadata_location in files(memory)


async def test_a_purge_that_has_not_begun_is_called_off_by_undrop(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    before = files(memory)
    gone = await drop(platform, purge=True)
    back = await undrop(platform, gone)
    assert back.metadata.uuid == table.metadata.uuid
    assert await work(platform) == 0
    assert files(memory) == before
    (job,) = await jobs_of(platform, kind="tablePurge")
    assert job.report is not None
    assert job.report["reason"] == "the table was restored before the purge began"


async def test_a_purge_that_has_begun_can_not_be_called_off(
    platform: Platform, table: TableHandle, clock: ManualClock
) -> None:
    gone = await drop(platform, purge=True)
    claimed = await platform.jobs.claim("worker", tuple(JobKind), 1000)
    assert claimed is not None
    refused = (
        lambda: undrop(platform, gone),
        lambda: platform.drops.forget(ANONYMOUS, "default", gone.resource_id),
        lambda: register(platform, T, gone.metadata_location),
    )
    for call in refused:
        with pytest.raises(CommitFailed, match="its files are being deleted by job"):
            await call()
    # Files may be gone by now, also when the job failed for good: it can only be purged again, or forgotten.
    await platform.jobs.fail(claimed.id, claimed.lease_token, "no", None)
    with pytest.raises(CommitFailed, match="has begun to delete its files"):
        await undrop(platform, gone)
    again = await platform.drops.purge(ANONYMOUS, "default", gone.resource_id)
    assert again.purge_job_id != gone.purge_job_id
    with pytest.raises(CommitFailed):
        await undrop(platform, gone)
    assert await work(platform) == 1
    assert await listed(platform) == []


async def test_a_dropped_table_can_be_purged_later(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore, clock: ManualClock
) -> None:
    gone = await drop(platform)
    await platform.drops.purge(ANONYMOUS, "default", gone.resource_id)
    clock.advance(30 * DAY)
    assert await platform.drops.forget_expired() == 0
    assert await work(platform) == 1
    assert files(memory) == []


async def test_a_dropped_table_without_its_metadata_is_not_restored(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    gone = await drop(platform)
    at = gone.metadata_location
    other = TableMetadata({**table.metadata.document, "table-uuid": "b" * 36})
    memory.put(at, other.to_bytes())
    with pytest.raises(CommitFailed, match="was written over by a table of the uuid b"):
        await undrop(platform, gone)
    memory.delete_many([at])
    with pytest.raises(NoSuchFile, match=f"its metadata file {at} is gone"):
        await undrop(platform, gone)
    assert [row.ident for row in await listed(platform)] == [T]


async def test_a_table_made_at_a_dropped_ones_place_keeps_it_from_coming_back_while_it_is_there(
    platform: Platform, memory: MemoryObjectStore
) -> None:
    first = await create(platform, T, location=PLACE)
    gone = await drop(platform)
    second = await create(platform, T, location=PLACE)
    with pytest.raises(AlreadyExists, match=f"Location {PLACE} overlaps"):
        await undrop(platform, gone, U)
    with pytest.raises(CommitFailed, match="can not be purged: a table lies at"):
        await platform.drops.purge(ANONYMOUS, "default", gone.resource_id)
    await drop(platform, purge=True)
    assert await work(platform) == 1
    assert first.metadata_location in files(memory)
    assert second.metadata_location not in files(memory)
    back = await undrop(platform, gone)
    assert back.metadata.uuid == first.metadata.uuid
    assert second.metadata.uuid != first.metadata.uuid


async def test_a_purge_spares_a_dropped_table_whose_own_purge_was_cancelled_before_it_began(
    platform: Platform, memory: MemoryObjectStore
) -> None:
    """It can be had back, so what the other took of its files (by add_files, or here: its snapshots) stays."""
    first = await create(platform, T, location=PLACE)
    gone = await drop(platform, purge=True)
    assert gone.purge_job_id is not None
    await platform.jobs.cancel(ANONYMOUS, gone.purge_job_id)
    await create(platform, T, location=PLACE)
    shared = f"{PLACE}/metadata/of-both.puffin"
    memory.put(shared, b"x")
    entry = {
        "snapshot-id": 1,
        "statistics-path": shared,
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    await commit(platform, T, [], [{"action": "set-statistics", "snapshot-id": 1, "statistics": entry}])
    dropped_metadata = TableMetadata({**first.metadata.document, "statistics": [entry]})
    memory.put(str(first.metadata_location), dropped_metadata.to_bytes())
    await drop(platform, purge=True)
    assert await work(platform) == 1
    assert files(memory) == sorted([str(first.metadata_location), shared])
    back = await undrop(platform, gone)
    assert back.metadata.uuid == first.metadata.uuid


async def test_a_purge_never_takes_files_of_a_table_that_was_forgotten_at_the_same_place(
    platform: Platform, memory: MemoryObjectStore, clock: ManualClock
) -> None:
    """Dropped without purge, a table's files stay, whatever becomes of later ones at its place; and the other way."""
    first = await create(platform, T, location=PLACE)
    await drop(platform)
    second = await create(platform, T, location=PLACE)
    clock.advance(8 * DAY)
    assert await platform.drops.forget_expired() == 1
    await drop(platform, purge=True)
    assert await work(platform) == 1
    assert files(memory) == [first.metadata_location]

    await register(platform, T, str(first.metadata_location))
    gone = await drop(platform)
    third = await create(platform, T, location=PLACE)
    later = await drop(platform)
    await platform.drops.forget(ANONYMOUS, "default", later.resource_id)
    await platform.drops.purge(ANONYMOUS, "default", gone.resource_id)
    assert await work(platform) == 1
    assert files(memory) == [third.metadata_location]
    assert second.metadata_location not in files(memory)


async def test_what_dropped_tables_need_is_out_of_bounds_for_the_clean_up_of_others(
    platform: Platform, memory: MemoryObjectStore
) -> None:
    first = await create(platform, T, location=PLACE)
    gone = await drop(platform)
    inner = await create(platform, U, location=f"{PLACE}/inner")
    stray, needed = f"{PLACE}/inner/data/stray", f"{PLACE}/inner/data/needed.puffin"
    for path in (stray, needed):
        memory.put(path, b"x")
    statistics = {
        "snapshot-id": 1,
        "statistics-path": needed,
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    last = TableMetadata({**first.metadata.document, "statistics": [statistics]})
    memory.put(gone.metadata_location, last.to_bytes())
    await platform.jobs.request(ANONYMOUS, "default", U, "icebergUnreferencedFileRemoval", dry_run=False)
    assert await work(platform) == 1
    (job,) = await jobs_of(platform, table="u", kind="icebergUnreferencedFileRemoval")
    assert job.report is not None
    # The file of nobody alone is unreferenced, and too young to be noted.
    figures = job.report["figures"]
    assert (figures["filesListed"], figures["filesTooYoung"], figures["filesMarked"]) == (3, 1, 0)
    assert stray in files(memory)
    assert inner.metadata_location in files(memory)
    other = await create(platform, T)
    (strange,) = [f"{PLACE}/data/x.puffin"]
    entry = {
        "snapshot-id": 1,
        "statistics-path": strange,
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    with pytest.raises(AlreadyExists, match="lies in the location of another dropped table"):
        await commit(platform, T, [], [{"action": "set-statistics", "snapshot-id": 1, "statistics": entry}])
    await platform.drops.forget(ANONYMOUS, "default", gone.resource_id)
    assert first.metadata.location != other.metadata.location


async def test_protected_tables_refuse_to_go_through_every_way(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    assert table.row is not None
    row = await platform.all_tables.protect(ANONYMOUS, "default", T, protected=True)
    assert row.protected
    other = await create(platform, U)
    calls = (
        platform.tables.drop(ANONYMOUS, "default", T),
        platform.tables.purge(ANONYMOUS, "default", T),
        platform.tables.unregister(ANONYMOUS, "default", T),
        register(platform, T, str(other.metadata_location), overwrite=True),
    )
    await platform.tables.unregister(ANONYMOUS, "default", U)
    for call in calls:
        with pytest.raises(Forbidden, match=r"Table ns\.t is protected"):
            await call
    await commit(platform, T, *append(table.metadata, 1))
    await platform.tables.rename(ANONYMOUS, "default", T, U)
    with pytest.raises(Forbidden):
        await platform.tables.drop(ANONYMOUS, "default", U)
    stale = protection_tag(table.row)
    with pytest.raises(VersionConflict):
        await platform.all_tables.protect(ANONYMOUS, "default", U, protected=False, if_match=stale)
    await platform.all_tables.protect(ANONYMOUS, "default", U, protected=False, if_match=protection_tag(row))
    back = await undrop(platform, await drop(platform, U))
    assert back.row is not None
    assert not back.row.protected


async def test_a_drop_of_another_version_is_refused(platform: Platform, table: TableHandle) -> None:
    assert table.row is not None
    await commit(platform, T, *append(table.metadata, 1))
    for remove in (platform.tables.drop, platform.tables.purge):
        with pytest.raises(VersionConflict):
            await remove(ANONYMOUS, "default", T, if_version=table.row.version)
    await platform.tables.drop(ANONYMOUS, "default", T, if_version=table.row.version + 1)


async def _whole(platform: Platform, memory: MemoryObjectStore, resource_id: str, made: list[str]) -> str:
    """What became of the table, which must be one thing and nothing of another."""
    rows = [row for row in await listed(platform) if row.resource_id == resource_id]
    every = (await platform.tables.list_all(ANONYMOUS, "default", None)).items
    alive = [row for row in every if row.resource_id == resource_id]
    assert len(rows) + len(alive) <= 1
    queued = await jobs_of(platform, kind="tablePurge", states=("queued",))
    wanted = [job for job in queued if job.payload.get("resource_id") == resource_id]
    if not rows:
        assert wanted == []
    if rows and rows[0].purge_job_id is not None:
        assert [job.id for job in wanted] == [rows[0].purge_job_id]
    for row in alive:
        loaded = await platform.tables.load(ANONYMOUS, "default", row.ident)
        assert loaded.metadata_location in files(memory)
    if not (rows and rows[0].purge_job_id):
        assert set(made) <= set(files(memory))
    return "alive" if alive else "forgotten" if not rows else "purged" if wanted else "dropped"


@pytest.mark.parametrize("round_", range(3))
async def test_whatever_is_asked_at_the_same_time_one_thing_comes_of_it(
    start: Starter, platform: Platform, memory: MemoryObjectStore, round_: int
) -> None:
    made = await create(platform, T)
    assert made.row is not None
    at, resource_id = str(made.metadata_location), made.row.resource_id
    async with start() as second:
        gone = await drop(platform)
        calls: list[Awaitable[Any]] = [
            undrop(platform, gone),
            undrop(second, gone, U),
            platform.drops.purge(ANONYMOUS, "default", resource_id),
            second.drops.purge(ANONYMOUS, "default", resource_id),
            second.drops.forget(ANONYMOUS, "default", resource_id),
            register(second, T, at),
            register(platform, U, at),
            platform.tables.drop(ANONYMOUS, "default", T),
            second.tables.purge(ANONYMOUS, "default", U),
            create(second, T),
            platform.namespaces.drop(ANONYMOUS, "default", NS),
        ]
        shift = 4 * round_
        await outcomes(*calls[shift:], *calls[:shift])
        await _whole(platform, memory, resource_id, [at])
        became = await _whole(second, memory, resource_id, [at])
        await work(second)
        left = at in files(memory)
        assert left is (became != "purged")
        assert [row.purge_job_id for row in await listed(platform)].count(None) == len(await listed(platform))


@pytest.mark.parametrize("round_", range(3))
async def test_undrop_beside_a_purge_that_is_being_claimed(
    start: Starter, platform: Platform, memory: MemoryObjectStore, round_: int
) -> None:
    made = await create(platform, T)
    at = str(made.metadata_location)
    async with start() as second:
        gone = await drop(platform, purge=True)
        restoring = undrop(platform, gone)
        claiming = second.jobs.claim("w", tuple(JobKind), 60_000)
        if round_ == 1:
            claimed, back = await outcomes(claiming, restoring)
        else:
            back, claimed = await outcomes(restoring, claiming)
        if isinstance(back, TableHandle):
            assert claimed is None
            assert await work(second) == 0
            assert at in files(memory)
        else:
            assert claimed is not None
            assert isinstance(back, CommitFailed)


async def test_maint_A14_a_drop_with_purge_beside_commits_takes_all_that_was_committed(
    start: Starter, platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    """A commit is before the drop, and goes with it, or after it, and is refused and leaves nothing."""
    async with start() as second:

        async def commits(server: Platform) -> int:
            done = 0
            for n in range(50):
                try:
                    await commit(server, T, [], [{"action": "set-properties", "updates": {"n": str(n)}}])
                except NoSuchTable:
                    break
                done += 1
            return done

        async def dropped_after_some() -> DroppedRow:
            while (await platform.tables.row(ANONYMOUS, "default", T)).version < 5:
                await asyncio.sleep(0)
            return await drop(second, purge=True)

        first, other, gone = await outcomes(commits(platform), commits(second), dropped_after_some())
        assert gone.version == 1 + first + other
        (job,) = await jobs_of(platform, kind="tablePurge")
        assert job.payload["metadata_location"] == gone.metadata_location
        assert gone.metadata_location in files(memory)
        assert await work(platform) == 1
        assert files(memory) == []


@pytest.mark.parametrize("purge", [True, False])
@pytest.mark.parametrize("claimed_before", [True, False])
async def test_maint_A8_the_base_is_dropped_and_the_new_table_takes_its_name(
    platform: Platform, memory: MemoryObjectStore, clock: ManualClock, purge: bool, claimed_before: bool
) -> None:
    """As engines replace a table: make another of its rows, drop it, give the other its name. The other stays whole."""

    def made(ident: TableIdent) -> Lake:
        lake = Lake(
            memory, catalog=catalog, ident=ident, clock=clock, ids=SystemIds(), first_file=1000 * (ident == U)
        )
        for n in range(3):
            lake.append_rows({"id": n, "name": "a"})
        return lake

    catalog = platform.catalog("default")
    base = await asyncio.to_thread(made, T)
    new = await asyncio.to_thread(made, U)
    place, old_place = [
        (await platform.tables.load(ANONYMOUS, "default", ident)).metadata.location for ident in (U, T)
    ]
    for kind in (
        "icebergSnapshotManagement",
        "icebergUnreferencedFileRemoval",
    ):  # of the old table, by its name
        await platform.jobs.request(ANONYMOUS, "default", T, kind, dry_run=False)
    gone = await drop(platform, T, purge=purge)
    if claimed_before:
        await work(platform)
    await platform.tables.rename(ANONYMOUS, "default", U, T)
    before = files(memory, place)
    clock.advance(10 * DAY)
    await work(platform)
    for kind in ("icebergCompaction", "icebergSnapshotManagement", "icebergUnreferencedFileRemoval"):
        await platform.jobs.request(ANONYMOUS, "default", T, kind, dry_run=False)
        await work(platform)
    new.ident = T
    assert await asyncio.to_thread(new.rows) == [{"id": n, "name": "a"} for n in range(3)]
    needed = {task.entry.data_file.file_path for task in await asyncio.to_thread(new.tasks)}
    assert needed <= set(files(memory, place))
    assert before
    if purge:
        assert files(memory, old_place) == []
    else:
        back = await undrop(platform, gone, U)
        base.ident = U
        assert back.metadata.location == old_place
        assert len(await asyncio.to_thread(base.rows)) == 3


async def test_a_bucket_with_dropped_tables_is_not_empty(platform: Platform) -> None:
    await platform.buckets.create(ANONYMOUS, "other")
    await platform.namespaces.create(ANONYMOUS, "other", NS, {})
    spec = TableSpec(schema=SCHEMA, properties={})
    await platform.tables.create(ANONYMOUS, "other", T, spec)
    gone = await platform.tables.drop(ANONYMOUS, "other", T)
    assert gone is not None
    await platform.namespaces.drop(ANONYMOUS, "other", NS)
    with pytest.raises(BucketNotEmpty, match=r"dropped table ns\.t can still be restored"):
        await platform.buckets.delete(ANONYMOUS, "other")
    await platform.drops.forget(ANONYMOUS, "other", gone.resource_id)
    await platform.buckets.delete(ANONYMOUS, "other")


async def test_a_dropped_rows_index_finds_it(platform: Platform, table: TableHandle) -> None:
    gone = await drop(platform)
    found = await platform.database.read(dropped.by_uuid, gone.bucket_id, gone.table_uuid)
    assert found == gone
    assert await platform.database.read(dropped.any_of, gone.bucket_id) == gone
