"""Avro object container files: header, blocks, compression codecs (Avro spec, "Object Container Files").

What the blocks hold is `decode`'s and `encode`'s. A damaged or hostile file is `Invalid` after work in proportion to
its size: every length is checked against what is left, and expansion has a limit.
"""

import bz2
import hashlib
import io
import lzma
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import zstandard

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.manifest.decode import Malformed, Reader, read_bytes, read_count, read_long, read_string
from table_format.manifest.encode import write_bytes, write_long

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CRC_BYTES = 4
_LEVEL = 1
"""As Java: higher levels cost much more time and save next to nothing on manifests."""

_BLOCK_HEAD = 20
"""Bytes that two numbers of 64 bits take at most."""
BLOCK_FRAME = _BLOCK_HEAD + _SYNC_BYTES
"""What a block takes at most beside its packed bytes."""
_WINDOW = 4 << 20
_MAX_HEADER = 8 << 20
"""Of a file not held in memory; the header has the table's schema, twice."""

_FREE_EXPANSION = 16 << 20
_MAX_RATIO = 1100
"""Deflate cannot expand more than 1032 times; the other codecs could, and no manifest does."""
_MAX_EXPANSION = 2 << 30


class Windowed:
    """Ranges of an object, read ahead in large pieces: for going through it once without holding it."""

    def __init__(self, get: Callable[[int, int], bytes], size: int) -> None:
        self._get = get
        self._size = size
        self._start = 0
        self._held = b""

    def __call__(self, start: int, end: int) -> bytes:
        """The bytes from `start` to before `end`, fewer when the object ends before."""
        end = min(end, self._size)
        if start < self._start or end > self._start + len(self._held):
            self._held = self._get(start, min(max(end, start + _WINDOW), self._size))
            self._start = start
        return self._held[start - self._start : max(end - self._start, 0)]


@dataclass(frozen=True, slots=True)
class Block:
    """Some records: the expanded bytes, how many there are, and where in the file the next block begins."""

    count: int
    data: bytes
    end: int


@dataclass(frozen=True, slots=True)
class Container:
    """An opened file: its header, and the blocks still to be read, from `start` on."""

    location: str
    meta: Mapping[str, bytes]
    schema: object
    read: Callable[[int, int], bytes]
    size: int
    start: int
    sync: bytes

    def text(self, key: str) -> str | None:
        """A header entry as text; None when it is missing or no text."""
        try:
            return self.meta[key].decode()
        except (KeyError, UnicodeDecodeError):
            return None

    def _next(self, position: int) -> tuple[int, int, int]:
        """Records of the block at `position`, and where its packed bytes begin and end."""
        head = self.read(position, position + _BLOCK_HEAD)
        count, at = read_long(head, 0)
        size, at = read_long(head, at)
        start, end = position + at, position + at + size
        if size < 0 or end > self.size:
            raise Malformed("a value is longer than what is left of the file")
        if self.read(end, end + _SYNC_BYTES) != self.sync:
            raise Malformed("the mark after a block is missing")
        return count, start, end

    def passed_over(self, records: int) -> Iterator[tuple[int, int]]:
        """Records and end of each of the first blocks that hold at most so many records; nothing is expanded.

        A block that cannot be passed over is left for `blocks` to complain about.
        """
        position = self.start
        while position < self.size:
            try:
                count, _, end = self._next(position)
            except (Malformed, IndexError):
                return
            if not 0 <= count <= records:
                return
            position, records = end + _SYNC_BYTES, records - count
            yield count, position

    def blocks(self, most_each: int | None = None) -> Iterator[Block]:
        """Each block, expanded; to `most_each` bytes at most, for files of any size that are not manifests.

        Raises:
            Invalid: the file is cut off or damaged.
        """
        codec = self.text("avro.codec") or "null"
        expand = _EXPANDERS.get(codec)
        if expand is None:
            raise Invalid(f"{self.location}: Avro codec {codec!r} is not known")
        left = min(_MAX_EXPANSION, _FREE_EXPANSION + _MAX_RATIO * self.size)
        position = self.start
        while position < self.size:
            try:
                count, start, end = self._next(position)
                block = expand(self.read(start, end), left if most_each is None else most_each)
            except (
                Malformed,
                IndexError,
                zlib.error,
                OSError,
                lzma.LZMAError,
                EOFError,
                ValueError,
            ) as error:
                raise _damaged(self.location, error) from None
            except (zstandard.ZstdError, pa.ArrowException) as error:
                raise _damaged(self.location, error) from None
            position = end + _SYNC_BYTES
            left -= len(block)
            yield Block(count, block, position)


def read_records(container: Container, read: Reader) -> Iterator[Any]:
    """Every record of the file.

    Raises:
        Invalid: the file is cut off, damaged, or does not hold what its schema says.
    """
    number = 0
    for block in container.blocks():
        yield from read_block(container, block, read, number)
        number += block.count


def read_block(container: Container, block: Block, read: Reader, before: int) -> Iterator[Any]:
    """Every record of one block; `before` it there are so many.

    Raises:
        Invalid: the block does not hold what the file's schema says.
    """
    check_count(container, block)
    position = 0
    for number in range(before + 1, before + block.count + 1):
        try:
            value, position = read(block.data, position)
        except (Malformed, IndexError, ValueError, struct.error) as error:
            raise unreadable(container.location, number, error) from None
        yield value
    check_end(container, block, position)


