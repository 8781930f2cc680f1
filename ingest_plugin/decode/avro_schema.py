"""Avro schemas compiled once per registry id: a reader schema, the Iceberg struct, and fixes for its values.

The reader schema has the same wire form as the writer's, but no logical types (Arrow takes raw numbers faster than
datetimes), its named types renumbered (no namespaces), and each branch of a union of several wrapped in a record of
one field, so that a value says which branch it is. Every column is optional, so that a schema may grow and shrink.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ingest_plugin.decode import logical as logicals
from ingest_plugin.decode.formats import ALIASES, SINGLE_COLUMN, Fix, Unmappable
from ingest_plugin.decode.jsontext import dump, presentable
from ingest_plugin.decode.values import Row
from table_format.jsontypes import JsonObject
from table_format.schema.types import JsonType

_PRIMITIVES: dict[str, str] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_NAMED = frozenset({"record", "error", "enum", "fixed"})
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """One Avro type: how to read it, what it is in Iceberg (None: only null), what to do to its values."""

    reader: Any
    iceberg: JsonType | None
    fix: Fix | None = None
    empty: bool = False
    """Values take no bytes at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledAvro:
    """What the decoder needs of one writer schema."""

    reader: Any
    struct: JsonObject
    fix: Callable[[Any], Row] | None
    recursive: bool = False
    single: bool = False
    """The schema is no record: the row has the one field `value`."""


@dataclass(slots=True)
class _Names:
    defined: dict[str, Mapped] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    """Records that are being mapped, with their new names."""
    recursive: bool = False
    documents: dict[str, tuple[JsonObject, str]] = field(default_factory=dict)
    counter: int = 0

    def fresh(self) -> str:
        self.counter += 1
        return f"n{self.counter}"


def compile_schema(schema: Any, references: tuple[Any, ...] = ()) -> CompiledAvro:
    """Compile a parsed schema document; references define names that it uses.

    Raises:
        Unmappable: it has nothing to store, or is not an Avro schema.
    """
    names = _Names()
    for reference in references:
        _collect(reference, "", names)
    mapped = _map(schema, "", names, "the record")
    if mapped.iceberg is None:
        raise Unmappable("the schema has no field that holds a value")
    if isinstance(mapped.iceberg, dict) and mapped.iceberg["type"] == "struct" and _is_record(mapped.reader):
        return CompiledAvro(
            reader=mapped.reader, struct=mapped.iceberg, fix=mapped.fix, recursive=names.recursive
        )
    inner = mapped.fix
    return CompiledAvro(
        reader=mapped.reader,
        recursive=names.recursive,
        single=True,
        struct={"type": "struct", "fields": [_optional(SINGLE_COLUMN, mapped.iceberg)]},
        fix=lambda value: {SINGLE_COLUMN: value if inner is None or value is None else inner(value)},
    )


def _is_record(reader: Any) -> bool:
    return isinstance(reader, dict) and reader["type"] == "record"


