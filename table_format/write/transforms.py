"""The specification's partition transforms, a column at a time ("Partition Transforms", Appendix B).

Results are Arrow arrays of the transform's result type, times as plain integers; null stays null.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import cast
from uuid import UUID

import pyarrow as pa

from table_format.errors import Invalid, Unsupported
from table_format.manifest.entries import PartitionValue
from table_format.schema.arrow import ArrowArray, ArrowType, arrow_primitive, compute, kinds
from table_format.schema.murmur import hash_bytes, hash_longs, murmur3
from table_format.schema.types import Primitive

_WIDTH = re.compile(r"(bucket|truncate)\[\s*(\d{1,10})\s*\]", re.ASCII)
_PLAIN = ("identity", "year", "month", "day", "hour", "void")

_DATES = frozenset({"date"})
_TIMESTAMPS = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_BYTES = frozenset({"string", "binary", "fixed", "uuid"})
_HASHED_AS_LONG = frozenset({"int", "long", "date", "time"}) | _TIMESTAMPS
_TAKES: dict[str, frozenset[str]] = {
    "year": _DATES | _TIMESTAMPS,
    "month": _DATES | _TIMESTAMPS,
    "day": _DATES | _TIMESTAMPS,
    "hour": _TIMESTAMPS,
    "bucket": _HASHED_AS_LONG | _BYTES | {"decimal"},
    "truncate": frozenset({"int", "long", "decimal", "string", "binary"}),
}
_DAY_MICROS = 86_400_000_000
_HOUR_MICROS = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Transform:
    """A parsed transform; `width` is N of bucket[N] or W of truncate[W]."""

    name: str
    width: int = 0

    def result(self, source: Primitive) -> Primitive:
        """The type of the transform's values.

        Raises:
            Invalid: the transform does not take that type.
        """
        if self.name in {"identity", "void"}:
            return source
        if source.name not in _TAKES[self.name]:
            raise Invalid(f"partition transform {self.name} does not take type {source}")
        if self.name == "truncate":
            return source
        return Primitive(name="date" if self.name == "day" else "int")


def parse_transform(text: str) -> Transform:
    """The transform that a partition field names.

    Raises:
        Unsupported: not one of the seven (a reader may ignore such a field, a writer may not).
        Invalid: a width that is not positive.
    """
    lowered = str(text).strip().lower()
    if lowered in _PLAIN:
        return Transform(lowered)
    if match := _WIDTH.fullmatch(lowered):
        if not 0 < (width := int(match[2])) < 2**31:
            raise Invalid(f"partition transform {text!r}: the width must be positive and fit 31 bits")
        return Transform(match[1], width)
    raise Unsupported(
        f"partition transform {text!r} is not known; writing to such a partition spec is not possible"
    )


def transformed(transform: Transform, values: ArrowArray, source: Primitive) -> ArrowArray:
    """The transform of every value; `values` has the Arrow type of `source`.

    Raises:
        Invalid: the transform does not take that type.
    """
    transform.result(source)
    match transform.name:
        case "identity":
            return values
        case "void":
            return pa.nulls(len(values), values.type)
        case "bucket":
            return _bucket(values, source, transform.width)
        case "truncate":
            return _truncate(values, source, transform.width)
        case "hour":
            return _floor_divide(_micros(values), _HOUR_MICROS)
        case unit:
            days = values.cast(pa.int32()).cast(pa.int64()) if source.name == "date" else _days(values)
            return days if unit == "day" else _year_or_month(days, unit)


def partition_values(values: ArrowArray) -> list[PartitionValue]:
    """The array's values in the form in which manifests hold partitions."""
    arrow = values.type
    if arrow == pa.uuid():
        return [None if value is None else UUID(bytes=value) for value in values.storage.to_pylist()]
    if kinds.is_date(arrow):
        values = values.cast(pa.int32())
    elif kinds.is_time(arrow) or kinds.is_timestamp(arrow):
        values = values.cast(pa.int64())
    return cast("list[PartitionValue]", values.to_pylist())


def _micros(values: ArrowArray) -> ArrowArray:
    """Microseconds since the epoch; nanoseconds are rounded down."""
    whole = values.cast(pa.int64())
    return (
        _floor_divide(whole, 1000) if kinds.is_timestamp(values.type) and values.type.unit == "ns" else whole
    )


