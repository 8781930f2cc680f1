import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from table_format.errors import Invalid
from table_format.schema.arrow import to_arrow
from table_format.schema.conform import conform

EARLY = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000)  # noqa: DTZ001 - no zone is the point


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def field(field_id, name, json_type, *, required=False):
    return {"id": field_id, "name": name, "type": json_type, "required": required}


def listed(element_id, element, *, required=False):
    return {"type": "list", "element-id": element_id, "element": element, "element-required": required}


def mapped(key_id, key, value, *, required=False):
    ids = {"type": "map", "key-id": key_id, "value-id": key_id + 1}
    return {**ids, "key": key, "value": value, "value-required": required}


def check(batch, schema):
    result = conform(batch, to_arrow(schema))
    result.validate(full=True)
    assert result.schema.equals(to_arrow(schema), check_metadata=True)
    return result


def test_columns_are_reordered_cast_and_filled():
    schema = struct(field(1, "a", "long"), field(2, "b", "string"), field(3, "c", "decimal(9, 2)"))
    batch = pa.record_batch({"b": pa.array(["x", None]), "a": pa.array([1, 2], pa.int16())})
    assert check(batch, schema).to_pylist() == [{"a": 1, "b": "x", "c": None}, {"a": 2, "b": None, "c": None}]


def test_ids_win_over_names():
    schema = struct(field(1, "new_name", "int"), field(2, "old_name", "int"))
    have = pa.schema([pa.field("old_name", pa.int32(), metadata={b"PARQUET:field_id": b"1"})])
    batch = pa.RecordBatch.from_arrays([pa.array([7], pa.int32())], schema=have)
    assert check(batch, schema).to_pylist() == [{"new_name": 7, "old_name": None}]


@pytest.mark.parametrize(
    ("json_type", "values", "expected"),
    [
        ("decimal(9, 2)", pa.array([7], pa.int64()), Decimal("7.00")),
        ("decimal(20, 0)", pa.array([2**64 - 1], pa.uint64()), Decimal(2**64 - 1)),
        ("decimal(9, 2)", pa.array([Decimal("1.5")], pa.decimal128(3, 1)), Decimal("1.50")),
        ("double", pa.array([5], pa.int64()), 5.0),
        ("double", pa.array([0.5], pa.float32()), 0.5),
        ("binary", pa.array([b"ab"], pa.binary(2)), b"ab"),
        ("fixed[2]", pa.array([b"ab"], pa.binary()), b"ab"),
        ("string", pa.array(["é😀"]).dictionary_encode(), "é😀"),
        ("date", pa.array([datetime.date(1969, 12, 31)], pa.date64()), datetime.date(1969, 12, 31)),
        (
            "timestamp",
            pa.array([-1], pa.timestamp("ms")),
            EARLY,
        ),
        ("time", pa.array([1], pa.time32("s")), datetime.time(0, 0, 1)),
        ("long", pa.array([None], pa.null()), None),
    ],
)
def test_lossless_casts(json_type, values, expected):
    batch = pa.record_batch([values], names=["c"])
    assert check(batch, struct(field(1, "c", json_type))).to_pylist() == [{"c": expected}]


def test_bytes_of_sixteen_are_a_uuid():
    schema = struct(field(1, "c", "uuid"))
    batch = pa.record_batch([pa.array([bytes(range(16)), None])], names=["c"])
    assert [value and value.bytes for value in check(batch, schema).column(0).to_pylist()] == [
        bytes(range(16)),
        None,
    ]


@pytest.mark.parametrize(
    ("json_type", "values"),
    [
        ("int", pa.array([2**31])),
        ("int", pa.array(["5"])),
        ("int", pa.array([1.0])),
        ("float", pa.array([0.1], pa.float64())),
        ("double", pa.array([2**53 + 1])),
        ("string", pa.array([5])),
        ("timestamp", pa.array([5])),
        ("date", pa.array([5], pa.int32())),
        ("timestamp", pa.array([5], pa.timestamp("us", tz="UTC"))),
        ("timestamptz", pa.array([5], pa.timestamp("us"))),
        ("timestamptz", pa.array([1], pa.timestamp("ns", tz="UTC"))),
        ("date", pa.array([5], pa.timestamp("us"))),
        ("decimal(3, 2)", pa.array([10])),
        ("decimal(9, 1)", pa.array([Decimal("1.25")])),
        ("fixed[3]", pa.array([b"ab"])),
        ("fixed[3]", pa.array([b"ab"], pa.binary(2))),
        ("fixed[3]", pa.array([b"ab"], pa.binary_view())),
        ("uuid", pa.array([b"ab"], pa.binary(2))),
        ("uuid", pa.array(["f79c3e09-677c-4bbd-a479-3f349cb785e7"])),
        ("boolean", pa.array([1])),
        ("int", pa.array([[1]])),
        (listed(2, "int"), pa.array([1])),
        (struct(field(2, "x", "int")), pa.array([1])),
    ],
)
def test_a_value_that_would_change_is_refused_by_column(json_type, values):
    with pytest.raises(Invalid, match="column 'c'"):
        conform(pa.record_batch([values], names=["c"]), to_arrow(struct(field(1, "c", json_type))))


def test_a_column_unknown_to_the_table_is_refused():
    batch = pa.record_batch({"a": [1], "b": [2]})
    with pytest.raises(Invalid, match="no column 'b'"):
        conform(batch, to_arrow(struct(field(1, "a", "long"))))
    nested = pa.record_batch({"s": [{"x": 1, "y": 2}]})
    with pytest.raises(Invalid, match=r"no column 's\.y'"):
        conform(nested, to_arrow(struct(field(1, "s", struct(field(2, "x", "long"))))))


