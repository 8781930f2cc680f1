"""Avro: one registered schema compiled to a reader of bodies.

fastavro reads at C speed but does not count how deep it goes, so schemas that contain themselves are read by our own
reader, which does.
"""

import io
from collections.abc import Callable
from typing import Any

import fastavro
import orjson

from ingest_plugin.decode.avro_reader import RecordReader
from ingest_plugin.decode.avro_schema import CompiledAvro, compile_schema
from ingest_plugin.decode.formats import OneType, Reader, Unmappable
from ingest_plugin.decode.registry import RegisteredSchema
from ingest_plugin.decode.values import Row


def compile_avro(schema: RegisteredSchema) -> OneType:
    """The reader of an Avro schema.

    Raises:
        Unmappable: it has no table form, or is no Avro schema.
    """
    references = tuple(_document(reference.text) for reference in schema.references)
    compiled = compile_schema(_document(schema.text), references)
    try:
        parsed = fastavro.parse_schema(compiled.reader)
    except fastavro.schema.SchemaParseException as error:
        raise Unmappable(f"{type(error).__name__} {error}".rstrip()) from None
    read = _own_reader(compiled) if compiled.recursive else _body_reader(compiled, parsed)
    return OneType(reader=Reader(struct=compiled.struct, read=read, single=compiled.single))


def _document(text: str) -> Any:
    """A schema's JSON; the registry stores a bare primitive with or without quotes."""
    return orjson.loads(text) if text.lstrip()[:1] in ('"', "{", "[") else text.strip()


def _body_reader(compiled: CompiledAvro, parsed: Any) -> Callable[[bytes, int], Row]:
    read, fix = fastavro.schemaless_reader, compiled.fix

    def reader(value: bytes, start: int) -> Row:
        stream = io.BytesIO(value)
        stream.seek(start)
        row: Any = read(stream, parsed, None)
        if (left := len(value) - stream.tell()) != 0:
            raise ValueError(f"{left} bytes are left over")
        result: Row = row if fix is None else fix(row)
        return result

    return reader


def _own_reader(compiled: CompiledAvro) -> Callable[[bytes, int], Row]:
    own, fix = RecordReader(compiled.reader), compiled.fix

    def reader(value: bytes, start: int) -> Row:
        row = own.read(value, start)
        result: Row = row if fix is None else fix(row)
        return result

    return reader
