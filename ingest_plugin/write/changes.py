"""Changes on their way into one table: rows that take the place of those of their key, and keys whose rows go.

An equality delete does not reach rows of its own commit, so a commit may hold one row per key at most: what is given
stays in memory until `flush`, which writes only the last change of each key. Every key that occurs is deleted from
older commits, known there or not: nobody has to ask what the table holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from ingest_plugin.tables import key_ids
from ingest_plugin.write.buffer import RowBuffer
from table_format.catalog import LoadedTable
from table_format.errors import Unavailable
from table_format.schema.arrow import ArrowArray, ArrowType, compute, to_arrow
from table_format.write.deletes import EqualityDeleteWriter, key_schema

# Names that no table column has.
_ORDER, _BATCH, _ROW = "\0order", "\0batch", "\0row"
_PLACES = (_ORDER, _BATCH, _ROW)
_GONE = -1


@dataclass(frozen=True)
class _Keyed:
    """A table version with the columns of the key as it has them."""

    table: LoadedTable
    key_ids: tuple[int, ...]

    @cached_property
    def columns(self) -> dict[str, ArrowType]:
        """Arrow types by name."""
        schema = key_schema(self.table.metadata.schema(), self.key_ids)
        return {field.name: field.type for field in to_arrow(schema)}


@dataclass(slots=True, kw_only=True)
class ChangeBuffer:
    """What has been changed in one table and not been written to files yet."""

    out: RowBuffer
    """Takes the files."""
    key: Sequence[str]
    """Names of the key's columns."""
    memory_bytes: int
    """Arrow bytes from which on a commit is asked for."""
    _held: int = 0
    _upserts: list[tuple[LoadedTable, pa.RecordBatch]] = field(default_factory=list)
    _keys: list[pa.Table] = field(default_factory=list)
    _version: _Keyed | None = None

    @property
    def full(self) -> bool:
        """Whether what is held should be committed before more is taken."""
        return self._held >= self.memory_bytes

    @property
    def held(self) -> int:
        """Arrow bytes in memory."""
        return self._held

    def upsert(self, table: LoadedTable, batch: pa.RecordBatch, order: Sequence[int]) -> None:
        """Take rows in the table's Arrow schema, none without its key.

        `order[i]` tells when row i happened: of one key the change with the highest counts; all differ.
        """
        version = self._adopt(table)
        keys = pa.Table.from_batches([batch]).select(list(version.columns))
        self._note(keys, order, len(self._upserts))
        self._upserts.append((table, batch))
        self._held += batch.nbytes

    def delete(self, table: LoadedTable, keys: pa.RecordBatch, order: Sequence[int]) -> None:
        """Take keys whose rows go; columns as the table names them."""
        version = self._adopt(table)
        self._note(pa.Table.from_batches([keys]).select(list(version.columns)), order, _GONE)
        self._held += keys.nbytes

    def _adopt(self, table: LoadedTable) -> _Keyed:
        if self._version is None or self._version.table is not table:
            self._version = _Keyed(table, key_ids(table.metadata.schema(), self.key))
        return self._version

    def _note(self, keys: pa.Table, order: Sequence[int], batch: int) -> None:
        count = keys.num_rows
        places: list[ArrowArray] = [
            pa.array(order, pa.int64()),
            pa.repeat(pa.scalar(batch, pa.int64()), count),
            pa.array(range(count), pa.int64()),
        ]
        columns = [_stored(column.combine_chunks()) for column in keys.columns]
        self._keys.append(pa.table([*columns, *places], names=[*keys.column_names, *_PLACES]))

    def flush(self) -> None:
        """Write what is left of the changes as data and equality delete files.

        Raises:
            Unavailable: the store is away; everything must be discarded.
            Invalid: the table does not take deletes by this key.
        """
        if not self._keys or self._version is None:
            return
        last = self._last_changes(self._version)
        try:
            self._write_deletes(self._version, last)
        except OSError as error:
            raise Unavailable(f"cannot write to {self._version.table.metadata.location}: {error}") from error
        self._write_rows(last)
        self.drop()

    def drop(self) -> None:
        """Forget what has not been written."""
        self._held, self._upserts, self._keys, self._version = 0, [], [], None

    def _last_changes(self, version: _Keyed) -> pa.Table:
        """One line per key: the key in the current types (they may have been widened), and where its row is."""
        names = [*version.columns, *_PLACES]
        types = [*map(_storage_type, version.columns.values()), pa.int64(), pa.int64(), pa.int64()]
        # A renamed column keeps its place: columns are taken in the order of the schema, not by name.
        parts = [
            pa.table([column.cast(kind) for column, kind in zip(part.columns, types, strict=True)], names)
            for part in self._keys
        ]
        whole = pa.concat_tables(parts)
        newest: pa.Table = whole.group_by(list(version.columns)).aggregate([(_ORDER, "max")])
        chosen = compute.is_in(
            whole.column(_ORDER), value_set=newest.column(f"{_ORDER}_max").combine_chunks()
        )
        return whole.filter(chosen)

    def _write_deletes(self, version: _Keyed, last: pa.Table) -> None:
        table = version.table
        writer = EqualityDeleteWriter(
            store=self.out.store(table),
            metadata=table.metadata,
            ids=self.out.ids,
            target_bytes=self.out.target_bytes,
            key_ids=version.key_ids,
        )
        try:
            for batch in last.select(list(version.columns)).to_batches():
                arrays = [
                    _typed(array, kind)
                    for array, kind in zip(batch.columns, version.columns.values(), strict=True)
                ]
                writer.write(pa.RecordBatch.from_arrays(arrays, names=list(version.columns)))
            files = writer.flush()
        except BaseException:
            self.out.add_files([], writer.abort(), table.config)
            raise
        self.out.add_files(files, writer.paths, table.config)

    def _write_rows(self, last: pa.Table) -> None:
        """The rows that are left, in the order in which they came, each for the table version it was bound to."""
        kept = last.filter(compute.not_equal(last.column(_BATCH), _GONE))
        kept = kept.select([_BATCH, _ROW]).sort_by([(_BATCH, "ascending"), (_ROW, "ascending")])
        places: dict[int, list[int]] = {}
        for number, row in zip(*(column.to_pylist() for column in kept.columns), strict=True):
            places.setdefault(number, []).append(row)
        for number, rows in places.items():
            table, batch = self._upserts[number]
            whole = len(rows) == batch.num_rows
            self.out.write(table, batch if whole else batch.take(pa.array(rows, pa.int64())))


def _storage_type(kind: ArrowType) -> ArrowType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _stored(array: ArrowArray) -> ArrowArray:
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def _typed(array: ArrowArray, kind: ArrowType) -> ArrowArray:
    return pa.ExtensionArray.from_storage(kind, array) if isinstance(kind, pa.BaseExtensionType) else array
