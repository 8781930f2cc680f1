"""What maintenance needs of its surroundings: the job queue, the policies that fall due, a job's context.

Implemented by the server (database) and by fakes. The queue and the policy source are async, for the worker's
loop; a job's context is sync and may be used from any thread, for the job itself.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from maintenance.executors.port import Executor, Pace, Reach
from maintenance.policy_types import Policy
from table_format.catalog import TableCatalog
from table_format.clock import Clock, Ids
from table_format.ident import TableIdent
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject


class JobKind(StrEnum):
    """What a job does; all but the purge are named as the policies that ask for them."""

    COMPACTION = "icebergCompaction"
    SNAPSHOTS = "icebergSnapshotManagement"
    UNREFERENCED = "icebergUnreferencedFileRemoval"
    RECORDS = "icebergRecordExpiration"
    MANIFESTS = "icebergManifests"
    STATISTICS = "icebergStatistics"
    PURGE = "tablePurge"


URGENT_PRIORITY = 10
"""Priority of what a person asked for and waits for. Lower ones say what a job is worth, see `MOST_BENEFIT`."""

MOST_BENEFIT = 9
"""Priority of a job that is worth most for what it costs; 0: nothing is known of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be enqueued; at most one job per (table, kind) is queued at a time."""

    kind: JobKind
    bucket_id: int
    table_id: int | None
    table_uuid: str
    ident: TableIdent | None
    dry_run: bool = False
    payload: JsonObject = field(default_factory=dict)
    """What the kind needs beside the table; a purge: see its module, and the "resource_id"."""
    priority: int = 0
    run_after_ms: int = 0
    max_attempts: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that was claimed, as its row says."""

    id: int
    kind: JobKind
    bucket_id: int
    bucket: str
    table_id: int | None
    table_uuid: str
    ident: TableIdent | None
    dry_run: bool
    payload: JsonObject
    priority: int = 0
    attempts: int
    """Counts this attempt: 1 on the first."""
    max_attempts: int
    lease_until_ms: int
    lease_token: str
    """Which claim this is; no other has the same. Empty on a job that was not claimed."""
    plan: JsonObject | None = None
    """What an earlier, interrupted attempt saved."""

    @property
    def urgent(self) -> bool:
        """Whether a person asked for it."""
        return self.priority >= URGENT_PRIORITY


LEASE_LOST: Final = "the lease was lost, another worker takes over"


class JobQueue(Protocol):
    """Jobs with leases. A call that names a claim's token answers False when the job is that claim's no more.

    The worker's name is for people: two processes may have the same, and one may claim a job that it lost before.
    """

    async def claim(
        self, worker: str, kinds: Collection[JobKind], lease_ms: int, *, dry_only: bool = False
    ) -> Job | None:
        """Take the next job that is due (with `dry_only` the next dry run), or None."""
        ...

    async def heartbeat(self, job_id: int, token: str, lease_ms: int) -> bool:
        """Prolong the lease."""
        ...

    async def finish(self, job_id: int, token: str, report: JsonObject, plan: JsonObject | None) -> bool:
        """Record the end of a run; a plan of None keeps the one that was saved."""
        ...

    async def fail(self, job_id: int, token: str, error: str, retry_at_ms: int | None) -> bool:
        """Record a failure: queued again for `retry_at_ms`, or failed for good when that is None."""
        ...

    async def hand_back(self, job_id: int, token: str) -> bool:
        """Queue a job again that did not fail, but whose worker stops: the attempt does not count."""
        ...

    async def cancel_requested(self, job_id: int) -> bool:
        """Whether somebody asked the job to end."""
        ...

    async def end_cancelled(
        self, job_id: int, token: str, report: JsonObject, plan: JsonObject | None
    ) -> bool:
        """Record that a job ended because it was asked to; a plan of None keeps the one that was saved."""
        ...

    async def save_plan(self, job_id: int, token: str, plan: JsonObject) -> bool:
        """Store what a later attempt must know, durably, before this returns."""
        ...

    async def pace(self, job: Job, worker: str) -> Pace:
        """How fast a claimed job of that worker may go, beside as many others as run now."""
        ...

    async def requeue_stalled(self, now_ms: int) -> int:
        """Give back jobs whose lease ran out; how many. Called again and again, to see that it is not renewed."""
        ...

    async def enqueue(self, new: NewJob) -> Job:
        """The job, or the one already queued for the same table and kind."""
        ...


