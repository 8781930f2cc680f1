"""A world of processes in one thread: who runs next, what fails, and when, is drawn from one seed.

Sync code (jobs, writers, storage work) runs in greenlets, async code (the services) on an event loop that knows no
sockets. Both stop at every point where they leave their process: an object store's call, a database's, an answer, a
sleep. There the seed decides who goes on; whether the call fails before it has an effect, or after, its answer lost;
whether the process dies there (nothing of it runs again, no `finally` either) or stands still beyond its leases.
"""

import asyncio
import contextvars
import gc
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

T = TypeVar("T")
PROCESS: contextvars.ContextVar["Process"] = contextvars.ContextVar("process")


class Violation(AssertionError):
    """An invariant does not hold."""


class Fate(Enum):
    """What becomes of a call to the outside."""

    FINE = auto()
    BEFORE = auto()
    """It fails, and had no effect."""
    AFTER = auto()
    """It has its effect, and its answer is lost."""


@dataclass(frozen=True, kw_only=True)
class Odds:
    """How likely what is, for each step."""

    fail: float = 0.0
    twice: float = 0.0
    """How often a request of a client is delivered twice."""
    crash: float = 0.0
    stall: float = 0.0
    rush: float = 0.05
    """Time passes until the next timer, though somebody could go on."""
    stall_ms: tuple[int, int] = (30_000, 300_000)
    skew_ms: int = 0
    """How far a machine's clock may be before or behind the object store's; twice as far from another machine's."""
    late_ms: int = 0
    """How long a listing of the object store may miss what was written, and show what was deleted."""


@dataclass(eq=False)
class Process:
    """What dies, or stands still, as one."""

    name: str
    mortal: bool = True
    alive: bool = True
    stalled_until_ms: int = 0
    at_death: list[Callable[[], None]] = field(default_factory=list)
    tasks: set["Task"] = field(default_factory=set)

    def __repr__(self) -> str:
        return self.name


@dataclass(eq=False, kw_only=True)
class Doom:
    """One process meets it at one point of its run."""

    process: Process
    left: int
    """Points that it still gets past."""
    stall_ms: int = 0
    """How long it stands still there; 0: it dies."""
    then: Callable[[], None] = lambda: None
    """What happens when it stands still."""
    at: str | None = None
    """The point where it did; None: it has not come so far."""


@dataclass(eq=False)
class Waiter:
    """Somebody who can go on."""

    process: Process
    what: str
    wake: Callable[[], None]
    not_before_ms: int = 0


class Task:
    """Sync code in a greenlet of its own."""

    def __init__(self, sim: "Sim", process: Process, fn: Callable[[], Any], name: str) -> None:
        self.name = name
        self.process = process
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.then: list[Callable[[], None]] = []
        self._fn = fn
        self._sim = sim
        self.greenlet = greenlet(self._run, sim.hub)
        process.tasks.add(self)

    def _run(self) -> None:
        PROCESS.set(self.process)
        try:
            self.value = self._fn()
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            self.error = error
        except GreenletExit:
            return
        self.done = True
        self.process.tasks.discard(self)
        for call in self.then:
            call()


class SkewedClock:
    """The clock of one machine: so many milliseconds beside the simulation's, and as fast."""

    def __init__(self, sim: "Sim", beside_ms: int) -> None:
        self._sim = sim
        self._beside_ms = beside_ms

    def now_ms(self) -> int:
        return self._sim.now_ms() + self._beside_ms

    def monotonic(self) -> float:
        return self._sim.monotonic()

    def sleep(self, seconds: float) -> None:
        self._sim.sleep(seconds)


class SimExecutor(Executor):
    """Stands for the threads of a process; its work runs in greenlets."""

    def __init__(self, process: Process) -> None:
        self.process = process


