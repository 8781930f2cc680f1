"""Rows put aside on disk in parts by a hash, to be had back part by part: rows of equal hashes are in one part.

The files have no name, in the system's directory for temporary files (`TMPDIR`): nothing is left of them when the
process ends in whatever way.
"""

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa

from table_format.errors import Unavailable
from table_format.scan.key_hash import Hashes

_HELD_ROWS: Final = 1 << 20
_HELD_BYTES: Final = 16 << 20
MOST_PARTS: Final = 64


class HashRuns:
    """Takes rows with their hashes; gives the rows of one part back. A context manager that removes what it wrote."""

    def __init__(self, parts: int) -> None:
        """Prepare as many parts, a power of two, 64 at most."""
        self.parts = parts
        self._held: list[tuple[pa.Table, Hashes]] = []
        self._rows = self._bytes = 0
        self._files: list[IO[bytes] | None] = [None] * parts
        self._writers: list[Any] = [None] * parts

    def __enter__(self) -> "HashRuns":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held = []
        for file in self._files:
            if file is not None:
                file.close()

    def add(self, rows: pa.Table, hashed: Hashes) -> None:
        """Take rows; all must have the same columns.

        Raises:
            Unavailable: the disk does not take them.
        """
        if not rows.num_rows:
            return
        self._held.append((rows, hashed))
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= _HELD_ROWS or self._bytes >= _HELD_BYTES:
            self._flush()

    def finish(self) -> None:
        """Nothing more is added; from now on parts can be read."""
        self._flush()
        try:
            for writer in self._writers:
                if writer is not None:
                    writer.close()
        except OSError as error:
            raise _no_disk(error) from error
        self._writers = [None] * self.parts

    def part(self, number: int) -> Iterator[pa.Table]:
        """The rows of a part, in pieces of about a million rows or 16 MiB."""
        file = self._files[number]
        if file is None:
            return
        file.seek(0)
        source: Any = file
        held: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in pa.ipc.open_stream(source):
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= _HELD_ROWS or size >= _HELD_BYTES:
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
        if held:
            yield pa.Table.from_batches(held)

    def _flush(self) -> None:
        if not self._held:
            return
        rows: Any = pa.concat_tables([table for table, _ in self._held])
        hashed = np.concatenate([each for _, each in self._held])
        self._held, self._rows, self._bytes = [], 0, 0
        if self.parts == 1:
            self._write(0, rows)
            return
        # The upper bits; the filter of a join looks at the lower ones.
        part = (hashed >> np.uint64(56)).astype(np.uint8) & np.uint8(self.parts - 1)
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=self.parts))
        ordered = rows.combine_chunks().take(order)
        start = 0
        for number, end in enumerate(ends.tolist()):
            if end > start:
                self._write(number, ordered.slice(start, end - start))
            start = end

    def _write(self, number: int, rows: pa.Table) -> None:
        try:
            if self._writers[number] is None:
                file: Any = tempfile.TemporaryFile(prefix="frazil-keys-")  # noqa: SIM115 - closed at exit
                self._files[number] = file
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                self._writers[number] = pa.ipc.new_stream(file, rows.schema, options=options)
            self._writers[number].write_table(rows)
        except OSError as error:
            raise _no_disk(error) from error


def _no_disk(error: OSError) -> Unavailable:
    return Unavailable(
        f"many equality deletes are applied through temporary files in {tempfile.gettempdir()}, which failed: "
        f"{error}; make room there, or set TMPDIR to a directory with more"
    )
