"""How the last runs of maintenance on one table ended."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from catalog_server.store.jobs import JobState
from catalog_server.store.schema import jobs
from table_format.jsontypes import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """One run that has ended."""

    failed: bool
    finished_at_ms: int
    error: str | None
    report: JsonObject | None


def last(connection: Connection, table_uuid: str, kind: str) -> JobResult | None:
    """The last run of that kind to end on the table, dry ones left aside; None before the first."""
    row = connection.execute(
        select(jobs.c.state, jobs.c.finished_at_ms, jobs.c.error, jobs.c.report)
        .where(
            jobs.c.table_uuid == table_uuid,
            jobs.c.kind == kind,
            jobs.c.dry_run.is_(False),
            jobs.c.state.in_((JobState.DONE, JobState.FAILED)),
            jobs.c.finished_at_ms.is_not(None),
        )
        .order_by(jobs.c.finished_at_ms.desc(), jobs.c.id.desc())
        .limit(1)
    ).first()
    if row is None:
        return None
    return JobResult(
        failed=row.state == JobState.FAILED,
        finished_at_ms=row.finished_at_ms,
        error=row.error,
        report=row.report,
    )
