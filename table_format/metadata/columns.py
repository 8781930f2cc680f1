"""Schemas as JSON: walking their columns, checking new ones, comparing them, giving them fresh ids.

Walking checks the shape (members, types, depth) of any schema, old or new. What only a new schema must obey
(known types, unique ids and names, identifier rules, the format version) is `check_new`. Source: Iceberg spec,
"Schemas and Data Types".
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata import defaults, members

MAX_NESTING = 100
MAX_FIELD_ID = 2147483447  # above it the specification reserves ids for metadata columns

_PRIMITIVES = frozenset({
    "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz",
    "string", "uuid", "binary", "timestamp_ns", "timestamptz_ns", "unknown", "variant",
})  # fmt: skip
_FIXED = re.compile(r"fixed\[\s*(\d{1,10})\s*\]", re.ASCII)
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)", re.ASCII)
_GEOMETRY = re.compile(r"geometry\s*(\(\s*([^)]+?)\s*\))?", re.ASCII | re.IGNORECASE)
_GEOGRAPHY = re.compile(r"geography\s*(\(\s*([^,)]+?)\s*(?:,\s*(\w*)\s*)?\))?", re.ASCII | re.IGNORECASE)
_DEFAULT_CRS = "OGC:CRS84"
_EDGES = ("spherical", "vincenty", "thomas", "andoyer", "karney")
_SINCE_V3 = frozenset({"timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geography"})

_STRUCT_KEYS = frozenset({"type", "fields"})
_FIELD_KEYS = frozenset({"id", "name", "required", "type", "doc", "initial-default", "write-default"})
_DEFAULT_KEYS = frozenset({"initial-default", "write-default"})
_LIST_KEYS = frozenset({"type", "element-id", "element", "element-required"})
_MAP_KEYS = frozenset({"type", "key-id", "key", "value-id", "value", "value-required"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One field, list element, map key or map value."""

    id: int
    path: str
    type: str | JsonObject
    """A primitive's canonical text (or unknown text as found), or the nested type's object."""
    required: bool
    parent: "Column | None"
    initial_default: object = None
    write_default: object = None

    def parents(self) -> Iterator["Column"]:
        """The columns around this one, innermost first."""
        outer = self.parent
        while outer is not None:
            yield outer
            outer = outer.parent

    @property
    def is_struct(self) -> bool:
        """Whether the column's type is a struct."""
        return isinstance(self.type, dict) and self.type["type"] == "struct"


def canonical_primitive(text: str) -> str | None:
    """A primitive type as the specification writes it (`decimal(9, 2)`), or None when it is unknown."""
    lower = text.lower()
    if lower in _PRIMITIVES:
        return lower
    if (fixed := _FIXED.fullmatch(lower)) and 0 < int(fixed[1]) <= members.INT_MAX:
        return f"fixed[{int(fixed[1])}]"
    if (decimal := _DECIMAL.fullmatch(lower)) and 0 < int(decimal[1]) <= 38:
        precision, scale = int(decimal[1]), int(decimal[2])
        return f"decimal({precision}, {scale})" if scale <= precision else None
    if geometry := _GEOMETRY.fullmatch(text):
        return f"geometry{geometry[1] or ''}"
    if (geography := _GEOGRAPHY.fullmatch(text)) and (geography[3] or _EDGES[0]).lower() in _EDGES:
        return f"geography{geography[1] or ''}"
    return None


def _meaning(text: str) -> str:
    """A primitive type with what it leaves out spelled, so that equal types are equal texts."""
    known = canonical_primitive(text) or text
    if geometry := _GEOMETRY.fullmatch(known):
        return f"geometry({(geometry[2] or _DEFAULT_CRS).upper()})"
    if geography := _GEOGRAPHY.fullmatch(known):
        return f"geography({(geography[2] or _DEFAULT_CRS).upper()}, {(geography[3] or _EDGES[0]).lower()})"
    return known


def columns(schema: JsonObject) -> list[Column]:
    """Every column at every depth, outer ones before inner ones.

    Raises:
        Invalid: the schema has not the shape of one, or nests too deeply.
    """
    if schema.get("type") != "struct":
        raise Invalid("schema must be of type 'struct'")
    found: list[Column] = []
    level: list[tuple[JsonObject, Column | None]] = [(schema, None)]
    for _ in range(MAX_NESTING):
        below: list[tuple[JsonObject, Column | None]] = []
        for outer_type, outer in level:
            for column in _children(outer_type, outer):
                found.append(column)
                if isinstance(column.type, dict):
                    below.append((column.type, column))
        if not below:
            return found
        level = below
    raise Invalid(f"schema is nested too deeply: at most {MAX_NESTING} levels")


