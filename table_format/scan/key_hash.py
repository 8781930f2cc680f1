"""Hashes of the key columns of equality deletes: what one holds of keys too many to hold, 64 bits a row.

Equal keys have equal hashes, whichever file they stand in; other keys may have them too, so that a hash only ever
says where to look, or that there is nothing to find. Null is a value like others, all NaNs are one, and so are the
two zeros (which as keys differ).
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.errors import Internal
from table_format.schema.arrow import ArrowArray, compute, kinds

Hashes: TypeAlias = "npt.NDArray[np.uint64]"

_NULL: Final = np.uint64(0x9E3779B97F4A7C15)
_STEP: Final = np.uint64(0xD6E8FEB86659FD93)
_BASE: Final = 0x9FB21C651E98DF25
"""Odd, so that it has an inverse modulo 2**64."""
_LOOKED_AT: Final = 256
"""Bytes at each end of a long text that are looked at."""
_POWERS: Final = 1 << 18


def hashes(columns: Sequence[ArrowArray]) -> Hashes:
    """A hash per row of these columns (at least one), all of the same length.

    Raises:
        Internal: a column is of a type that no key has.
    """
    mixed: Hashes = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        mixed = _mix(mixed * _STEP + _of_column(column))
    return mixed


def _mix(values: Hashes) -> Hashes:
    """Spread what differs over all bits."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _of_column(column: ArrowArray) -> Hashes:
    kind = column.type
    if kinds.is_null(kind):
        return np.full(len(column), _NULL)
    if kinds.is_boolean(kind):
        column = column.cast(pa.uint8())
    if kinds.is_large_string(kind) or kinds.is_large_binary(kind):
        found = _of_texts(column)
    elif kinds.is_floating(kind):
        found = _of_words(_canonical(column))
    else:
        found = _of_words(_fixed(column))
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        found = np.where(valid, found, _NULL)
    return found


def _fixed(column: ArrowArray) -> npt.NDArray[np.uint8]:
    """The bytes of values of a fixed width, a row each."""
    kind: Any = column.type
    try:
        width = kind.bit_width // 8
    except ValueError:
        raise Internal(f"keys of type {kind} are not hashed") from None
    data = column.buffers()[1]
    if data is None or not width:
        return np.zeros((len(column), max(width, 1)), dtype=np.uint8)
    raw = np.frombuffer(data, dtype=np.uint8)
    start = column.offset * width
    return raw[start : start + len(column) * width].reshape(len(column), width)


def _canonical(column: ArrowArray) -> npt.NDArray[np.uint8]:
    raw = np.ascontiguousarray(_fixed(column))
    values = raw.view({4: np.float32, 8: np.float64}[raw.shape[1]])[:, 0]
    # Adding a positive zero makes the negative one positive.
    canonical = np.where(
        np.isnan(values), np.array(np.nan, dtype=values.dtype), values + values.dtype.type(0)
    )
    return canonical.view(np.uint8).reshape(raw.shape)


def _of_words(rows: npt.NDArray[np.uint8]) -> Hashes:
    count, width = rows.shape
    if width in (1, 4, 8):
        return (
            np.ascontiguousarray(rows)
            .view({1: np.uint8, 4: np.uint32, 8: np.uint64}[width])[:, 0]
            .astype(np.uint64)
        )
    padded = np.zeros((count, -(-width // 8) * 8), dtype=np.uint8)
    padded[:, :width] = rows
    found: Hashes = np.zeros(count, dtype=np.uint64)
    for word in padded.view(np.uint64).T:
        found = _mix(found * _STEP + word)
    return found


def _of_texts(column: ArrowArray) -> Hashes:
    binary = column.cast(pa.large_binary())
    lengths = compute.fill_null(compute.binary_length(binary), 0).to_numpy(zero_copy_only=False)
    found: Hashes = lengths.astype(np.uint64) * _STEP
    if len(lengths) and int(lengths.max()) > _LOOKED_AT:
        ends = compute.binary_slice(binary, -_LOOKED_AT, np.iinfo(np.int64).max)
        found += np.where(lengths > _LOOKED_AT, _polynomials(ends), np.uint64(0)) * _NULL
        binary = compute.binary_slice(binary, 0, _LOOKED_AT)
    found += _polynomials(binary)
    return found


@cache
def _powers() -> tuple[Hashes, Hashes]:
    """Powers of the base and of its inverse, modulo 2**64."""
    inverse = pow(_BASE, -1, 1 << 64)
    both = []
    for base in (_BASE, inverse):
        factors = np.full(_POWERS, base & ((1 << 64) - 1), dtype=np.uint64)
        factors[0] = 1
        both.append(np.multiply.accumulate(factors))
    return both[0], both[1]


def _polynomials(binary: ArrowArray) -> Hashes:
    """Each text as the polynomial of its bytes, by differences of running sums."""
    offsets = np.frombuffer(binary.buffers()[1], dtype=np.int64)[
        binary.offset : binary.offset + len(binary) + 1
    ]
    data = binary.buffers()[2]
    raw = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
    ups, downs = _powers()
    found: Hashes = np.zeros(len(binary), dtype=np.uint64)
    row = 0
    while row < len(binary):
        begin = int(offsets[row])
        last = int(np.searchsorted(offsets, begin + _POWERS - 1, side="right")) - 1
        last = max(min(last, len(binary)), row + 1)
        part = raw[begin : int(offsets[last])]
        sums = np.zeros(len(part) + 1, dtype=np.uint64)
        # A zero byte must not be as none.
        np.cumsum((part.astype(np.uint64) + np.uint64(1)) * ups[: len(part)], out=sums[1:])
        at = offsets[row : last + 1] - begin
        found[row:last] = (sums[at[1:]] - sums[at[:-1]]) * downs[at[:-1]]
        row = last
    return found
