"""Maintenance jobs: asked for by people, queued by commits and the clock, claimed by workers.

Implements `maintenance.ports.JobQueue` and `PolicySource` on the database.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlalchemy import Connection

from catalog_server.services import commit_unit, paging
from catalog_server.services.principals import Principal
from catalog_server.store import buckets, namespaces, policies, tables
from catalog_server.store import jobs as rows
from catalog_server.store.engine import Database
from catalog_server.store.jobs import JobBirth, JobQuery, JobRow, JobState
from catalog_server.store.keys import key_of, lineage
from catalog_server.store.tables import TableRow
from catalog_server.store.units import row_locks
from maintenance import policies as rules
from maintenance.policies import PolicyType
from maintenance.ports import Job, JobKind, NewJob
from table_format.clock import Clock
from table_format.errors import Invalid, NoSuchJob
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject

__all__ = ["JobFilter", "JobService", "JobState", "JobView"]

JobView: TypeAlias = JobRow

_MOST_DUE = 200  # jobs that one tick of the clock queues at most


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; None leaves a member open."""

    bucket: str | None = None
    namespace: Namespace | None = None
    table: str | None = None
    kind: str | None = None
    state: str | None = None


class JobService:
    """Use-cases on jobs, and the queue that workers use."""

    def __init__(self, database: Database, clock: Clock, *, max_attempts: int) -> None:
        self._database = database
        self._clock = clock
        self._max_attempts = max_attempts

    async def request(
        self, principal: Principal, bucket: str, ident: TableIdent, kind: str, *, dry_run: bool
    ) -> JobView:
        """Queue a job on a table; one that is queued already for the same is given instead.

        Raises:
            NoSuchTable: there is no such table.
            Invalid: there is no such kind of job, or none that can be asked for.
        """
        if kind not in set(PolicyType):
            raise Invalid(f"unknown job kind {kind!r}: use one of {', '.join(PolicyType)}")
        return await self._database.write(
            _request, bucket, ident, (kind, dry_run, self._max_attempts), self._clock.now_ms()
        )

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
        """
        if wanted.kind is not None and wanted.kind not in set(JobKind):
            raise Invalid(f"unknown job kind {wanted.kind!r}: use one of {', '.join(JobKind)}")
        if wanted.state is not None and wanted.state not in set(JobState):
            raise Invalid(f"unknown job state {wanted.state!r}: use one of {', '.join(JobState)}")
        query = JobQuery(
            bucket=wanted.bucket,
            namespace_key=None if wanted.namespace is None else key_of(wanted.namespace),
            table=wanted.table,
            kind=wanted.kind,
            state=wanted.state,
        )

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[JobRow]:
            if after is not None and not paging.is_number(after[0]):
                raise Invalid("pageToken is not one that this listing gave")
            return await self._database.read(rows.page, query, after, limit)

        return await paging.paged(page, "jobs", fetch, lambda row: (str(row.id),))

    async def claim(self, owner: str, kinds: Collection[JobKind], lease_ms: int) -> Job | None:
        """Take the next job that is due, or None."""
        now_ms = self._clock.now_ms()
        wanted = [kind.value for kind in kinds]
        return await self._database.write(_claim, owner, wanted, now_ms + lease_ms, now_ms)

    async def heartbeat(self, job_id: int, owner: str, lease_ms: int) -> bool:
        """Prolong the lease."""
        return await self._database.write(rows.heartbeat, job_id, owner, self._clock.now_ms() + lease_ms)

    async def finish(self, job_id: int, owner: str, report: JsonObject, plan: JsonObject | None) -> bool:
        """Record the end of a run; a plan of None keeps the one that was saved."""
        return await self._database.write(rows.finish, job_id, owner, (report, plan), self._clock.now_ms())

    async def fail(self, job_id: int, owner: str, error: str, retry_at_ms: int | None) -> bool:
        """Record a failure: queued again for `retry_at_ms`, or failed for good when that is None."""
        return await self._database.write(
            rows.fail, job_id, owner, (error, retry_at_ms), self._clock.now_ms()
        )

    async def save_plan(self, job_id: int, owner: str, plan: JsonObject) -> bool:
        """Store what a later attempt must know, durably, before this returns."""
        return await self._database.write(rows.save_plan, job_id, owner, plan)

    async def requeue_stalled(self, now_ms: int) -> int:
        """Give back jobs whose lease ran out; how many."""
        return await self._database.write(rows.requeue_stalled, now_ms)

    async def enqueue(self, new: NewJob) -> Job:
        """The job, or the one already queued for the same table and kind."""
        birth = JobBirth(
            kind=new.kind.value,
            origin="maintenance",
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
        found = await self._database.read(_due, now_ms)
        return [
            NewJob(
                kind=kind,
                bucket_id=row.bucket_id,
                table_id=row.id,
                table_uuid=row.table_uuid,
                ident=row.ident,
                max_attempts=self._max_attempts,
            )
            for row, kind in found
        ]


def _request(
    connection: Connection, bucket: str, ident: TableIdent, what: tuple[str, bool, int], now_ms: int
) -> JobRow:
    kind, dry_run, max_attempts = what
    row = tables.require(connection, buckets.require(connection, bucket).id, ident)
    birth = commit_unit.job_for(row, kind, "api", max_attempts)
    return rows.enqueue(connection, rows.urgent(birth, dry_run=dry_run), now_ms)


@row_locks
def _claim(
    connection: Connection, owner: str, kinds: Sequence[str], lease_until_ms: int, now_ms: int
) -> Job | None:
    row = rows.claim(connection, owner, kinds, lease_until_ms, now_ms)
    if row is None:
        return None
    # The table may have another name by now, and its old name may be another table's.
    table = tables.by_uuid(connection, row.table_uuid)
    return _job(row) if table is None else replace(_job(row), ident=table.ident, table_id=table.id)


def _due(connection: Connection, now_ms: int) -> list[tuple[TableRow, JobKind]]:
    documents = {
        (row.scope, row.scope_id, row.policy_type): row.document for row in policies.everywhere(connection)
    }
    ends = rows.last_ends(connection)
    ids = namespaces.ids(connection)
    found: list[tuple[TableRow, JobKind]] = []
    intervals = _Intervals()
    for row in tables.everywhere(connection):
        scopes = [("bucket", row.bucket_id)]
        scopes += [("namespace", ids[row.bucket_id, key]) for key in lineage(row.ident.namespace)]
        scopes.append(("table", row.id))
        for kind in PolicyType:
            ended = ends.get((row.table_uuid, kind.value), row.created_at_ms)
            layers = [documents.get((*scope, kind.value), {}) for scope in scopes]
            if ended is not None and intervals.passed(kind, layers, now_ms - ended):
                found.append((row, JobKind(kind.value)))
    return found[:_MOST_DUE]


class _Intervals:
    """Intervals of policies, each worked out once: most tables have the same documents above them, or none."""

    def __init__(self) -> None:
        self._known: dict[str, int | None] = {}

    def passed(self, kind: PolicyType, layers: Sequence[JsonObject], elapsed_ms: int) -> bool:
        """Whether a run is due; never when the policy is disabled."""
        key = f"{kind}{layers!r}"
        if key not in self._known:
            policy = rules.effective(kind.value, layers, {})
            self._known[key] = policy.interval_seconds * 1000 if policy.enabled else None
        interval_ms = self._known[key]
        return interval_ms is not None and elapsed_ms >= interval_ms


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
        plan=row.plan,
    )
