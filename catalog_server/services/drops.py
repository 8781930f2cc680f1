"""Dropped tables: list, restore, purge, forget. Dropping itself is in `tables`, what holds together in `drop_unit`."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from catalog_server.services import drop_unit, names, paging
from catalog_server.services.documents import Document, DocumentCache
from catalog_server.services.drop_unit import Undrop
from catalog_server.services.handles import TableHandle
from catalog_server.services.principals import Principal
from catalog_server.store import buckets, tables
from catalog_server.store import dropped as rows
from catalog_server.store.dropped import DroppedQuery, DroppedRow
from catalog_server.store.engine import Database
from catalog_server.store.keys import key_of
from catalog_server.store.tables import TableRow
from table_format.clock import Clock
from table_format.errors import CommitFailed, Invalid, NoSuchFile, NoSuchTable
from table_format.ident import Namespace, TableIdent

__all__ = ["DropFilter", "DropService", "DroppedRow"]

_EXPIRED_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFilter:
    """Which dropped tables of a bucket to list; None leaves a member open."""

    namespace: Namespace | None = None
    name: str | None = None


class DropService:
    """Use-cases on dropped tables; each is named by its resource id."""

    def __init__(self, database: Database, documents: DocumentCache, clock: Clock) -> None:
        self._database = database
        self._documents = documents
        self._clock = clock

    async def list(
        self, principal: Principal, bucket: str, wanted: DropFilter, page: paging.PageRequest | None
    ) -> paging.Page[DroppedRow]:
        """Dropped tables of a bucket, those whose purge has not ended included; the last dropped first.

        Raises:
            NoSuchWarehouse: there is no such bucket.
            Invalid: the page request is wrong.
        """

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[DroppedRow]:
            if after is not None and not (len(after) == 2 and all(map(paging.is_number, after))):
                raise Invalid("pageToken is not one that this listing gave")
            return await self._database.read(_page, bucket, wanted, after, limit)

        def key(row: DroppedRow) -> tuple[str, str]:
            return str(row.dropped_at_ms), str(row.table_id)

        return await paging.paged(page, f"dropped {bucket}", fetch, key)

    async def get(self, principal: Principal, bucket: str, resource_id: str) -> DroppedRow:
        """One dropped table.

        Raises:
            NotFound: there is none of that resource id.
        """
        return await self._database.read(_get, bucket, resource_id)

    async def name(self, principal: Principal, bucket: str, resource_id: str) -> TableIdent:
        """The name that a dropped table had, or has again if it was restored.

        Raises:
            NotFound: there is no such dropped table.
        """
        return (await self._database.read(_find, bucket, resource_id, None)).ident

    async def undrop(
        self, principal: Principal, bucket: str, resource_id: str, ident: TableIdent | None = None
    ) -> TableHandle:
        """Make a table of a dropped one again, under its old name or the one given, with its policies and tags.

        Asked for again after it was done, the table is answered.

        Raises:
            NotFound: there is no such dropped table, or its metadata file is gone.
            NoSuchNamespace: the namespace is not there.
            AlreadyExists: the name, the uuid or the place is another table's by now.
            CommitFailed: its purge has begun, or its metadata file is another table's by now.
            Invalid: the name can not be one.
        """
        if ident is not None:
            names.check_table(ident)
        found = await self._database.read(_find, bucket, resource_id, ident)
        if isinstance(found, TableRow):
            return _handle(found, await self._documents.load(found.metadata_location))
        document = await self._last_metadata(found)
        wanted = Undrop(
            bucket=bucket,
            resource_id=resource_id,
            metadata_location=found.metadata_location,
            ident=ident or found.ident,
            now_ms=self._clock.now_ms(),
        )
        row = await self._database.write(drop_unit.undrop, wanted)
        self._documents.put(document)
        return _handle(row, document)

    async def purge(self, principal: Principal, bucket: str, resource_id: str) -> DroppedRow:
        """Have the files of a dropped table deleted by a job.

        Raises:
            NotFound: there is no such dropped table.
            CommitFailed: its files lie among those of a table.
        """
        return await self._database.write(drop_unit.purge, bucket, resource_id, self._clock.now_ms())

    async def forget(self, principal: Principal, bucket: str, resource_id: str) -> None:
        """Forget a dropped table before its time is over; its files stay.

        Raises:
            NotFound: there is no such dropped table.
            CommitFailed: its purge is under way.
        """
        await self._database.write(drop_unit.forget, bucket, resource_id, self._clock.now_ms())

    async def forget_expired(self) -> int:
        """Forget the dropped tables whose time is over, some at a time; how many."""
        gone = 0
        while True:
            some = await self._database.write(drop_unit.expire, self._clock.now_ms(), _EXPIRED_AT_ONCE)
            gone += some
            if some < _EXPIRED_AT_ONCE:
                return gone

    async def _last_metadata(self, row: DroppedRow) -> Document:
        """The dropped table's metadata as it lies in the store now; what is in memory may be older."""
        try:
            document = await self._documents.fetch(row.metadata_location)
        except NoSuchFile:
            raise NoSuchFile(
                f"Dropped table {row.ident} can not be restored: its metadata file {row.metadata_location} is gone"
            ) from None
        uuid = document.metadata.uuid
        if uuid is not None and uuid.lower() != row.table_uuid:
            raise CommitFailed(
                f"Dropped table {row.ident} can not be restored: its metadata file {row.metadata_location} was "
                f"written over by a table of the uuid {uuid}"
            )
        return document


def _find(
    connection: Connection, bucket: str, resource_id: str, ident: TableIdent | None
) -> DroppedRow | TableRow:
    owner = buckets.require(connection, bucket)
    found = rows.find(connection, owner.id, resource_id)
    if found is not None:
        return found
    try:
        restored = tables.by_resource_id(connection, owner.id, resource_id)
    except NoSuchTable:
        raise rows.missing(resource_id) from None
    if ident is not None and restored.ident != ident:
        raise rows.missing(resource_id)
    return restored


def _get(connection: Connection, bucket: str, resource_id: str) -> DroppedRow:
    return rows.require(connection, buckets.require(connection, bucket).id, resource_id)


def _page(
    connection: Connection,
    bucket: str,
    wanted: DropFilter,
    after: tuple[str, ...] | None,
    limit: int | None,
) -> Sequence[DroppedRow]:
    query = DroppedQuery(
        bucket_id=buckets.require(connection, bucket).id,
        namespace_key=None if wanted.namespace is None else key_of(wanted.namespace),
        name=wanted.name,
    )
    return rows.page(connection, query, after, limit)


def _handle(row: TableRow, document: Document) -> TableHandle:
    return TableHandle(
        bucket=row.bucket,
        ident=row.ident,
        metadata_location=row.metadata_location,
        document=document,
        row=row,
    )
