"""Protobuf: one registered schema compiled to readers of its messages.

A field with presence (messages, oneof members, `optional`, proto2) is null when it is not set; one without has its
zero. A message inside itself, and google.protobuf's Struct, Value and ListValue, become JSON text. Fields that the
schema does not have are a fault of the record, not dropped.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from ingest_plugin.decode.formats import NUMBER, Fix, Reader, Unmappable
from ingest_plugin.decode.jsontext import dump
from ingest_plugin.decode.proto_types import SCALARS, WELL_KNOWN, decimal_scale, enum_names
from ingest_plugin.decode.protoc import file_of
from ingest_plugin.decode.registry import RegisteredSchema
from ingest_plugin.decode.values import Row
from table_format.jsontypes import JsonObject
from table_format.schema.types import JsonType

_MAX_INDEXES = 64
_MAX_VARINT_BYTES = 5
_MAX_DEPTH = 60
_JSON = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})
_Get: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A type, and how its values become Arrow's (None: as they are)."""

    iceberg: JsonType
    fix: Fix | None = None


@dataclass(slots=True)
class ProtobufFormat:
    """The messages of one schema file."""

    file: FileDescriptor
    _readers: dict[str, Reader | Unmappable] = field(default_factory=dict)
    _by_path: dict[tuple[int, ...], Descriptor] = field(default_factory=dict)

    def select(self, data: bytes, start: int) -> tuple[Hashable, Reader, int]:
        """The message that the record's index list names; the body begins behind the list.

        Raises:
            ValueError: the list is damaged, or the schema has no such message.
            Unmappable: the message has no table form.
        """
        if data[start : start + 1] == b"\0":  # the short form of the first message
            path: tuple[int, ...] = (0,)
            start += 1
        else:
            path, start = _indexes(data, start)
        message = self._by_path.get(path)
        if message is None:
            message = self._by_path[path] = self._at(path)
        return message.full_name, self._reader(message), start

    def named(self, message: str) -> Reader:
        """The reader of a message by its full name, or of the first one."""
        found = next(
            (one for one in _all_messages(self.file) if message in ("", one.full_name)),
            None,
        )
        if found is None:
            raise Unmappable(f"it has no message {message!r}")
        return self._reader(found)

    def _at(self, path: tuple[int, ...]) -> Descriptor:
        level = list(self.file.message_types_by_name.values())
        found: Descriptor | None = None
        for index in path:
            if not 0 <= index < len(level):
                raise ValueError(f"the schema has no message at {list(path)}")
            found = level[index]
            level = list(found.nested_types)
        if found is None:
            raise ValueError("the record names no message")
        return found

    def _reader(self, message: Descriptor) -> Reader:
        known = self._readers.get(message.full_name)
        if known is None:
            try:
                known = _reader_of(message)
            except Unmappable as error:
                known = error
            self._readers[message.full_name] = known
        if isinstance(known, Unmappable):
            raise known
        return known


def compile_protobuf(schema: RegisteredSchema) -> ProtobufFormat:
    """The messages of a Protobuf schema.

    Raises:
        Unmappable: it is no valid schema.
        Unavailable: protoc is missing.
    """
    file = file_of(schema)
    if not file.message_types_by_name:
        raise Unmappable("it has no message")
    return ProtobufFormat(file)


def _all_messages(file: FileDescriptor) -> list[Descriptor]:
    found: list[Descriptor] = []
    level = list(file.message_types_by_name.values())
    while level:
        found.extend(level)
        level = [inner for one in level for inner in one.nested_types]
    return found


def _indexes(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    count, start = _varint(data, start)
    if not 0 < count <= _MAX_INDEXES:
        raise ValueError(f"a message index list of {count}")
    path = []
    for _ in range(count):
        index, start = _varint(data, start)
        path.append(index)
    return tuple(path), start


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """A zig-zag number, and where it ends."""
    number = 0
    for place in range(_MAX_VARINT_BYTES):
        if start + place >= len(data):
            raise EOFError("the record ends in its message index list")
        byte = data[start + place]
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), start + place + 1
    raise ValueError("a damaged message index list")