class SimLoop(asyncio.AbstractEventLoop):
    """An event loop without sockets, whose time is the simulation's."""

    def __init__(self, sim: "Sim") -> None:
        self._sim = sim
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._count = 0

    def run_ready(self) -> None:
        while self._ready:
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()

    def fire_due(self) -> None:
        while self._timers and (self._timers[0][2].cancelled() or self._timers[0][0] <= self.time()):
            _, _, handle = heapq.heappop(self._timers)
            if not handle.cancelled():
                self._ready.append(handle)

    def next_timer(self) -> float | None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def end(self) -> None:
        """What still waits ends here, so that nothing of it is left to be collected later."""
        for _ in range(100):
            pending = [task for task in self._tasks if not task.done()]
            if not pending:
                break
            for task in pending:
                task.cancel()
            self.run_ready()
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.exception()  # seen
        self._ready.clear()
        self._timers.clear()

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def time(self) -> float:
        return self._sim.monotonic()

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by a handle; it is passed over when its time comes."""

    def get_task_factory(self) -> None:
        return None

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> "asyncio.Task[Any]":
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> "asyncio.Future[Any]":
        assert isinstance(executor, SimExecutor), "work on threads that the simulation does not know"
        return self._sim.in_thread(executor.process, lambda: func(*args))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if "was destroyed" not in context["message"]:  # else a process that died
            self._sim.background.append(context)


class Sim:
    """The scheduler. Used as a context, on the thread that runs it."""

    def __init__(self, seed: int, odds: Odds, now_ms: int = 1_767_225_600_000) -> None:
        self.rng = random.Random(seed)
        self.odds = odds
        self.hub = getcurrent()
        self.loop = SimLoop(self)
        self.waiting: list[Waiter] = []
        self.background: list[dict[str, Any]] = []
        self.violations: list[Violation] = []
        self.trace: list[str] = []
        self.steps = 0
        self.over = False
        self.processes: list[Process] = []
        self.doom: Doom | None = None
        self._start_ms = self._now_ms = now_ms
        self._tasks: list[Task] = []

    def __enter__(self) -> "Sim":
        # Arrow's threads run Python now and then; were garbage collected there, greenlets would end in a wrong thread.
        gc.disable()
        asyncio._set_running_loop(self.loop)
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True
        for task in self._tasks:
            if not task.done:
                task.greenlet.throw(GreenletExit)
        self.loop.end()
        asyncio._set_running_loop(None)
        gc.enable()

    # time, which is also the Clock of the product

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return (self._now_ms - self._start_ms) / 1000

    def sleep(self, seconds: float) -> None:
        """The clock's sleep, for code in greenlets; set-up code just lets time pass."""
        if getcurrent() is self.hub:
            self.advance_ms(int(seconds * 1000))
        else:
            self._pause(PROCESS.get(), "sleep", self._now_ms + int(seconds * 1000))

    def advance_ms(self, by: int) -> None:
        """Let time pass with nobody running."""
        self._now_ms += by

    # processes and tasks

    def process(self, name: str, *, mortal: bool = True) -> Process:
        process = Process(name, mortal=mortal)
        self.processes.append(process)
        return process

    def spawn(self, process: Process, fn: Callable[[], Any], name: str) -> Task:
        """Run sync code in the process."""
        task = Task(self, process, fn, name)
        self._tasks.append(task)
        self.waiting.append(Waiter(process, f"{name} begins", task.greenlet.switch))
        return task

    def in_thread(self, process: Process, fn: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Run sync code in the process for async code that waits."""
        future = self.loop.create_future()

        def settle() -> None:
            if future.cancelled():
                return
            if task.error is None:
                future.set_result(task.value)
            else:
                future.set_exception(task.error)

        if getcurrent() is self.hub and self.steps == 0:  # set-up
            try:
                future.set_result(fn())
            except Exception as error:  # noqa: BLE001
                future.set_exception(error)
            return future
        task = self.spawn(process, fn, "thread")
        task.then.append(settle)
        return future

    def wait(self, process: Process, work: Coroutine[Any, Any, T]) -> T:
        """Run async code for sync code that waits."""
        context = contextvars.copy_context()
        context.run(PROCESS.set, process)
        task = self.loop.create_task(work, context=context)
        if getcurrent() is self.hub:
            while not task.done():
                self.loop.run_ready()
                if not task.done():
                    self.step()
            return task.result()  # type: ignore[no-any-return]
        current = getcurrent()
        task.add_done_callback(
            lambda _: (
                self.waiting.append(Waiter(process, "answer", current.switch)) if process.alive else None
            )
        )
        self.hub.switch()
        self._refuse_when_over()
        return task.result()  # type: ignore[no-any-return]

    def keep_going(self, work: Coroutine[Any, Any, None]) -> None:
        """Run async code that nobody waits for; it must not fail."""

        def ended(task: "asyncio.Task[None]") -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.violations.append(Violation(f"{task}: {error!r}"))
                self.violations[-1].__cause__ = error

        self.loop.create_task(work).add_done_callback(ended)

    # points

    def point(self, process: Process, what: str) -> Fate:
        """Where sync code leaves its process."""
        if getcurrent() is self.hub:
            return Fate.FINE
        self._pause(process, what, 0)
        return self.fate()

    async def apoint(self, process: Process, what: str) -> Fate:
        """Where async code leaves its process."""
        if self.over:
            raise asyncio.CancelledError
        if self.steps == 0:
            return Fate.FINE
        future = self.loop.create_future()
        if process.alive:
            self.waiting.append(
                Waiter(process, what, lambda: None if future.cancelled() else future.set_result(None))
            )
        await future
        return self.fate()

    def fate(self) -> Fate:
        if not self.odds.fail or self.rng.random() >= self.odds.fail:
            return Fate.FINE
        return self.rng.choice((Fate.BEFORE, Fate.AFTER))

    def _pause(self, process: Process, what: str, not_before_ms: int) -> None:
        self._refuse_when_over()
        if process.alive:
            self.waiting.append(Waiter(process, what, getcurrent().switch, not_before_ms))
        self.hub.switch()
        self._refuse_when_over()

    def _refuse_when_over(self) -> None:
        if self.over:
            raise GreenletExit

    # the schedule

    def run(self, until: Callable[[], bool], most: int = 20_000) -> None:
        """Steps until the condition holds or nobody is left who could go on."""
        for _ in range(most):
            self.loop.run_ready()
            if self.violations:
                raise self.violations[0]
            if until() or not self.step():
                return
        raise Violation(f"no end after {most} steps: {self.trace[-30:]}")

    def step(self) -> bool:
        """One waiter goes on; False when there is none, ever."""
        self.steps += 1
        self._now_ms += self.rng.randrange(12)
        self.loop.fire_due()
        self.loop.run_ready()
        ready = [waiter for waiter in self.waiting if self._may_go(waiter)]
        if not ready or self.rng.random() < self.odds.rush:
            if not self._to_next_moment() and not ready:
                return bool(self.loop.next_timer())
            return True
        chosen = ready[self.rng.randrange(len(ready))] if len(ready) > 1 else ready[0]
        process = chosen.process
        if self.doom is not None and self.doom.process is process and self._meets(self.doom, chosen):
            return True
        drawn = self.rng.random()
        if process.mortal and drawn < self.odds.crash:
            self.kill(process, chosen.what)
            return True
        if process.mortal and drawn < self.odds.crash + self.odds.stall:
            process.stalled_until_ms = self._now_ms + self.rng.randint(*self.odds.stall_ms)
            self.note(f"{process} stands still at {chosen.what}")
            return True
        self.waiting.remove(chosen)
        self.trace.append(f"{process}: {chosen.what}")
        chosen.wake()
        return True

    def _meets(self, doom: Doom, waiter: Waiter) -> bool:
        doom.left -= 1
        if doom.left >= 0 or doom.at is not None:
            return False
        doom.at = waiter.what
        if not doom.stall_ms:
            self.kill(doom.process, waiter.what)
        else:
            doom.process.stalled_until_ms = self._now_ms + doom.stall_ms
            self.note(f"{doom.process} stands still at {waiter.what}")
            doom.then()
        return True

    def _may_go(self, waiter: Waiter) -> bool:
        return max(waiter.not_before_ms, waiter.process.stalled_until_ms) <= self._now_ms

    def _to_next_moment(self) -> bool:
        moments = [max(w.not_before_ms, w.process.stalled_until_ms) for w in self.waiting]
        timer = self.loop.next_timer()
        if timer is not None:
            moments.append(self._start_ms + int(timer * 1000) + 1)
        later = [moment for moment in moments if moment > self._now_ms]
        if not later:
            return False
        self._now_ms = min(later)
        return True

    def kill(self, process: Process, at: str) -> None:
        """kill -9: nothing of it runs again."""
        self.note(f"{process} dies at {at}")
        process.alive = False
        self.waiting = [waiter for waiter in self.waiting if waiter.process is not process]
        for call in process.at_death:
            call()

    def note(self, text: str) -> None:
        """A line of the story."""
        self.trace.append(f"-- {self._now_ms - self._start_ms} ms: {text}")
