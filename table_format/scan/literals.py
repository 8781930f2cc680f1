"""Literals of a filter, from the JSON value that came to a value of the column's type, by Java's rules.

Results are comparables: text as UTF-8 (whose byte order is that of its characters), UUIDs and fixed as bytes, decimals
as `Decimal`, everything else as the internal value that `manifest.entries` names. A number beyond the type's range is
`Beyond`: comparing with it has the same answer for every value.
"""

import math
import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from enum import Enum
from typing import Any, TypeAlias

from table_format.errors import Invalid
from table_format.scan.expressions import Literal
from table_format.scan.single_values import civil, days_of
from table_format.schema.types import Primitive

Comparable: TypeAlias = bool | int | float | bytes | Decimal


class Beyond(Enum):
    """Where a literal lies that no value of the column's type reaches."""

    ABOVE = "above"
    BELOW = "below"


_Reader: TypeAlias = "Callable[[Any, Primitive], Comparable | Beyond | None]"

_DATE = r"([+-]?\d{4,9})-(\d\d)-(\d\d)"
_TIME = r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?"
_DATE_TEXT = re.compile(_DATE, re.ASCII)
_TIME_TEXT = re.compile(_TIME, re.ASCII)
_TIMESTAMP_TEXT = re.compile(
    f"{_DATE}T{_TIME}(Z|([+-])(\\d\\d):(\\d\\d)(?::(\\d\\d))?)?", re.ASCII | re.IGNORECASE
)
_UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_HEX_TEXT = re.compile(r"([0-9a-f]{2})*", re.ASCII | re.IGNORECASE)

_DAY_NANOS = 86_400_000_000_000
_FLOAT_MAX = 3.4028234663852886e38
_EXACT = Context(prec=500)
_LONGEST_DECIMAL = 200
_MOST_DIGITS = 60
"""Digits before the point beyond which a decimal literal is beyond every decimal type."""


def convert(literal: Literal, primitive: Primitive, column: str) -> Comparable | Beyond:
    """The literal as a value of the column's type.

    Raises:
        Invalid: it cannot be one.
    """
    if isinstance(literal, bool):
        table: dict[str, _Reader] = {"boolean": lambda value, _: value}
    elif isinstance(literal, int):
        table = _FROM_INTEGER
    else:
        table = _FROM_REAL if isinstance(literal, float) else _FROM_TEXT
    read = table.get(primitive.name)
    try:
        value = None if read is None else read(literal, primitive)
    except (ValueError, ArithmeticError, struct.error):
        value = None
    if value is None:
        shown = repr(literal) if len(str(literal)) <= 100 else f"{str(literal)[:100]!r}…"
        raise Invalid(f"the filter compares {column}, which is of type {primitive}, to {shown}")
    return value


def _within(value: int, bits: int) -> int | Beyond:
    if value >= 1 << (bits - 1):
        return Beyond.ABOVE
    return Beyond.BELOW if value < -(1 << (bits - 1)) else value


def single(value: float) -> float:
    """The nearest 32-bit float."""
    nearest: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return nearest


def _float(value: float, _: Primitive) -> float | Beyond | None:
    if math.isnan(value):
        return None
    if value > _FLOAT_MAX:
        return Beyond.ABOVE
    return Beyond.BELOW if value < -_FLOAT_MAX else single(value)


def _double(value: float, _: Primitive) -> float | None:
    return None if math.isnan(value) else float(value)


def _rounded(value: float, primitive: Primitive) -> Decimal | Beyond | None:
    """A fraction as Java reads it for a decimal column: half up to the column's scale."""
    if not math.isfinite(value):
        return None
    unit = Decimal(1).scaleb(-(primitive.scale or 0))
    return _bounded(Decimal(repr(value)).quantize(unit, rounding=ROUND_HALF_UP, context=_EXACT))


def _bounded(value: Decimal) -> Decimal | Beyond:
    if not value:
        return Decimal(0)
    if value.adjusted() > _MOST_DIGITS:
        return Beyond.BELOW if value < 0 else Beyond.ABOVE
    if value.adjusted() < -_MOST_DIGITS:
        # Between nought and any decimal; the number itself may take longer to write out than anybody waits.
        return Decimal((value.is_signed(), (1,), -_MOST_DIGITS))
    return value


