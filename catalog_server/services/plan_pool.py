"""Where planning runs: in processes of its own, started when the first plan comes and ended when none came for long.

Bounded in both directions: so many run, so many wait, the rest is refused as unavailable. A process that dies takes
its one plan with it (unavailable, to be tried again); the next plan gets a fresh one.
"""

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from catalog_server.services.plan_process import LENGTHS, ProcessGone, job_frame, outcome_of
from catalog_server.services.plan_work import Outcome, PlanJob
from catalog_server.telemetry import PLANNING_PROCESSES
from table_format.errors import Unavailable
from table_format.jsontypes import JsonObject
from table_format.metadata import jsontext

_log = structlog.get_logger(__name__)

_MODULE = "catalog_server.services.plan_process"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """How many and how long."""

    processes: int
    queue: int
    idle_seconds: float
    timeout_seconds: float


class PlanPool:
    """The planning processes of one API process. Used on the event loop only."""

    def __init__(self, limits: PoolLimits) -> None:
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.processes)
        self._admitted = 0
        self._idle: list[_Process] = []
        self._ending: asyncio.TimerHandle | None = None

    async def run(self, job: PlanJob, properties: Mapping[str, str]) -> Outcome:
        """Run one job; its files are reached by those properties.

        Raises:
            Unavailable: too many wait, the process died, or it took too long.
            TableFormatError: what planning raised.
        """
        if self._admitted >= self._limits.processes + self._limits.queue:
            raise Unavailable(
                f"too many scans are being planned ({self._admitted}); try again, or plan in the client"
            )
        self._admitted += 1
        try:
            async with self._slots:
                return await self._run(job_frame(job, properties))
        finally:
            self._admitted -= 1

    async def close(self) -> None:
        """End all processes; no job may be running."""
        if self._ending is not None:
            self._ending.cancel()
        await asyncio.gather(*(process.end() for process in self._take_idle()))

    async def _run(self, message: bytes) -> Outcome:
        process = self._kept()
        if process is not None:
            # One that was kept may have been killed since (out of memory, say): that is not this job's fault.
            with contextlib.suppress(ProcessGone):
                return await self._ask(process, message)
        try:
            return await self._ask(await _Process.start(), message)
        except ProcessGone:
            raise Unavailable("the planning process ended before it answered; try again") from None

    async def _ask(self, process: "_Process", message: bytes) -> Outcome:
        try:
            async with asyncio.timeout(self._limits.timeout_seconds):
                head, body = await process.ask(message)
        except TimeoutError:
            await process.kill()
            raise Unavailable(
                f"planning took longer than {self._limits.timeout_seconds:g} seconds and was given up; "
                "try again, or plan in the client"
            ) from None
        except ProcessGone:
            await process.kill()
            _log.warning("planning_process_died", pid=process.pid)
            raise
        except BaseException:
            await process.kill()  # cancelled: nobody wants the answer that may still come
            raise
        self._give_back(process)
        return outcome_of(head, body)

    def _kept(self) -> "_Process | None":
        while self._idle:
            process = self._idle.pop()
            if process.alive:
                return process
        return None

    def _give_back(self, process: "_Process") -> None:
        self._idle.append(process)
        if self._ending is not None:
            self._ending.cancel()
        loop = asyncio.get_running_loop()
        self._ending = loop.call_later(self._limits.idle_seconds, self._end_idle)

    def _end_idle(self) -> None:
        self._ending = None
        for process in self._take_idle():
            process.let_go()

    def _take_idle(self) -> "list[_Process]":
        taken, self._idle = self._idle, []
        return taken


class _Process:
    """One planning process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        PLANNING_PROCESSES.inc()
        self._watch = asyncio.get_running_loop().create_task(self._until_end())

    @classmethod
    async def start(cls) -> "_Process":
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                _MODULE,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ask(self, message: bytes) -> tuple[JsonObject, bytes]:
        """Send a message; the head and body that come back.

        Raises:
            ProcessGone: the process ended instead.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise ProcessGone
        try:
            self._send(message)
            await self._process.stdin.drain()
            head_length, body_length = LENGTHS.unpack(await self._process.stdout.readexactly(LENGTHS.size))
            head = await self._process.stdout.readexactly(head_length)
            body = await self._process.stdout.readexactly(body_length)
        except (OSError, asyncio.IncompleteReadError):
            raise ProcessGone from None
        return jsontext.loads(head), body

    def let_go(self) -> None:
        """Tell the process to end, by the end of its input."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def end(self) -> None:
        """Let it go and wait for it."""
        self.let_go()
        await self._watch

    async def kill(self) -> None:
        """End it at once."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self.let_go()
        await asyncio.shield(self._watch)

    def _send(self, message: bytes) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(message)

    async def _until_end(self) -> None:
        await self._process.wait()
        PLANNING_PROCESSES.dec()
