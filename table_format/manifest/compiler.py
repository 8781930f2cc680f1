"""Avro schemas compiled into readers: nested functions over `decode`.

Fields are known by their Iceberg `field-id`, so names, order and record names of the writer do not matter.
Recursive schemas, items of no size and schemas that unfold without end are refused: no value of them is bounded by
the bytes that hold it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, TypeAlias, cast
from uuid import UUID

from table_format.jsontypes import JsonObject
from table_format.manifest.decode import (
    Malformed,
    Reader,
    pairs,
    pass_bytes_map,
    passing_numbers,
    read_boolean,
    read_bytes,
    read_count,
    read_double,
    read_float,
    read_long,
    read_long_map,
    read_null,
    read_string,
)
from table_format.manifest.values import decimal_of

_MAX_DEPTH = 24
_MAX_WEIGHT = 100_000
_MAX_DECIMAL_BYTES = 32
"""Twice what 38 digits need; the digits of a much longer number take long to find."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A type ready to be read.

    `least` is the fewest bytes a value takes, `weight` its number of nodes when unfolded, `parts` the fields of a
    record, `item` what an array or map holds. An optional type has its value's kind; `rewrap` makes a reader of the
    value one of the option.
    """

    kind: str
    read: Reader
    least: int = 1
    weight: int = 1
    parts: tuple["Part", ...] = ()
    item: "Compiled | None" = None
    rewrap: Callable[[Reader], Reader] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A record's field: `id` is what the writer gave; `key` is that, or the id its name stands for, or its name."""

    id: int | None
    key: int | str
    name: str
    compiled: Compiled


_PLAIN = {
    "null": Compiled(kind="null", read=read_null, least=0),
    "boolean": Compiled(kind="boolean", read=read_boolean),
    "int": Compiled(kind="int", read=read_long),
    "long": Compiled(kind="long", read=read_long),
    "float": Compiled(kind="float", read=read_float, least=4),
    "double": Compiled(kind="double", read=read_double, least=8),
    "bytes": Compiled(kind="bytes", read=read_bytes),
    "string": Compiled(kind="string", read=read_string),
}


@dataclass(slots=True)
class Compiler:
    """Compiles one schema; holds its named types. `ids` gives field ids to names where the writer gave none."""

    ids: Mapping[str, int] = field(default_factory=dict)
    named: dict[str, Compiled | None] = field(default_factory=dict)
    depth: int = 0

    def compile(self, schema: object) -> Compiled:
        """The type, ready to be read.

        Raises:
            Malformed: not an Avro schema, or one that no Iceberg file has.
        """
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise Malformed("its schema is nested too deeply")
        try:
            if isinstance(schema, str):
                return self._by_name(schema)
            if isinstance(schema, list):
                return self._union(schema)
            if isinstance(schema, dict):
                return self._complex(schema)
            raise Malformed(f"{schema!r} is not an Avro schema")
        finally:
            self.depth -= 1

    def _by_name(self, name: str) -> Compiled:
        if name in _PLAIN:
            return _PLAIN[name]
        known = self.named.get(name)
        if known is None:
            raise Malformed(f"its schema uses the type {name!r} without or within its definition")
        return known

    def _complex(self, schema: JsonObject) -> Compiled:
        match schema.get("type"):
            case "record":
                return self._record(schema)
            case "array":
                return self._array(schema)
            case "map":
                return self._map(schema)
            case "fixed":
                return self._name(schema, _fixed(schema))
            case "enum":
                return self._name(schema, _enum(schema))
            case inner:
                compiled = self.compile(inner)
                return _logical(schema, compiled)

    def _name(self, schema: JsonObject, compiled: Compiled | None) -> Compiled:
        name = schema.get("name")
        if not isinstance(name, str):
            raise Malformed("a type of its schema has no name")
        space = schema.get("namespace")
        self.named[name] = compiled
        if isinstance(space, str):
            self.named[f"{space}.{name}"] = compiled
        self.named[name.rpartition(".")[2]] = compiled
        return cast("Compiled", compiled)

    def _record(self, schema: JsonObject) -> Compiled:
        self._name(schema, None)
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise Malformed("a record of its schema has no fields")
        parts = tuple(self._part(raw) for raw in fields)
        members = [(part.key, part.compiled.read) for part in parts]

        def read_record(data: bytes, position: int) -> tuple[dict[int | str, Any], int]:
            values: dict[int | str, Any] = {}
            for key, read in members:
                values[key], position = read(data, position)
            return values, position

        least = sum(part.compiled.least for part in parts)
        weight = 1 + sum(part.compiled.weight for part in parts)
        if weight > _MAX_WEIGHT:
            raise Malformed("its schema is too large")
        return self._name(
            schema, Compiled(kind="record", read=read_record, least=least, weight=weight, parts=parts)
        )

    def _part(self, raw: object) -> Part:
        if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
            raise Malformed("a field of its schema has no name")
        name, key = raw["name"], raw.get("field-id")
        return Part(
            id=key if isinstance(key, int) else None,
            key=key if isinstance(key, int) else self.ids.get(name, name),
            name=name,
            compiled=self.compile(raw.get("type")),
        )

    def _array(self, schema: JsonObject) -> Compiled:
        item = self.compile(schema.get("items"))
        if item.least == 0:
            raise Malformed("its schema has an array of items without size")
        return Compiled(kind="array", read=_array_of(item.read), weight=1 + item.weight, item=item)

    def _map(self, schema: JsonObject) -> Compiled:
        item = self.compile(schema.get("values"))
        read = item.read

        def read_map(data: bytes, position: int) -> tuple[dict[str, Any], int]:
            values: dict[str, Any] = {}
            while True:
                count, position = read_count(data, position)
                if count == 0:
                    return values, position
                for _ in range(count):
                    key, position = read_string(data, position)
                    values[key], position = read(data, position)

        return Compiled(kind="map", read=read_map, weight=1 + item.weight, item=item)

    def _union(self, branches: list[object]) -> Compiled:
        compiled = [self.compile(branch) for branch in branches]
        kinds = [branch.kind for branch in compiled]
        if not compiled:
            raise Malformed("its schema has an empty union")
        other = [branch for branch in compiled if branch.kind != "null"]
        # Only "optional" occurs in Iceberg; its kind is that of the value.
        lone = other[0] if len(other) == 1 else None
        weight = sum(branch.weight for branch in compiled)
        if lone is None:
            read = _choice([branch.read for branch in compiled])
            return Compiled(kind="union" if other else "null", read=read, weight=weight)

        def rewrap(inner: Reader) -> Reader:
            if kinds == ["null", lone.kind]:
                return _optional(inner)
            return _choice([inner if branch is lone else branch.read for branch in compiled])

        return replace(lone, read=rewrap(lone.read), least=1, weight=weight, rewrap=rewrap)


