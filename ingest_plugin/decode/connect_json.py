"""`connect_json`: JSON with the schema beside the value, as Kafka Connect's JsonConverter writes it.

Every record carries its whole schema; equal schemas are compiled once. Values are checked against it: a number where
the schema says text is a bad record.
"""

import base64
import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from ingest_plugin.decode import logical
from ingest_plugin.decode.formats import BAD_BYTES, SINGLE_COLUMN, Fix, Unmappable
from ingest_plugin.decode.framing import Part
from ingest_plugin.decode.json import parse_exactly
from ingest_plugin.decode.values import DataError, Decoded, Group, invalid, unmappable
from ingest_plugin.kafka import Message
from table_format.jsontypes import JsonObject
from table_format.schema.types import JsonType

_MAX_DEPTH = 60
_MAX_SCHEMAS = 1000
_MAX_FLOAT = 3.4028234663852886e38
_NOT_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True, slots=True)
class _Node:
    """A type, and the function that checks a value that is not null and gives it in Arrow's form."""

    iceberg: JsonType
    take: Fix


@dataclass(frozen=True, slots=True)
class _Compiled:
    key: bytes
    struct: JsonObject
    take: Fix
    single: bool = False


class ConnectJsonDecoder:
    """One group per schema, in order of first appearance."""

    def __init__(self, part: Part = Part.VALUE) -> None:
        self._part = part
        self._compiled: dict[bytes, _Compiled | DataError] = {}

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """Rows by schema, and data errors."""
        payload = self._part.payload
        result = Decoded()
        groups: dict[bytes, Group] = {}
        for position, message in enumerate(messages):
            found = self._row(payload(message))
            if isinstance(found, DataError):
                result.errors[position] = found
                continue
            compiled, row = found
            group = groups.get(compiled.key)
            if group is None:
                group = groups[compiled.key] = Group(
                    rows=[],
                    positions=[],
                    struct=compiled.struct,
                    schema_key=compiled.key,
                    single=compiled.single,
                )
            group.rows.append(row)
            group.positions.append(position)
        result.groups.extend(groups.values())
        return result

    def _row(self, data: bytes | None) -> tuple[_Compiled, Any] | DataError:
        if data is None:
            return invalid(f"the {self._part} is null")
        try:
            document = parse_exactly(data)
        except (ValueError, RecursionError) as error:
            return invalid(f"not valid JSON: {error}")
        if not isinstance(document, dict) or document.keys() != {"schema", "payload"}:
            return invalid('not {"schema": …, "payload": …}; for JSON without a schema write "json"')
        schema, value = document["schema"], document["payload"]
        if schema is None and value is None:
            return invalid(f"the {self._part} is null")
        compiled = self._of(schema)
        if isinstance(compiled, DataError):
            return compiled
        if value is None:
            return invalid("the payload is null")
        try:
            return compiled, compiled.take(value)
        except BAD_BYTES as error:
            return invalid(f"not a value of its schema: {error}")

    def _of(self, schema: Any) -> _Compiled | DataError:
        key = orjson.dumps(schema)
        known = self._compiled.get(key)
        if known is None:
            if len(self._compiled) >= _MAX_SCHEMAS:
                self._compiled.clear()
            try:
                known = _compile(schema, key)
            except (Unmappable, LookupError, TypeError, ValueError) as error:
                known = unmappable(f"the schema cannot become a table: {error}")
            self._compiled[key] = known
        return known


def _compile(schema: Any, key: bytes) -> _Compiled:
    node = _node(schema, "the record")
    if not isinstance(node.iceberg, str) and node.iceberg["type"] == "struct":
        if not node.iceberg["fields"]:
            raise Unmappable("it has no field")
        return _Compiled(key, node.iceberg, node.take)
    fields = [{"name": SINGLE_COLUMN, "required": False, "type": node.iceberg}]
    take = node.take
    return _Compiled(
        key, {"type": "struct", "fields": fields}, lambda value: {SINGLE_COLUMN: take(value)}, single=True
    )


def _node(schema: Any, where: str) -> _Node:
    if where.count(".") > _MAX_DEPTH:
        raise Unmappable(f"{where} is nested too deeply")
    if not isinstance(schema, dict):
        raise Unmappable(f"{where}: not a Connect schema")
    plain = _plain(schema, where)
    found = logical.named(
        schema.get("name"), _LOGICAL_BASES.get(str(schema.get("type")), ""), _parameters(schema)
    )
    if found is None:
        return plain
    take, fix = plain.take, found.fix
    if fix is None:
        return _Node(found.iceberg, take)
    if schema.get("type") == "bytes":
        return _Node(found.iceberg, lambda value: _decimal(value, take, fix))
    return _Node(found.iceberg, lambda value: fix(take(value)))


