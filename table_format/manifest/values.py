"""Single-value binary serialisation of every primitive type (Iceberg spec, Appendix D), as bounds use it.

Values are the internal ones that `entries` names. Knows nothing of Avro, where partition tuples are encoded
differently.
"""

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

from table_format.errors import Invalid
from table_format.manifest.entries import PartitionValue
from table_format.schema.types import Primitive, parse_primitive

_INT, _LONG, _FLOAT, _DOUBLE = (struct.Struct(code) for code in ("<i", "<q", "<f", "<d"))
_UUID_BYTES = 16

_LONGS = ("long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")


def to_bytes(iceberg_type: Primitive | str, value: PartitionValue) -> bytes:
    """The value as bytes.

    Raises:
        Invalid: the value is not one of that type (null and `unknown` have no bytes).
    """
    primitive = parse_primitive(iceberg_type) if isinstance(iceberg_type, str) else iceberg_type
    encode = _ENCODERS.get(primitive.name)
    if encode is None or value is None:
        raise Invalid(f"{value!r} of type {primitive} has no binary form")
    try:
        return encode(value, primitive)
    except (TypeError, AttributeError, ValueError, ArithmeticError, struct.error) as error:
        raise Invalid(f"{value!r} is not a value of type {primitive}: {error}") from None


def from_bytes(iceberg_type: Primitive | str, data: bytes) -> PartitionValue:
    """The value that the bytes stand for; bytes written before int -> long or float -> double are understood.

    Raises:
        Invalid: no value of that type has these bytes.
    """
    primitive = parse_primitive(iceberg_type) if isinstance(iceberg_type, str) else iceberg_type
    if primitive.name == "unknown":
        return None
    try:
        return _DECODERS[primitive.name](data, primitive)
    except (ValueError, struct.error):
        raise Invalid(f"{data!r} is not a value of type {primitive} in binary form") from None


def unscaled(value: Decimal, primitive: Primitive) -> int:
    """The decimal as a whole number of its type's smallest units.

    A truncated value may have one digit more than its type (-99.9 to the next 10 below), so what counts is whether
    the type's fixed number of bytes holds it.

    Raises:
        ValueError: it does not fit the type, before or after the point.
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("not finite")  # noqa: TRY004 - NaN and infinity say so by a letter in the exponent
    number = int("".join(map(str, digits)))
    shift = exponent + (primitive.scale or 0)
    if shift < 0:
        number, lost = divmod(number, 10**-shift)
        if lost:
            raise ValueError("more digits after the point than the scale")
    elif number:
        if shift + len(digits) > (primitive.precision or 0) + 3:
            raise ValueError("more digits than the precision")
        number *= 10**shift
    number = -number if sign else number
    if len(minimal_bytes(number)) > decimal_size(primitive):
        raise ValueError("more digits than the precision")
    return number


def decimal_size(primitive: Primitive) -> int:
    """Bytes that every decimal of the precision fits."""
    return int(10 ** (primitive.precision or 0) - 1).bit_length() // 8 + 1


def decimal_of(number: int, scale: int) -> Decimal:
    """The decimal of that many smallest units, exactly (no context rounding)."""
    digits = tuple(map(int, str(abs(number))))
    return Decimal((1 if number < 0 else 0, digits, -scale))


def minimal_bytes(number: int) -> bytes:
    """The shortest big-endian two's complement form."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def text_bytes(value: Any) -> bytes:
    """UTF-8."""
    if not isinstance(value, str):
        raise TypeError("not text")
    return value.encode()


def raw_bytes(value: Any, primitive: Primitive) -> bytes:
    """Bytes as they are; of a fixed type exactly its length."""
    if not isinstance(value, bytes):
        raise TypeError("not bytes")
    if primitive.length is not None and len(value) != primitive.length:
        raise ValueError(f"{len(value)} bytes long")
    return value


def whole(value: Any) -> int:
    """An integer, and not a truth value."""
    if type(value) is not int:
        raise TypeError("not an integer")
    return value


def _decimal(value: Any, primitive: Primitive) -> bytes:
    if not isinstance(value, Decimal):
        raise TypeError("not a decimal")
    return minimal_bytes(unscaled(value, primitive))


def _boolean(value: Any, _: Primitive) -> bytes:
    if not isinstance(value, bool):
        raise TypeError("not a truth value")
    return b"\x01" if value else b"\x00"


def _uuid(value: Any, _: Primitive) -> bytes:
    if not isinstance(value, UUID):
        raise TypeError("not a UUID")
    return value.bytes


def real(value: Any) -> float:
    """A number that may have a fraction."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("not a number")
    return float(value)


_Encoder: TypeAlias = Callable[[Any, Primitive], bytes]
_ENCODERS: dict[str, _Encoder] = {
    "boolean": _boolean,
    "int": lambda value, _: _INT.pack(whole(value)),
    "date": lambda value, _: _INT.pack(whole(value)),
    **dict.fromkeys(_LONGS, lambda value, _: _LONG.pack(whole(value))),
    "float": lambda value, _: _FLOAT.pack(real(value)),
    "double": lambda value, _: _DOUBLE.pack(real(value)),
    "string": lambda value, _: text_bytes(value),
    "uuid": _uuid,
    "fixed": raw_bytes,
    "binary": raw_bytes,
    "decimal": _decimal,
}


def _unpack_boolean(data: bytes, _: Primitive) -> bool:
    if len(data) != 1:
        raise ValueError
    return data != b"\x00"


def _unpack_long(data: bytes, _: Primitive) -> int:
    number: int = (_INT if len(data) == _INT.size else _LONG).unpack(data)[0]
    return number


def _unpack_double(data: bytes, _: Primitive) -> float:
    number: float = (_FLOAT if len(data) == _FLOAT.size else _DOUBLE).unpack(data)[0]
    return number


def _unpack_decimal(data: bytes, primitive: Primitive) -> Decimal:
    # 38 digits fit 16 bytes; a longer text of digits could take seconds to convert.
    if not 1 <= len(data) <= 32:
        raise ValueError
    return decimal_of(int.from_bytes(data, "big", signed=True), primitive.scale or 0)


def _unpack_uuid(data: bytes, _: Primitive) -> UUID:
    if len(data) != _UUID_BYTES:
        raise ValueError
    return UUID(bytes=bytes(data))


_Decoder: TypeAlias = Callable[[bytes, Primitive], PartitionValue]
_DECODERS: dict[str, _Decoder] = {
    "boolean": _unpack_boolean,
    "int": lambda data, _: int(_INT.unpack(data)[0]),
    "date": lambda data, _: int(_INT.unpack(data)[0]),
    **dict.fromkeys(_LONGS, _unpack_long),
    "float": lambda data, _: float(_FLOAT.unpack(data)[0]),
    "double": _unpack_double,
    "string": lambda data, _: bytes(data).decode(),
    "uuid": _unpack_uuid,
    "fixed": lambda data, primitive: raw_bytes(bytes(data), primitive),
    "binary": lambda data, _: bytes(data),
    "decimal": _unpack_decimal,
}
