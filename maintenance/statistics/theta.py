"""Theta sketches of Apache DataSketches: which hashes one keeps, what they tell, and the bytes of a compact one.

Two sketches merge into that of all values of both; none can be taken away again. Hashes are of the default seed.
"""

import struct
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from table_format.errors import Invalid
from table_format.schema.murmur128 import Bytes, Places, Words, first_halves

SEED: Final = 9001
NOMINAL: Final = 4096
"""Hashes that are kept, as Java and Trino do: one standard error is 1/64, 1.6 %."""
_SEED_HASH: Final = 0x93CC
"""By which sketches of other seeds are told apart."""
_WHOLE: Final = 2**63 - 1
"""Theta while nothing was left out: hashes have 63 bits."""
_HELD: Final = 1 << 16
_SERIAL_VERSION: Final = 3
_COMPACT_FAMILY: Final = 3
_READ_ONLY, _EMPTY, _COMPACT, _ORDERED = 2, 4, 8, 16
_HEAD: Final = struct.Struct("<BBBBBBH")
_COUNT: Final = struct.Struct("<Ixxxx")
_THETA: Final = struct.Struct("<Q")


class Sketch:
    """The smallest hashes of the values seen so far, and below which theta they are all of them."""

    def __init__(self) -> None:
        self.theta = _WHOLE
        self.kept: Words = np.empty(0, dtype=np.uint64)
        self._fresh: list[Words] = []
        self._held = 0
        self.empty = True

    def add(self, hashes: Words) -> None:
        """Take in the hashes of values, each of 64 bits, in any order and as often as they come."""
        if len(hashes):
            self.empty = False
            self._take(hashes >> np.uint64(1))

    def merge(self, other: "Sketch") -> None:
        """Take in all values of another sketch."""
        other.settle()
        self.empty = self.empty and other.empty
        self.theta = min(self.theta, other.theta)
        self._take(other.kept)
        self.settle()

    def _take(self, hashes: npt.NDArray[np.uint64]) -> None:
        wanted = hashes[(hashes < np.uint64(self.theta)) & (hashes != 0)]
        self._fresh.append(wanted)
        self._held += len(wanted)
        if self._held >= _HELD:
            self.settle()

    def settle(self) -> None:
        """Bring `theta` and `kept` up to date with what was taken in."""
        kept = np.unique(np.concatenate([self.kept, *self._fresh]))
        if len(kept) > NOMINAL:
            self.theta = min(self.theta, int(kept[NOMINAL]))
        self.kept = kept[kept < np.uint64(self.theta)]
        self._fresh, self._held = [], 0

    @property
    def estimate(self) -> float:
        """How many distinct values there are: exactly, as long as all their hashes are kept."""
        self.settle()
        return len(self.kept) / (self.theta / _WHOLE)

    def to_bytes(self) -> bytes:
        """The sketch in DataSketches' compact form, its hashes in order."""
        self.settle()
        count, exact = len(self.kept), self.theta == _WHOLE
        flags = _READ_ONLY | _COMPACT | _ORDERED
        if self.empty:
            return _HEAD.pack(1, _SERIAL_VERSION, _COMPACT_FAMILY, 0, 0, flags | _EMPTY, _SEED_HASH)
        if exact and count == 1:
            head = _HEAD.pack(1, _SERIAL_VERSION, _COMPACT_FAMILY, 0, 0, flags, _SEED_HASH)
            return head + self.kept.astype("<u8").tobytes()
        longs = 2 if exact else 3
        head = _HEAD.pack(longs, _SERIAL_VERSION, _COMPACT_FAMILY, 0, 0, flags, _SEED_HASH)
        theta = b"" if exact else _THETA.pack(self.theta)
        return head + _COUNT.pack(count) + theta + self.kept.astype("<u8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Sketch":
        """The sketch that `to_bytes` made these of.

        Raises:
            Invalid: it did not.
        """
        try:
            found = cls._parsed(data)
        except struct.error:
            raise Invalid("a Theta sketch is cut off") from None
        if found.to_bytes() != data:
            raise Invalid("a Theta sketch is damaged, or of a kind that is not read")
        return found

    @classmethod
    def _parsed(cls, data: bytes) -> "Sketch":
        longs, version, family, _, _, flags, seed_hash = _HEAD.unpack_from(data)
        if (version, family, seed_hash) != (_SERIAL_VERSION, _COMPACT_FAMILY, _SEED_HASH):
            raise Invalid(
                f"a Theta sketch has version {version}, family {family} and seed hash {seed_hash}, not "
                f"{_SERIAL_VERSION}, {_COMPACT_FAMILY} and {_SEED_HASH}"
            )
        sketch = cls()
        sketch.empty = bool(flags & _EMPTY)
        if longs == 3:
            (sketch.theta,) = _THETA.unpack_from(data, 16)
        if len(data) % 8:
            raise Invalid("a Theta sketch is cut off")
        sketch.kept = np.frombuffer(data, "<u8", offset=8 * longs).astype(np.uint64)
        return sketch


Spans: TypeAlias = "tuple[Bytes, Places, Places]"
"""Data, and where in it each value starts and how long it is."""


def hashes(spans: Spans) -> Words:
    """The hashes of values; those without a byte have none, as DataSketches leaves them out."""
    data, starts, lengths = spans
    filled = lengths > 0
    if not filled.all():
        starts, lengths = starts[filled], lengths[filled]
    return first_halves(data, starts, lengths, SEED)
