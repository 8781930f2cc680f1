"""JSON values in the form that Arrow takes for an Iceberg type, or `Mismatch`. Nothing is rounded or guessed.

Temporal columns take ISO 8601 text only: a bare number does not say whether it counts seconds or milliseconds. Digits
beyond the microsecond are cut, as the documentation says.
"""

import base64
import datetime
import decimal
import reprlib
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from table_format.schema.types import Primitive

Convert: TypeAlias = Callable[[Any], Any]
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_MICRO = datetime.timedelta(microseconds=1)
_MAX_FLOAT = 3.4028234663852886e38
_FLOAT_DIGITS = 15  # what a double keeps of any decimal number
_EXACT_FLOAT = 10.0**_FLOAT_DIGITS
"""From here on a double may stand for another number than the text said, however short it prints."""
_SHOWN = 60


class Mismatch(Exception):
    """A value does not fit its column; the message says why."""


@dataclass(frozen=True, slots=True)
class Coercion:
    """How one primitive type takes JSON values: `direct` kinds go to Arrow as they are, others through `convert`."""

    direct: frozenset[type]
    convert: Convert


_DAY_MICROS = 24 * 60 * 60 * 1_000_000


def _time_of_day(value: Any) -> int:
    # Readers would show it wrapped around midnight, or fail.
    if type(value) is not int or not 0 <= value < _DAY_MICROS:
        raise Mismatch(f"{value} microseconds are no time of day")
    return value


TRUSTED_TIME = Coercion(frozenset(), _time_of_day)
"""What is checked of a time that comes in microseconds already."""


def mismatch(wanted: object, value: object) -> Mismatch:
    """`expected long, got string "abc"`."""
    # Plain repr would fail on a value nested a thousand levels deep.
    text = reprlib.repr(value) if not isinstance(value, str) else '"' + value + '"'
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", dict: "object", list: "array"}
    return Mismatch(f"expected {wanted}, got {kinds.get(type(value), type(value).__name__)} {shown}")


def coercion(primitive: Primitive) -> Coercion:
    """The coercion for a primitive type."""
    name = primitive.name
    direct = _DIRECT.get(name, frozenset())
    if name == "decimal":
        return Coercion(direct, _decimal(primitive))
    convert = _CONVERT.get(name)
    if convert is None:
        return Coercion(direct, _refuse(primitive))
    return Coercion(direct, convert)


_DIRECT: Mapping[str, frozenset[type]] = {
    "boolean": frozenset({bool}),
    "int": frozenset({int}),
    "long": frozenset({int}),
    "double": frozenset({float, int}),
    "string": frozenset({str}),
}


def _refuse(primitive: Primitive) -> Convert:
    def convert(value: Any) -> Any:
        raise mismatch(primitive, value)

    return convert


def _whole(value: Any) -> int:
    """JSON does not tell 1.0 from 1, so a float without a fraction is a whole number."""
    if type(value) is not float or not value.is_integer():
        raise mismatch("a whole number", value)
    if abs(value) >= _EXACT_FLOAT:
        raise mismatch("a whole number without fraction or exponent (this large it is not exact)", value)
    return int(value)


def _float(value: Any) -> float:
    if type(value) not in (int, float):
        raise mismatch("float", value)
    if abs(value) > _MAX_FLOAT:
        raise mismatch("a number in the range of float", value)
    if type(value) is int and struct.unpack("f", struct.pack("f", value))[0] != value:
        raise mismatch("a whole number that a float holds exactly", value)
    return float(value)


def _text(kind: str, value: Any) -> str:
    if not isinstance(value, str):
        raise mismatch(f"{kind} as text", value)
    return value


def _date(value: Any) -> int:
    text = _text("date", value)
    try:
        return datetime.date.fromisoformat(text).toordinal() - _EPOCH_DAY
    except ValueError:
        raise mismatch("an ISO 8601 date", value) from None


def _time(value: Any) -> int:
    text = _text("time", value)
    try:
        found = datetime.time.fromisoformat(text)
    except ValueError:
        raise mismatch("an ISO 8601 time", value) from None
    if found.tzinfo is not None:
        raise mismatch("a time without zone", value)
    return ((found.hour * 60 + found.minute) * 60 + found.second) * 1_000_000 + found.microsecond


def _moment(value: Any) -> datetime.datetime:
    text = _text("a timestamp", value)
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        raise mismatch("an ISO 8601 timestamp", value) from None


def _timestamptz(value: Any) -> int:
    found = _moment(value)
    if found.tzinfo is None:
        raise mismatch("a timestamp with zone (such as Z)", value)
    return (found - _EPOCH) // _MICRO


def _timestamp(value: Any) -> int:
    found = _moment(value)
    if found.tzinfo is not None:
        raise mismatch("a timestamp without zone", value)
    return (found.replace(tzinfo=datetime.UTC) - _EPOCH) // _MICRO


def _uuid(value: Any) -> bytes:
    text = _text("uuid", value)
    try:
        return uuid.UUID(text).bytes
    except ValueError:
        raise mismatch("a UUID", value) from None


def _base64(value: Any) -> bytes:
    text = _text("bytes", value)
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise mismatch("bytes in base64", value) from None


def _decimal(primitive: Primitive) -> Convert:
    exact = decimal.Context(prec=100, traps=[decimal.Inexact, decimal.InvalidOperation])
    unit = decimal.Decimal((0, (1,), -(primitive.scale or 0)))

    def convert(value: Any) -> decimal.Decimal:
        if type(value) not in (int, float, str):
            raise mismatch(primitive, value)
        try:
            found = exact.create_decimal(repr(value) if type(value) is float else value)
            if type(value) is float and not _is_exact(value, found):
                raise mismatch(f"{primitive} as text (a JSON number this long is not exact)", value)
            quantised = found.quantize(unit, context=exact)
        except decimal.DecimalException:
            raise mismatch(primitive, value) from None
        if len(quantised.as_tuple().digits) > (primitive.precision or 0):
            raise mismatch(primitive, value)
        return quantised

    return convert


def _is_exact(value: float, printed: decimal.Decimal) -> bool:
    """Whether the double surely is what the JSON text said."""
    return abs(value) < _EXACT_FLOAT and len(printed.as_tuple().digits) <= _FLOAT_DIGITS


_CONVERT: Mapping[str, Convert] = {
    "int": _whole,
    "long": _whole,
    "float": _float,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "uuid": _uuid,
    "binary": _base64,
    "fixed": _base64,
}
