"""Rows of maintenance jobs. Owns the states and who may change them; knows nothing of what a job does.

queued -> running (a lease with an end) -> done | failed, or back to queued. At most one job per table and kind
is queued, and at most one that is not a dry run is running per table; unique indexes hold both. Every function here
locks the jobs that it decides on, so that workers of many processes may share one queue.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    case,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from catalog_server.store.keys import namespace_of
from catalog_server.store.schema import buckets, jobs
from catalog_server.store.units import row_locks
from table_format.ident import Namespace
from table_format.jsontypes import JsonObject


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


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
    lease_until_ms: int | None
    plan: JsonObject | None
    report: JsonObject | None
    error: str | None
    created_at_ms: int
    started_at_ms: int | None
    finished_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBirth:
    """A job to be queued."""

    kind: str
    origin: str
    bucket_id: int
    namespace_key: str | None
    table_name: str | None
    table_id: int | None
    table_uuid: str
    dry_run: bool
    payload: JsonObject
    priority: int
    max_attempts: int
    run_after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Which jobs to list; None leaves a member open."""

    bucket: str | None = None
    namespace_key: str | None = None
    table: str | None = None
    kind: str | None = None
    state: str | None = None


@row_locks
def enqueue(connection: Connection, birth: JobBirth, now_ms: int) -> JobRow:
    """Queue a job, or give the one that is queued for the same table, kind and dryness already.

    A more urgent request brings the queued one forward: a person who asks for a run now does not wait for a
    back-off. Others leave it where it is, or every commit would undo the back-off.
    """
    queued = _queued_twin(connection, birth.table_uuid, birth.kind, birth.dry_run)
    if queued is not None:
        return _brought_forward(connection, queued, birth) if birth.priority > queued.priority else queued
    job_id = connection.execute(
        insert(jobs)
        .values(
            kind=birth.kind,
            state=JobState.QUEUED,
            origin=birth.origin,
            bucket_id=birth.bucket_id,
            namespace_key=birth.namespace_key,
            table_name=birth.table_name,
            table_id=birth.table_id,
            table_uuid=birth.table_uuid,
            dry_run=birth.dry_run,
            payload=birth.payload,
            priority=birth.priority,
            attempts=0,
            max_attempts=birth.max_attempts,
            run_after_ms=max(birth.run_after_ms, 0),
            created_at_ms=now_ms,
        )
        .returning(jobs.c.id)
    ).scalar_one()
    return _must(connection, job_id)


def _brought_forward(connection: Connection, queued: JobRow, birth: JobBirth) -> JobRow:
    run_after_ms = min(queued.run_after_ms, max(birth.run_after_ms, 0))
    connection.execute(
        update(jobs).where(jobs.c.id == queued.id).values(run_after_ms=run_after_ms, priority=birth.priority)
    )
    return _must(connection, queued.id)


def with_payload(birth: JobBirth, payload: JsonObject) -> JobBirth:
    """The same job with that payload."""
    return replace(birth, payload=payload)


def urgent(birth: JobBirth, *, dry_run: bool) -> JobBirth:
    """The same job, before those that nobody waits for."""
    return replace(birth, priority=10, dry_run=dry_run)


def find(connection: Connection, job_id: int) -> JobRow | None:
    """The job, or None."""
    row = connection.execute(_joined().where(jobs.c.id == job_id)).first()
    return None if row is None else _job(row)


def page(
    connection: Connection, query: JobQuery, after: tuple[str, ...] | None, limit: int | None
) -> list[JobRow]:
    """Jobs, the newest first."""
    wanted: list[ColumnElement[bool]] = []
    for column, value in (
        (buckets.c.name, query.bucket),
        (jobs.c.namespace_key, query.namespace_key),
        (jobs.c.table_name, query.table),
        (jobs.c.kind, query.kind),
        (jobs.c.state, query.state),
    ):
        if value is not None:
            wanted.append(column == value)
    if after is not None:
        wanted.append(jobs.c.id < int(after[0]))
    rows = connection.execute(_joined().where(*wanted).order_by(jobs.c.id.desc()).limit(limit))
    return [_job(row) for row in rows]


