"""Where a plan is made: a small one in a thread of this process, any other in a process of the pool.

Starting a process takes a second and asking one takes milliseconds, in which a small plan is long done; a large plan
in a thread would hold up requests for as long as it takes.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TypeAlias

import structlog

from catalog_server.services.plan_pool import PlanPool
from catalog_server.services.plan_process import PlanningCrashed
from catalog_server.services.plan_work import Outcome, PlanJob, Planner
from catalog_server.telemetry import PLAN_SECONDS
from table_format.clock import Clock
from table_format.errors import Internal, Unavailable

_log = structlog.get_logger(__name__)

PoolAndWay: TypeAlias = tuple[PlanPool, Callable[[str], Mapping[str, str]]]
"""Processes, and by which properties they reach a place; the database may be asked for that, so in a thread."""

_MOST_IN_THREADS = 2  # each takes turns with the event loop


class PlanPlaces:
    """Threads and processes for planning. Used on the event loop only."""

    def __init__(
        self,
        planner: Planner,
        threads: Executor,
        pool: PoolAndWay | None,
        clock: Clock,
        *,
        thread_files: int,
        queue: int,
    ) -> None:
        self._planner, self._threads = planner, threads
        self._pool = pool
        self._clock = clock
        self._thread_files = thread_files
        self._slots = asyncio.Semaphore(_MOST_IN_THREADS)
        self._most = _MOST_IN_THREADS + queue
        self._in_threads = 0

    async def run(self, job: PlanJob, files: int | None) -> Outcome:
        """Run a job on a snapshot of about so many files (None: unknown, maybe many).

        Raises:
            Unavailable: too many wait already, or the process died or took too long.
            TableFormatError: what planning raised.
        """
        small = files is not None and files <= self._thread_files
        began = self._clock.monotonic()
        if self._pool is None or small:
            place, work = "thread", self._in_thread(job)
        else:
            place, work = "process", self._in_process(*self._pool, job)
        try:
            return await work
        except PlanningCrashed as error:
            _log.error("planning_crashed", traceback=str(error))
            raise Internal(
                "planning the scan failed unexpectedly; the server's log has the details"
            ) from None
        finally:
            PLAN_SECONDS.labels(place).observe(self._clock.monotonic() - began)

    async def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            await self._pool[0].close()

    async def _in_process(
        self, pool: PlanPool, properties_for: Callable[[str], Mapping[str, str]], job: PlanJob
    ) -> Outcome:
        properties: Mapping[str, str] = {}
        if job.within is not None:
            loop = asyncio.get_running_loop()
            properties = await loop.run_in_executor(self._threads, properties_for, job.within)
        return await pool.run(job, properties)

    async def _in_thread(self, job: PlanJob) -> Outcome:
        if self._in_threads >= self._most:
            raise Unavailable(f"too many scans are being planned ({self._in_threads}); try again")
        self._in_threads += 1
        try:
            async with self._slots:
                return await asyncio.get_running_loop().run_in_executor(self._threads, self._planner.run, job)
        finally:
            self._in_threads -= 1
