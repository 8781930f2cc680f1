"""What a schema becomes for the decoder: readers of record types, by kind of schema.

A reader turns a body into a row completely or raises one of `BAD_BYTES`; a schema without a table form raises
`Unmappable` when it is compiled.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ingest_plugin.decode.values import Row
from table_format.jsontypes import JsonObject

Fix: TypeAlias = Callable[[Any], Any]
SINGLE_COLUMN = "value"
"""The column of a schema that is no record."""
ALIASES, NUMBER = "aliases", "number"
"""Keys that a stated struct's fields may have beside Iceberg's: former names, and Protobuf's field number,
with the message whose number it is: `x.Order#1`. Several messages of one topic have numbers of their own."""

# What readers raise on bytes that do not follow the schema.
BAD_BYTES = (
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    OverflowError,
    ArithmeticError,
    MemoryError,
    StopIteration,
    RecursionError,
)


class Unmappable(Exception):
    """The schema has no table form; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One record type: its columns, and how a body becomes a row; `read(data, start)` reads from `start` to the end."""

    struct: JsonObject
    read: Callable[[bytes, int], Row]
    trusted: bool = True
    """Whether rows are in the form that Arrow takes for `struct`; else they are JSON values, and may have more."""
    single: bool = False
    """The schema is no record: the row has the one field `value`."""


class Format(Protocol):
    """One compiled schema."""

    def select(self, data: bytes, start: int) -> tuple[Hashable, Reader, int]:
        """Which of the schema's types the record at `start` has, its reader, and where its body begins.

        Raises:
            ValueError: the record says something that the schema does not have.
        """
        ...

    def named(self, message: str) -> Reader:
        """The reader of the type of that full name, or of the first one for "".

        Raises:
            Unmappable: there is no such type.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OneType:
    """The format of schemas that describe one type: Avro and JSON Schema."""

    reader: Reader

    def select(self, _data: bytes, start: int) -> tuple[Hashable, Reader, int]:
        """The one type; the body begins at once."""
        return 0, self.reader, start

    def named(self, _message: str) -> Reader:
        """The one type, whatever its name."""
        return self.reader
