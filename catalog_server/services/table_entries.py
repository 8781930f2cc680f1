"""Tables as the S3 Tables API offers them: blank ones too, changes guarded by a token, pointers moved by clients.

Only what that API can name is here: namespaces of one level, and names of lower-case letters, digits and `_`. Other
tables of the bucket are not listed and not found.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from catalog_server.services import all_tables, drop_unit, locations, paging, relocations
from catalog_server.services import tags as tag_rules
from catalog_server.services.commit_plan import Current, Planned
from catalog_server.services.commit_unit import Also, Part
from catalog_server.services.commits import CommitService
from catalog_server.services.current import load_current
from catalog_server.services.documents import Document, DocumentCache
from catalog_server.services.drop_unit import Drop
from catalog_server.services.handles import Bucket
from catalog_server.services.local_places import make_table_directories, refuse_links
from catalog_server.services.principals import Principal
from catalog_server.services.relocations import NOT_VALID, Place
from catalog_server.services.tables import TableService, TableSpec
from catalog_server.store import (
    buckets,
    places,
    pointers,
    resource_settings,
    table_entries,
    tables,
    tags,
)
from catalog_server.store.engine import Database
from catalog_server.store.keys import key_of
from catalog_server.store.table_entries import BlankBirth, TableEntry
from catalog_server.store.tables import TableRow
from table_format.clock import Clock, Ids
from table_format.errors import (
    Invalid,
    NoSuchFile,
    NoSuchNamespace,
    NotFound,
    VersionConflict,
)
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject

__all__ = ["Attached", "TableEntry", "TableEntryService", "can_be_named", "token_of"]

_NAME = re.compile(r"[0-9a-z_]{1,255}")
_ROWS_AT_ONCE = 1_000


class _AlreadyThere(Exception):
    """The table points already to where it is to be pointed: the answer to the same request was lost."""

    def __init__(self, entry: TableEntry) -> None:
        super().__init__()
        self.entry = entry


def token_of(table: TableEntry | TableRow) -> str:
    """The version token of a table: opaque, another one after every change of the table, never one of before.

    A table that was unregistered and registered again has its id again, and counts its versions from one.
    """
    seen = f"{table.resource_id} {table.created_at_ms} {table.version}"
    return hashlib.sha256(seen.encode()).hexdigest()[:40]


def can_be_named(ident: TableIdent) -> bool:
    """Whether the S3 Tables API can name the table."""
    names = (*ident.namespace.levels, ident.name)
    return len(names) == 2 and all(_NAME.fullmatch(name) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """What a table is created with beside itself: tags, and settings by their names."""

    tags: Mapping[str, str]
    settings: Mapping[str, JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """A request to point a table at a metadata file."""

    bucket: Bucket
    ident: TableIdent
    token: str
    location: str


class TableEntryService:
    """Use-cases of the S3 Tables API on tables."""

    def __init__(
        self,
        database: Database,
        documents: DocumentCache,
        commits: CommitService,
        table_service: TableService,
        time_and_ids: tuple[Clock, Ids],
    ) -> None:
        self._database = database
        self._documents = documents
        self._commits = commits
        self._tables = table_service
        self._clock, self._ids = time_and_ids

    async def get(self, principal: Principal, bucket: str, ident: TableIdent) -> TableEntry:
        """One table: an indexed read, no object store.

        Raises:
            NoSuchTable: there is none.
        """
        found = await self._database.hot(table_entries.read(bucket, ident)) if can_be_named(ident) else None
        if found is None:
            await self._commits.bucket(bucket)  # a missing bucket is another error
            raise tables.missing(ident)
        return found

    async def get_by_id(self, principal: Principal, bucket: str, resource_id: str) -> TableEntry | None:
        """The table of that id in the bucket, or None.

        Raises:
            NoSuchWarehouse: there is no such bucket.
        """
        found = await self._database.read(_by_id, bucket, resource_id)
        return found if found is not None and can_be_named(found.ident) else None

    async def list(
        self,
        principal: Principal,
        bucket: str,
        namespace: Namespace | None,
        prefix: str,
        page: paging.PageRequest,
    ) -> paging.Page[TableEntry]:
        """Tables of a namespace or of the whole bucket whose names begin so, by namespace and name.

        Raises:
            NoSuchNamespace: the namespace is not there.
            Invalid: the page request is wrong.
        """

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[TableEntry]:
            if after is not None and len(after) != 2:
                raise Invalid("pageToken is not one that this listing gave")
            wanted = _ROWS_AT_ONCE if limit is None else limit
            found: list[TableEntry] = []
            while len(found) < wanted:
                rows = await self._database.read(
                    all_tables.read_page, bucket, (namespace, prefix), after, _ROWS_AT_ONCE
                )
                found += [entry for entry in rows if can_be_named(entry.ident)]
                if len(rows) < _ROWS_AT_ONCE:
                    break
                after = all_tables.position(rows[-1])
            return found[:wanted]

        listing = f"entries {bucket} {'' if namespace is None else key_of(namespace)} {prefix}"
        return await paging.paged(page, listing, fetch, all_tables.position)

    async def create(
        self,
        principal: Principal,
        bucket: str,
        ident: TableIdent,
        spec: TableSpec | None,
        *,
        attached: Attached,
    ) -> TableEntry:
        """Create a table, blank without a `spec`, and what is attached to it in the same transaction.

        Raises:
            Invalid: name, schema, spec, order or properties can not be.
            AlreadyExists: the name is taken.
            NoSuchNamespace: the namespace is not there.
        """
        if not can_be_named(ident):
            raise Invalid("The specified table name is not valid.")
        tag_rules.check(attached.tags)
        also = partial(_attach, attached=attached, now_ms=self._clock.now_ms())
        if spec is not None:
            await self._tables.create(principal, bucket, ident, spec, also=also)
            return await self.get(principal, bucket, ident)
        owner = await self._commits.bucket(bucket)
        location = await self._commits.fresh_location(owner, ident)
        locations.check_inside(owner.location, location)
        await self._commits.refuse_taken(owner, ident)
        await self._commits.in_thread(lambda: refuse_links(owner.location, [location]))
        await self._commits.in_thread(lambda: make_table_directories(location))
        birth = BlankBirth(ident=ident, resource_id=self._ids.uuid(), location=location)
        return await self._database.write(_create_blank, owner.id, birth, also, self._clock.now_ms())

    async def rename(
        self,
        principal: Principal,
        bucket: str,
        source: TableIdent,
        destination: TableIdent,
        token: str | None,
    ) -> None:
        """Give a table another name; its files stay where they are.

        Raises:
            NoSuchTable: there is no such table.
            VersionConflict: the token is not the table's.
            NoSuchNamespace: the new namespace is not there.
            AlreadyExists: the new name is taken.
            Invalid: the new name can not be one here.
        """
        if not can_be_named(destination):
            raise Invalid("The specified table name is not valid.")
        await self._database.write(_rename, bucket, source, destination, token, self._clock.now_ms())

    async def delete(self, principal: Principal, bucket: str, ident: TableIdent, token: str | None) -> None:
        """Delete a table; a job of the same transaction deletes its files later.

        A blank table has no files that we know of: what lies in its place stays there.

        Raises:
            NoSuchTable: there is none.
            VersionConflict: the token is not the table's.
            Forbidden: the table is protected.
        """
        wanted = Drop(
            bucket=bucket,
            ident=ident,
            principal=principal.name,
            now_ms=self._clock.now_ms(),
            kept_ms=0,
            purge=True,
        )
        await self._database.write(_delete, wanted, token)

    async def update_metadata_location(
        self, principal: Principal, bucket: str, ident: TableIdent, token: str, location: str
    ) -> TableEntry:
        """Point a table at a metadata file that the client wrote, if the token is still the table's.

        When the table points there already the answer is the table as it is: an earlier answer was lost.

        Raises:
            NoSuchTable: there is none.
            VersionConflict: the token is not the table's.
            CommitFailed: the file was made from another version, or the table changed meanwhile.
            Invalid: the file is elsewhere, not there, unreadable, another table's, or does not follow.
            AlreadyExists: a place that it names is another table's.
            CommitStateUnknown: the pointer may have been moved.
        """
        if not can_be_named(ident):
            raise tables.missing(ident)
        move = _Move(bucket=await self._commits.bucket(bucket), ident=ident, token=token, location=location)
        try:
            row = await self._commits.point(move.bucket, ident, lambda: self._judge(move))
        except _AlreadyThere as already:
            return already.entry
        return _entry_of(row)

    async def _judge(self, move: _Move) -> tuple[Part, Document]:
        bucket = move.bucket
        entry = await self._database.hot(table_entries.read(bucket.name, move.ident))
        if entry is None:
            raise tables.missing(move.ident)
        if entry.metadata_location == move.location:
            raise _AlreadyThere(entry)
        check_token(entry, move.token)
        layers = await self._database.hot(pointers.policy_layers(entry))
        blank = entry.metadata_location is None
        if blank:
            current = Current(row=None, base=None, layers=layers)
            within: tuple[str, ...] = (entry.location,)
        else:
            row, base = await self._current(move)
            check_token(row, move.token)
            current = Current(row=row, base=base, layers=layers)
            within = locations.places(base.metadata)
        relocations.check_location(move.location, Place(bucket_location=bucket.location, within=within))
        document = await self._read(bucket, move.location)
        content = self._commits.content

        def work() -> Planned:
            if blank:
                return relocations.begin(entry, current, document, bucket.location, content)
            return relocations.follow(move.ident, current, document, bucket.location, content)

        planned = await self._commits.in_thread(work)
        await self._check_places(bucket, entry, planned)
        part = Part(planned=planned, new_location=document.location, onto=entry if blank else None)
        return part, document

    async def _current(self, move: _Move) -> tuple[TableRow, Document]:
        try:
            found = await load_current(self._database, self._documents, move.bucket.name, move.ident)
        except NoSuchFile as error:
            raise Invalid(f"The table's current metadata can not be read. {error.message}") from None
        if found is None:
            raise tables.missing(move.ident)
        return found

    async def _read(self, bucket: Bucket, location: str) -> Document:
        """The client's file, in the bounds of files that are not ours."""
        await self._commits.in_thread(lambda: refuse_links(bucket.location, [location]))
        try:
            return await self._documents.fetch_foreign(location)
        except NoSuchFile:
            raise Invalid(f"{NOT_VALID} There is no file at {location}") from None
        except Invalid as error:
            raise Invalid(f"{NOT_VALID} {error.message}") from None

    async def _check_places(self, bucket: Bucket, entry: TableEntry, planned: Planned) -> None:
        if planned.new_places:
            # The swap checks again.
            await self._database.read(places.refuse_overlap, planned.new_places, entry.id)
        named = [*planned.new_places, *planned.new_files]
        if named:
            await self._commits.in_thread(lambda: refuse_links(bucket.location, named))
        strange = locations.elsewhere(locations.places(planned.metadata), planned.new_files)
        if strange:
            await self._database.read(places.refuse_inside, strange, (entry.id,))