def _reader_of(message: Descriptor) -> Reader:
    """Raises Unmappable when the message has nothing to store."""
    if message.full_name in WELL_KNOWN or message.full_name in _JSON:
        raise Unmappable(f"{message.full_name} on its own is no record")
    members, to_row = _message(message, (), message.full_name)
    if not members:
        raise Unmappable(f"message {message.full_name} has no field")
    make = GetMessageClass(message)

    def read(data: bytes, start: int) -> Row:
        try:
            parsed = make.FromString(data[start:])
        except DecodeError as error:
            raise ValueError(str(error)) from None
        if not parsed.IsInitialized():
            raise ValueError("a required field is missing")
        size = parsed.ByteSize()
        parsed.DiscardUnknownFields()
        if parsed.ByteSize() != size:
            raise ValueError(f"it has fields that message {message.full_name} does not have")
        return to_row(parsed)

    return Reader(struct={"type": "struct", "fields": members}, read=read)


def _message(
    message: Descriptor, around: tuple[str, ...], where: str
) -> tuple[list[JsonObject], Callable[[Any], Row]]:
    if len(around) > _MAX_DEPTH:
        raise Unmappable(f"{where} is nested too deeply")
    if message.is_extendable and message.file.pool.FindAllExtensions(message):
        raise Unmappable(f"{where}: message {message.full_name} has extensions, which have no columns")
    members: list[JsonObject] = []
    getters: list[tuple[str, _Get]] = []
    for one in message.fields:
        kind, get = _field(one, (*around, message.full_name), f"{where}.{one.name}")
        number = f"{message.full_name}#{one.number}"
        members.append({"name": one.name, "required": False, "type": kind, NUMBER: number})
        getters.append((one.name, get))

    def to_row(parsed: Any) -> Row:
        return {name: get(parsed) for name, get in getters}

    return members, to_row


def _field(one: FieldDescriptor, around: tuple[str, ...], where: str) -> tuple[JsonType, _Get]:
    name = one.name
    if one.message_type is not None and one.message_type.GetOptions().map_entry:
        return _map_field(one.message_type, name, around, where)
    kind = _kind(one, around, where)
    fix = kind.fix
    if one.is_repeated:
        of_list: JsonType = {"type": "list", "element": kind.iceberg, "element-required": False}
        if fix is None:
            return of_list, lambda parsed: list(getattr(parsed, name))
        return of_list, lambda parsed: [fix(item) for item in getattr(parsed, name)]
    if not one.has_presence:
        if fix is None:
            return kind.iceberg, lambda parsed: getattr(parsed, name)
        return kind.iceberg, lambda parsed: fix(getattr(parsed, name))

    def present(parsed: Any) -> Any:
        if not parsed.HasField(name):
            return None
        value = getattr(parsed, name)
        return value if fix is None else fix(value)

    return kind.iceberg, present


def _map_field(pair: Descriptor, name: str, around: tuple[str, ...], where: str) -> tuple[JsonType, _Get]:
    entry = pair.fields_by_name
    key, value = _kind(entry["key"], around, f"{where}.key"), _kind(entry["value"], around, f"{where}.value")
    fix_key, fix_value = key.fix or _same, value.fix or _same
    iceberg: JsonType = {
        "type": "map",
        "key": key.iceberg,
        "value": value.iceberg,
        "value-required": False,
    }
    return iceberg, lambda parsed: [(fix_key(k), fix_value(v)) for k, v in getattr(parsed, name).items()]


def _same(value: Any) -> Any:
    return value


def _kind(one: FieldDescriptor, around: tuple[str, ...], where: str) -> _Kind:
    if one.enum_type is not None:
        return _Kind("string", enum_names(one.enum_type))
    if one.message_type is None:
        iceberg, fix = SCALARS[one.type]
        return _Kind(iceberg, fix)
    message = one.message_type
    full = message.full_name
    if full in _JSON or full in around:
        return _Kind("string", _json_text)
    if full == "confluent.type.Decimal":
        return _Kind(*decimal_scale(one))
    if full in WELL_KNOWN:
        return _Kind(*WELL_KNOWN[full])
    members, to_row = _message(message, around, where)
    if not members:
        # All that a message without fields can say is that it is there.
        return _Kind("boolean", lambda _parsed: True)
    return _Kind({"type": "struct", "fields": members}, to_row)


def _json_text(parsed: Any) -> Any:
    """Protobuf's own JSON form, with the names of the schema; whole numbers of 64 bits are text there."""
    try:
        value = json_format.MessageToDict(
            parsed, preserving_proto_field_name=True, descriptor_pool=parsed.DESCRIPTOR.file.pool
        )
    except (json_format.Error, TypeError) as error:
        raise ValueError(f"no JSON form: {error}") from None
    return dump(value)
