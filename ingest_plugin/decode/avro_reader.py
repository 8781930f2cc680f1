"""Avro bodies of schemas that contain themselves, read with a bound on their depth; slower than fastavro.

Takes the reader schemas that `avro_schema` makes (no logical types, names without namespaces) and gives what
fastavro would.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

MAX_DEPTH = 64
"""How often records, arrays and maps may lie inside each other; deeper values are refused."""
_MAX_VARINT_BYTES = 10
_Read: TypeAlias = Callable[["_Body", int], Any]


class _Body:
    """Bytes and how far they have been read."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self.at:
            raise EOFError(f"{count} bytes wanted, {len(self.data) - self.at} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def long(self) -> int:
        number = 0
        for place in range(_MAX_VARINT_BYTES):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                if number >= 2**64:
                    break
                return (number >> 1) ^ -(number & 1)
        raise ValueError("a number of more than 64 bits")

    def int(self) -> int:
        number = self.long()
        if not -(2**31) <= number < 2**31:
            raise ValueError(f"{number} is no int")
        return number


class RecordReader:
    """Reads values of one schema."""

    def __init__(self, schema: Any) -> None:
        self._named: dict[str, _Read] = {}
        self._read = self._of(schema)

    def read(self, data: bytes, start: int) -> Any:
        """The value between `start` and the end of the data.

        Raises:
            EOFError: the data end too early.
            ValueError: they follow the schema not at all, too long, or too deep.
        """
        body = _Body(data, start)
        value = self._read(body, 0)
        if (left := len(data) - body.at) != 0:
            raise ValueError(f"{left} bytes are left over")
        return value

    def _of(self, schema: Any) -> _Read:
        if isinstance(schema, list):
            return _union([self._of(branch) for branch in schema])
        if isinstance(schema, str):
            known = _PRIMITIVES.get(schema)
            # A record is known before its fields are: they may be of its own type.
            return known if known is not None else self._named[schema]
        read = self._complex(schema)
        if "name" in schema:
            self._named[schema["name"]] = read
        return read

    def _complex(self, schema: Any) -> _Read:
        match schema["type"]:
            case "record":
                return self._record(schema)
            case "enum":
                symbols = list(schema["symbols"])
                return lambda body, _depth: _pick(symbols, body.int())
            case "fixed":
                size = schema["size"]
                return lambda body, _depth: body.take(size)
            case "array":
                return _blocks(self._of(schema["items"]), keyed=False)
            case "map":
                return _blocks(self._of(schema["values"]), keyed=True)
            case other:
                return self._of(other)

    def _record(self, schema: Any) -> _Read:
        fields: list[tuple[str, _Read]] = []

        def read(body: _Body, depth: int) -> Any:
            if depth >= MAX_DEPTH:
                raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
            return {name: inner(body, depth + 1) for name, inner in fields}

        self._named[schema["name"]] = read
        fields.extend((field["name"], self._of(field["type"])) for field in schema["fields"])
        return read


def _union(branches: list[_Read]) -> _Read:
    return lambda body, depth: _pick(branches, body.long())(body, depth)


def _pick(choices: list[Any], index: int) -> Any:
    if not 0 <= index < len(choices):
        raise ValueError(f"choice {index} of {len(choices)}")
    return choices[index]


def _blocks(inner: _Read, *, keyed: bool) -> _Read:
    """Arrays and maps; every element takes a byte at least, so that a count beyond the bytes left is a lie."""

    def read(body: _Body, depth: int) -> Any:
        if depth >= MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
        items: list[Any] = []
        while count := body.long():
            if count < 0:
                count = -count
                body.long()
            if count > len(body.data) - body.at:
                raise EOFError(f"{count} elements in {len(body.data) - body.at} bytes")
            for _ in range(count):
                key = _text(body, 0) if keyed else None
                value = inner(body, depth + 1)
                items.append((key, value) if keyed else value)
        return dict(items) if keyed else items

    return read


def _text(body: _Body, _depth: int) -> str:
    return body.take(body.long()).decode("utf-8")


def _boolean(body: _Body, _depth: int) -> bool:
    byte = body.take(1)
    if byte not in (b"\0", b"\1"):
        raise ValueError(f"{byte!r} is no boolean")
    return byte == b"\1"


_PRIMITIVES: dict[str, _Read] = {
    "null": lambda _body, _depth: None,
    "boolean": _boolean,
    "int": lambda body, _depth: body.int(),
    "long": lambda body, _depth: body.long(),
    "float": lambda body, _depth: struct.unpack("<f", body.take(4))[0],
    "double": lambda body, _depth: struct.unpack("<d", body.take(8))[0],
    "bytes": lambda body, _depth: body.take(body.long()),
    "string": _text,
}