def check_token(table: TableEntry | TableRow, token: str | None) -> None:
    """Check that a client's token, where it gave one, is that of the table as it is.

    Raises:
        VersionConflict: the table changed since.
    """
    if token is not None and token != token_of(table):
        raise VersionConflict("Provided version token does not match the table version token.")


def _entry_of(row: TableRow) -> TableEntry:
    return TableEntry(
        id=row.id,
        bucket_id=row.bucket_id,
        bucket=row.bucket,
        namespace_id=row.namespace_id,
        ident=row.ident,
        resource_id=row.resource_id,
        table_uuid=row.table_uuid,
        location=row.location,
        metadata_location=row.metadata_location,
        version=row.version,
        protected=row.protected,
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
    )


def _by_id(connection: Connection, bucket: str, resource_id: str) -> TableEntry | None:
    owner = buckets.require(connection, bucket)
    return table_entries.by_resource_id(connection, owner.id, resource_id)


def _create_blank(
    connection: Connection, bucket_id: int, birth: BlankBirth, also: Also, now_ms: int
) -> TableEntry:
    entry = table_entries.create_blank(connection, bucket_id, birth, now_ms)
    also(connection, entry.resource_id)
    return entry


def _attach(connection: Connection, resource_id: str, *, attached: Attached, now_ms: int) -> None:
    tags.put(connection, resource_id, attached.tags)
    for name, document in attached.settings.items():
        resource_settings.put(connection, resource_id, name, document, now_ms)


def _entry(connection: Connection, bucket: str, ident: TableIdent, token: str | None) -> TableEntry:
    if not can_be_named(ident):
        raise tables.missing(ident)
    entry = table_entries.require(connection, buckets.require(connection, bucket).id, ident)
    check_token(entry, token)
    return entry


def _rename(
    connection: Connection,
    bucket: str,
    source: TableIdent,
    destination: TableIdent,
    token: str | None,
    now_ms: int,
) -> None:
    entry = _entry(connection, bucket, source, token)
    try:
        table_entries.rename(connection, entry, destination, now_ms)
    except NoSuchNamespace as error:
        raise NotFound(f"The specified destination namespace does not exist. {error.message}") from None


def _delete(connection: Connection, wanted: Drop, token: str | None) -> None:
    _entry(connection, wanted.bucket, wanted.ident, token)
    drop_unit.drop(connection, wanted)
