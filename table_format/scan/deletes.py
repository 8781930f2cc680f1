"""Reading a data file with its deletes applied.

Position deletes become a mask by row position; equality deletes an anti-join in which null equals null, on columns
that the current schema may no longer have. A deletion vector takes the place of position deletes.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.errors import Invalid, NoSuchFile, Unsupported
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import Content, DataFile, ManifestEntry
from table_format.metadata.document import TableMetadata
from table_format.scan.equality import KeyColumns, KeySet, key_fields
from table_format.scan.files import open_file, read_name_mapping
from table_format.scan.index import is_vector, referenced_path, sequence_of
from table_format.scan.lineage import LINEAGE_FIELDS, Lineage
from table_format.scan.lines import SnapshotLines
from table_format.scan.plan import FileTask
from table_format.scan.positions import read_positions, referenced_paths
from table_format.scan.read import BATCH_ROWS, Projection, row_count
from table_format.scan.sweep import Ids, Swept, sorted_deletes, sweep
from table_format.scan.vectors import Positions, Vector, read_vector

Mask: TypeAlias = "npt.NDArray[np.bool_]"

CACHE_BYTES = 64 * 1024 * 1024


def with_deletes_that_name_them(store: ObjectStore, files: SnapshotLines) -> SnapshotLines:
    """The files, each with those position delete files that name it, under whatever partition they lie.

    DuckDB's manifests do not say which files a delete file is about, so that one deleted row seems to concern every
    older file of its partition; and it files deletes of data of an old spec under the new one, where by the
    specification they concern nothing, though DuckDB applies them. A delete file that cannot be read stays where it is.
    """
    named: dict[str, frozenset[str] | None] = {}
    shared: dict[str, list[ManifestEntry]] = {}
    for entry in files.delete_entries:
        if _is_shared(entry):
            paths = named[entry.data_file.file_path] = _named_or_unknown(store, entry.data_file)
            for path in paths or ():
                shared.setdefault(path, []).append(entry)
    if not named:
        return files
    deletes = dict(files.deletes)
    for line in files.lines:
        path = line.file_path
        found, applying = shared.get(path, ()), deletes.get(path, ())
        if not (found or applying) or any(is_vector(entry.data_file) for entry in applying):
            continue  # a vector holds all that older position deletes say
        kept = [e for e in applying if not _is_shared(e) or named.get(e.data_file.file_path) is None]
        deletes[path] = (*(e for e in found if sequence_of(e) >= line.sequence_number), *kept)
        if not deletes[path]:
            del deletes[path]
    return replace(files, deletes=deletes)


def _is_shared(entry: ManifestEntry) -> bool:
    """Whether only its content can tell which data files it is about."""
    file = entry.data_file
    return file.content is Content.POSITION_DELETES and referenced_path(file) is None


def _named_or_unknown(store: ObjectStore, file: DataFile) -> frozenset[str] | None:
    try:
        return referenced_paths(store, file)
    except (Invalid, NoSuchFile, Unsupported):
        return None


@dataclass(slots=True)
class DeleteCache:
    """Delete files held in memory while several tasks that share them are read; the least used go first."""

    max_bytes: int = CACHE_BYTES
    _swept: Swept | None = None
    _held: OrderedDict[tuple[object, ...], tuple[Any, int]] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def get(self, key: tuple[object, ...], make: Callable[[], Any], size: Callable[[Any], int]) -> Any:
        """The value of that key, made when it is not held."""
        known = self._held.get(key)
        if known is not None:
            self._held.move_to_end(key)
            return known[0]
        value = make()
        weight = size(value)
        self._held[key] = (value, weight)
        self._bytes += weight
        while self._bytes > self.max_bytes and len(self._held) > 1:
            _, (_, freed) = self._held.popitem(last=False)
            self._bytes -= freed
        return value

    def sweep(
        self,
        store: ObjectStore,
        tasks: Sequence[FileTask],
        metadata: TableMetadata,
        go_on: Callable[[], None],
    ) -> None:
        """Apply the large delete files of tasks that are to be read next, so that each is read once for all of them.

        What earlier tasks had is forgotten. Raises as `sweep.sweep` does.
        """
        self._swept = sweep(store, tasks, metadata, go_on)

    def swept_for(self, store: ObjectStore, task: FileTask, metadata: TableMetadata) -> Swept:
        """What the large delete files of a task take away."""
        known = self._swept
        return known if known is not None and known.has(task) else sweep(store, [task], metadata)


@dataclass(slots=True)
class Tally:
    """What was read of some data files so far."""

    rows: int = 0
    """Rows in the files, deleted or not."""
    deleted: int = 0
    """Rows that deletes took away."""


def read_task(  # noqa: PLR0913 - what is read, and in which form
    store: ObjectStore,
    task: FileTask,
    metadata: TableMetadata,
    *,
    batch_rows: int = BATCH_ROWS,
    cache: DeleteCache | None = None,
    lineage: bool = False,
    tally: Tally | None = None,
    dictionaries: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of a data file that its deletes leave, in file order, in the table's current columns.

    Give tasks that share delete files the same `cache`. With `lineage` the columns of `LINEAGE_FIELDS` follow: what
    a rewrite of a table of format version 3 must carry over. A `tally` is added to with each batch. With
    `dictionaries`, columns may be dictionaries (see `schema.dictionaries`), which may hold more than the rows refer to.

    Raises:
        Invalid: a file cannot be read, or has another number of rows than its manifest says.
        Unsupported: a delete or data file of a format that cannot be read, or an encrypted file.
    """
    data_file = task.entry.data_file
    deletes = _Deletes(store, task, metadata, cache if cache is not None else DeleteCache())
    schema, spec = metadata.schema(), metadata.spec(data_file.spec_id)
    rows_read = 0
    with open_file(store, data_file, read_name_mapping(metadata), dictionaries=dictionaries) as source:
        columns = Projection(source, schema, spec, dictionaries=dictionaries)
        lines = Lineage(task.entry, source.fields) if lineage else None
        keys = [KeyColumns(source, wanted, spec) for wanted in deletes.key_fields()]
        places = {*columns.positions, *(at for key in keys for at in key.positions)}
        positions = sorted(places.union(lines.positions if lines else ()))
        for batch in source.batches(positions, batch_rows):
            rows = row_count(batch)
            keep = deletes.keep(rows_read, rows, keys, batch)
            if tally is not None:
                tally.rows += rows
                tally.deleted += rows - int(np.count_nonzero(keep))
            projected = columns.apply(batch)
            if lines:
                projected = _with_columns(projected, lines.columns(rows_read, rows, batch))
            rows_read += rows
            yield projected if keep.all() else projected.filter(pa.array(keep))
    if rows_read != data_file.record_count:
        raise Invalid(
            f"{data_file.file_path} has {rows_read} rows, its manifest says {data_file.record_count}"
        )


