import datetime
import math
import struct
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema

from table_format.errors import Internal, Unsupported
from table_format.schema.arrow import to_arrow
from table_format.schema.conform import conform
from table_format.write.files import FileOptions
from table_format.write.metrics import (
    COUNTS,
    FULL,
    NONE,
    TRUNCATED,
    Mode,
    bytes_upper_bound,
    count_nans,
    leaves,
    metrics,
    text_upper_bound,
)

PRIMITIVES = {
    "boolean": [True, False, None],
    "int": [-(2**31), 5, None],
    "long": [-(2**63), 2**63 - 1, None],
    "float": [-1.5, 0.25, None],
    "double": [-1e300, 1e-300, None],
    "date": [datetime.date(1969, 12, 31), datetime.date(2020, 2, 29), None],
    "time": [datetime.time(0, 0, 1), datetime.time(23, 59, 59, 999999), None],
    "timestamp": [datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1, 0, 0, 0, 1), None],  # noqa: DTZ001
    "timestamptz": [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, datetime.UTC), None, None],
    "string": ["", "a" * 15 + "😀😀", None],
    "uuid": [uuid.UUID(int=1), uuid.UUID(int=2**128 - 1), None],
    "fixed[3]": [b"\x00\x01\x02", b"\xff\xff\xff", None],
    "binary": [b"", b"\xfe" + b"\x01" * 30, None],
    "decimal(9, 2)": [Decimal("-9999999.99"), Decimal("1.50"), None],
    "decimal(18, 3)": [Decimal("-1.500"), Decimal("999999999999999.999"), None],
    "decimal(38, 10)": [Decimal("-9999999999999999999999999999.9999999999"), Decimal("0E-10"), None],
}


def schema(**columns):
    fields = [
        {"id": place, "name": name, "required": False, "type": json_type}
        for place, (name, json_type) in enumerate(columns.items(), 1)
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def footer_of(json_schema, batches, properties=None):
    options = FileOptions.of(json_schema, properties or {})
    sink, nans = pa.BufferOutputStream(), {}
    with pq.ParquetWriter(sink, options.arrow, **options.parquet) as writer:
        for batch in batches:
            shaped = conform(batch, options.arrow)
            count_nans(shaped, options.leaves, nans)
            writer.write_table(pa.Table.from_batches([shaped]))
    footer = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    return footer, metrics(footer, options.leaves, nans)


def column(json_type, values):
    arrow = to_arrow(schema(c=json_type)).field(0).type
    if arrow == pa.uuid():
        values, arrow = [value and value.bytes for value in values], pa.binary(16)
    return pa.array(values, arrow)


def theirs(footer, json_schema, properties=None):
    iceberg = Schema.model_validate(json_schema)
    return data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer,
        stats_columns=compute_statistics_plan(iceberg, properties or {}),
        parquet_column_mapping=parquet_path_to_id_mapping(iceberg),
    ).to_serialized_dict()


def test_primitive_columns_agree_with_pyiceberg_over_several_row_groups():
    json_schema = schema(**{f"c{place}": text for place, text in enumerate(PRIMITIVES)})
    columns = [column(text, values) for text, values in PRIMITIVES.items()]
    batch = pa.record_batch(columns, names=[f"c{place}" for place in range(len(columns))])
    nulls = pa.record_batch([array.slice(2) for array in columns], names=batch.schema.names)
    footer, found = footer_of(json_schema, [batch.slice(1), batch.slice(0, 1), nulls])
    expected = theirs(footer, json_schema)
    assert footer.num_row_groups == 3
    assert found.record_count == expected["record_count"] == 4
    for name in (
        "column_sizes",
        "value_counts",
        "null_value_counts",
        "lower_bounds",
        "upper_bounds",
        "split_offsets",
    ):
        assert getattr(found, name) == expected[name], name
    assert found.nan_value_counts == {4: 0, 5: 0}


def test_bounds_are_single_values_of_the_specification():
    json_schema = schema(s="string", d="decimal(9, 2)", u="uuid", t="timestamptz")
    instant = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, datetime.UTC)
    values = {"s": ["é" * 20], "d": [Decimal("-0.01")], "t": pa.array([instant], pa.timestamp("us", "UTC"))}
    batch = pa.record_batch({**values, "u": pa.array([uuid.UUID(int=7).bytes], pa.binary(16))})
    _, found = footer_of(json_schema, [batch])
    assert found.lower_bounds == {
        1: ("é" * 16).encode(),
        2: b"\xff",
        3: uuid.UUID(int=7).bytes,
        4: struct.pack("<q", -1),
    }
    assert found.upper_bounds[1] == ("é" * 15 + "ê").encode()


NESTED = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {
            "id": 1,
            "name": "s",
            "required": False,
            "type": {
                "type": "struct",
                "fields": [
                    {"id": 2, "name": "x", "required": True, "type": "double"},
                    {
                        "id": 3,
                        "name": "l",
                        "required": False,
                        "type": {
                            "type": "list",
                            "element-id": 4,
                            "element-required": False,
                            "element": {
                                "type": "struct",
                                "fields": [{"id": 5, "name": "f", "required": False, "type": "float"}],
                            },
                        },
                    },
                ],
            },
        },
        {
            "id": 6,
            "name": "m",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 7,
                "key": "string",
                "value-id": 8,
                "value": "double",
                "value-required": False,
            },
        },
    ],
}