def _decimal_of(text: str, _: Primitive) -> Decimal | Beyond | None:
    if len(text) > _LONGEST_DECIMAL or not re.fullmatch(
        r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", text, re.ASCII
    ):
        return None
    try:
        return _bounded(Decimal(text))
    except InvalidOperation:
        return None


def _date(text: str, _: Primitive) -> int | Beyond | None:
    match = _DATE_TEXT.fullmatch(text)
    days = None if match is None else _days(match.groups()[:3])
    return None if days is None else _within(days, 32)


def _days(parts: tuple[str | Any, ...]) -> int | None:
    year, month, day = (int(part) for part in parts)
    # Four digits stand alone, more need a sign, as the text form of dates has it.
    if (len(parts[0]) > 4) != (parts[0][0] in "+-") or not 1 <= month <= 12:
        return None
    days = days_of(year, month, day)
    return days if civil(days) == (year, month, day) else None


def _clock(parts: tuple[str | Any, ...]) -> int | None:
    """Nanoseconds since midnight."""
    hour, minute, second = (int(part or 0) for part in parts[:3])
    if hour > 23 or minute > 59 or second > 59:
        return None
    return (hour * 3600 + minute * 60 + second) * 1_000_000_000 + int((parts[3] or "").ljust(9, "0"))


def _time(text: str, _: Primitive) -> int | None:
    match = _TIME_TEXT.fullmatch(text)
    nanos = None if match is None else _clock(match.groups())
    return None if nanos is None else nanos // 1000


def _timestamp(text: str, primitive: Primitive) -> int | Beyond | None:
    """Since 1970; a zone is required by Java for zoned types, but PyIceberg leaves out that of UTC."""
    match = _TIMESTAMP_TEXT.fullmatch(text)
    if match is None:
        return None
    parts = match.groups()
    zoned = primitive.name.startswith("timestamptz")
    days, clock, offset = _days(parts[:3]), _clock(parts[3:7]), _offset(parts[7:])
    if days is None or clock is None or offset is None or (parts[7] is not None and not zoned):
        return None
    nanos = days * _DAY_NANOS + clock - offset
    if primitive.name.endswith("_ns"):
        return _within(nanos, 64)
    # Towards zero, as Java counts whole microseconds between two instants.
    return _within(nanos // 1000 if nanos >= 0 else -(-nanos // 1000), 64)


def _offset(parts: tuple[str | Any, ...]) -> int | None:
    """Nanoseconds east of UTC."""
    zone, sign, hour, minute, second = parts
    if zone is None or sign is None:
        return 0
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second or 0)
    if int(minute) > 59 or int(second or 0) > 59 or seconds > 18 * 3600:
        return None
    return (seconds if sign == "+" else -seconds) * 1_000_000_000


def _uuid(text: str, _: Primitive) -> bytes | None:
    return bytes.fromhex(text.replace("-", "")) if _UUID_TEXT.fullmatch(text) else None


def _binary(text: str, primitive: Primitive) -> bytes | None:
    if not _HEX_TEXT.fullmatch(text):
        return None
    raw = bytes.fromhex(text)
    return raw if primitive.length is None or len(raw) == primitive.length else None


_FROM_INTEGER: dict[str, _Reader] = {
    "int": lambda value, _: _within(value, 32),
    "long": lambda value, _: value,
    "float": lambda value, _: single(float(value)),
    "double": lambda value, _: float(value),
    "date": lambda days, _: _within(days, 32),
    "time": lambda micros, _: micros,
    "timestamp": lambda micros, _: micros,
    "timestamptz": lambda micros, _: micros,
    "timestamp_ns": lambda micros, _: _within(micros * 1000, 64),
    "timestamptz_ns": lambda micros, _: _within(micros * 1000, 64),
    "decimal": lambda value, _: Decimal(value),
}
_FROM_REAL: dict[str, _Reader] = {
    "float": _float,
    "double": _double,
    "decimal": _rounded,
}
_FROM_TEXT: dict[str, _Reader] = {
    "string": lambda text, _: text.encode(),
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    "timestamp_ns": _timestamp,
    "timestamptz_ns": _timestamp,
    "decimal": _decimal_of,
    "uuid": _uuid,
    "fixed": _binary,
    "binary": _binary,
}
