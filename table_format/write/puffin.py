"""Puffin files written: blobs one after the other, and a footer that describes them (Puffin spec).

Knows nothing of what blobs hold. `scan.puffin` reads them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import zstandard

from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject

MAGIC: Final = b"PFA1"
_NO_FLAGS: Final = bytes(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One blob; `payload` as it is stored, packed by `codec` (None: not at all)."""

    type: str
    fields: Sequence[int]
    snapshot_id: int
    sequence_number: int
    payload: bytes = field(repr=False)
    codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PuffinFile:
    """A file that was written."""

    size: int
    footer_size: int
    """Bytes of the footer with its magic at both ends."""


def packed(data: bytes) -> tuple[bytes, str]:
    """Data packed as a blob may be, and the codec's name: one zstd frame that tells its size, as the spec wants it."""
    return zstandard.ZstdCompressor().compress(data), "zstd"


def write_puffin(store: ObjectStore, path: str, blobs: Sequence[Blob], *, created_by: str) -> PuffinFile:
    """Write a file of these blobs.

    Raises:
        AlreadyExists: there is a file of that name.
        Unavailable: the store did not take the file.
    """
    content = bytearray(MAGIC)
    described: list[Mapping[str, Any]] = []
    for blob in blobs:
        entry: dict[str, Any] = {
            "type": blob.type,
            "fields": list(blob.fields),
            "snapshot-id": blob.snapshot_id,
            "sequence-number": blob.sequence_number,
            "offset": len(content),
            "length": len(blob.payload),
        }
        if blob.codec is not None:
            entry["compression-codec"] = blob.codec
        if blob.properties:
            entry["properties"] = dict(blob.properties)
        described.append(entry)
        content += blob.payload
    end = footer(described, created_by)
    content += end
    store.put(path, bytes(content), if_absent=True)
    return PuffinFile(size=len(content), footer_size=len(end))


def statistics_entry(path: str, snapshot_id: int, file: PuffinFile, blobs: Sequence[Blob]) -> JsonObject:
    """The file as an entry of a table's statistics (table spec, "Table Statistics")."""
    return {
        "snapshot-id": snapshot_id,
        "statistics-path": path,
        "file-size-in-bytes": file.size,
        "file-footer-size-in-bytes": file.footer_size,
        "blob-metadata": [
            {
                "type": blob.type,
                "snapshot-id": blob.snapshot_id,
                "sequence-number": blob.sequence_number,
                "fields": list(blob.fields),
                "properties": dict(blob.properties),
            }
            for blob in blobs
        ],
    }


def footer(blobs: Sequence[Mapping[str, Any]], created_by: str) -> bytes:
    """The footer of a file with blobs that are described so."""
    payload = orjson.dumps({"blobs": blobs, "properties": {"created-by": created_by}})
    return MAGIC + payload + len(payload).to_bytes(4, "little") + _NO_FLAGS + MAGIC
