"""A maintenance job as stored: its states, its members, and how a row becomes one. Changes nothing."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, select

from catalog_server.store.keys import namespace_of
from catalog_server.store.schema import buckets, jobs
from table_format.ident import Namespace
from table_format.jsontypes import JsonObject

PLAN: Final = "plan"
"""The origin of a dry run that is made for one answer: no listing shows it, and it is forgotten soon."""


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN: Final = (JobState.QUEUED, JobState.RUNNING)
ENDED: Final = (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job as stored."""

    id: int
    kind: str
    state: JobState
    origin: str
    bucket_id: int
    bucket: str
    namespace: Namespace | None
    table: str | None
    table_id: int | None
    table_uuid: str
    dry_run: bool
    payload: JsonObject
    priority: int
    attempts: int
    max_attempts: int
    run_after_ms: int
    lease_owner: str | None
    """The worker's name, for people."""
    lease_token: str | None
    """Which claim holds it; the only thing that a lease is known by."""
    lease_until_ms: int | None
    plan: JsonObject | None
    report: JsonObject | None
    error: str | None
    failures: tuple[JsonObject, ...] = ()
    """Of the attempts that failed, the newest last: {"attempt", "atMs", "worker", "error"}."""
    cancel_requested_at_ms: int | None = None
    created_at_ms: int
    started_at_ms: int | None
    finished_at_ms: int | None


def find(connection: Connection, job_id: int) -> JobRow | None:
    """The job, or None."""
    row = connection.execute(joined().where(jobs.c.id == job_id)).first()
    return None if row is None else job_of(row)


def must(connection: Connection, job_id: int) -> JobRow:
    """The job, which is known to be there."""
    return job_of(connection.execute(joined().where(jobs.c.id == job_id)).one())


def joined() -> Select[Any]:
    """Jobs with the names of their buckets."""
    return select(jobs, buckets.c.name.label("bucket_name")).join(buckets, buckets.c.id == jobs.c.bucket_id)


def job_of(row: Row[Any]) -> JobRow:
    """The job of a row of `joined`."""
    return JobRow(
        id=row.id,
        kind=row.kind,
        state=JobState(row.state),
        origin=row.origin,
        bucket_id=row.bucket_id,
        bucket=row.bucket_name,
        namespace=None if row.namespace_key is None else namespace_of(row.namespace_key),
        table=row.table_name,
        table_id=row.table_id,
        table_uuid=row.table_uuid,
        dry_run=row.dry_run,
        payload=row.payload,
        priority=row.priority,
        attempts=row.attempts,
        max_attempts=row.max_attempts,
        run_after_ms=row.run_after_ms,
        lease_owner=row.lease_owner,
        lease_token=row.lease_token,
        lease_until_ms=row.lease_until_ms,
        plan=row.plan,
        report=row.report,
        error=row.error,
        failures=tuple(row.failures or ()),
        cancel_requested_at_ms=row.cancel_requested_at_ms,
        created_at_ms=row.created_at_ms,
        started_at_ms=row.started_at_ms,
        finished_at_ms=row.finished_at_ms,
    )