class PolicySource(Protocol):
    """What the clock asks: which tables are due for which kind."""

    async def due(self, now_ms: int) -> Sequence[NewJob]:
        """Jobs whose policy interval has passed since the last run of that kind on that table."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreferenced:
    """A file that no metadata refers to, and since when that is known."""

    path: str
    size: int
    first_seen_ms: int


class UnreferencedLog(Protocol):
    """Which unreferenced files were seen, per table; durable."""

    def known(self, table_uuid: str) -> Mapping[str, int]:
        """First-seen milliseconds by path."""
        ...

    def mark(self, table_uuid: str, files: Sequence[Unreferenced]) -> None:
        """Add files; one that is known keeps its first_seen_ms."""
        ...

    def forget(self, table_uuid: str, paths: Sequence[str]) -> None:
        """Remove files that were deleted, or are referenced after all."""
        ...

    def held(self, table_uuid: str, paths: Sequence[str]) -> Collection[str]:
        """Those of the paths that somebody holds back from deletion."""
        ...

    def claim(self, table_uuid: str, paths: Sequence[str]) -> Sequence[str]:
        """Those of the paths that are not held, for deletion at once; from here on they cannot be held any more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedNeighbour:
    """Another dropped table, with files where a job's table has some, or may have."""

    metadata_location: str
    location: str
    purged: bool
    """Whether the deletion of its files has begun, so that it can not be had back; until then it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeSurroundings:
    """What a purge must know of the catalog at this moment."""

    wanted: bool
    """Whether the dropped table is still to be purged by this job; else it was restored or forgotten meanwhile."""
    shared: bool
    """Whether files of other tables lie, or may lie, at its places: what is found there is not all its own."""
    others: Sequence[str]
    """Places of all tables and views there are, in any bucket, one registered from the same metadata included."""
    neighbours: Sequence[DroppedNeighbour]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Limits of the installation, the same for every table."""

    allow_unsafe: bool = False
    max_groups_per_run: int = 256
    groups_per_commit: int = 16
    commit_attempts: int = 50
    min_copied_row_group_bytes: int = 4 * 1024**2
    """Row groups that are smaller in the mean are rewritten, not copied."""
    max_snapshots_per_run: int = 1000
    max_manifest_bytes_per_run: int = 128 * 1024**2
    """Manifests that one rewrite holds, as their files are packed; in memory they take about four times that."""
    delete_batch: int = 500
    max_unreferenced_share: float = 0.5
    """Above this share of the listed files the job stops: a wrong location looks like that."""
    share_applies_above: int = 20
    """Up to this many candidates the share is not looked at."""


class JobContext(Protocol):
    """The surroundings of one run of one job."""

    @property
    def catalog(self) -> TableCatalog:
        """The catalog, through the same commit door as everyone."""
        ...

    @property
    def clock(self) -> Clock:
        """Time."""
        ...

    @property
    def ids(self) -> Ids:
        """Ids and jitter."""
        ...

    @property
    def settings(self) -> JobSettings:
        """The installation's limits."""
        ...

    @property
    def unreferenced(self) -> UnreferencedLog:
        """The log of unreferenced files."""
        ...

    @property
    def executor(self) -> Executor:
        """Where pieces of the job's work are executed."""
        ...

    def store_for(self, location: str) -> ObjectStore:
        """The object store that holds that location."""
        ...

    def reaches(self, path: str) -> bool:
        """Whether the path lies in the table's bucket, so that a store of this context reads it."""
        ...

    def reach(self, location: str) -> Reach:
        """How that store is reached from here and from another process."""
        ...

    def policy(self, kind: JobKind) -> Policy:
        """The policy in force for the job's table (read anew at every call)."""
        ...

    @property
    def stopped(self) -> str | None:
        """Why the job is to end at its next safe step, as far as this process knows; None while it may go on.

        Costs nothing, unlike `still_leased`, and says nothing about the lease: never delete on its word.
        """
        ...

    def still_leased(self) -> bool:
        """Whether the job may go on by the database, not by memory; False when that cannot be told.

        It may not when the lease is another's or has run out, or when somebody asked the job to end.
        """
        ...

    def cancel_requested(self) -> bool:
        """Whether somebody asked the job to end; False when that cannot be told."""
        ...

    def other_table_locations(self) -> Sequence[str]:
        """Places of all other tables and views there are, in any bucket; dropped ones are neighbours."""
        ...

    def dropped_neighbours(self, locations: Sequence[str]) -> Sequence[DroppedNeighbour]:
        """Other dropped tables that can be had back, with files at, below or above those locations; read anew."""
        ...

    def purge_surroundings(self, locations: Sequence[str]) -> PurgeSurroundings:
        """For a purge: what lies at or around those locations, read anew at every call."""
        ...

    def save_plan(self, plan: JsonObject) -> None:
        """Store what a later attempt must know, durably.

        Raises:
            CommitFailed: the lease was lost, so nothing was stored.
        """
        ...
