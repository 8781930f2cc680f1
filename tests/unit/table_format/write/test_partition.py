import datetime
import math
import re
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from table_format.errors import Invalid, Unsupported
from table_format.schema.murmur import hash_bytes, hash_longs, murmur3
from table_format.schema.types import parse_primitive
from table_format.write.partition import partition_batch, partition_path
from table_format.write.transforms import Transform, parse_transform, transformed, unscaled_bytes


def schema(**columns):
    fields = [
        {"id": place, "name": name, "required": False, "type": json_type}
        for place, (name, json_type) in enumerate(columns.items(), 1)
    ]
    return {"type": "struct", "fields": fields}


def spec(*fields):
    made = [
        {"source-id": source, "field-id": 1000 + place, "name": name, "transform": transform}
        for place, (source, name, transform) in enumerate(fields)
    ]
    return {"spec-id": 0, "fields": made}


def signed(hashed):
    return hashed - 2**32 if hashed >= 2**31 else hashed


def test_hashes_are_those_of_the_specification():
    assert signed(murmur3(b"iceberg")) == 1210000089
    assert signed(murmur3(bytes([0, 1, 2, 3]))) == -188683207
    assert signed(murmur3(uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes)) == 1488055340
    assert signed(murmur3(unscaled_bytes(Decimal("14.20")))) == -500754589
    longs = {
        34: 2017239379,
        17486: -653330422,
        81_068_000_000: -662762989,
        1_510_871_468_000_000: -2047944441,
    }
    assert [signed(value) for value in hash_longs(pa.array(longs, pa.int64())).to_pylist()] == list(
        longs.values()
    )


def test_a_column_of_bytes_hashes_like_its_values():
    lengths = [0, 1, 3, 4, 5, 8, 15, 16, 17, 255, 256, 257, 260, 1000]
    values = [None, *(bytes(place % 251 for place in range(length)) for length in lengths), None]
    expected = [None if value is None else murmur3(value) for value in values]
    assert hash_bytes(pa.array(values, pa.binary())).to_pylist() == expected
    assert hash_bytes(pa.array([], pa.binary())).to_pylist() == []
    assert hash_bytes(pa.array([None, None], pa.binary())).to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("identity", Transform("identity")),
        ("Bucket[ 16 ]", Transform("bucket", 16)),
        ("truncate[3]", Transform("truncate", 3)),
    ],
)
def test_parse_transform(text, expected):
    assert parse_transform(text) == expected


@pytest.mark.parametrize("text", ["bucket[0]", "truncate[4294967296]"])
def test_a_width_out_of_range_is_invalid(text):
    with pytest.raises(Invalid, match="width"):
        parse_transform(text)


@pytest.mark.parametrize("text", ["bucket", "bucket[-1]", "zorder", "days", "", None])
def test_unknown_transforms_are_not_written(text):
    with pytest.raises(Unsupported, match="not known"):
        parse_transform(text)


@pytest.mark.parametrize(
    ("transform", "json_type"),
    [
        ("hour", "date"),
        ("year", "string"),
        ("bucket[4]", "double"),
        ("bucket[4]", "boolean"),
        ("truncate[4]", "uuid"),
    ],
)
def test_a_transform_that_does_not_take_the_type_is_invalid(transform, json_type):
    with pytest.raises(Invalid, match="does not take type"):
        partition_batch(pa.record_batch({"c": []}), spec((1, "p", transform)), schema(c=json_type))


def test_truncate_wraps_in_the_width_of_the_type_as_java_does():
    least = pa.array([-(2**31)], pa.int32())
    result = transformed(Transform("truncate", 10), least, parse_primitive("int"))
    assert (result.type, result.to_pylist()) == (pa.int32(), [2147483646])


@pytest.mark.parametrize("micros", [-(2**63), -1, 0, 2**63 - 1])
def test_times_far_away_do_not_wrap(micros):
    # Python's calendar ends at the year 9999; the Gregorian one repeats every 400 years.
    days, hours = micros // 86_400_000_000, micros // 3_600_000_000
    cycles, within = divmod(days, 146_097)
    near = datetime.date(2000, 1, 1) + datetime.timedelta(days=within - 10_957)
    year = near.year - 1970 + 400 * cycles
    column = pa.array([micros], pa.int64()).cast(pa.timestamp("us"))
    found = [
        transformed(Transform(unit), column, parse_primitive("timestamp")).to_pylist()[0]
        for unit in ("year", "month", "day", "hour")
    ]
    assert found == [year, year * 12 + near.month - 1, days, hours]


def test_an_unpartitioned_spec_is_one_partition():
    batch = pa.record_batch({"c": [1, 2]})
    assert partition_batch(batch, spec(), schema(c="long")) == [((), batch)]
    assert partition_batch(batch.slice(0, 0), spec(), schema(c="long")) == []


def test_one_partition_keeps_the_batch_itself():
    batch = pa.record_batch({"c": pa.array([3, 3], pa.int64())})
    ((partition, part),) = partition_batch(batch, spec((1, "c", "identity")), schema(c="long"))
    assert partition == (3,)
    assert part is batch


def test_rows_keep_their_order_and_parts_do_not_hold_the_whole_batch():
    batch = pa.record_batch({"c": pa.array([0, 1] * 50_000, pa.int64()), "row": range(100_000)})
    parts = dict(partition_batch(batch, spec((1, "c", "identity")), schema(c="long", row="long")))
    assert parts[0,].column("row").to_pylist() == list(range(0, 100_000, 2))
    assert parts[1,].column("row").to_pylist() == list(range(1, 100_000, 2))
    assert parts[0,].get_total_buffer_size() < batch.get_total_buffer_size() * 0.6


