"""Turns on contended tables, by table: loads that wait, and the timer that ends leases and waits.

Only answers to loads are ever held back, only of clients that committed to that very table a moment ago, and only for a
bounded time; a table without conflicts costs one dictionary look-up. One process's clients only: others' conflict as
they always did.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from catalog_server.services.turn_line import Outcome, Ticket, TurnLine
from catalog_server.telemetry import LOADS_IN_LINE
from table_format.clock import Clock
from table_format.errors import CommitFailed
from table_format.ident import TableIdent

Key: TypeAlias = tuple[str, TableIdent]

# Nobody in particular: not expected to load again.
NOBODY = ""


class Turns:
    """The lines of one process. Used on the event loop only."""

    def __init__(self, clock: Clock, *, longest_wait_seconds: float) -> None:
        self._clock = clock
        self._longest_wait = longest_wait_seconds
        self._lines: dict[Key, TurnLine] = {}
        self._waiting: dict[Ticket, asyncio.Future[None]] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}

    async def before_load(self, bucket: str, ident: TableIdent, caller: str) -> None:
        """Wait until the table's pointer should be read for this client: nearly always not at all."""
        key = bucket, ident
        line = self._lines.get(key)
        if line is None:
            return
        ticket = line.load(caller, self._clock.monotonic())
        self._settle(key, line)
        if ticket.released:
            return
        self._waiting[ticket] = asyncio.get_running_loop().create_future()
        LOADS_IN_LINE.inc()
        try:
            await self._waiting[ticket]
        except asyncio.CancelledError:
            line.leave(ticket, self._clock.monotonic())
            if self._lines.get(key) is line:
                self._settle(key, line)
            raise
        finally:
            self._waiting.pop(ticket, None)
            LOADS_IN_LINE.dec()

    @contextmanager
    def committing(self, bucket: str, idents: Iterable[TableIdent], caller: str) -> Iterator[None]:
        """Around one commit, from its arrival to its outcome."""
        keys = [(bucket, ident) for ident in idents]
        # A client of many tables would hold one turn while it waits for another.
        expected = caller if len(keys) == 1 else NOBODY
        for key in keys:
            if (line := self._lines.get(key)) is not None:
                line.begin(caller, self._clock.monotonic())
        outcome = Outcome.OTHER
        try:
            yield
            outcome = Outcome.APPLIED
        except CommitFailed:
            outcome = Outcome.CONFLICT
            raise
        finally:
            for key in keys:
                self._ended(key, expected, outcome)

    def _ended(self, key: Key, caller: str, outcome: Outcome) -> None:
        line = self._lines.get(key)
        if line is None:
            if outcome is not Outcome.CONFLICT or not self._longest_wait:
                return
            line = self._lines[key] = TurnLine(self._longest_wait)
        line.end(caller, outcome, self._clock.monotonic())
        self._settle(key, line)

    def _settle(self, key: Key, line: TurnLine) -> None:
        """Wake whoever was released, and see to it that the rest is."""
        for ticket in line.take_released():
            waiting = self._waiting.get(ticket)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        now = self._clock.monotonic()
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if line.is_idle(now):
            del self._lines[key]
            return
        delay = max(0.0, line.wake_at() - now)
        self._timers[key] = asyncio.get_running_loop().call_later(delay, self._tick, key)

    def _tick(self, key: Key) -> None:
        self._timers.pop(key, None)
        line = self._lines[key]
        line.expire(self._clock.monotonic())
        self._settle(key, line)