def by_id(schema: JsonObject) -> dict[int, Column]:
    """The columns by field id.

    Raises:
        Invalid: the schema has not the shape of one.
    """
    return {column.id: column for column in columns(schema)}


def identifier_ids(schema: JsonObject) -> list[int]:
    """The ids of the identifier fields, none when absent or null.

    Raises:
        Invalid: not an array of integers.
    """
    if schema.get("identifier-field-ids") is None:
        return []
    return list(members.integers(schema, "identifier-field-ids", "schema", high=members.INT_MAX))


def _children(outer_type: JsonObject, outer: Column | None) -> list[Column]:
    prefix = f"{outer.path}." if outer else ""
    kind = outer_type["type"]
    if kind == "struct":
        fields = members.objects(outer_type, "fields", "struct")
        return [_field(field, prefix, outer) for field in fields]
    if kind == "list":
        return [_part(outer_type, "element", prefix, outer)]
    return [_part(outer_type, "key", prefix, outer), _part(outer_type, "value", prefix, outer)]


def _field(field: JsonObject, prefix: str, outer: Column | None) -> Column:
    path = prefix + members.text(field, "name", "field")
    members.optional_text(field, "doc", f"field {path!r}")
    return Column(
        id=members.integer(field, "id", f"field {path!r}", 0, MAX_FIELD_ID),
        path=path,
        type=_type(members.member(field, "type", f"field {path!r}"), path),
        required=members.boolean(field, "required", f"field {path!r}"),
        parent=outer,
        initial_default=field.get("initial-default"),
        write_default=field.get("write-default"),
    )


def _part(outer_type: JsonObject, part: str, prefix: str, outer: Column | None) -> Column:
    path = prefix + part
    what = f"type of {path!r}"
    return Column(
        id=members.integer(outer_type, f"{part}-id", what, 0, MAX_FIELD_ID),
        path=path,
        type=_type(members.member(outer_type, part, what), path),
        required=True if part == "key" else members.boolean(outer_type, f"{part}-required", what),
        parent=outer,
    )


def _type(value: object, path: str) -> str | JsonObject:
    if isinstance(value, str):
        return canonical_primitive(value) or value
    if isinstance(value, dict) and value.get("type") in ("struct", "list", "map"):
        return value
    raise Invalid(f"type of {path!r} must be a type name or a struct, list or map")


def check_new(schema: JsonObject, format_version: int) -> dict[int, Column]:
    """Check a schema that is to be added, and give its columns by id.

    Raises:
        Invalid: unknown types, duplicate ids or names, bad identifier fields, or too new for the format version.
    """
    found = columns(schema)
    index: dict[int, Column] = {}
    paths: dict[str, Column] = {}
    for column in found:
        if column.id in index:
            first = index[column.id].path
            raise Invalid(f"Invalid schema: multiple fields for id {column.id}: {first} and {column.path}")
        if column.path in paths:
            first_id = paths[column.path].id
            raise Invalid(
                f"Invalid schema: multiple fields for name {column.path}: {first_id} and {column.id}"
            )
        index[column.id] = paths[column.path] = column
        if isinstance(column.type, str) and canonical_primitive(column.type) is None:
            raise Invalid(f"Cannot parse type string to primitive: {column.type[:80]!r} of {column.path!r}")
        _check_values(column)
    _check_version(found, format_version)
    for field_id in identifier_ids(schema):
        _check_identifier(field_id, index)
    return index


def _check_values(column: Column) -> None:
    if column.type == "unknown" and column.required:
        raise Invalid(f"Cannot create required field with unknown type: {column.path}")
    defaults.check_default(column.initial_default, column.type, f"initial-default of {column.path}")
    defaults.check_default(column.write_default, column.type, f"write-default of {column.path}")


def _check_version(found: list[Column], format_version: int) -> None:
    if format_version >= 3:
        return
    problems = []
    for column in found:
        if isinstance(column.type, str) and re.split(r"[ (]", column.type)[0] in _SINCE_V3:
            problems.append(f"Invalid type for {column.path}: {column.type} is not supported until v3")
        if column.initial_default is not None:
            problems.append(
                f"Invalid initial default for {column.path}: non-null default is not supported until v3"
            )
    if problems:
        raise Invalid("\n- ".join([f"Invalid schema for v{format_version}:", *problems]))


