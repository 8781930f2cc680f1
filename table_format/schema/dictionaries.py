"""Text and bytes kept as dictionaries from one Parquet file to the next, without hashing every value again.

A batch of a table may hold such a column at its top level as `DICTIONARY_OF` says; what the rows are is the same.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from table_format.errors import Invalid
from table_format.schema.arrow import ArrowArray, ArrowType, compute, is_binary, is_string, kinds

TEXT: Final[ArrowType] = pa.dictionary(pa.int32(), pa.string())
BYTES: Final[ArrowType] = pa.dictionary(pa.int32(), pa.binary())
"""As Parquet files are read."""


def is_kept(arrow: ArrowType, wanted: ArrowType) -> bool:
    """Whether a column of that type can stay what it is, where the table wants `wanted`."""
    return bool((arrow == TEXT and is_string(wanted)) or (arrow == BYTES and is_binary(wanted)))


def checked(array: ArrowArray, which: str) -> ArrowArray:
    """The column that is kept, as a file gave it: Arrow looks at no index before it follows it.

    Raises:
        Invalid: a row refers to a value that its dictionary does not have.
    """
    ends = compute.min_max(array.indices)
    lowest, highest = ends["min"].as_py(), ends["max"].as_py()
    if lowest is not None and not 0 <= lowest <= highest < len(array.dictionary):
        raise Invalid(
            f"{which} is damaged: its rows refer to values {lowest} to {highest} of a dictionary that has "
            f"{len(array.dictionary)}"
        )
    return array


def with_dictionaries(schema: pa.Schema, rows: pa.Schema) -> pa.Schema:
    """The schema with dictionaries for those of its columns that are kept as such in a batch of that schema."""
    have: Mapping[str, ArrowType] = {field.name: field.type for field in rows}
    return pa.schema(
        [
            field.with_type(have[field.name]) if is_kept(have.get(field.name), field.type) else field
            for field in schema
        ]
    )


def only_used(table: pa.Table) -> pa.Table:
    """The rows of a table with unified dictionaries; those of columns with nulls hold no value that no row has.

    Arrow counts null as a value when it asks whether all of a dictionary's are used, and takes those that are not into
    a file's least and greatest.
    """
    for at, column in enumerate(table.columns):
        if kinds.is_dictionary(column.type) and column.null_count:
            table = table.set_column(at, table.schema.field(at), _only_used(column))
    return table


def _only_used(column: ArrowArray) -> ArrowArray:
    dictionary = column.chunk(0).dictionary
    used = np.zeros(len(dictionary), np.bool_)
    for chunk in column.chunks:
        used[chunk.indices.drop_null().to_numpy()] = True
    if used.all():
        return column
    place, values = pa.array(np.cumsum(used, dtype=np.int32) - np.int32(1)), dictionary.filter(pa.array(used))
    made: Any = pa.DictionaryArray
    chunks = [made.from_arrays(place.take(chunk.indices), values) for chunk in column.chunks]
    return pa.chunked_array(chunks, column.type)


def row_bytes(batch: pa.RecordBatch) -> int:
    """The Arrow bytes of the rows; of a dictionary no more than so many rows can refer to."""
    return sum(_column_bytes(column) for column in batch.columns)


def _column_bytes(column: ArrowArray) -> int:
    if not kinds.is_dictionary(column.type):
        return int(column.nbytes)
    values = column.dictionary
    share = min(1.0, len(column) / max(len(values), 1))
    return int(column.indices.nbytes + values.nbytes * share)
