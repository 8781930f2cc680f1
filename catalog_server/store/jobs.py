"""The life of maintenance jobs as rows. Owns who may change their states; knows nothing of what a job does.

queued -> running (a lease with an end) -> done | failed | cancelled, or back to queued. At most one job per table and
kind is queued, and at most one that is not a dry run is running per table; unique indexes hold both. Every function
here locks the jobs that it decides on, so that workers of many processes may share one queue; those of people,
`cancel` and `retry`, have the database to themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, and_, bindparam, insert, select, update

from catalog_server.store.job_claims import Claimant, ClaimRules, claim
from catalog_server.store.job_rows import PLAN, JobRow, JobState, find, job_of, joined, must
from catalog_server.store.schema import jobs
from catalog_server.store.units import row_locks
from maintenance.ports import URGENT_PRIORITY
from table_format.errors import JobInTheWay, NoSuchJob
from table_format.jsontypes import JsonObject

__all__ = ["ClaimRules", "Claimant", "JobBirth", "JobRow", "JobState", "claim", "find"]

_FAILURES_KEPT: Final = 20


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


@row_locks
def enqueue(connection: Connection, birth: JobBirth, now_ms: int) -> JobRow:
    """Queue a job, or give the one that is queued for the same table, kind and dryness already.

    A more urgent request brings the queued one forward: a person who asks for a run now does not wait for a
    back-off. Others leave it where it is, or every commit would undo the back-off.
    """
    queued = _queued_twin(connection, birth.table_uuid, birth.kind, birth.dry_run)
    if queued is not None:
        return _joined_by(connection, queued, birth)
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
    return must(connection, job_id)


def _joined_by(connection: Connection, queued: JobRow, birth: JobBirth) -> JobRow:
    values: dict[str, Any] = {}
    if birth.priority > queued.priority:
        values["priority"] = birth.priority
        if birth.priority >= URGENT_PRIORITY:  # what it is worth now does not undo a back-off
            values["run_after_ms"] = min(queued.run_after_ms, max(birth.run_after_ms, 0))
    if queued.origin == PLAN and birth.origin != PLAN:
        values["origin"] = birth.origin  # from now on it is more than one answer
    if not values:
        return queued
    connection.execute(update(jobs).where(jobs.c.id == queued.id).values(**values))
    return must(connection, queued.id)


def with_payload(birth: JobBirth, payload: JsonObject) -> JobBirth:
    """The same job with that payload."""
    return replace(birth, payload=payload)


def urgent(birth: JobBirth, *, dry_run: bool) -> JobBirth:
    """The same job, before those that nobody waits for."""
    return replace(birth, priority=URGENT_PRIORITY, dry_run=dry_run)


@row_locks
def heartbeat(connection: Connection, job_id: int, token: str, lease_until_ms: int) -> bool:
    """Prolong a lease; False when it is that claim's no more."""
    return _change(connection, job_id, token, lease_until_ms=lease_until_ms)


@row_locks
def save_plan(connection: Connection, job_id: int, token: str, plan: JsonObject) -> bool:
    """Store what a later attempt must know."""
    return _change(connection, job_id, token, plan=plan)


