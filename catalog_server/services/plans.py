"""Scan plans: made when asked for, kept in the database page by page position, gone after their time.

A plan is of the snapshot that was current when it was asked for. Any server process can answer for it: the row says
what is scanned and where its pages begin, and a page is computed when it is fetched.
"""

import asyncio
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from catalog_server.services.handles import TableHandle
from catalog_server.services.plan_background import LEASE_MS, Background
from catalog_server.services.plan_places import PlanPlaces
from catalog_server.services.plan_scan import Scan, fixed, live_files
from catalog_server.services.plan_work import Outcome, PlanJob, Span
from catalog_server.services.principals import Principal
from catalog_server.services.tables import TableService
from catalog_server.store import plans as rows
from catalog_server.store.engine import Database
from catalog_server.store.plans import PlanRow, PlanState
from catalog_server.telemetry import PLANS
from table_format.clock import Clock, Ids
from table_format.errors import Internal, NoSuchFile, NoSuchPlan, NoSuchPlanTask
from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject

_TOKEN = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-([0-9]{1,7})")
# Where nothing is left to fetch, a plan is only kept so that it can be asked about and cancelled.
_ANSWERED_LIFETIME_MS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimits:
    """Sizes of pages, and times."""

    page_files: int
    page_bytes: int
    wait_seconds: float
    lifetime_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """A plan as it stands.

    `tasks` are the scan tasks that come with it, as JSON members; `tokens` name the pages that are to be fetched.
    """

    id: str
    state: PlanState
    tasks: bytes = b""
    tokens: Sequence[str] = ()
    error: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """One page: its scan tasks as JSON members, and the pages that only showed with it."""

    tasks: bytes
    tokens: Sequence[str]


