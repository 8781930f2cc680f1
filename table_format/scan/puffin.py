"""Puffin files read: what their footer says of their blobs, and the blobs (Puffin spec)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson
import zstandard

from table_format.errors import Invalid, TableFormatError, Unsupported
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.metadata import members

_MAGIC: Final = b"PFA1"
_TAIL: Final = 12
"""Size of the payload, flags, magic."""
_PACKED_FOOTER: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBlob:
    """A blob as the footer describes it; `codec` is None for one that is not packed."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    codec: str | None
    properties: Mapping[str, str]


def read_footer(store: ObjectStore, path: str, size: int) -> list[StoredBlob]:
    """The blobs of a Puffin file of that many bytes.

    Raises:
        NoSuchFile: it is gone.
        Invalid: it is no Puffin file of that size, or its footer is damaged.
        Unsupported: its footer is packed.
    """
    if size < 2 * len(_MAGIC) + _TAIL:
        raise Invalid(f"{path} is no Puffin file: it has {size} bytes")
    tail = store.get(path, (size - _TAIL, size))
    length = int.from_bytes(tail[:4], "little")
    start = size - _TAIL - length  # of the payload, which a magic precedes
    if tail[-4:] != _MAGIC or start < 2 * len(_MAGIC):
        raise Invalid(f"{path} does not end as a Puffin file of {size} bytes does")
    if tail[4] & _PACKED_FOOTER:
        raise Unsupported(f"the footer of {path} is packed, which is not read")
    try:
        parsed = members.json_object(orjson.loads(store.get(path, (start, start + length))), "it")
        return [_blob(entry, start) for entry in members.objects(parsed, "blobs", "it")]
    except (orjson.JSONDecodeError, Invalid) as error:
        told = error.message if isinstance(error, TableFormatError) else str(error)
        raise Invalid(f"the footer of {path} cannot be read: {told}") from None


def _blob(entry: JsonObject, footer_start: int) -> StoredBlob:
    what = "a blob"
    offset = members.integer(entry, "offset", what, len(_MAGIC))
    length = members.integer(entry, "length", what, 0)
    if offset + length > footer_start - len(_MAGIC):
        raise Invalid(f"a blob is to end at {offset + length}, within the footer")
    return StoredBlob(
        type=members.text(entry, "type", what),
        fields=tuple(members.integers(entry, "fields", what)),
        snapshot_id=members.integer(entry, "snapshot-id", what),
        sequence_number=members.integer(entry, "sequence-number", what),
        offset=offset,
        length=length,
        codec=members.optional_text(entry, "compression-codec", what),
        properties={} if entry.get("properties") is None else members.text_map(entry, "properties", what),
    )


def read_payload(store: ObjectStore, path: str, blob: StoredBlob) -> bytes:
    """The blob as it is stored.

    Raises:
        NoSuchFile: the file is gone.
        Invalid: it is cut off.
    """
    found = store.get(path, (blob.offset, blob.offset + blob.length))
    if len(found) != blob.length:
        raise Invalid(f"{path} is cut off: {len(found)} bytes of the {blob.length} of a blob")
    return found


def unpacked(payload: bytes, codec: str | None, *, most: int) -> bytes:
    """What was packed.

    Raises:
        Invalid: it is damaged, or has more than `most` bytes.
        Unsupported: by a codec that is not known here.
    """
    if codec is None:
        return payload
    if codec != "zstd":
        raise Unsupported(f"a Puffin blob is packed by {codec[:40]!r}, which is not read")
    try:
        size = zstandard.frame_content_size(payload)
        if not 0 <= size <= most:
            raise Invalid(
                f"a Puffin blob would have {size} bytes, more than {most}, or does not say how many"
            )
        return zstandard.ZstdDecompressor().decompress(payload)
    except zstandard.ZstdError as error:
        raise Invalid(f"a Puffin blob is damaged: {error}") from None
