"""Execution of one group: read the inputs row by row, write one file under the same spec and partition.

Decides nothing and commits nothing. Memory is bounded by a batch and an open row group (sorted: and what a `Sorter`
holds), however large the group is.
The invariant: as many rows come out as went in, less those that deletes took away, by the manifests, by the batches
and by the written file's footer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from maintenance.columns import keeps_lineage, written_schema
from maintenance.compaction.copying import Copied, Copying
from maintenance.compaction.layout import Strategy, sort_order
from maintenance.compaction.plan_types import PlannedGroup
from maintenance.compaction.tiers import BinReason
from maintenance.ports import JobSettings
from maintenance.rewritable import most_deleted
from table_format.clock import Ids
from table_format.errors import Internal
from table_format.ident import join
from table_format.io.store import ObjectStore
from table_format.manifest.entries import DataFile, Partition
from table_format.metadata.document import TableMetadata
from table_format.scan.deletes import DeleteCache, Tally, read_task
from table_format.scan.lineage import to_carry
from table_format.scan.plan import FileTask
from table_format.schema.conform import conform
from table_format.schema.dictionaries import with_dictionaries
from table_format.write.files import FileOptions
from table_format.write.ordering import Ordering
from table_format.write.parquet import RollingWriter
from table_format.write.partition import partition_path
from table_format.write.sorting import Sorter

# A group becomes one file, whatever its encoded size turns out to be: a file that rolled over could leave as
# many files as there were, and the next plan would do it all again.
_NEVER_ROLL: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What one group became."""

    group: PlannedGroup
    inputs: tuple[FileTask, ...]
    outputs: tuple[DataFile, ...]
    deleted: int = 0
    """Rows that deletes took away."""
    not_copied: str | None = None
    """Why its rows were decoded and encoded; None when its row groups were copied."""

    @property
    def size(self) -> int:
        """Bytes written."""
        return sum(file.file_size_in_bytes for file in self.outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where groups are read from and written to."""

    store: ObjectStore
    metadata: TableMetadata
    ids: Ids
    name_prefix: str
    numbers: Iterator[int]
    """Where file names get their number."""
    opened: set[str]
    """Every path that writing may have left an object at, also when it failed."""
    go_on: Callable[[], None]
    """Asked between two batches of rows; raises `Stopped` when the job is to end."""
    deletes: DeleteCache = field(default_factory=DeleteCache)
    """Delete files that several inputs share."""
    settings: JobSettings = field(default_factory=JobSettings)


def execute(group: PlannedGroup, tasks: Mapping[str, FileTask], place: Place) -> Rewritten:
    """Write the group's output.

    Raises:
        Internal: rows out are not rows in less deleted ones; nothing may be committed.
        NoSuchFile: an input or a delete file is gone.
        Stopped: the job is to end; what was written may go.
    """
    inputs = tuple(tasks[file.path] for file in group.inputs)
    copied = _copying(group, place).attempt(group, inputs)
    if isinstance(copied, Copied):
        return Rewritten(group=group, inputs=inputs, outputs=(copied.file,))
    options = FileOptions.of(written_schema(place.metadata), place.metadata.properties)
    writer = RollingWriter(
        store=place.store,
        options=options,
        partition=group.partition,
        spec_id=group.spec_id,
        target_bytes=_NEVER_ROLL,
        next_path=partial(next_path, group.spec_id, group.partition, place, "parquet"),
    )
    count = _Count()
    closed = False
    try:
        unsorted = group.strategy is Strategy.BINPACK
        rows = _read(inputs, options, place, count, dictionaries=unsorted)
        for batch in laid_out(group, rows, options, place.metadata):
            place.go_on()
            writer.write(batch)
        outputs = tuple(replace(file, sort_order_id=group.order_id) for file in writer.close())
        closed = True
    finally:
        if not closed:
            writer.abort()
    _check_tally(group, inputs, count.tally)
    deleted = count.tally.deleted
    check_rows(group, count.rows, outputs, place.store, deleted=deleted)
    return Rewritten(group=group, inputs=inputs, outputs=outputs, deleted=deleted, not_copied=copied)


@dataclass(slots=True)
class _Count:
    rows: int = 0
    tally: Tally = field(default_factory=Tally)


def _read(
    inputs: Sequence[FileTask], options: FileOptions, place: Place, count: _Count, *, dictionaries: bool
) -> Iterator[pa.RecordBatch]:
    place.deletes.sweep(place.store, inputs, place.metadata, place.go_on)
    lineage, read = keeps_lineage(place.metadata), partial(read_task, place.store, metadata=place.metadata)
    target: pa.Schema | None = None
    for task in inputs:
        # Of a dictionary whose rows are deleted all values would stay in memory.
        kept = dictionaries and not task.deletes
        for batch in read(task, cache=place.deletes, tally=count.tally, lineage=lineage, dictionaries=kept):
            place.go_on()
            count.rows += batch.num_rows
            stored = (to_carry(batch, task.entry) if lineage else batch).select(options.arrow.names)
            # The first file decides for all: most are alike, and what is otherwise is made so.
            target = target or with_dictionaries(options.arrow, stored.schema)
            yield conform(stored, target)


def laid_out(
    group: PlannedGroup, rows: Iterator[pa.RecordBatch], options: FileOptions, metadata: TableMetadata
) -> Iterator[pa.RecordBatch]:
    """The rows in the order in which the group's output is to have them.

    Raises:
        Internal: sorting failed.
        Unavailable: there is no room on the disk for sorting.
    """
    if group.strategy is Strategy.BINPACK:
        yield from rows
        return
    order = sort_order(metadata) if group.sort_fields is None else {"fields": group.sort_fields}
    ordering = Ordering(order, metadata.schema())
    by_order = group.strategy is Strategy.SORT
    with Sorter(options.arrow, ordering.keys if by_order else ordering.z_keys) as sorter:
        for batch in rows:
            sorter.add(batch)
        yield from sorter.rows()


def _copying(group: PlannedGroup, place: Place) -> Copying:
    return Copying(
        store=place.store,
        metadata=place.metadata,
        ids=place.ids,
        settings=place.settings,
        next_path=partial(next_path, group.spec_id, group.partition, place, "parquet"),
        go_on=place.go_on,
    )


def next_path(spec_id: int, partition: Partition, place: Place, ending: str) -> str:
    """Where the next file of that partition goes."""
    metadata = place.metadata
    directory = metadata.properties.get("write.data.path") or join(metadata.location, "data")
    inner = partition_path(partition, metadata.spec(spec_id), metadata.schema())
    name = f"{place.name_prefix}{next(place.numbers):05d}.{ending}"
    path = join(directory, *([inner] if inner else []), name)
    place.opened.add(path)
    return path


def _check_tally(group: PlannedGroup, inputs: tuple[FileTask, ...], tally: Tally) -> None:
    """Make sure that no more rows are taken for deleted than the delete files can delete, by their manifests.

    Raises:
        Internal: more are.
    """
    most = most_deleted(inputs)
    if tally.rows != group.records or tally.deleted > most:
        raise Internal(
            f"compaction of {len(group.inputs)} files, first {group.inputs[0].path}: by the manifests {group.records} "
            f"rows of which at most {most} are deleted, read {tally.rows} and {tally.deleted}; nothing of it is "
            "committed and the inputs stay"
        )


def check_rows(
    group: PlannedGroup,
    rows_read: int,
    outputs: tuple[DataFile, ...],
    store: ObjectStore,
    *,
    deleted: int = 0,
) -> None:
    """Make sure that the outputs hold the inputs' rows less deleted ones: in fewer files, free of deletes, or sorted.

    Raises:
        Internal: they do not.
    """
    expected = group.records - deleted
    declared = sum(file.record_count for file in outputs)
    written = sum(_rows_in(store, file.file_path) for file in outputs)
    if not expected == rows_read == declared == written:
        raise Internal(
            f"compaction of {len(group.inputs)} files, first {group.inputs[0].path}: by the manifests {group.records} "
            f"rows, of which {deleted} are deleted, read {rows_read}, written {written}; nothing of it is committed "
            "and the inputs stay"
        )
    gain = group.reason == BinReason.UNSORTED or any(file.delete_files for file in group.inputs)
    if len(outputs) >= len(group.inputs) + gain:
        raise Internal(f"compaction of {len(group.inputs)} files made {len(outputs)}: it would never end")


def _rows_in(store: ObjectStore, path: str) -> int:
    with store.open_input(path) as source:
        return int(pq.ParquetFile(source).metadata.num_rows)
