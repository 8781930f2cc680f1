"""Types of Protobuf that are not messages of the schema's own: scalars, enums, and messages that everybody knows."""

import datetime
import decimal
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from ingest_plugin.decode.formats import Fix
from ingest_plugin.decode.logical import decimal_of, plain_text, unscaled
from table_format.schema.types import JsonType

_F = FieldDescriptor
_MAX_SCALE = 100_000
_MAX_NANOS = 999_999_999
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()


def _unsigned(value: int) -> decimal.Decimal:
    return decimal.Decimal(value)


SCALARS: Mapping[int, tuple[JsonType, Fix | None]] = {
    _F.TYPE_BOOL: ("boolean", None),
    _F.TYPE_FLOAT: ("float", None),
    _F.TYPE_DOUBLE: ("double", None),
    _F.TYPE_STRING: ("string", None),
    _F.TYPE_BYTES: ("binary", None),
    _F.TYPE_INT32: ("int", None),
    _F.TYPE_SINT32: ("int", None),
    _F.TYPE_SFIXED32: ("int", None),
    _F.TYPE_UINT32: ("long", None),
    _F.TYPE_FIXED32: ("long", None),
    _F.TYPE_INT64: ("long", None),
    _F.TYPE_SINT64: ("long", None),
    _F.TYPE_SFIXED64: ("long", None),
    _F.TYPE_UINT64: ("decimal(20, 0)", _unsigned),
    _F.TYPE_FIXED64: ("decimal(20, 0)", _unsigned),
}
"""Unsigned numbers go to the next type that holds all of them."""


def enum_names(enum: EnumDescriptor) -> Callable[[int], str]:
    """The name of a number; a number without a name is its digits."""
    names = {number: value.name for number, value in enum.values_by_number.items()}

    def name(number: int) -> str:
        known = names.get(number)
        return str(number) if known is None else known

    return name


def _timestamp(parsed: Any) -> int:
    if not 0 <= parsed.nanos <= _MAX_NANOS:
        raise ValueError(f"a timestamp of {parsed.nanos} nanoseconds")
    micros: int = parsed.seconds * 1_000_000 + parsed.nanos // 1000
    if not -(2**63) <= micros < 2**63:
        raise ValueError(f"a timestamp of {parsed.seconds} seconds")
    return micros


def _date(parsed: Any) -> int:
    # A date without year, month or day is a kind of its own, which no column type has.
    return datetime.date(parsed.year, parsed.month, parsed.day).toordinal() - _EPOCH_DAY


def _time_of_day(parsed: Any) -> int:
    if not (0 <= parsed.minutes < 60 and 0 <= parsed.seconds < 60 and 0 <= parsed.nanos <= _MAX_NANOS):
        raise ValueError("no time of day")
    seconds = (parsed.hours * 60 + parsed.minutes) * 60 + parsed.seconds
    return int(seconds * 1_000_000 + parsed.nanos // 1000)


def _wrapped(parsed: Any) -> Any:
    return parsed.value


def _fields(*names: str) -> Fix:
    return lambda parsed: {name: getattr(parsed, name) for name in names}


def _struct(**types: JsonType) -> JsonType:
    return {
        "type": "struct",
        "fields": [{"name": name, "required": False, "type": kind} for name, kind in types.items()],
    }


_GOOGLE = "google.protobuf."
WELL_KNOWN: Mapping[str, tuple[JsonType, Fix]] = {
    _GOOGLE + "Timestamp": ("timestamptz", _timestamp),
    _GOOGLE + "Duration": (_struct(seconds="long", nanos="int"), _fields("seconds", "nanos")),
    _GOOGLE + "Any": (_struct(type_url="string", value="binary"), _fields("type_url", "value")),
    _GOOGLE + "Empty": ("boolean", lambda _parsed: True),
    _GOOGLE + "FieldMask": (
        {"type": "list", "element": "string", "element-required": False},
        lambda parsed: list(parsed.paths),
    ),
    _GOOGLE + "BoolValue": ("boolean", _wrapped),
    _GOOGLE + "FloatValue": ("float", _wrapped),
    _GOOGLE + "DoubleValue": ("double", _wrapped),
    _GOOGLE + "StringValue": ("string", _wrapped),
    _GOOGLE + "BytesValue": ("binary", _wrapped),
    _GOOGLE + "Int32Value": ("int", _wrapped),
    _GOOGLE + "UInt32Value": ("long", _wrapped),
    _GOOGLE + "Int64Value": ("long", _wrapped),
    _GOOGLE + "UInt64Value": ("decimal(20, 0)", lambda parsed: _unsigned(parsed.value)),
    "google.type.Date": ("date", _date),
    "google.type.TimeOfDay": ("time", _time_of_day),
}
"""Messages with a column type of their own."""


def decimal_scale(one: FieldDescriptor) -> tuple[JsonType, Fix]:
    """`confluent.type.Decimal`: a decimal where the field's options say the scale, else text, which loses nothing."""
    parameters = _parameters(one)
    found = (
        decimal_of(parameters.get("precision"), parameters.get("scale")) if "scale" in parameters else None
    )
    if found is None:
        return "string", lambda parsed: plain_text(_number(parsed))
    return found.iceberg, _number


def _number(parsed: Any) -> decimal.Decimal:
    if abs(parsed.scale) > _MAX_SCALE:
        raise ValueError(f"a scale of {parsed.scale}")
    return unscaled(parsed.value, parsed.scale)


def _parameters(one: FieldDescriptor) -> Mapping[str, str]:
    """The field's `confluent.field_meta` parameters.

    Options come as bytes of a pool of their own, so they are read again with the pool that knows the extension.
    """
    home: Any = one.containing_type
    pool = home.file.pool
    try:
        extension: Any = pool.FindExtensionByName("confluent.field_meta")
        options: Any = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FieldOptions"))
    except KeyError:
        return {}
    read = options.FromString(one.GetOptions().SerializeToString())
    return dict(read.Extensions[extension].params)
