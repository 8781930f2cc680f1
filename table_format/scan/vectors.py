"""Deletion vectors: the rows of one data file that are deleted, as a blob in a Puffin file (format version 3).

The blob (Puffin spec, "deletion-vector-v1") is a length, a magic, a 64-bit Roaring bitmap in the portable form and
a CRC. It is checked whole before a position of it counts, and stays packed: positions are unpacked range by range.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from table_format.errors import Invalid
from table_format.io.store import ObjectStore
from table_format.manifest.entries import DataFile

Positions: TypeAlias = "npt.NDArray[np.int64]"

_MAGIC: Final = b"\xd1\xd3\x39\x64"
_FRAME_BYTES: Final = 4 + len(_MAGIC) + 4
_MAX_BLOB: Final = 2**31 - 1
"""As in Java; no data file has so many rows that it takes more."""
_MAX_KEY: Final = 2**31 - 1
_COOKIE: Final = 12346
_COOKIE_WITH_RUNS: Final = 12347
_OFFSETS_FROM: Final = 4
"""A bitmap with runs has offsets of its containers from that many containers on."""
_CONTAINER_BITS: Final = 16
_LARGEST_ARRAY: Final = 4096
_BITSET_BYTES: Final = 8192


class _Damaged(Exception):
    """The bitmap is not one; the message says why."""


@dataclass(frozen=True, slots=True)
class _Container:
    """Positions that share all bits but the last 16, still packed."""

    kind: str
    """array, bitset or runs."""
    start: int
    count: int
    """Positions of an array, runs of runs."""

    def unpack(self, data: bytes) -> npt.NDArray[np.int64]:
        if self.kind == "bitset":
            raw = np.frombuffer(data, np.uint8, _BITSET_BYTES, self.start)
            return np.flatnonzero(np.unpackbits(raw, bitorder="little")).astype(np.int64)
        if self.kind == "array":
            return np.frombuffer(data, "<u2", self.count, self.start).astype(np.int64)
        runs = np.frombuffer(data, "<u2", 2 * self.count, self.start).astype(np.int64).reshape(-1, 2)
        lengths = runs[:, 1] + 1
        firsts = np.repeat(runs[:, 0] - np.cumsum(lengths) + lengths, lengths)
        return firsts + np.arange(len(firsts), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Vector:
    """A deletion vector, checked."""

    data: bytes
    containers: dict[int, _Container]
    """By the bits of the positions above the last 16, ascending."""
    cardinality: int

    @property
    def nbytes(self) -> int:
        """Bytes held, about."""
        return len(self.data) + 200 * len(self.containers)

    def within(self, start: int, end: int) -> Positions:
        """The deleted positions from `start` to before `end`, ascending."""
        wanted = range(start >> _CONTAINER_BITS, ((end - 1) >> _CONTAINER_BITS) + 1 if end > start else 0)
        keys = wanted if len(wanted) < len(self.containers) else (k for k in self.containers if k in wanted)
        parts = [self._unpacked(key) for key in keys if key in self.containers]
        found = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        return found[(found >= start) & (found < end)]

    def positions(self) -> Iterator[Positions]:
        """All deleted positions, ascending, some at a time."""
        for key in self.containers:
            yield self._unpacked(key)

    def _unpacked(self, key: int) -> Positions:
        return self.containers[key].unpack(self.data) + (key << _CONTAINER_BITS)


def read_vector(store: ObjectStore, file: DataFile) -> Vector:
    """The deletion vector that a delete entry describes; the Puffin file's footer is not needed.

    Raises:
        NoSuchFile: the Puffin file is gone.
        Invalid: the entry does not say where the vector is, the blob is damaged, or it deletes another number of
            rows than the entry says.
    """
    offset, size = file.content_offset, file.content_size_in_bytes
    what = f"the deletion vector of {file.referenced_data_file} in {file.file_path}"
    if offset is None or size is None:
        raise Invalid(
            f"{what}: its manifest does not say where it is (content_offset, content_size_in_bytes)"
        )
    if offset < 0 or not _FRAME_BYTES <= size <= _MAX_BLOB:
        raise Invalid(f"{what} cannot be at {offset} with {size} bytes, as its manifest says")
    try:
        vector = parse_vector(store.get(file.file_path, (offset, offset + size)), size)
    except _Damaged as error:
        raise Invalid(f"{what} cannot be read: {error}") from None
    if vector.cardinality != file.record_count:
        raise Invalid(f"{what} deletes {vector.cardinality} rows, its manifest says {file.record_count}")
    return vector


def parse_vector(blob: bytes, size: int) -> Vector:
    """The vector in a blob that should have `size` bytes (Puffin spec, "deletion-vector-v1")."""
    if len(blob) != size:
        raise _Damaged(f"the file has {len(blob)} bytes of its {size}")
    if int.from_bytes(blob[:4], "big") != size - 8:
        raise _Damaged("its length is another than its manifest says")
    if blob[4:8] != _MAGIC:
        raise _Damaged("it does not begin as a deletion vector does")
    if zlib.crc32(blob[4:-4]) != int.from_bytes(blob[-4:], "big"):
        raise _Damaged("its checksum is wrong")
    data = blob[8:-4]
    try:
        return _parse(data)
    except struct.error:
        raise _Damaged("it is cut off") from None


def _parse(data: bytes) -> Vector:
    (bitmaps,) = struct.unpack_from("<Q", data, 0)
    containers: dict[int, _Container] = {}
    at, cardinality, before = 8, 0, -1
    for _ in range(bitmaps):
        (key,) = struct.unpack_from("<I", data, at)
        if not before < key < _MAX_KEY:
            raise _Damaged("its bitmaps are not in order, or beyond every position")
        before = key
        at, found = _parse_bitmap(data, at + 4, key << _CONTAINER_BITS, containers)
        cardinality += found
    if at != len(data):
        raise _Damaged(f"{len(data) - at} bytes follow its last bitmap")
    return Vector(data, containers, cardinality)


def _parse_bitmap(data: bytes, at: int, above: int, into: dict[int, _Container]) -> tuple[int, int]:
    """Add a 32-bit bitmap's containers; where it ends and how many positions it has."""
    (cookie,) = struct.unpack_from("<I", data, at)
    at += 4
    runs = b""
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = data[at : at + (count + 7) // 8]
        at += (count + 7) // 8
    elif cookie == _COOKIE:
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
    else:
        raise _Damaged(f"a bitmap of it begins with {cookie}")
    if count > 1 << _CONTAINER_BITS:
        raise _Damaged(f"a bitmap of it has {count} containers")
    described = struct.unpack_from(f"<{2 * count}H", data, at)
    at += 4 * count + (4 * count if not runs or count >= _OFFSETS_FROM else 0)
    cardinality, before = 0, -1
    for number, (key, less_one) in enumerate(zip(described[::2], described[1::2], strict=True)):
        if key <= before:
            raise _Damaged("containers of it are not in order")
        before = key
        is_runs = bool(runs and runs[number // 8] >> (number % 8) & 1)
        container, at = _container(data, at, less_one + 1, is_runs=is_runs)
        into[above | key] = container
        cardinality += less_one + 1
    return at, cardinality


def _container(data: bytes, at: int, cardinality: int, *, is_runs: bool) -> tuple[_Container, int]:
    if is_runs:
        (count,) = struct.unpack_from("<H", data, at)
        container, end = _Container("runs", at + 2, count), at + 2 + 4 * count
    elif cardinality <= _LARGEST_ARRAY:
        container, end = _Container("array", at, cardinality), at + 2 * cardinality
    else:
        container, end = _Container("bitset", at, cardinality), at + _BITSET_BYTES
    if end > len(data):
        raise _Damaged("it is cut off")
    if is_runs:
        pairs = np.frombuffer(data, "<u2", 2 * container.count, container.start).astype(np.int64)
        if (pairs[::2] + pairs[1::2] > 0xFFFF).any():
            raise _Damaged("a run of it is too long")
    values = container.unpack(data)
    if len(values) != cardinality or (np.diff(values) <= 0).any():
        raise _Damaged("a container of it has another content than its header says")
    return container, end
