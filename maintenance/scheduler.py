"""The scheduler: a clock that asks, at every tick, which jobs are due and which leases ran out.

Keeps nothing: APScheduler is only the metronome here, the database knows what is due. Several schedulers may tick
at once, since a job that is queued already is not queued twice.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC

import anyio
import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from maintenance.ports import JobQueue, PolicySource
from table_format.clock import Clock
from table_format.errors import log_fields

_log = structlog.get_logger(__name__)

Sweep = Callable[[], Awaitable[object]]
"""Forgets rows whose time is over."""


class Scheduler:
    """Turns the passing of time into jobs."""

    def __init__(
        self,
        source: PolicySource,
        queue: JobQueue,
        clock: Clock,
        tick_seconds: float,
        sweeps: Sequence[Sweep] = (),
    ) -> None:
        self._source = source
        self._queue = queue
        self._clock = clock
        self._tick_seconds = tick_seconds
        self._sweeps = sweeps

    async def run(self, stop: anyio.Event) -> None:
        """Tick until `stop` is set, the first time at once."""
        metronome = AsyncIOScheduler(timezone=UTC)
        trigger = IntervalTrigger(seconds=self._tick_seconds, timezone=UTC)
        metronome.add_job(
            self._guarded_tick, trigger, coalesce=True, max_instances=1, misfire_grace_time=None
        )
        metronome.start()
        try:
            await self._guarded_tick()
            await stop.wait()
        finally:
            metronome.shutdown(wait=False)

    async def tick(self) -> int:
        """Give back stalled jobs, enqueue what is due, sweep away what has expired; how many jobs were due."""
        now_ms = self._clock.now_ms()
        stalled = await self._queue.requeue_stalled(now_ms)
        if stalled:
            _log.warning("maintenance.stalled_jobs_requeued", count=stalled)
        due = await self._source.due(now_ms)
        for new in due:
            await self._queue.enqueue(new)
        for sweep in self._sweeps:
            await sweep()
        return len(due)

    async def _guarded_tick(self) -> None:
        try:
            await self.tick()
        except Exception as error:  # noqa: BLE001 - a loop top: the next tick may find the database again
            _log.warning("maintenance.tick_failed", **log_fields(error))
