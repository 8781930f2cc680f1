"""Values that have no column type of their own, as JSON text: the inside of recursive records, and of "anything".

Bytes are base64, decimals text, temporal values ISO 8601, maps whose keys are not text lists of pairs.
"""

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Mapping
from typing import Any

import orjson

from table_format.schema.types import JsonType, parse_primitive

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()


class JsonText(str):
    """Text that is JSON already: inside other JSON text it stands as it is, not as text."""

    __slots__ = ()


def dump(value: Any) -> JsonText:
    """JSON text of a value that JSON has, with `JsonText` inside it as it is.

    Raises:
        ValueError: a value that JSON does not have, or one nested too deeply.
    """
    try:
        return JsonText(orjson.dumps(value, default=_inner, option=orjson.OPT_PASSTHROUGH_SUBCLASS).decode())
    except orjson.JSONEncodeError:
        # Whole numbers beyond 64 bits, or something that JSON does not have.
        return _dump_exactly(value)


def _inner(value: Any) -> Any:
    if isinstance(value, JsonText):
        return orjson.Fragment(value)
    raise TypeError


def _dump_exactly(value: Any) -> JsonText:
    try:
        plain = _without_texts(value)
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"no JSON text: {error}") from None
    return JsonText(text)


def _without_texts(value: Any) -> Any:
    if isinstance(value, JsonText):
        return json.loads(value)
    if isinstance(value, dict):
        return {name: _without_texts(inner) for name, inner in value.items()}
    return [_without_texts(inner) for inner in value] if isinstance(value, list) else value


def presentable(value: Any, kind: JsonType) -> Any:
    """A value in the form that Arrow takes for an Iceberg type, in the form that JSON has for it.

    Raises:
        ValueError: a temporal value beyond the years that text has.
    """
    if value is None or isinstance(value, JsonText):
        return value
    if isinstance(kind, str):
        return _primitive(value, parse_primitive(kind).name)
    match kind["type"]:
        case "struct":
            types = {field["name"]: field["type"] for field in kind["fields"]}
            return {name: presentable(inner, types[name]) for name, inner in value.items() if name in types}
        case "list":
            return [presentable(inner, kind["element"]) for inner in value]
        case _:
            return _map(value, kind)


def _map(value: Any, kind: Mapping[str, Any]) -> Any:
    pairs = [
        (presentable(key, kind["key"]), presentable(inner, kind["value"]))
        for key, inner in (value.items() if isinstance(value, dict) else value)
    ]
    return dict(pairs) if kind["key"] == "string" else [list(pair) for pair in pairs]


def _primitive(value: Any, name: str) -> Any:
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    match name:
        case "uuid":
            return str(uuid.UUID(bytes=value))
        case "binary" | "fixed":
            return base64.b64encode(value).decode()
        case "date":
            return _told(lambda: datetime.date.fromordinal(value + _EPOCH_DAY).isoformat(), value)
        case "time":
            return clock_text(value)
        case "timestamp":
            return _told(
                lambda: _after_epoch(value).replace(tzinfo=None).isoformat("T", "microseconds"), value
            )
        case "timestamptz":
            return _told(lambda: _after_epoch(value).isoformat("T", "microseconds"), value)
        case _:
            return value


def clock_text(micros: int) -> str:
    """`HH:MM:SS.ffffff`, also of 24:00:00 and beyond."""
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


def _after_epoch(micros: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(microseconds=micros)


def _told(text: Any, value: Any) -> str:
    try:
        told: str = text()
    except (OverflowError, ValueError):
        raise ValueError(f"{value} is beyond the years 1 to 9999") from None
    return told
