"""Logical types by name: Debezium's and Kafka Connect's, whatever format carries them, and Avro's own.

Each turns a value of its base type into the form that Arrow takes for its Iceberg type. A name that is not known
here, or stands on another base type than its own, is ignored: the base type then counts. Whether a number of
microseconds is a time of day is checked when it is bound: PostgreSQL's 24:00:00 can still be cast to text.
"""

import datetime
import decimal
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ingest_plugin.decode.formats import Fix
from table_format.schema.types import MAX_DECIMAL_PRECISION, JsonType

UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium sends for a value that the source did not have to hand: PostgreSQL's unchanged external values."""
UNAVAILABLE_BYTES = UNAVAILABLE.encode()
_EXACT = decimal.Context(prec=1000, Emin=-100_000, Emax=100_000)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_MICRO = datetime.timedelta(microseconds=1)
_MAX_SCALE = 100_000
INFINITY, MINUS_INFINITY = 9223372036825200000, -9223372036832400000
"""PostgreSQL's infinite timestamps in microseconds, as Debezium writes them where it writes numbers."""


@dataclass(frozen=True, slots=True)
class Logical:
    """What a named type is in Iceberg; `fix` is None where the base value is in Arrow's form already."""

    iceberg: JsonType
    fix: Fix | None = None


def named(name: object, base: str, parameters: Mapping[str, Any]) -> Logical | None:
    """The logical type of that name on a base type: int, long, string, bytes, or struct."""
    if name == "org.apache.kafka.connect.data.Decimal" and base == "bytes":
        return decimal_of(parameters.get("connect.decimal.precision"), parameters.get("scale"))
    return _NAMED.get((name, base)) if isinstance(name, str) else None


def decimal_of(precision: object, scale: object) -> Logical | None:
    """A decimal of two's-complement bytes; what its type cannot hold is refused when it comes.

    Precision beyond Iceberg's is cut to 38; None when the scale is none that Iceberg has.
    """
    digits, places = _whole(precision), _whole(0 if scale is None else scale)
    if places is None or not 0 <= places <= MAX_DECIMAL_PRECISION:
        return None
    if digits is None or digits < max(places, 1):
        digits = MAX_DECIMAL_PRECISION

    def fix(data: bytes) -> Any:
        return UNAVAILABLE if data == UNAVAILABLE_BYTES else unscaled(data, places)

    return Logical(f"decimal({min(digits, MAX_DECIMAL_PRECISION)}, {places})", fix)


def unscaled(data: bytes, scale: int) -> decimal.Decimal:
    """The number that big-endian two's-complement bytes and a scale say."""
    if not data:
        raise ValueError("a decimal of no bytes")
    return _EXACT.scaleb(decimal.Decimal(int.from_bytes(data, "big", signed=True)), -scale)


def plain_text(number: decimal.Decimal) -> str:
    """All digits of a number, without exponent."""
    return format(number, "f")


def moment(text: str) -> int:
    """Microseconds since the epoch of ISO text with a zone; Debezium's text for infinite timestamps too."""
    if text in ("infinity", "-infinity"):
        return INFINITY if text == "infinity" else MINUS_INFINITY
    found = datetime.datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no zone")
    return (found - _EPOCH) // _MICRO


def local_moment(text: str) -> int:
    """Microseconds since the epoch of ISO text without a zone."""
    found = datetime.datetime.fromisoformat(text.removesuffix("Z"))
    if found.tzinfo is not None:
        raise ValueError(f"{text!r} has a zone")
    return (found.replace(tzinfo=datetime.UTC) - _EPOCH) // _MICRO


def day(text: str) -> int:
    """Days since the epoch of an ISO date."""
    return datetime.date.fromisoformat(text.removesuffix("Z")).toordinal() - _EPOCH_DAY


def variable_decimal(value: Any) -> str:
    """The text of a number that carries its own scale: lossless, where one scale for the column would not be."""
    scale, data = value["scale"], value["value"]
    if data == UNAVAILABLE_BYTES:
        return UNAVAILABLE
    if type(scale) is not int or abs(scale) > _MAX_SCALE:
        raise ValueError(f"a scale of {scale!r}")
    return plain_text(unscaled(data, scale))


def _whole(value: object) -> int | None:
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def times_1000(value: int) -> int:
    """Milliseconds to microseconds."""
    return value * 1000


def by_1000(value: int) -> int:
    """Nanoseconds to microseconds; what is finer is cut."""
    return value // 1000


def uuid_bytes(text: str) -> bytes:
    """A UUID's 16 bytes."""
    return uuid.UUID(text).bytes


_DAYS = Logical("date")
_TIME_MILLIS = Logical("time", times_1000)
_DEBEZIUM, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
_NAMED: Mapping[tuple[str, str], Logical] = {
    (_DEBEZIUM + "Date", "int"): _DAYS,
    (_DEBEZIUM + "Time", "int"): _TIME_MILLIS,
    (_DEBEZIUM + "MicroTime", "long"): Logical("time"),
    (_DEBEZIUM + "NanoTime", "long"): Logical("time", by_1000),
    (_DEBEZIUM + "Timestamp", "long"): Logical("timestamp", times_1000),
    (_DEBEZIUM + "MicroTimestamp", "long"): Logical("timestamp"),
    (_DEBEZIUM + "NanoTimestamp", "long"): Logical("timestamp", by_1000),
    (_DEBEZIUM + "ZonedTimestamp", "string"): Logical("timestamptz", moment),
    (_DEBEZIUM + "IsoDate", "string"): Logical("date", day),
    (_DEBEZIUM + "IsoTimestamp", "string"): Logical("timestamp", local_moment),
    (_CONNECT + "Date", "int"): _DAYS,
    (_CONNECT + "Time", "int"): _TIME_MILLIS,
    (_CONNECT + "Timestamp", "long"): Logical("timestamp", times_1000),
    ("io.debezium.data.Uuid", "string"): Logical("uuid", uuid_bytes),
    ("io.debezium.data.VariableScaleDecimal", "struct"): Logical("string", variable_decimal),
}

AVRO: Mapping[tuple[object, object], Logical] = {
    ("int", "date"): _DAYS,
    ("int", "time-millis"): _TIME_MILLIS,
    ("long", "time-micros"): Logical("time"),
    ("long", "timestamp-millis"): Logical("timestamptz", times_1000),
    ("long", "timestamp-micros"): Logical("timestamptz"),
    ("long", "timestamp-nanos"): Logical("timestamptz", by_1000),
    ("long", "local-timestamp-millis"): Logical("timestamp", times_1000),
    ("long", "local-timestamp-micros"): Logical("timestamp"),
    ("long", "local-timestamp-nanos"): Logical("timestamp", by_1000),
    ("string", "uuid"): Logical("uuid", uuid_bytes),
}
"""Avro's own logical types by base type and name, but for decimal and the uuid of 16 bytes."""
