"""Avro's binary encoding, writing: one small function per type (Avro spec, "Binary Encoding").

Plain loops over local names: for records full of small integer maps this is faster than a general Avro library,
which builds a list of dictionaries first and validates every union branch.
"""

import struct
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

Writer: TypeAlias = Callable[[bytearray, Any], None]

_MIN, _MAX = -(2**63), 2**63 - 1
_MIN_INT, _MAX_INT = -(2**31), 2**31 - 1
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def write_long(out: bytearray, value: int) -> None:
    """A zigzag varint of up to 64 bits."""
    if not _MIN <= value <= _MAX:
        raise ValueError(f"{value} does not fit 64 bits")
    rest = value << 1 if value >= 0 else ~(value << 1)
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def write_int(out: bytearray, value: int) -> None:
    """A zigzag varint of up to 32 bits."""
    if not _MIN_INT <= value <= _MAX_INT:
        raise ValueError(f"{value} does not fit 32 bits")
    write_long(out, value)


def write_boolean(out: bytearray, value: bool) -> None:
    """One byte."""
    out.append(1 if value else 0)


def write_float(out: bytearray, value: float) -> None:
    """Four bytes."""
    out += _FLOAT.pack(value)


def write_double(out: bytearray, value: float) -> None:
    """Eight bytes."""
    out += _DOUBLE.pack(value)


def write_bytes(out: bytearray, value: bytes) -> None:
    """Length, then the bytes."""
    write_long(out, len(value))
    out += value


def write_fixed(out: bytearray, value: bytes) -> None:
    """The bytes alone; the schema knows how many."""
    out += value


def write_string(out: bytearray, value: str) -> None:
    """As bytes, in UTF-8."""
    write_bytes(out, value.encode())


def optional(write: Writer) -> Writer:
    """A union of null and the type, in this order."""

    def write_optional(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(2)
            write(out, value)

    return write_optional


def array(write: Writer) -> Writer:
    """A sequence, as one block."""

    def write_array(out: bytearray, values: Sequence[Any]) -> None:
        if values:
            write_long(out, len(values))
            for value in values:
                write(out, value)
        out.append(0)

    return write_array


def record(fields: Sequence[tuple[str, Writer]]) -> Writer:
    """An object's attributes, in the order of the schema."""
    writers = [write for _, write in fields]
    # A lone attribute would not come as a tuple.
    get = attrgetter(*(name for name, _ in fields), "__class__")

    def write_record(out: bytearray, value: Any) -> None:
        # The class at the end of the tuple has no writer.
        for write, member in zip(writers, get(value), strict=False):
            write(out, member)

    return write_record


def write_long_map(out: bytearray, values: dict[int, int]) -> None:
    """A map of field ids to longs, as an array of pairs."""
    if values:
        _check_keys(values)
        if not _MIN <= min(values.values()) <= max(values.values()) <= _MAX:
            raise ValueError("a count does not fit 64 bits")
        append = out.append
        write_long(out, len(values))
        for key, value in values.items():
            rest = key << 1
            while rest > 0x7F:
                append(rest & 0x7F | 0x80)
                rest >>= 7
            append(rest)
            rest = value << 1 if value >= 0 else ~(value << 1)
            while rest > 0x7F:
                append(rest & 0x7F | 0x80)
                rest >>= 7
            append(rest)
    out.append(0)


def write_bytes_map(out: bytearray, values: dict[int, bytes]) -> None:
    """A map of field ids to bytes, as an array of pairs."""
    if values:
        _check_keys(values)
        write_long(out, len(values))
        for key, value in values.items():
            write_long(out, key)
            write_long(out, len(value))
            out += value
    out.append(0)


def _check_keys(values: dict[int, Any]) -> None:
    if not 0 <= min(values) <= max(values) <= _MAX_INT:
        raise ValueError("a field id does not fit 31 bits")
