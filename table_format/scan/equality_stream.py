"""Equality deletes with more keys than memory should hold: the keys pass by the rows, not the rows by the keys.

The key columns of a bounded number of rows of the data file are held, all delete files are read past them once, and
so on with the next rows. Memory follows from the rows held, whatever the number of keys.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from table_format.jsontypes import JsonObject
from table_format.scan.equality import KeySet, Matches
from table_format.schema.arrow import ArrowArray

MOST_KEYS_HELD: Final = 2_000_000
"""Keys of one set of columns; more of them are streamed."""
_CHUNK_ROWS: Final = 1_000_000
_CHUNK_BYTES: Final = 32 << 20


def streamed_matches(
    fields: list[JsonObject],
    rows: Iterable[Sequence[ArrowArray]],
    keys: Callable[[], Iterable[Sequence[ArrowArray]]],
    *,
    chunk_rows: int = _CHUNK_ROWS,
    chunk_bytes: int = _CHUNK_BYTES,
) -> Iterator[Matches]:
    """Which rows have one of the keys, in the order of the rows, some at a time.

    `rows` are the key columns of a data file in batches; `keys` reads those of the delete files anew at each call.
    """
    held: list[pa.Table] = []
    names = [str(field["id"]) for field in fields]
    for batch in rows:
        held.append(pa.table(list(batch), names=names))
        large = sum(table.nbytes for table in held) >= chunk_bytes
        if large or sum(table.num_rows for table in held) >= chunk_rows:
            yield _matches(fields, held, keys())
            held = []
    if held:
        yield _matches(fields, held, keys())


def _matches(fields: list[JsonObject], held: list[pa.Table], keys: Iterable[Sequence[ArrowArray]]) -> Matches:
    ours = KeySet(fields, held)
    hit = np.zeros(ours.size, dtype=np.bool_)
    for batch in keys:
        found, codes = ours.codes(batch)
        hit[codes[found]] = True
    parts = []
    for table in held:
        columns = [column.combine_chunks() for column in table.columns]
        parts.append(hit[ours.codes(columns)[1]])
    return np.concatenate(parts)
