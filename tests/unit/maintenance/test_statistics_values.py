"""The bytes of a column's values: those of the single-value serialization, whatever slice of an array they stand in."""

from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from maintenance.statistics.values import spans
from table_format.manifest.values import to_bytes
from table_format.schema.arrow import arrow_primitive
from table_format.schema.types import parse_primitive

LONGS = [0, 1, -1, 2**63 - 1, -(2**63), 255, 256]
CASES = {
    "boolean": [True, False],
    "int": [0, 1, -1, 2**31 - 1, -(2**31)],
    "long": LONGS,
    "float": [0.0, -0.0, 1.5, -2.25, float("inf")],
    "double": [0.0, -0.0, 0.1, 1e300, float("-inf")],
    "date": [0, 1, -719_162, 20_000],
    "time": [0, 1, 86_399_999_999],
    "timestamp": LONGS[:3],
    "timestamptz": LONGS[:3],
    "timestamp_ns": LONGS[:3],
    "timestamptz_ns": LONGS[:3],
    "string": ["a", "", "é" * 40, "x" * 300, "日本"],
    "binary": [b"a", b"", b"\xff" * 33],
    "fixed[5]": [b"12345", bytes(5)],
    "uuid": [UUID(int=1), UUID(int=2**128 - 1)],
    "decimal(4, 2)": [
        Decimal("0.00"),
        Decimal("1.27"),
        Decimal("1.28"),
        Decimal("-1.28"),
        Decimal("-1.29"),
        Decimal("99.99"),
    ],
    "decimal(38, 0)": [
        Decimal(10) ** 37,
        -(Decimal(10) ** 37),
        Decimal(127),
        Decimal(-128),
        Decimal(2**64),
        Decimal(-1),
    ],
}


def array(kind, values):
    arrow = arrow_primitive(kind)
    if kind.name == "uuid":
        storage = pa.array([None if v is None else v.bytes for v in values], pa.binary(16))
        return pa.ExtensionArray.from_storage(arrow, storage)
    return pa.array(values, arrow)


def cut(column):
    data, starts, lengths = spans(column)
    return [data[start : start + length].tobytes() for start, length in zip(starts, lengths, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_values_have_the_bytes_of_the_single_value_serialization(name):
    kind, values = parse_primitive(name), CASES[name]
    expected = [to_bytes(kind, value) for value in values]
    assert cut(array(kind, values)) == expected
    padded = array(kind, [None, *values, None, values[0]])
    assert cut(padded) == [*expected, expected[0]]
    assert cut(padded.slice(2, len(values))) == expected[1:]
    assert cut(array(kind, [None, None])) == []
    assert cut(array(kind, [])) == []