@row_locks
def claim(
    connection: Connection, owner: str, kinds: Collection[str], lease_until_ms: int, now_ms: int
) -> JobRow | None:
    """Take the next due job whose table has no other job running, or None."""
    other = jobs.alias("other")
    busy = exists().where(
        other.c.table_uuid == jobs.c.table_uuid, other.c.state == JobState.RUNNING, ~other.c.dry_run
    )
    job_id = connection.execute(
        select(jobs.c.id)
        .where(
            jobs.c.state == JobState.QUEUED,
            jobs.c.run_after_ms <= now_ms,
            jobs.c.kind.in_(list(kinds)),
            or_(jobs.c.dry_run, ~busy),
        )
        .order_by(jobs.c.priority.desc(), _waiting_since(), jobs.c.id)
        .limit(1)
        .with_for_update(of=jobs, skip_locked=True)
    ).scalar_one_or_none()
    if job_id is None:
        return None
    connection.execute(
        update(jobs)
        .where(jobs.c.id == job_id)
        .values(
            state=JobState.RUNNING,
            lease_owner=owner,
            lease_until_ms=lease_until_ms,
            attempts=jobs.c.attempts + 1,
            started_at_ms=now_ms,
            error=None,
        )
    )
    return _must(connection, job_id)


@row_locks
def heartbeat(connection: Connection, job_id: int, owner: str, lease_until_ms: int) -> bool:
    """Prolong a lease; False when it is the owner's no more."""
    return _change(connection, job_id, owner, lease_until_ms=lease_until_ms)


@row_locks
def save_plan(connection: Connection, job_id: int, owner: str, plan: JsonObject) -> bool:
    """Store what a later attempt must know."""
    return _change(connection, job_id, owner, plan=plan)


@row_locks
def finish(
    connection: Connection,
    job_id: int,
    owner: str,
    result: tuple[JsonObject, JsonObject | None],
    now_ms: int,
) -> bool:
    """Record the end of a run: (report, plan), where a plan of None keeps the saved one."""
    report, plan = result
    values: dict[str, Any] = {
        "report": report,
        "state": JobState.DONE,
        "finished_at_ms": now_ms,
        "error": None,
    }
    if plan is not None:
        values["plan"] = plan
    return _change(connection, job_id, owner, **values)


@row_locks
def fail(
    connection: Connection,
    job_id: int,
    owner: str,
    failure: tuple[str, int | None],
    now_ms: int,
) -> bool:
    """Record a failure: (error, when to try again, or None for never)."""
    error, retry_at_ms = failure
    if retry_at_ms is None:
        return _change(connection, job_id, owner, error=error, state=JobState.FAILED, finished_at_ms=now_ms)
    stored = connection.execute(_joined().where(jobs.c.id == job_id).with_for_update(of=jobs)).first()
    row = None if stored is None else _job(stored)
    if row is None or row.state is not JobState.RUNNING or row.lease_owner != owner:
        return False
    _back_to_queue(connection, row, error, retry_at_ms, now_ms)
    return True


@row_locks
def requeue_stalled(connection: Connection, now_ms: int) -> int:
    """Give back running jobs whose lease ran out, or fail those that used up their attempts; how many."""
    rows = connection.execute(
        _joined()
        .where(jobs.c.state == JobState.RUNNING, jobs.c.lease_until_ms < now_ms)
        .order_by(jobs.c.id)
        .with_for_update(of=jobs, skip_locked=True)  # one that is locked is being renewed or ended just now
    ).all()
    for stored in rows:
        row = _job(stored)
        error = f"worker {row.lease_owner} stopped answering in attempt {row.attempts}"
        if row.attempts >= row.max_attempts:
            connection.execute(
                update(jobs)
                .where(jobs.c.id == row.id)
                .values(state=JobState.FAILED, error=error, finished_at_ms=now_ms, lease_until_ms=None)
            )
        else:
            _back_to_queue(connection, row, error, now_ms, now_ms)
    return len(rows)


def leased(connection: Connection, job_id: int, owner: str, now_ms: int) -> bool:
    """Whether the lease is the owner's and has not run out."""
    return (
        connection.execute(
            select(jobs.c.id).where(
                jobs.c.id == job_id,
                jobs.c.state == JobState.RUNNING,
                jobs.c.lease_owner == owner,
                jobs.c.lease_until_ms > now_ms,
            )
        ).first()
        is not None
    )


