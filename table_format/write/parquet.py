"""Rows into data files: `RollingWriter` for one partition, `TableWriter` for a whole table.

Files appear only when finished, and are returned only by `close` and `flush`. After any error the writer is of no
more use than `abort`: nothing half-written is ever returned. Nothing is deleted here; `paths` says what was begun.
"""

import re
import struct
from collections.abc import Callable

import pyarrow as pa

from table_format.clock import Ids
from table_format.errors import Internal, Invalid
from table_format.ident import join
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, Partition
from table_format.metadata.document import TableMetadata
from table_format.schema.conform import conform
from table_format.schema.dictionaries import only_used, row_bytes, with_dictionaries
from table_format.write.files import MEBIBYTE, DataFileWriter, FileOptions
from table_format.write.partition import Partitioner, partition_path

ROW_GROUP_MEMORY = 64 * MEBIBYTE
"""Arrow bytes of a row group that are gathered before it is encoded."""
TOTAL_MEMORY = 128 * MEBIBYTE
"""Arrow bytes that all partitions together may gather."""
OPEN_FILE_MEMORY = MEBIBYTE // 4
"""What an open file takes: about 0.1 MiB for twelve columns, measured, and the store's buffer."""
OPEN_FILES = 256
"""Files that may be open at once, below the common limit of a process."""
_SMALL_BATCHES = 64
_LARGE_BATCH = MEBIBYTE
_ENOUGH = 0.95
"""Share of its target at which a file or row group is full: what still fits could only be a sliver."""
_SLIVER = 64 * 1024
_PREFIX = re.compile(r"[A-Za-z0-9._-]*")


