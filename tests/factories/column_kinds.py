"""Columns of every kind that compaction rewrites, each with values that are easily lost."""

import datetime
import uuid
from decimal import Decimal
from typing import Any

from table_format.jsontypes import JsonObject

_UTC = datetime.UTC
_NOON_UTC = datetime.datetime(2026, 11, 30, 12, 0, 0, 123456, _UTC)
_OLD_UTC = datetime.datetime(1901, 2, 3, 4, 5, 6, 1, _UTC)
_NOON, _OLD = _NOON_UTC.replace(tzinfo=None), _OLD_UTC.replace(tzinfo=None)


def _struct(*fields: tuple[int, str, Any]) -> JsonObject:
    return {
        "type": "struct",
        "fields": [{"id": i, "name": name, "required": False, "type": kind} for i, name, kind in fields],
    }


def _list(element_id: int, element: Any) -> JsonObject:
    return {"type": "list", "element-id": element_id, "element": element, "element-required": False}


def _map(key_id: int, key: Any, value_id: int, value: Any) -> JsonObject:
    return {
        "type": "map",
        "key-id": key_id,
        "key": key,
        "value-id": value_id,
        "value": value,
        "value-required": False,
    }


KINDS: dict[str, tuple[Any, list[Any]]] = {
    "boolean": ("boolean", [True, False]),
    "int": ("int", [-(2**31), 2**31 - 1]),
    "long": ("long", [-(2**63), 2**63 - 1]),
    "float": ("float", [float("nan"), -0.0, float("-inf"), 1.5]),
    "double": ("double", [float("nan"), -0.0, float("inf"), 5e-324]),
    "decimal of 4 bytes": ("decimal(9, 2)", [Decimal("-9999999.99"), Decimal("0.01")]),
    "decimal of 8 bytes": ("decimal(18, 4)", [Decimal("99999999999999.9999"), Decimal("-0.0001")]),
    "decimal of 16 bytes": (
        "decimal(38, 10)",
        [Decimal("1234567890123456789012345678.0123456789"), Decimal("-1E-10")],
    ),
    "date": ("date", [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    "time": ("time", [datetime.time(23, 59, 59, 999999), datetime.time(0)]),
    "timestamp": ("timestamp", [_NOON, _OLD]),
    "timestamptz": ("timestamptz", [_NOON_UTC, _OLD_UTC]),
    "timestamp_ns": ("timestamp_ns", [1, -(2**62), 1_764_504_000_123_456_789]),
    "timestamptz_ns": ("timestamptz_ns", [1, -(2**62), 1_764_504_000_123_456_789]),
    "string": ("string", ["", "grüße 水🧊", "a" * 5000]),
    "binary": ("binary", [b"", b"\x00\xff", b"\xff" * 40]),
    "fixed": ("fixed[3]", [b"\x00\x01\xff", b"\xff\xff\xff"]),
    "uuid": ("uuid", [uuid.UUID(int=1), uuid.UUID(int=2**128 - 1)]),
    "struct": (
        _struct((10, "a", "int"), (11, "b", _struct((12, "c", "string"), (13, "d", "fixed[2]")))),
        [
            {"a": 1, "b": {"c": "x", "d": b"\x00\x01"}},
            {"a": None, "b": None},
            {"a": 2, "b": {"c": None, "d": None}},
        ],
    ),
    "list": (
        _list(10, _struct((11, "a", "long"), (12, "t", "timestamp"))),
        [[], [None], [{"a": 1, "t": _NOON}, {"a": None, "t": None}]],
    ),
    "map": (
        _map(10, "string", 11, _list(12, "decimal(9, 2)")),
        [[], [("k", None), ("l", [Decimal("1.25"), None])], [("", [])]],
    ),
    "map of structs": (
        _map(10, _struct((12, "x", "int"), (13, "y", "string")), 11, _map(14, "int", 15, "binary")),
        [[({"x": 1, "y": "a"}, [(5, b"v"), (6, None)])], []],
    ),
}
"""By name: the type, and values (a null is among the rows anyway)."""


def table_schema(*kinds: str) -> JsonObject:
    """`id`, then a column of each kind, with ids of its own at every level."""
    fields: list[JsonObject] = [{"id": 1, "name": "id", "required": False, "type": "long"}]
    for place, kind in enumerate(kinds):
        base = 100 * (place + 1)
        fields.append(
            {
                "id": base,
                "name": f"c{place}",
                "required": False,
                "type": _shifted(KINDS[kind][0], base),
            }
        )
    return {"type": "struct", "schema-id": 0, "fields": fields}


def _shifted(json_type: Any, base: int) -> Any:
    if isinstance(json_type, list):
        return [_shifted(part, base) for part in json_type]
    if not isinstance(json_type, dict):
        return json_type
    return {
        key: value + base if key in ("id", "element-id", "key-id", "value-id") else _shifted(value, base)
        for key, value in json_type.items()
    }


def rows_of(*kinds: str) -> list[dict[str, Any]]:
    """A row for each value of the kind with most, and one of nulls."""
    most = max(len(KINDS[kind][1]) for kind in kinds)
    rows: list[dict[str, Any]] = [{"id": 0} | {f"c{place}": None for place in range(len(kinds))}]
    for number in range(most):
        row: dict[str, Any] = {"id": number + 1}
        for place, kind in enumerate(kinds):
            values = KINDS[kind][1]
            row[f"c{place}"] = values[number % len(values)]
        rows.append(row)
    return rows