def _check_identifier(field_id: int, index: Mapping[int, Column]) -> None:
    column = index.get(field_id)
    if column is None:
        raise Invalid(f"Cannot add fieldId {field_id} as an identifier field: field does not exist")
    reason = None
    if not isinstance(column.type, str) or column.type == "variant":
        reason = "not a primitive type field"
    elif not column.required:
        reason = "not a required field"
    elif column.type in ("float", "double"):
        reason = "must not be float or double field"
    for outer in column.parents():
        if not outer.is_struct:
            reason = f"must not be nested in {outer.path}"
        elif not outer.required:
            reason = f"must not be nested in an optional field {outer.path}"
    if reason:
        raise Invalid(f"Cannot add field {column.path} as an identifier field: {reason}")


def rebuilt(schema: JsonObject, schema_id: int, new_id: Callable[[int], int]) -> JsonObject:
    """A copy with canonical type names and mapped ids; every other key is kept, but a null for "no default".

    `new_id` is asked in the order in which fresh ids are given: all fields of a struct, then inside each of them.
    """
    return {**_rebuilt_type(schema, new_id), "schema-id": schema_id}


def _rebuilt_type(value: Any, new_id: Callable[[int], int]) -> Any:
    if isinstance(value, str):
        return canonical_primitive(value) or value
    if value["type"] == "struct":
        ids = [new_id(field["id"]) for field in value["fields"]]
        fields = [
            {
                **members.without_nulls(field, _DEFAULT_KEYS),
                "id": field_id,
                "type": _rebuilt_type(field["type"], new_id),
            }
            for field, field_id in zip(value["fields"], ids, strict=True)
        ]
        return {**value, "fields": fields}
    parts = ("element",) if value["type"] == "list" else ("key", "value")
    copy = {**value, **{f"{part}-id": new_id(value[f"{part}-id"]) for part in parts}}
    return {**copy, **{part: _rebuilt_type(value[part], new_id) for part in parts}}


def changed_initial_defaults(before: Mapping[int, Column], after: Mapping[int, Column]) -> list[Column]:
    """The columns of `after` whose initial default is not the one that they had."""
    return [
        column
        for column_id, column in after.items()
        if column_id in before and before[column_id].initial_default != column.initial_default
    ]


def covers(known: JsonObject, added: JsonObject) -> bool:
    """Whether `known` says all that `added` says, so that reusing it loses nothing.

    Both mean the same columns and identifier fields, and each key of `added` that we do not know stands in
    `known` with the same value.
    """
    if set(identifier_ids(known)) != set(identifier_ids(added)):
        return False
    return _covers_type(known, added, _STRUCT_KEYS | {"schema-id", "identifier-field-ids"})


def _covers_type(known: object, added: object, own_keys: frozenset[str] | None = None) -> bool:
    if not isinstance(known, dict) or not isinstance(added, dict):
        return _type_name(known) == _type_name(added)
    kind = known["type"]
    if kind != added["type"]:
        return False
    if kind == "struct":
        return (
            _extras_covered(known, added, own_keys or _STRUCT_KEYS)
            and len(known["fields"]) == len(added["fields"])
            and all(
                _covers_field(old, new) for old, new in zip(known["fields"], added["fields"], strict=True)
            )
        )
    keys, parts = (_LIST_KEYS, ("element",)) if kind == "list" else (_MAP_KEYS, ("key", "value"))
    return (
        _extras_covered(known, added, keys)
        and all(known.get(key) == added.get(key) for key in keys if key not in parts)
        and all(_covers_type(known[part], added[part]) for part in parts)
    )


def _covers_field(known: JsonObject, added: JsonObject) -> bool:
    return (
        _extras_covered(known, added, _FIELD_KEYS)
        and all(known.get(key) == added.get(key) for key in _FIELD_KEYS if key != "type")
        and _covers_type(known["type"], added["type"])
    )


def _extras_covered(known: JsonObject, added: JsonObject, own_keys: frozenset[str]) -> bool:
    return all(key in known and known[key] == value for key, value in added.items() if key not in own_keys)


def _type_name(value: object) -> str | None:
    return _meaning(value) if isinstance(value, str) else None
