"""Single values as bytes: round trips, and the same bytes as PyIceberg's."""

import struct
from decimal import Decimal
from math import isnan
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import conversions
from pyiceberg import types as pyiceberg_types
from pyiceberg.schema import Schema as PyIcebergSchema

from table_format.errors import Invalid
from table_format.manifest.values import from_bytes, minimal_bytes, to_bytes

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
    )


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "date": INTS,
    "time": LONGS,
    "timestamp": LONGS,
    "timestamptz": LONGS,
    "timestamp_ns": LONGS,
    "timestamptz_ns": LONGS,
    "string": st.text(),
    "uuid": st.uuids(),
    "fixed[5]": st.binary(min_size=5, max_size=5),
    "binary": st.binary(),
    "decimal(1, 0)": decimals(1, 0),
    "decimal(9, 2)": decimals(9, 2),
    "decimal(18, 18)": decimals(18, 18),
    "decimal(38, 10)": decimals(38, 10),
}


def pyiceberg_type(name: str) -> Any:
    field = {"id": 1, "name": "x", "type": name, "required": False}
    schema = PyIcebergSchema.model_validate({"type": "struct", "schema-id": 0, "fields": [field]})
    return schema.fields[0].field_type


@pytest.mark.parametrize("name", list(VALUES))
def test_values_round_trip_and_agree_with_pyiceberg(name: str) -> None:
    theirs = pyiceberg_type(name)

    @settings(max_examples=60, deadline=None)
    @given(VALUES[name])
    def check(value: Any) -> None:
        data = to_bytes(name, value)
        assert data == conversions.to_bytes(theirs, value)
        back = from_bytes(name, data)
        assert back == value
        assert type(back) is type(value)
        expected = conversions.from_bytes(theirs, data)
        assert back == (UUID(bytes=expected) if name == "uuid" else expected)

    check()


@pytest.mark.parametrize("name", list(VALUES))
def test_any_bytes_give_a_value_or_are_invalid(name: str) -> None:
    @settings(max_examples=60, deadline=None)
    @given(st.binary(max_size=40))
    def check(data: bytes) -> None:
        try:
            value = from_bytes(name, data)
        except Invalid:
            return
        assert type(value) in (bool, int, float, str, bytes, Decimal, UUID)

    check()


@settings(max_examples=200, deadline=None)
@given(st.integers(-(2**130), 2**130))
def test_ingest_case_25_decimals_are_minimal_twos_complement(number: int) -> None:
    data = minimal_bytes(number)
    assert int.from_bytes(data, "big", signed=True) == number
    if len(data) > 1:
        shorter = data[1:]
        assert int.from_bytes(shorter, "big", signed=True) != number


@pytest.mark.parametrize(
    ("number", "data"),
    [(0, "00"), (127, "7f"), (128, "0080"), (-128, "80"), (-129, "ff7f"), (255, "00ff"), (-1, "ff")],
)
def test_minimal_bytes_at_the_edges(number: int, data: str) -> None:
    assert minimal_bytes(number).hex() == data


def test_nan_and_zeros_keep_their_bits() -> None:
    for name, code in (("float", "<f"), ("double", "<d")):
        assert to_bytes(name, -0.0) == struct.pack(code, -0.0)
        value = from_bytes(name, to_bytes(name, float("nan")))
        assert isinstance(value, float)
        assert isnan(value)
        infinity = float("inf")
        assert from_bytes(name, to_bytes(name, infinity)) == infinity


def test_bytes_from_before_a_promotion_are_understood() -> None:
    assert from_bytes("long", to_bytes("int", -7)) == -7
    assert from_bytes("double", to_bytes("float", 1.5)) == 1.5
    assert from_bytes("decimal(18, 2)", to_bytes("decimal(9, 2)", Decimal("-1.25"))) == Decimal("-1.25")


def test_decimals_of_another_exponent_mean_the_same() -> None:
    assert to_bytes("decimal(9, 2)", Decimal("1E+2")) == minimal_bytes(10000)
    assert to_bytes("decimal(9, 2)", Decimal("1.2300")) == minimal_bytes(123)
    assert to_bytes("decimal(9, 2)", Decimal("0E+999999")) == b"\x00"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int", 2**31),
        ("int", True),
        ("int", 1.0),
        ("int", "1"),
        ("long", 2**63),
        ("boolean", 1),
        ("float", 1e39),
        ("float", "x"),
        ("string", b"x"),
        ("string", "\ud800"),
        ("uuid", b"x" * 16),
        ("fixed[5]", b"1234"),
        ("binary", "text"),
        ("decimal(9, 2)", Decimal("1.234")),
        ("decimal(9, 2)", Decimal("123456789.00")),
        ("decimal(9, 2)", Decimal("1E+999999999")),
        ("decimal(9, 2)", Decimal("NaN")),
        ("decimal(9, 2)", 1),
        ("unknown", 1),
        ("int", None),
    ],
)
def test_values_of_another_type_are_invalid(name: str, value: Any) -> None:
    with pytest.raises(Invalid):
        to_bytes(name, value)


def test_pyiceberg_knows_every_type_tested() -> None:
    names = {type(pyiceberg_type(name)).__name__ for name in VALUES}
    assert len(names) == 16
    assert pyiceberg_types.DecimalType.__name__ in names
