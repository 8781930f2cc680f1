"""Who acts in a world besides its clients: servers and workers made of the product's services, each with its clock."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from catalog_server.services.commits import CommitLimits, CommitService
from catalog_server.services.content_limits import ContentLimits
from catalog_server.services.documents import DocumentCache
from catalog_server.services.drops import DropService
from catalog_server.services.idempotency import IdempotencyService
from catalog_server.services.job_context import DatabaseUnreferencedLog
from catalog_server.services.jobs import JobLimits, JobService
from catalog_server.services.namespaces import NamespaceService
from catalog_server.services.policies import PolicyService
from catalog_server.services.stores import Stores
from catalog_server.services.tables import TableService
from catalog_server.services.turns import Turns
from maintenance.executors.inline import InlineExecutor
from maintenance.ports import Job, JobKind, JobSettings
from maintenance.worker import RUNNERS, Worker, WorkerSettings
from table_format.clock import Clock
from table_format.io.store import ObjectStore
from tests.simulation.kernel import PROCESS, Process, Sim, SimExecutor
from tests.simulation.ports import SimCatalog, SimDatabase, SimJobContext, sim_catalog

BUCKET = "default"
LEASE_MS = 60_000


class SimIds:
    """Ids and jitter drawn from the seed."""

    def __init__(self, sim: Sim) -> None:
        self._rng = sim.rng

    def uuid(self) -> str:
        text = f"{self._rng.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"

    def snapshot_id(self) -> int:
        return self._rng.randrange(1, 2**62)

    def jitter(self, low: float, high: float) -> float:
        return self._rng.uniform(low, high)


@dataclass(frozen=True, kw_only=True)
class Services:
    """The product in one process."""

    process: Process
    sim: Sim
    clock: Clock
    database: SimDatabase
    stores: Stores
    namespaces: NamespaceService
    tables: TableService
    commits: CommitService
    drops: DropService
    policies: PolicyService
    jobs: JobService
    idempotency: IdempotencyService
    ids: SimIds

    @classmethod
    def of(
        cls, sim: Sim, process: Process, clock: Clock, database: SimDatabase, store: ObjectStore
    ) -> "Services":
        ids = SimIds(sim)
        stores = Stores(lambda _: store)
        threads = SimExecutor(process)
        content = ContentLimits(columns=1000, properties=1000, text_bytes=1 << 20)
        limits = CommitLimits(attempts=4, queue=100, job_attempts=5, content=content)
        documents = DocumentCache(stores, threads, max_bytes=1 << 24, max_metadata_bytes=1 << 24)
        turns = Turns(clock, longest_wait_seconds=0)
        commits = CommitService(database, documents, stores, (clock, ids), threads, limits, turns)
        policies = PolicyService(database, documents, clock, allow_unsafe=True)
        kept_ms = 30 * 86_400_000
        return cls(
            process=process,
            sim=sim,
            clock=clock,
            database=database,
            stores=stores,
            namespaces=NamespaceService(database, clock, content),
            tables=TableService(database, documents, commits, (clock, ids), kept_ms=kept_ms),
            commits=commits,
            drops=DropService(database, documents, clock),
            policies=policies,
            jobs=JobService(
                database,
                (clock, ids),
                policies,
                JobLimits(max_attempts=5, lease_ms=LEASE_MS, kept_ms=kept_ms),
            ),
            idempotency=IdempotencyService(database, clock, lifetime_ms=3_600_000),
            ids=ids,
        )

    def catalog(self) -> SimCatalog:
        """The catalog in this process."""
        services = {"namespaces": self.namespaces, "tables": self.tables, "commits": self.commits}
        return sim_catalog(self.sim, self.process, BUCKET, **services)

    def context(self, job: Job) -> SimJobContext:
        """A job's surroundings."""
        return SimJobContext(
            job=job,
            catalog=self.catalog(),
            clock=self.clock,
            ids=self.ids,
            settings=JobSettings(
                allow_unsafe=True,
                delete_batch=4,
                groups_per_commit=2,
                commit_attempts=6,
                max_unreferenced_share=1.0,  # a table of a few files has often more that nobody needs
            ),
            unreferenced=DatabaseUnreferencedLog(self.database, self.clock),
            stores=self.stores,
            database=self.database,
            policies=self.policies,
            executor=InlineExecutor(),
        )


def worker(services: Services, owner: str) -> Worker:
    """The product's worker in that process."""
    return Worker(
        services.jobs,
        services.context,
        services.clock,
        services.ids,
        WorkerSettings(
            owner=owner, kinds=tuple(JobKind), lease_ms=LEASE_MS, poll_seconds=25.0, first_retry_ms=2000
        ),
        RUNNERS,
    )


async def in_simulated_thread(fn: Callable[..., Any], *args: Any, **_: Any) -> Any:
    """Stands for `anyio.to_thread.run_sync`."""
    process = PROCESS.get()
    return await asyncio.get_running_loop().run_in_executor(SimExecutor(process), lambda: fn(*args))
