"""Sort orders over every kind of column, against a row-by-row reading of the specification; and sorting by runs."""

import functools
import struct
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from table_format.schema.arrow import arrow_primitive, to_arrow
from table_format.schema.types import parse_primitive
from table_format.write.ordering import Ordering
from table_format.write.sorting import Sorter
from table_format.write.transforms import parse_transform, transformed

NAN, MINUS_NAN = (
    struct.unpack(">d", bytes.fromhex(text))[0] for text in ("7ff8" + "0" * 12, "fff8" + "0" * 12)
)
FLOATS = st.one_of(
    st.sampled_from([NAN, MINUS_NAN, 0.0, -0.0, float("inf"), float("-inf"), 5e-324, -5e-324]),
    st.floats(allow_nan=False),
)
INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
MICROS = st.integers(-(10**17), 10**17)
TEXT = st.text(st.sampled_from("\x00\x01ab\xff€𝄞"), max_size=12)
BYTES = st.binary(max_size=6) | st.lists(st.sampled_from([b"\x00", b"\x01", b"\xff"]), max_size=6).map(
    b"".join
)
TYPES = {
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": FLOATS,
    "double": FLOATS,
    "date": st.integers(-800_000, 3_000_000),
    "time": st.integers(0, 86_399_999_999),
    "timestamp": MICROS,
    "timestamptz": MICROS,
    "timestamp_ns": LONGS,
    "string": TEXT,
    "binary": BYTES,
    "fixed[3]": st.binary(min_size=3, max_size=3),
    "uuid": st.binary(min_size=16, max_size=16),
    "decimal(9, 2)": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda number: Decimal(f"{number}E-2")),
    "decimal(38, 10)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda number: Decimal(f"{number}E-10")),
}
TRANSFORMS = {
    "identity": list(TYPES),
    "bucket[5]": [name for name in TYPES if name not in {"boolean", "float", "double"}],
    "truncate[2]": ["int", "long", "string", "binary", "decimal(9, 2)", "decimal(38, 10)"],
    "year": ["date", "timestamp", "timestamptz", "timestamp_ns"],
    "month": ["date", "timestamp", "timestamptz"],
    "day": ["date", "timestamp", "timestamptz", "timestamp_ns"],
    "hour": ["timestamp", "timestamptz", "timestamp_ns"],
    "void": ["int", "string"],
}
FIELDS = st.sampled_from([(transform, name) for transform, names in TRANSFORMS.items() for name in names])
DIRECTIONS, NULLS = st.sampled_from(["asc", "desc"]), st.sampled_from(["nulls-first", "nulls-last"])


def array(values, name):
    arrow = arrow_primitive(parse_primitive(name))
    if name == "uuid":
        return pa.ExtensionArray.from_storage(arrow, pa.array(values, pa.binary(16)))
    if pa.types.is_date(arrow):
        return pa.array(values, pa.int32()).cast(arrow)
    if pa.types.is_temporal(arrow):
        return pa.array(values, pa.int64()).cast(arrow)
    if pa.types.is_float32(arrow):
        return pa.array(values, pa.float64()).cast(arrow)
    return pa.array(values, arrow)


def comparable(value):
    """A value so that Python compares it as the specification orders it."""
    if isinstance(value, float):
        bits = int.from_bytes(struct.pack(">d", value))
        return (
            bits if bits < 2**63 else 2**63 - 1 - bits
        )  # the greater the bits of a negative, the less it is
    if isinstance(value, str):
        return value.encode()
    return value.bytes if isinstance(value, uuid.UUID) else value


def compare(one, other, fields):
    """Field by field, as the specification says it."""
    for left, right, (direction, nulls) in zip(one, other, fields, strict=True):
        if (left is None) != (right is None):
            return -1 if (left is None) == (nulls == "nulls-first") else 1
        if left is None or left == right:
            continue
        return -1 if (left < right) == (direction == "asc") else 1
    return 0


@st.composite
def worlds(draw):
    """An order of up to three fields, and rows in a few batches."""
    chosen = draw(st.lists(FIELDS, min_size=1, max_size=3))
    rows = draw(st.integers(1, 25))
    columns, fields = [], []
    for place, (transform, name) in enumerate(chosen):
        values = draw(st.lists(st.none() | TYPES[name], min_size=rows, max_size=rows))
        columns.append(array(values, name))
        order = {"direction": draw(DIRECTIONS), "null-order": draw(NULLS)}
        fields.append({"transform": transform, "source-id": place + 1, **order})
    return chosen, columns, fields, draw(st.integers(1, rows)), draw(st.sampled_from([1, 300, 1 << 20]))


