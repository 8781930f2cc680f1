"""Whose turn it is on one contended table: a pure state machine over given times (seconds on a monotonic clock).

A writer that works optimistically loads, prepares and commits; where many do so at once, each success makes all the
others' work stale. So once commits have conflicted, a load by a client that will probably commit next waits in line,
and the one at the front is answered and has the table to itself for a short lease: until any commit gets in, its own
was refused, or the lease ran out. Nothing here decides a commit: a client that jumps the line, or comes late, is
judged by the pointer's swap like everybody.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

# After this long without a conflict or anybody in line, the table is as any other.
CONTENDED_SECONDS = 5.0
# A client that was refused comes back within its back-off (100 to 800 ms by default); one that got in, at once.
EXPECTED_SECONDS = 2.0
# A lease is a few times as long as clients took lately from the answer to their commit.
LEASE_LEAST_SECONDS, LEASE_MOST_SECONDS = 0.05, 1.0
_FIRST_GUESS_SECONDS = 0.05
_LEASE_FACTOR = 4
_NEWEST_WEIGHT = 0.2
# A commit that has arrived is nearly done: this is only against one that hangs.
COMMITTING_SECONDS = 2.0
_MOST_REMEMBERED = 1_000


class Outcome(Enum):
    """How a commit ended."""

    APPLIED = auto()
    CONFLICT = auto()
    OTHER = auto()


@dataclass(slots=True, eq=False)
class Ticket:
    """One load: answered already (`released`), or waiting until it is."""

    caller: str
    until: float = 0.0
    released: bool = False
    leased: bool = False


@dataclass(slots=True)
class _Expected:
    until: float
    loads: int = 0
    refused: bool = False


@dataclass(slots=True)
class _Lease:
    caller: str
    granted: float
    deadline: float


@dataclass(slots=True)
class TurnLine:
    """The line of one table. Every method may release tickets: they come out of `take_released`."""

    longest_wait: float
    _contended_until: float = 0.0
    _typical: float = _FIRST_GUESS_SECONDS
    _lease: _Lease | None = None
    _refused: deque[Ticket] = field(default_factory=deque)
    _waiting: deque[Ticket] = field(default_factory=deque)
    _expected: dict[str, _Expected] = field(default_factory=dict)
    _granted: dict[str, float] = field(default_factory=dict)
    _released: list[Ticket] = field(default_factory=list)

    @property
    def length(self) -> int:
        """How many loads wait."""
        return len(self._refused) + len(self._waiting)

    def load(self, caller: str, now: float) -> Ticket:
        """A load arrives: the ticket is released at once, or waits in line."""
        self.expire(now)
        self._granted.pop(caller, None)  # what it commits next is based on this load
        ticket = Ticket(caller, until=now + self.longest_wait)
        expected = self._expected.get(caller)
        if now >= self._contended_until or expected is None or expected.until <= now:
            ticket.released = True
            return ticket
        refused = expected.refused
        expected.refused = False
        expected.loads -= 1
        if not expected.loads:
            del self._expected[caller]
        if self._lease is None:
            self._grant(ticket, now)
        else:
            (self._refused if refused else self._waiting).append(ticket)
            self._contended_until = now + CONTENDED_SECONDS
        return ticket

    def leave(self, ticket: Ticket, now: float) -> None:
        """A waiting client gave up: its place, or the turn that it just got, goes to the next."""
        for line in (self._refused, self._waiting):
            if ticket in line:
                line.remove(ticket)
        if ticket.leased and self._lease is not None and self._lease.caller == ticket.caller:
            self._next(now)
        ticket.released = True

    def begin(self, caller: str, now: float) -> None:
        """A commit arrives: the lease lasts until it is done, if it is the holder's."""
        granted = self._granted.pop(caller, None)
        if granted is not None:
            took = min(now - granted, LEASE_MOST_SECONDS)
            self._typical += _NEWEST_WEIGHT * (took - self._typical)
        if self._lease is not None and self._lease.caller == caller:
            self._lease.deadline = max(self._lease.deadline, now + COMMITTING_SECONDS)

    def end(self, caller: str, outcome: Outcome, now: float) -> None:
        """A commit is done; `caller` may load again soon (an empty one is expected never)."""
        if outcome is Outcome.CONFLICT:
            self._contended_until = now + CONTENDED_SECONDS
        if caller and outcome is not Outcome.OTHER and now < self._contended_until:
            self._expect(caller, now, refused=outcome is Outcome.CONFLICT)
        lease = self._lease
        # Any success makes what the holder was given stale; it gains nothing by keeping the others waiting.
        if lease is not None and (outcome is Outcome.APPLIED or lease.caller == caller):
            self._next(now)
        self.expire(now)

    def expire(self, now: float) -> None:
        """End what has run out by now."""
        if self._lease is not None and self._lease.deadline <= now:
            # Too short, or its holder went away; a late commit tells which, and `_typical` learns from it.
            self._next(now)
        for line in (self._refused, self._waiting):
            while line and line[0].until <= now:
                self._release(line.popleft())

    def wake_at(self) -> float:
        """When `expire` is to be called next."""
        times = [line[0].until for line in (self._refused, self._waiting) if line]
        if self._lease is not None:
            times.append(self._lease.deadline)
        return min(times, default=self._contended_until)

    def is_idle(self, now: float) -> bool:
        """Whether nothing would be lost if the line were forgotten."""
        return self._lease is None and not self.length and now >= self._contended_until

    def take_released(self) -> list[Ticket]:
        """The tickets released since the last time."""
        released, self._released = self._released, []
        return released

    def _expect(self, caller: str, now: float, *, refused: bool) -> None:
        if len(self._expected) >= _MOST_REMEMBERED:
            self._expected = {name: one for name, one in self._expected.items() if one.until > now}
        expected = self._expected.setdefault(caller, _Expected(now))
        expected.until = now + EXPECTED_SECONDS
        expected.loads += 1
        expected.refused |= refused

    def _next(self, now: float) -> None:
        self._lease = None
        line = self._refused or self._waiting
        if line:
            ticket = line.popleft()
            self._grant(ticket, now)
            self._released.append(ticket)

    def _grant(self, ticket: Ticket, now: float) -> None:
        ticket.released = ticket.leased = True
        length = min(max(_LEASE_FACTOR * self._typical, LEASE_LEAST_SECONDS), LEASE_MOST_SECONDS)
        self._lease = _Lease(ticket.caller, now, now + length)
        while len(self._granted) >= _MOST_REMEMBERED:
            del self._granted[next(iter(self._granted))]  # the oldest
        self._granted[ticket.caller] = now
        self._contended_until = max(self._contended_until, now + length)

    def _release(self, ticket: Ticket) -> None:
        ticket.released = True
        self._released.append(ticket)
