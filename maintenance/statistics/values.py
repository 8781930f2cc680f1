"""Columns as the bytes of their values, each in Iceberg's single-value serialization (spec, Appendix D).

What sketches are made of: the bytes must be Java's, or sketches of the two could not be merged. Nulls are left out.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from maintenance.statistics.theta import Spans
from table_format.schema.arrow import ArrowArray, kinds

_DECIMAL_BYTES: Final = 16


def spans(column: ArrowArray) -> Spans:
    """The values of a column in the Arrow type that `schema.arrow` gives a primitive."""
    plain = column.storage if isinstance(column.type, pa.BaseExtensionType) else column
    plain = plain.drop_null()
    if kinds.is_null(plain.type) or not len(plain):
        nowhere = np.empty(0, dtype=np.int64)
        return np.empty(0, dtype=np.uint8), nowhere, nowhere
    if kinds.is_boolean(plain.type):
        plain = plain.cast(pa.uint8())
    if kinds.is_large_string(plain.type) or kinds.is_large_binary(plain.type):
        return _texts(plain)
    rows = _fixed(plain)
    return _decimals(rows) if kinds.is_decimal(plain.type) else _rows(rows)


def _texts(column: ArrowArray) -> Spans:
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64, count=len(column) + 1, offset=8 * column.offset)
    first, last = int(ends[0]), int(ends[-1])
    raw = np.frombuffer(b"" if data is None else data, dtype=np.uint8)[first:last]
    return raw, ends[:-1] - first, np.diff(ends)


def _fixed(column: ArrowArray) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """A row of bytes for each value; Arrow has numbers little-endian, as the specification wants them."""
    width = column.type.bit_width // 8
    raw = np.frombuffer(column.buffers()[1], dtype=np.uint8)
    start = column.offset * width
    return raw[start : start + len(column) * width].reshape(len(column), width)


def _rows(rows: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> Spans:
    count, width = rows.shape
    starts = np.arange(count, dtype=np.int64) * width
    return rows.reshape(-1), starts, np.full(count, width, dtype=np.int64)


def _decimals(rows: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> Spans:
    """Unscaled values in as few bytes as they fit, most significant first."""
    big = np.ascontiguousarray(rows[:, ::-1])
    signs = np.where(big[:, :1] & 0x80, np.uint8(0xFF), np.uint8(0))
    # A leading byte is spare when it only repeats the sign that the next one's first bit has too.
    spare = (big[:, :-1] == signs) & ((big[:, 1:] & 0x80) == (signs & 0x80))
    skipped = np.logical_and.accumulate(spare, axis=1).sum(axis=1)
    starts = np.arange(len(big), dtype=np.int64) * _DECIMAL_BYTES + skipped
    return big.reshape(-1), starts, _DECIMAL_BYTES - skipped