def last_ends(connection: Connection) -> dict[tuple[str, str], int | None]:
    """By (table_uuid, kind): when the last real run ended; None while a job is queued or running."""
    rows = connection.execute(
        select(
            jobs.c.table_uuid,
            jobs.c.kind,
            func.max(jobs.c.finished_at_ms).label("ended"),
            func.count(case((jobs.c.state.in_([JobState.QUEUED, JobState.RUNNING]), 1))).label("open"),
        )
        .where(~jobs.c.dry_run)
        .group_by(jobs.c.table_uuid, jobs.c.kind)
    )
    return {(row.table_uuid, row.kind): None if row.open else row.ended for row in rows}


def unpurged_locations(connection: Connection, kind: str, except_table_uuid: str) -> list[str]:
    """Locations of dropped tables whose purge is still to come."""
    rows = connection.execute(
        select(jobs.c.payload).where(
            jobs.c.kind == kind, jobs.c.state != JobState.DONE, jobs.c.table_uuid != except_table_uuid
        )
    )
    return [row.payload["location"] for row in rows if "location" in row.payload]


def _waiting_since() -> ColumnElement[int]:
    """Since when a job could have run: by `run_after` alone, jobs of commits (0) would pass all retries for ever."""
    postponed = jobs.c.run_after_ms > jobs.c.created_at_ms
    return case((postponed, jobs.c.run_after_ms), else_=jobs.c.created_at_ms)


def _back_to_queue(connection: Connection, row: JobRow, error: str, run_after_ms: int, now_ms: int) -> None:
    # The interrupted job may hold a saved plan, the one queued meanwhile can not: the older one goes on.
    twin = _queued_twin(connection, row.table_uuid, row.kind, row.dry_run)
    if twin is not None:
        reason = f"joined with job {row.id}, which was interrupted and runs again"
        connection.execute(
            update(jobs)
            .where(jobs.c.id == twin.id)
            .values(
                state=JobState.DONE,
                report={"outcome": "skipped", "reason": reason, "figures": {}, "againAfterMs": None},
                finished_at_ms=now_ms,
            )
        )
    connection.execute(
        update(jobs)
        .where(jobs.c.id == row.id)
        .values(
            state=JobState.QUEUED,
            error=error,
            run_after_ms=run_after_ms,
            lease_owner=None,
            lease_until_ms=None,
        )
    )


def _queued_twin(connection: Connection, table_uuid: str, kind: str, dry_run: bool) -> JobRow | None:
    # Locked: were it claimed before this transaction ends, it would run without seeing what it is wanted for.
    values = {"table_uuid": table_uuid, "kind": kind, "dry_run": dry_run}
    row = connection.execute(_QUEUED_TWIN, values).first()
    return None if row is None else _job(row)


def _change(connection: Connection, job_id: int, owner: str, **values: Any) -> bool:
    changed = connection.execute(
        update(jobs)
        .where(and_(jobs.c.id == job_id, jobs.c.state == JobState.RUNNING, jobs.c.lease_owner == owner))
        .values(**values)
    )
    return changed.rowcount == 1


def _must(connection: Connection, job_id: int) -> JobRow:
    return _job(connection.execute(_joined().where(jobs.c.id == job_id)).one())


def _joined() -> Select[Any]:
    return select(jobs, buckets.c.name.label("bucket_name")).join(buckets, buckets.c.id == jobs.c.bucket_id)


# Every commit to a table of small files asks this; building a statement takes longer than running it.
_QUEUED_TWIN = (
    _joined()
    .where(
        jobs.c.table_uuid == bindparam("table_uuid"),
        jobs.c.kind == bindparam("kind"),
        jobs.c.dry_run == bindparam("dry_run"),
        jobs.c.state == JobState.QUEUED,
    )
    .with_for_update(of=jobs)
)


def _job(row: Row[Any]) -> JobRow:
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
        lease_until_ms=row.lease_until_ms,
        plan=row.plan,
        report=row.report,
        error=row.error,
        created_at_ms=row.created_at_ms,
        started_at_ms=row.started_at_ms,
        finished_at_ms=row.finished_at_ms,
    )
