"""JSON Schema: one registered schema compiled to columns, and to what has to be done to values before they are bound.

Types come from the schema, checks of values from the columns; what a schema does not pin to one type (several types,
no type, patterns, conditions, schemas inside themselves) is kept whole as JSON text. Properties that the schema does
not name are inferred, as without a schema.
"""

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import orjson

from ingest_plugin.decode import logical
from ingest_plugin.decode.connect_json import SCALARS
from ingest_plugin.decode.formats import SINGLE_COLUMN, Fix, OneType, Reader, Unmappable
from ingest_plugin.decode.json import parse_exactly
from ingest_plugin.decode.jsontext import dump, presentable
from ingest_plugin.decode.registry import RegisteredSchema
from ingest_plugin.decode.values import Row
from table_format.jsontypes import JsonObject
from table_format.schema.types import MAX_DECIMAL_PRECISION, JsonType

_MAX_DEPTH = 60
_MAX_REFS = 100
_VAGUE = ("patternProperties", "if", "not", "$dynamicRef", "$recursiveRef", "dependentSchemas")
_COMBINED = ("oneOf", "anyOf", "allOf")
_CONNECT_TYPES = {"int8": "int", "int16": "int", "int32": "int", "int64": "long", "float32": "float"}
_CONNECT_BASES = {"bytes": "bytes", "int": "int32", "long": "int64", "string": "string"}
_FORMATS = {"date-time": "timestamptz", "date": "date", "uuid": "uuid"}


@dataclass(frozen=True, slots=True)
class _Node:
    """A type, and what is done to its values that are not null (None: nothing)."""

    iceberg: JsonType
    fix: Fix | None = None


_TEXT = _Node("string", lambda value: str(dump(value)))


def compile_json_schema(schema: RegisteredSchema) -> OneType:
    """The reader of a JSON Schema.

    Raises:
        Unmappable: it is no JSON Schema, or refers to what is not among its references.
    """
    documents = {reference.name: orjson.loads(reference.text) for reference in schema.references}
    compiler = _Compiler(documents={**documents, "": orjson.loads(schema.text)})
    root = compiler.node(compiler.documents[""], "", (), "the record")
    if not isinstance(root.iceberg, str) and root.iceberg["type"] == "struct":
        return OneType(reader=Reader(struct=root.iceberg, read=_object_reader(root.fix), trusted=False))
    fields = [{"name": SINGLE_COLUMN, "required": False, "type": root.iceberg}]
    return OneType(
        reader=Reader(
            struct={"type": "struct", "fields": fields},
            read=_single_reader(root.fix),
            trusted=False,
            single=True,
        )
    )


def _object_reader(fix: Fix | None) -> Callable[[bytes, int], Row]:
    def read(data: bytes, start: int) -> Row:
        value = parse_exactly(data[start:])
        if not isinstance(value, dict):
            raise TypeError(f"a JSON {type(value).__name__}, not an object")
        row: Row = value if fix is None else fix(value)
        return row

    return read


def _single_reader(fix: Fix | None) -> Callable[[bytes, int], Row]:
    def read(data: bytes, start: int) -> Row:
        value = parse_exactly(data[start:])
        return {SINGLE_COLUMN: value if fix is None or value is None else fix(value)}

    return read


