"""Type names and the shape of JSON schemas (Iceberg spec, "Schemas and Data Types", Appendix C).

Owns the parsing of primitive type texts, the walk over a schema document and fresh field ids. Knows nothing of
Arrow, Parquet or evolution. A schema stays the JSON object it was; a `FieldView` only points into it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, cast

from table_format.errors import Invalid, Unsupported
from table_format.jsontypes import JsonObject

JsonType: TypeAlias = str | JsonObject

MAX_DECIMAL_PRECISION = 38
MAX_DEPTH = 200
"""Levels of nesting that are walked; deeper documents are refused before they exhaust a stack elsewhere."""

_PLAIN = frozenset(
    {
        "unknown",
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "timestamp_ns",
        "timestamptz_ns",
        "string",
        "uuid",
        "binary",
    }
)
_NOT_OFFERED = re.compile(r"variant|(geometry|geography)(\s*\(.*\))?")
_FIXED = re.compile(r"fixed\s*\[\s*(\d{1,10})\s*\]", re.ASCII)
_DECIMAL = re.compile(r"decimal\s*\(\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """A parsed primitive type; `precision` and `scale` only for decimal, `length` only for fixed."""

    name: str
    precision: int | None = None
    scale: int | None = None
    length: int | None = None

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision}, {self.scale})"
        return f"fixed[{self.length}]" if self.name == "fixed" else self.name


class Slot(StrEnum):
    """Where in its parent a field stands."""

    STRUCT = "struct"
    ELEMENT = "element"
    KEY = "key"
    VALUE = "value"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldView:
    """One field of a schema, at any level; `parent_id` is None at the top.

    `path` is the dotted full name (`points.element.x`), `names` the same before joining: names may hold dots.
    """

    id: int
    names: tuple[str, ...]
    type: JsonType
    required: bool
    parent_id: int | None
    slot: Slot
    doc: str | None = None
    initial_default: object = None
    """The JSON single value that rows of older files have (format version 3); None for none."""

    @property
    def path(self) -> str:
        """The dotted full name."""
        return ".".join(self.names)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.names[-1]

    @property
    def primitive(self) -> bool:
        """Whether the field is a leaf."""
        return is_primitive(self.type)


def is_primitive(json_type: JsonType) -> bool:
    """Whether the type is written as text (everything but struct, list and map)."""
    return isinstance(json_type, str)


def parse_primitive(text: str) -> Primitive:
    """The primitive type that the text names; upper case and odd spacing are accepted, as Java accepts them.

    Raises:
        Invalid: no Iceberg type is written like this.
        Unsupported: variant, geometry or geography.
    """
    if not isinstance(text, str):
        raise Invalid(f"expected the name of a primitive type, got {text!r}")
    lowered = text.strip().lower()
    if lowered in _PLAIN:
        return Primitive(name=lowered)
    if match := _DECIMAL.fullmatch(lowered):
        precision, scale = int(match[1]), int(match[2])
        if not 1 <= precision <= MAX_DECIMAL_PRECISION or scale > precision:
            raise Invalid(
                f"type {text!r}: precision must be 1 to {MAX_DECIMAL_PRECISION} and scale 0 to the precision"
            )
        return Primitive(name="decimal", precision=precision, scale=scale)
    if match := _FIXED.fullmatch(lowered):
        if not 1 <= (length := int(match[1])) < 2**31:
            raise Invalid(f"type {text!r}: the length must be positive and fit 31 bits")
        return Primitive(name="fixed", length=length)
    if _NOT_OFFERED.fullmatch(lowered):
        raise Unsupported(f"type {text!r} is not supported; store the value as binary or string")
    raise Invalid(f"unknown type {text!r}")


def walk(schema: JsonObject) -> Iterator[FieldView]:
    """Every field in document order, parents before children.

    Raises:
        Invalid: the document is not a schema, or nested deeper than `MAX_DEPTH`.
    """
    todo = list(reversed(children(schema, None)))
    while todo:
        view = todo.pop()
        yield view
        if len(view.names) > MAX_DEPTH:
            raise Invalid(f"schema is nested deeper than {MAX_DEPTH} levels at {view.names[0]!r}")
        if not isinstance(view.type, str):
            todo.extend(reversed(children(view.type, view)))


def children(json_type: JsonType, parent: FieldView | None) -> list[FieldView]:
    """The fields directly inside a struct, list or map (a schema with `parent` None); none inside a primitive.

    Raises:
        Invalid: a member is missing or of the wrong kind.
    """
    if isinstance(json_type, str):
        return []
    prefix, parent_id = ((), None) if parent is None else (parent.names, parent.id)
    where = ".".join(prefix) or "the schema"
    if not isinstance(json_type, dict):
        raise Invalid(f"type of {where} must be text or an object")
    match json_type.get("type"):
        case "struct":
            return [_struct_field(raw, prefix, parent_id, where) for raw in _members(json_type, where)]
        case "list":
            return [_inner(json_type, Slot.ELEMENT, prefix, parent_id, where)]
        case "map":
            return [
                _inner(json_type, Slot.KEY, prefix, parent_id, where),
                _inner(json_type, Slot.VALUE, prefix, parent_id, where),
            ]
        case other:
            raise Invalid(f"type of {where} is {other!r}: expected struct, list or map")


def _members(json_type: JsonObject, where: str) -> list[JsonObject]:
    fields = json_type.get("fields")
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        raise Invalid(f"'fields' of {where} must be a list of objects")
    return cast("list[JsonObject]", fields)


def _struct_field(raw: JsonObject, prefix: tuple[str, ...], parent_id: int | None, where: str) -> FieldView:
    name, doc, required = raw.get("name"), raw.get("doc"), raw.get("required", False)
    if not isinstance(name, str):
        raise Invalid(f"a field of {where} has no name")
    if not isinstance(required, bool):
        raise Invalid(f"'required' of field {name!r} in {where} must be true or false")
    return FieldView(
        id=_id(raw.get("id"), name, where),
        names=(*prefix, name),
        type=_type(raw.get("type"), name, where),
        required=required,
        parent_id=parent_id,
        slot=Slot.STRUCT,
        doc=doc if isinstance(doc, str) else None,
        initial_default=raw.get("initial-default"),
    )


def _inner(
    json_type: JsonObject, slot: Slot, prefix: tuple[str, ...], parent_id: int | None, where: str
) -> FieldView:
    required = True if slot is Slot.KEY else json_type.get(f"{slot}-required", False)
    if not isinstance(required, bool):
        raise Invalid(f"'{slot}-required' of {where} must be true or false")
    return FieldView(
        id=_id(json_type.get(f"{slot}-id"), slot, where),
        names=(*prefix, slot.value),
        type=_type(json_type.get(slot.value), slot, where),
        required=required,
        parent_id=parent_id,
        slot=slot,
    )


def _id(value: object, name: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"field {name!r} of {where} has no integer id")
    return value


def _type(value: object, name: str, where: str) -> JsonType:
    if not isinstance(value, str | dict):
        raise Invalid(f"field {name!r} of {where} has no type")
    return value


def fields_by_id(schema: JsonObject) -> dict[int, FieldView]:
    """Every field, at any level, by its id.

    Raises:
        Invalid: the document is not a schema, or an id is used twice.
    """
    known: dict[int, FieldView] = {}
    for view in walk(schema):
        if view.id in known:
            raise Invalid(f"field id {view.id} is used twice: {known[view.id].path} and {view.path}")
        known[view.id] = view
    return known


def fields_by_path(schema: JsonObject) -> dict[str, FieldView]:
    """Every field, at any level, by its dotted full name.

    Raises:
        Invalid: the document is not a schema, or two fields share a name.
    """
    known: dict[str, FieldView] = {}
    for view in walk(schema):
        if view.path in known:
            raise Invalid(f"two fields are named {view.path!r}: ids {known[view.path].id} and {view.id}")
        known[view.path] = view
    return known


def max_field_id(schema: JsonObject) -> int:
    """The highest field id at any level; 0 for a schema without fields."""
    return max((view.id for view in walk(schema)), default=0)


def with_fresh_ids(json_type: JsonType, next_id: Callable[[], int]) -> JsonType:
    """The type with every id replaced: all members of one level first, then what is inside each, as Java does.

    Ids in the given type are ignored and may be missing; unknown keys are kept.

    Raises:
        Invalid: the type is not a type.
    """
    if isinstance(json_type, str):
        return json_type
    match json_type.get("type"):
        case "struct":
            numbered = [{**field, "id": next_id()} for field in _members(json_type, "a struct")]
            fields = [
                {**field, "type": with_fresh_ids(_type(field.get("type"), "?", "a struct"), next_id)}
                for field in numbered
            ]
            return {**json_type, "fields": fields}
        case "list":
            element_id = next_id()
            element = with_fresh_ids(_type(json_type.get("element"), "element", "a list"), next_id)
            return {**json_type, "element-id": element_id, "element": element}
        case "map":
            key_id, value_id = next_id(), next_id()
            key = with_fresh_ids(_type(json_type.get("key"), "key", "a map"), next_id)
            value = with_fresh_ids(_type(json_type.get("value"), "value", "a map"), next_id)
            return {**json_type, "key-id": key_id, "key": key, "value-id": value_id, "value": value}
        case other:
            raise Invalid(f"a type is {other!r}: expected struct, list or map")