def test_very_many_partitions():
    batch = pa.record_batch({"a": [row % 61 for row in range(5000)], "b": [row % 89 for row in range(5000)]})
    parts = partition_batch(
        batch, spec((1, "a", "identity"), (2, "b", "identity")), schema(a="long", b="long")
    )
    assert len(parts) == 5000
    assert all(part.to_pylist() == [{"a": key[0], "b": key[1]}] for key, part in parts)


def test_nan_and_signed_zeros_are_partitions_of_their_own():
    values = [math.nan, 0.0, -0.0, None, -math.nan]
    batch = pa.record_batch({"c": pa.array(values, pa.float32())})
    parts = partition_batch(batch, spec((1, "c", "identity")), schema(c="float"))
    assert [repr(partition[0]) for partition, _ in parts] == ["nan", "0.0", "-0.0", "None"]
    assert [part.num_rows for _, part in parts] == [2, 1, 1, 1]


def test_a_source_inside_a_struct_and_a_null_struct():
    inner = {"type": "struct", "fields": [{"id": 2, "name": "ts", "required": True, "type": "timestamptz"}]}
    nested = schema(meta=inner)
    meta = pa.struct({"ts": pa.timestamp("us", tz="UTC")})
    batch = pa.record_batch({"meta": pa.array([{"ts": -1}, None, {"ts": 3_600_000_000}], meta)})
    parts = partition_batch(batch, spec((2, "h", "hour")), nested)
    assert [partition for partition, _ in parts] == [(-1,), (None,), (1,)]


def test_a_source_inside_a_list_is_refused():
    listed = {"type": "list", "element-id": 2, "element": "int", "element-required": False}
    with pytest.raises(Invalid, match="inside a list"):
        partition_batch(pa.record_batch({"c": [[1]]}), spec((2, "p", "identity")), schema(c=listed))
    with pytest.raises(Invalid, match="not of a primitive type"):
        partition_batch(pa.record_batch({"c": [[1]]}), spec((1, "p", "identity")), schema(c=listed))


def test_a_source_that_the_schema_lost():
    batch = pa.record_batch({"c": pa.array([1], pa.int32())})
    ((partition, _),) = partition_batch(
        batch, spec((9, "old", "void"), (1, "c", "identity")), schema(c="int")
    )
    assert partition == (None, 1)
    with pytest.raises(Invalid, match="no field with id 9"):
        partition_batch(batch, spec((9, "old", "identity")), schema(c="int"))


def test_a_source_that_the_rows_lack_is_null_and_a_wrong_type_is_refused():
    batch = pa.record_batch({"other": pa.array([1], pa.int32())})
    ((partition, _),) = partition_batch(batch, spec((1, "c", "bucket[4]")), schema(c="int", other="int"))
    assert partition == (None,)
    with pytest.raises(Invalid, match="column 'c'"):
        partition_batch(pa.record_batch({"c": ["x"]}), spec((1, "c", "identity")), schema(c="int"))


PATHS = [
    ("month", "date", 516, "p=2013-01"),
    ("year", "date", -1, "p=1969"),
    ("day", "timestamp", 15706, "p=2013-01-01"),
    ("hour", "timestamp", -1, "p=1969-12-31-23"),
    ("day", "date", 2**31 - 1, "p=day2147483647"),
    ("identity", "date", -1, "p=1969-12-31"),
    ("identity", "time", 3_661_000_001, "p=01%3A01%3A01.000001"),
    ("identity", "timestamp", -1, "p=1969-12-31T23%3A59%3A59.999999"),
    ("identity", "timestamptz", 0, "p=1970-01-01T00%3A00%3A00.000000%2B00%3A00"),
    ("identity", "string", "a b/../c=é#?%", "p=a+b%2F..%2Fc%3D%C3%A9%23%3F%25"),
    ("identity", "string", "", "p="),
    ("identity", "string", "..", "p=.."),
    ("identity", "string", None, "p=null"),
    ("identity", "boolean", True, "p=true"),
    ("identity", "binary", b"\x00\xff", "p=AP8%3D"),
    ("identity", "decimal(9, 2)", Decimal("1.50"), "p=1.50"),
    ("identity", "uuid", uuid.UUID(int=1), "p=00000000-0000-0000-0000-000000000001"),
    ("bucket[16]", "string", 3, "p=3"),
    ("truncate[10]", "int", -10, "p=-10"),
    ("void", "int", None, "p=null"),
]


@pytest.mark.parametrize(("transform", "json_type", "value", "expected"), PATHS)
def test_partition_path(transform, json_type, value, expected):
    assert partition_path((value,), spec((1, "p", transform)), schema(c=json_type)) == expected


def test_partition_path_of_several_fields_and_of_none():
    both = spec((1, "a b", "identity"), (2, "d", "identity"))
    assert partition_path(("x", 0), both, schema(a="string", d="date")) == "a+b=x/d=1970-01-01"
    assert partition_path((), spec(), schema(a="string")) == ""


def test_a_long_value_is_cut_but_stays_distinct():
    one, other = (
        partition_path((value,), spec((1, "p", "identity")), schema(c="string"))
        for value in ("é" * 500, "é" * 501)
    )
    assert one != other
    assert len(one) < 110
    assert re.search("%(?![0-9A-F]{2})", one) is None, "no escape is cut in two"
