"""Walks every bucket and tells which tables and views lack files that they need, or do not add up.

Reads only. Servers may run meanwhile: when something seems wrong and the pointer has moved since, the table is looked
at anew, because what was missing may have expired.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from catalog_server.services.buckets import BucketService
from catalog_server.services.paging import Page, PageRequest
from catalog_server.services.principals import SYSTEM
from catalog_server.services.stores import Stores
from catalog_server.services.tables import TableService
from catalog_server.store import pointers
from catalog_server.store import views as view_rows
from catalog_server.store.engine import Database
from catalog_server.store.tables import TableRow
from catalog_server.store.views import ViewRow
from table_format.errors import TableFormatError
from table_format.metadata.codec import read_view
from table_format.verify.table import Verdict, verify

_PAGE: Final = 500
_LOOKS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A table or view that was looked at."""

    bucket: str
    name: str
    kind: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """What a walk needs of the catalog."""

    database: Database
    buckets: BucketService
    tables: TableService
    stores: Stores


class Verification:
    """One walk; `requests` is how many files are asked for side by side."""

    def __init__(self, catalog: Catalog, *, deep: bool, requests: int) -> None:
        self._catalog = catalog
        self._deep = deep
        self._pool = ThreadPoolExecutor(requests, thread_name_prefix="verify")

    async def run(self, bucket: str | None, table: str | None) -> AsyncIterator[Verified]:
        """Every table and view, of one bucket or all; or one table by its dotted name.

        Raises:
            NoSuchWarehouse: there is no such bucket.
        """
        names = [bucket] if bucket is not None else await self._buckets()
        for name in names:
            async for row in self._tables(name):
                if table in (None, str(row.ident)):
                    yield Verified(
                        bucket=name, name=str(row.ident), kind="table", verdict=await self._table(row)
                    )
            if table is None:
                for view in await self._catalog.database.read(view_rows.in_bucket, name):
                    yield Verified(
                        bucket=name, name=str(view.ident), kind="view", verdict=await self._view(view)
                    )

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown(wait=True)

    async def _buckets(self) -> list[str]:
        found: list[str] = []
        token = ""
        while True:
            page = await self._catalog.buckets.list(SYSTEM, PageRequest(token=token, size=_PAGE))
            found += [row.name for row in page.items]
            if page.next_token is None:
                return found
            token = page.next_token

    async def _tables(self, bucket: str) -> AsyncIterator[TableRow]:
        token: str | None = ""
        while token is not None:
            page: Page[TableRow] = await self._catalog.tables.list_all(
                SYSTEM, bucket, PageRequest(token=token, size=_PAGE)
            )
            for row in page.items:
                yield row
            token = page.next_token

    async def _table(self, row: TableRow) -> Verdict:
        verdict = Verdict()
        for _ in range(_LOOKS):
            verdict = await self._looked(row)
            now = await self._catalog.database.hot(pointers.read(row.bucket, row.ident))
            if now is None:
                return Verdict(warnings=["it was dropped meanwhile"])
            if not verdict.problems or now.metadata_location == row.metadata_location:
                return verdict
            row = now
        return verdict

    async def _looked(self, row: TableRow) -> Verdict:
        def work() -> Verdict:
            store = self._catalog.stores.store_for(row.location)
            return verify(store, row.metadata_location, row.table_uuid, self._pool, deep=self._deep)

        return await _told(work)

    async def _view(self, row: ViewRow) -> Verdict:
        def work() -> Verdict:
            store = self._catalog.stores.store_for(row.location)
            verdict = Verdict(files=1)
            metadata = read_view(store, row.metadata_location)
            if metadata.uuid != row.view_uuid:
                verdict.add(
                    f"metadata file {row.metadata_location} is of view {metadata.uuid}, not {row.view_uuid}"
                )
            return verdict

        return await _told(work)


async def _told(work: Callable[[], Verdict]) -> Verdict:
    try:
        return await asyncio.to_thread(work)
    except TableFormatError as error:
        return Verdict(problems=[error.message])
