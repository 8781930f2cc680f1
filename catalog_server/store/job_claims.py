"""Which job a worker gets next: the order among those that wait, and how many may run beside each other.

Changes a row from queued to running, nothing else.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    or_,
    select,
    update,
)

from catalog_server.store.job_rows import JobRow, JobState, must
from catalog_server.store.schema import buckets, jobs
from catalog_server.store.units import row_locks
from maintenance.ports import URGENT_PRIORITY

_NO_LIMIT: Final = 2**31 - 1
_WORTH_MS: Final = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """Which jobs may be claimed beside those that run already. Dry runs count for no limit."""

    dry_only: bool = False
    """Only dry runs."""
    total: int | None = None
    """Most jobs that run at the same time in the whole installation."""
    per_bucket: int | None = None
    """Most jobs that run at the same time on one bucket's tables."""
    of_buckets: Mapping[int, int] = field(default_factory=dict)
    """The same for some buckets by id, instead of `per_bucket`."""
    of_kinds: Mapping[tuple[int, str], int] = field(default_factory=dict)
    """Most jobs of one kind that run at the same time on one bucket's tables, by (bucket id, kind)."""

    @property
    def limited(self) -> bool:
        """Whether running jobs have to be counted; only a unit that has the database to itself counts right."""
        per_bucket = self.per_bucket is not None or self.of_buckets
        return bool(self.total is not None or per_bucket or self.of_kinds)


ANYTHING: Final = ClaimRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """Who claims, and by which lease."""

    worker: str
    """For people; need not be the only one of that name."""
    token: str
    """The claim's own, never used before."""
    lease_until_ms: int


@row_locks
def claim(
    connection: Connection,
    claimant: Claimant,
    kinds: Collection[str],
    now_ms: int,
    rules: ClaimRules = ANYTHING,
) -> JobRow | None:
    """Take the next due job whose table has no other job running, or None.

    What a person waits for first; else that of the bucket that was served the longest time ago, so that a bucket with
    thousands of jobs delays one with a single job by one job only. Within a bucket the one that waits longest, where
    each step of what a job is worth counts as `_WORTH_MS` of waiting: more worth goes first, and none waits for ever.
    """
    wanted = tuple(kinds)
    due = _due(wanted, rules) if rules.limited else _unlimited(wanted, rules.dry_only)
    job_id = connection.execute(due, {"now_ms": now_ms}).scalar_one_or_none()
    if job_id is None:
        return None
    connection.execute(
        update(jobs)
        .where(jobs.c.id == job_id)
        .values(
            state=JobState.RUNNING,
            lease_owner=claimant.worker,
            lease_token=claimant.token,
            lease_until_ms=claimant.lease_until_ms,
            attempts=jobs.c.attempts + 1,
            started_at_ms=now_ms,
            error=None,
        )
    )
    return must(connection, job_id)


@lru_cache(maxsize=64)
def _unlimited(kinds: tuple[str, ...], dry_only: bool) -> Select[Any]:
    """`_due` without limits, built once: every idle worker asks it all the time."""
    return _due(kinds, ClaimRules(dry_only=dry_only))


def _due(kinds: tuple[str, ...], rules: ClaimRules) -> Select[Any]:
    """The id of the job that is next at `now_ms`."""
    other = jobs.alias("other")
    busy = exists().where(
        other.c.table_uuid == jobs.c.table_uuid, other.c.state == JobState.RUNNING, ~other.c.dry_run
    )
    served = jobs.alias("served")
    served_ms = (
        select(func.max(served.c.started_at_ms))
        .where(served.c.bucket_id == buckets.c.id)
        .correlate(buckets)
        .scalar_subquery()
    )
    turns = select(buckets.c.id, func.coalesce(served_ms, 0).label("served_ms")).subquery()
    return (
        select(jobs.c.id)
        .join(turns, turns.c.id == jobs.c.bucket_id)
        .where(
            jobs.c.state == JobState.QUEUED,
            jobs.c.run_after_ms <= bindparam("now_ms"),
            jobs.c.kind.in_(kinds),
            jobs.c.dry_run if rules.dry_only else or_(jobs.c.dry_run, and_(~busy, *_within(rules))),
        )
        .order_by(_urgency().desc(), turns.c.served_ms, _waiting_since() - _worth_ms(), jobs.c.id)
        .limit(1)
        .with_for_update(of=jobs, skip_locked=True)
    )


def _within(rules: ClaimRules) -> list[ColumnElement[bool]]:
    """Conditions on a job: as many as may run do not run yet."""
    running = jobs.alias("running")
    counted = select(func.count()).where(running.c.state == JobState.RUNNING, ~running.c.dry_run)
    found: list[ColumnElement[bool]] = []
    if rules.total is not None:
        found.append(counted.scalar_subquery() < rules.total)
    if rules.of_kinds:
        alike = counted.where(running.c.bucket_id == jobs.c.bucket_id, running.c.kind == jobs.c.kind)
        limits = [
            (and_(jobs.c.bucket_id == bucket_id, jobs.c.kind == kind), most_alike)
            for (bucket_id, kind), most_alike in sorted(rules.of_kinds.items())
        ]
        found.append(alike.correlate(jobs).scalar_subquery() < case(*limits, else_=_NO_LIMIT))
    if rules.per_bucket is None and not rules.of_buckets:
        return found
    beside = counted.where(running.c.bucket_id == jobs.c.bucket_id).correlate(jobs).scalar_subquery()
    most: ColumnElement[Any] = literal(_NO_LIMIT if rules.per_bucket is None else rules.per_bucket)
    if rules.of_buckets:
        most = case(dict(rules.of_buckets), value=jobs.c.bucket_id, else_=most)
    return [*found, beside < most]


def _urgency() -> ColumnElement[int]:
    return case((jobs.c.priority >= URGENT_PRIORITY, jobs.c.priority), else_=0)


def _worth_ms() -> ColumnElement[int]:
    return case((jobs.c.priority < URGENT_PRIORITY, jobs.c.priority * _WORTH_MS), else_=0)


def _waiting_since() -> ColumnElement[int]:
    """Since when a job could have run: by `run_after` alone, jobs of commits (0) would pass all retries for ever."""
    postponed = jobs.c.run_after_ms > jobs.c.created_at_ms
    return case((postponed, jobs.c.run_after_ms), else_=jobs.c.created_at_ms)
