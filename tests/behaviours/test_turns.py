"""Turns on a contended table, on a whole platform: who waits, who does not, and that the swap stays the judge."""

import asyncio
from typing import Any

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.handles import TableHandle
from catalog_server.services.principals import ANONYMOUS
from catalog_server.services.turn_line import LEASE_MOST_SECONDS
from table_format.errors import CommitFailed
from table_format.ident import TableIdent
from tests.factories import commits
from tests.factories.platforms import Starter, create
from tests.fakes.clock import ManualClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> ManualClock:
    """Leases and waits end only when a test says so."""
    return ManualClock()


async def load(platform: Platform, ident: TableIdent, caller: str) -> TableHandle:
    """As the API's loadTable does it."""
    await platform.turns.before_load("default", ident, caller)
    return await platform.tables.load(ANONYMOUS, "default", ident)


async def append(platform: Platform, base: TableHandle, snapshot_id: int, caller: str) -> TableHandle:
    requirements, updates = commits.append(base.metadata, snapshot_id)
    return await platform.commits.commit(
        ANONYMOUS, "default", base.ident, requirements, updates, caller=caller
    )


async def conflict(platform: Platform, stale: TableHandle, *callers: str) -> None:
    """Commits on a base that is no longer the current one."""
    for caller in callers:
        with pytest.raises(CommitFailed):
            await append(platform, stale, 1, caller)


async def settled(*tasks: "asyncio.Task[Any]") -> None:
    """Let everything run that can run without the passing of time."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_loads_of_refused_writers_are_answered_one_after_the_other(
    platform: Platform, table: TableHandle
) -> None:
    await append(platform, table, 10, "first")
    await conflict(platform, table, "a", "b")
    base = await load(platform, table.ident, "a")
    waiting = asyncio.create_task(load(platform, table.ident, "b"))
    await settled(waiting)
    assert not waiting.done()
    new = await append(platform, base, 11, "a")
    # What the waiting client is given is the table as the holder left it: its commit gets in at the first try.
    given = await waiting
    assert given.metadata_location == new.metadata_location
    await append(platform, given, 12, "b")


async def test_readers_are_answered_at_once(platform: Platform, table: TableHandle) -> None:
    new = await append(platform, table, 10, "first")
    await conflict(platform, table, "a", "b")
    await load(platform, table.ident, "a")
    waiting = asyncio.create_task(load(platform, table.ident, "b"))
    await settled(waiting)
    read = await load(platform, table.ident, "reader")
    assert read.metadata_location == new.metadata_location
    assert not waiting.done()
    await append(platform, read, 13, "reader")
    await waiting


async def test_a_holder_that_never_commits_costs_the_others_a_lease(
    platform: Platform, table: TableHandle, clock: ManualClock
) -> None:
    await append(platform, table, 10, "first")
    await conflict(platform, table, "a", "b", "c")
    await load(platform, table.ident, "a")
    second = asyncio.create_task(load(platform, table.ident, "b"))
    third = asyncio.create_task(load(platform, table.ident, "c"))
    await settled(second, third)
    clock.advance(LEASE_MOST_SECONDS)
    await asyncio.wait_for(second, 20)
    assert not third.done()
    clock.advance(LEASE_MOST_SECONDS)
    await asyncio.wait_for(third, 20)


async def test_a_waiting_client_that_goes_away_leaves_the_line_moving(
    platform: Platform, table: TableHandle
) -> None:
    await append(platform, table, 10, "first")
    await conflict(platform, table, "a", "b", "c")
    base = await load(platform, table.ident, "a")
    gone = asyncio.create_task(load(platform, table.ident, "b"))
    await settled(gone)
    last = asyncio.create_task(load(platform, table.ident, "c"))
    await settled(last)
    gone.cancel()
    new = await append(platform, base, 11, "a")
    assert (await asyncio.wait_for(last, 20)).metadata_location == new.metadata_location


async def test_whoever_jumps_the_line_is_judged_like_everybody(
    platform: Platform, table: TableHandle
) -> None:
    await append(platform, table, 10, "first")
    await conflict(platform, table, "a", "b")
    base = await load(platform, table.ident, "a")
    jumper = await load(platform, table.ident, "jumper")
    await append(platform, jumper, 11, "jumper")
    await conflict(platform, base, "a")


async def test_the_switch_turns_it_off(start: Starter, platform: Platform, table: TableHandle) -> None:
    async with start(**{"limits.turn_wait_seconds": 0}) as off:
        await append(off, await load(off, table.ident, "a"), 10, "a")
        await conflict(off, table, "a", "b")
        await load(off, table.ident, "a")
        waiting = asyncio.create_task(load(off, table.ident, "b"))
        await waiting
        assert not off.turns._lines


async def test_turns_on_one_table_do_not_touch_another(platform: Platform, table: TableHandle) -> None:
    other = await create(platform, TableIdent.of("ns", "other"))
    await append(platform, table, 10, "first")
    await conflict(platform, table, "a", "b")
    await load(platform, table.ident, "a")
    assert (await load(platform, other.ident, "b")).ident == other.ident
