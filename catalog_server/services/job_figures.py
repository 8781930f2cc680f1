"""Figures of maintenance jobs for Prometheus, read from the database when they are asked for.

Workers have no door of their own, so the API tells of their jobs: how many are in which state, how long the queue is,
and how long those took that ended since this process started.
"""

from collections import OrderedDict
from typing import Final

import structlog

from catalog_server.store import job_listing as listing
from catalog_server.store.engine import Database
from catalog_server.store.job_rows import JobState
from catalog_server.telemetry import (
    JOB_BYTES,
    JOB_FILES,
    JOB_OUTCOMES,
    JOB_SECONDS,
    JOB_THROTTLED_SECONDS,
    JOBS,
    JOBS_OVERDUE,
    JOBS_WAITING_SECONDS,
)
from maintenance.ports import JobKind
from maintenance.report import Outcome
from table_format.clock import Clock
from table_format.errors import TableFormatError

_log = structlog.get_logger(__name__)

_FRESH_SECONDS: Final = 5.0
"""So long figures are not read again, however often they are asked for."""
_LATE_MS: Final = 60_000
"""The clocks of workers may differ by so much, and a commit may take so long."""
_MOST_ENDED: Final = 10_000
_REMEMBERED: Final = 20_000
_OVERDUE_MS: Final = 3_600_000
_FILES: Final = {
    "filesRewritten": "before",
    "filesWritten": "after",
    "filesDeleted": "deleted",
    "deletedDataFiles": "before",
}
"""What reports call the files they took out, wrote and deleted."""
_BYTES: Final = {
    "bytesRead": "before",
    "bytesWritten": "after",
    "bytesDeleted": "deleted",
    "removedFilesSize": "before",
}


class JobFigures:
    """Keeps the metrics of jobs up to date. For one event loop."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._read_at: float | None = None
        self._started_ms = self._since_ms = clock.now_ms()
        self._told: OrderedDict[tuple[int, int], None] = OrderedDict()

    async def refresh(self) -> None:
        """Read the figures, unless they are fresh; while the database is away they stay as they are."""
        now = self._clock.monotonic()
        if self._read_at is not None and now - self._read_at < _FRESH_SECONDS:
            return
        self._read_at = now
        now_ms = self._clock.now_ms()
        try:
            counts = await self._database.read(listing.counts)
            waiting = await self._database.read(listing.waiting_since, now_ms)
            overdue = await self._database.read(listing.overdue, now_ms - _OVERDUE_MS)
            since_ms = max(self._since_ms - _LATE_MS, self._started_ms)
            ended = await self._database.read(listing.ended_since, since_ms, _MOST_ENDED)
        except TableFormatError as error:
            _log.warning("job_figures_not_read", error=error.message)
            return
        found = {(one.kind, one.state): one.count for one in counts}
        for kind in JobKind:
            for state in JobState:
                JOBS.labels(kind.value, state.value).set(found.get((kind.value, state.value), 0))
            JOBS_OVERDUE.labels(kind.value).set(overdue.get(kind.value, 0))
            since = waiting.get(kind.value)
            JOBS_WAITING_SECONDS.labels(kind.value).set(0 if since is None else max(now_ms - since, 0) / 1000)
        for one in ended:
            self._tell(one)

    def _tell(self, one: listing.Ended) -> None:
        key = (one.id, one.finished_at_ms)
        if key in self._told or one.kind not in set(JobKind):
            return
        self._told[key] = None
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        self._since_ms = max(self._since_ms, one.finished_at_ms)
        JOB_SECONDS.labels(one.kind, one.state).observe(one.milliseconds / 1000)
        report = one.report or {}
        outcome = report.get("outcome") if one.state == JobState.DONE else one.state
        JOB_OUTCOMES.labels(one.kind, outcome if outcome in set(Outcome) else one.state).inc()
        figures = report.get("figures")
        for names, counter in ((_FILES, JOB_FILES), (_BYTES, JOB_BYTES)):
            for name, part in names.items():
                if (number := _number(figures, name)) > 0:
                    counter.labels(one.kind, part).inc(number)
        JOB_THROTTLED_SECONDS.labels(one.kind).inc(_number(figures, "throttledMs") / 1000)


def _number(figures: object, name: str) -> int:
    """A figure of a report; 0 when it has none of that name."""
    number = figures.get(name) if isinstance(figures, dict) else None
    return max(number, 0) if isinstance(number, int) else 0
