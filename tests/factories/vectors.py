"""Deletion vectors as other writers make them, with the Roaring library that PyIceberg uses."""

import zlib
from collections.abc import Iterable

from pyroaring import BitMap64

from table_format.io.store import ObjectStore
from table_format.manifest.entries import Content, DataFile

_MAGIC = b"\xd1\xd3\x39\x64"


def framed(bitmap: bytes) -> bytes:
    """The bytes of a bitmap as a blob, with length, magic and checksum."""
    body = _MAGIC + bitmap
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def packed(positions: Iterable[int], *, runs: bool = False) -> bytes:
    """A bitmap in the portable form; with `runs`, runs where they are shorter."""
    bitmap = BitMap64(positions)
    if runs:
        bitmap.run_optimize()
    found: bytes = bitmap.serialize()
    return found


def put_vector(
    store: ObjectStore, path: str, data_file: DataFile, positions: Iterable[int], **more: object
) -> DataFile:
    """Write a Puffin file with one vector; its entry."""
    wanted = set(positions)
    blob = framed(packed(wanted))
    store.put(path, b"PFA1" + blob + b"PFA1 any footer")
    members: dict[str, object] = {
        "content": Content.POSITION_DELETES,
        "file_path": path,
        "file_format": "PUFFIN",
        "record_count": len(wanted),
        "file_size_in_bytes": len(blob) + 19,
        "referenced_data_file": data_file.file_path,
        "content_offset": 4,
        "content_size_in_bytes": len(blob),
    }
    return DataFile(**(members | more))  # type: ignore[arg-type]
