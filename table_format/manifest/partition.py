"""Partition tuples in manifests: the columns of a spec, their Avro types, and values to and from Avro.

Transforming rows into partition values is `write`'s; this knows only what type a transform's result has.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from table_format.errors import Unsupported
from table_format.jsontypes import JsonObject
from table_format.manifest import encode
from table_format.manifest.compiler import Compiled, Part, stored_decimal
from table_format.manifest.decode import Malformed, Reader
from table_format.manifest.encode import Writer
from table_format.manifest.entries import Partition
from table_format.manifest.values import decimal_size, raw_bytes, real, unscaled, whole
from table_format.metadata.document import TableMetadata
from table_format.schema.types import Primitive, parse_primitive, walk

_RESULTS = {"year": "int", "month": "int", "hour": "int", "day": "date", "bucket": "int"}
_SAME = ("identity", "truncate", "void")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionColumn:
    """One field of a partition spec; `type` is None where the transform or its source column is not known."""

    field_id: int
    name: str
    transform: str
    type: Primitive | None


def partition_columns(metadata: TableMetadata, spec_id: int) -> list[PartitionColumn]:
    """The columns of a spec with the types of their values.

    Raises:
        Invalid: the table has no such spec.
    """
    fields = metadata.spec(spec_id)["fields"]
    types = _source_types(metadata, {field.get("source-id") for field in fields})
    return [
        PartitionColumn(
            field_id=field.get("field-id", 1000 + position),
            name=field["name"],
            transform=field["transform"],
            type=_result_type(field["transform"], types.get(field.get("source-id"))),
        )
        for position, field in enumerate(fields)
    ]


def source_schema(metadata: TableMetadata, spec_id: int) -> JsonObject:
    """The schema by which the spec is to be understood: the current one, or the newest that has all its sources."""
    wanted = {field.get("source-id") for field in metadata.spec(spec_id)["fields"]}
    for schema in _newest_first(metadata):
        if wanted <= {view.id for view in walk(schema)}:
            return schema
    return metadata.schema()


def _newest_first(metadata: TableMetadata) -> list[JsonObject]:
    current = metadata.schema()
    return [current, *(schema for schema in reversed(metadata.schemas) if schema is not current)]


def _source_types(metadata: TableMetadata, wanted: set[int]) -> dict[int, str]:
    """Types of the source columns; a column dropped since is looked up in older schemas."""
    found: dict[int, str] = {}
    for schema in _newest_first(metadata):
        if found.keys() >= wanted:
            break
        for view in walk(schema):
            if view.id in wanted and view.id not in found and isinstance(view.type, str):
                found[view.id] = view.type
    return found


def _result_type(transform: str, source: str | None) -> Primitive | None:
    name = transform.partition("[")[0].strip().lower()
    if name in _RESULTS:
        return Primitive(name=_RESULTS[name])
    if name in _SAME and source is not None:
        return parse_primitive(source)
    return None


def avro_fields(columns: Sequence[PartitionColumn]) -> list[JsonObject]:
    """The fields of the Avro record `r102`, as Java names and types them.

    Raises:
        Unsupported: the result type of a transform is not known.
    """
    names: set[str] = set()
    types: set[str] = set()
    fields = []
    for column in columns:
        name = avro_name(column.name)
        if name in names:
            name = f"{name}_{column.field_id}"
        names.add(name)
        field: JsonObject = {
            "name": name,
            "type": ["null", _distinct(avro_type(_known(column)), types, column.field_id)],
            "default": None,
            "field-id": column.field_id,
        }
        if name != column.name:
            field["iceberg-field-name"] = column.name
        fields.append(field)
    return fields


def _distinct(kind: str | JsonObject, taken: set[str], field_id: int) -> str | JsonObject:
    """Avro names a fixed type once; readers that take no references need a second definition under another name."""
    if isinstance(kind, str) or "name" not in kind:
        return kind
    name = kind["name"] if kind["name"] not in taken else f"{kind['name']}_{field_id}"
    taken.add(name)
    return {**kind, "name": name}


def _known(column: PartitionColumn) -> Primitive:
    if column.type is not None:
        return column.type
    if column.transform == "void":
        return Primitive(name="string")  # always null; nobody knows the column's type any more
    raise Unsupported(f"partition field {column.name!r}: type of transform {column.transform!r} is not known")


def avro_name(name: str) -> str:
    """The name with every character that Avro does not allow written as its number (Java's rule)."""
    escaped = re.sub(r"[^A-Za-z0-9_]", lambda match: f"_x{ord(match[0]):X}", name)
    return f"_{escaped}" if not escaped or escaped[0].isdigit() else escaped


def avro_type(primitive: Primitive) -> str | JsonObject:
    """The Avro type of a primitive (Iceberg spec, Appendix A)."""
    match primitive.name:
        case "boolean" | "int" | "long" | "float" | "double" | "string":
            return primitive.name
        case "binary":
            return "bytes"
        case "date":
            return {"type": "int", "logicalType": "date"}
        case "time":
            return {"type": "long", "logicalType": "time-micros"}
        case "timestamp" | "timestamptz" | "timestamp_ns" | "timestamptz_ns":
            unit = "timestamp-nanos" if primitive.name.endswith("_ns") else "timestamp-micros"
            return {"type": "long", "logicalType": unit, "adjust-to-utc": "tz" in primitive.name}
        case "uuid":
            return {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
        case "fixed":
            return {"type": "fixed", "name": f"fixed_{primitive.length}", "size": primitive.length}
        case "decimal":
            return {
                "type": "fixed",
                "name": f"decimal_{primitive.precision}_{primitive.scale}",
                "size": decimal_size(primitive),
                "logicalType": "decimal",
                "precision": primitive.precision,
                "scale": primitive.scale,
            }
        case other:
            raise Unsupported(f"type {other} cannot be a partition value")


def partition_writer(columns: Sequence[PartitionColumn]) -> Writer:
    """A writer of partition tuples; it checks that each value is of its column's type."""
    writers = [encode.optional(_value_writer(_known(column))) for column in columns]

    def write_partition(out: bytearray, values: Partition) -> None:
        if len(values) != len(writers):
            raise ValueError(f"partition {values!r} does not have the spec's {len(writers)} values")
        for write, value in zip(writers, values, strict=True):
            write(out, value)

    return write_partition


def _value_writer(primitive: Primitive) -> Writer:
    size = decimal_size(primitive)
    writers: dict[str, Writer] = {
        "boolean": lambda out, value: encode.write_boolean(out, _truth(value)),
        "int": lambda out, value: encode.write_int(out, whole(value)),
        "date": lambda out, value: encode.write_int(out, whole(value)),
        "float": lambda out, value: encode.write_float(out, real(value)),
        "double": lambda out, value: encode.write_double(out, real(value)),
        "string": encode.write_string,
        "binary": lambda out, value: encode.write_bytes(out, raw_bytes(value, primitive)),
        "fixed": lambda out, value: encode.write_fixed(out, raw_bytes(value, primitive)),
        "uuid": lambda out, value: encode.write_fixed(out, value.bytes),
        "decimal": lambda out, value: encode.write_fixed(
            out, unscaled(value, primitive).to_bytes(size, "big", signed=True)
        ),
    }
    # What is left is times and long itself.
    return writers.get(primitive.name, lambda out, value: encode.write_long(out, whole(value)))


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not a truth value")
    return value


_KINDS: Mapping[str, tuple[str, ...]] = {
    "boolean": ("boolean",),
    "int": ("int", "long"),
    "float": ("float", "double"),
    "double": ("float", "double"),
    "string": ("string",),
    "binary": ("bytes", "fixed"),
    "fixed": ("bytes", "fixed"),
    "uuid": ("uuid", "fixed", "bytes", "string"),
    "decimal": ("decimal", "fixed", "bytes"),
}


def partition_reader(record: Compiled, columns: Sequence[PartitionColumn]) -> Reader:
    """A reader of partition tuples in the spec's order.

    Raises:
        Malformed: a column of the spec is missing, or its values are of another type.
    """
    if record.kind != "record":
        raise Malformed("its partition field is not a record")
    slots: list[tuple[Reader, int | None]] = [
        (_value_reader(part, columns[slot]) if slot is not None else part.compiled.read, slot)
        for part in record.parts
        for slot in [_slot(part, columns)]
    ]
    missing = set(range(len(columns))) - {slot for _, slot in slots}
    for slot in missing:
        if columns[slot].type is not None and columns[slot].transform != "void":
            raise Malformed(f"it has no values of partition field {columns[slot].name!r}")
    width = len(columns)

    def read_partition(data: bytes, position: int) -> tuple[Partition, int]:
        values: list[Any] = [None] * width
        for read, slot in slots:
            value, position = read(data, position)
            if slot is not None:
                values[slot] = value
        return tuple(values), position

    return read_partition


def _slot(part: Part, columns: Sequence[PartitionColumn]) -> int | None:
    for slot, column in enumerate(columns):
        by_name = part.id is None and part.name in (column.name, avro_name(column.name))
        if part.id == column.field_id or by_name:
            return slot
    return None


def _value_reader(part: Part, column: PartitionColumn) -> Reader:
    compiled = part.compiled
    if column.type is None or column.transform == "void" or compiled.kind == "null":
        return compiled.read
    if compiled.kind not in _KINDS.get(column.type.name, ("int", "long")):
        raise Malformed(f"partition field {column.name!r} is {compiled.kind} and not {column.type}")
    if column.type.name == "uuid" and compiled.kind != "uuid":
        return _converted(compiled.read, UUID if compiled.kind == "string" else _uuid_of)
    if column.type.name == "decimal" and compiled.kind != "decimal":
        scale = column.type.scale or 0
        return _converted(compiled.read, lambda raw: stored_decimal(raw, scale))
    return compiled.read


def _uuid_of(raw: bytes) -> UUID:
    return UUID(bytes=raw)


def _converted(read: Reader, convert: Callable[[Any], Any]) -> Reader:
    def read_converted(data: bytes, position: int) -> tuple[Any, int]:
        value, position = read(data, position)
        return None if value is None else convert(value), position

    return read_converted