def test_nested_leaves_have_counts_and_only_unrepeated_ones_bounds():
    rows = [
        {"s": {"x": math.nan, "l": [{"f": math.nan}, {"f": 1.0}, None]}, "m": [("a", math.nan), ("b", None)]},
        {"s": None, "m": None},
        {"s": {"x": 2.5, "l": []}, "m": []},
        {"s": {"x": -0.5, "l": None}, "m": [("c", 7.0)]},
    ]
    loose = pa.schema(
        {
            "s": pa.struct({"x": pa.float64(), "l": pa.list_(pa.struct({"f": pa.float32()}))}),
            "m": pa.map_(pa.string(), pa.float64()),
        }
    )
    footer, found = footer_of(NESTED, [pa.RecordBatch.from_pylist(rows, schema=loose)])
    expected = theirs(footer, NESTED)
    assert found.value_counts == expected["value_counts"] == {2: 4, 5: 6, 7: 5, 8: 5}
    assert found.null_value_counts == expected["null_value_counts"]
    assert found.column_sizes == expected["column_sizes"]
    assert found.nan_value_counts == {2: 1, 5: 1, 8: 1}
    assert found.lower_bounds == {2: struct.pack("<d", -0.5)}
    assert found.upper_bounds == {2: struct.pack("<d", 2.5)}


def test_nan_has_no_bounds_and_does_not_hide_other_row_groups():
    json_schema = schema(c="double", d="float")
    groups = [
        pa.record_batch({"c": [math.nan, math.nan], "d": pa.array([math.nan, None], pa.float32())}),
        pa.record_batch({"c": [math.nan, 1.0], "d": pa.array([None, None], pa.float32())}),
    ]
    _, found = footer_of(json_schema, groups)
    assert found.nan_value_counts == {1: 3, 2: 1}
    assert found.lower_bounds == found.upper_bounds == {1: struct.pack("<d", 1.0)}


def test_a_value_too_long_for_the_footer_leaves_the_column_without_bounds():
    groups = [
        pa.record_batch({"c": ["b"]}),
        pa.record_batch({"c": ["a" * 10_000]}),
        pa.record_batch({"c": ["z" * 10_000]}),
    ]
    _, found = footer_of(schema(c="string"), groups)
    assert found.value_counts == {1: 3}
    assert 1 not in found.lower_bounds
    assert 1 not in found.upper_bounds


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, [TRUNCATED, TRUNCATED]),
        ({"write.metadata.metrics.default": "none"}, [NONE, NONE]),
        ({"write.metadata.metrics.default": "Counts"}, [COUNTS, COUNTS]),
        ({"write.metadata.metrics.default": "full"}, [FULL, FULL]),
        ({"write.metadata.metrics.default": "truncate(4)"}, [Mode(counts=True, bounds=True, length=4)] * 2),
        ({"write.metadata.metrics.column.a": "none"}, [NONE, TRUNCATED]),
        (
            {"write.metadata.metrics.column.s.b": "full", "write.metadata.metrics.default": "none"},
            [NONE, FULL],
        ),
        ({"write.metadata.metrics.max-inferred-column-defaults": "1"}, [TRUNCATED, NONE]),
        ({"write.metadata.metrics.default": "truncate(0)"}, [TRUNCATED, TRUNCATED]),
        ({"write.metadata.metrics.default": "misspelt"}, [TRUNCATED, TRUNCATED]),
    ],
)
def test_modes_by_table_property(properties, expected):
    inner = {"type": "struct", "fields": [{"id": 3, "name": "b", "required": False, "type": "string"}]}
    assert [leaf.mode for leaf in leaves(schema(a="string", s=inner), properties)] == expected


def test_modes_decide_what_is_kept():
    values = pa.record_batch({name: ["x" * 40] for name in "abcd"})
    key = "write.metadata.metrics.column."
    properties = {key + "a": "none", key + "b": "counts", key + "c": "full", key + "d": "truncate(2)"}
    _, found = footer_of(schema(a="string", b="string", c="string", d="string"), [values], properties)
    assert set(found.column_sizes) == set(found.value_counts) == {2, 3, 4}
    assert found.lower_bounds == {3: b"x" * 40, 4: b"xx"}
    assert found.upper_bounds == {3: b"x" * 40, 4: b"xy"}


def test_unknown_columns_and_foreign_footers_are_refused():
    with pytest.raises(Unsupported, match="'c' is of type unknown"):
        leaves(schema(c="unknown"), {})
    footer, _ = footer_of(schema(a="int"), [pa.record_batch({"a": pa.array([1], pa.int32())})])
    with pytest.raises(Internal, match="has 1 columns, expected 2"):
        metrics(footer, leaves(schema(a="int", b="int"), {}), {})


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "abd"),
        ("a😀", 1, "b"),
        ("ab\U0010ffffx", 3, "ac"),
        ("\U0010ffff\U0010ffffx", 2, None),
        ("\ud7ffx", 1, "\ue000"),
    ],
)
def test_text_upper_bounds(text, length, expected):
    assert text_upper_bound(text, length) == (expected if expected is None else expected.encode())


def test_bytes_upper_bounds():
    assert bytes_upper_bound(b"\x01\xff\xffz", 3) == b"\x02"
    assert bytes_upper_bound(b"\xff\xffz", 2) is None
    assert bytes_upper_bound(b"ab", 2) == b"ab"


@settings(max_examples=150, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.integers(1, 8), st.binary(max_size=8)
)
def test_upper_bounds_are_never_below_the_value(text, length, raw):
    upper = text_upper_bound(text, length)
    assert upper is None or (upper >= text.encode() and len(upper.decode()) <= length)
    upper = bytes_upper_bound(raw, length)
    assert upper is None or (upper >= raw and len(upper) <= length)
