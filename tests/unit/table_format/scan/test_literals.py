"""Literals of filters as values of a column's type: Java's conversions."""

from decimal import Decimal
from typing import Any

import pytest

from table_format.errors import Invalid
from table_format.scan.literals import Beyond, convert
from table_format.schema.types import parse_primitive

DAY = 86_400_000_000
UUID_TEXT = "f79c3e09-677c-4bbd-a479-3f349cb785e7"


@pytest.mark.parametrize(
    ("kind", "literal", "expected"),
    [
        ("boolean", True, True),
        ("int", 2**31 - 1, 2**31 - 1),
        ("int", 2**31, Beyond.ABOVE),
        ("int", -(2**31), -(2**31)),
        ("int", -(2**31) - 1, Beyond.BELOW),
        ("long", 9_007_199_254_740_993, 9_007_199_254_740_993),
        ("float", 1, 1.0),
        ("float", 0.1, 0.10000000149011612),
        ("float", 1e39, Beyond.ABOVE),
        ("float", -1e39, Beyond.BELOW),
        ("double", 0.1, 0.1),
        ("double", 3, 3.0),
        ("date", "1970-01-02", 1),
        ("date", "1969-12-31", -1),
        ("date", "0001-01-01", -719_162),
        ("date", "+12345-01-01", 3_789_391),
        ("date", 5, 5),
        ("date", 2**31, Beyond.ABOVE),
        ("time", "00:00", 0),
        ("time", "01:02:03.000004", 3_723_000_004),
        ("time", 7, 7),
        ("timestamp", "1970-01-01T00:00", 0),
        ("timestamp", "1970-01-02T00:00:00.5", DAY + 500_000),
        ("timestamp", "1969-12-31T23:59:59.999999", -1),
        ("timestamp", "1970-01-01T00:00:00.000000999", 0),
        ("timestamp", "1969-12-31T23:59:59.999999001", 0),
        ("timestamp", 17, 17),
        ("timestamptz", "1970-01-01T01:00:00+01:00", 0),
        ("timestamptz", "1970-01-01T00:00:00Z", 0),
        ("timestamptz", "1969-12-31T23:30:00-00:30", 0),
        ("timestamptz", "1970-01-01T00:00:00", 0),
        ("timestamp", "+299999-01-01T00:00:00", Beyond.ABOVE),
        ("timestamp_ns", "1970-01-01T00:00:00.000000001", 1),
        ("timestamp_ns", 2, 2000),
        ("timestamp_ns", 2**62, Beyond.ABOVE),
        ("timestamptz_ns", "2300-01-01T00:00:00+00:00", Beyond.ABOVE),
        ("decimal(9, 2)", "12.30", Decimal("12.3")),
        ("decimal(9, 2)", "12.345", Decimal("12.345")),
        ("decimal(9, 2)", 12, Decimal(12)),
        ("decimal(9, 2)", 0.125, Decimal("0.13")),
        ("decimal(9, 2)", 1e300, Beyond.ABOVE),
        ("decimal(9, 2)", "-1e999999999", Beyond.BELOW),
        ("decimal(9, 2)", "0e-999999999", Decimal(0)),
        ("string", "ä", "ä".encode()),
        ("uuid", UUID_TEXT, bytes.fromhex(UUID_TEXT.replace("-", ""))),
        ("binary", "61fF", b"a\xff"),
        ("binary", "", b""),
        ("fixed[2]", "6162", b"ab"),
    ],
)
def test_what_a_literal_means(kind: str, literal: Any, expected: Any) -> None:
    assert convert(literal, parse_primitive(kind), "c") == expected
    assert type(convert(literal, parse_primitive(kind), "c")) is type(expected)


def test_a_fraction_too_small_to_write_out_is_still_above_nought() -> None:
    tiny = convert("1e-999999999", parse_primitive("decimal(9, 2)"), "c")
    assert isinstance(tiny, Decimal)
    assert Decimal(0) < tiny < Decimal("0.01")


@pytest.mark.parametrize(
    ("kind", "literal"),
    [
        ("boolean", 1),
        ("boolean", "true"),
        ("int", True),
        ("int", 1.0),
        ("int", "1"),
        ("long", "1"),
        ("double", "1.5"),
        ("double", "NaN"),
        ("double", float("nan")),
        ("float", float("nan")),
        ("decimal(9, 2)", float("inf")),
        ("decimal(9, 2)", "NaN"),
        ("decimal(9, 2)", "sNaN"),
        ("decimal(9, 2)", "1_0"),
        ("decimal(9, 2)", "1" * 300),
        ("decimal(9, 2)", True),
        ("date", "2020-02-30"),
        ("date", "2020-13-01"),
        ("date", "2020-1-1"),
        ("date", "12345-01-01"),
        ("date", "2020-01-01T00:00:00"),
        ("date", 1.5),
        ("date", "٢٠٢٠-01-01"),
        ("time", "24:00"),
        ("time", "1:00"),
        ("timestamp", "2020-01-01"),
        ("timestamp", "2020-01-01T00:00:00Z"),
        ("timestamp", "2020-01-01T00:00:00+00:00"),
        ("timestamptz", "2020-01-01T00:00:00+19:00"),
        ("timestamptz", "2020-01-01T25:00:00Z"),
        ("string", 5),
        ("string", "\ud800"),
        ("uuid", "5"),
        ("uuid", "{" + UUID_TEXT + "}"),
        ("binary", "6"),
        ("binary", "zz"),
        ("binary", "61 62"),
        ("fixed[2]", "61"),
        ("unknown", 1),
    ],
)
def test_what_cannot_be_a_value_of_the_type(kind: str, literal: Any) -> None:
    with pytest.raises(Invalid, match="the filter compares c, which is of type"):
        convert(literal, parse_primitive(kind), "c")
