"""Metadata files: their names, and reading and writing them, plain or gzipped.

A name carries the version number for people and older tools, and a fresh UUID that makes it unique; nothing is
ever overwritten. Decompression stops at a cap, however small the compressed file is.
"""

import gzip
import re
import zlib
from typing import TypeAlias

from table_format.clock import Ids
from table_format.errors import Invalid, NoSuchFile, TooLarge
from table_format.ident import join
from table_format.io.store import ObjectStore
from table_format.metadata import jsontext
from table_format.metadata.document import TableMetadata
from table_format.metadata.views import ViewMetadata

AnyMetadata: TypeAlias = TableMetadata | ViewMetadata

MAX_BYTES = 512 * 1024 * 1024
METADATA_PATH = "write.metadata.path"
COMPRESSION = "write.metadata.compression-codec"
_GZIP_MAGIC = b"\x1f\x8b"
# Java writes v1.gz.metadata.json today, and wrote v1.metadata.json.gz long ago.
_GZIP_NAMES = (".gz.metadata.json", ".metadata.json.gz")
_NAMES = (".metadata.json", ".metadata.json.gz")
_VERSION = re.compile(r"(\d{1,9})-[^/]*\.metadata\.json(\.gz)?", re.ASCII)


def new_location(metadata: AnyMetadata, previous_location: str | None, ids: Ids) -> str:
    """Where the next version of the metadata is to be written.

    The version number follows that of the previous file, or is 0 when that is none of ours.
    """
    folder = metadata.properties.get(METADATA_PATH) or join(metadata.location, "metadata")
    gzipped = metadata.properties.get(COMPRESSION, "").lower() == "gzip"
    version = 0 if previous_location is None else version_of(previous_location) + 1
    return join(folder, f"{version:05d}-{ids.uuid()}{'.gz' if gzipped else ''}.metadata.json")


def names_metadata(path: str) -> bool:
    """Whether the path is named as metadata files are, and nothing else is."""
    return path.endswith(_NAMES)


def version_of(location: str) -> int:
    """The version number in a metadata file's name; -1 when it has none."""
    match = _VERSION.fullmatch(location.rpartition("/")[2])
    return int(match[1]) if match else -1


def read(
    store: ObjectStore, location: str, *, max_bytes: int = MAX_BYTES, max_values: int | None = None
) -> TableMetadata:
    """Read and check a metadata file.

    Raises:
        NoSuchFile: it is not there.
        TooLarge: it exceeds `max_bytes`, compressed or not, or its JSON `max_values`.
        Invalid: it is not table metadata.
    """
    data = _read(store, location, max_bytes, max_values, "table")
    try:
        return TableMetadata.parse(data)
    except Invalid as error:
        raise _unreadable(error, location, "table") from None


def read_view(
    store: ObjectStore, location: str, *, max_bytes: int = MAX_BYTES, max_values: int | None = None
) -> ViewMetadata:
    """Read and check a view's metadata file.

    Raises:
        NoSuchFile: it is not there.
        TooLarge: it exceeds `max_bytes`, compressed or not, or its JSON `max_values`.
        Invalid: it is not view metadata.
    """
    data = _read(store, location, max_bytes, max_values, "view")
    try:
        return ViewMetadata.parse(data)
    except Invalid as error:
        raise _unreadable(error, location, "view") from None


def _read(store: ObjectStore, location: str, max_bytes: int, max_values: int | None, of: str) -> bytes:
    try:
        data = store.get(location, (0, max_bytes + 1))  # one request, and never more than that in memory
    except NoSuchFile:
        raise NoSuchFile(f"Failed to open input stream for file: {location}") from None
    try:
        compressed = data.startswith(_GZIP_MAGIC) or location.endswith(_GZIP_NAMES)
        if compressed and len(data) <= max_bytes:
            data = _decompressed(data, max_bytes)
        if len(data) > max_bytes:
            raise TooLarge(f"more than {max_bytes} bytes")
        if max_values is not None and jsontext.most_values(data) > max_values:
            raise TooLarge(f"more than {max_values} values")
    except Invalid as error:
        raise _unreadable(error, location, of) from None
    return data


def _unreadable(error: Invalid, location: str, of: str) -> Invalid:
    return type(error)(f"Cannot read {of} metadata from {location}: {error.message}")


_MOST_MEMBERS = 64  # each further one costs a copy of all that follows it


def _decompressed(data: bytes, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = max_bytes + 1
    while data and room > 0:
        if len(parts) == _MOST_MEMBERS:
            raise Invalid(f"the gzip file has more than {_MOST_MEMBERS} members")
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(data, room)
        except zlib.error as error:
            raise Invalid(f"not valid gzip: {error}") from None
        parts.append(part)
        room -= len(part)
        if not member.eof:
            if room > 0:
                raise Invalid("not valid gzip: the file is cut short")
            break
        data = member.unused_data
    return b"".join(parts)


def encode(metadata: AnyMetadata, location: str) -> bytes:
    """The bytes to be stored at that location: gzipped if its name says so."""
    return _stored(metadata.to_bytes(), location)


def write(store: ObjectStore, location: str, metadata: AnyMetadata, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Store the metadata at a location where nothing is yet, and give its JSON (never compressed).

    Raises:
        AlreadyExists: something is there already.
        TooLarge: it exceeds `max_bytes`, so that nobody with the same bound could read it again.
    """
    raw = metadata.to_bytes()
    write_text(store, location, raw, max_bytes=max_bytes)
    return raw


def write_text(store: ObjectStore, location: str, raw: bytes, *, max_bytes: int = MAX_BYTES) -> None:
    """Store metadata, given as its JSON, at a location where nothing is yet.

    Raises:
        AlreadyExists, TooLarge: as `write`.
    """
    if len(raw) > max_bytes:
        raise TooLarge(
            f"the metadata would have {len(raw)} bytes; at most {max_bytes} are read again: "
            "expire snapshots or remove properties first"
        )
    store.put(location, _stored(raw, location), if_absent=True)


def _stored(raw: bytes, location: str) -> bytes:
    # The same metadata gives the same bytes: no time in the gzip header.
    return gzip.compress(raw, compresslevel=6, mtime=0) if location.endswith(_GZIP_NAMES) else raw
