"""Which rows of some data files have one of very many keys, in memory that follows from neither.

Both sides are put aside on disk in parts by the hash of the key, and each part of the rows meets its part of the keys
in memory. A filter of the rows' hashes, made first, keeps away keys that no row has, which most are: files are
rewritten a few at a time, deletes lie on the whole table.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.scan.equality import KeySet
from table_format.scan.hash_runs import MOST_PARTS, HashRuns
from table_format.scan.key_hash import Hashes, hashes
from table_format.schema.arrow import ArrowArray

Bits: TypeAlias = "npt.NDArray[np.uint8]"
"""A bit a row, the lowest of a byte first."""
Batches: TypeAlias = Callable[[], Iterable[Sequence[ArrowArray]]]

_PART_ROWS: Final = 1 << 19
_FILTER_BITS: Final = (1 << 16, 1 << 28)
_BITS_PER_ROW: Final = 16
_ROW: Final = "row"
_REACH: Final = "reach"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource:
    """The key columns of one data file."""

    name: str
    rows: int
    """How many there are."""
    batches: Batches


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySource:
    """The keys of one delete file."""

    reach: int
    """They delete of the first so many data files."""
    keys: int
    batches: Batches


def set_bits(bits: Bits, places: "npt.NDArray[np.int64]") -> None:
    """Set the bits at these places."""
    np.bitwise_or.at(bits, places >> 3, np.left_shift(np.uint8(1), (places & 7).astype(np.uint8)))


def bits_within(bits: Bits, start: int, end: int) -> "npt.NDArray[np.bool_]":
    """The bits from place `start` to before `end`."""
    first = start >> 3
    found = np.unpackbits(bits[first : (end + 7) >> 3], bitorder="little")
    return found[start - first * 8 : end - first * 8].astype(np.bool_)


def joined(
    fields: list[JsonObject],
    rows: Sequence[RowSource],
    keys: Sequence[KeySource],
    go_on: Callable[[], None],
    *,
    part_rows: int = _PART_ROWS,
) -> list[Bits]:
    """For each data file which of its rows a key deletes. `go_on` is asked between batches, and may raise.

    Raises:
        Invalid: a data file has more rows than it should have.
        Unavailable: there is no room on the disk.
    """
    most = max(sum(source.rows for source in rows), sum(source.keys for source in keys), 1)
    parts = min(MOST_PARTS, 1 << max(0, (most - 1) // part_rows).bit_length())
    with HashRuns(parts) as row_runs, HashRuns(parts) as key_runs:
        known = _Filter(sum(source.rows for source in rows))
        first = 0
        for source in rows:
            _put_rows_aside(source, first, row_runs, known)
            first += source.rows
            go_on()
        row_runs.finish()
        for delete in keys:
            for columns in delete.batches():
                go_on()
                _put_keys_aside(columns, delete.reach, key_runs, known)
        key_runs.finish()
        return _matched(fields, [source.rows for source in rows], row_runs, key_runs, go_on)


class _Filter:
    """Says of a hash that no row has it, or that one may."""

    def __init__(self, rows: int) -> None:
        least, most = _FILTER_BITS
        size = min(most, max(least, 1 << (rows * _BITS_PER_ROW).bit_length()))
        self._mask = np.uint64(size - 1)
        self._bits: Bits = np.zeros(size // 8, dtype=np.uint8)

    def add(self, hashed: Hashes) -> None:
        set_bits(self._bits, (hashed & self._mask).astype(np.int64))

    def may_have(self, hashed: Hashes) -> "npt.NDArray[np.bool_]":
        places = (hashed & self._mask).astype(np.int64)
        found: npt.NDArray[np.bool_] = (self._bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1 != 0
        return found


def _table(columns: Sequence[ArrowArray], name: str, extra: Any) -> pa.Table:
    names = [*(str(place) for place in range(len(columns))), name]
    return pa.table([*columns, extra], names=names)


def _put_rows_aside(source: RowSource, first: int, runs: HashRuns, known: _Filter) -> None:
    done = 0
    for columns in source.batches():
        count = len(columns[0])
        if done + count > source.rows:
            raise Invalid(f"{source.name} has more than the {source.rows} rows that its manifest says")
        hashed = hashes(columns)
        known.add(hashed)
        places = np.arange(first + done, first + done + count, dtype=np.int64)
        runs.add(_table(columns, _ROW, places), hashed)
        done += count


def _put_keys_aside(columns: Sequence[ArrowArray], reach: int, runs: HashRuns, known: _Filter) -> None:
    hashed = hashes(columns)
    found = np.flatnonzero(known.may_have(hashed))
    if len(found):
        table: Any = _table(columns, _REACH, np.full(len(hashed), reach, dtype=np.int32))
        runs.add(table.take(found), hashed[found])


def _matched(
    fields: list[JsonObject],
    counts: Sequence[int],
    row_runs: HashRuns,
    key_runs: HashRuns,
    go_on: Callable[[], None],
) -> list[Bits]:
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    bits = [np.zeros((count + 7) // 8, dtype=np.uint8) for count in counts]
    for part in range(row_runs.parts):
        # One piece of each is the rule; a key that stands in millions of delete files' rows makes more.
        for piece in key_runs.part(part):
            keys, reach = _key_set(fields, piece)
            for rows in row_runs.part(part):
                go_on()
                _mark(rows, keys, reach, starts, bits)
    return bits


def _key_set(fields: list[JsonObject], piece: pa.Table) -> tuple[KeySet, "npt.NDArray[np.int32]"]:
    """The distinct keys of the piece, and how far each reaches at most."""
    table = piece.drop_columns([_REACH])
    keys = KeySet(fields, [table])
    farthest: npt.NDArray[np.int32] = np.zeros(keys.size, dtype=np.int32)
    codes = keys.codes([column.combine_chunks() for column in table.columns])[1]
    np.maximum.at(farthest, codes, piece.column(_REACH).to_numpy())
    return keys, farthest


def _mark(
    rows: pa.Table,
    keys: KeySet,
    farthest: "npt.NDArray[np.int32]",
    starts: "npt.NDArray[np.int64]",
    bits: Sequence[Bits],
) -> None:
    columns = [column.combine_chunks() for column in rows.drop_columns([_ROW]).columns]
    found, codes = keys.codes(columns)
    hit = np.flatnonzero(found)
    places = rows.column(_ROW).to_numpy()[hit]
    file = np.searchsorted(starts, places, side="right") - 1
    deleted = farthest[codes[hit]] > file
    places, file = places[deleted], file[deleted]
    for number in np.unique(file).tolist():
        set_bits(bits[number], places[file == number] - starts[number])
