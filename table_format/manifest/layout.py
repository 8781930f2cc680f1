"""The layout of a manifest's entries as regular expressions: they take an entry apart many times faster than readers.

Two expressions are made of its schema: one up to the file's path, one from there on. Avro tells of every value where it
ends, so that an expression of such values, matched where an entry begins, can match nothing but what a reader would
read. How many items the arrays have (metrics by column) is learnt from entries, and a number of items that is rare, a
value that is long, or a type that manifests do not have simply does not match.
"""

import re
import struct
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

import orjson

from table_format.jsontypes import JsonObject
from table_format.manifest.avro import NAMES
from table_format.manifest.compiler import Compiled, Compiler
from table_format.manifest.decode import Malformed, read_count, read_long
from table_format.manifest.encode import write_long

_NUMBER: Final = rb"[\x80-\xff]{0,9}+[\x00-\x7f]"
_LONGEST: Final = 128
"""Bytes of a string or bound that the expressions pass over; a path may be of any length."""
_LARGEST: Final = 4096
"""Bytes of a fixed type, or fields of a schema, that are worth an expression."""
_MOST_COUNTS: Final = 60
"""Numbers of items, of all arrays, that are learnt for one schema of a table."""
_MOST_BYTES: Final = 128 << 10
"""Of an expression: a longer one takes long to compile."""

_DATA_FILE, _CONTENT, _PATH, _FORMAT, _PARTITION, _RECORDS, _SIZE = 2, 134, 100, 101, 102, 103, 104
_KEY, _ORDER, _ROW_ID = 131, 140, 142
_HEAD: Final = (0, 1, 3, 4, _CONTENT, _PATH)
"""Status, snapshot id, both sequence numbers, content, and the length of the path, which comes last."""
_TAIL: Final = (_FORMAT, _PARTITION, _RECORDS, _SIZE, _ORDER, _ROW_ID, _KEY)
_NEEDED: Final = (0, _PATH, _FORMAT, _PARTITION, _RECORDS, _SIZE)


class _NoExpression(Exception):
    """A type or an order of fields that the expressions do not know."""


def _one_of(ways: list[bytes]) -> bytes:
    return rb"(?>" + rb"|".join(ways) + rb")"


def _number(value: int) -> bytes:
    out = bytearray()
    write_long(out, value)
    return re.escape(bytes(out))


def _text() -> bytes:
    ways = [_number(size) + rb".{%d}" % size for size in range(1, _LONGEST)]
    return _one_of([rb"\x00", *ways])


_TEXT: Final = _text()
_PLAIN: Final = {
    "null": b"",
    "boolean": rb"[\x00\x01]",
    "int": _NUMBER,
    "long": _NUMBER,
    "float": rb".{4}",
    "double": rb".{8}",
    "bytes": _TEXT,
    "string": _TEXT,
    "enum": _NUMBER,
}


def _value(schema: object) -> bytes:
    """The expression of a value that is passed over."""
    if isinstance(schema, list):
        return _one_of([rb"\x00", rb"\x02" + _value(_optional(schema))])
    if not isinstance(schema, dict):
        return _of_plain(schema)
    kind = schema.get("type")
    if kind == "record":
        return b"".join(_value(field["type"]) for field in schema["fields"])
    if kind == "fixed":
        if schema["size"] > _LARGEST:
            raise _NoExpression
        return rb".{%d}" % schema["size"]
    return _value(kind) if isinstance(kind, dict | list) else _of_plain(kind)


def _of_plain(name: object) -> bytes:
    found = _PLAIN.get(name) if isinstance(name, str) else None
    if found is None:
        raise _NoExpression
    return found


def _optional(schema: list[object]) -> object:
    if len(schema) != 2 or schema[0] != "null":
        raise _NoExpression
    return schema[1]


