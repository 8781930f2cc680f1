"""Every table of a bucket by name, whatever its name is and blank ones too: what people list, rename and protect."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from catalog_server.services import names, paging
from catalog_server.services.principals import Principal
from catalog_server.store import buckets, namespaces, table_entries, tables
from catalog_server.store.engine import Database
from catalog_server.store.keys import key_of
from catalog_server.store.table_entries import Listing, TableEntry
from table_format.clock import Clock
from table_format.errors import Invalid, VersionConflict
from table_format.ident import Namespace, TableIdent

_MOST_ROWS = 1_000_000  # of a listing that is not asked for in pages


class AllTables:
    """Use-cases that do not ask whether a table has metadata."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def one(self, principal: Principal, bucket: str, ident: TableIdent) -> TableEntry:
        """The table of that name, blank or not.

        Raises:
            NoSuchTable: there is none.
            NoSuchWarehouse: there is no such bucket.
        """
        return await self._database.read(_one, bucket, ident)

    async def require_metadata(self, principal: Principal, bucket: str, ident: TableIdent) -> None:
        """Check that the table is there and not blank; the error says which of the two it is.

        Raises:
            NoSuchTable: it is not.
            NoSuchWarehouse: there is no such bucket.
        """
        if (await self.one(principal, bucket, ident)).metadata_location is None:
            raise tables.without_metadata(ident)

    async def list(
        self,
        principal: Principal,
        bucket: str,
        namespace: Namespace | None,
        page: paging.PageRequest | None,
        *,
        prefix: str = "",
    ) -> paging.Page[TableEntry]:
        """Tables of a namespace or of the whole bucket whose names begin so, by namespace and name.

        Raises:
            NoSuchNamespace: the namespace is not there.
            NoSuchWarehouse: there is no such bucket.
            Invalid: the page request is wrong.
        """

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[TableEntry]:
            if after is not None and len(after) != 2:
                raise Invalid("pageToken is not one that this listing gave")
            wanted = _MOST_ROWS if limit is None else limit
            return await self._database.read(read_page, bucket, (namespace, prefix), after, wanted)

        within = "" if namespace is None else key_of(namespace)
        return await paging.paged(page, f"every-table {bucket} {within} {prefix}", fetch, position)

    async def rename(
        self, principal: Principal, bucket: str, source: TableIdent, destination: TableIdent
    ) -> TableEntry:
        """Give a table another name; its files stay where they are. The table as it is then.

        Raises:
            NoSuchTable: there is no such table.
            NoSuchNamespace: the new namespace is not there.
            AlreadyExists: the new name is taken.
            Invalid: the new name can not be one.
        """
        names.check_table(destination)
        return await self._database.write(_rename, bucket, source, destination, self._clock.now_ms())

    async def protect(
        self,
        principal: Principal,
        bucket: str,
        ident: TableIdent,
        *,
        protected: bool,
        if_match: str | None = None,
    ) -> TableEntry:
        """Protect a table from being dropped, purged, unregistered and overwritten, or no more.

        `if_match` is the `protection_tag` of what the caller knows.

        Raises:
            NoSuchTable: there is no such table.
            VersionConflict: its protection is not as the caller knows it, or it is another table.
        """
        return await self._database.write(_protect, bucket, ident, protected, if_match)


def protection_tag(entry: TableEntry) -> str:
    """Names a table's protection as it is: another one for another table, also of the same name."""
    return f"{entry.resource_id}-{'protected' if entry.protected else 'unprotected'}"


def position(entry: TableEntry) -> tuple[str, str]:
    """Where a table stands in the order of `read_page`."""
    return key_of(entry.ident.namespace), entry.ident.name


def _one(connection: Connection, bucket: str, ident: TableIdent) -> TableEntry:
    return table_entries.require(connection, buckets.require(connection, bucket).id, ident)


def read_page(
    connection: Connection,
    bucket: str,
    wanted: tuple[Namespace | None, str],
    after: tuple[str, ...] | None,
    limit: int,
) -> Sequence[TableEntry]:
    """So many tables behind a position, of the namespace if one is given, whose names begin so.

    Raises:
        NoSuchNamespace: the namespace is not there.
        NoSuchWarehouse: there is no such bucket.
    """
    owner = buckets.require(connection, bucket)
    namespace, prefix = wanted
    if namespace is not None:
        namespaces.require(connection, owner.id, namespace)
    return table_entries.page(
        connection, Listing(bucket_id=owner.id, namespace=namespace, prefix=prefix), after, limit
    )


def _rename(
    connection: Connection, bucket: str, source: TableIdent, destination: TableIdent, now_ms: int
) -> TableEntry:
    entry = _one(connection, bucket, source)
    table_entries.rename(connection, entry, destination, now_ms)
    return table_entries.require(connection, entry.bucket_id, destination)


def _protect(
    connection: Connection, bucket: str, ident: TableIdent, protected: bool, if_match: str | None
) -> TableEntry:
    entry = _one(connection, bucket, ident)
    if if_match is not None and if_match != protection_tag(entry):
        raise VersionConflict(
            f"The protection of {ident} was changed since it was read: read it again and retry"
        )
    table_entries.set_protected(connection, entry, protected)
    return replace(entry, protected=protected)
