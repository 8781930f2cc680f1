"""Maintenance ports in memory: a job queue with leases, a job's context, the log of unreferenced files."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from maintenance.executors.inline import InlineExecutor
from maintenance.executors.port import UNLIMITED, Executor, Pace, Reach
from maintenance.policies import (
    COMPACTION,
    MANIFESTS,
    RECORDS,
    SNAPSHOTS,
    STATISTICS,
    UNREFERENCED,
    Policy,
    effective,
)
from maintenance.ports import (
    LEASE_LOST,
    DroppedNeighbour,
    Job,
    JobKind,
    JobSettings,
    NewJob,
    PurgeSurroundings,
    Unreferenced,
)
from table_format.catalog import TableCatalog
from table_format.clock import Clock, Ids
from table_format.errors import CommitFailed
from table_format.ident import TableIdent
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject


@dataclass
class Row:
    """One job's row."""

    new: NewJob
    id: int
    state: str = "queued"
    run_after_ms: int = 0
    attempts: int = 0
    token: str | None = None
    lease_until_ms: int = 0
    plan: JsonObject | None = None
    report: JsonObject | None = None
    error: str | None = None
    cancel_requested: bool = False


class FakeQueue:
    """Rows in a list; the oldest that is due goes first."""

    def __init__(self, clock: Clock) -> None:
        self.rows: list[Row] = []
        self._claims = 0
        self.paces: list[Pace] = []
        """What `pace` answers in turn; then that there is no limit."""
        self._clock = clock

    async def claim(
        self, worker: str, kinds: Collection[JobKind], lease_ms: int, *, dry_only: bool = False
    ) -> Job | None:
        now = self._clock.now_ms()
        for row in self.rows:
            if dry_only and not row.new.dry_run:
                continue
            if row.state == "queued" and row.run_after_ms <= now and row.new.kind in kinds:
                self._claims += 1
                row.state, row.token = "running", f"claim-{self._claims}"
                row.lease_until_ms = now + lease_ms
                row.attempts += 1
                return self._job(row)
        return None

    async def heartbeat(self, job_id: int, token: str, lease_ms: int) -> bool:
        row = self._held(job_id, token)
        if row is None:
            return False
        row.lease_until_ms = self._clock.now_ms() + lease_ms
        return True

    async def finish(self, job_id: int, token: str, report: JsonObject, plan: JsonObject | None) -> bool:
        row = self._held(job_id, token)
        if row is None:
            return False
        row.state, row.report, row.token = "succeeded", report, None
        row.plan = row.plan if plan is None else plan
        return True

    async def fail(self, job_id: int, token: str, error: str, retry_at_ms: int | None) -> bool:
        row = self._held(job_id, token)
        if row is None:
            return False
        row.error, row.token = error, None
        row.state, row.run_after_ms = ("failed", 0) if retry_at_ms is None else ("queued", retry_at_ms)
        return True

    async def hand_back(self, job_id: int, token: str) -> bool:
        row = self._held(job_id, token)
        if row is None:
            return False
        row.token, row.state, row.run_after_ms = None, "queued", 0
        row.attempts -= 1
        return True

    async def cancel_requested(self, job_id: int) -> bool:
        return self.rows[job_id - 1].cancel_requested

    async def end_cancelled(
        self, job_id: int, token: str, report: JsonObject, plan: JsonObject | None
    ) -> bool:
        row = self._held(job_id, token)
        if row is None:
            return False
        row.state, row.report, row.token = "cancelled", report, None
        row.plan = row.plan if plan is None else plan
        return True

    async def save_plan(self, job_id: int, token: str, plan: JsonObject) -> bool:
        row = self._held(job_id, token)
        if row is None:
            return False
        row.plan = plan
        return True

    async def pace(self, job: Job, worker: str) -> Pace:
        return self.paces.pop(0) if self.paces else UNLIMITED

    async def requeue_stalled(self, now_ms: int) -> int:
        stalled = [row for row in self.rows if row.state == "running" and row.lease_until_ms < now_ms]
        for row in stalled:
            row.state, row.token = "queued", None
        return len(stalled)

    async def enqueue(self, new: NewJob) -> Job:
        for row in self.rows:
            if row.state == "queued" and (row.new.table_uuid, row.new.kind) == (new.table_uuid, new.kind):
                return self._job(row)
        row = Row(new, id=len(self.rows) + 1, run_after_ms=new.run_after_ms)
        self.rows.append(row)
        return self._job(row)

    def _held(self, job_id: int, token: str) -> Row | None:
        row = self.rows[job_id - 1]
        held = row.state == "running" and row.token == token and row.lease_until_ms >= self._clock.now_ms()
        return row if held else None

    def _job(self, row: Row) -> Job:
        new = row.new
        return Job(
            id=row.id,
            kind=new.kind,
            bucket_id=new.bucket_id,
            bucket="default",
            table_id=new.table_id,
            table_uuid=new.table_uuid,
            ident=new.ident,
            dry_run=new.dry_run,
            payload=new.payload,
            priority=new.priority,
            attempts=row.attempts,
            max_attempts=new.max_attempts,
            lease_until_ms=row.lease_until_ms,
            lease_token=row.token or "",
            plan=row.plan,
        )


