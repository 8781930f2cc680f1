"""Thrift's compact protocol, read into plain values and written back: every field is kept, known or not.

What is read and written again unchanged is the same bytes, if its writer used the shortest forms and ascending ids,
as all do. Nothing is believed: sizes are held against what is there, depth is limited.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

from table_format.errors import Invalid

_MAX_DEPTH: Final = 48
_MAX_VARINT: Final = 10
_DOUBLE: Final = struct.Struct("<d")


class Kind(IntEnum):
    """How a value is written. A boolean field's value is part of its kind; here it is always `TRUE`."""

    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12
    UUID = 13


_INTEGERS: Final = frozenset({Kind.BYTE, Kind.I16, Kind.I32, Kind.I64})
_KINDS: Final = {int(kind): kind for kind in Kind}
_TRUE, _FALSE = Kind.TRUE, Kind.FALSE


@dataclass(frozen=True, slots=True)
class Items:
    """A list or set; booleans in it are the bytes that stand for them."""

    kind: Kind
    values: "list[Value]"


@dataclass(frozen=True, slots=True)
class Pairs:
    """A map; the kinds of an empty one are not told."""

    key: Kind
    value: Kind
    pairs: "list[tuple[Value, Value]]"


@dataclass(frozen=True, slots=True)
class Struct:
    """Kinds and values by field id."""

    fields: "dict[int, Field]" = field(default_factory=dict)

    def integer(self, number: int) -> int | None:
        """An integer field of any width, or None.

        Raises:
            Invalid: it is of another kind.
        """
        found = self.fields.get(number)
        if found is None:
            return None
        if found[0] not in _INTEGERS or not isinstance(found[1], int):
            raise _other(number, found[0])
        return found[1]

    def number(self, number: int) -> int:
        """An integer field that must be there.

        Raises:
            Invalid: it is not.
        """
        value = self.integer(number)
        if value is None:
            raise Invalid(f"its metadata lacks the Thrift field {number}")
        return value

    def binary(self, number: int) -> bytes | None:
        """A field of bytes or text, or None.

        Raises:
            Invalid: it is of another kind.
        """
        found = self.fields.get(number)
        if found is None:
            return None
        if not isinstance(found[1], bytes) or found[0] is not Kind.BINARY:
            raise _other(number, found[0])
        return found[1]

    def flag(self, number: int) -> bool | None:
        """A boolean field, or None.

        Raises:
            Invalid: it is of another kind.
        """
        found = self.fields.get(number)
        if found is None:
            return None
        if not isinstance(found[1], bool):
            raise _other(number, found[0])
        return found[1]

    def struct(self, number: int) -> "Struct | None":
        """A struct field, or None.

        Raises:
            Invalid: it is of another kind.
        """
        found = self.fields.get(number)
        if found is None:
            return None
        if not isinstance(found[1], Struct):
            raise _other(number, found[0])
        return found[1]

    def structs(self, number: int) -> "list[Struct]":
        """A list of structs; none when the field is not there.

        Raises:
            Invalid: it is of another kind.
        """
        found = self.fields.get(number)
        if found is None:
            return []
        kind, value = found
        if not isinstance(value, Items) or value.kind is not Kind.STRUCT:
            raise _other(number, kind)
        return [one for one in value.values if isinstance(one, Struct)]

    def with_(self, changes: "Mapping[int, Field | None]") -> "Struct":
        """A copy with other values for these fields; without those given as None."""
        merged: dict[int, Field] = dict(self.fields)
        for number, value in changes.items():
            if value is None:
                merged.pop(number, None)
            else:
                merged[number] = value
        return Struct(merged)


Value: TypeAlias = bool | int | float | bytes | Items | Pairs | Struct
Field: TypeAlias = tuple[Kind, Value]


def i32(value: int) -> Field:
    """A field of 32 bits."""
    return Kind.I32, value


def i64(value: int) -> Field:
    """A field of 64 bits."""
    return Kind.I64, value


def text(value: bytes) -> Field:
    """A field of bytes or text."""
    return Kind.BINARY, value


def structs(values: Iterable[Struct]) -> Field:
    """A field that is a list of structs."""
    return Kind.LIST, Items(Kind.STRUCT, list(values))


def _other(number: int, kind: Kind) -> Invalid:
    return Invalid(f"the Thrift field {number} of its metadata is an unexpected {kind.name}")


def read_struct(data: bytes, start: int = 0) -> tuple[Struct, int]:
    """The struct that begins at `start`, and where it ends.

    Raises:
        Invalid: the bytes are no struct.
    """
    reader = _Reader(data, start)
    try:
        return reader.struct(0), reader.position
    except IndexError:
        raise Invalid("its metadata ends in the middle") from None


