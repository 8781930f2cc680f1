"""The manifest entry of a data file whose row groups were copied: metrics by its footer and its inputs' entries.

Footers of other writers say less than ours: of floating-point columns they give no bounds where there is any NaN, and
never how many. So NaN counts, and such bounds, are those of the inputs' entries together, or are left out.
"""

import math
import struct
from collections.abc import Sequence

import pyarrow.parquet as pq

from table_format.manifest.entries import DataFile
from table_format.metadata.document import TableMetadata
from table_format.write.metrics import Leaf, leaves, metrics

_LAYOUTS = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}


def copied_data_file(
    path: str,
    size: int,
    footer: pq.FileMetaData,
    inputs: Sequence[DataFile],
    metadata: TableMetadata,
) -> DataFile:
    """Describe the file under the inputs' own spec and partition; its columns are those of the current schema.

    Raises:
        Internal: it has other columns.
    """
    columns = leaves(metadata.schema(), metadata.properties)
    filled = [file for file in inputs if file.record_count]
    found = metrics(footer, columns, _nans(columns, filled), own=False)
    lower, upper = dict(found.lower_bounds), dict(found.upper_bounds)
    for leaf in columns:
        bounds = _float_bounds(leaf, filled) if leaf.view.id not in lower else None
        if bounds is not None:
            lower[leaf.view.id], upper[leaf.view.id] = bounds
    return DataFile(
        file_path=path,
        spec_id=inputs[0].spec_id,
        partition=inputs[0].partition,
        record_count=found.record_count,
        file_size_in_bytes=size,
        column_sizes=found.column_sizes,
        value_counts=found.value_counts,
        null_value_counts=found.null_value_counts,
        nan_value_counts=found.nan_value_counts,
        lower_bounds=lower,
        upper_bounds=upper,
        split_offsets=found.split_offsets,
    )


def _nans(columns: Sequence[Leaf], inputs: Sequence[DataFile]) -> dict[int, int]:
    counts = {}
    for leaf in columns:
        told = [(file.nan_value_counts or {}).get(leaf.view.id) for file in inputs]
        if leaf.primitive.name in _LAYOUTS and leaf.mode.counts and None not in told:
            counts[leaf.view.id] = sum(count or 0 for count in told)
    return counts


def _float_bounds(leaf: Leaf, inputs: Sequence[DataFile]) -> tuple[bytes, bytes] | None:
    """The bounds of all inputs together; None when one has values but no bounds."""
    layout = _LAYOUTS.get(leaf.primitive.name)
    if layout is None or not leaf.mode.bounds or leaf.repeated:
        return None
    number = leaf.view.id
    lows, highs = [], []
    for file in inputs:
        low, high = (file.lower_bounds or {}).get(number), (file.upper_bounds or {}).get(number)
        if low is None or high is None:
            if not _without_numbers(file, number):
                return None
        elif len(low) != layout.size or len(high) != layout.size:
            return None  # written when the column was narrower
        else:
            lows.append(layout.unpack(low)[0])
            highs.append(layout.unpack(high)[0])
    if not lows or any(math.isnan(value) for value in (*lows, *highs)):
        return None
    return layout.pack(min(lows) or -0.0), layout.pack(max(highs) or 0.0)


def _without_numbers(file: DataFile, number: int) -> bool:
    values = (file.value_counts or {}).get(number)
    nulls = (file.null_value_counts or {}).get(number)
    nans = (file.nan_value_counts or {}).get(number)
    return None not in (values, nulls, nans) and values == (nulls or 0) + (nans or 0)