@row_locks
def finish(
    connection: Connection,
    job_id: int,
    token: str,
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
    return _change(connection, job_id, token, **values)


@row_locks
def fail(
    connection: Connection,
    job_id: int,
    token: str,
    failure: tuple[str, int | None],
    now_ms: int,
) -> bool:
    """Record a failure: (error, when to try again, or None for never). A job that is to end anyway is cancelled."""
    error, retry_at_ms = failure
    row = _held(connection, job_id, token)
    if row is None:
        return False
    failures = _with_failure(row, error, now_ms)
    if row.cancel_requested_at_ms is not None:
        report = cancelled_report(f"cancelled; it had failed: {error}")
        _end(connection, row, JobState.CANCELLED, now_ms, error=error, failures=failures, report=report)
    elif retry_at_ms is None:
        _end(connection, row, JobState.FAILED, now_ms, error=error, failures=failures)
    else:
        _back_to_queue(connection, row, retry_at_ms, now_ms, error=error, failures=failures)
    return True


@row_locks
def hand_back(connection: Connection, job_id: int, token: str, now_ms: int) -> bool:
    """Queue a job again that did not fail: its worker stops. The attempt does not count."""
    row = _held(connection, job_id, token)
    if row is None:
        return False
    if row.cancel_requested_at_ms is not None:
        _end(
            connection,
            row,
            JobState.CANCELLED,
            now_ms,
            report=cancelled_report("cancelled before it was done"),
        )
    else:
        _back_to_queue(connection, row, now_ms, now_ms, attempts=max(row.attempts - 1, 0))
    return True


@row_locks
def end_cancelled(
    connection: Connection, job_id: int, token: str, result: tuple[JsonObject, JsonObject | None], now_ms: int
) -> bool:
    """Record that a job ended because it was asked to: (report, plan), where a plan of None keeps the saved one."""
    report, plan = result
    values: dict[str, Any] = {"state": JobState.CANCELLED, "report": report, "finished_at_ms": now_ms}
    return _change(connection, job_id, token, **(values if plan is None else {**values, "plan": plan}))


def leases(connection: Connection) -> dict[int, int]:
    """The leases of the jobs that run: each job's id with the lease's end."""
    running = select(jobs.c.id, jobs.c.lease_until_ms).where(jobs.c.state == JobState.RUNNING)
    return {row.id: row.lease_until_ms for row in connection.execute(running)}


@row_locks
def requeue_stalled(connection: Connection, now_ms: int, unrenewed: Mapping[int, int]) -> int:
    """Give back running jobs whose lease ran out and is one of these; how many.

    One that used up its attempts fails.
    """
    rows = connection.execute(
        joined()
        .where(
            jobs.c.state == JobState.RUNNING,
            jobs.c.lease_until_ms < now_ms,
            jobs.c.id.in_(list(unrenewed)),
        )
        .order_by(jobs.c.id)
        .with_for_update(of=jobs, skip_locked=True)  # one that is locked is being renewed or ended just now
    ).all()
    stalled = [row for row in map(job_of, rows) if row.lease_until_ms == unrenewed[row.id]]
    for row in stalled:
        error = f"worker {row.lease_owner} stopped answering in attempt {row.attempts}"
        told = {"error": error, "failures": _with_failure(row, error, now_ms)}
        if row.cancel_requested_at_ms is not None:
            _end(
                connection,
                row,
                JobState.CANCELLED,
                now_ms,
                report=cancelled_report(f"cancelled; {error}"),
                **told,
            )
        elif row.attempts >= row.max_attempts:
            _end(connection, row, JobState.FAILED, now_ms, **told)
        else:
            _back_to_queue(connection, row, now_ms, now_ms, **told)
    return len(stalled)


def leased(connection: Connection, job_id: int, token: str, now_ms: int) -> bool:
    """Whether the lease is that claim's and has not run out, and nobody asked the job to end."""
    return (
        connection.execute(
            select(jobs.c.id).where(
                jobs.c.id == job_id,
                jobs.c.state == JobState.RUNNING,
                jobs.c.lease_token == token,
                jobs.c.lease_until_ms > now_ms,
                jobs.c.cancel_requested_at_ms.is_(None),
            )
        ).first()
        is not None
    )


def cancel_requested(connection: Connection, job_id: int) -> bool:
    """Whether somebody asked the job to end."""
    asked = select(jobs.c.id).where(jobs.c.id == job_id, jobs.c.cancel_requested_at_ms.is_not(None))
    return connection.execute(asked).first() is not None


def cancel(connection: Connection, job_id: int, now_ms: int) -> JobRow:
    """End a queued job, or ask a running one to end at its next safe step. Asking twice changes nothing.

    Raises:
        NoSuchJob: there is none.
        JobInTheWay: it came to another end already.
    """
    row = _found(connection, job_id)
    if row.state is JobState.QUEUED:
        report = cancelled_report("cancelled while it was queued")
        _end(connection, row, JobState.CANCELLED, now_ms, report=report, cancel_requested_at_ms=now_ms)
    elif row.state is JobState.RUNNING and row.cancel_requested_at_ms is None:
        connection.execute(update(jobs).where(jobs.c.id == job_id).values(cancel_requested_at_ms=now_ms))
    elif row.state in (JobState.DONE, JobState.FAILED):
        raise JobInTheWay(f"Job {job_id} is {row.state}: there is nothing left to cancel")
    return must(connection, job_id)


def retry(connection: Connection, job_id: int, now_ms: int) -> JobRow:
    """Queue a failed or cancelled job again, with fresh attempts; what it saved of its plan goes on.

    Raises:
        NoSuchJob: there is none.
        JobInTheWay: it did not fail and was not cancelled, or another of its kind waits for the table already.
    """
    row = _found(connection, job_id)
    if row.state not in (JobState.FAILED, JobState.CANCELLED):
        raise JobInTheWay(f"Job {job_id} is {row.state}: only a failed or cancelled job can be tried again")
    twin = _queued_twin(connection, row.table_uuid, row.kind, row.dry_run)
    if twin is not None:
        raise JobInTheWay(
            f"Job {twin.id} is queued for the same table and kind already: watch that one, or retry after it"
        )
    connection.execute(
        update(jobs)
        .where(jobs.c.id == job_id)
        .values(
            state=JobState.QUEUED,
            attempts=0,
            priority=URGENT_PRIORITY,
            run_after_ms=now_ms,
            error=None,
            report=None,
            lease_owner=None,
            lease_token=None,
            lease_until_ms=None,
            cancel_requested_at_ms=None,
            started_at_ms=None,
            finished_at_ms=None,
        )
    )
    return must(connection, job_id)


def cancelled_report(reason: str) -> JsonObject:
    """The report of a job that was cancelled before it could write one."""
    return {"outcome": "cancelled", "reason": reason, "figures": {}, "againAfterMs": None}


def _found(connection: Connection, job_id: int) -> JobRow:
    row = find(connection, job_id)
    if row is None:
        raise NoSuchJob(f"Job does not exist: {job_id}")
    return row


def _held(connection: Connection, job_id: int, token: str) -> JobRow | None:
    stored = connection.execute(joined().where(jobs.c.id == job_id).with_for_update(of=jobs)).first()
    row = None if stored is None else job_of(stored)
    return row if row is not None and row.state is JobState.RUNNING and row.lease_token == token else None


def _with_failure(row: JobRow, error: str, now_ms: int) -> list[JsonObject]:
    failure = {"attempt": row.attempts, "atMs": now_ms, "worker": row.lease_owner, "error": error}
    return [*row.failures, failure][-_FAILURES_KEPT:]


def _end(connection: Connection, row: JobRow, state: JobState, now_ms: int, **values: Any) -> None:
    connection.execute(
        update(jobs)
        .where(jobs.c.id == row.id)
        .values(state=state, finished_at_ms=now_ms, lease_until_ms=None, **values)
    )


def _back_to_queue(
    connection: Connection, row: JobRow, run_after_ms: int, now_ms: int, **values: Any
) -> None:
    # The interrupted job may hold a saved plan, the one queued meanwhile hardly ever: the older one goes on.
    twin = _queued_twin(connection, row.table_uuid, row.kind, row.dry_run)
    if twin is not None:
        reason = f"joined with job {row.id}, which was interrupted and runs again"
        report: JsonObject = {"outcome": "skipped", "reason": reason, "figures": {}, "againAfterMs": None}
        _end(connection, twin, JobState.DONE, now_ms, report=report)
    connection.execute(
        update(jobs)
        .where(jobs.c.id == row.id)
        .values(
            state=JobState.QUEUED,
            run_after_ms=run_after_ms,
            lease_owner=None,
            lease_token=None,
            lease_until_ms=None,
            **values,
        )
    )


def _queued_twin(connection: Connection, table_uuid: str, kind: str, dry_run: bool) -> JobRow | None:
    # Locked: were it claimed before this transaction ends, it would run without seeing what it is wanted for.
    values = {"table_uuid": table_uuid, "kind": kind, "dry_run": dry_run}
    row = connection.execute(_QUEUED_TWIN, values).first()
    return None if row is None else job_of(row)


def _change(connection: Connection, job_id: int, token: str, **values: Any) -> bool:
    changed = connection.execute(
        update(jobs)
        .where(and_(jobs.c.id == job_id, jobs.c.state == JobState.RUNNING, jobs.c.lease_token == token))
        .values(**values)
    )
    return changed.rowcount == 1


# Every commit to a table of small files asks this; building a statement takes longer than running it.
_QUEUED_TWIN = (
    joined()
    .where(
        jobs.c.table_uuid == bindparam("table_uuid"),
        jobs.c.kind == bindparam("kind"),
        jobs.c.dry_run == bindparam("dry_run"),
        jobs.c.state == JobState.QUEUED,
    )
    .with_for_update(of=jobs)
)
