"""The worker: claims jobs, keeps their leases alive while they run in threads, and records how they ended.

The only loop that runs jobs. A job that loses its lease is told so at its next question and never deletes after that;
stopping drains: no new claims, and what runs may finish within the grace.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread
import structlog

from maintenance.compaction.job import run as run_compaction
from maintenance.executors.port import Stopped
from maintenance.expiration.job import run as run_expiration
from maintenance.leased import LeasedContext, Stop
from maintenance.manifests.job import run as run_manifests
from maintenance.orphans.job import run as run_orphans
from maintenance.ports import Job, JobContext, JobKind, JobQueue, NewJob
from maintenance.purge.job import run as run_purge
from maintenance.records.job import run as run_records
from maintenance.report import Outcome, Report
from maintenance.statistics.job import run as run_statistics
from table_format.clock import Clock, Ids
from table_format.errors import CommitFailed, Kind, TableFormatError, log_fields
from table_format.jsontypes import JsonObject

_log = structlog.get_logger(__name__)

Runner = Callable[[JobContext, Job], Report]

RUNNERS: Final[Mapping[JobKind, Runner]] = {
    JobKind.COMPACTION: run_compaction,
    JobKind.SNAPSHOTS: run_expiration,
    JobKind.UNREFERENCED: run_orphans,
    JobKind.RECORDS: run_records,
    JobKind.MANIFESTS: run_manifests,
    JobKind.STATISTICS: run_statistics,
    JobKind.PURGE: run_purge,
}

# Trying again cannot help: the request or the table would have to change first.
_PERMANENT: Final = (Kind.INVALID, Kind.UNSUPPORTED, Kind.FORBIDDEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How one worker process behaves."""

    owner: str
    """The worker's name, for people."""
    kinds: Collection[JobKind] = tuple(JobKind)
    concurrency: int = 1
    lease_ms: int = 60_000
    poll_seconds: float = 1.0
    first_retry_ms: int = 5_000
    longest_retry_ms: int = 15 * 60_000
    drain_seconds: float = 20.0


