"""The worker: claims jobs, keeps their leases alive while they run in threads, and records how they ended.

The only loop that runs jobs. A job that loses its lease is told so at its next question and never deletes after that;
stopping drains: no new claims, and what runs may finish within the grace.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread
import structlog

from maintenance.compaction.job import run as run_compaction
from maintenance.expiration.job import run as run_expiration
from maintenance.orphans.job import run as run_orphans
from maintenance.policies import Policy
from maintenance.ports import Job, JobContext, JobKind, JobQueue, JobSettings, NewJob, UnreferencedLog
from maintenance.purge.job import run as run_purge
from maintenance.report import Report
from table_format.catalog import TableCatalog
from table_format.clock import Clock, Ids
from table_format.errors import CommitFailed, Kind, TableFormatError, log_fields
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject

_log = structlog.get_logger(__name__)

Runner = Callable[[JobContext, Job], Report]

RUNNERS: Final[Mapping[JobKind, Runner]] = {
    JobKind.COMPACTION: run_compaction,
    JobKind.SNAPSHOTS: run_expiration,
    JobKind.UNREFERENCED: run_orphans,
    JobKind.PURGE: run_purge,
}

# Trying again cannot help: the request or the table would have to change first.
_PERMANENT: Final = (Kind.INVALID, Kind.UNSUPPORTED, Kind.FORBIDDEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How one worker process behaves."""

    owner: str
    kinds: Collection[JobKind] = tuple(JobKind)
    concurrency: int = 1
    lease_ms: int = 60_000
    poll_seconds: float = 1.0
    first_retry_ms: int = 5_000
    longest_retry_ms: int = 15 * 60_000
    drain_seconds: float = 20.0


ContextFactory = Callable[[Job, str], JobContext]
"""Gives the surroundings of a claimed job for its owner."""


class LeasedContext:
    """A job's context that also knows what the heartbeat knows: once the lease is lost, it is lost."""

    def __init__(self, inner: JobContext) -> None:
        self._inner = inner
        self._lost = threading.Event()

    def lose(self) -> None:
        """From now on the lease is not ours, whatever the database says."""
        self._lost.set()

    @property
    def lost(self) -> bool:
        """Whether it was lost, or given up."""
        return self._lost.is_set()

    def still_leased(self) -> bool:
        """Whether the lease is ours by the heartbeat and by the database; a no is final and queues the job again.

        Else a job that stopped for a no, while a late heartbeat got its lease back, would count as done.
        """
        if not self._lost.is_set() and not self._inner.still_leased():
            self.lose()
        return not self._lost.is_set()

    def save_plan(self, plan: JsonObject) -> None:
        """Store the plan while the lease is ours.

        Raises:
            CommitFailed: it is not.
        """
        if self._lost.is_set():
            raise CommitFailed("the lease of this job was lost")
        self._inner.save_plan(plan)

    @property
    def catalog(self) -> TableCatalog:
        """The catalog."""
        return self._inner.catalog

    @property
    def clock(self) -> Clock:
        """Time."""
        return self._inner.clock

    @property
    def ids(self) -> Ids:
        """Ids."""
        return self._inner.ids

    @property
    def settings(self) -> JobSettings:
        """Limits."""
        return self._inner.settings

    @property
    def unreferenced(self) -> UnreferencedLog:
        """The log of unreferenced files."""
        return self._inner.unreferenced

    def store_for(self, location: str) -> ObjectStore:
        """The store of a location."""
        return self._inner.store_for(location)

    def policy(self, kind: JobKind) -> Policy:
        """The policy in force."""
        return self._inner.policy(kind)

    def other_table_locations(self) -> Sequence[str]:
        """Where other tables lie."""
        return self._inner.other_table_locations()


