"""Rows on their way into one table: an open fan-out writer per table version, and the files already closed.

Owns the files until a commit takes them. A file that no commit was ever sent for is referenced by nothing and may
be deleted; all others are left to the catalog's removal of unreferenced files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import structlog

from table_format.catalog import LoadedTable
from table_format.clock import Ids
from table_format.errors import TableFormatError, Unavailable
from table_format.io.store import ObjectStore
from table_format.manifest.entries import DataFile
from table_format.write.parquet import TableWriter

log = structlog.get_logger("frazil.ingest.write")

StoreFor: TypeAlias = Callable[[str, Mapping[str, str]], ObjectStore]


@dataclass(slots=True, kw_only=True)
class RowBuffer:
    """What has been written for one table since its last commit."""

    store_for: StoreFor
    ids: Ids
    target_bytes: int
    name_prefix: str = ""
    rows: int = 0
    _writer: TableWriter | None = None
    _files: list[DataFile] = field(default_factory=list)
    _paths: list[str] = field(default_factory=list)
    _table: LoadedTable | None = None
    _config: Mapping[str, str] = field(default_factory=dict)

    @property
    def held(self) -> int:
        """Bytes of memory, about."""
        return 0 if self._writer is None else self._writer.held

    def store(self, table: LoadedTable) -> ObjectStore:
        """The store that holds the table."""
        return self.store_for(table.metadata.location, table.config)

    def write(self, table: LoadedTable, batch: pa.RecordBatch) -> None:
        """Write rows with the table's current schema and spec; an older version's files are closed first.

        Raises:
            Unavailable: the store is away; the buffer must be discarded.
        """
        try:
            if self._table is None or _version(self._table) != _version(table):
                self.close_files()
                self._table, self._config = table, table.config
                self._writer = TableWriter(
                    store=self.store(table),
                    metadata=table.metadata,
                    ids=self.ids,
                    target_bytes=self.target_bytes,
                    name_prefix=self.name_prefix,
                )
            if self._writer is not None:
                self._writer.write(batch)
        except OSError as error:
            raise Unavailable(f"cannot write to {table.metadata.location}: {error}") from error
        self.rows += batch.num_rows

    def add_files(self, files: Sequence[DataFile], paths: Sequence[str], config: Mapping[str, str]) -> None:
        """Own complete files that were written beside the rows; `paths` are all that were begun for them."""
        self._files.extend(files)
        self._paths.extend(paths)
        self._config = self._config or config

    def close_files(self) -> list[DataFile]:
        """Close the open files and give all that are complete; further rows go to new ones.

        Raises:
            Unavailable: the store is away; the buffer must be discarded.
        """
        if self._writer is not None:
            try:
                self._files.extend(self._writer.flush())
            except OSError as error:
                raise Unavailable(f"cannot close data files: {error}") from error
            self._paths.extend(self._writer.paths)
            self._writer, self._table = None, None
        return list(self._files)

    def forget(self) -> None:
        """The files belong to a commit now: start empty."""
        self._files, self._paths, self.rows = [], [], 0

    def discard(self, *, delete: bool) -> None:
        """Drop everything; with `delete` also the files, which then no commit may ever have been sent for."""
        if self._writer is not None:
            self._paths.extend(self._writer.abort())
        paths = list(self._paths)
        self._writer, self._table = None, None
        self.forget()
        if delete and paths:
            self._delete(paths)

    def _delete(self, paths: list[str]) -> None:
        try:
            self.store_for(paths[0], self._config).delete_many(paths)
        except (TableFormatError, OSError) as error:
            log.info("unused_files_left", count=len(paths), reason=str(error))


def _version(table: LoadedTable) -> tuple[Any, ...]:
    metadata = table.metadata
    return metadata.uuid, metadata.current_schema_id, metadata.default_spec_id, metadata.location
