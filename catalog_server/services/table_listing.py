"""Every table of a bucket by name, whatever its name is and blank ones too: what people look through."""

from collections.abc import Sequence

from sqlalchemy import Connection

from catalog_server.services import paging
from catalog_server.services.principals import Principal
from catalog_server.store import buckets, namespaces, table_entries
from catalog_server.store.engine import Database
from catalog_server.store.keys import key_of
from catalog_server.store.table_entries import Listing, TableEntry
from table_format.errors import Invalid
from table_format.ident import Namespace, TableIdent

_MOST_ROWS = 1_000_000  # of a listing that is not asked for in pages


class TableListing:
    """Use-cases that only tell which tables there are."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def one(self, principal: Principal, bucket: str, ident: TableIdent) -> TableEntry:
        """The table of that name, blank or not.

        Raises:
            NoSuchTable: there is none.
            NoSuchWarehouse: there is no such bucket.
        """
        return await self._database.read(_one, bucket, ident)

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
            return await self._database.read(_page, bucket, (namespace, prefix), after, wanted)

        within = "" if namespace is None else key_of(namespace)
        return await paging.paged(page, f"every-table {bucket} {within} {prefix}", fetch, _key)


def _one(connection: Connection, bucket: str, ident: TableIdent) -> TableEntry:
    return table_entries.require(connection, buckets.require(connection, bucket).id, ident)


def _page(
    connection: Connection,
    bucket: str,
    wanted: tuple[Namespace | None, str],
    after: tuple[str, ...] | None,
    limit: int,
) -> Sequence[TableEntry]:
    owner = buckets.require(connection, bucket)
    namespace, prefix = wanted
    if namespace is not None:
        namespaces.require(connection, owner.id, namespace)
    return table_entries.page(
        connection, Listing(bucket_id=owner.id, namespace=namespace, prefix=prefix), after, limit
    )


def _key(entry: TableEntry) -> tuple[str, str]:
    return key_of(entry.ident.namespace), entry.ident.name