@dataclass(slots=True)
class _Compiler:
    """Schema documents by the name under which others refer to them; "" is the schema itself."""

    documents: Mapping[str, Any]
    refs: int = field(default=0)

    def node(self, schema: Any, home: str, open_refs: tuple[tuple[str, str], ...], where: str) -> _Node:
        """The node of a schema that stands in the document `home`, inside the references `open_refs`."""
        if where.count(".") > _MAX_DEPTH:
            raise Unmappable(f"{where} is nested too deeply")
        if isinstance(schema, bool):
            return _TEXT
        if not isinstance(schema, dict):
            raise Unmappable(f"{where}: not a JSON Schema")
        if "$ref" in schema:
            return self._ref(schema["$ref"], home, open_refs, where)
        if any(key in schema for key in _VAGUE):
            return _TEXT
        for key in _COMBINED:
            if key in schema:
                return self._combined(key, schema, home, open_refs, where)
        kind = _kind_of(schema)
        if kind == "object":
            return self._object(schema, home, open_refs, where)
        if kind == "array":
            return self._array(schema, home, open_refs, where)
        return _scalar(schema, kind)

    def _ref(self, ref: Any, home: str, open_refs: tuple[tuple[str, str], ...], where: str) -> _Node:
        if not isinstance(ref, str):
            raise Unmappable(f"{where}: a $ref that is no text")
        name, _, fragment = ref.partition("#")
        target = (name or home, fragment)
        if target in open_refs or (not fragment.strip("/") and target[0] in ("", home) and not name):
            return _TEXT
        self.refs += 1
        if self.refs > _MAX_REFS * _MAX_REFS:
            raise Unmappable(f"{where}: too many references")
        if target[0] not in self.documents:
            raise Unmappable(f"{where}: {ref!r} is not among the schema's references")
        found = _pointed(self.documents[target[0]], fragment, where)
        return self.node(found, target[0], (*open_refs, target), where)

    def _combined(
        self,
        key: str,
        schema: JsonObject,
        home: str,
        open_refs: tuple[tuple[str, str], ...],
        where: str,
    ) -> _Node:
        branches = schema[key]
        if not isinstance(branches, list) or not branches:
            raise Unmappable(f"{where}: {key} is no list")
        if any(other in schema for other in _COMBINED if other != key) or "properties" in schema:
            return _TEXT
        real = [one for one in branches if not (isinstance(one, dict) and one.get("type") == "null")]
        return self.node(real[0], home, open_refs, where) if len(real) == 1 else _TEXT

    def _object(
        self, schema: JsonObject, home: str, open_refs: tuple[tuple[str, str], ...], where: str
    ) -> _Node:
        properties, more = schema.get("properties"), schema.get("additionalProperties")
        if not properties:
            if not isinstance(more, dict):
                return _TEXT
            value = self.node(more, home, open_refs, f"{where}.value")
            iceberg: JsonType = {
                "type": "map",
                "key": "string",
                "value": value.iceberg,
                "value-required": False,
            }
            return _Node(iceberg, _values_fix(value.fix))
        if not isinstance(properties, dict):
            raise Unmappable(f"{where}: 'properties' is no object")
        fields, fixes = [], {}
        for name, one in properties.items():
            node = self.node(one, home, open_refs, f"{where}.{name}")
            fields.append({"name": name, "required": False, "type": node.iceberg})
            if node.fix is not None:
                fixes[name] = node.fix
        return _Node({"type": "struct", "fields": fields}, _fields_fix(fixes) if fixes else None)

    def _array(
        self, schema: JsonObject, home: str, open_refs: tuple[tuple[str, str], ...], where: str
    ) -> _Node:
        items = schema.get("items")
        if not isinstance(items, dict) or "prefixItems" in schema:
            return _TEXT
        element = self.node(items, home, open_refs, f"{where}.element")
        iceberg: JsonType = {"type": "list", "element": element.iceberg, "element-required": False}
        return _Node(iceberg, _items_fix(element.fix))


def _pointed(document: Any, fragment: str, where: str) -> Any:
    """What a JSON pointer, or an anchor's name, finds in a document."""
    found = document
    for part in unquote(fragment).strip("/").split("/") if fragment.strip("/") else ():
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, dict) and name in found:
            found = found[name]
        else:
            raise Unmappable(f"{where}: nothing is at '#{fragment}'")
    return found


