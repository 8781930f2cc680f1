"""Avro's binary encoding, reading: the types that stand alone (Avro spec, "Binary Encoding").

No input makes it loop or allocate beyond the bytes it is given: lengths and counts are checked against what is
left. Reading beyond the end is an `IndexError` or `struct.error`, which callers take for a file cut off.
"""

import re
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]

_AT_ONCE = 1024
"""Integers that are passed over at once."""
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


class Malformed(Exception):
    """Bytes or schema are not as Avro (or the field's meaning) has them; callers add the file's name."""


def read_long(data: bytes, position: int) -> tuple[int, int]:
    """A zigzag varint of up to 64 bits, and the position after it."""
    byte = data[position]
    position += 1
    if byte > 0x7F:
        return _long_tail(data, position, byte & 0x7F)
    return (byte >> 1) ^ -(byte & 1), position


def _long_tail(data: bytes, position: int, number: int) -> tuple[int, int]:
    shift = 7
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            break
        shift += 7
        if shift > 63:
            raise Malformed("a number is longer than 64 bits")
    if number >> 64:
        raise Malformed("a number is longer than 64 bits")
    return (number >> 1) ^ -(number & 1), position


def read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """Length-prefixed bytes, and the position after them."""
    size, position = read_long(data, position)
    end = position + size
    if size < 0 or end > len(data):
        raise Malformed("a value is longer than what is left of the file")
    return data[position:end], end


def read_string(data: bytes, position: int) -> tuple[str, int]:
    """Length-prefixed UTF-8, and the position after it."""
    raw, position = read_bytes(data, position)
    return raw.decode(), position


def read_boolean(data: bytes, position: int) -> tuple[bool, int]:
    """One byte, and the position after it."""
    byte = data[position]
    if byte > 1:
        raise Malformed("a truth value is neither 0 nor 1")
    return byte == 1, position + 1


def read_null(_: bytes, position: int) -> tuple[None, int]:
    """Nothing."""
    return None, position


def read_float(data: bytes, position: int) -> tuple[float, int]:
    """Four bytes."""
    return _FLOAT.unpack_from(data, position)[0], position + 4


def read_double(data: bytes, position: int) -> tuple[float, int]:
    """Eight bytes."""
    return _DOUBLE.unpack_from(data, position)[0], position + 8


def read_count(data: bytes, position: int) -> tuple[int, int]:
    """The number of items in the next block of an array, and the position after it; 0 ends the array."""
    count, position = read_long(data, position)
    if count < 0:
        count = -count
        _, position = read_long(data, position)
    if count > len(data) - position:
        raise Malformed("an array is longer than what is left of the file")
    return count, position


def read_long_map(data: bytes, position: int) -> tuple[dict[int, int], int]:
    """Pairs of integers as a map, the common case without a call per number."""
    values: dict[int, int] = {}
    while True:
        count, position = read_count(data, position)
        if count == 0:
            return values, position
        for _ in range(count):
            key = data[position]
            position += 1
            if key > 0x7F:
                key, position = _long_tail(data, position, key & 0x7F)
            else:
                key = (key >> 1) ^ -(key & 1)
            value = data[position]
            position += 1
            if value > 0x7F:
                values[key], position = _long_tail(data, position, value & 0x7F)
            else:
                values[key] = (value >> 1) ^ -(value & 1)


@cache
def _numbers(count: int) -> "re.Pattern[bytes]":
    return re.compile(rb"(?:[\x80-\xff]{0,9}[\x00-\x7f]){%d}" % count)


def pass_numbers(data: bytes, position: int, count: int) -> int:
    """The position after so many integers, without reading them."""
    while count:
        some = min(count, _AT_ONCE)
        found = _numbers(some).match(data, position)
        if found is None:
            raise Malformed("a number is longer than 64 bits, or than what is left of the file")
        position, count = found.end(), count - some
    return position


def passing_numbers(per_item: int) -> Reader:
    """A reader that goes past an array whose items are so many integers each."""
    small = [_numbers(per_item * count).match for count in range(64)]

    def pass_array(data: bytes, position: int) -> tuple[None, int]:
        while True:
            byte = data[position]
            if byte == 0:
                return None, position + 1
            if byte <= 0x7F and not byte & 1:  # the common case without a call: one block of a few items
                found = small[byte >> 1](data, position + 1)
                if found is not None:
                    position = found.end()
                    continue
            count, position = read_count(data, position)
            position = pass_numbers(data, position, count * per_item)

    return pass_array


def pass_bytes_map(data: bytes, position: int) -> tuple[None, int]:
    """Go past an array of pairs of an integer and bytes."""
    while True:
        byte = data[position]
        if byte == 0:
            return None, position + 1
        if byte <= 0x7F and not byte & 1:
            count, position = byte >> 1, position + 1
        else:
            count, position = read_count(data, position)
        for _ in range(count):
            while data[position] > 0x7F:
                position += 1
            size = data[position + 1]
            if size > 0x7F:
                size, position = read_long(data, position + 1)
                position += size
            else:
                size = (size >> 1) ^ -(size & 1)
                position += size + 2
            if size < 0 or position > len(data):
                raise Malformed("a value is longer than what is left of the file")


def pairs(read_key: Reader, read_value: Reader) -> Reader:
    """A reader of key-value pairs as a map; absent values are left out."""

    def read_pairs(data: bytes, position: int) -> tuple[dict[int, Any], int]:
        values: dict[int, Any] = {}
        while True:
            count, position = read_count(data, position)
            if count == 0:
                return values, position
            for _ in range(count):
                key, position = read_key(data, position)
                value, position = read_value(data, position)
                if value is not None:
                    values[key] = value

    return read_pairs
