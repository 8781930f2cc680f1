"""`by_schema_id`: Avro in Confluent's framing (byte 0, four bytes schema id, body), through a registry.

A record must be read to its last byte: a shorter or longer body means that it was written with another schema.
"""

import io
import struct
from collections.abc import Callable, Sequence
from typing import Any

import fastavro
import orjson

from ingest_plugin.decode.avro_schema import CompiledAvro, Unmappable, compile_schema
from ingest_plugin.decode.registry import RegisteredSchema, SchemaRegistry
from ingest_plugin.decode.values import DataError, Decoded, Group, Row, invalid, unmappable
from ingest_plugin.kafka import Message

_HEADER = struct.Struct(">bI")
# What the reader raises on bytes that do not follow the schema.
_BAD_BYTES = (
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
# What a document that is no Avro schema makes of itself, here and in fastavro.
_BAD_SCHEMA = (
    Unmappable,
    fastavro.schema.SchemaParseException,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)


class AvroDecoder:
    """One group per schema id, in order of first appearance."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._compiled: dict[int, tuple[CompiledAvro, Any]] = {}
        self._refused: dict[int, DataError] = {}

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """Rows by schema id, and data errors."""
        result = Decoded()
        groups: dict[int, Group] = {}
        readers: dict[int, Callable[[bytes], Row] | DataError] = {}
        for position, message in enumerate(messages):
            value = message.value()
            schema_id = _schema_id(value)
            if isinstance(schema_id, DataError) or value is None:
                result.errors[position] = schema_id if isinstance(schema_id, DataError) else invalid("null")
                continue
            reader = readers.get(schema_id)
            if reader is None:
                reader = readers[schema_id] = self._reader(schema_id)
            if isinstance(reader, DataError):
                result.errors[position] = reader
                continue
            try:
                row = reader(value)
            except _BAD_BYTES as error:
                result.errors[position] = invalid(f"not a value of schema {schema_id}: {_text(error)}")
                continue
            group = groups.get(schema_id)
            if group is None:
                compiled = self._compiled[schema_id][0]
                group = groups[schema_id] = Group(
                    rows=[], positions=[], struct=compiled.struct, schema_key=schema_id
                )
            group.rows.append(row)
            group.positions.append(position)
        result.groups.extend(groups.values())
        return result

    def _reader(self, schema_id: int) -> Callable[[bytes], Row] | DataError:
        if (refused := self._refused.get(schema_id)) is not None:
            return refused
        known = self._compiled.get(schema_id)
        if known is None:
            schema = self._registry.schema(schema_id)
            if schema is None:
                return invalid(f"the schema registry has no schema {schema_id}")
            try:
                known = _compile(schema)
            except _BAD_SCHEMA as error:
                refusal = unmappable(f"schema {schema_id} cannot become a table: {_text(error)}")
                self._refused[schema_id] = refusal
                return refusal
            self._compiled[schema_id] = known
        return _body_reader(*known)


def _text(error: Exception) -> str:
    text = str(error)
    told = isinstance(error, Unmappable | ValueError) and text
    return text if told else f"{type(error).__name__} {text}".rstrip()


def _schema_id(value: bytes | None) -> int | DataError:
    if value is None:
        return invalid("the value is null (a tombstone)")
    if len(value) < _HEADER.size or value[0] != 0:
        return invalid("not in the registry's framing: no magic byte 0 and schema id in front")
    return int.from_bytes(value[1 : _HEADER.size], "big")


def _compile(schema: RegisteredSchema) -> tuple[CompiledAvro, Any]:
    if schema.kind != "AVRO":
        raise Unmappable(f"it is {schema.kind}; only Avro is offered")
    references = tuple(_document(text) for text in schema.references)
    compiled = compile_schema(_document(schema.text), references)
    return compiled, fastavro.parse_schema(compiled.reader)


def _document(text: str) -> Any:
    """A schema's JSON; the registry stores a bare primitive with or without quotes."""
    return orjson.loads(text) if text.lstrip()[:1] in ('"', "{", "[") else text.strip()


def _body_reader(compiled: CompiledAvro, parsed: Any) -> Callable[[bytes], Row]:
    read, fix, start = fastavro.schemaless_reader, compiled.fix, _HEADER.size

    def reader(value: bytes) -> Row:
        stream = io.BytesIO(value)
        stream.seek(start)
        row: Any = read(stream, parsed, None)
        if (left := len(value) - stream.tell()) != 0:
            raise ValueError(f"{left} bytes are left over")
        result: Row = row if fix is None else fix(row)
        return result

    return reader
