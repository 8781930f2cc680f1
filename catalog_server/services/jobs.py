"""Maintenance jobs: asked for, watched, cancelled, retried by people; queued by commits and the clock; run by workers.

Implements `maintenance.ports.JobQueue` and `PolicySource` on the database.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlalchemy import Connection

from catalog_server.services import commit_unit, job_due, paging
from catalog_server.services.job_pace import NO_LIMITS, PaceLimits, pace
from catalog_server.services.job_status import KindStatus, kind_status
from catalog_server.services.lease_watch import LeaseWatch
from catalog_server.services.policies import PolicyService
from catalog_server.services.principals import Principal
from catalog_server.store import buckets, dropped, policies, tables
from catalog_server.store import job_listing as listing
from catalog_server.store import jobs as rows
from catalog_server.store.engine import Database
from catalog_server.store.job_listing import JobQuery
from catalog_server.store.job_rows import ENDED, OPEN, PLAN
from catalog_server.store.jobs import Claimant, ClaimRules, JobBirth, JobRow, JobState
from catalog_server.store.keys import key_of
from catalog_server.store.tables import TableRow
from catalog_server.store.units import row_locks
from maintenance.executors.port import Pace
from maintenance.policies import PolicyType
from maintenance.ports import Job, JobKind, NewJob
from maintenance.schedule import NextRun
from table_format.clock import Clock, Ids
from table_format.errors import Invalid, NoSuchJob
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject

__all__ = ["OPEN", "JobFilter", "JobLimits", "JobService", "JobState", "JobView", "KindStatus"]

JobView: TypeAlias = JobRow

_ORIGINS = ("api", "commit", "maintenance", "drop", PLAN)
_FIRST_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 0.05, 0.5
_PLANS_KEPT_MS = 600_000
_FORGOTTEN_AT_ONCE = 1000
_HISTORY_EVERY_MS = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """The installation's limits on jobs."""

    max_attempts: int
    lease_ms: int
    kept_ms: int
    """How long jobs that ended are kept."""
    total: int | None = None
    """Most jobs that run at the same time; None is no limit."""
    per_bucket: int | None = None
    """The same for the tables of one bucket."""
    pace: PaceLimits = NO_LIMITS
    """How fast those that run may go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; None leaves a member open."""

    bucket: str | None = None
    namespace: Namespace | None = None
    table: str | None = None
    kind: str | None = None
    states: Sequence[str] | None = None
    origin: str | None = None
    dry_run: bool | None = None
    since_ms: int | None = None
    """Made at this moment or later."""
    until_ms: int | None = None
    """Made before this moment."""


