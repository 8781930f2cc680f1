"""The surroundings of one run of one job. Sync, usable from any thread but the event loop's."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection

from catalog_server.services.policies import PolicyService
from catalog_server.services.port import InProcessCatalog
from catalog_server.services.stores import Stores
from catalog_server.store import buckets, dropped, job_listing, jobs, places, tables, unreferenced
from catalog_server.store.engine import Database
from maintenance.executors.port import Executor, Reach
from maintenance.places import holds
from maintenance.policies import Policy, PolicyType
from maintenance.ports import (
    DroppedNeighbour,
    Job,
    JobKind,
    JobSettings,
    PurgeSurroundings,
    Unreferenced,
)
from table_format.clock import Clock, Ids
from table_format.errors import CommitFailed, NoSuchTable, Unavailable
from table_format.io.confined import Confined
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DatabaseUnreferencedLog:
    """`UnreferencedLog` in the database."""

    database: Database
    clock: Clock

    def known(self, table_uuid: str) -> Mapping[str, int]:
        """First-seen milliseconds by path."""
        return self.database.read_now(unreferenced.known, table_uuid)

    def mark(self, table_uuid: str, files: Sequence[Unreferenced]) -> None:
        """Add files; one that is known keeps its first_seen_ms."""
        self.database.write_now(
            unreferenced.mark, table_uuid, [(file.path, file.size, file.first_seen_ms) for file in files]
        )

    def forget(self, table_uuid: str, paths: Sequence[str]) -> None:
        """Remove files that were deleted, or are referenced after all."""
        self.database.write_now(unreferenced.forget, table_uuid, list(paths))

    def held(self, table_uuid: str, paths: Sequence[str]) -> Collection[str]:
        """Those of the paths that somebody holds back from deletion."""
        return self.database.read_now(unreferenced.held, table_uuid, list(paths), self.clock.now_ms())

    def claim(self, table_uuid: str, paths: Sequence[str]) -> Sequence[str]:
        """Those of the paths that are not held; from here on they cannot be held any more."""
        return self.database.write_now(unreferenced.claim, table_uuid, list(paths), self.clock.now_ms())


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseJobContext:
    """`JobContext` on the services of this process."""

    job: Job
    catalog: InProcessCatalog
    clock: Clock
    ids: Ids
    settings: JobSettings
    unreferenced: DatabaseUnreferencedLog
    stores: Stores
    database: Database
    policies: PolicyService
    executor: Executor
    _known_location: list[str | None] = field(default_factory=list)

    def store_for(self, location: str) -> ObjectStore:
        """The object store that holds that location, of which nothing outside the table's bucket can be reached.

        What metadata, manifests and delete files name was written by clients, and only seen when it is followed.
        """
        return Confined(self.stores.store_for(location), self._bounds(location), holds)

    def reaches(self, path: str) -> bool:
        """Whether the path lies in the table's bucket."""
        bucket = self._bucket_location()
        return bucket is not None and holds(bucket, path)

    def _bounds(self, location: str) -> str:
        """The bucket's location; a place outside it (the bucket is gone, or another's) is reached by itself alone."""
        bucket = self._bucket_location()
        return location if bucket is None or not holds(bucket, location) else bucket

    def _bucket_location(self) -> str | None:
        """Where the bucket lies, which never changes; None: it is gone."""
        if not self._known_location:
            found = self.database.read_now(buckets.find, self.job.bucket)
            self._known_location.append(None if found is None else found.location)
        return self._known_location[0]

    def reach(self, location: str) -> Reach:
        """How that store is reached from here and from another process."""
        return Reach(
            location=location,
            properties=self.stores.properties_for(location),
            within=self._bounds(location),
            store=self.store_for(location),
        )

    def policy(self, kind: JobKind) -> Policy:
        """The policy in force for the job's table (read anew at every call).

        Raises:
            NoSuchTable: the table is gone.
        """
        row = self.database.read_now(tables.by_uuid, self.job.table_uuid)
        if row is None:
            raise NoSuchTable(f"Table does not exist: {self.job.ident}")
        return self._wait(self.policies.in_force(row, PolicyType(kind.value)))

    @property
    def stopped(self) -> str | None:
        """None: only the worker that hands this out knows of a stop."""
        return None

    def cancel_requested(self) -> bool:
        """Whether somebody asked the job to end; False when that cannot be told."""
        try:
            return self.database.read_now(jobs.cancel_requested, self.job.id)
        except Unavailable:
            return False

    def still_leased(self) -> bool:
        """Whether the job may go on by the database; False when that cannot be told."""
        try:
            return self.database.read_now(jobs.leased, self.job.id, self.job.lease_token, self.clock.now_ms())
        except Unavailable:
            return False

    def other_table_locations(self) -> Sequence[str]:
        """Places of all other tables and views there are, in any bucket; dropped ones are neighbours."""
        return self.database.read_now(_other_locations, self.job)

    def dropped_neighbours(self, locations: Sequence[str]) -> Sequence[DroppedNeighbour]:
        """Other dropped tables that can be had back, with files at, below or above those locations; read anew."""
        found = self.database.read_now(_neighbours, self.job, list(locations))
        return [one for one in found if not one.purged]

    def purge_surroundings(self, locations: Sequence[str]) -> PurgeSurroundings:
        """For a purge: what lies at or around those locations, read anew at every call."""
        return self.database.read_now(_purge_surroundings, self.job, list(locations))

    def save_plan(self, plan: JsonObject) -> None:
        """Store what a later attempt must know, durably.

        Raises:
            CommitFailed: the lease was lost, so nothing was stored.
            CommitStateUnknown: it may or may not be stored.
        """
        if not self.database.write_now(jobs.save_plan, self.job.id, self.job.lease_token, plan):
            raise CommitFailed(f"job {self.job.id} belongs to another worker now: nothing was stored")

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.catalog.loop).result()


def _other_locations(connection: Connection, job: Job) -> Sequence[str]:
    return [
        *places.other_than(connection, job.table_uuid),
        *job_listing.unpurged_locations(connection, JobKind.PURGE.value, job.table_uuid),
    ]


def _purge_surroundings(connection: Connection, job: Job, locations: Sequence[str]) -> PurgeSurroundings:
    found = dropped.purge_of(connection, job.id)
    _, shared = found or (None, False)
    return PurgeSurroundings(
        # A job of before there were rows of dropped tables names none.
        wanted=found is not None or "resource_id" not in job.payload,
        shared=shared,
        # A table that is to be purged is gone: one that has its UUID has been registered again, and lives.
        others=[
            *places.other_than(connection, ""),
            *job_listing.unpurged_locations(connection, JobKind.PURGE.value, job.table_uuid),
        ],
        neighbours=_neighbours(connection, job, locations),
    )


def _neighbours(connection: Connection, job: Job, locations: Sequence[str]) -> Sequence[DroppedNeighbour]:
    return [
        DroppedNeighbour(
            metadata_location=row.metadata_location,
            location=row.location,
            # One whose purge is only asked for, or was cancelled before it began, can be restored.
            purged=row.purge_begun,
        )
        for row in dropped.overlapping(connection, locations, job.id)
    ]
