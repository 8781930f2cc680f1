"""Whether a job that was claimed may begin: what its policy says of being off, of quiet hours and of planning only."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from maintenance.policy_types import InForce
from maintenance.ports import Job, JobContext
from maintenance.report import Outcome, Report, skipped

P = TypeVar("P", bound=InForce)


def admitted(ctx: JobContext, job: Job, expected: type[P]) -> tuple[Job, P] | Report:
    """The job as it is to run, with its policy; or the report of why it does not run, or not now.

    In quiet hours only what a person asked for begins; other jobs come back when the quiet ends. What runs already
    goes on to its end, also in another attempt.

    Raises:
        TypeError: the policy in force is of another kind.
    """
    policy = ctx.policy(job.kind)
    if not isinstance(policy, expected):
        raise TypeError(f"the job {job.kind} was given a {type(policy).__name__}")
    if policy.disabled_reason is not None:
        return skipped(policy.disabled_reason)
    quiet = policy.quiet_hours
    now_ms = ctx.clock.now_ms()
    interrupted = job.plan is not None
    if quiet is not None and not (job.urgent or job.dry_run or interrupted):
        until_ms = quiet.until_ms(now_ms)
        if until_ms is not None:
            return Report(
                outcome=Outcome.SKIPPED,
                reason=f"quiet hours of the policy until {_text(until_ms)}: it runs after that",
                again_after_ms=until_ms - now_ms,
            )
    return (replace(job, dry_run=True) if policy.dry_run else job), policy


def _text(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
