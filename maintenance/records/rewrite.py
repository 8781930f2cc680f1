"""A data file written anew without its old rows, as a piece of work that may travel. Decides nothing, commits nothing.

Two passes. The first reads the time column alone and counts the old rows: too few, and nothing is written. The second
reads the rows that row-level deletes leave, and writes those that are not old, in their order. A row is old when its
value is below the limit; null is not. Memory is bounded by a batch and an open row group.
The invariant: every row of the file is deleted, old or written, by the manifest, by both passes and by the new file's
footer; and the new file's time column begins at the limit.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from maintenance.columns import keeps_lineage, written_schema
from maintenance.executors.port import GoOn
from maintenance.records.plan import Column
from maintenance.rewritable import most_deleted
from table_format.errors import Internal, TableFormatError
from table_format.ident import join
from table_format.io.store import ObjectStore
from table_format.manifest.entries import DataFile
from table_format.metadata.document import TableMetadata
from table_format.scan.deletes import DeleteCache, Tally, read_task
from table_format.scan.files import open_file, read_name_mapping
from table_format.scan.lineage import to_carry
from table_format.scan.plan import FileTask
from table_format.scan.read import BATCH_ROWS, Projection
from table_format.schema.arrow import ArrowArray
from table_format.schema.conform import conform
from table_format.write.files import FileOptions
from table_format.write.parquet import RollingWriter
from table_format.write.partition import partition_path

_NEVER_ROLL: Final = 2**62
"""One file in, at most one out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """What became of one file."""

    task: FileTask
    output: DataFile | None
    """What is left of it; None: nothing is, or it was not written."""
    old: int
    """Old rows that were not deleted before, and that the output lacks."""
    deleted: int = 0
    """Rows that row-level deletes had taken away."""
    too_few: bool = False
    """Whether it stays as it is, as too few of its rows are old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreedEnd:
    """How the work on a file ended."""

    freed: Freed | None = None
    error: TableFormatError | None = None
    opened: frozenset[str] = frozenset()
    """Every path that writing may have left an object at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeWork:
    """A file to be freed of its old rows."""

    task: FileTask
    metadata: TableMetadata
    column: Column
    limit: int
    """Rows with a lower value are old."""
    share: float
    """The part of the file's rows that must be old."""
    name: str
    """Of the file to be written."""

    @property
    def title(self) -> str:
        """What it is, for messages."""
        return f"expiration of rows of {self.task.entry.data_file.file_path}"

    @property
    def path(self) -> str:
        """Where it writes."""
        file, metadata = self.task.entry.data_file, self.metadata
        directory = metadata.properties.get("write.data.path") or join(metadata.location, "data")
        inner = partition_path(file.partition, metadata.spec(file.spec_id), metadata.schema())
        return join(directory, *([inner] if inner else []), self.name)

    @property
    def _place(self) -> int:
        """Which of the table's columns tells the age."""
        return [field["id"] for field in self.metadata.schema()["fields"]].index(self.column.id)

    def run(self, store: ObjectStore, go_on: GoOn) -> FreedEnd:
        """Count, and write. What is raised, other than such errors as are given back, leaves no file."""
        opened: set[str] = set()
        try:
            freed = self._free(store, go_on, opened)
        except TableFormatError as error:
            return FreedEnd(error=error, opened=frozenset(opened))
        except BaseException:
            with contextlib.suppress(TableFormatError):
                if opened:
                    store.delete_many(sorted(opened))
            raise
        return FreedEnd(freed=freed, opened=frozenset(opened))

    def _free(self, store: ObjectStore, go_on: GoOn, opened: set[str]) -> Freed:
        file = self.task.entry.data_file
        counted = self._count_old(store, go_on)
        if counted == 0 or counted < self.share * file.record_count:
            return Freed(task=self.task, output=None, old=counted, too_few=True)
        tally, kept = Tally(), 0
        options = FileOptions.of(written_schema(self.metadata), self.metadata.properties)

        def next_path() -> str:
            opened.add(self.path)
            return self.path

        writer = RollingWriter(
            store=store,
            options=options,
            partition=file.partition,
            spec_id=file.spec_id,
            target_bytes=_NEVER_ROLL,
            next_path=next_path,
        )
        closed = False
        try:
            for batch in self._young(store, tally, options, go_on):
                kept += batch.num_rows
                writer.write(batch)
            outputs = [replace(one, sort_order_id=file.sort_order_id) for one in writer.close()]
            closed = True
        finally:
            if not closed:
                writer.abort()
        freed = Freed(
            task=self.task,
            output=outputs[0] if outputs else None,
            old=tally.rows - tally.deleted - kept,
            deleted=tally.deleted,
        )
        self._check(store, freed, len(outputs), (tally, kept, counted))
        return freed

    def _count_old(self, store: ObjectStore, go_on: GoOn) -> int:
        """Old rows of the file, deleted ones too, by its time column alone."""
        file, metadata, found = self.task.entry.data_file, self.metadata, 0
        alone = {"type": "struct", "fields": [metadata.schema()["fields"][self._place]]}
        with open_file(store, file, read_name_mapping(metadata)) as source:
            columns = Projection(source, alone, metadata.spec(file.spec_id))
            for batch in source.batches(columns.positions, BATCH_ROWS):
                go_on()
                found += int(np.count_nonzero(self._old(columns.apply(batch).column(0))))
        return found

    def _young(
        self, store: ObjectStore, tally: Tally, options: FileOptions, go_on: GoOn
    ) -> Iterator[pa.RecordBatch]:
        """The rows that stay, as they are to be written."""
        deletes = DeleteCache()
        deletes.sweep(store, [self.task], self.metadata, go_on)
        lineage = keeps_lineage(self.metadata)
        batches = read_task(store, self.task, self.metadata, cache=deletes, tally=tally, lineage=lineage)
        for batch in batches:
            go_on()
            stored = to_carry(batch, self.task.entry) if lineage else batch
            young = stored.filter(pa.array(~self._old(batch.column(self._place))))
            yield conform(young.select(options.arrow.names), options.arrow)

    def _old(self, column: ArrowArray) -> "npt.NDArray[np.bool_]":
        """Which values are below the limit; a null is not."""
        numbers = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
        old: npt.NDArray[np.bool_] = numbers.fill_null(0).to_numpy(zero_copy_only=False) < self.limit
        if column.null_count:
            old &= column.is_valid().to_numpy(zero_copy_only=False)
        return old

    def _check(self, store: ObjectStore, freed: Freed, outputs: int, read: tuple[Tally, int, int]) -> None:
        """Make sure that exactly the old rows are gone.

        Raises:
            Internal: they are not; nothing may be committed.
        """
        tally, kept, counted = read
        file, output = self.task.entry.data_file, freed.output
        declared = 0 if output is None else output.record_count
        written = 0 if output is None else _rows_in(store, output.file_path)
        # Deleted rows may have been old ones: those are counted in the first pass, not in the second.
        fits = counted - tally.deleted <= freed.old <= counted and tally.rows == file.record_count
        fits = fits and tally.deleted <= most_deleted([self.task])
        if not (fits and kept == declared == written and outputs <= 1 and written < file.record_count):
            raise Internal(
                f"{self.title}: by the manifest {file.record_count} rows, read {tally.rows} of which {tally.deleted} "
                f"are deleted, {counted} counted and {freed.old} found old, {kept} kept, {written} written; nothing of "
                "it is committed and the file stays"
            )
        lower = None if output is None else (output.lower_bounds or {}).get(self.column.id)
        first = None if lower is None else self.column.bound(lower)
        if first is not None and first < self.limit:
            raise Internal(
                f"{self.title}: the file written begins at {first}, before {self.limit}; it is not committed"
            )


def _rows_in(store: ObjectStore, path: str) -> int:
    with store.open_input(path) as source:
        return int(pq.ParquetFile(source).metadata.num_rows)
