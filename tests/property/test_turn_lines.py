"""Whatever clients do, nobody waits for ever, and nobody waits without having committed."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from catalog_server.services.turn_line import CONTENDED_SECONDS, Outcome, Ticket, TurnLine

WAIT = 3.0
CALLERS = st.sampled_from("abcdefgh")


@dataclass(frozen=True)
class Step:
    kind: str
    caller: str
    outcome: Outcome
    pause: float


STEPS = st.builds(
    Step,
    kind=st.sampled_from(["load", "begin", "end", "commit", "leave"]),
    caller=CALLERS,
    outcome=st.sampled_from(Outcome),
    pause=st.floats(0, 1.5) | st.just(0.0) | st.floats(0, 0.02),
)


def run_timers(line: TurnLine, now: float, until: float) -> None:
    """What the timer does in between."""
    while (at := line.wake_at()) <= until and not line.is_idle(max(at, now)):
        now = max(at, now)
        line.expire(now)


@given(st.lists(STEPS, max_size=60))
def test_every_load_is_released_within_the_bound(steps: list[Step]) -> None:
    line = TurnLine(WAIT)
    now = 0.0
    open_tickets: list[tuple[Ticket, float]] = []
    committed: set[str] = set()
    for step in steps:
        run_timers(line, now, now + step.pause)
        now += step.pause
        if step.kind == "load":
            ticket = line.load(step.caller, now)
            assert ticket.released or step.caller in committed
            open_tickets.append((ticket, now))
        if step.kind in ("begin", "commit"):
            line.begin(step.caller, now)
        if step.kind in ("end", "commit"):
            line.end(step.caller, step.outcome, now)
            committed.add(step.caller)
        if step.kind == "leave" and (mine := [one for one, _ in open_tickets if one.caller == step.caller]):
            line.leave(mine[-1], now)
        for ticket, arrived in open_tickets:
            assert ticket.released or now < arrived + WAIT
        assert line.length == sum(not ticket.released for ticket, _ in open_tickets)
    released = line.take_released()
    assert len(released) == len(set(map(id, released)))
    assert all(ticket.released for ticket in released)
    run_timers(line, now, now + WAIT + CONTENDED_SECONDS + 2)
    assert all(ticket.released for ticket, _ in open_tickets)
    assert line.is_idle(now + WAIT + CONTENDED_SECONDS + 2)


@given(st.lists(st.tuples(CALLERS, st.floats(0, 0.5)), max_size=40))
def test_a_table_without_conflicts_makes_nobody_wait(commits: list[tuple[str, float]]) -> None:
    line, now = TurnLine(WAIT), 0.0
    for caller, pause in commits:
        now += pause
        assert line.load(caller, now).released
        line.begin(caller, now)
        line.end(caller, Outcome.APPLIED, now)