def _collect(schema: Any, namespace: str, names: _Names) -> None:
    """Remember the documents of named types; they are compiled where they are first used."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, namespace, names)
    elif isinstance(schema, dict):
        if schema.get("type") in _NAMED:
            full, inner = _full_name(schema, namespace)
            names.documents.setdefault(full, (schema, namespace))
            namespace = inner
        for member in schema.get("fields") or ():
            _collect(member.get("type"), namespace, names)
        for key in ("type", "items", "values"):
            _collect(schema.get(key), namespace, names)


def _full_name(schema: JsonObject, namespace: str) -> tuple[str, str]:
    """The full name, and the namespace that holds inside."""
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise Unmappable(f"a {schema.get('type')} has no name")
    if "." in name:
        return name, name.rpartition(".")[0]
    inner = schema.get("namespace", namespace) or ""
    return (f"{inner}.{name}" if inner else name), inner


def _map(schema: Any, namespace: str, names: _Names, where: str) -> Mapped:
    if where.count(".") > _MAX_DEPTH:
        raise Unmappable(f"{where} is nested too deeply")
    if isinstance(schema, list):
        return _union(schema, namespace, names, where)
    if isinstance(schema, str):
        return _named(schema, namespace, names, where)
    kind = _kind_of(schema, where)
    if isinstance(kind, dict | list):
        return _map(kind, namespace, names, where)
    if kind in _NAMED:
        return _map_named_type(schema, namespace, names, where)
    if (logical := _logical(schema)) is not None:
        return logical
    if kind == "array":
        return _array(schema, namespace, names, where)
    if kind == "map":
        values = _map(schema.get("values"), namespace, names, f"{where}.value")
        return _map_type({"type": "map", "values": values.reader}, values)
    if not isinstance(kind, str):
        raise Unmappable(f"{where}: not an Avro schema")
    return _named(kind, namespace, names, where)


def _kind_of(schema: Any, where: str) -> Any:
    if not isinstance(schema, dict):
        raise Unmappable(f"{where}: not an Avro schema")
    return schema.get("type")


def _map_named_type(schema: JsonObject, namespace: str, names: _Names, where: str) -> Mapped:
    if schema["type"] in ("record", "error"):
        return _record(schema, namespace, names, where)
    if schema["type"] == "enum":
        reader = {"type": "enum", "name": names.fresh(), "symbols": schema.get("symbols")}
        mapped = Mapped(reader=reader, iceberg="string")
    else:
        size = _size(schema)
        plain = Mapped(reader={"type": "fixed", "size": size}, iceberg=f"fixed[{size}]")
        found = _logical(schema) or plain
        mapped = replace(found, reader={**found.reader, "name": names.fresh()})
    names.defined[_full_name(schema, namespace)[0]] = mapped
    return mapped


def _named(name: str, namespace: str, names: _Names, where: str) -> Mapped:
    if name == "null":
        return Mapped(reader="null", iceberg=None, empty=True)
    if name in _PRIMITIVES:
        return Mapped(reader=name, iceberg=_PRIMITIVES[name])
    candidates = [name] if "." in name or not namespace else [f"{namespace}.{name}", name]
    for full in candidates:
        if full in names.open:
            names.recursive = True
            return Mapped(reader=names.open[full], iceberg="string", fix=_text_of(full, names))
        if full in names.defined:
            known = names.defined[full]
            return replace(known, reader=known.reader["name"])
        if full in names.documents:
            document, outer = names.documents[full]
            return _map(document, outer, names, where)
    raise Unmappable(f"{where}: unknown type {name!r}")


def _record(schema: JsonObject, namespace: str, names: _Names, where: str) -> Mapped:
    full, inner = _full_name(schema, namespace)
    if full in names.open:
        raise Unmappable(f"{where}: {full} is defined again inside itself")
    name = names.open[full] = names.fresh()
    readers, fields, fixes, empty = [], [], [], True
    for member in schema.get("fields") or ():
        label = str(member["name"])
        mapped = _map(member.get("type"), inner, names, f"{where}.{label}")
        readers.append({"name": label, "type": mapped.reader})
        empty = empty and mapped.empty
        if mapped.iceberg is not None:
            fields.append(_with_aliases(_optional(label, mapped.iceberg), member))
        # A column that can only be null is left out of the row, so that it does not look unknown.
        if mapped.iceberg is None or mapped.fix is not None:
            fixes.append((label, None if mapped.iceberg is None else mapped.fix))
    del names.open[full]
    result = Mapped(
        empty=empty,
        reader={"type": "record", "name": name, "fields": readers},
        iceberg={"type": "struct", "fields": fields} if fields else None,
        fix=_record_fix(fixes) if fixes else None,
    )
    result = _named_record(schema, result)
    names.defined[full] = result
    return result


def _named_record(schema: JsonObject, mapped: Mapped) -> Mapped:
    """The record as the logical type that Connect's name says, if it says one."""
    found = logicals.named(schema.get("connect.name"), "struct", {})
    if found is None or found.fix is None:
        return mapped
    inner, outer = mapped.fix, found.fix
    return replace(
        mapped,
        iceberg=found.iceberg,
        fix=outer if inner is None else lambda value: outer(inner(value)),
    )


def _with_aliases(column: JsonObject, member: JsonObject) -> JsonObject:
    """The column with the names that the field had before: how a rename is told from a new field."""
    aliases = member.get("aliases")
    names = [name for name in aliases if isinstance(name, str) and name] if isinstance(aliases, list) else []
    return {**column, ALIASES: names} if names else column


def _text_of(full: str, names: _Names) -> Fix:
    """Turns a record inside itself into JSON text; its own mapping is known once all of it has been mapped."""

    def fix(value: Any) -> Any:
        mapped = names.defined[full]
        fixed = value if mapped.fix is None else mapped.fix(value)
        return dump(presentable(fixed, mapped.iceberg or "string"))

    return fix


def _record_fix(fixes: list[tuple[str, Fix | None]]) -> Fix:
    def fix(row: Row) -> Row:
        for label, one in fixes:
            if one is None:
                del row[label]
            elif (value := row[label]) is not None:
                row[label] = one(value)
        return row

    return fix


def _optional(name: str, iceberg: JsonType) -> JsonObject:
    return {"name": name, "required": False, "type": iceberg}


def _array(schema: JsonObject, namespace: str, names: _Names, where: str) -> Mapped:
    items = _map(schema.get("items"), namespace, names, f"{where}.element")
    if items.empty:
        # A few bytes could claim any number of them.
        raise Unmappable(f"{where}: an array of elements that take no bytes")
    reader = {"type": "array", "items": items.reader}
    if schema.get("logicalType") == "map" and (pair := _key_value(items)) is not None:
        fix_item = items.fix or (lambda item: item)
        iceberg: JsonType = {"type": "map", "key": pair[0], "value": pair[1], "value-required": False}
        return Mapped(
            reader=reader,
            iceberg=iceberg,
            fix=lambda value: [(item["key"], item["value"]) for item in map(fix_item, value)],
        )
    if items.iceberg is None:
        return Mapped(reader=reader, iceberg=None)
    one = items.fix
    return Mapped(
        reader=reader,
        iceberg={"type": "list", "element": items.iceberg, "element-required": False},
        fix=None if one is None else lambda value: [None if item is None else one(item) for item in value],
    )