def _with_columns(batch: pa.RecordBatch, lineage: Sequence[Any]) -> pa.RecordBatch:
    schema = pa.schema([*batch.schema, *LINEAGE_FIELDS])
    return pa.RecordBatch.from_arrays([*batch.columns, *lineage], schema=schema)


class _Deletes:
    """All deletes of one task, loaded."""

    def __init__(
        self,
        store: ObjectStore,
        task: FileTask,
        metadata: TableMetadata,
        cache: DeleteCache,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._cache = cache
        self._mapping = read_name_mapping(metadata)
        self._swept = cache.swept_for(store, task, metadata)
        found = sorted_deletes(task)
        self._path = task.entry.data_file.file_path
        vectors = [self._vector(file, self._path) for file in found.vectors]
        self._vector_of_file = vectors[0] if vectors else None
        self._positions = self._load_positions(found.held_positions, self._path)
        self._key_sets = [self._key_set(ids, files) for ids, files in found.held_keys.items()]

    def key_fields(self) -> list[list[JsonObject]]:
        """The columns to compare, a list for each set of equality ids."""
        return [key_set.fields for key_set in self._key_sets]

    def keep(self, start: int, rows: int, keys: Sequence[KeyColumns], batch: Mapping[int, Any] | int) -> Mask:
        """Which rows of the batch that begins at row `start` stay."""
        keep: Mask = np.ones(rows, dtype=np.bool_)
        first, last = np.searchsorted(self._positions, [start, start + rows])
        keep[self._positions[first:last] - start] = False
        if self._vector_of_file is not None:
            keep[self._vector_of_file.within(start, start + rows) - start] = False
        for key_set, columns in zip(self._key_sets, keys, strict=True):
            keep &= ~key_set.matches(columns.of(batch))
        self._swept.clear_of(self._path, keep, start)
        return keep

    def _vector(self, file: DataFile, path: str) -> Vector:
        if file.referenced_data_file != path:
            raise Invalid(
                f"{file.file_path} has a deletion vector of {file.referenced_data_file}, not of {path}"
            )
        return read_vector(self._store, file)

    def _load_positions(self, files: Sequence[DataFile], path: str) -> Positions:
        parts = [self._positions_in(file, path) for file in files]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)

    def _positions_in(self, file: DataFile, path: str) -> Positions:
        def load() -> dict[str, Positions]:
            return read_positions(self._store, file)

        def size(by_path: dict[str, Positions]) -> int:
            return sum(positions.nbytes + len(name) for name, positions in by_path.items())

        by_path = self._cache.get(("positions", file.file_path), load, size)
        found: Positions = by_path.get(path, np.empty(0, dtype=np.int64))
        return found

    def _key_set(self, ids: Ids, files: Sequence[DataFile]) -> KeySet:
        fields = key_fields(self._metadata, ids)

        def load() -> KeySet:
            return KeySet(fields, [self._keys_in(file, fields) for file in files])

        paths = tuple(file.file_path for file in files)
        known: KeySet = self._cache.get(("keys", ids, paths), load, lambda key_set: key_set.nbytes)
        return known

    def _keys_in(self, file: DataFile, fields: list[JsonObject]) -> pa.Table:
        def load() -> pa.Table:
            with open_file(self._store, file, self._mapping) as source:
                columns = KeyColumns(source, fields, None)
                batches = [columns.of(batch) for batch in source.batches(columns.positions, BATCH_ROWS)]
            names = [str(field["id"]) for field in fields]
            empty = pa.table([pa.array([], arrow) for arrow in columns.types], names=names)
            return pa.concat_tables([empty, *(pa.table(arrays, names=names) for arrays in batches)])

        table: pa.Table = self._cache.get(("delete", file.file_path), load, lambda keys: keys.nbytes)
        return table