class JobService:
    """Use-cases on jobs, and the queue that workers use."""

    def __init__(
        self, database: Database, time: tuple[Clock, Ids], policies: PolicyService, limits: JobLimits
    ) -> None:
        self._database = database
        self._clock, self._ids = time
        self._policies = policies
        self._limits = limits
        self._leases = LeaseWatch(self._clock, lease_ms=limits.lease_ms)
        self._history_looked_at_ms: int | None = None

    async def request(
        self, principal: Principal, bucket: str, ident: TableIdent, kind: str, *, dry_run: bool
    ) -> JobView:
        """Queue a job on a table; one that is queued already for the same is given instead.

        Raises:
            NoSuchTable: there is no such table.
            Invalid: there is no such kind of job, or none that can be asked for.
        """
        _check_asked(kind)
        what = _Asked(kind=kind, dry_run=dry_run, origin="api", max_attempts=self._limits.max_attempts)
        return await self._database.write(_request, bucket, ident, what, self._clock.now_ms())

    async def plan(
        self, principal: Principal, bucket: str, ident: TableIdent, kind: str, *, wait_seconds: float
    ) -> JobView:
        """A dry run, made by a worker while the caller waits: its plan and report, or its error.

        No listing shows it, it stands in no other job's way, and it is forgotten soon. When the time is over and it has
        not ended, it is given as it is: asking for the same again waits for the same.

        Raises:
            NoSuchTable: there is no such table.
            Invalid: there is no such kind of job, or none that can be asked for.
        """
        _check_asked(kind)
        what = _Asked(kind=kind, dry_run=True, origin=PLAN, max_attempts=1)
        until = self._clock.monotonic() + wait_seconds
        job: JobView | None = None
        pause = _FIRST_LOOK_SECONDS
        while job is None or job.state not in ENDED:
            if job is None:
                job = await self._database.write(_request, bucket, ident, what, self._clock.now_ms())
            if self._clock.monotonic() >= until:
                return job
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_LOOK_SECONDS)
            job = await self._database.read(rows.find, job.id)
        return job

    async def cancel(self, principal: Principal, job_id: int) -> JobView:
        """End a queued job at once, a running one at its next safe step. Asking twice changes nothing.

        Raises:
            NoSuchJob: there is none.
            JobInTheWay: it is done, or failed.
        """
        return await self._database.write(rows.cancel, job_id, self._clock.now_ms())

    async def retry(self, principal: Principal, job_id: int) -> JobView:
        """Queue a failed or cancelled job again, with fresh attempts.

        Raises:
            NoSuchJob: there is none.
            JobInTheWay: it neither failed nor was cancelled, or another waits for the same already.
        """
        return await self._database.write(rows.retry, job_id, self._clock.now_ms())

    async def status(self, principal: Principal, bucket: str, ident: TableIdent) -> Sequence[KindStatus]:
        """How each kind of maintenance stands on a table.

        Raises:
            NoSuchTable: there is no such table.
            NoSuchFile: its metadata is gone.
        """
        row = await self._database.read(_table, bucket, ident)
        return await self._status(row, list(PolicyType))

    async def next_run(self, principal: Principal, job: JobView) -> NextRun | None:
        """The next run of the job's kind on its table; None when the table is gone, or the kind has no policy.

        Raises:
            NoSuchFile: the table's metadata is gone.
        """
        if job.kind not in set(PolicyType):
            return None
        row = await self._database.read(tables.by_uuid, job.table_uuid)
        return None if row is None else (await self._status(row, [PolicyType(job.kind)]))[0].next

    async def _status(self, row: TableRow, kinds: Sequence[PolicyType]) -> list[KindStatus]:
        found = await self._database.read(listing.of_table, row.table_uuid, [kind.value for kind in kinds])
        now_ms = self._clock.now_ms()
        return [
            kind_status(
                JobKind(kind.value),
                await self._policies.in_force(row, kind),
                found[kind.value],
                row.created_at_ms,
                now_ms,
            )
            for kind in kinds
        ]

    async def get(self, principal: Principal, job_id: int | str) -> JobView:
        """One job.

        Raises:
            NoSuchJob: there is none.
        """
        text = str(job_id)
        number = int(text) if paging.is_number(text) else -1
        found = await self._database.read(rows.find, number)
        if found is None:
            raise NoSuchJob(f"Job does not exist: {text[:40]}")
        return found

    async def list(
        self, principal: Principal, wanted: JobFilter, page: paging.PageRequest | None
    ) -> paging.Page[JobView]:
        """Jobs, the newest first.

        Raises:
            Invalid: the page request, kind or state is wrong.
            NoSuchWarehouse: there is no such bucket.
        """
        if wanted.kind is not None and wanted.kind not in set(JobKind):
            raise Invalid(f"unknown job kind {wanted.kind!r}: use one of {', '.join(JobKind)}")
        for state in wanted.states or ():
            if state not in set(JobState):
                raise Invalid(f"unknown job state {state!r}: use one of {', '.join(JobState)}")
        if wanted.origin is not None and wanted.origin not in _ORIGINS:
            raise Invalid(f"unknown origin {wanted.origin!r}: use one of {', '.join(_ORIGINS)}")
        query = JobQuery(
            bucket=wanted.bucket,
            namespace_key=None if wanted.namespace is None else key_of(wanted.namespace),
            table=wanted.table,
            kind=wanted.kind,
            states=wanted.states,
            origin=wanted.origin,
            dry_run=wanted.dry_run,
            since_ms=wanted.since_ms,
            until_ms=wanted.until_ms,
        )

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[JobRow]:
            if after is not None and not paging.is_number(after[0]):
                raise Invalid("pageToken is not one that this listing gave")
            return await self._database.read(listing.page, query, after, limit)

        return await paging.paged(page, "jobs", fetch, lambda row: (str(row.id),))

    async def claim(
        self, worker: str, kinds: Collection[JobKind], lease_ms: int, *, dry_only: bool = False
    ) -> Job | None:
        """Take the next job that is due (with `dry_only` the next dry run), or None."""
        now_ms = self._clock.now_ms()
        wanted = [kind.value for kind in kinds]
        rules = ClaimRules(
            dry_only=dry_only,
            total=self._limits.total,
            per_bucket=self._limits.per_bucket,
            of_kinds={} if dry_only else await self._database.read(policies.most_at_once),
        )
        unit = _claim_alone if rules.limited and not dry_only else _claim
        claimant = Claimant(worker=worker, token=self._ids.uuid(), lease_until_ms=now_ms + lease_ms)
        return await self._database.write(unit, claimant, wanted, now_ms, rules)

    async def heartbeat(self, job_id: int, token: str, lease_ms: int) -> bool:
        """Prolong the lease."""
        return await self._database.write(rows.heartbeat, job_id, token, self._clock.now_ms() + lease_ms)

    async def finish(self, job_id: int, token: str, report: JsonObject, plan: JsonObject | None) -> bool:
        """Record the end of a run; a plan of None keeps the one that was saved."""
        return await self._database.write(_finish, job_id, token, (report, plan), self._clock.now_ms())

    async def fail(self, job_id: int, token: str, error: str, retry_at_ms: int | None) -> bool:
        """Record a failure: queued again for `retry_at_ms`, or failed for good when that is None."""
        return await self._database.write(
            rows.fail, job_id, token, (error, retry_at_ms), self._clock.now_ms()
        )

    async def hand_back(self, job_id: int, token: str) -> bool:
        """Queue a job again that did not fail, but whose worker stops: the attempt does not count."""
        return await self._database.write(rows.hand_back, job_id, token, self._clock.now_ms())

    async def cancel_requested(self, job_id: int) -> bool:
        """Whether somebody asked the job to end."""
        return await self._database.read(rows.cancel_requested, job_id)

    async def end_cancelled(
        self, job_id: int, token: str, report: JsonObject, plan: JsonObject | None
    ) -> bool:
        """Record that a job ended because it was asked to; a plan of None keeps the one that was saved."""
        return await self._database.write(
            rows.end_cancelled, job_id, token, (report, plan), self._clock.now_ms()
        )

    async def save_plan(self, job_id: int, token: str, plan: JsonObject) -> bool:
        """Store what a later attempt must know, durably, before this returns."""
        return await self._database.write(rows.save_plan, job_id, token, plan)

    async def pace(self, job: Job, worker: str) -> Pace:
        """How fast a claimed job of that worker may go, beside as many others as run now."""
        return await self._database.read(pace, job, worker, self._limits.pace)

    async def requeue_stalled(self, now_ms: int) -> int:
        """Give back jobs whose lease ran out and was not renewed while this was called again and again; how many."""
        unrenewed = self._leases.unrenewed(await self._database.read(rows.leases))
        if not unrenewed:
            return 0
        return await self._database.write(rows.requeue_stalled, now_ms, unrenewed)

    async def enqueue(self, new: NewJob) -> Job:
        """The job, or the one already queued for the same table and kind."""
        birth = JobBirth(
            kind=new.kind.value,
            origin=job_due.ORIGIN,
            bucket_id=new.bucket_id,
            namespace_key=None if new.ident is None else key_of(new.ident.namespace),
            table_name=None if new.ident is None else new.ident.name,
            table_id=new.table_id,
            table_uuid=new.table_uuid,
            dry_run=new.dry_run,
            payload=new.payload,
            priority=new.priority,
            max_attempts=new.max_attempts,
            run_after_ms=new.run_after_ms,
        )
        return _job(await self._database.write(rows.enqueue, birth, self._clock.now_ms()))

    async def due(self, now_ms: int) -> Sequence[NewJob]:
        """Jobs whose policy interval has passed since the last run of that kind on that table."""
        found = await self._database.read(job_due.due, now_ms)
        return [one.job(now_ms, self._limits.max_attempts) for one in found]

    async def forget_expired(self) -> int:
        """Forget jobs that ended long ago, the last of each kind and table aside; how many. Looks only now and then."""
        now_ms = self._clock.now_ms()
        looked_at_ms = self._history_looked_at_ms
        if looked_at_ms is not None and now_ms - looked_at_ms < _HISTORY_EVERY_MS:
            return 0
        plans_since_ms = now_ms - _PLANS_KEPT_MS
        found = await self._database.read(
            listing.forgettable,
            now_ms - self._limits.kept_ms,
            plans_since_ms,
            JobKind.PURGE.value,
            _FORGOTTEN_AT_ONCE,
        )
        if len(found) < _FORGOTTEN_AT_ONCE:
            self._history_looked_at_ms = now_ms
        return await self._database.write(_forget, found, plans_since_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A job that somebody asks for."""

    kind: str
    dry_run: bool
    origin: str
    max_attempts: int


def _check_asked(kind: str) -> None:
    if kind not in set(PolicyType):
        raise Invalid(f"unknown job kind {kind!r}: use one of {', '.join(PolicyType)}")


def _request(connection: Connection, bucket: str, ident: TableIdent, asked: _Asked, now_ms: int) -> JobRow:
    row = _table(connection, bucket, ident)
    birth = commit_unit.job_for(row, asked.kind, asked.origin, asked.max_attempts)
    return rows.enqueue(connection, rows.urgent(birth, dry_run=asked.dry_run), now_ms)


def _table(connection: Connection, bucket: str, ident: TableIdent) -> TableRow:
    return tables.require(connection, buckets.require(connection, bucket).id, ident)


def _forget(connection: Connection, ids: Sequence[int], plans_since_ms: int) -> int:
    return listing.forget(connection, ids) + listing.forget_unmade_plans(connection, plans_since_ms)


def _claim_alone(
    connection: Connection,
    claimant: Claimant,
    kinds: Sequence[str],
    now_ms: int,
    rules: ClaimRules,
) -> Job | None:
    """`_claim` with the database to itself: two that count beside each other would both find room."""
    row = rows.claim(connection, claimant, kinds, now_ms, rules)
    if row is None:
        return None
    if row.kind == JobKind.PURGE:
        dropped.begun(connection, row.id)
    # The table may have another name by now, and its old name may be another table's.
    table = tables.by_uuid(connection, row.table_uuid)
    return _job(row) if table is None else replace(_job(row), ident=table.ident, table_id=table.id)


@row_locks
def _finish(
    connection: Connection,
    job_id: int,
    token: str,
    result: tuple[JsonObject, JsonObject | None],
    now_ms: int,
) -> bool:
    held = rows.finish(connection, job_id, token, result, now_ms)
    if held:
        dropped.purged(connection, job_id)
    return held


@row_locks
def _claim(
    connection: Connection,
    claimant: Claimant,
    kinds: Sequence[str],
    now_ms: int,
    rules: ClaimRules,
) -> Job | None:
    return _claim_alone(connection, claimant, kinds, now_ms, rules)


def _job(row: JobRow) -> Job:
    ident = None if row.namespace is None or row.table is None else TableIdent(row.namespace, row.table)
    return Job(
        id=row.id,
        kind=JobKind(row.kind),
        bucket_id=row.bucket_id,
        bucket=row.bucket,
        table_id=row.table_id,
        table_uuid=row.table_uuid,
        ident=ident,
        dry_run=row.dry_run,
        payload=row.payload,
        priority=row.priority,
        attempts=row.attempts,
        max_attempts=row.max_attempts,
        lease_until_ms=row.lease_until_ms or 0,
        lease_token=row.lease_token or "",
        plan=row.plan,
    )
