"""How fast a job may go beside those that run now: what is allowed to several together, each has an even part of.

So workers need not talk to each other. The part of a job that does not use it is nobody's until that job ends; a job
that has just begun counts for the others from their next heartbeat on.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from catalog_server.limits import MaintenanceSettings
from catalog_server.store import job_pace
from maintenance.executors.port import UNLIMITED, Pace
from maintenance.ports import Job

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceLimits:
    """The installation's limits; None is no limit."""

    of_worker: float | None = None
    """Bytes a second, of one worker's jobs together."""
    of_bucket: float | None = None
    """Of the jobs on one bucket's tables."""
    of_all: float | None = None
    memory_mb: int | None = None
    """Of the groups of all jobs together."""
    group_memory_mb: int = 1024
    """What one group may take."""

    @classmethod
    def of(cls, wanted: MaintenanceSettings) -> "PaceLimits":
        """The limits that the settings say."""
        return cls(
            of_worker=wanted.mb_per_second * _MIB or None,
            of_bucket=wanted.bucket_mb_per_second * _MIB or None,
            of_all=wanted.total_mb_per_second * _MIB or None,
            memory_mb=wanted.total_memory_mb or None,
            group_memory_mb=wanted.group_memory_mb,
        )


NO_LIMITS = PaceLimits()


def pace(connection: Connection, job: Job, worker: str, limits: PaceLimits) -> Pace:
    """The smallest of its parts."""
    policy = job_pace.bucket_policy(connection, job.bucket_id, job.kind.value)
    mb_per_second, memory_mb = policy.get("maxMBPerSecond"), policy.get("maxMemoryMB")
    given = (limits.of_worker, limits.of_bucket, limits.of_all, limits.memory_mb, mb_per_second, memory_mb)
    if all(limit is None for limit in given):
        return UNLIMITED
    beside = job_pace.running_beside(connection, job.bucket_id, job.kind.value, worker)
    rate = _least(
        (
            (limits.of_worker, beside.of_worker),
            (limits.of_bucket, beside.of_bucket),
            (limits.of_all, beside.of_all),
            (None if mb_per_second is None else mb_per_second * _MIB, beside.of_kind),
        )
    )
    memory = _least(((limits.memory_mb, beside.of_all), (memory_mb, beside.of_kind)))
    pieces = None if memory is None else max(1, int(memory // limits.group_memory_mb))
    return Pace(bytes_per_second=rate, pieces=pieces)


def _least(shared: Iterable[tuple[float | None, int]]) -> float | None:
    return min((limit / max(jobs, 1) for limit, jobs in shared if limit is not None), default=None)
