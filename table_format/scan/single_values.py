"""Values as JSON single values (Iceberg spec, Appendix D), written as Java 1.11 writes and reads them.

Internal values are those that `manifest.entries` names. Dates and times go beyond the years 1 to 9999 that Python's
calendar ends at, so the calendar here is arithmetic.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from table_format.manifest.entries import PartitionValue
from table_format.schema.types import Primitive

_DAY = 86_400
JsonValue = bool | int | float | str | None


def single_value_json(primitive: Primitive, value: PartitionValue) -> JsonValue:
    """The value as JSON; null as null. NaN and infinities, for which JSON has no number, as Java names them."""
    write = _WRITERS.get(primitive.name)
    if value is None or write is None:
        plain: Any = value
        return plain if isinstance(plain, bool | int | float | str) or plain is None else str(plain)
    return write(value, primitive)


def _real(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _decimal_text(value: Decimal, scale: int) -> str:
    """Plain digits with exactly the scale of the type: readers refuse any other."""
    sign, digits, exponent = value.as_tuple()
    shift = scale + (exponent if isinstance(exponent, int) else 0)
    text = "".join(map(str, digits)) + "0" * shift
    text = text.rjust(scale + 1, "0")
    whole, fraction = (text[:-scale], text[-scale:]) if scale else (text, "")
    return f"{'-' if sign else ''}{whole.lstrip('0') or '0'}{'.' if fraction else ''}{fraction}"


def date_text(days: int) -> str:
    """Days since 1970-01-01 as an ISO date; years beyond four digits with their sign."""
    year, month, day = civil(days)
    return f"{_year_text(year)}-{month:02}-{day:02}"


def _year_text(year: int) -> str:
    if 0 <= year <= 9999:
        return f"{year:04}"
    return f"{year:+05}"


def _clock_text(nanos: int) -> str:
    """Time of day in nanoseconds; the fraction without zeros at its end."""
    seconds, fraction = divmod(nanos, 1_000_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:09}".rstrip("0") if fraction else text


def _timestamp_text(nanos: int, *, zoned: bool) -> str:
    days, rest = divmod(nanos, _DAY * 1_000_000_000)
    return f"{date_text(days)}T{_clock_text(rest)}{'+00:00' if zoned else ''}"


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of days since 1970-01-01, in the proleptic Gregorian calendar.

    The arithmetic is that of a calendar whose years start in March, in cycles of 400 years.
    """
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month = (5 * day_of_year + 2) // 153
    month = march_month + 3 if march_month < 10 else march_month - 9
    year = era * 400 + year_of_era + (1 if month <= 2 else 0)
    return year, month, day_of_year - (153 * march_month + 2) // 5 + 1


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01; the opposite of `civil`."""
    year -= 1 if month <= 2 else 0
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


_WRITERS: dict[str, Callable[[Any, Primitive], JsonValue]] = {
    "date": lambda days, _: date_text(days),
    "time": lambda micros, _: _clock_text(micros * 1000),
    "timestamp": lambda micros, _: _timestamp_text(micros * 1000, zoned=False),
    "timestamptz": lambda micros, _: _timestamp_text(micros * 1000, zoned=True),
    "timestamp_ns": lambda nanos, _: _timestamp_text(nanos, zoned=False),
    "timestamptz_ns": lambda nanos, _: _timestamp_text(nanos, zoned=True),
    "decimal": lambda value, primitive: _decimal_text(value, primitive.scale or 0),
    "fixed": lambda raw, _: bytes(raw).hex().upper(),
    "binary": lambda raw, _: bytes(raw).hex().upper(),
    "float": lambda value, _: _real(float(value)),
    "double": lambda value, _: _real(float(value)),
}
