"""The commit: the only way a table's pointer is set or moved, whoever asks.

Order of things: judge everything against the current pointers, write the new metadata files (no database
connection held), then swap all pointers in one transaction. A file is deleted only when its swap certainly did
not happen; when that is unknown it stays.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import structlog

from catalog_server.services import adopt_unit, commit_plan, commit_unit, locations, names, obsolete_files
from catalog_server.services.commit_plan import Current, Planned, Surroundings, TableChange
from catalog_server.services.commit_queue import CommitQueues
from catalog_server.services.commit_unit import LostRace, Part
from catalog_server.services.content_limits import ContentLimits
from catalog_server.services.current import is_of, load_current
from catalog_server.services.documents import Document, DocumentCache
from catalog_server.services.handles import Bucket, TableHandle
from catalog_server.services.in_flight import InFlight
from catalog_server.services.local_places import refuse_links
from catalog_server.services.metadata_files import MetadataFiles
from catalog_server.services.principals import Principal
from catalog_server.services.stores import Stores
from catalog_server.services.turns import NOBODY, Turns
from catalog_server.store import places, pointers, relations, table_entries, tables
from catalog_server.store.engine import Database
from catalog_server.store.namespaces import missing as missing_namespace
from catalog_server.store.relations import Relation
from catalog_server.store.tables import TableRow
from catalog_server.telemetry import COMMIT_RACES, COMMIT_SECONDS, COMMITS
from table_format.clock import Clock, Ids
from table_format.errors import (
    CommitFailed,
    CommitStateUnknown,
    Invalid,
    NoSuchWarehouse,
    TableFormatError,
)
from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject
from table_format.metadata import requirements
from table_format.metadata.codec import MAX_BYTES
from table_format.metadata.document import TableMetadata

__all__ = ["CommitLimits", "CommitService", "TableChange", "TableHandle"]

T = TypeVar("T")

Judge: TypeAlias = Callable[[], Awaitable[tuple[Part, Document]]]

_log = structlog.get_logger(__name__)

_BACKOFF_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLimits:
    """How long commits wait and how often they try."""

    attempts: int
    queue: int
    job_attempts: int
    content: ContentLimits
    metadata_bytes: int = MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    principal: Principal
    bucket: Bucket
    changes: Sequence[TableChange]
    also: commit_unit.Also | None = None


class CommitService:
    """Commits of one process; others, on the same database, may run beside it."""

    def __init__(
        self,
        database: Database,
        documents: DocumentCache,
        stores: Stores,
        time_and_ids: tuple[Clock, Ids],
        threads: Executor,
        limits: CommitLimits,
        turns: Turns,
    ) -> None:
        self._database = database
        self._documents = documents
        self._files = MetadataFiles(stores, time_and_ids[1], threads, max_bytes=limits.metadata_bytes)
        self.content = limits.content
        self._clock, self._ids = time_and_ids
        self._threads = threads
        self._limits = limits
        self._queues = CommitQueues(max_waiting=limits.queue)
        self._turns = turns
        self._in_flight = InFlight()
        self._buckets: dict[str, Bucket] = {}  # as seen last; each may be deleted by now, and made anew

    async def commit(
        self,
        principal: Principal,
        bucket: str,
        ident: TableIdent,
        requirements: Sequence[JsonObject],
        updates: Sequence[JsonObject],
        *,
        caller: str = NOBODY,
    ) -> TableHandle:
        """Apply updates to one table if the requirements hold; the table as it is after that.

        `caller` names the client across its requests, as in `Turns.before_load`.

        Raises:
            NoSuchTable: there is none (and the commit does not create it).
            CommitFailed: certainly not applied: a requirement does not hold, or the race was lost too often.
            CommitStateUnknown: may have been applied.
            Invalid: the request is wrong.
            Unavailable: certainly not applied.
        """
        change = TableChange(ident=ident, requirements=requirements, updates=updates)
        return (await self.commit_transaction(principal, bucket, [change], caller=caller))[0]

    async def commit_transaction(
        self,
        principal: Principal,
        bucket: str,
        changes: Sequence[TableChange],
        *,
        caller: str = NOBODY,
    ) -> list[TableHandle]:
        """Apply the changes to all tables, or to none.

        Raises:
            NoSuchTable, CommitFailed, CommitStateUnknown, Invalid, Unavailable: as `commit`.
        """
        for change in changes:
            names.check_table(change.ident)
        idents = [change.ident for change in changes]
        if len(set(idents)) < len(idents):
            raise Invalid("a transaction must not name a table twice")
        owner = await self._owner(bucket, changes)
        request = _Request(principal=principal, bucket=owner, changes=tuple(changes))
        with self._turns.committing(bucket, idents, caller):
            if self._queues.is_busy(request.bucket.id, idents):
                await self._refuse_before_waiting(request)
            return await self._to_the_end(self._commit(request))

    async def create(
        self,
        principal: Principal,
        bucket: Bucket,
        ident: TableIdent,
        metadata: TableMetadata,
        also: commit_unit.Also | None = None,
    ) -> TableHandle:
        """Store a new table with its first metadata, and whatever `also` stores with it.

        Raises:
            AlreadyExists: the name, or the place, is another table's.
            NoSuchNamespace: the namespace is not there.
            CommitStateUnknown: it may have been created.
            Unavailable: certainly not created.
        """
        change = TableChange(ident=ident, requirements=(), updates=())
        request = _Request(principal=principal, bucket=bucket, changes=(change,), also=also)
        return await self._to_the_end(self._create(request, metadata))

    async def adopt(
        self, bucket: Bucket, ident: TableIdent, document: Document, *, overwrite: bool, expected: str | None
    ) -> TableHandle:
        """Point a table at metadata that exists already; `overwrite` also one that exists, if its own is the expected.

        Raises:
            AlreadyExists: the name is taken (without `overwrite`), or uuid or place are another table's.
            NoSuchNamespace: the namespace is not there.
            NoSuchTable, VersionConflict: what is to be overwritten is not as expected.
            CommitFailed: the table changed meanwhile, or it was dropped and is being purged.
            Forbidden: the table to be overwritten is protected.
        """
        metadata = document.metadata
        adoption = adopt_unit.Adoption(
            bucket_id=bucket.id,
            ident=ident,
            metadata_location=document.location,
            location=metadata.location,
            places=commit_plan.held_places(document),
            directories=commit_plan.directories_elsewhere(document),
            table_uuid=(metadata.uuid or self._ids.uuid()).lower(),
            overwrite=overwrite,
            expected=expected,
            now_ms=self._clock.now_ms(),
        )
        row = await self._database.write(adopt_unit.adopt, adoption)
        return TableHandle(
            bucket=bucket.name, ident=ident, metadata_location=document.location, document=document, row=row
        )

    async def point(self, bucket: Bucket, ident: TableIdent, judge: Judge) -> TableRow:
        """Point a table at a metadata file that its client wrote, when the judge, asked in the table's turn, allows it.

        Nothing is written to the object store, and nothing deleted, whatever comes of it: the file is its client's,
        and so are those that the new metadata's log does not name any more.

        Raises:
            CommitFailed: the table changed meanwhile, or what the judge says.
            AlreadyExists: a place is another table's.
            CommitStateUnknown: it may have been pointed there.
            Unavailable: certainly not.
        """
        return await self._to_the_end(self._point(bucket, ident, judge))

    async def _point(self, bucket: Bucket, ident: TableIdent, judge: Judge) -> TableRow:
        async with self._queues.turn(bucket.id, [ident]):
            part, document = await judge()
            try:
                row = (await self._swap(bucket, [part]))[0]
            except LostRace:
                COMMIT_RACES.inc()
                raise CommitFailed(f"Commit failed: {ident} changed concurrently; reload and retry") from None
            self._documents.put(document)
            return row

    async def bucket(self, name: str) -> Bucket:
        """Id and location of a bucket.

        Raises:
            NoSuchWarehouse: there is none.
        """
        found = await self._database.hot(pointers.bucket_location(name))
        if found is None:
            self._buckets.pop(name, None)
            raise NoSuchWarehouse(f"Table bucket does not exist: {name}")
        bucket = self._buckets[name] = Bucket(id=found[0], name=name, location=found[1])
        return bucket

    async def _owner(self, name: str, changes: Sequence[TableChange]) -> Bucket:
        """The bucket, maybe as it was: the row of a table that is there tells which one it is in by now."""
        known = self._buckets.get(name)
        if known is None or any(commit_plan.is_creation(change) for change in changes):
            return await self.bucket(name)
        return known

    async def drain(self) -> None:
        """Wait for the commits that are on their way."""
        await self._in_flight.drain()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run blocking work on the storage threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._in_flight.finish(self._measured(work))

    async def _measured(self, work: Coroutine[Any, Any, T]) -> T:
        started = self._clock.monotonic()
        outcome = "refused"
        try:
            result = await work
        except CommitStateUnknown:
            outcome = "unknown"
            raise
        else:
            outcome = "applied"
            return result
        finally:
            COMMITS.labels(outcome).inc()
            COMMIT_SECONDS.observe(self._clock.monotonic() - started)

    async def _refuse_before_waiting(self, request: _Request) -> None:
        try:
            await self._refuse_stale(request)
        except TableFormatError:
            COMMITS.labels("refused").inc()
            raise

    async def _refuse_stale(self, request: _Request) -> None:
        """Refuse what does not hold on the tables as they are now."""
        for change in request.changes:
            row = await self._database.hot(pointers.read(request.bucket.name, change.ident))
            base = None if row is None else self._documents.peek(row.metadata_location)
            if row is None or base is None or not is_of(base, row):
                return  # the plan will tell
            requirements.check(change.requirements, base.metadata)

    async def _commit(self, request: _Request) -> list[TableHandle]:
        bucket = request.bucket
        async with self._queues.turn(bucket.id, [change.ident for change in request.changes]):
            if len(request.changes) > 1:
                await self._refuse_stale(request)  # rather than plan some and then find the next one stale
            for attempt in range(self._limits.attempts):
                if attempt:
                    await asyncio.sleep(self._ids.jitter(0, _BACKOFF_SECONDS * 2**attempt))
                planned = [await self._plan(bucket, change) for change in request.changes]
                try:
                    return await self._carry_out(request, planned)
                except LostRace:
                    COMMIT_RACES.inc()
        raise CommitFailed(
            f"Commit failed: {', '.join(str(change.ident) for change in request.changes)} "
            "changed concurrently; reload and retry"
        )

    async def _create(self, request: _Request, metadata: TableMetadata) -> TableHandle:
        ident = request.changes[0].ident
        async with self._queues.turn(request.bucket.id, [ident]):
            await self.refuse_taken(request.bucket, ident)
            planned = Planned(
                ident=ident,
                current=Current(row=None, base=None, layers=()),
                metadata=metadata,
                new_places=locations.places(metadata),
                jobs=(),
            )
            try:
                return (await self._carry_out(request, [planned]))[0]
            except LostRace:
                raise tables.taken(ident) from None

    async def _plan(self, bucket: Bucket, change: TableChange) -> Planned:
        found = await load_current(self._database, self._documents, bucket.name, change.ident)
        row, base = found or (None, None)
        if base is not None:
            requirements.check(change.requirements, base.metadata)  # before anything else is asked or done
        if row is not None:
            bucket = Bucket(id=row.bucket_id, name=row.bucket, location=row.bucket_location)
        if row is None and commit_plan.is_creation(change):
            await self.refuse_taken(bucket, change.ident)
        layers = () if row is None else await self._database.hot(pointers.policy_layers(row))
        current = Current(row=row, base=base, layers=layers)
        around = Surroundings(
            bucket_location=bucket.location,
            now_ms=self._clock.now_ms(),
            fresh_location=await self._fresh_location(bucket, change) if row is None else "",
            fresh_uuid=self._ids.uuid() if row is None else "",
            content=self.content,
        )

        def work() -> Planned:
            return commit_plan.plan(change, current, around)

        planned = await self.in_thread(work) if commit_plan.takes_long(change, current) else work()
        if planned.new_places:
            # The swap checks again; this is so that nothing is written to another table's place.
            await self._database.read(places.refuse_overlap, planned.new_places, row.id if row else None)
            await self.in_thread(lambda: refuse_links(bucket.location, planned.new_places))
        if planned.new_files:
            await self._check_files(bucket, planned)
        return planned

    async def _check_files(self, bucket: Bucket, planned: Planned) -> None:
        """Whoever cleans up the place of a file must be the table that names it."""
        refuse_links(bucket.location, planned.new_files)  # microseconds each, and few
        strange = locations.elsewhere(locations.places(planned.metadata), planned.new_files)
        if strange:
            row = planned.current.row
            await self._database.read(places.refuse_inside, strange, [row.id] if row else [])

    async def refuse_taken(self, bucket: Bucket, ident: TableIdent, *, by_table: bool = True) -> None:
        """Check that a new table can have the name. The transaction that takes it checks again.

        Raises:
            AlreadyExists: a view has it, or (`by_table`) a table, be it a blank one.
        """
        found = await self._database.hot(table_entries.read(bucket.name, ident)) if by_table else None
        if found is not None:
            raise table_entries.taken(found)
        if await self._database.hot(pointers.read_view(bucket.name, ident)) is not None:
            raise relations.taken(ident, Relation.VIEW, Relation.TABLE)

    async def _fresh_location(self, bucket: Bucket, change: TableChange) -> str:
        if not commit_plan.is_creation(change):
            return ""
        return await self.fresh_location(bucket, change.ident)

    async def fresh_location(self, bucket: Bucket, ident: TableIdent) -> str:
        """A place of its own for a new table.

        Raises:
            NoSuchNamespace: its namespace is not there.
        """
        properties = await self._database.hot(pointers.namespace_properties(bucket.id, ident.namespace))
        if properties is None:
            raise missing_namespace(ident.namespace)
        at = locations.namespace_location(bucket.location, ident.namespace, properties)
        return locations.new_location(at, ident, self._ids)

    async def _carry_out(self, request: _Request, planned: Sequence[Planned]) -> list[TableHandle]:
        """Write the files, swap the pointers, clean up.

        Raises:
            LostRace: certainly not applied.
        """
        documents = await self._files.write(planned)
        written = [document for document in documents if document is not None]
        parts = [
            Part(planned=part, new_location=None if document is None else document.location)
            for part, document in zip(planned, documents, strict=True)
        ]
        try:
            rows = await self._swap(request.bucket, parts, request.also)
        except CommitStateUnknown:
            _log.error("commit_state_unknown", files=[document.location for document in written])
            raise
        except (LostRace, TableFormatError):
            await self._files.delete([document.location for document in written])
            raise
        for document in written:
            self._documents.put(document)
        await self._files.delete(await obsolete_files.unneeded(self._database, parts, rows))
        return [
            self._handle(request.bucket, part, row, document)
            for part, row, document in zip(planned, rows, documents, strict=True)
        ]

    async def _swap(
        self, bucket: Bucket, parts: Sequence[Part], also: commit_unit.Also | None = None
    ) -> list[TableRow]:
        unit = commit_unit.Unit(
            bucket_id=bucket.id,
            parts=parts,
            now_ms=self._clock.now_ms(),
            job_attempts=self._limits.job_attempts,
            also=also,
        )
        apply = commit_unit.swap if commit_unit.only_swaps(unit) else commit_unit.run
        return await self._database.write(apply, unit)

    @staticmethod
    def _handle(bucket: Bucket, part: Planned, row: TableRow, document: Document | None) -> TableHandle:
        current = document or part.current.base
        if current is None:
            raise CommitStateUnknown(f"table {part.ident} was committed without metadata")
        return TableHandle(
            bucket=bucket.name,
            ident=part.ident,
            metadata_location=row.metadata_location,
            document=current,
            row=row,
        )