def _decimal(value: Any, take: Fix, fix: Fix) -> Any:
    """Bytes in base64, or a number where the converter's decimal.format says so and JSON's number is exact."""
    if type(value) is int:
        return decimal.Decimal(value)
    if type(value) is float:
        printed = decimal.Decimal(repr(value))
        if len(printed.as_tuple().digits) > 15:
            raise ValueError(f"{value} is not exact as a JSON number")
        return printed
    return fix(take(value))


def _parameters(schema: JsonObject) -> Mapping[str, Any]:
    parameters = schema.get("parameters")
    return parameters if isinstance(parameters, dict) else {}


def _plain(schema: JsonObject, where: str) -> _Node:
    kind = schema.get("type")
    match kind:
        case "struct":
            return _struct(schema, where)
        case "array":
            items = _node(schema.get("items"), f"{where}.element")
            return _Node(
                {"type": "list", "element": items.iceberg, "element-required": False},
                lambda value: [None if one is None else items.take(one) for one in _of_kind(list, value)],
            )
        case "map":
            return _map(schema, where)
        case _ if isinstance(kind, str) and kind in SCALARS:
            iceberg, take = SCALARS[kind]
            return _Node(iceberg, take)
    raise Unmappable(f"{where}: unknown type {kind!r}")


def _struct(schema: JsonObject, where: str) -> _Node:
    members = [
        (str(one["field"]), _node(one, f"{where}.{one['field']}")) for one in schema.get("fields") or ()
    ]
    names = {name for name, _ in members}
    fields = [{"name": name, "required": False, "type": node.iceberg} for name, node in members]

    def take(value: Any) -> Any:
        row = _of_kind(dict, value)
        if not row.keys() <= names:
            raise ValueError(f"field {min(row.keys() - names)!r} is not in the schema")
        result = {}
        for name, node in members:
            inner = row.get(name)
            try:
                result[name] = None if inner is None else node.take(inner)
            except BAD_BYTES as error:
                raise ValueError(f"field '{name}': {error}") from None
        return result

    return _Node({"type": "struct", "fields": fields}, take)


def _map(schema: JsonObject, where: str) -> _Node:
    keys, values = _node(schema.get("keys"), f"{where}.key"), _node(schema.get("values"), f"{where}.value")

    def take(value: Any) -> Any:
        pairs = value.items() if isinstance(value, dict) else _of_kind(list, value)
        return [(keys.take(key), None if one is None else values.take(one)) for key, one in pairs]

    return _Node({"type": "map", "key": keys.iceberg, "value": values.iceberg, "value-required": False}, take)


def _of_kind(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"a {type(value).__name__}, not a {kind.__name__}")
    return value


def _whole(bits: int) -> Fix:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def take(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"{value!r} is no whole number of {bits} bits")
        return value

    return take


def _fraction(value: Any) -> float:
    """JSON has no NaN and no infinity: the converter writes them as text."""
    if type(value) is str and value in _NOT_NUMBERS:
        return _NOT_NUMBERS[value]
    if type(value) not in (int, float):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _float(value: Any) -> float:
    found = _fraction(value)
    if math.isfinite(found) and abs(found) > _MAX_FLOAT:
        raise ValueError(f"{value!r} is beyond the range of float")
    return found


def _bytes(value: Any) -> bytes:
    if type(value) is not str:
        raise ValueError(f"{value!r} is no base64 text")
    return base64.b64decode(value, validate=True)


SCALARS: Mapping[str, tuple[JsonType, Callable[[Any], Any]]] = {
    "boolean": ("boolean", lambda value: _of_kind(bool, value)),
    "int8": ("int", _whole(8)),
    "int16": ("int", _whole(16)),
    "int32": ("int", _whole(32)),
    "int64": ("long", _whole(64)),
    "float": ("float", _float),
    "double": ("double", _fraction),
    "string": ("string", lambda value: _of_kind(str, value)),
    "bytes": ("binary", _bytes),
}
"""Connect's scalar types: their column's type, and the check of a JSON value."""
_LOGICAL_BASES = {"int32": "int", "int64": "long", "string": "string", "bytes": "bytes", "struct": "struct"}
