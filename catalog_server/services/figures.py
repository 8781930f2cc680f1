"""Figures of buckets and namespaces: how many tables, files and bytes, from what tables' metadata tells.

Sizes come from the summary of each table's current snapshot, never from listing files. They are worked out when
somebody asks, so many tables at a time as a request can wait for, and kept by metadata location: the answer says of
how many tables they are current, older, or not known yet.
"""

import asyncio
from collections.abc import Mapping, Sequence

import structlog

from catalog_server.services.documents import DocumentCache
from catalog_server.services.principals import Principal
from catalog_server.store import figures as rows
from catalog_server.store.engine import Database
from catalog_server.store.figures import Figures, TableFigures
from table_format.clock import Clock
from table_format.errors import TableFormatError
from table_format.metadata.document import TableMetadata

_log = structlog.get_logger(__name__)

MOST_TABLES = 200
"""So many tables are measured on behalf of one request, at most."""
_AT_ONCE = 8
_SECONDS = 1.0
_LARGEST = 2**63 - 1


class FigureService:
    """Use-cases on figures."""

    def __init__(self, database: Database, documents: DocumentCache, clock: Clock) -> None:
        self._database = database
        self._documents = documents
        self._clock = clock

    async def of_bucket(self, principal: Principal, bucket_id: int) -> Figures:
        """The figures of a bucket, brought up to date as far as one request can."""
        await self._measure(await self._database.read(rows.unmeasured_in_bucket, bucket_id, MOST_TABLES))
        return (await self._database.read(rows.of_buckets, [bucket_id]))[bucket_id]

    async def of_buckets(self, principal: Principal, bucket_ids: Sequence[int]) -> Mapping[int, Figures]:
        """The figures of buckets as they were measured last."""
        return await self._database.read(rows.of_buckets, bucket_ids)

    async def of_namespace(self, principal: Principal, namespace_id: int) -> Figures:
        """The figures of what is directly in a namespace, brought up to date as far as one request can."""
        waiting = await self._database.read(rows.unmeasured_in_namespace, namespace_id, MOST_TABLES)
        await self._measure(waiting)
        return await self._database.read(rows.of_namespace, namespace_id)

    async def _measure(self, waiting: Sequence[tuple[int, str]]) -> None:
        started = self._clock.monotonic()
        measured: list[TableFigures] = []
        for first in range(0, len(waiting), _AT_ONCE):
            if self._clock.monotonic() - started > _SECONDS:
                break
            some = waiting[first : first + _AT_ONCE]
            measured += await asyncio.gather(*(self._one(table_id, at) for table_id, at in some))
        if not measured:
            return
        try:
            await self._database.write(rows.put, measured, self._clock.now_ms())
        except TableFormatError as error:
            _log.info("figures_not_kept", error=error.message)  # older ones are told, and said to be so

    async def _one(self, table_id: int, location: str) -> TableFigures:
        # Not through the cache: it is for tables that are worked with, and these may be all there are.
        known = self._documents.peek(location)
        try:
            metadata = (known or await self._documents.fetch(location)).metadata
        except TableFormatError:
            return _unknown(table_id)  # counted as such; whoever loads the table is told why
        return measure(table_id, location, metadata)


def measure(table_id: int, location: str, metadata: TableMetadata) -> TableFigures:
    """The figures of one table. A summary holds what its writer put there, so anything may be missing or no number."""
    snapshot = metadata.current_snapshot
    if snapshot is None:
        sizes: list[int | None] = [0, 0, 0, 0]
    else:
        summary = snapshot.get("summary")
        told = summary if isinstance(summary, dict) else {}
        sizes = [
            _number(told.get(name))
            for name in ("total-data-files", "total-delete-files", "total-records", "total-files-size")
        ]
    data_files, delete_files, records, size = sizes
    return TableFigures(
        table_id=table_id,
        metadata_location=location,
        snapshots=len(metadata.snapshots),
        data_files=data_files,
        delete_files=delete_files,
        records=records,
        bytes=size,
    )


def _unknown(table_id: int) -> TableFigures:
    return TableFigures(
        table_id=table_id,
        metadata_location="",  # so that it is tried again, after those that wait longer
        snapshots=None,
        data_files=None,
        delete_files=None,
        records=None,
        bytes=None,
    )


def _number(text: object) -> int | None:
    if not isinstance(text, str) or not (text.isascii() and text.isdigit()) or len(text) > 19:
        return None
    return min(int(text), _LARGEST)
