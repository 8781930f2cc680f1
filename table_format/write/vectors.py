"""Deletion vectors written: one Puffin file with a vector for each of some data files (format version 3).

A blob (Puffin spec, "deletion-vector-v1") is its length, a magic, a 64-bit Roaring bitmap in the portable form and a
CRC. `scan.vectors` reads them.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from table_format.errors import Invalid
from table_format.io.store import ObjectStore
from table_format.manifest.entries import Content, DataFile
from table_format.write.puffin import MAGIC, footer

Positions: TypeAlias = "npt.NDArray[np.int64]"

_VECTOR_MAGIC: Final = b"\xd1\xd3\x39\x64"
_COOKIE: Final = 12346
"""A 32-bit bitmap without runs."""
_LARGEST_ARRAY: Final = 4096
_CONTAINER: Final = 1 << 16
_ROW_POSITION_FIELD_ID: Final = 2147483645
_MOST: Final = 2**63 - 2**32


def write_vectors(
    store: ObjectStore, path: str, deleted: Sequence[tuple[DataFile, Positions]], *, created_by: str
) -> list[DataFile]:
    """Write the deleted positions of each data file as its vector; their entries, in that order.

    Positions come in any order and may be given twice.

    Raises:
        AlreadyExists: there is a file of that name.
        Invalid: a data file has no deleted row, or one before its first.
        Unavailable: the store did not take the file.
    """
    content = bytearray(MAGIC)
    blobs: list[Mapping[str, Any]] = []
    entries: list[dict[str, Any]] = []
    for file, positions in deleted:
        unique = np.unique(positions)
        if not len(unique) or unique[0] < 0 or unique[-1] >= _MOST:
            raise Invalid(f"{file.file_path} cannot have a vector of {len(unique)} such positions")
        blob = vector_blob(unique)
        entries.append(
            {
                "content_offset": len(content),
                "content_size_in_bytes": len(blob),
                "record_count": len(unique),
                "referenced_data_file": file.file_path,
                "spec_id": file.spec_id,
                "partition": file.partition,
            }
        )
        blobs.append(_described(file.file_path, len(unique), len(content), len(blob)))
        content += blob
    content += footer(blobs, created_by)
    store.put(path, bytes(content), if_absent=True)
    return [
        DataFile(
            content=Content.POSITION_DELETES,
            file_path=path,
            file_format="PUFFIN",
            file_size_in_bytes=len(content),
            **entry,
        )
        for entry in entries
    ]


def _described(path: str, cardinality: int, offset: int, length: int) -> Mapping[str, Any]:
    return {
        "type": "deletion-vector-v1",
        "fields": [_ROW_POSITION_FIELD_ID],
        # Not known before the commit: the specification wants -1.
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": offset,
        "length": length,
        "properties": {"referenced-data-file": path, "cardinality": str(cardinality)},
    }


def vector_blob(positions: Positions) -> bytes:
    """The blob of positions that ascend, none negative."""
    body = _VECTOR_MAGIC + _bitmap64(positions)
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def _bitmap64(positions: Positions) -> bytes:
    parts = _by_key(positions >> 32, positions & 0xFFFFFFFF)
    found = bytearray(len(parts).to_bytes(8, "little"))
    for key, low in parts:
        found += key.to_bytes(4, "little") + _bitmap32(low)
    return bytes(found)


def _bitmap32(positions: Positions) -> bytes:
    """Cookie, number of containers, then of each its key and size, its place, its content."""
    parts = _by_key(positions >> 16, positions & 0xFFFF)
    contents = [_container(low) for _, low in parts]
    described = np.array([(key, len(low) - 1) for key, low in parts], dtype="<u2").tobytes()
    start = 8 + len(described) + 4 * len(parts)
    sizes = np.array([0, *(len(content) for content in contents[:-1])], dtype=np.int64)
    places = (start + np.cumsum(sizes)).astype("<u4").tobytes()
    head = np.array([_COOKIE, len(parts)], dtype="<u4").tobytes()
    return b"".join([head, described, places, *contents])


def _container(low: Positions) -> bytes:
    if len(low) <= _LARGEST_ARRAY:
        return low.astype("<u2").tobytes()
    bits = np.zeros(_CONTAINER, dtype=np.uint8)
    bits[low] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def _by_key(keys: Positions, low: Positions) -> list[tuple[int, Positions]]:
    """The low parts of each key; both ascend."""
    found, starts = np.unique(keys, return_index=True)
    return list(zip(found.tolist(), np.split(low, starts[1:]), strict=True))
