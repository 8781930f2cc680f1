"""Which columns of a Parquet file are worth a dictionary, by a sample of the rows that it begins with.

A writer hashes every value of a column with a dictionary, and gives up when that is full; what it wrote until then
makes the file larger. Keys, times and measurements are like that. Only what is clearly so is left out.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from table_format.schema.arrow import ArrowArray, ArrowField, ArrowType, compute, is_list, kinds

_SAMPLE: Final = 8192
_RUN: Final = 256
_MOSTLY: Final = 0.75
"""Share of the rows with different values from which on a dictionary is as long as what it stands for."""


def dictionary_columns(rows: pa.Table, most_bytes: int) -> Sequence[str] | bool:
    """The Parquet paths of columns that get a dictionary, which may take `most_bytes`; True for all."""
    skipped = {
        field.name
        for field, column in zip(rows.schema, rows.columns, strict=True)
        if not _nested(field.type) and not _worth_it(column, most_bytes)
    }
    if not skipped:
        return True
    kept = (field for field in rows.schema if field.name not in skipped)
    return [path for field in kept for path in _paths(field, field.name)]


def _nested(arrow: ArrowType) -> bool:
    return bool(kinds.is_nested(arrow))


def _worth_it(column: ArrowArray, most_bytes: int) -> bool:
    if kinds.is_dictionary(column.type) or isinstance(column.type, pa.BaseExtensionType):
        return True
    rows = len(column)
    sample = column if rows <= _SAMPLE else _sample(column)
    values = len(sample) - sample.null_count
    if not values:
        return True
    different = compute.count_distinct(sample, mode="only_valid").as_py()
    likely = different
    if rows > _SAMPLE:
        # Of n values among D different ones n * n / 2D pairs are equal: birthdays. Too few for a skewed column,
        # which keeps its dictionary.
        likely = min(values / 2 / max(values - different, 1), rows / _SAMPLE) * values
    width = sample.nbytes / len(sample)
    return bool(likely * width <= most_bytes and likely < _MOSTLY * rows * values / len(sample))


def _sample(column: ArrowArray) -> ArrowArray:
    """Runs of rows at equal distances; neighbours that are alike are so for a dictionary's indices too."""
    starts = range(0, len(column) - _RUN + 1, (len(column) - _RUN) // (_SAMPLE // _RUN - 1))
    runs = [chunk for start in starts for chunk in column.slice(start, _RUN).chunks]
    return pa.chunked_array(runs, column.type)


def _paths(field: ArrowField, path: str) -> Iterator[str]:
    """The leaf columns of a field, as Parquet files name them."""
    arrow: ArrowType = field.type
    if kinds.is_struct(arrow):
        for child in arrow:
            yield from _paths(child, f"{path}.{child.name}")
    elif kinds.is_map(arrow):
        yield from _paths(arrow.key_field, f"{path}.key_value.key")
        yield from _paths(arrow.item_field, f"{path}.key_value.value")
    elif is_list(arrow):
        yield from _paths(arrow.value_field, f"{path}.list.element")
    else:
        yield path
