"""Columns, rows and values of histories. A value is as the Java driver takes it: JSON, other than numbers as text."""

import datetime
import decimal
import random
import uuid
from typing import Any, TypeAlias

from table_format.jsontypes import JsonObject

Row: TypeAlias = dict[str, Any]

PLAIN = ("int", "long", "float", "double", "boolean", "string", "date", "timestamp", "timestamptz")
OTHERS = ("decimal(9,2)", "binary", "uuid", "fixed[4]", "time")
NESTED: tuple[JsonObject, ...] = (
    {"type": "struct", "fields": [("a", "long"), ("b", "string")]},
    {"type": "list", "element": "string"},
    {"type": "map", "key": "string", "value": "int"},
)
PROMOTIONS = {"int": "long", "float": "double", "decimal(9,2)": "decimal(18,2)"}
_WORDS = ("", "a", "b", "ab", "grüße", "x" * 40, "水🧊", "%", "it's", "null")
_DAY = datetime.timedelta(days=1)
_DAYS_BACK = (0, 1, 100, 364)
TODAY = datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)
"""The newest times of rows are of that day."""


def key_column(rng: random.Random) -> str:
    return rng.choice(("int", "long", "long", "string"))


def nested_type(shape: JsonObject, first_id: int) -> JsonObject:
    """The type with field ids from `first_id`."""
    if shape["type"] == "struct":
        fields = [
            {"id": first_id + place, "name": name, "required": False, "type": kind}
            for place, (name, kind) in enumerate(shape["fields"])
        ]
        return {"type": "struct", "fields": fields}
    if shape["type"] == "list":
        return {
            "type": "list",
            "element-id": first_id,
            "element": shape["element"],
            "element-required": False,
        }
    ids = {"key-id": first_id, "value-id": first_id + 1, "value-required": False}
    return {"type": "map", "key": shape["key"], "value": shape["value"], **ids}


def value(rng: random.Random, kind: Any, *, key: bool = False) -> Any:
    """Some value of the type; of few different ones for a key."""
    if not key and rng.random() < 0.15:
        return None
    if not isinstance(kind, str):
        return _nested(rng, kind)
    if key:
        number = rng.randrange(12)
        return f"k{number}" if kind == "string" else number
    return _primitive(rng, kind)


def old(rng: random.Random, kind: str) -> str:
    """A time long ago, of a type of times."""
    return str(_time(kind, TODAY - rng.randrange(300, 360) * _DAY))


def _time(kind: str, moment: datetime.datetime) -> str:
    if kind == "date":
        return moment.date().isoformat()
    naive = moment if kind == "timestamptz" else moment.replace(tzinfo=None)
    return naive.isoformat(timespec="microseconds")


def _primitive(rng: random.Random, kind: str) -> Any:  # noqa: PLR0911 - one for each kind
    if kind == "int":
        return rng.choice((0, -1, 2**31 - 1, -(2**31), rng.randrange(1000)))
    if kind == "long":
        return rng.choice((0, -1, 2**63 - 1, -(2**63), rng.randrange(1000)))
    if kind in ("float", "double"):
        return rng.choice((0.0, -1.5, 0.25, rng.randrange(1000) / 8))
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "string":
        return rng.choice(_WORDS)
    moment = (
        TODAY - rng.choice(_DAYS_BACK) * _DAY + datetime.timedelta(microseconds=rng.randrange(86_400_000_000))
    )
    if kind == "date" or kind.startswith("timestamp"):
        return _time(kind, moment)
    if kind == "time":
        return moment.time().isoformat(timespec="microseconds")
    if kind.startswith("decimal"):
        return f"{decimal.Decimal(rng.randrange(-(10**6), 10**6)).scaleb(-2):.2f}"
    if kind == "uuid":
        return str(uuid.UUID(int=rng.getrandbits(128)))
    return rng.randbytes(4).hex()  # binary and fixed[4]


def _nested(rng: random.Random, kind: JsonObject) -> Any:
    if kind["type"] == "struct":
        return {field["name"]: value(rng, field["type"]) for field in kind["fields"]}
    if kind["type"] == "list":
        return [value(rng, kind["element"]) for _ in range(rng.randrange(3))]
    return {f"k{number}": value(rng, kind["value"]) for number in range(rng.randrange(3))}


def native(kind: Any, given: Any) -> Any:  # noqa: PLR0911 - one for each kind
    """The value as Arrow takes it from Python."""
    if given is None:
        return None
    if not isinstance(kind, str):
        if kind["type"] == "struct":
            return {field["name"]: native(field["type"], given[field["name"]]) for field in kind["fields"]}
        if kind["type"] == "list":
            return [native(kind["element"], item) for item in given]
        return [(k, native(kind["value"], v)) for k, v in given.items()]
    if kind == "date":
        return datetime.date.fromisoformat(given)
    if kind.startswith("timestamp"):
        return datetime.datetime.fromisoformat(given)
    if kind == "time":
        return datetime.time.fromisoformat(given)
    if kind.startswith("decimal"):
        return decimal.Decimal(given)
    if kind == "uuid":
        return uuid.UUID(given).bytes
    return bytes.fromhex(given) if kind == "binary" or kind.startswith("fixed") else given


_SQL = {"int": "INTEGER", "long": "BIGINT", "float": "FLOAT", "string": "VARCHAR", "binary": "BLOB"}


def literal(kind: Any, given: Any) -> str:
    """The value in DuckDB's SQL."""
    if given is None:
        return "NULL"
    if not isinstance(kind, str):
        if kind["type"] == "struct":
            parts = [f"'{f['name']}': {literal(f['type'], given[f['name']])}" for f in kind["fields"]]
            return f"{{{', '.join(parts)}}}"
        if kind["type"] == "list":
            return f"[{', '.join(literal(kind['element'], item) for item in given)}]::VARCHAR[]"
        pairs = [f"'{k}': {literal(kind['value'], v)}" for k, v in given.items()]
        return f"MAP {{{', '.join(pairs)}}}" if pairs else "MAP {}::MAP(VARCHAR, INTEGER)"
    if kind == "binary" or kind.startswith("fixed"):
        return f"from_hex('{given}')"
    escaped = str(given).replace("'", "''")
    return f"'{escaped}'::{_SQL.get(kind, kind)}"
