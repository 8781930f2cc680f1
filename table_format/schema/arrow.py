"""Iceberg schemas as Arrow schemas and back.

Field ids ride as `PARQUET:field_id` in the metadata of every Arrow field, list elements, map keys and values
included; docs as `doc`. The Arrow types are those PyIceberg writes (64-bit offsets: no batch outgrows them).
Casting data to such a schema is `conform`'s work.
"""

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.schema.types import (
    MAX_DECIMAL_PRECISION,
    FieldView,
    JsonType,
    Primitive,
    children,
    parse_primitive,
    with_fresh_ids,
)

# The stubs describe Arrow's classes more narrowly than its functions take them.
ArrowField: TypeAlias = "pa.Field[Any]"
ArrowType: TypeAlias = Any
ArrowArray: TypeAlias = Any
compute: Any = pc
kinds: Any = pa.types

FIELD_ID = b"PARQUET:field_id"
DOC = b"doc"

_ARROW: dict[str, pa.DataType] = {
    "unknown": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", tz="UTC"),
    "string": pa.large_string(),
    "uuid": pa.uuid(),
    "binary": pa.large_binary(),
}


def to_arrow(schema: JsonObject) -> pa.Schema:
    """The Arrow schema in which this table's rows are held and written.

    Raises:
        Invalid: the document is not a schema.
        Unsupported: a column is variant, geometry or geography.
    """
    return pa.schema([_arrow_field(view) for view in children(schema, None)])


def arrow_primitive(primitive: Primitive) -> pa.DataType:
    """The Arrow type of one primitive type."""
    if primitive.name == "decimal":
        return pa.decimal128(cast("int", primitive.precision), cast("int", primitive.scale))
    if primitive.name == "fixed":
        return pa.binary(cast("int", primitive.length))
    return _ARROW[primitive.name]


def field_id(field: ArrowField) -> int | None:
    """The Iceberg id that an Arrow field carries, or None."""
    raw = (field.metadata or {}).get(FIELD_ID)
    return int(raw) if raw is not None else None


def _arrow_field(view: FieldView) -> ArrowField:
    metadata = {FIELD_ID: str(view.id).encode()}
    if view.doc:
        metadata[DOC] = view.doc.encode()
    return pa.field(view.name, _arrow_type(view), nullable=not view.required, metadata=metadata)


def _arrow_type(view: FieldView) -> pa.DataType:
    if isinstance(view.type, str):
        return arrow_primitive(parse_primitive(view.type))
    inner = [_arrow_field(child) for child in children(view.type, view)]
    match view.type["type"]:
        case "struct":
            return pa.struct(inner)
        case "list":
            return pa.large_list(inner[0])
        case _:
            return _map_of(inner[0], inner[1])


def _map_of(key: Any, value: Any) -> pa.DataType:
    return pa.map_(key, value)


def from_arrow(schema: pa.Schema) -> JsonObject:
    """The Iceberg schema for a table to be created from Arrow data; fresh ids from 1, level by level.

    Raises:
        Invalid: a column has no Iceberg type, or two columns share a name.
    """
    if len(set(schema.names)) != len(schema.names):
        raise Invalid(f"two columns share a name: {sorted(schema.names)}")
    fields = [_struct_member(field, field.name) for field in schema]
    ids = itertools.count(1)
    return cast("JsonObject", with_fresh_ids({"type": "struct", "fields": fields}, lambda: next(ids)))


def _struct_member(field: ArrowField, path: str) -> JsonObject:
    member: JsonObject = {
        "name": field.name,
        "required": not field.nullable,
        "type": _json_type(field.type, path),
    }
    doc = (field.metadata or {}).get(DOC)
    return {**member, "doc": doc.decode()} if doc else member


def _json_type(arrow: ArrowType, path: str) -> JsonType:
    if kinds.is_dictionary(arrow) or kinds.is_run_end_encoded(arrow):
        return _json_type(arrow.value_type, path)
    if kinds.is_struct(arrow):
        return {
            "type": "struct",
            "fields": [_struct_member(field, f"{path}.{field.name}") for field in arrow],
        }
    if kinds.is_map(arrow):
        return {
            "type": "map",
            "key": _json_type(arrow.key_type, f"{path}.key"),
            "value": _json_type(arrow.item_type, f"{path}.value"),
            "value-required": not arrow.item_field.nullable,
        }
    if is_list(arrow):
        element = arrow.value_field
        return {
            "type": "list",
            "element": _json_type(element.type, f"{path}.element"),
            "element-required": not element.nullable,
        }
    for matches, name in _NAMES:
        if matches(arrow):
            return name
    return _parameterised(arrow, path)


def is_list(arrow: ArrowType) -> bool:
    """Whether the Arrow type is any of its five list layouts (maps excluded)."""
    checks = (
        kinds.is_list,
        kinds.is_large_list,
        kinds.is_fixed_size_list,
        kinds.is_list_view,
        kinds.is_large_list_view,
    )
    return any(check(arrow) for check in checks)


def is_string(arrow: ArrowType) -> bool:
    """Whether the Arrow type is text in any layout."""
    return bool(kinds.is_string(arrow) or kinds.is_large_string(arrow) or kinds.is_string_view(arrow))


def is_binary(arrow: ArrowType) -> bool:
    """Whether the Arrow type is bytes of varying length in any layout."""
    return bool(kinds.is_binary(arrow) or kinds.is_large_binary(arrow) or kinds.is_binary_view(arrow))


def _is_int(arrow: ArrowType) -> bool:
    return bool(kinds.is_integer(arrow) and (arrow.bit_width < 32 or kinds.is_int32(arrow)))


# An unsigned integer takes the narrowest type that holds all its values.
_NAMES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (kinds.is_null, "unknown"),
    (kinds.is_boolean, "boolean"),
    (_is_int, "int"),
    (kinds.is_int64, "long"),
    (kinds.is_uint32, "long"),
    (kinds.is_uint64, "decimal(20, 0)"),
    (kinds.is_float16, "float"),
    (kinds.is_float32, "float"),
    (kinds.is_float64, "double"),
    (kinds.is_date, "date"),
    (kinds.is_time, "time"),
    (is_string, "string"),
    (is_binary, "binary"),
    (lambda arrow: bool(arrow == pa.uuid()), "uuid"),
)


def _parameterised(arrow: ArrowType, path: str) -> str:
    if kinds.is_timestamp(arrow):
        name = "timestamp" if arrow.tz is None else "timestamptz"
        return f"{name}_ns" if arrow.unit == "ns" else name
    if kinds.is_decimal(arrow) and arrow.precision <= MAX_DECIMAL_PRECISION and arrow.scale >= 0:
        return f"decimal({arrow.precision}, {arrow.scale})"
    if kinds.is_fixed_size_binary(arrow):
        return f"fixed[{arrow.byte_width}]"
    raise Invalid(f"column {path!r}: the Arrow type {arrow} has no Iceberg type")
