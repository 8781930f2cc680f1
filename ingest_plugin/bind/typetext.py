"""Types as people write them in a settings file: `long`, `decimal(9,2)`, `list<string>`, `struct<a: int, b: date>`.

Gives Iceberg JSON types without ids.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ingest_plugin.keys import ConfigError
from table_format.errors import TableFormatError
from table_format.schema.types import JsonType, parse_primitive

_OPEN, _CLOSE = "<([", ">)]"
_NOT_WRITABLE = frozenset({"unknown", "timestamp_ns", "timestamptz_ns"})


def parse_type(text: str, column: str) -> JsonType:
    """The Iceberg type that the text names.

    Raises:
        ConfigError: the text names no type that can be written.
    """
    stripped = text.strip()
    head, bracket, rest = stripped.partition("<")
    if not bracket:
        return _primitive(stripped, column)
    if not rest.endswith(">"):
        raise ConfigError(f"schema: type {text!r} of column '{column}' does not end with '>'")
    inner = _split(rest[:-1], text, column)
    match head.strip().lower():
        case "list" if len(inner) == 1:
            element = parse_type(inner[0], column)
            return {"type": "list", "element": element, "element-required": False}
        case "map" if len(inner) == 2:
            key, value = parse_type(inner[0], column), parse_type(inner[1], column)
            if key != "string":
                raise ConfigError(f"schema: the keys of the map in column '{column}' must be string")
            return {"type": "map", "key": key, "value": value, "value-required": False}
        case "struct" if inner:
            return {"type": "struct", "fields": [_member(part, text, column) for part in inner]}
        case _:
            raise ConfigError(
                f"schema: type {text!r} of column '{column}': write list<T>, map<string, T> or struct<name: T>"
            )


@dataclass(frozen=True, slots=True)
class Cast:
    """A wanted type, and what numbers or text of the source stand for; `unit` "" means the value as it is."""

    type: JsonType
    unit: str = ""


_UNITS: Mapping[str, frozenset[str]] = {
    "timestamp": frozenset({"seconds", "millis", "micros", "nanos"}),
    "timestamptz": frozenset({"seconds", "millis", "micros", "nanos"}),
    "time": frozenset({"seconds", "millis", "micros", "nanos"}),
    "date": frozenset({"days"}),
    "decimal": frozenset({"bytes"}),
}


def parse_cast(text: str, column: str) -> Cast:
    """What `fields.cast` says of a column: `TYPE`, or `TYPE from UNIT` where numbers need one.

    Raises:
        ConfigError: the text names no type, or no unit of that type.
    """
    wanted, marker, unit = text.partition(" from ")
    kind = parse_type(wanted, column)
    if not marker:
        return Cast(kind)
    known = _UNITS.get(parse_primitive(kind).name if isinstance(kind, str) else "", frozenset())
    if unit.strip() not in known:
        told = ", ".join(sorted(known)) or "no unit"
        raise ConfigError(
            f"fields.cast: column '{column}': {wanted.strip()} is made from {told}, not {unit!r}"
        )
    return Cast(kind, unit.strip())


def _primitive(text: str, column: str) -> str:
    try:
        primitive = parse_primitive(text)
    except TableFormatError as error:
        raise ConfigError(f"schema: column '{column}': {error.message}") from None
    if primitive.name in _NOT_WRITABLE:
        raise ConfigError(f"schema: column '{column}': type {primitive} cannot be written")
    return str(primitive)


def _member(text: str, whole: str, column: str) -> dict[str, object]:
    name, colon, kind = text.partition(":")
    if not colon or not name.strip():
        raise ConfigError(f"schema: type {whole!r} of column '{column}': write struct<name: type, ...>")
    return {"name": name.strip(), "required": False, "type": parse_type(kind, column)}


def _split(text: str, whole: str, column: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if depth < 0:
            raise ConfigError(f"schema: brackets of type {whole!r} of column '{column}' do not match")
        if letter == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    if depth:
        raise ConfigError(f"schema: brackets of type {whole!r} of column '{column}' do not match")
    return [*parts, text[start:]]