class Worker:
    """Runs jobs until told to stop."""

    def __init__(
        self,
        queue: JobQueue,
        context_factory: ContextFactory,
        clock: Clock,
        ids: Ids,
        settings: WorkerSettings,
        runners: Mapping[JobKind, Runner] = RUNNERS,
    ) -> None:
        self._queue = queue
        self._context_factory = context_factory
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._runners = runners

    async def run(self, stop: anyio.Event) -> None:
        """Claim and run jobs until `stop` is set and what runs has ended, or the grace is over."""
        limiter = anyio.CapacityLimiter(self._settings.concurrency)
        async with anyio.create_task_group() as tasks:
            for _ in range(self._settings.concurrency):
                tasks.start_soon(self._loop, stop, limiter)

    async def run_once(self) -> bool:
        """Claim and run one job; False when none was due."""
        return await self._next(anyio.Event(), anyio.CapacityLimiter(1))

    async def _loop(self, stop: anyio.Event, limiter: anyio.CapacityLimiter) -> None:
        while not stop.is_set():
            try:
                busy = await self._next(stop, limiter)
            except Exception as error:  # noqa: BLE001 - a loop top: the queue may be away for a while
                _log.warning("maintenance.claim_failed", **log_fields(error))
                busy = False
            if not busy:
                with anyio.move_on_after(self._settings.poll_seconds):
                    await stop.wait()

    async def _next(self, stop: anyio.Event, limiter: anyio.CapacityLimiter) -> bool:
        job = await self._queue.claim(self._settings.owner, self._settings.kinds, self._settings.lease_ms)
        if job is None:
            return False
        with structlog.contextvars.bound_contextvars(job_id=job.id, kind=str(job.kind), table=str(job.ident)):
            _log.info("maintenance.job_started", attempt=job.attempts)
            await self._attempt(job, stop, limiter)
        return True

    async def _attempt(self, job: Job, stop: anyio.Event, limiter: anyio.CapacityLimiter) -> None:
        """One run: the job in a thread, the heartbeat beside it; the job's end ends the heartbeat."""
        context = LeasedContext(self._context_factory(job, self._settings.owner))
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._keep_lease, job, context)
            beside.start_soon(self._drain, stop, context)
            report: Report | None = None
            failure: Exception | None = None
            try:
                report = await anyio.to_thread.run_sync(
                    self._runners[job.kind], context, job, limiter=limiter
                )
            except Exception as error:  # noqa: BLE001 - a loop top: whatever a job raises is recorded with it
                failure = error
            beside.cancel_scope.cancel()
        if context.lost:
            # Whatever the job reports, it was cut short: the next attempt carries it on. Refused if not ours.
            told = "the worker stopped, or lost the lease, before the job was done"
            await self._queue.fail(job.id, self._settings.owner, told, self._clock.now_ms())
        elif report is not None:
            await self._finish(job, report)
        elif failure is not None:
            await self._fail(job, failure)

    async def _keep_lease(self, job: Job, context: LeasedContext) -> None:
        """Prolong the lease; give it up when the queue says so, or stays away for as long as the lease is."""
        lease_s = self._settings.lease_ms / 1000
        confirmed = self._clock.monotonic()
        while True:
            await anyio.sleep(lease_s / 4)
            asked = self._clock.monotonic()
            try:
                held = await self._queue.heartbeat(job.id, self._settings.owner, self._settings.lease_ms)
            except Exception as error:  # noqa: BLE001 - a loop top: one unanswered heartbeat is not yet a lost lease
                _log.warning("maintenance.heartbeat_failed", error=str(error))
                held = asked - confirmed < lease_s * 3 / 4
            else:
                confirmed = asked
            if not held:
                _log.warning("maintenance.lease_lost")
                context.lose()
                return

    async def _drain(self, stop: anyio.Event, context: LeasedContext) -> None:
        """Once stopping, give the job its grace; then let it end at its next question."""
        await stop.wait()
        await anyio.sleep(self._settings.drain_seconds)
        _log.info("maintenance.drain_over")
        context.lose()

    async def _finish(self, job: Job, report: Report) -> None:
        _log.info("maintenance.job_finished", outcome=str(report.outcome), reason=report.reason)
        held = await self._queue.finish(job.id, self._settings.owner, report.to_json(), report.plan)
        if held and report.again_after_ms is not None and not job.dry_run:
            await self._queue.enqueue(
                NewJob(
                    kind=job.kind,
                    bucket_id=job.bucket_id,
                    table_id=job.table_id,
                    table_uuid=job.table_uuid,
                    ident=job.ident,
                    payload=job.payload,
                    priority=job.priority,
                    run_after_ms=self._clock.now_ms() + report.again_after_ms,
                    max_attempts=job.max_attempts,
                )
            )

    async def _fail(self, job: Job, error: Exception) -> None:
        permanent = isinstance(error, TableFormatError) and error.kind in _PERMANENT
        retry_at = None if permanent or job.attempts >= job.max_attempts else self._retry_at(job.attempts)
        _log.warning("maintenance.job_failed", error=str(error), retry_at=retry_at, exc_info=error)
        told = error.message if isinstance(error, TableFormatError) else f"{type(error).__name__}: {error}"
        await self._queue.fail(job.id, self._settings.owner, told, retry_at)

    def _retry_at(self, attempts: int) -> int:
        wait = min(self._settings.first_retry_ms * 2 ** (attempts - 1), self._settings.longest_retry_ms)
        return self._clock.now_ms() + int(self._ids.jitter(wait / 2, wait))