class FakeUnreferencedLog:
    """First-seen times in a dictionary per table."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, int]] = {}
        self.holds: set[str] = set()
        self.before_claim: Callable[[], object] | None = None

    def known(self, table_uuid: str) -> Mapping[str, int]:
        return dict(self.seen.get(table_uuid, {}))

    def mark(self, table_uuid: str, files: Sequence[Unreferenced]) -> None:
        for file in files:
            self.seen.setdefault(table_uuid, {}).setdefault(file.path, file.first_seen_ms)

    def forget(self, table_uuid: str, paths: Sequence[str]) -> None:
        for path in paths:
            self.seen.get(table_uuid, {}).pop(path, None)

    def held(self, table_uuid: str, paths: Sequence[str]) -> Collection[str]:
        return self.holds.intersection(paths)

    def claim(self, table_uuid: str, paths: Sequence[str]) -> Sequence[str]:
        if self.before_claim is not None:
            self.before_claim()
        return [path for path in paths if path not in self.holds]


_POLICY_TYPES = {
    JobKind.COMPACTION: COMPACTION,
    JobKind.SNAPSHOTS: SNAPSHOTS,
    JobKind.UNREFERENCED: UNREFERENCED,
    JobKind.RECORDS: RECORDS,
    JobKind.MANIFESTS: MANIFESTS,
    JobKind.STATISTICS: STATISTICS,
}


@dataclass
class FakeContext:
    """A job's surroundings over a fake catalog and one store; `leases` answers still_leased() in turn, then True."""

    catalog: TableCatalog
    clock: Clock
    ids: Ids
    store: ObjectStore
    settings: JobSettings = field(default_factory=JobSettings)
    unreferenced: FakeUnreferencedLog = field(default_factory=FakeUnreferencedLog)
    documents: dict[JobKind, JsonObject] = field(default_factory=dict)
    """The table's own policy documents."""
    others: list[str] = field(default_factory=list)
    wanted: bool = True
    shared: bool = False
    neighbours: list[DroppedNeighbour] = field(default_factory=list)
    leases: list[bool] = field(default_factory=list)
    lease_lost: bool = False
    cancelled: bool = False
    plans: list[JsonObject] = field(default_factory=list)
    ident: TableIdent | None = None
    allow_unsafe: bool = True
    """Whether documents may say what is below the safety floors, so that tests need no hours."""
    executor: Executor = field(default_factory=InlineExecutor)

    within: str | None = None
    """The bucket's location; None: everything is in it."""

    def store_for(self, location: str) -> ObjectStore:
        return self.store

    def reaches(self, path: str) -> bool:
        return self.within is None or path.startswith(f"{self.within}/")

    def reach(self, location: str) -> Reach:
        return Reach(location=location, properties={}, within=location, store=self.store)

    def policy(self, kind: JobKind) -> Policy:
        properties = self.catalog.load(self.ident).metadata.properties if self.ident else {}
        documents = [self.documents.get(kind, {})]
        return effective(_POLICY_TYPES[kind], documents, properties, allow_unsafe=self.allow_unsafe)

    @property
    def stopped(self) -> str | None:
        if self.cancelled:
            return "it was cancelled"
        return LEASE_LOST if self.lease_lost else None

    def cancel_requested(self) -> bool:
        return self.cancelled

    def still_leased(self) -> bool:
        if self.cancelled:
            return False
        if self.leases:
            self.lease_lost = not self.leases.pop(0)
        return not self.lease_lost

    def other_table_locations(self) -> Sequence[str]:
        return list(self.others)

    def dropped_neighbours(self, locations: Sequence[str]) -> Sequence[DroppedNeighbour]:
        return [one for one in self.neighbours if not one.purged]

    def purge_surroundings(self, locations: Sequence[str]) -> PurgeSurroundings:
        return PurgeSurroundings(
            wanted=self.wanted, shared=self.shared, others=list(self.others), neighbours=list(self.neighbours)
        )

    def save_plan(self, plan: JsonObject) -> None:
        if self.lease_lost:
            raise CommitFailed("the lease of this job was lost")
        self.plans.append(plan)


def job(kind: JobKind, ident: TableIdent | None, table_uuid: str, **changes: object) -> Job:
    """A first attempt of a job."""
    made = Job(
        id=7,
        kind=kind,
        bucket_id=1,
        bucket="default",
        table_id=2,
        table_uuid=table_uuid,
        ident=ident,
        dry_run=False,
        payload={},
        attempts=1,
        max_attempts=5,
        lease_until_ms=0,
        lease_token="claim-1",
    )
    return replace(made, **changes)  # type: ignore[arg-type]
