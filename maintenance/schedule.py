"""When a kind of maintenance runs next on a table, and why then. Pure: the scheduler and the status views ask the same.

`due_at` decides, `next_run` says it in words.
"""

from dataclasses import dataclass
from enum import StrEnum

from maintenance.policy_types import CompactionPolicy, Policy


class Why(StrEnum):
    """Why the next run is when it is."""

    RUNNING = "running"
    """One runs now; when the next is due counts from its end."""
    QUEUED = "queued"
    """One waits for a worker."""
    POSTPONED = "postponed"
    """One waits for its time: files come of age then, or the load after a downtime is spread."""
    BACK_OFF = "backOff"
    """One failed and is tried again then."""
    DISABLED = "disabled"
    """None is planned."""
    INTERVAL = "interval"
    """The policy's interval after the last run, or after the table's creation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A job of the kind that is queued or runs."""

    job_id: int
    running: bool
    run_after_ms: int
    attempts: int
    """Attempts begun so far."""
    max_attempts: int
    error: str | None
    """Of the last attempt, if that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is known of one kind on one table."""

    born_ms: int
    """When the table was made."""
    ended_ms: int | None
    """When the last run ended, however; None: none ever did."""
    open: OpenRun | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRun:
    """The next run: its moment in milliseconds since 1970 (None: not known, or never), and why."""

    at_ms: int | None
    why: Why
    reason: str
    """For people."""


def due_at(policy: Policy, since_ms: int, now_ms: int) -> int | None:
    """When the clock asks for the next run after the one that ended at `since_ms`; None when it never does.

    What would fall due in quiet hours, or did before them and has not begun, is due when they end.
    """
    if not policy.enabled:
        return None
    at_ms = since_ms + policy.interval_seconds * 1000
    quiet_until_ms = _quiet_until(policy, max(at_ms, now_ms))
    return at_ms if quiet_until_ms is None else quiet_until_ms


def _quiet_until(policy: Policy, moment_ms: int) -> int | None:
    return None if policy.quiet_hours is None else policy.quiet_hours.until_ms(moment_ms)


def next_run(policy: Policy, past: Past, now_ms: int) -> NextRun:
    """The next run of a kind; never one in the past."""
    if past.open is not None:
        return _of_open(policy, past.open, now_ms)
    since_ms = past.born_ms if past.ended_ms is None else past.ended_ms
    at_ms = due_at(policy, since_ms, now_ms)
    if at_ms is None:
        return NextRun(
            at_ms=None, why=Why.DISABLED, reason=policy.disabled_reason or "the policy is disabled"
        )
    after = "the table was made" if past.ended_ms is None else "the last run"
    reason = f"{policy.interval_seconds} s after {after}{_or_sooner(policy)}"
    if at_ms > since_ms + policy.interval_seconds * 1000:
        reason = f"{reason}, but not in quiet hours"
    elif at_ms <= now_ms:
        reason = f"due now: {reason}"
    return NextRun(at_ms=max(at_ms, now_ms), why=Why.INTERVAL, reason=reason)


def _of_open(policy: Policy, run: OpenRun, now_ms: int) -> NextRun:
    if run.running:
        then = f"; the next {policy.interval_seconds} s after its end" if policy.enabled else ""
        return NextRun(at_ms=None, why=Why.RUNNING, reason=f"job {run.job_id} runs now{then}")
    if run.error is not None:
        reason = f"attempt {run.attempts} of {run.max_attempts} of job {run.job_id} failed ({run.error}): tried again"
        return NextRun(at_ms=max(run.run_after_ms, now_ms), why=Why.BACK_OFF, reason=reason)
    if run.run_after_ms > now_ms:
        reason = f"job {run.job_id} waits for its time"
        return NextRun(at_ms=run.run_after_ms, why=Why.POSTPONED, reason=reason)
    return NextRun(at_ms=now_ms, why=Why.QUEUED, reason=f"job {run.job_id} waits for a worker")


def _or_sooner(policy: Policy) -> str:
    return ", or when a commit asks for it" if isinstance(policy, CompactionPolicy) else ""