def _array_of(read: Reader) -> Reader:
    def read_array(data: bytes, position: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        while True:
            count, position = read_count(data, position)
            if count == 0:
                return values, position
            for _ in range(count):
                value, position = read(data, position)
                values.append(value)

    return read_array


def _optional(read: Reader) -> Reader:
    def read_optional(data: bytes, position: int) -> tuple[Any, int]:
        branch = data[position]
        if branch == 0:
            return None, position + 1
        if branch != 2:
            raise Malformed("a union has no such branch")
        return read(data, position + 1)

    return read_optional


def _choice(reads: Sequence[Reader]) -> Reader:
    def read_choice(data: bytes, position: int) -> tuple[Any, int]:
        branch, position = read_long(data, position)
        if not 0 <= branch < len(reads):
            raise Malformed("a union has no such branch")
        return reads[branch](data, position)

    return read_choice


def _fixed(schema: JsonObject) -> Compiled:
    size = schema.get("size")
    if type(size) is not int or not 0 <= size < 2**31:
        raise Malformed("a fixed type of its schema has no size")

    def read_fixed(data: bytes, position: int) -> tuple[bytes, int]:
        end = position + size
        if end > len(data):
            raise Malformed("a value is longer than what is left of the file")
        return data[position:end], end

    return _logical(schema, Compiled(kind="fixed", read=read_fixed, least=size))


def _enum(schema: JsonObject) -> Compiled:
    symbols = schema.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise Malformed("an enum of its schema has no symbols")

    def read_enum(data: bytes, position: int) -> tuple[str, int]:
        number, position = read_long(data, position)
        if not 0 <= number < len(symbols):
            raise Malformed("an enum has no such symbol")
        return symbols[number], position

    return Compiled(kind="string", read=read_enum)


def _logical(schema: JsonObject, compiled: Compiled) -> Compiled:
    """The types whose stored form is not already the value that `entries` names."""
    kind, logical = compiled.kind, schema.get("logicalType")
    if logical == "uuid" and (kind == "string" or (kind == "fixed" and compiled.least == 16)):
        make = (lambda raw: UUID(bytes=raw)) if kind == "fixed" else UUID
        return Compiled(kind="uuid", read=_converted(compiled.read, make), least=compiled.least)
    if logical == "decimal" and kind in ("bytes", "fixed"):
        scale = schema.get("scale", 0)
        if type(scale) is not int or not 0 <= scale <= 38:
            raise Malformed("a decimal of its schema has an impossible scale")

        read = _converted(compiled.read, lambda raw: stored_decimal(raw, scale))
        return Compiled(kind="decimal", read=read, least=compiled.least)
    return compiled


def stored_decimal(raw: bytes, scale: int) -> Decimal:
    """A decimal from its big-endian bytes.

    Raises:
        Malformed: it is longer than any decimal.
    """
    if len(raw) > _MAX_DECIMAL_BYTES:
        raise Malformed("a decimal is longer than 38 digits")
    return decimal_of(int.from_bytes(raw, "big", signed=True), scale)


def _converted(read: Reader, convert: Callable[[Any], Any]) -> Reader:
    def read_converted(data: bytes, position: int) -> tuple[Any, int]:
        value, position = read(data, position)
        return convert(value), position

    return read_converted


def array_of(compiled: Compiled, read_item: Reader) -> Reader:
    """The reader of an array whose items are read by another reader of the same bytes."""
    read = _array_of(read_item)
    return compiled.rewrap(read) if compiled.rewrap else read


def id_map(compiled: Compiled, kinds: tuple[str, ...]) -> Reader:
    """The reader of a map with field ids as keys, which Iceberg writes as an array of key-value records.

    Raises:
        Malformed: the type is not such an array, or its values are not of one of the `kinds`.
    """
    item = compiled.item
    if compiled.kind != "array" or item is None or len(item.parts) != 2:
        raise Malformed("a map of its schema is not an array of pairs")
    key, value = item.parts
    if key.compiled.kind not in ("int", "long") or value.compiled.kind not in kinds:
        raise Malformed("a map of its schema has keys or values of another type")
    plain = key.compiled.read is read_long and value.compiled.read is read_long
    read = read_long_map if plain else pairs(key.compiled.read, value.compiled.read)
    return compiled.rewrap(read) if compiled.rewrap else read


Special: TypeAlias = Mapping[str, Callable[[Compiled], Reader]]
_MAP, _ARRAY = "map of ", "array of "


def members(
    record: Compiled,
    expected: Mapping[int, tuple[str, tuple[str, ...]]],
    required: Sequence[str],
    special: Special,
) -> list[tuple[str, Reader]]:
    """Attribute and reader for each field of a record, in the writer's order; "" for fields to pass over.

    `expected` gives attribute and possible types by field id, `special` makes the readers of some attributes.

    Raises:
        Malformed: a required field is missing, or a field is of another type.
    """
    if record.kind != "record":
        raise Malformed(f"its schema has {record.kind} where a record belongs")
    found = []
    for part in record.parts:
        name, kinds = expected.get(part.key, ("", ())) if isinstance(part.key, int) else ("", ())
        if name in special:
            found.append((name, special[name](part.compiled)))
        elif name and part.compiled.kind != "null":
            found.append((name, _expect(part.compiled, name, kinds)))
        else:
            found.append(("", _passing(part.compiled)))
    missing = set(required) - {name for name, _ in found}
    if missing:
        raise Malformed(f"its schema has no field {min(missing)!r}")
    return found


def _passing(compiled: Compiled) -> Reader:
    """A reader that goes past a value: faster than reading it for what manifests have most of, metrics by column."""
    item = compiled.item
    if compiled.kind != "array" or item is None or item.rewrap is not None:
        return compiled.read
    inside = [part.compiled.read for part in item.parts] if item.kind == "record" else [item.read]
    if all(read is read_long for read in inside):
        read = passing_numbers(len(inside))
    elif inside == [read_long, read_bytes]:
        read = pass_bytes_map
    else:
        return compiled.read
    return compiled.rewrap(read) if compiled.rewrap else read


def _expect(compiled: Compiled, name: str, kinds: tuple[str, ...]) -> Reader:
    if kinds[0].startswith(_MAP):
        return id_map(compiled, tuple(kind.removeprefix(_MAP) for kind in kinds))
    kind = compiled.kind
    if kind == "array" and compiled.item is not None:
        kind = _ARRAY + compiled.item.kind
    if kind not in kinds:
        raise Malformed(f"its schema has {kind} for {name!r}")
    return compiled.read


def attributes(found: Sequence[tuple[str, Reader]]) -> Reader:
    """A reader of a record as a dictionary of attributes."""

    def read_attributes(data: bytes, position: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        for name, read in found:
            value, position = read(data, position)
            if name:
                values[name] = value
        return values, position

    return read_attributes