def _key_value(items: Mapped) -> tuple[JsonType, JsonType] | None:
    if not isinstance(items.iceberg, dict) or items.iceberg["type"] != "struct":
        return None
    members = {member["name"]: member["type"] for member in items.iceberg["fields"]}
    return (members["key"], members["value"]) if members.keys() == {"key", "value"} else None


def _map_type(reader: JsonObject, values: Mapped) -> Mapped:
    if values.iceberg is None:
        return Mapped(reader=reader, iceberg=None)
    one = values.fix
    return Mapped(
        reader=reader,
        iceberg={"type": "map", "key": "string", "value": values.iceberg, "value-required": False},
        fix=None
        if one is None
        else lambda value: {key: None if item is None else one(item) for key, item in value.items()},
    )


def _union(branches: list[Any], namespace: str, names: _Names, where: str) -> Mapped:
    mapped = [_map(branch, namespace, names, where) for branch in branches]
    real = [(branch, one) for branch, one in zip(branches, mapped, strict=True) if one.reader != "null"]
    if len(real) <= 1:
        only = real[0][1] if real else Mapped(reader="null", iceberg=None)
        return Mapped(reader=[one.reader for one in mapped], iceberg=only.iceberg, fix=only.fix)
    labels = _branch_labels([branch for branch, _ in real], namespace)
    readers: list[Any] = []
    fields, fixes = [], {}
    wrapped = iter(labels)
    for one in mapped:
        if one.reader == "null":
            readers.append("null")
            continue
        label = next(wrapped)
        readers.append(
            {"type": "record", "name": names.fresh(), "fields": [{"name": label, "type": one.reader}]}
        )
        if one.iceberg is not None:
            fields.append(_optional(label, one.iceberg))
        fixes[label] = one.fix if one.iceberg is not None else _drop
    if not fields:
        return Mapped(reader=readers, iceberg=None)
    if not any(fixes.values()):
        return Mapped(reader=readers, iceberg={"type": "struct", "fields": fields})
    return Mapped(reader=readers, iceberg={"type": "struct", "fields": fields}, fix=_union_fix(fixes))


def _drop(_value: Any) -> None:
    return None


def _union_fix(fixes: dict[str, Fix | None]) -> Fix:
    def fix(row: Row) -> Row:
        ((label, value),) = row.items()
        one = fixes[label]
        if one is _drop:
            return {}
        return row if one is None or value is None else {label: one(value)}

    return fix


def _branch_labels(branches: list[Any], namespace: str) -> list[str]:
    """Names of the branches: their type's short name; the full name where two short names are equal."""
    full = []
    for branch in branches:
        kind = branch.get("type") if isinstance(branch, dict) else branch
        named = isinstance(branch, dict) and "name" in branch
        full.append(_full_name(branch, namespace)[0] if named else str(kind))
    short = [name.rpartition(".")[2] for name in full]
    return [
        name if short.count(name) == 1 else whole.replace(".", "_")
        for name, whole in zip(short, full, strict=True)
    ]


def _size(schema: JsonObject) -> int:
    size = schema.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise Unmappable(f"fixed {schema.get('name')!r} has no positive size")
    return size


def _logical(schema: JsonObject) -> Mapped | None:
    """The mapping of a named type on the base types that it has; None: the base type counts.

    Connect's name says more than Avro's: for Debezium's times there is no other.
    """
    kind, logical = schema.get("type"), schema.get("logicalType")
    if not isinstance(kind, str):
        return None
    reader: Any = {"type": "fixed", "size": _size(schema)} if kind == "fixed" else kind
    named = logicals.named(schema.get("connect.name"), kind, _parameters(schema))
    if named is None and logical == "decimal" and kind in ("bytes", "fixed"):
        named = logicals.decimal_of(schema.get("precision"), schema.get("scale"))
    if logical == "uuid" and kind == "fixed" and schema.get("size") == 16:
        named = logicals.Logical("uuid")
    named = named or logicals.AVRO.get((kind, logical))
    return None if named is None else Mapped(reader=reader, iceberg=named.iceberg, fix=named.fix)


def _parameters(schema: JsonObject) -> JsonObject:
    """Connect's parameters, with the scale and precision that Avro's decimal says."""
    given = schema.get("connect.parameters")
    parameters: JsonObject = dict(given) if isinstance(given, dict) else {}
    for name, ours in (("scale", "scale"), ("precision", "connect.decimal.precision")):
        if name in schema:
            parameters.setdefault(ours, schema[name])
    return parameters
