"""Files of position deletes: which data files they name, and which rows of those."""

from collections.abc import Iterator, Set
from typing import Any, Final

import numpy as np

from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import FILE_PATH_FIELD_ID, POSITION_FIELD_ID, DataFile
from table_format.scan.read import read_file
from table_format.scan.vectors import Positions
from table_format.schema.arrow import compute

_SCHEMA: Final[JsonObject] = {
    "type": "struct",
    "fields": [
        {"id": FILE_PATH_FIELD_ID, "name": "file_path", "required": True, "type": "string"},
        {"id": POSITION_FIELD_ID, "name": "pos", "required": True, "type": "long"},
    ],
}
_PATH_SCHEMA: Final[JsonObject] = {"type": "struct", "fields": _SCHEMA["fields"][:1]}
_NAMES: Final[list[JsonObject]] = [
    {"field-id": FILE_PATH_FIELD_ID, "names": ["file_path"]},
    {"field-id": POSITION_FIELD_ID, "names": ["pos"]},
]


def referenced_paths(store: ObjectStore, delete_file: DataFile) -> frozenset[str]:
    """The data files that a Parquet position delete file names.

    Raises:
        Invalid: the file cannot be read.
        Unsupported: it is not Parquet.
    """
    paths: set[str] = set()
    for batch in read_file(store, delete_file, _PATH_SCHEMA, name_mapping=_NAMES):
        paths.update(compute.unique(batch.column(0)).to_pylist())
    return frozenset(paths)


def position_batches(
    store: ObjectStore, file: DataFile, wanted: Set[str] | None = None
) -> Iterator[tuple[str, Positions]]:
    """The positions in a delete file, some at a time, with the data file's path; of `wanted` data files alone.

    Raises:
        Invalid: the file cannot be read.
        Unsupported: it is of a format that cannot be read.
    """
    for batch in read_file(store, file, _SCHEMA, name_mapping=_NAMES):
        encoded: Any = batch.column(0).dictionary_encode()
        codes = encoded.indices.to_numpy()
        positions = batch.column(1).to_numpy()
        for code, path in enumerate(encoded.dictionary.to_pylist()):
            if wanted is None or path in wanted:
                yield path, positions[codes == code]


def read_positions(store: ObjectStore, file: DataFile) -> dict[str, Positions]:
    """The positions in a delete file, by data file, each once and ascending."""
    parts: dict[str, list[Positions]] = {}
    for path, positions in position_batches(store, file):
        parts.setdefault(path, []).append(positions)
    return {path: np.unique(np.concatenate(found)) for path, found in parts.items()}
