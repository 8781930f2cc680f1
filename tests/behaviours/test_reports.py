"""Metrics reports on every kind of database: batches, bounds, pages."""

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.paging import PageRequest
from catalog_server.services.principals import ANONYMOUS
from table_format.errors import Invalid, NoSuchTable
from table_format.ident import TableIdent
from tests.factories.platforms import Starter, create

pytestmark = pytest.mark.anyio

T, U = TableIdent.of("ns", "t"), TableIdent.of("ns", "u")


async def report(platform: Platform, ident: TableIdent, number: int, kind: str = "scan-report") -> None:
    text = f'{{"n": {number}}}'
    await platform.reports.accept(ANONYMOUS, "default", ident, (kind, number, text))


async def listed(
    platform: Platform, ident: TableIdent, kind: str | None = None, size: int = 100
) -> list[int | None]:
    numbers, token = [], ""
    while True:
        page = await platform.reports.list(
            ANONYMOUS, "default", ident, kind, PageRequest(token=token, size=size)
        )
        numbers += [row.snapshot_id for row in page.items]
        if page.next_token is None:
            return numbers
        token = page.next_token


async def test_reports_of_several_tables_and_processes(platform: Platform, start: Starter) -> None:
    await create(platform, T)
    await create(platform, U)
    async with start(**{"reports.per_table": 5}) as second:
        for number in range(12):
            kind = ("scan-report", "commit-report")[number % 2]
            await report((platform, second)[number % 2], (T, U)[number % 3 == 0], number, kind)
        await platform.reports.flush()
        assert await listed(second, U, size=2) == [9, 3, 6, 0]
    of_two = await listed(platform, T, size=3)
    assert len(of_two) == 5
    assert {number for number in of_two if number is not None and number % 2} == {1, 5, 7, 11}
    assert await listed(platform, U, "scan-report") == [6, 0]


async def test_the_largest_snapshot_id_is_kept(platform: Platform) -> None:
    await create(platform, T)
    await report(platform, T, 2**63 - 1)
    await report(platform, T, -(2**63))
    assert await listed(platform, T) == [-(2**63), 2**63 - 1]


async def test_reports_of_a_dropped_table_do_not_hold_up_the_others(platform: Platform) -> None:
    await create(platform, T)
    await create(platform, U)
    await report(platform, T, 1)
    await report(platform, U, 2)
    await platform.tables.drop(ANONYMOUS, "default", T)
    assert await listed(platform, U) == [2]
    with pytest.raises(NoSuchTable):
        await listed(platform, T)
    with pytest.raises(NoSuchTable):
        await report(platform, T, 3)


async def test_tokens_belong_to_their_listing(platform: Platform) -> None:
    await create(platform, T)
    for number in range(3):
        await report(platform, T, number)
    first = await platform.reports.list(ANONYMOUS, "default", T, None, PageRequest(size=1))
    assert first.next_token is not None
    with pytest.raises(Invalid):
        await platform.reports.list(ANONYMOUS, "default", T, "x", PageRequest(token=first.next_token, size=1))
