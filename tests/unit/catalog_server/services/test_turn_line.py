"""Turns on one contended table, on a clock that the test moves."""

import pytest

from catalog_server.services.turn_line import (
    COMMITTING_SECONDS,
    CONTENDED_SECONDS,
    EXPECTED_SECONDS,
    LEASE_LEAST_SECONDS,
    LEASE_MOST_SECONDS,
    Outcome,
    Ticket,
    TurnLine,
)

WAIT = 3.0


@pytest.fixture
def line() -> TurnLine:
    return TurnLine(WAIT)


def refused(line: TurnLine, *callers: str, now: float = 0.0) -> None:
    """Commits of these clients that conflicted."""
    for caller in callers:
        line.begin(caller, now)
        line.end(caller, Outcome.CONFLICT, now)


def names(tickets: list[Ticket]) -> list[str]:
    return [ticket.caller for ticket in tickets]


def test_without_conflicts_nobody_waits(line: TurnLine) -> None:
    for number in range(5):
        line.begin("a", number)
        line.end("a", Outcome.APPLIED, number)
        assert line.load("a", number).released
        assert line.load("b", number).released
    assert line.is_idle(0.0)


def test_whoever_did_not_commit_never_waits(line: TurnLine) -> None:
    refused(line, "a", "b")
    assert line.load("a", 0.1).leased
    assert not line.load("b", 0.1).released
    reader = line.load("reader", 0.1)
    assert reader.released
    assert not reader.leased


def test_one_at_a_time_and_in_order(line: TurnLine) -> None:
    refused(line, "a", "b", "c")
    first, second, third = (line.load(caller, 0.1) for caller in "abc")
    assert [first.released, second.released, third.released] == [True, False, False]
    line.begin("a", 0.11)
    line.end("a", Outcome.APPLIED, 0.12)
    assert names(line.take_released()) == ["b"]
    line.begin("b", 0.13)
    line.end("b", Outcome.APPLIED, 0.14)
    assert names(line.take_released()) == ["c"]


def test_a_client_that_got_in_waits_for_its_next_turn(line: TurnLine) -> None:
    refused(line, "a", "b")
    line.load("a", 0.1)
    line.load("b", 0.1)
    line.begin("a", 0.11)
    line.end("a", Outcome.APPLIED, 0.12)
    assert not line.load("a", 0.13).released


def test_one_commit_lets_only_one_load_wait(line: TurnLine) -> None:
    refused(line, "a", "b")
    line.load("a", 0.1)
    assert not line.load("b", 0.1).released
    assert line.load("b", 0.1).released


def test_the_refused_go_first(line: TurnLine) -> None:
    refused(line, "a", "b")
    line.end("glad", Outcome.APPLIED, 0.1)
    line.load("a", 0.1)
    assert not line.load("glad", 0.11).released
    assert not line.load("b", 0.12).released
    line.end("a", Outcome.CONFLICT, 0.13)
    assert names(line.take_released()) == ["b"]
    line.end("b", Outcome.APPLIED, 0.14)
    assert names(line.take_released()) == ["glad"]


def test_any_success_ends_the_lease(line: TurnLine) -> None:
    refused(line, "a", "b")
    line.load("a", 0.1)
    line.load("b", 0.1)
    line.begin("jumper", 0.11)
    line.end("jumper", Outcome.APPLIED, 0.12)
    assert names(line.take_released()) == ["b"]


def test_a_strangers_conflict_does_not_end_the_lease(line: TurnLine) -> None:
    refused(line, "a", "b")
    line.load("a", 0.1)
    line.load("b", 0.1)
    refused(line, "stranger", now=0.11)
    assert not line.take_released()


def test_a_holder_that_went_away_costs_one_lease(line: TurnLine) -> None:
    refused(line, "a", "b")
    line.load("a", 0.1)
    line.load("b", 0.1)
    end = line.wake_at()
    assert 0.1 + LEASE_LEAST_SECONDS <= end <= 0.1 + LEASE_MOST_SECONDS
    line.expire(end - 0.001)
    assert not line.take_released()
    line.expire(end)
    assert names(line.take_released()) == ["b"]


def test_a_commit_on_its_way_keeps_the_lease_for_a_bounded_time(line: TurnLine) -> None:
    refused(line, "a", "b")
    line.load("a", 0.1)
    line.load("b", 0.1)
    line.begin("a", 0.11)
    line.expire(0.11 + COMMITTING_SECONDS - 0.01)
    assert not line.take_released()
    line.expire(0.11 + COMMITTING_SECONDS)
    assert names(line.take_released()) == ["b"]


def test_a_strangers_commit_does_not_make_the_lease_longer(line: TurnLine) -> None:
    refused(line, "a", "b")
    line.load("a", 0.1)
    line.load("b", 0.1)
    end = line.wake_at()
    line.begin("stranger", 0.11)
    assert line.wake_at() == end


def test_nobody_waits_longer_than_the_bound(line: TurnLine) -> None:
    refused(line, "a", "b")
    line.load("a", 0.1)
    line.load("b", 0.1)
    for step in range(40):  # commits that keep coming and never end
        line.begin("a", 0.1 + step / 10)
        line.expire(0.1 + step / 10)
        if (released := line.take_released()) != []:
            assert names(released) == ["b"]
            assert 0.1 + step / 10 == pytest.approx(0.1 + WAIT, abs=0.1)
            assert not released[0].leased
            return
    pytest.fail("never released")


def test_the_lease_learns_how_long_clients_take(line: TurnLine) -> None:
    refused(line, "a")
    now, lengths = 1.0, []
    for _ in range(30):
        assert line.load("a", now).leased
        lengths.append(line.wake_at() - now)
        line.begin("a", now + 0.2)
        line.end("a", Outcome.APPLIED, now + 0.2)
        now += 0.2
    assert lengths[-1] == pytest.approx(0.8, rel=0.1)
    assert all(LEASE_LEAST_SECONDS <= length <= LEASE_MOST_SECONDS for length in lengths)


def test_a_late_commit_is_learnt_from_too(line: TurnLine) -> None:
    refused(line, "a", "b")
    line.load("a", 0.1)
    line.load("b", 0.1)
    first = line.wake_at() - 0.1
    line.expire(line.wake_at())
    line.begin("a", 0.9)
    line.end("a", Outcome.CONFLICT, 0.9)
    line.end("b", Outcome.OTHER, 0.9)
    line.load("a", 1.0)
    assert line.wake_at() - 1.0 > first


def test_a_client_that_does_not_come_back_is_forgotten(line: TurnLine) -> None:
    refused(line, "a", "b", "c")
    line.load("a", 0.1)
    late = line.load("b", 0.1 + EXPECTED_SECONDS)
    assert late.released
    assert not late.leased


def test_a_table_without_further_conflicts_is_as_any_other(line: TurnLine) -> None:
    refused(line, "a")
    assert not line.is_idle(CONTENDED_SECONDS - 0.1)
    assert line.wake_at() == CONTENDED_SECONDS
    assert line.is_idle(CONTENDED_SECONDS)


def test_what_is_remembered_of_clients_is_bounded(line: TurnLine) -> None:
    for number in range(5_000):
        now = number * 0.01
        refused(line, f"client {number}", now=now)
        line.load(f"client {number}", now)
        line.expire(now + 0.009)
    assert len(line._granted) <= 1_000
    assert len(line._expected) <= 1_000
