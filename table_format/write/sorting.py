"""Sorting any number of rows by a key in bounded memory: in memory while they fit, else sorted runs on disk, merged.

Runs are files without a name in the system's directory for temporary files (`TMPDIR`), so that nothing is left of them
when the process ends in whatever way. Rows of equal keys come in no particular order. What comes out is checked to be
in order.
"""

import bisect
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Final, TypeAlias

import pyarrow as pa

from table_format.errors import Internal, Unavailable
from table_format.schema.arrow import ArrowArray, compute

MEMORY: Final = 64 * 1024 * 1024
"""Arrow bytes of rows and keys that are held before they are sorted and spilled; sorting takes three times that."""
_FAN_IN: Final = 16
"""Runs of one level that become one of the next, so that few files are open and few blocks in memory."""
_BLOCKS_IN_MEMORY: Final = 64
_KEY: Final = "sort key"

KeyOf: TypeAlias = Callable[[pa.RecordBatch], ArrowArray]
"""Gives a key (large_binary, never null) per row."""


class Sorter:
    """Takes rows, gives them back in the order of their keys; a context manager that removes what it spilled."""

    def __init__(self, schema: pa.Schema, key_of: KeyOf, memory: int = MEMORY) -> None:
        self._schema = schema
        self._keyed = schema.append(pa.field(_KEY, pa.large_binary(), nullable=False))
        self._key_of = key_of
        self._memory = memory
        self._block = max(memory // _BLOCKS_IN_MEMORY, 1)
        self._batches: list[pa.RecordBatch] = []
        self._held = 0
        self._levels: list[list[IO[bytes]]] = []
        self.spilled_runs = 0

    def __enter__(self) -> "Sorter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for level in self._levels:
            for run in level:
                run.close()
        self._levels = []
        self._batches = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows, in the sorter's schema.

        Raises:
            Unavailable: the disk does not take a run.
        """
        if not batch.num_rows:
            return
        keyed = pa.RecordBatch.from_arrays([*batch.columns, self._key_of(batch)], schema=self._keyed)
        self._batches.append(keyed)
        self._held += keyed.nbytes
        if self._held >= self._memory:
            self._spill()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All rows in order; to be called once.

        Raises:
            Internal: they are not in order.
            Unavailable: the disk does not take a run.
        """
        if self.spilled_runs and self._batches:
            self._spill()
        if self.spilled_runs:
            tables = _merged([run for level in reversed(self._levels) for run in level])
        else:
            tables = iter([self._in_order()] if self._batches else [])
        last: bytes | None = None
        for table in tables:
            for batch in table.to_batches():
                last = _check_order(batch.column(batch.num_columns - 1), last)
                yield pa.RecordBatch.from_arrays(batch.columns[:-1], schema=self._schema)

    def _in_order(self) -> pa.Table:
        table = pa.Table.from_batches(self._batches, self._keyed)
        self._batches, self._held = [], 0
        return _in_key_order(table)

    def _spill(self) -> None:
        self._push(0, _spilled(self._keyed, iter([self._in_order()]), self._block))
        self.spilled_runs += 1

    def _push(self, level: int, run: IO[bytes]) -> None:
        if len(self._levels) == level:
            self._levels.append([])
        runs = self._levels[level]
        runs.append(run)
        if len(runs) < _FAN_IN:
            return
        merged = _spilled(self._keyed, _merged(runs), self._block)
        for done in runs:
            done.close()
        runs.clear()
        self._push(level + 1, merged)


def _check_order(keys: ArrowArray, last: bytes | None) -> bytes | None:
    """The last key, after a look that each is not before the one before it."""
    if not len(keys):
        return last
    falls = len(keys) > 1 and not compute.all(compute.less_equal(keys[:-1], keys[1:])).as_py()
    if falls or (last is not None and keys[0].as_py() < last):
        raise Internal("rows came out of sorting in the wrong order; nothing of it may be committed")
    ending: bytes = keys[-1].as_py()
    return ending


def _keys(table: pa.Table) -> Any:
    return table.column(table.num_columns - 1)


def _in_key_order(table: pa.Table) -> pa.Table:
    return table.combine_chunks().take(compute.sort_indices(_keys(table)))


def _spilled(schema: pa.Schema, tables: Iterator[pa.Table], block: int) -> IO[bytes]:
    """A run: the tables' rows in blocks of about `block` bytes.

    Raises:
        Unavailable: the disk does not take it.
    """
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    try:
        run = tempfile.TemporaryFile(prefix="frazil-sort-")  # noqa: SIM115 - lives as long as the run
    except OSError as error:
        raise _no_disk(error) from error
    try:
        with pa.ipc.new_stream(run, schema, options=options) as writer:
            for table in tables:
                rows = max(1, table.num_rows * block // max(table.nbytes, 1))
                writer.write_table(table, max_chunksize=rows)
        run.flush()
    except BaseException as error:
        run.close()
        if isinstance(error, OSError):
            raise _no_disk(error) from error
        raise
    return run


def _no_disk(error: OSError) -> Unavailable:
    return Unavailable(
        f"sorting writes temporary files to {tempfile.gettempdir()}, which failed: {error}; "
        "make room there, or set TMPDIR to a directory with more"
    )


@dataclass(slots=True)
class _Head:
    """What is loaded of a run, and where the rest comes from."""

    blocks: Iterator[pa.RecordBatch]
    loaded: pa.Table
    more: bool = True

    def load(self) -> bool:
        """Have rows loaded; False when the run has ended."""
        while self.more and not self.loaded.num_rows:
            block = next(self.blocks, None)
            self.more = block is not None
            if block is not None:
                self.loaded = pa.Table.from_batches([block])
        return self.loaded.num_rows > 0

    def last_key(self) -> bytes:
        key: bytes = _keys(self.loaded)[-1].as_py()
        return key

    def take(self, bound: bytes) -> pa.Table:
        """The loaded rows whose keys are not above the bound."""
        keys = _keys(self.loaded)
        end = bisect.bisect_right(range(len(keys)), bound, key=lambda row: keys[row].as_py())
        taken, self.loaded = self.loaded.slice(0, end), self.loaded.slice(end)
        return taken


def _merged(runs: Sequence[IO[bytes]]) -> Iterator[pa.Table]:
    """The rows of sorted runs in order. Of each run about a block is in memory.

    The least of the last loaded keys bounds what is certain: whatever is not loaded yet is not below it.
    """
    heads = []
    for run in runs:
        run.seek(0)
        source: Any = run
        blocks = pa.ipc.open_stream(source)
        heads.append(_Head(iter(blocks), blocks.schema.empty_table()))
    while heads := [head for head in heads if head.load()]:
        bound = min(head.last_key() for head in heads)
        yield _in_key_order(pa.concat_tables([head.take(bound) for head in heads]))
