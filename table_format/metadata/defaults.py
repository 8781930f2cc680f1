"""Default values of columns as JSON single values (Iceberg spec, "Default values" and Appendix D).

A default that a reader cannot parse makes the whole table unreadable, so a new schema's are checked against their
types. Values stay the JSON they were.
"""

import re
from calendar import monthrange
from collections.abc import Callable
from decimal import Decimal

from table_format.errors import Invalid
from table_format.metadata import members

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_HEX = re.compile(r"([0-9a-f]{2})*", re.ASCII | re.IGNORECASE)
_DECIMAL = re.compile(r"[+-]?\d{1,40}(\.\d{1,40})?(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_DATE = r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
_TIME = r"(?P<hour>\d{2}):(?P<minute>\d{2})(:(?P<second>\d{2})(\.\d{1,9})?)?"
_ISO = {
    "date": re.compile(_DATE, re.ASCII),
    "time": re.compile(_TIME, re.ASCII),
    "timestamp": re.compile(f"{_DATE}T{_TIME}", re.ASCII),
    "timestamptz": re.compile(rf"{_DATE}T{_TIME}(Z|[+-]00:00)", re.ASCII),
}
# The years that 64 bits of nanoseconds hold in full.
_FIRST_NANO_YEAR, _LAST_NANO_YEAR = 1678, 2261
_FLOAT_MAX = 3.4028234663852886e38
_INTEGERS = {"int": (-(2**31), 2**31 - 1), "long": (members.LONG_MIN, members.LONG_MAX)}


def check_default(value: object, type_: object, what: str) -> None:
    """Check that a column's default (None: no default) is a value of its type, as the specification writes it.

    `type_` is a primitive's canonical text, or a nested type's object.

    Raises:
        Invalid: it is not, or the type takes no default.
    """
    if value is None:
        return
    if not isinstance(type_, str):
        raise Invalid(f"{what} must be null: a nested type takes its defaults from its fields")
    head = re.split(r"[\[(]", type_, maxsplit=1)[0]
    check = _CHECKS.get(head)
    if check is None:
        raise Invalid(f"{what} must be null: columns of type {head} have no other default")
    if not check(value, type_):
        raise Invalid(f"{what} is not a JSON single value of type {type_}")


def _is_integer(value: object, type_: str) -> bool:
    low, high = _INTEGERS[type_]
    return type(value) is int and low <= value <= high


def _is_float(value: object, type_: str) -> bool:
    # 1 for 1.0 is not read by Java.
    return type(value) is float and (type_ == "double" or abs(value) <= _FLOAT_MAX)


def _is_decimal(value: object, type_: str) -> bool:
    if type(value) is not str or not _DECIMAL.fullmatch(value):
        return False
    precision, scale = (int(number) for number in type_[len("decimal(") : -1].split(","))
    _, digits, exponent = Decimal(value).as_tuple()
    return exponent == -scale and len(digits) <= precision


def _is_fixed(value: object, type_: str) -> bool:
    length = int(type_[len("fixed[") : -1])
    return type(value) is str and len(value) == 2 * length and _HEX.fullmatch(value) is not None


def _is_moment(value: object, type_: str) -> bool:
    kind, _, nanoseconds = type_.partition("_")
    found = _ISO[kind].fullmatch(value) if type(value) is str else None
    if found is None:
        return False
    parts = {name: int(text) for name, text in found.groupdict(default="0").items()}
    if parts.get("hour", 0) > 23 or parts.get("minute", 0) > 59 or parts.get("second", 0) > 59:
        return False
    if "year" not in parts:
        return True
    year, month = parts["year"], parts["month"]
    if nanoseconds and not _FIRST_NANO_YEAR <= year <= _LAST_NANO_YEAR:
        return False
    # The calendar goes on before the year 1 as it is after it; every 400 years it is the same.
    return 1 <= month <= 12 and 1 <= parts["day"] <= monthrange(year % 400 + 400, month)[1]


def _matches(pattern: re.Pattern[str]) -> Callable[[object, str], bool]:
    return lambda value, _: type(value) is str and pattern.fullmatch(value) is not None


def _is_of(wanted: type) -> Callable[[object, str], bool]:
    return lambda value, _: type(value) is wanted


_CHECKS: dict[str, Callable[[object, str], bool]] = {
    "boolean": _is_of(bool),
    "int": _is_integer,
    "long": _is_integer,
    "float": _is_float,
    "double": _is_float,
    "decimal": _is_decimal,
    "date": _is_moment,
    "time": _is_moment,
    "timestamp": _is_moment,
    "timestamptz": _is_moment,
    "timestamp_ns": _is_moment,
    "timestamptz_ns": _is_moment,
    "string": _is_of(str),
    "uuid": _matches(_UUID),
    "fixed": _is_fixed,
    "binary": _matches(_HEX),
}