def schema_of(chosen):
    columns = [
        {"id": place + 1, "name": f"c{place}", "required": False, "type": name}
        for place, (_, name) in enumerate(chosen)
    ]
    number = {"id": 100, "name": "number", "required": True, "type": "long"}
    carried = {
        "type": "struct",
        "fields": [
            {
                "id": 102,
                "name": "numbers",
                "required": False,
                "type": {"type": "list", "element-id": 103, "element": "long", "element-required": False},
            }
        ],
    }
    nested = {"id": 101, "name": "nested", "required": False, "type": carried}
    return {"type": "struct", "schema-id": 0, "fields": [*columns, number, nested]}


def batch_of(columns, schema):
    rows = len(columns[0])
    arrow = to_arrow(schema)
    nested = pa.array(
        [{"numbers": [n, None]} if n % 3 else None for n in range(rows)], arrow.field("nested").type
    )
    return pa.RecordBatch.from_arrays([*columns, pa.array(range(rows), pa.int64()), nested], schema=arrow)


def exact(table):
    """Every value, column by column, so that what differs in a bit is not equal."""
    found = []
    for column in table.combine_chunks().columns:
        plain = column.combine_chunks()
        if pa.types.is_floating(plain.type):
            plain = plain.view(pa.int32() if pa.types.is_float32(plain.type) else pa.int64())
        elif pa.types.is_temporal(plain.type):
            plain = plain.cast(pa.int32() if pa.types.is_date(plain.type) else pa.int64())
        found.append(plain.to_pylist())
    return found


def derived(chosen, columns):
    """The values that rows are ordered by, row by row."""
    found = []
    for (transform, name), column in zip(chosen, columns, strict=True):
        values = transformed(parse_transform(transform), column, parse_primitive(name))
        if pa.types.is_date(values.type):
            values = values.cast(pa.int32())
        elif pa.types.is_temporal(values.type):
            values = values.cast(pa.int64())
        found.append([None if value is None else comparable(value) for value in values.to_pylist()])
    return list(zip(*found, strict=True))


@settings(max_examples=50, deadline=None)
@given(worlds())
def test_rows_come_out_in_the_order_of_the_specification_each_exactly_once(world):
    chosen, columns, fields, rows_per_batch, memory = world
    schema = schema_of(chosen)
    whole = batch_of(columns, schema)
    ordering = Ordering({"order-id": 1, "fields": fields}, schema)
    with Sorter(whole.schema, ordering.keys, memory) as sorter:
        for start in range(0, whole.num_rows, rows_per_batch):
            sorter.add(whole.slice(start, rows_per_batch))
        out = pa.Table.from_batches(list(sorter.rows()), whole.schema)
    numbers = out.column("number").to_pylist()
    assert sorted(numbers) == list(range(whole.num_rows))
    assert exact(out) == [[column[n] for n in numbers] for column in exact(pa.Table.from_batches([whole]))]
    values = derived(chosen, columns)
    told = [(field["direction"], field["null-order"]) for field in fields]
    in_order = [values[n] for n in numbers]
    expected = sorted(values, key=functools.cmp_to_key(lambda one, other: compare(one, other, told)))
    assert in_order == expected


@settings(max_examples=25, deadline=None)
@given(worlds())
def test_a_z_order_keeps_every_row_and_never_puts_one_before_another_that_is_less_in_all_fields(world):
    chosen, columns, fields, rows_per_batch, memory = world
    schema = schema_of(chosen)
    whole = batch_of(columns, schema)
    ordering = Ordering({"order-id": 1, "fields": fields}, schema)
    with Sorter(whole.schema, ordering.z_keys, memory) as sorter:
        for start in range(0, whole.num_rows, rows_per_batch):
            sorter.add(whole.slice(start, rows_per_batch))
        out = pa.Table.from_batches(list(sorter.rows()), whole.schema)
    numbers = out.column("number").to_pylist()
    assert sorted(numbers) == list(range(whole.num_rows))
    assert exact(out) == [[column[n] for n in numbers] for column in exact(pa.Table.from_batches([whole]))]
    keys = ordering.z_keys(whole).to_pylist()
    values = derived(chosen, columns)
    told = [(field["direction"], field["null-order"]) for field in fields]
    for one in range(whole.num_rows):
        for other in range(whole.num_rows):
            fieldwise = [
                compare((left,), (right,), [how])
                for left, right, how in zip(values[one], values[other], told, strict=True)
            ]
            if all(result <= 0 for result in fieldwise):
                assert keys[one] <= keys[other]


@pytest.mark.parametrize("name", list(TYPES))
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_a_column_of_nulls_and_one_without_rows_have_keys(name, direction):
    schema = schema_of([("identity", name)])
    fields = [{"transform": "identity", "source-id": 1, "direction": direction, "null-order": "nulls-first"}]
    ordering = Ordering({"order-id": 1, "fields": fields}, schema)
    nulls = batch_of([array([None] * 3, name)], schema)
    assert len(set(ordering.keys(nulls).to_pylist())) == 1
    assert len(set(ordering.z_keys(nulls).to_pylist())) == 1
    assert len(ordering.keys(nulls.slice(0, 0))) == 0
    assert len(ordering.z_keys(nulls.slice(0, 0))) == 0
