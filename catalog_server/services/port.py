"""The catalog as maintenance jobs see it: sync calls from worker threads, answered on the server's event loop.

A job's commit goes through the same door as everyone's.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from catalog_server.services.commits import CommitService
from catalog_server.services.handles import TableHandle
from catalog_server.services.namespaces import NamespaceService
from catalog_server.services.principals import SYSTEM
from catalog_server.services.tables import TableService, TableSpec
from table_format.catalog import LoadedTable, NewTable
from table_format.errors import AlreadyExists, Internal
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessCatalog:
    """`TableCatalog` on the services of this process, for one bucket. Never to be called on the event loop."""

    loop: asyncio.AbstractEventLoop
    bucket: str
    namespaces: NamespaceService
    tables: TableService
    commits: CommitService

    def load(self, ident: TableIdent) -> LoadedTable:
        """The current table.

        Raises:
            NoSuchTable: there is none.
        """
        return _loaded(self._wait(self.tables.load(SYSTEM, self.bucket, ident)))

    def commit(
        self, ident: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> LoadedTable:
        """Apply the updates if the requirements hold.

        Raises:
            CommitFailed, CommitStateUnknown, Invalid, NoSuchTable, Unavailable: as `CommitService.commit`.
        """
        return _loaded(self._wait(self.commits.commit(SYSTEM, self.bucket, ident, requirements, updates)))

    def create(self, ident: TableIdent, table: NewTable) -> LoadedTable:
        """Create the table, and its namespace levels where they are missing.

        Raises:
            AlreadyExists: the name is taken.
        """
        return _loaded(self._wait(self._create(ident, table)))

    async def _create(self, ident: TableIdent, table: NewTable) -> TableHandle:
        levels = ident.namespace.levels
        for depth in range(1, len(levels) + 1):
            namespace = Namespace(levels[:depth])
            if not await self.namespaces.exists(SYSTEM, self.bucket, namespace):
                try:
                    await self.namespaces.create(SYSTEM, self.bucket, namespace, {})
                except AlreadyExists:
                    continue  # somebody else made it in between
        spec = TableSpec(
            schema=table.schema,
            partition_spec=table.partition_spec,
            write_order=table.write_order,
            properties=table.properties,
        )
        return await self.tables.create(SYSTEM, self.bucket, ident, spec)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()


def _loaded(handle: TableHandle) -> LoadedTable:
    if handle.metadata_location is None:
        raise Internal(f"table {handle.ident} was loaded without a metadata location")
    return LoadedTable(
        ident=handle.ident, metadata_location=handle.metadata_location, metadata=handle.metadata
    )
