"""Stored values made comparable with a filter's literals: bounds, partition values, and transforms of single values.

The forms are those of `literals`. A bound that cannot be read is no bound: it must never exclude a file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import isnan
from uuid import UUID

from table_format.errors import Invalid
from table_format.manifest.entries import PartitionValue
from table_format.manifest.values import decimal_of, from_bytes, minimal_bytes
from table_format.metadata.transforms import canonical, takes
from table_format.scan.literals import Comparable
from table_format.scan.single_values import civil
from table_format.schema.murmur import murmur3
from table_format.schema.types import Primitive

_RAW = frozenset({"string", "binary", "fixed"})
_DAY_MICROS = 86_400_000_000
_HOUR_MICROS = 3_600_000_000
_DATE_BYTES = 4
_WRAPS_BELOW = (1 << 31, 1 << 63)
"""Truncation below the least `int` or `long` gives an integer less than the width below this."""


def bound_reader(primitive: Primitive) -> Callable[[bytes], Comparable | None]:
    """A reader of the bounds of a column that has this type now, whatever type it had when they were written.

    NaN is no bound either: writers gave it where they did not compare properly.
    """
    if primitive.name in _RAW:
        return bytes
    if primitive.name == "uuid":
        return lambda raw: bytes(raw) if len(raw) == 16 else None
    days_to = {"timestamp": _DAY_MICROS, "timestamp_ns": _DAY_MICROS * 1000}.get(primitive.name)

    def read(raw: bytes) -> Comparable | None:
        try:
            if days_to is not None and len(raw) == _DATE_BYTES:
                return int.from_bytes(raw, "little", signed=True) * days_to  # the column was a date
            value = from_bytes(primitive, raw)
        except Invalid:
            return None
        return None if value is None or value != value else comparable(value)  # noqa: PLR0124 - NaN

    return read


def comparable(value: PartitionValue) -> Comparable | None:
    """A partition value in the form of literals."""
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    return value.bytes if isinstance(value, UUID) else value


def is_nan(value: Comparable | None) -> bool:
    """Whether it is not a number."""
    return isinstance(value, float) and isnan(value)


@dataclass(frozen=True, slots=True)
class ValueTransform:
    """A partition transform of values of one type, applied to one comparable at a time."""

    name: str
    """identity, void, bucket, truncate, year, month, day or hour."""
    width: int
    source: Primitive

    @classmethod
    def of(cls, text: str, source: Primitive) -> "ValueTransform | None":
        """The transform that the text names; None when it is unknown or does not take that type."""
        known = canonical(str(text))
        if known is None or not takes(known, source.name):
            return None
        name, _, rest = known.partition("[")
        return cls(name, int(rest[:-1]) if rest else 0, source)

    @property
    def result(self) -> Primitive:
        """The type of its values."""
        if self.name in ("identity", "void", "truncate"):
            return self.source
        return Primitive(name="date" if self.name == "day" else "int")

    @property
    def keeps_order(self) -> bool:
        """Whether a smaller value never has a greater result."""
        return self.name not in ("bucket", "void")

    @property
    def ordinal(self) -> bool:
        """Whether its source values can be counted: integers, times, and decimals in their smallest units."""
        return self.source.name not in ("string", "binary", "fixed", "uuid", "float", "double", "boolean")

    @property
    def cuts_time(self) -> bool:
        """Whether it is one of those whose results before 1970 old writers got wrong by one."""
        old = self.name in ("year", "month", "day", "hour")
        return old and not (self.name == "day" and self.source.name == "date")

    def apply(self, value: Comparable) -> Comparable | None:
        """The result; None for a decimal that is no value of the source type, and of void.

        Truncated integers do not wrap around below the least value of their type, as stored ones do.
        """
        match self.name:
            case "identity":
                return value
            case "void":
                return None
            case "bucket":
                raw = self._hashed(value)
                return None if raw is None else (murmur3(raw) & 0x7FFFFFFF) % self.width
            case "truncate":
                return self._truncated(value)
            case _:
                return self._time_unit(value)

    def units(self, value: Comparable) -> tuple[int, int]:
        """The greatest countable value not above it, and the least not below it (equal when it is one)."""
        if isinstance(value, Decimal):
            numerator, denominator = value.as_integer_ratio()
            numerator *= 10 ** (self.source.scale or 0)
            return numerator // denominator, -(-numerator // denominator)
        whole = int(value) if not isinstance(value, bytes) else 0
        return whole, whole

    def of_units(self, units: int) -> Comparable | None:
        """The result for a countable value."""
        if self.source.name == "decimal":
            return self.apply(decimal_of(units, self.source.scale or 0))
        return self.apply(units)

    def stored(self, value: Comparable | None) -> Comparable | None:
        """A stored result as `apply` gives it: integers that wrapped around at truncation are unwrapped.

        They are the greatest of their type, so that one of 32 bits was written when the column was an `int`.
        """
        if self.name != "truncate" or type(value) is not int or value % self.width == 0:
            return value
        return value - (1 << (32 if value < _WRAPS_BELOW[0] else 64))

    def may_hide_wrapped(self, low: Comparable, high: Comparable) -> bool:
        """Whether an integer that wrapped around may lie between two stored results."""
        if self.name != "truncate" or type(low) is not int or type(high) is not int:
            return False
        return any(low < top and high >= top - self.width and top % self.width for top in _WRAPS_BELOW)

    def _hashed(self, value: Comparable) -> bytes | None:
        if isinstance(value, bytes):
            return value
        if isinstance(value, Decimal):
            low, high = self.units(value)
            return minimal_bytes(low) if low == high else None
        whole = int(value)
        if self.source.name.endswith("_ns"):
            whole //= 1000
        return whole.to_bytes(8, "little", signed=True)

    def _truncated(self, value: Comparable) -> Comparable | None:
        if isinstance(value, bytes):
            if self.source.name != "string":
                return value[: self.width]
            try:
                return value.decode()[: self.width].encode()
            except UnicodeDecodeError:
                return None
        if isinstance(value, Decimal):
            low, high = self.units(value)
            if low != high:
                return None
            return decimal_of(low // self.width * self.width, self.source.scale or 0)
        return int(value) // self.width * self.width

    def _time_unit(self, value: Comparable) -> Comparable | None:
        if isinstance(value, bytes | Decimal):
            return None
        whole = int(value)
        if self.source.name == "date":
            days = whole
        else:
            micros = whole // 1000 if self.source.name.endswith("_ns") else whole
            if self.name == "hour":
                return micros // _HOUR_MICROS
            days = micros // _DAY_MICROS
        if self.name == "day":
            return days
        year, month, _ = civil(days)
        return year - 1970 if self.name == "year" else (year - 1970) * 12 + month - 1
