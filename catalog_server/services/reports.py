"""Metrics reports: taken note of cheaply, kept in batches, given back page by page.

Clients send one after each scan and commit and do not wait for more than a 204. A report is an observation, not
data: it is answered before it is durable, a crash loses the last second of them, and under overload they are
dropped and counted.
"""

import asyncio
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass

import structlog

from catalog_server.services import paging
from catalog_server.services.paging import Page, PageRequest
from catalog_server.services.principals import Principal
from catalog_server.services.tables import TableService
from catalog_server.store import reports as rows
from catalog_server.store.engine import Database
from catalog_server.store.reports import NewReport, ReportRow
from catalog_server.telemetry import METRICS_REPORTS
from table_format.clock import Clock
from table_format.errors import Invalid, TableFormatError
from table_format.ident import TableIdent

__all__ = ["ReportLimits", "ReportRow", "ReportService"]

_log = structlog.get_logger(__name__)

# Those of the specification. Others are kept too, and listed where no type is asked for.
REPORT_TYPES = ("scan-report", "commit-report")

_PAUSE_SECONDS = 1.0
_MOST_WAITING_BYTES = 8 << 20
_BATCH = 500  # reports per unit of work: other writes wait behind it


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLimits:
    """What is kept: so many per table (0: none), and for so long."""

    per_table: int
    kept_ms: int


class ReportService:
    """Use-cases on metrics reports."""

    def __init__(self, database: Database, tables: TableService, clock: Clock, limits: ReportLimits) -> None:
        self._database = database
        self._tables = tables
        self._clock = clock
        self._limits = limits
        self._waiting: list[NewReport] = []
        self._waiting_bytes = 0
        self._writing = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None

    async def accept(
        self, principal: Principal, bucket: str, ident: TableIdent, report: tuple[str, int | None, str]
    ) -> None:
        """Take note of a report (type, snapshot id, JSON text) on a table.

        Raises:
            NoSuchTable: there is no such table.
        """
        row = await self._tables.row(principal, bucket, ident)
        if self._limits.per_table == 0:
            return
        kind, snapshot_id, text = report
        if self._waiting_bytes + len(text) > _MOST_WAITING_BYTES:
            METRICS_REPORTS.labels("dropped").inc()
            return
        self._waiting_bytes += len(text)
        self._waiting.append(
            NewReport(
                table_id=row.id,
                type=kind,
                snapshot_id=snapshot_id,
                text=text,
                received_at_ms=self._clock.now_ms(),
            )
        )
        if self._writer is None:
            # In a context of its own: what it does is not on behalf of this request.
            loop = asyncio.get_running_loop()
            self._writer = loop.create_task(self._write_soon(), context=Context())

    async def list(
        self,
        principal: Principal,
        bucket: str,
        ident: TableIdent,
        report_type: str | None,
        page: PageRequest,
    ) -> Page[ReportRow]:
        """The reports on one table, newest first; those that this process has taken note of included.

        Raises:
            NoSuchTable: there is no such table.
            Invalid: the type is unknown, or the page request is wrong.
        """
        if report_type is not None and report_type not in REPORT_TYPES:
            raise Invalid(f"unknown report type {report_type!r}: use one of {', '.join(REPORT_TYPES)}")
        row = await self._tables.row(principal, bucket, ident)
        await self.flush()

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[ReportRow]:
            if after is not None and not paging.is_number(after[0]):
                raise Invalid("pageToken is not one that this listing gave")
            return await self._database.read(rows.page, row.id, report_type, after, limit)

        listing = f"metrics-reports {row.id} {report_type or ''}"
        return await paging.paged(page, listing, fetch, lambda report: (str(report.id),))

    async def flush(self) -> None:
        """Write what waits; what cannot be written is dropped and counted."""
        async with self._writing:
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            for start in range(0, len(waiting), _BATCH):
                await self._write(waiting[start : start + _BATCH])

    async def forget_expired(self) -> int:
        """Delete the reports whose time is over; how many."""
        return await self._database.write(rows.forget_before, self._clock.now_ms() - self._limits.kept_ms)

    async def close(self) -> None:
        """Write what waits and stop."""
        if self._writer is not None:
            self._writer.cancel()
        await self.flush()

    async def _write_soon(self) -> None:
        await asyncio.sleep(_PAUSE_SECONDS)
        self._writer = None  # whatever comes from here on gets a writer of its own
        await self.flush()

    async def _write(self, batch: Sequence[NewReport]) -> None:
        kept = 0
        try:
            kept = await self._database.write(rows.add, batch, self._limits.per_table)
        except TableFormatError as error:
            _log.warning("metrics_reports_dropped", reports=len(batch), reason=error.message)
        METRICS_REPORTS.labels("kept").inc(kept)
        METRICS_REPORTS.labels("dropped").inc(len(batch) - kept)