class _Reader:
    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self.position = start
        self._readers: dict[Kind, Callable[[int], Value]] = {
            # Booleans among others are bytes.
            **dict.fromkeys((Kind.TRUE, Kind.FALSE, Kind.BYTE), lambda _: self._byte()),
            **dict.fromkeys((Kind.I16, Kind.I32, Kind.I64), self._number),
            Kind.DOUBLE: lambda _: float(_DOUBLE.unpack(self._take(8))[0]),
            Kind.BINARY: lambda _: self._take(self._varint()),
            Kind.LIST: self._items,
            Kind.SET: self._items,
            Kind.MAP: self._pairs,
            Kind.STRUCT: self.struct,
            Kind.UUID: lambda _: self._take(16),
        }

    def struct(self, depth: int) -> Struct:
        if depth > _MAX_DEPTH:
            raise Invalid("its metadata is nested too deeply")
        fields: dict[int, Field] = {}
        readers = self._readers
        number = 0
        while header := self._byte():
            kind = self._kind(header & 0x0F)
            delta = header >> 4
            number = number + delta if delta else self._number(depth)
            if number in fields:
                raise Invalid(f"its metadata has the Thrift field {number} twice")
            if kind is _TRUE or kind is _FALSE:
                fields[number] = (_TRUE, kind is _TRUE)
            else:
                fields[number] = (kind, readers[kind](depth + 1))
        return Struct(fields)

    def _items(self, depth: int) -> Items:
        if depth > _MAX_DEPTH:
            raise Invalid("its metadata is nested too deeply")
        header = self._byte()
        kind = self._kind(header & 0x0F)
        size = header >> 4
        size = self._varint() if size == 15 else size
        self._check_room(size)
        read = self._readers[kind]
        return Items(kind, [read(depth + 1) for _ in range(size)])

    def _pairs(self, depth: int) -> Pairs:
        if depth > _MAX_DEPTH:
            raise Invalid("its metadata is nested too deeply")
        size = self._varint()
        if not size:
            return Pairs(Kind.BYTE, Kind.BYTE, [])
        self._check_room(size)
        kinds = self._byte()
        key, value = self._kind(kinds >> 4), self._kind(kinds & 0x0F)
        read_key, read_value = self._readers[key], self._readers[value]
        return Pairs(key, value, [(read_key(depth + 1), read_value(depth + 1)) for _ in range(size)])

    def _check_room(self, size: int) -> None:
        """Every value takes a byte at least: a list longer than what is left is none."""
        if size > len(self._data) - self.position:
            raise Invalid("its metadata ends in the middle")

    def _byte(self) -> int:
        value = self._data[self.position]
        self.position += 1
        return value

    def _kind(self, code: int) -> Kind:
        kind = _KINDS.get(code)
        if kind is None:
            raise Invalid(f"its metadata has a value of the unknown Thrift kind {code}")
        return kind

    def _take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self._data):
            raise Invalid("its metadata ends in the middle")
        taken = bytes(self._data[self.position : end])
        self.position = end
        return taken

    def _number(self, _: int) -> int:
        coded = self._varint()
        return (coded >> 1) ^ -(coded & 1)

    def _varint(self) -> int:
        data, position = self._data, self.position
        value = data[position]
        position += 1
        if value >= 0x80:
            value &= 0x7F
            shift = 7
            while True:
                part = data[position]
                position += 1
                value |= (part & 0x7F) << shift
                if part < 0x80:
                    break
                shift += 7
                if shift >= 7 * _MAX_VARINT:
                    raise Invalid("its metadata has a number of more than 64 bits")
        self.position = position
        return value


def write_struct(value: Struct) -> bytes:
    """The struct's bytes."""
    out = bytearray()
    _put_struct(out, value)
    return bytes(out)


def _put_struct(out: bytearray, value: Struct) -> None:
    last = 0
    for number in sorted(value.fields):
        kind, content = value.fields[number]
        code = int(kind)
        if isinstance(content, bool):
            code = int(Kind.TRUE if content else Kind.FALSE)
        delta = number - last
        if 0 < delta < 16:
            out.append(delta << 4 | code)
        else:
            out.append(code)
            _put_integer(out, number)
        if not isinstance(content, bool):
            _put_value(out, kind, content)
        last = number
    out.append(0)


def _put_value(out: bytearray, kind: Kind, value: Value) -> None:
    match value:
        case Struct():
            _put_struct(out, value)
        case bytes():
            if kind is Kind.BINARY:
                _put_varint(out, len(value))
            out += value
        case Items():
            _put_items(out, value)
        case Pairs():
            _put_pairs(out, value)
        case float():
            out += _DOUBLE.pack(value)
        case _:
            if kind in (Kind.I16, Kind.I32, Kind.I64):
                _put_integer(out, value)
            else:
                out.append(value)


def _put_items(out: bytearray, value: Items) -> None:
    size = len(value.values)
    if size < 15:
        out.append(size << 4 | value.kind)
    else:
        out.append(0xF0 | value.kind)
        _put_varint(out, size)
    for one in value.values:
        _put_value(out, value.kind, one)


def _put_pairs(out: bytearray, value: Pairs) -> None:
    _put_varint(out, len(value.pairs))
    if value.pairs:
        out.append(value.key << 4 | value.value)
    for key, content in value.pairs:
        _put_value(out, value.key, key)
        _put_value(out, value.value, content)


def _put_integer(out: bytearray, value: int) -> None:
    _put_varint(out, value << 1 if value >= 0 else ((-value) << 1) - 1)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
