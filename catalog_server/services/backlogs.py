"""Whether compaction keeps up with a table's writers: what `maintenance.backlog` says of its metadata and jobs."""

from catalog_server.services.documents import DocumentCache
from catalog_server.services.policies import PolicyService
from catalog_server.services.principals import Principal
from catalog_server.store import buckets, tables
from catalog_server.store import job_listing as listing
from catalog_server.store.engine import Database
from catalog_server.store.job_listing import KindJobs
from catalog_server.store.job_rows import JobRow, JobState
from maintenance.backlog import Behind, Served, behind
from maintenance.policies import PolicyType
from maintenance.policy_types import CompactionPolicy
from table_format.clock import Clock
from table_format.ident import TableIdent

_KIND = PolicyType.COMPACTION


class BacklogService:
    """Use-cases on what waits for compaction."""

    def __init__(
        self, database: Database, documents: DocumentCache, policies: PolicyService, clock: Clock
    ) -> None:
        self._database = database
        self._documents = documents
        self._policies = policies
        self._clock = clock

    async def of(self, principal: Principal, bucket: str, ident: TableIdent) -> Behind | None:
        """Whether compaction falls behind on that table, and why; None while it keeps up.

        Raises:
            NoSuchTable: there is no such table.
            NoSuchFile: its metadata is gone.
        """
        row = await self._database.read(
            lambda connection: tables.require(connection, buckets.require(connection, bucket).id, ident)
        )
        jobs = await self._database.read(listing.of_table, row.table_uuid, [_KIND.value])
        policy = await self._policies.in_force(row, _KIND)
        if not isinstance(policy, CompactionPolicy):
            raise TypeError("the compaction policy is of another kind")
        document = await self._documents.load(row.metadata_location)
        now_ms = self._clock.now_ms()
        return behind(document.metadata, policy, _served(jobs[_KIND.value], now_ms), now_ms)


def _served(jobs: KindJobs, now_ms: int) -> Served:
    last, waiting = jobs.last, jobs.open
    failed = last.error if last is not None and last.state is JobState.FAILED else None
    since = None
    if waiting is not None and waiting.state is JobState.QUEUED:
        since = max(waiting.created_at_ms, waiting.run_after_ms)
    return Served(
        waiting_since_ms=since if since is not None and since <= now_ms else None,
        error=failed if waiting is None else waiting.error,
        settled_ms=None if last is None else _settled(last),
    )


def _settled(last: JobRow) -> int | None:
    """When a run that left nothing to do began."""
    report = last.report or {}
    figures = report.get("figures") or {}
    left = any(figures.get(name) for name in ("remainingGroups", "conflicts"))
    done = last.state is JobState.DONE and report.get("outcome") in ("done", "nothing")
    return last.started_at_ms if done and not left else None
