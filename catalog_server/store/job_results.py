"""How the last runs of maintenance on one table ended."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from catalog_server.store.jobs import JobState
from catalog_server.store.schema import jobs
from maintenance.report import Outcome
from table_format.jsontypes import JsonObject

_LOOKED_AT = 20
"""Ends of runs; one at most is put off for each window of quiet hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """One run that has ended."""

    failed: bool
    finished_at_ms: int
    error: str | None
    report: JsonObject | None


def last(connection: Connection, table_uuid: str, kind: str) -> JobResult | None:
    """The last run of that kind to end on the table; None before the first.

    Dry runs are left aside, and runs that were put off, by quiet hours, before they began.
    """
    ended = connection.execute(
        select(jobs.c.state, jobs.c.finished_at_ms, jobs.c.error, jobs.c.report)
        .where(
            jobs.c.table_uuid == table_uuid,
            jobs.c.kind == kind,
            jobs.c.dry_run.is_(False),
            jobs.c.state.in_((JobState.DONE, JobState.FAILED)),
            jobs.c.finished_at_ms.is_not(None),
        )
        .order_by(jobs.c.finished_at_ms.desc(), jobs.c.id.desc())
        .limit(_LOOKED_AT)
    )
    row = next((one for one in ended if not _put_off(one.report)), None)
    if row is None:
        return None
    return JobResult(
        failed=row.state == JobState.FAILED,
        finished_at_ms=row.finished_at_ms,
        error=row.error,
        report=row.report,
    )


def _put_off(report: JsonObject | None) -> bool:
    return (
        report is not None
        and report.get("outcome") == Outcome.SKIPPED.value
        and report.get("againAfterMs") is not None
    )
