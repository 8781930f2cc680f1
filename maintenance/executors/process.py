"""A pool of processes that execute pieces of work for all jobs of one worker, each with a cap on its memory.

Processes are started when there is work and kept for a while after. They end with their worker, however it ends: their
input does. One that dies takes its one piece of work with it.
"""

import os
import selectors
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import structlog

from maintenance.executors.child import EXCEEDED, Answer, Order, frame, read_frame
from maintenance.executors.inline import InlineExecutor
from maintenance.executors.memory import told
from maintenance.executors.port import (
    Ended,
    GoOn,
    MemoryExceeded,
    R,
    Reach,
    Work,
    WorkLost,
    stays_here,
)

_log = structlog.get_logger(__name__)

# Not as `-m`: its classes would be those of `__main__` there, and no others' here.
_PROGRAM: Final = "from maintenance.executors.child import main; main()"
_POLL_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 20.0


class ProcessPool:
    """An `Executor` of local processes; may be used from several threads."""

    def __init__(self, *, processes: int, memory_bytes: int) -> None:
        """Prepare; `processes` is how many may run at the same time, 0 for one a core."""
        self._most = processes or os.cpu_count() or 1
        self._slots = threading.Semaphore(self._most)
        self._memory = memory_bytes
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self._users = 0
        self._timer: threading.Timer | None = None

    def run(self, works: Iterable[Work[R]], reach: Reach, go_on: GoOn) -> Generator[Ended[R], None, None]:
        """Execute all, as many side by side as there are slots free."""
        if stays_here(reach):
            yield from InlineExecutor().run(works, reach, go_on)
            return
        pending = iter(works)
        running: dict[_Child, Work[R]] = {}
        more = True
        self._enter()
        try:
            while more or running:
                go_on()
                while more and self._may_begin(reach, running) and self._slots.acquire(blocking=False):
                    more = self._begin(pending, reach, running)
                if not running:
                    if more and self._slots.acquire(timeout=_POLL_SECONDS):  # another job has them all
                        self._slots.release()
                    continue
                for child in _ready(running):
                    ended = self._finish(child, running[child])
                    del running[child]
                    self._slots.release()
                    yield ended
        finally:
            _end(running)
            for _ in running:
                self._slots.release()
            self._leave()

    def close(self) -> None:
        """End the idle processes; nothing may be running."""
        with self._lock:
            idle, self._idle = self._idle, []
            if self._timer is not None:
                self._timer.cancel()
        _end(idle)

    def _may_begin(self, reach: Reach, running: "dict[_Child, Work[R]]") -> bool:
        """Whether the job's pace lets another piece of it run beside those that do."""
        side_by_side, _ = reach.pace().among(self._most)
        return len(running) < side_by_side

    def _begin(self, pending: Iterator[Work[R]], reach: Reach, running: "dict[_Child, Work[R]]") -> bool:
        """Start the next piece in the slot that was taken; False when there is none."""
        begun = False
        try:
            work = next(pending, None)
            if work is None:
                return False
            child = self._take()
            running[child] = work
            begun = True
            child.send(Order.of(work, reach, self._most))
        finally:
            if not begun:
                self._slots.release()
        return True

    def _finish(self, child: "_Child", work: Work[R]) -> Ended[R]:
        answer = child.receive()
        if answer is None or answer.ended is None:
            return Ended(work=work, error=child.lost(work, self._memory))
        if answer.resident > self._memory // 2:
            _end([child])  # memory that its allocators keep would count against the next piece
        else:
            with self._lock:
                self._idle.append(child)
        return replace(answer.ended, work=work)

    def _take(self) -> "_Child":
        with self._lock:
            while self._idle:
                child = self._idle.pop()
                if child.alive:
                    return child
        return _Child(self._memory)

    def _enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._timer = threading.Timer(_IDLE_SECONDS, self._end_idle)
                self._timer.daemon = True
                self._timer.start()

    def _end_idle(self) -> None:
        with self._lock:
            if self._users:
                return
            idle, self._idle = self._idle, []
        _end(idle)


class _Child:
    """One process; compared by identity."""

    def __init__(self, memory: int) -> None:
        # Freed memory goes back at once: what a group takes at its peak is what counts.
        env = {"MIMALLOC_PURGE_DELAY": "0", **os.environ}
        self.process = subprocess.Popen(  # noqa: S603 - this program
            [sys.executable, "-c", _PROGRAM, str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
        )

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None

    @property
    def output(self) -> Any:
        """Where its answers come from."""
        return self.process.stdout

    def send(self, order: Order) -> None:
        """Give it work; that it is dead shows when its answer is read."""
        sink: Any = self.process.stdin
        try:
            sink.write(frame(order))
            sink.flush()
        except BrokenPipeError:
            _log.warning("maintenance.process_died", pid=self.process.pid)

    def receive(self) -> Answer | None:
        """Its answer; None when it ended instead."""
        answer: Answer | None = read_frame(self.output)
        return answer

    def lost(self, work: Work[Any], memory: int) -> WorkLost | MemoryExceeded:
        """Why there is no answer."""
        _end([self])
        code = self.process.returncode
        _log.warning("maintenance.work_lost", work=work.title, pid=self.process.pid, code=code)
        if code == EXCEEDED:
            return MemoryExceeded(f"{work.title}: {told(memory)}")
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        return WorkLost(f"{work.title}: its process {how} before it was done; nothing of it is committed")

    def close_input(self) -> None:
        """Tell it to end."""
        sink: Any = self.process.stdin
        try:
            sink.close()
        except BrokenPipeError:
            _log.debug("maintenance.process_died", pid=self.process.pid)

    def wait(self) -> None:
        """Wait until it has ended; not for ever."""
        try:
            self.process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.output.close()


def _ready(running: "Iterable[_Child]") -> "list[_Child]":
    """Those that have something to say or are dead; after a moment none."""
    with selectors.DefaultSelector() as selector:
        for child in running:
            selector.register(child.output, selectors.EVENT_READ, child)
        return [key.data for key, _ in selector.select(_POLL_SECONDS)]


def _end(children: "Iterable[_Child]") -> None:
    """End processes, and await their end: nothing may write any more when it is cleaned up after them."""
    ending = list(children)
    for child in ending:
        child.close_input()
    for child in ending:
        child.wait()