class RollingWriter:
    """Writes rows of one spec and partition into files of about `target_bytes`."""

    def __init__(
        self,
        *,
        store: ObjectStore,
        options: FileOptions,
        partition: Partition,
        spec_id: int,
        target_bytes: int,
        next_path: Callable[[], str],
    ) -> None:
        self._store = store
        self._options = options
        self._partition = partition
        self._spec_id = spec_id
        self._target = target_bytes
        self._next_path = next_path
        self._batches: list[pa.RecordBatch] = []
        self._fresh = 0
        self._file: DataFileWriter | None = None
        self._done: list[DataFile] = []
        self._ratio = 1.0
        self._ended = False
        self.buffered = 0

    @property
    def open(self) -> bool:
        """Whether a file is open."""
        return self._file is not None

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows, in the table's Arrow schema (see `conform`), or all in the same one with some dictionaries in it.

        Raises:
            Unavailable: the store did not take a file; the writer is of no more use.
        """
        self._check_usable()
        with _AbortOnError(self):
            start = 0
            while start < batch.num_rows:
                piece = self._fitting(batch.slice(start))
                start += piece.num_rows
                self._batches.append(piece)
                self.buffered += row_bytes(piece)
                self._merge_small()
                if self.buffered >= self._budget() * _ENOUGH:
                    self._write_group()

    def write_group(self) -> None:
        """Write out what is gathered in memory."""
        self._check_usable()
        with _AbortOnError(self):
            self._write_group()

    def roll(self) -> None:
        """Finish the current file; later rows go to a new one."""
        self._check_usable()
        with _AbortOnError(self):
            self._write_group()
            self._finish_file()

    def close(self) -> list[DataFile]:
        """Finish, and give all files written.

        Raises:
            Unavailable: the store did not take a file; none is given.
        """
        self.roll()
        self._ended = True
        return self._done

    def abort(self) -> None:
        """Discard the file in the making and what is gathered; finished files stay in the store, unused."""
        self._ended = True
        self._batches, self.buffered = [], 0
        if self._file is not None:
            self._file.abort()
            self._file = None

    def _check_usable(self) -> None:
        if self._ended:
            raise Internal("this writer has ended; begin a new one")

    def _budget(self) -> float:
        """Arrow bytes for the next row group, so that the file ends near its target."""
        written = 0 if self._file is None else self._file.size
        wanted = min(self._target - written, self._options.row_group_bytes) * self._ratio
        return min(max(wanted, _SLIVER), ROW_GROUP_MEMORY)

    def _fitting(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        room = self._budget() - self.buffered
        size = row_bytes(rows)
        if size <= room:
            return rows
        return rows.slice(0, max(1, int(rows.num_rows * room / size)))

    def _merge_small(self) -> None:
        # A batch of a few rows costs far more memory than its rows, and may keep a larger one alive.
        self._fresh += 1
        if row_bytes(self._batches[-1]) >= _LARGE_BATCH:
            self._fresh = 0
        elif self._fresh >= _SMALL_BATCHES:
            small = pa.Table.from_batches(self._batches[-self._fresh :]).combine_chunks()
            self._batches[-self._fresh :] = small.to_batches()
            self._fresh = 0

    def _write_group(self) -> None:
        if not self._batches:
            return
        schema = with_dictionaries(self._options.arrow, self._batches[0].schema)
        table = only_used(pa.Table.from_batches(self._batches, schema).unify_dictionaries())
        if self._file is None:
            self._file = DataFileWriter(self._store, self._next_path(), self._options.suited_to(table))
        before = self._file.size
        self._file.write_group(table)
        encoded = max(self._file.size - before, 1)
        self._ratio = max(self.buffered / encoded, 0.5)
        self._batches, self._fresh, self.buffered = [], 0, 0
        if self._file.size >= self._target * _ENOUGH:
            self._finish_file()

    def _finish_file(self) -> None:
        if self._file is not None:
            self._done.append(self._file.finish(self._partition, self._spec_id))
            self._file = None


class _AbortOnError:
    """Aborts the writer when the block fails, whatever the reason."""

    def __init__(self, writer: RollingWriter) -> None:
        self._writer = writer

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._writer.abort()


class TableWriter:
    """Writes rows of a table into data files, each row to its partition."""

    def __init__(
        self,
        *,
        store: ObjectStore,
        metadata: TableMetadata,
        ids: Ids,
        target_bytes: int,
        spec_id: int | None = None,
        schema: JsonObject | None = None,
        name_prefix: str = "",
    ) -> None:
        """Prepare; nothing is opened before there are rows for it.

        Raises:
            Invalid: the spec does not fit the schema, or a table property or argument has no sensible value.
            Unsupported: a transform or column type that is not written.
        """
        if target_bytes <= 0:
            raise Invalid(f"the target size of data files is {target_bytes}; it must be positive")
        if not _PREFIX.fullmatch(name_prefix):
            raise Invalid(f"data file prefix {name_prefix!r} may only hold letters, digits, '.', '_' and '-'")
        self.paths: list[str] = []
        self._store = store
        self._target = target_bytes
        self._schema = metadata.schema() if schema is None else schema
        self._spec = metadata.spec(spec_id)
        self._options = FileOptions.of(self._schema, metadata.properties)
        self._partitioner = Partitioner(self._spec, self._schema)
        own = metadata.properties.get("write.data.path")
        self._directory = own or join(metadata.location, "data")
        self._stem = f"{name_prefix}{ids.uuid()}"
        self._writers: dict[tuple[object, ...], RollingWriter] = {}
        self._failed = False

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema in which rows are written; batches that have it already are not cast."""
        return self._options.arrow

    @property
    def held(self) -> int:
        """Bytes of memory, about: what all partitions gather, and what their open files take."""
        return sum(writer.buffered + OPEN_FILE_MEMORY * writer.open for writer in self._writers.values())

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows; columns are matched by field id or name.

        A batch that is refused as Invalid is refused whole, and the writer stays usable.

        Raises:
            Invalid: a required value is missing, a column is unknown, a value does not fit.
            Unavailable: the store did not take a file; abort and begin again.
        """
        self._check_usable()
        parts = self._partitioner.split(conform(batch, self._options.arrow))
        try:
            for partition, rows in parts:
                self._writer(partition).write(rows)
                self._relieve()
        except BaseException:
            self._failed = True
            raise

    def flush(self) -> list[DataFile]:
        """Finish all files and give them; the writer is empty and usable after that.

        Raises:
            Unavailable: the store did not take a file; none is given: abort and begin again.
        """
        self._check_usable()
        files: list[DataFile] = []
        try:
            for writer in self._writers.values():
                files.extend(writer.close())
        except BaseException:
            self._failed = True
            raise
        self._writers = {}
        return files

    def abort(self) -> list[str]:
        """Discard what is not finished, and give every path that was begun (some may exist: the caller decides)."""
        self._failed = True
        writers, self._writers = self._writers, {}
        for writer in writers.values():
            writer.abort()
        return self.paths

    def _check_usable(self) -> None:
        if self._failed:
            raise Internal("an earlier write failed: abort this writer and begin a new one")

    def _writer(self, partition: Partition) -> RollingWriter:
        key = tuple(struct.pack("<d", value) if isinstance(value, float) else value for value in partition)
        writer = self._writers.get(key)
        if writer is None:
            directory = partition_path(partition, self._spec, self._schema)
            writer = self._writers[key] = RollingWriter(
                store=self._store,
                options=self._options,
                partition=partition,
                spec_id=self._spec["spec-id"],
                target_bytes=self._target,
                next_path=lambda: self._new_path(directory),
            )
        return writer

    def _new_path(self, directory: str) -> str:
        name = f"{self._stem}-{len(self.paths):05d}.parquet"
        path = join(self._directory, directory, name) if directory else join(self._directory, name)
        self.paths.append(path)
        return path

    def _relieve(self) -> None:
        """Write out the fullest partitions while all together hold too much."""
        writers = self._writers.values()
        while sum(writer.buffered for writer in writers) > TOTAL_MEMORY:
            fullest = max(writers, key=lambda writer: writer.buffered)
            fullest.write_group()
            if sum(writer.open for writer in writers) > OPEN_FILES:
                fullest.roll()