ContextFactory = Callable[[Job], JobContext]
"""Gives the surroundings of a claimed job."""


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
        """Claim and run jobs until `stop` is set and what runs has ended, or the grace is over.

        One more place is for dry runs alone: somebody waits for their answer, and they only read.
        """
        limiter = anyio.CapacityLimiter(self._settings.concurrency + 1)
        async with anyio.create_task_group() as tasks:
            for _ in range(self._settings.concurrency):
                tasks.start_soon(self._loop, stop, limiter, False)
            tasks.start_soon(self._loop, stop, limiter, True)

    async def run_once(self) -> bool:
        """Claim and run one job; False when none was due."""
        return await self._next(anyio.Event(), anyio.CapacityLimiter(1), dry_only=False)

    async def _loop(self, stop: anyio.Event, limiter: anyio.CapacityLimiter, dry_only: bool) -> None:
        while not stop.is_set():
            try:
                busy = await self._next(stop, limiter, dry_only=dry_only)
            except Exception as error:  # noqa: BLE001 - a loop top: the queue may be away for a while
                _log.warning("maintenance.claim_failed", **log_fields(error))
                busy = False
            if not busy:
                with anyio.move_on_after(self._settings.poll_seconds):
                    await stop.wait()

    async def _next(self, stop: anyio.Event, limiter: anyio.CapacityLimiter, *, dry_only: bool) -> bool:
        settings = self._settings
        job = await self._queue.claim(settings.owner, settings.kinds, settings.lease_ms, dry_only=dry_only)
        if job is None:
            return False
        with structlog.contextvars.bound_contextvars(job_id=job.id, kind=str(job.kind), table=str(job.ident)):
            _log.info("maintenance.job_started", attempt=job.attempts)
            await self._attempt(job, stop, limiter)
        return True

    async def _attempt(self, job: Job, stop: anyio.Event, limiter: anyio.CapacityLimiter) -> None:
        """One run: the job in a thread, the heartbeat beside it; the job's end ends the heartbeat."""
        context = LeasedContext(self._context_factory(job))
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._keep_lease, job, context)
            beside.start_soon(self._watch_for_cancel, job, context)
            beside.start_soon(self._drain, stop, context)
            report: Report | None = None
            failure: Exception | None = None
            try:
                context.pace = await self._queue.pace(job, self._settings.owner)
                report = await anyio.to_thread.run_sync(
                    self._runners[job.kind], context, job, limiter=limiter
                )
            except Exception as error:  # noqa: BLE001 - a loop top: whatever a job raises is recorded with it
                failure = error
            beside.cancel_scope.cancel()
        if context.told is not None:
            await self._cut_short(job, context.told, report, failure)
        elif report is not None:
            await self._finish(job, report)
        elif failure is not None:
            await self._fail(job, failure)

    async def _cut_short(self, job: Job, why: Stop, report: Report | None, failure: Exception | None) -> None:
        """Whatever the job reports, it was told to end before it was done. Refused if the job is not ours."""
        _log.info("maintenance.job_cut_short", why=why.value)
        token = job.lease_token
        if why is Stop.CANCELLED:
            told = _cancelled(report, failure)
            await self._queue.end_cancelled(job.id, token, told, None if report is None else report.plan)
        elif why is Stop.DRAINED:
            await self._queue.hand_back(job.id, token)
        else:
            told_lost = "the worker lost the lease before the job was done"
            await self._queue.fail(job.id, token, told_lost, self._clock.now_ms())

    async def _keep_lease(self, job: Job, context: LeasedContext) -> None:
        """Prolong the lease; give it up when the queue says so, or stays away for as long as the lease is."""
        lease_s = self._settings.lease_ms / 1000
        confirmed = self._clock.monotonic()
        while True:
            await anyio.sleep(lease_s / 4)
            asked = self._clock.monotonic()
            try:
                held = await self._queue.heartbeat(job.id, job.lease_token, self._settings.lease_ms)
            except Exception as error:  # noqa: BLE001 - a loop top: one unanswered heartbeat is not yet a lost lease
                _log.warning("maintenance.heartbeat_failed", error=str(error))
                held = asked - confirmed < lease_s * 3 / 4
            else:
                confirmed = asked
                await self._keep_pace(job, context)
            if not held:
                _log.warning("maintenance.lease_lost")
                context.stop(Stop.LOST)
                return

    async def _keep_pace(self, job: Job, context: LeasedContext) -> None:
        """Let the job go as fast as it may beside those that run now; unanswered, as fast as before."""
        try:
            context.pace = await self._queue.pace(job, self._settings.owner)
        except Exception as error:  # noqa: BLE001 - in a loop at the top, as its caller's
            _log.warning("maintenance.pace_not_read", error=str(error))

    async def _watch_for_cancel(self, job: Job, context: LeasedContext) -> None:
        """Tell the job soon when somebody asks it to end; before it deletes anything it asks for itself."""
        while True:
            await anyio.sleep(self._settings.poll_seconds)
            try:
                asked = await self._queue.cancel_requested(job.id)
            except Exception as error:  # noqa: BLE001 - a loop top: the heartbeat watches over the database
                _log.warning("maintenance.cancel_not_checked", error=str(error))
                continue
            if asked:
                _log.info("maintenance.cancel_requested")
                context.stop(Stop.CANCELLED)
                return

    async def _drain(self, stop: anyio.Event, context: LeasedContext) -> None:
        """Once stopping, give the job its grace; then let it end at its next question."""
        await stop.wait()
        await anyio.sleep(self._settings.drain_seconds)
        _log.info("maintenance.drain_over")
        context.stop(Stop.DRAINED)

    async def _finish(self, job: Job, report: Report) -> None:
        _log.info("maintenance.job_finished", outcome=str(report.outcome), reason=report.reason)
        held = await self._queue.finish(job.id, job.lease_token, report.to_json(), report.plan)
        if not held or report.again_after_ms is None or job.dry_run:
            return
        if not await self._queue.cancel_requested(job.id):  # else whoever asked would meet it again at once
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
        await self._queue.fail(job.id, job.lease_token, told, retry_at)

    def _retry_at(self, attempts: int) -> int:
        wait = min(self._settings.first_retry_ms * 2 ** (attempts - 1), self._settings.longest_retry_ms)
        return self._clock.now_ms() + int(self._ids.jitter(wait / 2, wait))


def _cancelled(report: Report | None, failure: Exception | None) -> JsonObject:
    """What a cancelled run reports: how far it came, if it still could say so."""
    if report is not None:
        return {**report.to_json(), "outcome": str(Outcome.CANCELLED), "againAfterMs": None}
    reason = "cancelled before it was done; nothing is half-done"
    if failure is not None and not isinstance(failure, Stopped | CommitFailed):
        reason = f"cancelled; it failed while it ended: {failure}"
    return Report(outcome=Outcome.CANCELLED, reason=reason).to_json()
