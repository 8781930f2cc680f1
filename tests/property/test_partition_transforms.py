"""Every transform, value by value, against PyIceberg's; and splitting against a row-by-row reading of the spec."""

import math
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import parse_transform as their_transform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from table_format.schema.arrow import arrow_primitive
from table_format.schema.types import parse_primitive
from table_format.write.partition import partition_batch
from table_format.write.transforms import parse_transform, partition_values, transformed

DAYS = st.integers(-719_162, 2_932_896)  # 0001-01-01 to 9999-12-31, where PyIceberg's own arithmetic ends
MICROS = st.integers(-719_162 * 86_400_000_000, 2_932_896 * 86_400_000_000)
NANOS = st.integers(-(2**63) + 10**9, 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TYPES = {
    "int": (IntegerType(), st.integers(-(2**31) + 1000, 2**31 - 1)),
    "long": (LongType(), st.integers(-(2**63) + 1000, 2**63 - 1)),
    "date": (DateType(), DAYS),
    "time": (TimeType(), st.integers(0, 86_399_999_999)),
    "timestamp": (TimestampType(), MICROS),
    "timestamptz": (TimestamptzType(), MICROS),
    "timestamp_ns": (TimestampNanoType(), NANOS),
    "string": (StringType(), TEXT),
    "binary": (BinaryType(), st.binary(max_size=20)),
    "fixed[5]": (FixedType(5), st.binary(min_size=5, max_size=5)),
    "uuid": (UUIDType(), st.uuids()),
    "decimal(9, 2)": (DecimalType(9, 2), st.decimals("-9999999.99", "9999999.99", places=2)),
    "decimal(38, 10)": (
        DecimalType(38, 10),
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda number: Decimal(f"{number}E-10")),
    ),
}


def array(values, text):
    arrow = arrow_primitive(parse_primitive(text))
    if text == "uuid":
        stored = pa.array([value and value.bytes for value in values], pa.binary(16))
        return pa.ExtensionArray.from_storage(pa.uuid(), stored)
    if pa.types.is_date(arrow):
        return pa.array(values, pa.int32()).cast(arrow)
    if pa.types.is_temporal(arrow):
        return pa.array(values, pa.int64()).cast(arrow)
    return pa.array(values, arrow)


def ours(transform, values, text):
    primitive = parse_primitive(text)
    return partition_values(transformed(parse_transform(transform), array(values, text), primitive))


def theirs(transform, values, iceberg):
    function = their_transform(transform).transform(iceberg)
    return [function(value) for value in values]


TRUNCATED = ("int", "long", "decimal(9, 2)", "string", "binary")
DATED = ("date", "timestamp", "timestamptz", "timestamp_ns")
CASES = [
    *((text, f"bucket[{count}]") for text in TYPES for count in (1, 16, 2**31 - 1)),
    *(
        (text, f"truncate[{width}]")
        for text in ("int", "long", "decimal(9, 2)", "string", "binary")
        for width in (1, 3, 10, 1000)
    ),
    ("decimal(38, 10)", "truncate[7]"),
    *(
        (text, unit)
        for text in ("date", "timestamp", "timestamptz", "timestamp_ns")
        for unit in ("year", "month", "day")
    ),
    *((text, "hour") for text in ("timestamp", "timestamptz", "timestamp_ns")),
]


@pytest.mark.parametrize(("text", "transform"), CASES)
def test_transforms_agree_with_pyiceberg(text, transform):
    iceberg, values = TYPES[text]

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.one_of(st.none(), values), max_size=12))
    @example([])
    @example([None])
    def check(sample):
        assert ours(transform, sample, text) == theirs(transform, sample, iceberg)

    check()


@pytest.mark.parametrize("text", TYPES)
def test_identity_gives_the_value_and_void_nothing(text):
    @settings(max_examples=15, deadline=None)
    @given(st.lists(st.one_of(st.none(), TYPES[text][1]), max_size=8))
    def check(sample):
        assert ours("identity", sample, text) == sample
        assert ours("void", sample, text) == [None] * len(sample)

    check()


SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "f", "required": False, "type": "double"},
        {"id": 2, "name": "s", "required": False, "type": "string"},
        {"id": 3, "name": "d", "required": False, "type": "date"},
        {"id": 4, "name": "row", "required": True, "type": "long"},
    ],
}
SPEC = {
    "spec-id": 1,
    "fields": [
        {"source-id": 1, "field-id": 1000, "name": "f", "transform": "identity"},
        {"source-id": 2, "field-id": 1001, "name": "s2", "transform": "truncate[2]"},
        {"source-id": 3, "field-id": 1002, "name": "m", "transform": "month"},
        {"source-id": 4, "field-id": 1003, "name": "v", "transform": "void"},
    ],
}


def key(partition):
    return tuple((repr(value) if isinstance(value, float) else value) for value in partition)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, 0.0, -0.0, math.nan, 1.5, math.inf]),
            st.sampled_from([None, "", "a", "ab", "abc", "😀😀x", "😀😀y"]),
            st.sampled_from([None, -1, 0, 30, 31, -32]),
        ),
        max_size=40,
    )
)
def test_every_row_comes_out_once_in_its_partition_and_in_order(rows):
    columns = [
        pa.array([row[0] for row in rows], pa.float64()),
        pa.array([row[1] for row in rows], pa.large_string()),
    ]
    columns += [
        pa.array([row[2] for row in rows], pa.int32()).cast(pa.date32()),
        pa.array(range(len(rows)), pa.int64()),
    ]
    batch = pa.record_batch(columns, names=["f", "s", "d", "row"])
    expected = {}
    for place, (number, text, day) in enumerate(rows):
        month = None if day is None else theirs("month", [day], DateType())[0]
        partition = (number, None if text is None else text[:2], month, None)
        expected.setdefault(key(partition), []).append(place)
    result = partition_batch(batch, SPEC, SCHEMA)
    found = {key(partition): part.column("row").to_pylist() for partition, part in result}
    assert found == expected
    assert list(found) == list(expected), "partitions come in order of first occurrence"
    assert len(result) == len(found)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.none(), st.uuids()), min_size=1, max_size=20))
def test_uuid_partitions(values):
    schema = {"type": "struct", "fields": [{"id": 1, "name": "u", "required": False, "type": "uuid"}]}
    spec = {
        "spec-id": 0,
        "fields": [{"source-id": 1, "field-id": 1000, "name": "u", "transform": "identity"}],
    }
    batch = pa.record_batch([array(values, "uuid")], names=["u"])
    result = partition_batch(batch, spec, schema)
    assert [partition for partition, _ in result] == [(value,) for value in dict.fromkeys(values)]
    assert all(value is None or isinstance(value, uuid.UUID) for (value,), _ in result)