class _Field:
    """One field of an entry: an expression, or an array whose numbers of items are learnt."""

    def __init__(self, key: object, schema: object, compiled: Compiled) -> None:
        self.key = key
        self.read = compiled.read
        self.optional = isinstance(schema, list)
        inner = _optional(schema) if isinstance(schema, list) else schema
        self.item: bytes | None = None
        self.counts: list[int] = []
        if isinstance(inner, dict) and inner.get("type") == "array":
            self.item = _value(inner["items"])
        else:
            self._fixed = self._captured(_PLAIN["long"] if key == _PATH else _value(inner))

    def _captured(self, inner: bytes) -> bytes:
        if self.key == _KEY:
            if not self.optional:
                raise _NoExpression
            return rb"(" + _one_of([rb"\x00", rb"\x02" + inner]) + rb")"
        wanted = self.key in _HEAD or self.key in _TAIL
        found = rb"(" + inner + rb")" if wanted else inner
        return _one_of([rb"\x00", rb"\x02" + found]) if self.optional else found

    @property
    def expression(self) -> bytes:
        """As far as is known by now."""
        if self.item is None:
            return self._fixed
        items = (_number(n) + rb"(?:" + self.item + rb"){%d}+\x00" % n for n in self.counts)
        ways = _one_of([rb"\x00", *items])
        return _one_of([rb"\x00", rb"\x02" + ways]) if self.optional else ways

    def learn(self, data: bytes, start: int) -> bool:
        """Whether the array that begins there has a number of items that was not known."""
        if self.item is None or (self.optional and data[start] == 0):
            return False
        count, _ = read_count(data, start + self.optional)
        if count == 0 or count in self.counts:
            return False
        self.counts.append(count)
        return True


class Layout:
    """The expressions of one schema: `head` to the length of the path, its first group what is before; `tail` after it.

    `tail_groups` are its groups of format, partition, records, size, sort order, row id and key; an absent one is None.
    """

    def __init__(self, fields: list[_Field]) -> None:
        keys = [field.key for field in fields]
        if len(set(keys)) != len(keys) or not set(_NEEDED) <= set(keys):
            raise _NoExpression
        at = keys.index(_PATH) + 1
        self._before, self._after = fields[:at], fields[at:]
        if any(field.item is not None or field.key in _TAIL for field in self._before):
            raise _NoExpression
        if any(field.key in _HEAD for field in self._after):
            raise _NoExpression
        own = b"".join(field.expression for field in self._before[:-1])
        self.head = _compiled(rb"(" + own + rb")" + self._before[-1].expression)
        self._head_groups = [group + 1 for group in _groups(self._before, _HEAD)]
        self.length_group = self._head_groups.pop()
        self.tail = _compiled(self._tail())
        self.tail_groups = _groups(self._after, _TAIL)

    def _tail(self) -> bytes:
        return b"".join(field.expression for field in self._after)

    def head_numbers(self, head: "re.Match[bytes]") -> tuple[Any, ...]:
        """Status, snapshot id, sequence number, file sequence number and content; an absent one is None."""
        found = head.group(*self._head_groups)
        return tuple(None if raw is None else read_long(raw, 0)[0] for raw in found)

    def learn(self, data: bytes, start: int) -> None:
        """Learn from an entry that was read there, and not matched."""
        head = self.head.match(data, start)
        if head is None or sum(len(field.counts) for field in self._after) >= _MOST_COUNTS:
            return
        position = head.end() + read_long(head[self.length_group], 0)[0]
        news = False
        # Whoever read the entry passed over what is read here.
        with suppress(Malformed, IndexError, ValueError, struct.error):
            for field in self._after:
                news = field.learn(data, position) or news
                position = field.read(data, position)[1]
        if news and len(self._tail()) <= _MOST_BYTES:
            self.tail = _compiled(self._tail())


def _compiled(expression: bytes) -> "re.Pattern[bytes]":
    if len(expression) > _MOST_BYTES:
        raise _NoExpression
    # The last group matches nothing: it stands for every field that the schema does not have.
    return re.compile(expression + rb"(?:(?!)())?", re.DOTALL)


def _groups(fields: list[_Field], wanted: tuple[int, ...]) -> tuple[int, ...]:
    captured = [field.key for field in fields if field.key in wanted]
    return tuple(captured.index(key) + 1 if key in captured else len(captured) + 1 for key in wanted)


@lru_cache(maxsize=64)
def layout_of(schema: bytes, table: str) -> Layout | None:
    """The layout of manifests with that Avro schema, which a reader takes; None when there is no expression for it.

    Each table, known by its location, has its own: another one with the same schema may have other columns.
    """
    document = orjson.loads(schema)
    try:
        return Layout(_fields(document, Compiler(ids=NAMES).compile(document)))
    except (_NoExpression, Malformed, KeyError, TypeError):
        return None


def _fields(record: JsonObject, compiled: Compiled) -> list[_Field]:
    fields: list[_Field] = []
    if len(record["fields"]) > _LARGEST:
        raise _NoExpression
    for raw, part in zip(record["fields"], compiled.parts, strict=True):
        kind = raw["type"]
        if part.key == _DATA_FILE and isinstance(kind, dict) and kind.get("type") == "record":
            fields += _fields(kind, part.compiled)
        else:
            fields.append(_Field(part.key, kind, part.compiled))
    return fields