def _days(values: ArrowArray) -> ArrowArray:
    return _floor_divide(_micros(values), _DAY_MICROS)


def _floor_divide(values: ArrowArray, by: int) -> ArrowArray:
    """Division towards minus infinity (Arrow's own goes towards zero)."""
    towards_zero = compute.divide(values, by)
    below = compute.less(compute.subtract(values, compute.multiply(towards_zero, by)), 0)
    return compute.subtract(towards_zero, below.cast(pa.int64()))


def _year_or_month(days: ArrowArray, unit: str) -> ArrowArray:
    """Years or months since 1970 in the proleptic Gregorian calendar.

    Arrow's own calendar kernels wrap around beyond the year 32767, which a date or timestamp can hold. The
    arithmetic is that of a calendar whose years start in March, in cycles of 400 years.
    """
    shifted = compute.add(days, 719_468)
    era = _floor_divide(shifted, 146_097)
    day_of_era = compute.subtract(shifted, compute.multiply(era, 146_097))
    corrected = compute.subtract(day_of_era, compute.divide(day_of_era, 1_460))
    corrected = compute.add(corrected, compute.divide(day_of_era, 36_524))
    corrected = compute.subtract(corrected, compute.divide(day_of_era, 146_096))
    year_of_era = compute.divide(corrected, 365)
    before = compute.add(compute.multiply(year_of_era, 365), compute.divide(year_of_era, 4))
    before = compute.subtract(before, compute.divide(year_of_era, 100))
    day_of_year = compute.subtract(day_of_era, before)
    march_month = compute.divide(compute.add(compute.multiply(day_of_year, 5), 2), 153)
    # March is month 0, so months since 1970-01 are one sum, and years its floor.
    years = compute.add(compute.multiply(era, 400), year_of_era)
    months = compute.add(compute.multiply(compute.subtract(years, 1970), 12), compute.add(march_month, 2))
    return months if unit == "month" else _floor_divide(months, 12)


def _bucket(values: ArrowArray, source: Primitive, count: int) -> ArrowArray:
    positive = compute.bit_wise_and(_hashes(values, source), pa.scalar(0x7FFFFFFF, pa.uint32())).cast(
        pa.int64()
    )
    return compute.subtract(positive, compute.multiply(compute.divide(positive, count), count))


def _hashes(values: ArrowArray, source: Primitive) -> ArrowArray:
    if source.name in _HASHED_AS_LONG:
        if source.name == "date":
            values = values.cast(pa.int32())
        return hash_longs(_micros(values))
    if source.name == "decimal":
        return _by_distinct_value(values, lambda value: murmur3(unscaled_bytes(value)), pa.uint32())
    return hash_bytes(values.storage if source.name == "uuid" else values.cast(pa.large_binary()))


def unscaled_bytes(value: Decimal) -> bytes:
    """The unscaled value as the shortest big-endian two's complement (the form of bounds and hashes)."""
    unscaled = _unscaled(value)
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def _by_distinct_value(
    values: ArrowArray, function: Callable[[Decimal], object], result: ArrowType
) -> ArrowArray:
    encoded = values.dictionary_encode()
    distinct = [function(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(distinct, result).take(encoded.indices)


def _truncate(values: ArrowArray, source: Primitive, width: int) -> ArrowArray:
    if source.name == "string":
        return compute.utf8_slice_codeunits(values, 0, width)
    if source.name == "binary":
        return compute.binary_slice(values, 0, width)
    if source.name == "decimal":
        scale = source.scale or 0
        # One digit more than the source: rounding down may carry.
        return _by_distinct_value(
            values,
            lambda value: Decimal(f"{_unscaled(value) // width * width}E-{scale}"),
            pa.decimal256(min((source.precision or 0) + 11, 76), scale),
        )
    # In the width of the type, wrapping around below its least value, as the reference implementation does.
    by = pa.scalar(width, arrow_primitive(source))
    remainder = compute.subtract(values, compute.multiply(compute.divide(values, by), by))
    negative = compute.less(remainder, 0)
    return compute.subtract(values, compute.if_else(negative, compute.add(remainder, by), remainder))
