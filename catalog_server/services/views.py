"""Views: create, load, list, replace, rename, drop, register. The only way a view's pointer is set or moved.

As with tables: everything is judged against the current pointer before a file is written (no database connection
held meanwhile), then the pointer is swapped in one transaction. A file is deleted only when its swap certainly did
not happen; when that is unknown it stays.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection

from catalog_server.services import locations, names, paging
from catalog_server.services.commit_queue import CommitQueues
from catalog_server.services.commit_unit import LostRace
from catalog_server.services.commits import CommitLimits, CommitService
from catalog_server.services.documents import DocumentCache, ViewDocument, refuse_gone
from catalog_server.services.handles import Bucket, ViewHandle
from catalog_server.services.in_flight import InFlight
from catalog_server.services.local_places import refuse_links
from catalog_server.services.metadata_files import MetadataFiles
from catalog_server.services.principals import Principal
from catalog_server.store import buckets, namespaces, places, pointers, relations
from catalog_server.store import views as rows
from catalog_server.store.engine import Database
from catalog_server.store.keys import key_of
from catalog_server.store.relations import Relation
from catalog_server.store.views import ViewBirth, ViewRow
from table_format.clock import Clock, Ids
from table_format.errors import CommitFailed, CommitStateUnknown, TableFormatError
from table_format.ident import Namespace, TableIdent, contains
from table_format.jsontypes import JsonObject
from table_format.metadata import requirements, view_updates
from table_format.metadata.views import ViewMetadata

__all__ = ["ViewHandle", "ViewService", "ViewSpec"]

_log = structlog.get_logger(__name__)

_BACKOFF_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSpec:
    """What a view shall be; the place is chosen where none is given."""

    schema: JsonObject
    version: JsonObject
    properties: Mapping[str, str]
    location: str | None = None


class ViewService:
    """Use-cases on views."""

    def __init__(
        self,
        database: Database,
        documents: DocumentCache,
        commits: CommitService,
        files: MetadataFiles,
        time_and_ids: tuple[Clock, Ids],
        limits: CommitLimits,
    ) -> None:
        self._database = database
        self._documents = documents
        self._commits = commits
        self._files = files
        self._clock, self._ids = time_and_ids
        self._attempts = limits.attempts
        self._content = limits.content
        self._queues = CommitQueues(max_waiting=limits.queue)
        self._in_flight = InFlight()

    async def exists(self, principal: Principal, bucket: str, ident: TableIdent) -> bool:
        """Whether the view is there: asked before almost every table, so one indexed read and no object store."""
        return await self._database.hot(pointers.read_view(bucket, ident)) is not None

    async def load(self, principal: Principal, bucket: str, ident: TableIdent) -> ViewHandle:
        """The view with its metadata.

        Raises:
            NoSuchView: there is none.
            NoSuchFile: its metadata file is gone.
        """
        row = await self._pointer(bucket, ident)
        document = await self._document(row)
        refuse_gone(row.metadata_location)
        return _handle(row, document)

    async def list(
        self, principal: Principal, bucket: str, namespace: Namespace, page: paging.PageRequest | None
    ) -> paging.Page[ViewRow]:
        """Views of one namespace, by name.

        Raises:
            NoSuchNamespace: the namespace is not there.
            Invalid: the page request is wrong.
        """

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[ViewRow]:
            return await self._database.read(_in_namespace, bucket, namespace, after, limit)

        listing = f"views {bucket} {key_of(namespace)}"
        return await paging.paged(page, listing, fetch, lambda row: (row.ident.name,))

    async def create(
        self, principal: Principal, bucket: str, ident: TableIdent, spec: ViewSpec
    ) -> ViewHandle:
        """Create a view.

        Raises:
            Invalid: name, schema, version or place can not be.
            AlreadyExists: a view or table has the name, or the place overlaps another's.
            NoSuchNamespace: the namespace is not there.
            CommitStateUnknown: it may have been created.
        """
        owner = await self._commits.bucket(bucket)
        names.check_view(ident)
        self._content.check_schema(spec.schema)
        self._content.check_properties(spec.properties)
        self._content.check_version(spec.version)
        fresh = await self._commits.fresh_location(
            owner, ident
        )  # also when not needed: it misses the namespace
        await self._refuse_taken(owner, ident)
        location = fresh if spec.location is None else spec.location
        metadata = await self._commits.in_thread(lambda: self._new(spec, location))
        await self._check_places(owner, locations.places(metadata), None)
        return await self._in_flight.finish(self._create(owner, ident, metadata))

    async def replace(
        self,
        principal: Principal,
        bucket: str,
        ident: TableIdent,
        needs: Sequence[JsonObject],
        updates: Sequence[JsonObject],
    ) -> ViewHandle:
        """Apply updates to a view if the requirements hold; the view as it is after that.

        Raises:
            NoSuchView: there is none.
            CommitFailed: certainly not applied: a requirement does not hold, or the race was lost too often.
            CommitStateUnknown: may have been applied.
            Invalid: the request is wrong.
            Unavailable: certainly not applied.
        """
        owner = await self._commits.bucket(bucket)
        names.check_view(ident)
        return await self._in_flight.finish(self._replace(owner, ident, needs, updates))

    async def rename(
        self, principal: Principal, bucket: str, source: TableIdent, destination: TableIdent
    ) -> None:
        """Give a view another name; its files stay where they are.

        Raises:
            NoSuchView: there is no such view.
            NoSuchNamespace: the new namespace is not there.
            AlreadyExists: a view or table has the new name.
            Invalid: the new name can not be one.
        """
        names.check_view(destination)
        await self._database.write(_rename, bucket, source, destination, self._clock.now_ms())

    async def drop(self, principal: Principal, bucket: str, ident: TableIdent) -> None:
        """Forget a view and keep every metadata file of it.

        Raises:
            NoSuchView: there is none.
        """
        gone = await self._database.write(_drop, bucket, ident)
        # All that it takes to have it back: `register` with this file.
        _log.info("view_dropped", bucket=bucket, view=str(ident), metadata_location=gone.metadata_location)

    async def register(
        self, principal: Principal, bucket: str, ident: TableIdent, metadata_location: str
    ) -> ViewHandle:
        """Make a view of metadata that exists already.

        Raises:
            Invalid: the file, or a place it names, is outside the bucket, or it is no view metadata.
            NoSuchFile: there is no such file.
            AlreadyExists: a view or table has the name, or uuid or place are another's.
            NoSuchNamespace: the namespace is not there.
        """
        owner = await self._commits.bucket(bucket)
        names.check_view(ident)
        locations.check_inside(owner.location, metadata_location)
        await self._refuse_taken(owner, ident)
        await self._commits.in_thread(lambda: refuse_links(owner.location, [metadata_location]))
        # Whoever wrote this file may have done so twice; what is in memory is for files of our own.
        document = await self._documents.fetch_foreign_view(metadata_location)
        birth = _birth(ident, document)
        for place in birth.places:
            locations.check_inside(owner.location, place)
        await self._commits.in_thread(lambda: refuse_links(owner.location, birth.places))
        row = await self._database.write(_insert, owner.id, birth, self._clock.now_ms())
        self._documents.put(document)
        return _handle(row, document)

    async def drain(self) -> None:
        """Wait for the commits that are on their way."""
        await self._in_flight.drain()

    async def _pointer(self, bucket: str, ident: TableIdent) -> ViewRow:
        found = await self._database.hot(pointers.read_view(bucket, ident))
        if found is None:
            raise rows.missing(ident)
        return found

    async def _document(self, row: ViewRow) -> ViewDocument:
        """The metadata that the row points to; not another view's that once lay at the same address."""
        known = await self._documents.load_view(row.metadata_location)
        if known.metadata.uuid.lower() == row.view_uuid:
            return known
        document = await self._documents.fetch_view(row.metadata_location)
        self._documents.put(document)
        return document

    async def _refuse_taken(self, owner: Bucket, ident: TableIdent) -> None:
        """Before anything is written; the transaction that takes the name checks again."""
        if await self._database.hot(pointers.read_view(owner.name, ident)) is not None:
            raise relations.taken(ident, Relation.VIEW, Relation.VIEW)
        if await self._database.hot(pointers.read(owner.name, ident)) is not None:
            raise relations.taken(ident, Relation.TABLE, Relation.VIEW)

    async def _check_places(self, owner: Bucket, wanted: Sequence[str], view_id: int | None) -> None:
        for place in wanted:
            locations.check_inside(owner.location, place)
        if wanted:
            await self._database.read(places.refuse_overlap, wanted, except_view_id=view_id)
            await self._commits.in_thread(lambda: refuse_links(owner.location, wanted))

    def _new(self, spec: ViewSpec, location: str) -> ViewMetadata:
        return view_updates.new_view(
            schema=spec.schema,
            version=spec.version,
            properties=spec.properties,
            location=location,
            uuid=self._ids.uuid(),
            now_ms=self._clock.now_ms(),
        )

    async def _create(self, owner: Bucket, ident: TableIdent, metadata: ViewMetadata) -> ViewHandle:
        document = await self._files.write_view(metadata, None)
        birth = _birth(ident, document)
        now_ms = self._clock.now_ms()
        row = await self._point(document, lambda connection: _insert(connection, owner.id, birth, now_ms))
        return _handle(row, document)

    async def _replace(
        self, owner: Bucket, ident: TableIdent, needs: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> ViewHandle:
        async with self._queues.turn(owner.id, [ident]):
            for attempt in range(self._attempts):
                if attempt:
                    await asyncio.sleep(self._ids.jitter(0, _BACKOFF_SECONDS * 2**attempt))
                row = await self._pointer(owner.name, ident)
                base = await self._document(row)
                requirements.check_view(needs, base.metadata)
                self._content.check_updates(updates, base.metadata.properties)
                metadata = await self._applied(base.metadata, updates)
                try:
                    if metadata is base.metadata:
                        return _handle(await self._database.write(_unchanged, row), base)
                    return await self._carry_out(owner, row, base.metadata, metadata)
                except LostRace:
                    continue
        raise CommitFailed(f"Cannot commit to view {ident}: it changed concurrently; reload and retry")

    async def _applied(self, base: ViewMetadata, updates: Sequence[JsonObject]) -> ViewMetadata:
        now_ms = self._clock.now_ms()
        return await self._commits.in_thread(lambda: view_updates.apply(base, updates, now_ms=now_ms))

    async def _carry_out(
        self, owner: Bucket, row: ViewRow, base: ViewMetadata, metadata: ViewMetadata
    ) -> ViewHandle:
        before = locations.places(base)
        fresh = tuple(place for place in locations.places(metadata) if place not in before)
        await self._check_places(owner, fresh, row.id)
        document = await self._files.write_view(metadata, row.metadata_location)
        now_ms = self._clock.now_ms()
        moved = await self._point(
            document, lambda connection: _swap(connection, row, document, fresh, now_ms)
        )
        return _handle(moved, document)

    async def _point(self, document: ViewDocument, work: Callable[[Connection], ViewRow]) -> ViewRow:
        """Set the pointer to a file just written, or delete that file if this certainly did not happen."""
        try:
            row = await self._database.write(work)
        except CommitStateUnknown:
            _log.error("commit_state_unknown", files=[document.location])
            raise
        except (LostRace, TableFormatError):
            await self._files.delete([document.location])
            raise
        self._documents.put(document)
        return row


def _handle(row: ViewRow, document: ViewDocument) -> ViewHandle:
    return ViewHandle(
        bucket=row.bucket,
        ident=row.ident,
        metadata_location=document.location,
        document=document,
        row=row,
    )


def _birth(ident: TableIdent, document: ViewDocument) -> ViewBirth:
    held = locations.places(document.metadata)
    if not any(contains(place, document.location) for place in held):
        # A registered file may lie elsewhere: its directory must not be a table's, whose clean-up would take it.
        held = (*held, document.location.rpartition("/")[0])
    return ViewBirth(
        ident=ident,
        view_uuid=document.metadata.uuid.lower(),
        location=document.metadata.location,
        places=held,
        metadata_location=document.location,
    )


def _insert(connection: Connection, bucket_id: int, birth: ViewBirth, now_ms: int) -> ViewRow:
    return rows.create(connection, bucket_id, birth, now_ms)


def _swap(
    connection: Connection, row: ViewRow, document: ViewDocument, fresh: Sequence[str], now_ms: int
) -> ViewRow:
    places.refuse_overlap(connection, fresh, except_view_id=row.id)
    moved = pointers.swap_view(connection, row, document.location, document.metadata.location, now_ms)
    if moved is None:
        raise LostRace
    places.add_of_view(connection, row.id, fresh)
    return moved


def _unchanged(connection: Connection, row: ViewRow) -> ViewRow:
    now = rows.find(connection, row.bucket_id, row.ident)
    if now is None or now.metadata_location != row.metadata_location:
        raise LostRace
    return now


def _in_namespace(
    connection: Connection,
    bucket: str,
    namespace: Namespace,
    after: tuple[str, ...] | None,
    limit: int | None,
) -> Sequence[ViewRow]:
    owner = namespaces.require(connection, buckets.require(connection, bucket).id, namespace)
    return rows.in_namespace(connection, owner.id, after, limit)


def _rename(
    connection: Connection, bucket: str, source: TableIdent, destination: TableIdent, now_ms: int
) -> None:
    rows.rename(connection, buckets.require(connection, bucket).id, source, destination, now_ms)


def _drop(connection: Connection, bucket: str, ident: TableIdent) -> ViewRow:
    return rows.drop(connection, buckets.require(connection, bucket).id, ident)