def _kind_of(schema: JsonObject) -> str | None:
    """The one type that values have beside null; None when there are several, or none is said."""
    kinds = schema.get("type")
    if kinds is None and "properties" in schema:
        return "object"
    given = [kinds] if isinstance(kinds, str) else list(kinds or ())
    real = [kind for kind in given if kind != "null"]
    if sorted(real) == ["integer", "number"]:
        return "number"
    if not given:
        values = [value for value in _choices(schema) if value is not None]
        found = {type(value) for value in values}
        return {str: "string", bool: "boolean", int: "integer"}.get(found.pop()) if len(found) == 1 else None
    return real[0] if len(real) == 1 and isinstance(real[0], str) else None


def _choices(schema: JsonObject) -> list[Any]:
    choices = schema.get("enum")
    if isinstance(choices, list):
        return choices
    return [schema["const"]] if "const" in schema else []


def _scalar(schema: JsonObject, kind: str | None) -> _Node:
    if (named := _connect(schema)) is not None:
        return named
    match kind:
        case "boolean":
            return _Node("boolean")
        case "integer":
            return _Node(_CONNECT_TYPES.get(str(schema.get("connect.type")), "long"))
        case "number":
            return _number(schema)
        case "string":
            return _string(schema)
        case _:
            return _TEXT


def _number(schema: JsonObject) -> _Node:
    if schema.get("connect.type") == "float32":
        return _Node("float")
    step = schema.get("multipleOf")
    if isinstance(step, int | float) and not isinstance(step, bool) and step > 0:
        # 0.01 means two digits behind the point; a step such as 0.25 means them too.
        digits = format(step, ".15f").rstrip("0").partition(".")[2]
        return _Node(f"decimal({MAX_DECIMAL_PRECISION}, {len(digits)})")
    return _Node("double")


def _string(schema: JsonObject) -> _Node:
    encoding, form = schema.get("contentEncoding"), schema.get("format")
    if encoding == "base64" or form == "byte" or schema.get("connect.type") == "bytes":
        return _Node("binary")
    if form == "time":
        return _Node("time", _utc_time)
    return _Node(_FORMATS.get(str(form), "string"))


def _utc_time(value: Any) -> Any:
    """The format has an offset; the column's times are UTC."""
    if not isinstance(value, str):
        return value
    found = datetime.time.fromisoformat(value)
    offset = found.utcoffset()
    if offset is None:
        return value
    day = datetime.datetime.combine(datetime.date(2000, 1, 2), found.replace(tzinfo=None)) - offset
    return day.time().isoformat()


def _connect(schema: JsonObject) -> _Node | None:
    """A logical type that Connect's converter wrote down as the title."""
    base = {"bytes": "bytes", "int32": "int", "int64": "long", "string": "string"}.get(
        str(schema.get("connect.type")) if "connect.type" in schema else str(schema.get("type"))
    )
    if base is None:
        return None
    found = logical.named(schema.get("title"), base, schema.get("connect.parameters") or {})
    if found is None:
        return None
    take = SCALARS[_CONNECT_BASES[base]][1]
    iceberg, inner = found.iceberg, found.fix

    def fix(value: Any) -> Any:
        taken = take(value)
        return presentable(taken if inner is None else inner(taken), iceberg)

    return _Node(iceberg, fix)


def _fields_fix(fixes: Mapping[str, Fix]) -> Fix:
    def fix(value: Any) -> Any:
        if isinstance(value, dict):
            for name, one in fixes.items():
                if (inner := value.get(name)) is not None:
                    value[name] = one(inner)
        return value

    return fix


def _values_fix(one: Fix | None) -> Fix | None:
    if one is None:
        return None
    return lambda value: (
        {name: None if inner is None else one(inner) for name, inner in value.items()}
        if isinstance(value, dict)
        else value
    )


def _items_fix(one: Fix | None) -> Fix | None:
    if one is None:
        return None
    return lambda value: (
        [None if inner is None else one(inner) for inner in value] if isinstance(value, list) else value
    )
