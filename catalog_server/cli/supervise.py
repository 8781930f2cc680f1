"""Child processes of `serve`: started, restarted when they die, told to drain by the end of their standard input.

A child watches its standard input, so that it drains and ends even when the parent is killed outright.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Sequence

import structlog

_log = structlog.get_logger(__name__)
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_HEALTHY_AFTER_SECONDS = 60.0
STDIN_FLAG = "--until-stdin-ends"


class Child:
    """One supervised child process of this program."""

    def __init__(
        self, name: str, arguments: Sequence[str], *, drain_seconds: float, fds: Sequence[int] = ()
    ) -> None:
        self._name = name
        self._arguments = list(arguments)
        self._drain_seconds = drain_seconds
        self._fds = tuple(fds)
        self.ready = asyncio.Event()
        """Set when the child has printed its first line; its output goes nowhere else."""

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the child alive until `stop`, then let it drain."""
        pause = _FIRST_PAUSE_SECONDS
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            started = loop.time()
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "catalog_server",
                *self._arguments,
                STDIN_FLAG,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                pass_fds=self._fds,
            )
            await self._until_end(process, stop)
            if stop.is_set():
                return
            _log.error("child_died", child=self._name, code=process.returncode, restart_in_seconds=pause)
            await _sleep_or(stop, pause)
            healthy = loop.time() - started > _HEALTHY_AFTER_SECONDS
            pause = _FIRST_PAUSE_SECONDS if healthy else min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _until_end(self, process: asyncio.subprocess.Process, stop: asyncio.Event) -> None:
        ended = asyncio.create_task(process.wait())
        heard = asyncio.create_task(self._listen(process))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                await self._drain(process, ended)
        finally:
            if not ended.done():
                process.kill()
                await ended
            heard.cancel()
            stopping.cancel()

    async def _drain(self, process: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        if process.stdin is not None:
            process.stdin.close()
        done, _ = await asyncio.wait({ended}, timeout=self._drain_seconds)
        if not done:
            _log.warning("child_killed", child=self._name, drain_seconds=self._drain_seconds)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is None:
            return
        while await process.stdout.readline():
            self.ready.set()


async def _sleep_or(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def when_stdin_ends(call: Callable[[], object]) -> None:
    """Call from a thread, once, when the parent closes our standard input or dies."""

    def watch() -> None:
        # os.read, not sys.stdin: a buffered reader is locked while it waits, which breaks the interpreter's exit.
        while os.read(0, 1024):
            pass
        call()

    threading.Thread(target=watch, name="stdin-watch", daemon=True).start()
