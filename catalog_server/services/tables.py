"""Tables: create, stage, load, list, rename, drop, purge, register, unregister. Commits are in `commits`."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from catalog_server.services import drop_unit, locations, names, paging
from catalog_server.services.commit_unit import Also, LostRace
from catalog_server.services.commits import CommitService
from catalog_server.services.current import load_present, pointer_to_present
from catalog_server.services.documents import Document, DocumentCache
from catalog_server.services.drop_unit import Drop
from catalog_server.services.handles import Bucket, TableHandle
from catalog_server.services.local_places import make_table_directories, refuse_links
from catalog_server.services.principals import Principal
from catalog_server.store import buckets, namespaces, places, pointers
from catalog_server.store import tables as rows
from catalog_server.store.dropped import DroppedRow
from catalog_server.store.engine import Database
from catalog_server.store.keys import key_of
from catalog_server.store.lookup import for_driver
from catalog_server.store.tables import TableRow
from table_format.clock import Clock, Ids
from table_format.errors import Unavailable
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject
from table_format.metadata import create as creation
from table_format.metadata.document import TableMetadata

__all__ = ["TableHandle", "TableService", "TableSpec"]

# So many names are read in the time of a small request.
_NAMES_AT_ONCE = 2_000
_MOST_NAMES = 2**62
_UNREGISTER_ATTEMPTS = 20
_STAGED_REMEMBERED = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """What a table shall be; a place is assigned where none is given."""

    schema: JsonObject
    partition_spec: JsonObject | None = None
    write_order: JsonObject | None = None
    properties: Mapping[str, str]
    location: str | None = None
    keeps_ids: bool = False
    """Whether the ids of columns and partition fields are kept as they are given, rather than assigned anew."""


class TableService:
    """Use-cases on tables."""

    def __init__(
        self,
        database: Database,
        documents: DocumentCache,
        commits: CommitService,
        time_and_ids: tuple[Clock, Ids],
        *,
        kept_ms: int,
    ) -> None:
        self._database = database
        self._documents = documents
        self._commits = commits
        self._kept_ms = kept_ms
        """How long a dropped table can be had back."""
        self._clock, self._ids = time_and_ids
        self._staged: OrderedDict[tuple[str, TableIdent], None] = OrderedDict()

    async def pointer(self, principal: Principal, bucket: str, ident: TableIdent) -> TableRow:
        """The table's row, for whoever wants to read the table: one indexed read, no object store.

        Raises:
            NoSuchTable: there is none.
            NoSuchFile: its metadata file is gone (only a local disk is asked).
        """
        found = await pointer_to_present(self._database, bucket, ident)
        if found is None:
            raise rows.missing(ident)
        return found

    async def exists(self, principal: Principal, bucket: str, ident: TableIdent) -> bool:
        """Whether the table is there."""
        return await self._database.hot(pointers.read(bucket, ident)) is not None

    async def row(self, principal: Principal, bucket: str, ident: TableIdent) -> TableRow:
        """The table's row, whether its metadata file is there or not: one indexed read.

        Raises:
            NoSuchTable: there is none.
        """
        found = await self._database.hot(pointers.read(bucket, ident))
        if found is None:
            raise rows.missing(ident)
        return found

    async def bucket_location(self, bucket: str) -> str:
        """The place below which everything of the bucket's tables lies.

        Raises:
            NoSuchWarehouse: there is no such bucket.
        """
        return (await self._commits.bucket(bucket)).location

    async def load(self, principal: Principal, bucket: str, ident: TableIdent) -> TableHandle:
        """The table with its metadata.

        Raises:
            NoSuchTable: there is none.
            NoSuchFile: its metadata file is gone.
        """
        found = await load_present(self._database, self._documents, bucket, ident)
        if found is None:
            raise rows.missing(ident)
        row, document = found
        return TableHandle(
            bucket=bucket, ident=ident, metadata_location=row.metadata_location, document=document, row=row
        )

    async def create(
        self,
        principal: Principal,
        bucket: str,
        ident: TableIdent,
        spec: TableSpec,
        *,
        also: Also | None = None,
    ) -> TableHandle:
        """Create a table, and whatever `also` stores with it.

        Raises:
            Invalid: name, schema, spec, order or place can not be.
            AlreadyExists: the name is taken, or the place overlaps another table's.
            NoSuchNamespace: the namespace is not there.
        """
        owner = await self._commits.bucket(bucket)
        metadata = await self._new(owner, ident, spec)
        return await self._commits.create(principal, owner, ident, metadata, also)

    async def stage(
        self, principal: Principal, bucket: str, ident: TableIdent, spec: TableSpec
    ) -> TableHandle:
        """What the table would be; nothing is stored but its (empty) directories on a local disk.

        Raises:
            Invalid, AlreadyExists, NoSuchNamespace: as `create`.
        """
        metadata = await self._new(await self._commits.bucket(bucket), ident, spec)
        document = Document("", metadata.to_bytes(), metadata)
        self._staged[bucket, ident] = None
        self._staged.move_to_end((bucket, ident))
        if len(self._staged) > _STAGED_REMEMBERED:
            self._staged.popitem(last=False)
        return TableHandle(bucket=bucket, ident=ident, metadata_location=None, document=document, row=None)

    def was_staged(self, bucket: str, ident: TableIdent) -> bool:
        """Whether a table of that name was staged here of late: a hint to what a commit means, not more."""
        return (bucket, ident) in self._staged

    async def list(
        self,
        principal: Principal,
        bucket: str,
        namespace: Namespace,
        page: paging.PageRequest | None,
        *,
        prefix: str = "",
    ) -> paging.Page[TableRow]:
        """Tables of one namespace whose name begins so, by name.

        Raises:
            NoSuchNamespace: the namespace is not there.
            Invalid: the page request is wrong.
        """

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[TableRow]:
            return await self._database.read(_in_namespace, bucket, namespace, prefix, after, limit)

        listing = f"tables {bucket} {key_of(namespace)} {prefix}".rstrip()
        return await paging.paged(page, listing, fetch, lambda row: (row.ident.name,))

    async def names(
        self, principal: Principal, bucket: str, namespace: Namespace, page: paging.PageRequest | None
    ) -> paging.Page[str]:
        """Names of the tables of one namespace, in order: cheaper than `list`.

        Raises:
            NoSuchNamespace: the namespace is not there.
            Invalid: the page request is wrong.
        """

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[str]:
            start = after[0] if after else ""
            most = _NAMES_AT_ONCE + 1 if limit is None else limit
            found = await self._database.hot(pointers.table_names(bucket, namespace, start, most))
            if found is None:
                await self._commits.bucket(bucket)  # a missing bucket is another error
                raise namespaces.missing(namespace)
            if limit is None and len(found) == most:
                return await self._database.read(_all_names, bucket, namespace)
            return found

        return await paging.paged(page, f"tables {bucket} {key_of(namespace)}", fetch, lambda name: (name,))

    async def list_all(
        self, principal: Principal, bucket: str, page: paging.PageRequest | None, *, prefix: str = ""
    ) -> paging.Page[TableRow]:
        """Tables of the whole bucket whose name begins so, by namespace and name.

        Raises:
            Invalid: the page request is wrong.
        """

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[TableRow]:
            return await self._database.read(_in_bucket, bucket, prefix, after, limit)

        def key(row: TableRow) -> tuple[str, str]:
            return key_of(row.ident.namespace), row.ident.name

        return await paging.paged(page, f"all-tables {bucket} {prefix}".rstrip(), fetch, key)

    async def rename(
        self, principal: Principal, bucket: str, source: TableIdent, destination: TableIdent
    ) -> None:
        """Give a table another name; its files stay where they are.

        Raises:
            NoSuchTable: there is no such table.
            NoSuchNamespace: the new namespace is not there.
            AlreadyExists: the new name is taken.
            Invalid: the new name can not be one.
        """
        names.check_table(destination)
        await self._database.write(_rename, bucket, source, destination, self._clock.now_ms())

    async def drop(
        self, principal: Principal, bucket: str, ident: TableIdent, *, if_version: int | None = None
    ) -> DroppedRow | None:
        """Drop a table and keep every file of it: for some time it can be had back; None when that time is nothing.

        Raises:
            NoSuchTable: there is none.
            Forbidden: it is protected.
            VersionConflict: it is not of version `if_version`.
        """
        wanted = self._drop(principal, bucket, ident, if_version, purge=False)
        return await self._database.write(drop_unit.drop, wanted)

    async def unregister(self, principal: Principal, bucket: str, ident: TableIdent) -> TableHandle:
        """Forget a table, keep every file of it, and tell its very last metadata.

        Raises:
            NoSuchTable: there is none.
            Forbidden: it is protected.
            NoSuchFile: its metadata file is gone: nothing to hand over (`drop` forgets such a table).
            Unavailable: it is committed to so often that its last metadata could not be told in time.
        """
        for _ in range(_UNREGISTER_ATTEMPTS):
            handle = await self.load(principal, bucket, ident)
            try:
                await self._database.write(drop_unit.unregister, bucket, ident, handle.metadata_location)
            except LostRace:
                continue  # committed to meanwhile: what was loaded is not the last
            return handle
        raise Unavailable(f"{ident} is committed to all the time: stop its writers, then unregister it")

    async def purge(
        self, principal: Principal, bucket: str, ident: TableIdent, *, if_version: int | None = None
    ) -> DroppedRow | None:
        """Drop a table; a job of the same transaction deletes its files later, until when it can be had back.

        Raises:
            NoSuchTable, Forbidden, VersionConflict: as `drop`.
        """
        wanted = self._drop(principal, bucket, ident, if_version, purge=True)
        return await self._database.write(drop_unit.drop, wanted)

    def _drop(
        self, principal: Principal, bucket: str, ident: TableIdent, if_version: int | None, *, purge: bool
    ) -> Drop:
        return Drop(
            bucket=bucket,
            ident=ident,
            principal=principal.name,
            now_ms=self._clock.now_ms(),
            kept_ms=self._kept_ms,
            purge=purge,
            if_version=if_version,
        )

    async def register(
        self,
        principal: Principal,
        bucket: str,
        ident: TableIdent,
        metadata_location: str,
        *,
        overwrite: bool,
        expected: str | None = None,
    ) -> TableHandle:
        """Make a table of metadata that exists already.

        With `overwrite` a table that is there is pointed at it; with `expected`, only while its metadata is that.

        Raises:
            Invalid: the file, or a place it refers to, is outside the bucket, or it is no table metadata.
            TooLarge: the file is out of the bounds of what is registered.
            NoSuchFile: there is no such file.
            AlreadyExists: the name is taken (without `overwrite`), or uuid or place are another table's.
            NoSuchNamespace: the namespace is not there.
            NoSuchTable, VersionConflict: the table to be overwritten is not as expected.
            CommitFailed: the files are those of a dropped table and being purged.
            Forbidden: the table to be overwritten is protected.
        """
        owner = await self._commits.bucket(bucket)
        names.check_table(ident)
        locations.check_inside(owner.location, metadata_location)
        await self._commits.refuse_taken(owner, ident, by_table=not overwrite)
        await self._commits.in_thread(lambda: refuse_links(owner.location, [metadata_location]))
        # Whoever wrote this file may have done so twice; what is in memory is for files of our own.
        document = await self._documents.fetch_foreign(metadata_location)
        locations.check_metadata(owner.location, document.metadata)
        named = [*locations.places(document.metadata), *locations.embedded(document.metadata)]
        await self._commits.in_thread(lambda: refuse_links(owner.location, named))
        handle = await self._commits.adopt(owner, ident, document, overwrite=overwrite, expected=expected)
        self._documents.put(document)
        return handle

    async def _new(self, owner: Bucket, ident: TableIdent, spec: TableSpec) -> TableMetadata:
        names.check_table(ident)
        self._commits.content.check_schema(spec.schema)
        self._commits.content.check_properties(spec.properties)
        fresh = await self._commits.fresh_location(
            owner, ident
        )  # also when not needed: it misses the namespace
        await self._commits.refuse_taken(owner, ident)
        location = fresh if spec.location is None else spec.location
        locations.check_inside(owner.location, location)
        metadata = await self._commits.in_thread(lambda: self._document(spec, location))
        for place in locations.places(metadata):
            locations.check_inside(owner.location, place)
        await self._database.read(places.refuse_overlap, locations.places(metadata))
        await self._commits.in_thread(lambda: refuse_links(owner.location, locations.places(metadata)))
        await self._commits.in_thread(lambda: make_table_directories(location))
        return metadata

    def _document(self, spec: TableSpec, location: str) -> TableMetadata:
        make = creation.new_table_with_ids if spec.keeps_ids else creation.new_table
        return make(
            schema=spec.schema,
            partition_spec=spec.partition_spec,
            write_order=spec.write_order,
            properties=spec.properties,
            location=location,
            uuid=self._ids.uuid(),
            now_ms=self._clock.now_ms(),
        )


def _all_names(connection: Connection, bucket: str, namespace: Namespace) -> Sequence[str]:
    """Of a namespace with very many: not on the event loop, and all in one transaction."""
    lookup = pointers.table_names(bucket, namespace, "", _MOST_NAMES)
    found = connection.exec_driver_sql(for_driver(connection, lookup.sql), lookup.values).all()
    return lookup.answer(found) or ()


def _in_namespace(
    connection: Connection,
    bucket: str,
    namespace: Namespace,
    prefix: str,
    after: tuple[str, ...] | None,
    limit: int | None,
) -> Sequence[TableRow]:
    owner = namespaces.require(connection, buckets.require(connection, bucket).id, namespace)
    return rows.in_namespace(connection, owner.id, after, limit, prefix)


def _in_bucket(
    connection: Connection, bucket: str, prefix: str, after: tuple[str, ...] | None, limit: int | None
) -> Sequence[TableRow]:
    return rows.in_bucket(connection, buckets.require(connection, bucket).id, after, limit, prefix)


def _rename(
    connection: Connection, bucket: str, source: TableIdent, destination: TableIdent, now_ms: int
) -> None:
    rows.rename(connection, buckets.require(connection, bucket).id, source, destination, now_ms)
