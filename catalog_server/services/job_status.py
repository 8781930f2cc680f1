"""How maintenance stands on one table, per kind: the last run, what runs or waits, the next run and why then."""

from dataclasses import dataclass
from enum import StrEnum

from catalog_server.store.job_listing import KindJobs
from catalog_server.store.job_rows import JobRow, JobState
from maintenance.policies import Policy
from maintenance.ports import JobKind
from maintenance.schedule import NextRun, OpenRun, Past, next_run


class Result(StrEnum):
    """How the last run of a kind ended."""

    NOT_YET_RUN = "notYetRun"
    SUCCESSFUL = "successful"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindStatus:
    """One kind of maintenance on a table."""

    kind: JobKind
    disabled_reason: str | None
    """Why the kind does not run on this table; None when it does."""
    last: JobRow | None
    """The last run that ended, dry runs aside."""
    open: JobRow | None
    """The job that runs, or else the one that is queued."""
    next: NextRun

    @property
    def result(self) -> Result:
        """How the last run ended."""
        if self.last is None:
            return Result.NOT_YET_RUN
        return _RESULTS[self.last.state]

    @property
    def reason(self) -> str | None:
        """What the last run says of itself: its error, or what it did, or why it did nothing."""
        if self.last is None:
            return None
        return self.last.error or (self.last.report or {}).get("reason")


_RESULTS = {
    JobState.DONE: Result.SUCCESSFUL,
    JobState.FAILED: Result.FAILED,
    JobState.CANCELLED: Result.CANCELLED,
}


def kind_status(kind: JobKind, policy: Policy, jobs: KindJobs, born_ms: int, now_ms: int) -> KindStatus:
    """How one kind stands, by the policy in force and its jobs."""
    return KindStatus(
        kind=kind,
        disabled_reason=policy.disabled_reason,
        last=jobs.last,
        open=jobs.open,
        next=next_run(policy, past(jobs, born_ms), now_ms),
    )


def past(jobs: KindJobs, born_ms: int) -> Past:
    """What the jobs say about when the next run is."""
    ended_ms = None if jobs.last is None else jobs.last.finished_at_ms
    return Past(born_ms=born_ms, ended_ms=ended_ms, open=None if jobs.open is None else _open(jobs.open))


def _open(job: JobRow) -> OpenRun:
    return OpenRun(
        job_id=job.id,
        running=job.state is JobState.RUNNING,
        run_after_ms=job.run_after_ms,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        error=job.error,
    )
