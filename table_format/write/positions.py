"""Position delete files written (format version 2): the deleted rows of data files by path and place, in that order.

A file about one data file says so in its entry; the bounds of one about several are whole paths, never cut, so that
readers know whom it can concern. `scan.positions` reads them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.errors import Invalid
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import (
    FILE_PATH_FIELD_ID,
    POSITION_FIELD_ID,
    Content,
    DataFile,
    Partition,
)
from table_format.write.files import DataFileWriter, FileOptions

Positions: TypeAlias = "npt.NDArray[np.int64]"

_SCHEMA: Final[JsonObject] = {
    "type": "struct",
    "fields": [
        {"id": FILE_PATH_FIELD_ID, "name": "file_path", "required": True, "type": "string"},
        {"id": POSITION_FIELD_ID, "name": "pos", "required": True, "type": "long"},
    ],
}
_GROUP_ROWS: Final = 100_000
"""Rows of a row group: its paths are in memory once a row."""


def write_positions(
    store: ObjectStore,
    path: str,
    deleted: Mapping[str, Positions],
    *,
    partition: Partition,
    spec_id: int,
    properties: Mapping[str, str],
) -> DataFile:
    """Write the deleted positions, by data file, as one file of that partition; its entry.

    Positions come in any order and may be given twice.

    Raises:
        Invalid: there are none, or one is negative.
        Unavailable: the store did not take the file.
    """
    ordered = {name: np.unique(deleted[name]) for name in sorted(deleted) if len(deleted[name])}
    if not ordered or any(positions[0] < 0 for positions in ordered.values()):
        raise Invalid(f"{path} would delete no row, or rows before a file's first")
    parquet = {key: value for key, value in properties.items() if key.startswith("write.parquet.")}
    options = FileOptions.of(_SCHEMA, {**parquet, "write.metadata.metrics.default": "full"})
    writer = DataFileWriter(store, path, options)
    finished = False
    try:
        for table in _row_groups(ordered, options.arrow):
            writer.write_group(table)
        file = writer.finish(partition, spec_id)
        finished = True
    finally:
        if not finished:
            writer.abort()
    only = next(iter(ordered)) if len(ordered) == 1 else None
    return replace(file, content=Content.POSITION_DELETES, referenced_data_file=only)


def _row_groups(ordered: Mapping[str, Positions], arrow: pa.Schema) -> Iterator[pa.Table]:
    paths: list[Any] = []
    places: list[Positions] = []
    rows = 0
    for path, positions in ordered.items():
        for start in range(0, len(positions), _GROUP_ROWS):
            piece = positions[start : start + _GROUP_ROWS]
            if rows and rows + len(piece) > _GROUP_ROWS:
                yield _table(paths, places, arrow)
                paths, places, rows = [], [], 0
            paths.append(pa.repeat(pa.scalar(path, arrow.field(0).type), len(piece)))
            places.append(piece)
            rows += len(piece)
    yield _table(paths, places, arrow)


def _table(paths: list[Any], places: list[Positions], arrow: pa.Schema) -> pa.Table:
    columns: list[Any] = [pa.concat_arrays(paths), pa.array(np.concatenate(places), pa.int64())]
    return pa.Table.from_arrays(columns, schema=arrow)