class PlanService:
    """Use-cases on scan plans."""

    def __init__(
        self,
        database: Database,
        tables: TableService,
        places: PlanPlaces,
        threads: Executor,
        time_and_ids: tuple[Clock, Ids],
        limits: PlanLimits,
    ) -> None:
        self._database = database
        self._tables = tables
        self._places = places
        self._threads = threads
        self._clock, self._ids = time_and_ids
        self._limits = limits
        self._background = Background(database, self._clock)

    async def submit(
        self, principal: Principal, bucket: str, ident: TableIdent, request: JsonObject
    ) -> PlanView:
        """Plan a scan; completed if that is done within the time a client waits.

        `request` is a PlanTableScanRequest whose members have the right types.

        Raises:
            NoSuchTable: there is none.
            Invalid: snapshots, columns or filter can not be, or a manifest lies outside of the bucket.
            NoSuchFile: a manifest is gone.
            Unavailable: too many plan already, or planning was cut short; try again.
        """
        handle = await self._tables.load(principal, bucket, ident)
        within = await self._tables.bucket_location(bucket)
        scan = await asyncio.get_running_loop().run_in_executor(
            self._threads, fixed, handle.metadata, request
        )
        plan_id = self._ids.uuid()
        files = live_files(handle.metadata, scan.request)
        work = asyncio.get_running_loop().create_task(self._places.run(self._job(scan, None, within), files))
        try:
            await asyncio.wait({work}, timeout=self._limits.wait_seconds)
            if work.done():
                return await self._completed(plan_id, handle, scan, work.result())
            row = await self._packed(plan_id, handle, scan, self._limits.lifetime_ms)
            await self._database.write(rows.add, row, self._clock.now_ms())
        except BaseException:
            work.cancel()
            raise
        self._background.see_through(plan_id, work)
        PLANS.labels(PlanState.SUBMITTED.value).inc()
        return PlanView(id=plan_id, state=PlanState.SUBMITTED)

    async def result(self, principal: Principal, bucket: str, ident: TableIdent, plan_id: str) -> PlanView:
        """A plan as it stands; if completed, all its pages are there to be fetched.

        Raises:
            NoSuchTable: there is none.
            NoSuchPlan: the table has no such plan, or it is expired.
        """
        row = await self._row(principal, bucket, ident, plan_id)
        if row.state is PlanState.SUBMITTED and await self._background.claim(row):
            within = await self._tables.bucket_location(bucket)
            job = self._job(Scan.unpack(row.scan), None, within)
            work = asyncio.get_running_loop().create_task(self._places.run(job, None))
            self._background.see_through(row.id, work)
        tokens = _tokens(row.id, range(rows.first_pages(row.pages)))
        return PlanView(id=row.id, state=row.state, tokens=tokens, error=row.error)

    async def cancel(self, principal: Principal, bucket: str, ident: TableIdent, plan_id: str) -> None:
        """Give up a plan and its pages; to do so twice is no error.

        Raises:
            NoSuchTable: there is none.
            NoSuchPlan: the table has no such plan, or it is expired.
        """
        row = await self._row(principal, bucket, ident, plan_id)
        await self._database.write(rows.cancel, row.id)
        self._background.stop(row.id)

    async def page(self, principal: Principal, bucket: str, ident: TableIdent, token: str) -> PageView:
        """One page of a plan.

        Raises:
            NoSuchTable: there is none.
            NoSuchPlanTask: the table has no plan with such a page, it is expired or cancelled, or the scanned
                snapshot's manifests are gone.
            Unavailable: too many plan already, or planning was cut short; try again.
        """
        row, number = await self._page_row(principal, bucket, ident, token)
        scan = Scan.unpack(row.scan)
        within = await self._tables.bucket_location(bucket)
        try:
            outcome = await self._places.run(self._job(scan, row.pages[number], within), None)
        except NoSuchFile as error:
            raise NoSuchPlanTask(
                f"the scanned snapshot was expired meanwhile, plan the scan again: {error.message}"
            ) from None
        further = outcome.pages[outcome.answered :]
        numbers: list[int] | None = []
        if further:
            numbers = await self._database.write(rows.append_pages, row.id, further, self._clock.now_ms())
        if numbers is None:
            raise _no_page(token)
        return PageView(tasks=outcome.tasks, tokens=_tokens(row.id, numbers))

    async def forget_expired(self) -> int:
        """Delete the plans whose time is over; how many."""
        return await self._database.write(rows.forget_expired, self._clock.now_ms())

    async def close(self) -> None:
        """Leave what is being planned to other processes, and end those of our own."""
        await self._background.close()
        await self._places.close()

    async def _row(self, principal: Principal, bucket: str, ident: TableIdent, plan_id: str) -> PlanRow:
        """The plan, if it is one of this very table."""
        table = await self._tables.pointer(principal, bucket, ident)
        row = await self._database.read(rows.find, plan_id, self._clock.now_ms())
        if row is None or row.table_uuid != table.table_uuid:
            raise NoSuchPlan(
                f"Table {ident} has no scan plan {plan_id}: it was never made, or it has expired"
            )
        return row

    async def _page_row(
        self, principal: Principal, bucket: str, ident: TableIdent, token: str
    ) -> tuple[PlanRow, int]:
        parts = _TOKEN.fullmatch(token)
        try:
            row = await self._row(principal, bucket, ident, parts[1] if parts else "")
        except NoSuchPlan:
            raise _no_page(token) from None
        number = int(parts[2]) if parts else 0
        if row.state is not PlanState.COMPLETED or number >= len(row.pages):
            raise _no_page(token)
        return row, number

    async def _completed(self, plan_id: str, handle: TableHandle, scan: Scan, outcome: Outcome) -> PlanView:
        left = range(outcome.answered, len(outcome.pages))
        lifetime_ms = (
            self._limits.lifetime_ms if left else min(self._limits.lifetime_ms, _ANSWERED_LIFETIME_MS)
        )
        row = await self._packed(plan_id, handle, scan, lifetime_ms)
        row = replace(row, state=PlanState.COMPLETED, pages=outcome.pages)
        await self._database.write(rows.add, row, self._clock.now_ms())
        PLANS.labels(PlanState.COMPLETED.value).inc()
        return PlanView(
            id=plan_id, state=PlanState.COMPLETED, tasks=outcome.tasks, tokens=_tokens(plan_id, left)
        )

    async def _packed(self, plan_id: str, handle: TableHandle, scan: Scan, lifetime_ms: int) -> PlanRow:
        """The row of a submitted plan."""
        packed = await asyncio.get_running_loop().run_in_executor(self._threads, scan.pack)
        now_ms = self._clock.now_ms()
        if handle.row is None:
            raise Internal(f"table {handle.ident} was loaded without its row")
        return PlanRow(
            id=plan_id,
            table_uuid=handle.row.table_uuid,
            state=PlanState.SUBMITTED,
            scan=packed,
            pages=[],
            lease_until_ms=now_ms + LEASE_MS,
            expires_at_ms=now_ms + lifetime_ms,
        )

    def _job(self, scan: Scan, page: Span | None, within: str) -> PlanJob:
        return PlanJob(
            metadata=scan.metadata,
            request=scan.request,
            page=page,
            page_files=self._limits.page_files,
            page_bytes=self._limits.page_bytes,
            within=within,
        )


def _tokens(plan_id: str, numbers: Iterable[int]) -> list[str]:
    return [f"{plan_id}-{number}" for number in numbers]


def _no_page(token: str) -> NoSuchPlanTask:
    return NoSuchPlanTask(
        f"No such plan task: {token[:80]!r}; it belongs to another table, or its plan was cancelled or has expired"
    )
