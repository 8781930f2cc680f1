"""Where a record says which registered schema it was written with: in front of the body, or in its headers.

Known are Confluent's prefix (byte 0, four bytes id), its headers (`__value_schema_id`: byte 0 and id, or byte 1 and a
guid), and Apicurio's (`apicurio.value.contentId` or `globalId`: eight bytes). No other place is guessed at.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ingest_plugin.decode.values import DataError, invalid
from ingest_plugin.kafka import Message

PREFIX_BYTES = 5
_GUID_BYTES = 17
SchemaId: TypeAlias = int | str
"""A number, or a guid as text."""


class Part(StrEnum):
    """Which half of a record."""

    VALUE = "value"
    KEY = "key"

    @property
    def payload(self) -> Callable[[Message], bytes | None]:
        """Takes the bytes of this half out of a message."""
        return _PAYLOAD[self]


_PAYLOAD: Mapping[Part, Callable[[Message], bytes | None]] = {
    Part.VALUE: lambda message: message.value(),
    Part.KEY: lambda message: message.key(),
}


@dataclass(frozen=True, slots=True)
class Framed:
    """The schema of a record, where its body begins, and what stands before a Protobuf body (None: in the body)."""

    schema_id: SchemaId
    start: int
    prelude: bytes | None = None


def from_prefix(data: bytes) -> Framed | DataError:
    """The schema id in front of the body."""
    if data[:1] == b"\1" and len(data) >= _GUID_BYTES:
        return Framed(_guid(data), _GUID_BYTES)
    if len(data) < PREFIX_BYTES or data[0] != 0:
        return invalid("not in the registry's framing: no magic byte 0 and schema id in front")
    return Framed(int.from_bytes(data[1:PREFIX_BYTES], "big"), PREFIX_BYTES)


def from_headers(part: Part, headers: list[tuple[str, bytes | None]] | None) -> Framed | DataError:
    """The schema id in the headers."""
    names = {f"apicurio.{part}.contentId", f"apicurio.{part}.globalId", f"__{part}_schema_id"}
    found = {name: value for name, value in headers or () if name in names and value is not None}
    if not found:
        return invalid(f"no header says the schema of the {part} (none of {', '.join(sorted(names))})")
    if (confluent := found.get(f"__{part}_schema_id")) is not None:
        return _from_confluent_header(part, confluent)
    name, value = min(found.items())
    if len(value) != 8:
        return invalid(f"header {name} has {len(value)} bytes, not the 8 of a schema id")
    return Framed(int.from_bytes(value, "big"), 0)


def _from_confluent_header(part: Part, value: bytes) -> Framed | DataError:
    if value[:1] == b"\0" and len(value) >= PREFIX_BYTES:
        return Framed(int.from_bytes(value[1:PREFIX_BYTES], "big"), 0, value[PREFIX_BYTES:])
    if value[:1] == b"\1" and len(value) >= _GUID_BYTES:
        return Framed(_guid(value), 0, value[_GUID_BYTES:])
    return invalid(f"header __{part}_schema_id is neither byte 0 and an id nor byte 1 and a guid")


def _guid(data: bytes) -> str:
    return str(uuid.UUID(bytes=bytes(data[1:_GUID_BYTES])))
