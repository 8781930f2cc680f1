"""Rows of scan plans: their ends, their lease, and pages that show up late."""

from dataclasses import replace

import pytest

from catalog_server.store import plans as rows
from catalog_server.store.engine import Database
from catalog_server.store.plans import PlanRow, PlanState

pytestmark = pytest.mark.anyio

NOW = 1_000_000
ROW = PlanRow(
    id="p1",
    table_uuid="u",
    state=PlanState.COMPLETED,
    scan=b"\0scan\xff",
    pages=[[0, 0, 0, 5], [0, 5, 1, None]],
    expires_at_ms=NOW + 10,
)
SUBMITTED = replace(ROW, state=PlanState.SUBMITTED, pages=[], lease_until_ms=NOW + 5)


async def test_a_plan_comes_back_as_it_was(database: Database) -> None:
    await database.write(rows.add, ROW, NOW)
    assert await database.read(rows.find, "p1", NOW) == ROW
    assert await database.read(rows.find, "p2", NOW) is None


async def test_a_plan_is_gone_at_its_time_and_deleted_by_the_next_one(database: Database) -> None:
    await database.write(rows.add, ROW, NOW)
    assert await database.read(rows.find, "p1", NOW + 9) is not None
    assert await database.read(rows.find, "p1", NOW + 10) is None
    await database.write(rows.add, replace(ROW, id="p2", expires_at_ms=NOW + 99), NOW + 10)
    assert await database.read(rows.find, "p1", 0) is None
    assert await database.read(rows.find, "p2", 0) is not None


async def test_expired_plans_are_swept_away(database: Database) -> None:
    await database.write(rows.add, ROW, NOW)
    await database.write(rows.add, replace(ROW, id="p2", expires_at_ms=NOW + 20), NOW)
    assert await database.write(rows.forget_expired, NOW + 9) == 0
    assert await database.write(rows.forget_expired, NOW + 10) == 1
    assert await database.read(rows.find, "p1", 0) is None
    assert await database.read(rows.find, "p2", 0) is not None


async def test_only_a_plan_whose_lease_ran_out_is_taken_over_and_only_once(database: Database) -> None:
    await database.write(rows.add, SUBMITTED, NOW)
    assert not await database.write(rows.take, "p1", NOW + 4, NOW + 50)
    assert await database.write(rows.take, "p1", NOW + 5, NOW + 50)
    assert not await database.write(rows.take, "p1", NOW + 5, NOW + 50)
    await database.write(rows.add, replace(ROW, id="done"), NOW)
    assert not await database.write(rows.take, "done", NOW + 5, NOW + 50)


async def test_a_lease_is_renewed_while_the_plan_is_wanted(database: Database) -> None:
    await database.write(rows.add, SUBMITTED, NOW)
    assert await database.write(rows.renew, "p1", NOW + 30)
    found = await database.read(rows.find, "p1", NOW)
    assert found is not None
    assert found.lease_until_ms == NOW + 30
    await database.write(rows.cancel, "p1")
    assert not await database.write(rows.renew, "p1", NOW + 60)


async def test_a_submitted_plan_is_completed_or_failed(database: Database) -> None:
    await database.write(rows.add, SUBMITTED, NOW)
    await database.write(rows.finish, "p1", [[0, 0, 0, None]], None)
    found = await database.read(rows.find, "p1", NOW)
    assert found == replace(SUBMITTED, state=PlanState.COMPLETED, pages=[[0, 0, 0, None]])
    await database.write(rows.add, replace(SUBMITTED, id="p2"), NOW)
    error = {"message": "m", "type": "t", "code": 400}
    await database.write(rows.finish, "p2", [], error)
    found = await database.read(rows.find, "p2", NOW)
    assert found == replace(SUBMITTED, id="p2", state=PlanState.FAILED, error=error)


async def test_a_cancelled_plan_is_not_completed_by_whoever_still_works_on_it(database: Database) -> None:
    await database.write(rows.add, SUBMITTED, NOW)
    await database.write(rows.cancel, "p1")
    await database.write(rows.finish, "p1", [[0, 0, 0, None]], None)
    found = await database.read(rows.find, "p1", NOW)
    assert found == replace(SUBMITTED, state=PlanState.CANCELLED, scan=b"")


async def test_late_pages_get_numbers_and_keep_them(database: Database) -> None:
    await database.write(rows.add, ROW, NOW)
    late = [[0, 0, 0, 2], [0, 2, 0, 5]]
    assert await database.write(rows.append_pages, "p1", late, NOW) == [2, 3]
    assert await database.write(rows.append_pages, "p1", late, NOW) == [2, 3]
    assert await database.write(rows.append_pages, "p1", [late[1], [0, 2, 0, 3]], NOW) == [3, 4]
    found = await database.read(rows.find, "p1", NOW)
    assert found is not None
    assert found.pages == [*ROW.pages, *late, [0, 2, 0, 3]]


async def test_a_plan_that_ended_takes_no_more_pages(database: Database) -> None:
    await database.write(rows.add, ROW, NOW)
    assert await database.write(rows.append_pages, "p1", [[9, 9, 9, 9]], NOW + 10) is None
    await database.write(rows.cancel, "p1")
    assert await database.write(rows.append_pages, "p1", [[9, 9, 9, 9]], NOW) is None
    assert await database.write(rows.append_pages, "p2", [[9, 9, 9, 9]], NOW) is None