def test_two_columns_of_one_name_are_refused():
    batch = pa.record_batch([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(Invalid, match="not all different"):
        conform(batch, to_arrow(struct(field(1, "a", "long"))))


REQUIRED = struct(
    field(1, "id", "long", required=True),
    field(2, "s", struct(field(3, "x", "long", required=True), field(4, "y", "string"))),
    field(5, "l", listed(6, "int", required=True)),
    field(7, "m", mapped(8, "string", "int", required=True)),
)
GOOD = {"id": 1, "s": {"x": 1, "y": None}, "l": [1], "m": [("k", 1)]}


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ({**GOOD, "id": None}, "'id'"),
        ({**GOOD, "s": {"x": None, "y": "a"}}, r"'s\.x'"),
        ({**GOOD, "l": [None]}, r"'l\.element'"),
        ({**GOOD, "m": [("k", None)]}, r"'m\.value'"),
    ],
)
def test_a_missing_required_value_is_refused_by_column(row, path):
    loose = pa.schema(
        {
            "id": pa.int64(),
            "s": pa.struct({"x": pa.int64(), "y": pa.string()}),
            "l": pa.list_(pa.int32()),
            "m": pa.map_(pa.string(), pa.int32()),
        }
    )
    batch = pa.RecordBatch.from_pylist([GOOD, row], schema=loose)
    with pytest.raises(Invalid, match=path):
        conform(batch, to_arrow(REQUIRED))
    good = pa.RecordBatch.from_pylist([GOOD, GOOD], schema=loose)
    assert check(good, REQUIRED).to_pylist() == [GOOD, GOOD]


def test_a_null_hidden_in_a_dictionary_is_found():
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([None, "b"]))
    with pytest.raises(Invalid, match="column 'c' is required"):
        conform(
            pa.record_batch([hidden], names=["c"]), to_arrow(struct(field(1, "c", "string", required=True)))
        )


def test_a_missing_required_column_is_refused():
    batch = pa.record_batch({"s": pa.array([{"y": "a"}])})
    with pytest.raises(Invalid, match="column 'id' is required"):
        conform(batch, to_arrow(REQUIRED))
    with pytest.raises(Invalid, match=r"column 's\.x' is required"):
        conform(pa.record_batch({"id": [1], "s": [{"y": "a"}]}), to_arrow(REQUIRED))


def test_required_columns_of_a_null_struct_are_not_missing():
    inner = struct(
        field(3, "x", "long", required=True),
        field(4, "t", struct(field(5, "z", "string", required=True)), required=True),
        field(6, "l", listed(7, "int"), required=True),
        field(8, "u", "uuid", required=True),
        field(9, "d", "date", required=True),
    )
    schema = struct(field(1, "s", inner))
    row = {"x": 1, "t": {"z": "a"}, "l": [5], "u": bytes(16), "d": datetime.date(2020, 1, 1)}
    loose = pa.struct(
        {
            "x": pa.int64(),
            "t": pa.struct({"z": pa.string()}),
            "l": pa.list_(pa.int32()),
            "u": pa.binary(16),
            "d": pa.date32(),
        }
    )
    batch = pa.record_batch({"s": pa.array([None, row, None], loose)})
    result = check(batch, schema)
    assert result.column(0).is_null().to_pylist() == [True, False, True]
    assert result.column(0)[1].as_py()["t"] == {"z": "a"}
    absent = pa.record_batch({"s": pa.array([None, None], pa.struct({"x": pa.int64()}))})
    assert check(absent, schema).column(0).null_count == 2


def test_nested_values_survive_slices_nulls_and_empties():
    schema = struct(
        field(1, "l", listed(2, struct(field(3, "x", "long"), field(4, "new", "int")))),
        field(5, "m", mapped(6, "string", listed(8, "double"))),
    )
    rows = [
        {"l": [{"x": 1}], "m": [("a", [1.0])]},
        {"l": None, "m": None},
        {"l": [], "m": []},
        {"l": [None, {"x": None}, {"x": 3}], "m": [("b", None), ("c", [None, 2.5])]},
    ]
    loose = pa.schema(
        {"l": pa.list_(pa.struct({"x": pa.int32()})), "m": pa.map_(pa.string(), pa.list_(pa.float32()))}
    )
    batch = pa.RecordBatch.from_pylist(rows, schema=loose)

    def wide(row):
        inner = row["l"] and [item and {**item, "new": None} for item in row["l"]]
        return {**row, "l": inner}

    for start in range(4):
        for stop in range(start, 5):
            part = batch.slice(start, stop - start)
            assert check(part, schema).to_pylist() == [wide(row) for row in rows[start:stop]]


def test_other_list_layouts():
    schema = struct(field(1, "l", listed(2, "long")))
    for layout in (pa.list_(pa.int32(), 2), pa.list_view(pa.int32()), pa.large_list(pa.int32())):
        batch = pa.record_batch([pa.array([[1, 2], None, [3, 4]], layout)], names=["l"])
        assert check(batch, schema).column(0).to_pylist() == [[1, 2], None, [3, 4]]


def test_an_empty_batch_takes_any_shape():
    batch = pa.RecordBatch.from_pylist([], schema=pa.schema({"id": pa.int64()}))
    assert check(batch, REQUIRED).num_rows == 0


def test_a_struct_without_fields_cannot_be_written():
    with pytest.raises(Invalid, match="without fields"):
        conform(
            pa.record_batch([pa.array([{}], pa.struct([]))], names=["s"]),
            to_arrow(struct(field(1, "s", struct()))),
        )