def check_count(container: Container, block: Block) -> None:
    """Refuse a block that cannot have as many records as it says.

    Raises:
        Invalid: it cannot.
    """
    if not 0 <= block.count <= len(block.data):
        raise Invalid(
            f"{container.location} is not a readable Avro file: a block has no {block.count} records"
        )


def check_end(container: Container, block: Block, position: int) -> None:
    """Refuse a block whose records end before it does.

    Raises:
        Invalid: they do.
    """
    if position != len(block.data):
        raise Invalid(f"{container.location}: a block holds more than its {block.count} records")


def unreadable(location: str, number: int, error: Exception) -> Invalid:
    """What is raised for record `number` (from 1), when reading it raised that."""
    reason = "it ends too early" if isinstance(error, IndexError | struct.error) else str(error)
    return Invalid(f"{location}: record {number} is not readable: {reason}")


def _read_meta(data: bytes) -> tuple[dict[str, bytes], int]:
    meta: dict[str, bytes] = {}
    position = len(MAGIC)
    while True:
        count, position = read_count(data, position)
        if count == 0:
            return meta, position
        for _ in range(count):
            key, position = read_string(data, position)
            meta[key], position = read_bytes(data, position)


def _damaged(location: str, error: Exception) -> Invalid:
    reason = "it is cut off" if isinstance(error, IndexError) else str(error)
    return Invalid(f"{location} is not a readable Avro file: {reason}")


def open_container(data: bytes, location: str) -> Container:
    """Read the header of a file held in memory.

    Raises:
        Invalid: not an Avro file.
    """
    return _opened(data, location, lambda start, end: data[start:end], len(data))


def open_ranged(get: Callable[[int, int], bytes], size: int, location: str) -> Container:
    """Read the header of a file of that size, of which `get` gives any range.

    Raises:
        Invalid: not an Avro file.
    """
    read = Windowed(get, size)
    return _opened(read(0, min(size, _MAX_HEADER)), location, read, size)


def _opened(data: bytes, location: str, read: Callable[[int, int], bytes], size: int) -> Container:
    if not data.startswith(MAGIC):
        raise Invalid(f"{location} is not an Avro file")
    try:
        meta, position = _read_meta(data)
        sync = data[position : position + _SYNC_BYTES]
        schema = orjson.loads(meta.get("avro.schema", b""))
    except (Malformed, IndexError, UnicodeDecodeError, orjson.JSONDecodeError) as error:
        raise _damaged(location, error) from None
    if len(sync) < _SYNC_BYTES:
        raise Invalid(f"{location} is not a readable Avro file: it is cut off")
    return Container(location, meta, schema, read, size, position + _SYNC_BYTES, sync)


def build_container(
    schema: JsonObject, meta: Mapping[str, str], blocks: Iterable[tuple[int, bytes]]
) -> bytes:
    """A whole file, deflated; the same content gives the same bytes."""
    return assembled(schema, meta, [(count, deflated(block)) for count, block in blocks])


def assembled(schema: JsonObject, meta: Mapping[str, str], packed: Sequence[tuple[int, bytes]]) -> bytes:
    """A whole file of blocks that were deflated already, each with its number of records."""
    entries = {
        "avro.schema": orjson.dumps(schema),
        "avro.codec": b"deflate",
        **{key: value.encode() for key, value in meta.items()},
    }
    out = bytearray(MAGIC)
    write_long(out, len(entries))
    for key, value in entries.items():
        write_bytes(out, key.encode())
        write_bytes(out, value)
    write_long(out, 0)
    digest = hashlib.blake2b(bytes(out), digest_size=_SYNC_BYTES)
    for _, block in packed:
        digest.update(block)
    sync = digest.digest()
    out += sync
    for count, block in packed:
        write_long(out, count)
        write_bytes(out, block)
        out += sync
    return bytes(out)


def deflated(block: bytes) -> bytes:
    """The block as it stands in a file."""
    press = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return press.compress(block) + press.flush()


def _within(block: bytes, limit: int) -> bytes:
    if len(block) > limit:
        raise Malformed("it expands to more than any manifest of its size would")
    return block


def _inflate(packed: bytes, limit: int) -> bytes:
    return _within(zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, limit + 1), limit)


def _unzstd(packed: bytes, limit: int) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed), read_across_frames=True) as reader:
        return _within(reader.read(limit + 1), limit)


def _unsnappy(packed: bytes, limit: int) -> bytes:
    size = shift = 0
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > limit or len(packed) <= _CRC_BYTES:
        raise Malformed("it expands to more than any manifest of its size would")
    block = pa.Codec("snappy").decompress(packed[:-_CRC_BYTES], decompressed_size=size, asbytes=True)
    if zlib.crc32(block) != int.from_bytes(packed[-_CRC_BYTES:], "big"):
        raise Malformed("a block does not have its checksum")
    return bytes(block)


_EXPANDERS: dict[str, Callable[[bytes, int], bytes]] = {
    "null": _within,
    "deflate": _inflate,
    "zstandard": _unzstd,
    "snappy": _unsnappy,
    "bzip2": lambda packed, limit: _within(bz2.BZ2Decompressor().decompress(packed, limit + 1), limit),
    "xz": lambda packed, limit: _within(lzma.LZMADecompressor().decompress(packed, limit + 1), limit),
}
