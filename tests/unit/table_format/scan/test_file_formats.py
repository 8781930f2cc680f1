"""Avro and ORC files, read like Parquet."""

import datetime as dt
import decimal
import io
import uuid
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc

from table_format.errors import Invalid, NoSuchFile
from table_format.io.memory import MemoryObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile
from table_format.scan.read import read_file
from table_format.schema.arrow import to_arrow
from tests.fakes.clock import ManualClock
from tests.unit.table_format.scan.test_read import MAPPED_SCHEMA, MAPPING, field, lists, maps, struct

PATH = "memory://w/data/a"
FORMATS = ("AVRO", "ORC")


@pytest.fixture
def store() -> MemoryObjectStore:
    return MemoryObjectStore(ManualClock())


def put(store: MemoryObjectStore, data: bytes, kind: str, rows: int) -> DataFile:
    store.put(PATH, data)
    return DataFile(file_path=PATH, file_format=kind, record_count=rows, file_size_in_bytes=len(data))


def avro(fields: Sequence[Any], rows: Sequence[Any], **options: Any) -> bytes:
    buffer = io.BytesIO()
    schema = {"type": "record", "name": "table", "fields": list(fields)}
    fastavro.writer(buffer, schema, rows, **options)
    return buffer.getvalue()


def avro_field(number: int | None, name: str, kind: Any) -> JsonObject:
    return {"name": name, "type": ["null", kind], "default": None} | ({"field-id": number} if number else {})


def orc_field(number: int | None, name: str, kind: pa.DataType, **attributes: str) -> Any:
    ids = {"iceberg.id": str(number)} if number else {}
    return pa.field(
        name, kind, metadata=ids | {f"iceberg.{k.replace('_', '-')}": v for k, v in attributes.items()}
    )


def orc_file(fields: Sequence[Any], rows: Sequence[Any], **options: Any) -> bytes:
    buffer = io.BytesIO()
    orc.write_table(pa.Table.from_pylist(list(rows), schema=pa.schema(list(fields))), buffer, **options)
    return buffer.getvalue()


def read(store: MemoryObjectStore, file: DataFile, schema: JsonObject, **options: Any) -> list[Any]:
    batches = list(read_file(store, file, schema, **options))
    assert all(batch.schema.equals(to_arrow(schema)) for batch in batches)
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


AVRO_TYPES: list[tuple[str, Any, Any, Any]] = [
    ("boolean", "boolean", True, True),
    ("int", "int", -5, -5),
    ("long", "int", 7, 7),
    ("long", "long", 2**62, 2**62),
    ("float", "float", 0.5, 0.5),
    ("double", "float", 0.5, 0.5),
    ("double", "double", -0.1, -0.1),
    ("date", {"type": "int", "logicalType": "date"}, -1, dt.date(1969, 12, 31)),
    ("time", {"type": "long", "logicalType": "time-micros"}, 1, dt.time(0, 0, 0, 1)),
    (
        "timestamp",
        {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
        -1,
        dt.datetime.fromisoformat("1969-12-31T23:59:59.999999"),
    ),
    (
        "timestamp",
        {"type": "long", "logicalType": "timestamp-millis", "adjust-to-utc": False},
        253_402_300_799_000,
        dt.datetime.fromisoformat("9999-12-31T23:59:59"),
    ),
    (
        "timestamptz",
        {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
        1,
        dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC),
    ),
    ("string", "string", "é", "é"),
    ("string", {"type": "enum", "name": "e", "symbols": ["a", "b"]}, "b", "b"),
    ("binary", "bytes", b"\x00\xff", b"\x00\xff"),
    ("fixed[3]", {"type": "fixed", "name": "f", "size": 3}, b"abc", b"abc"),
    (
        "uuid",
        {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"},
        uuid.UUID(int=7).bytes,
        uuid.UUID(int=7),
    ),
    ("uuid", {"type": "string", "logicalType": "uuid"}, uuid.UUID(int=7), uuid.UUID(int=7)),
    (
        "decimal(20, 3)",
        {"type": "fixed", "name": "d", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 3},
        decimal.Decimal("-12345678901234567.125"),
        decimal.Decimal("-12345678901234567.125"),
    ),
    (
        "decimal(9, 2)",
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        decimal.Decimal("1.25"),
        decimal.Decimal("1.25"),
    ),
]


@pytest.mark.parametrize(("kind", "stored", "value", "expected"), AVRO_TYPES)
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_avro_types(
    store: MemoryObjectStore, codec: str, kind: str, stored: Any, value: Any, expected: Any
) -> None:
    data = avro([avro_field(1, "v", stored)], [{"v": value}, {"v": None}], codec=codec)
    file = put(store, data, "AVRO", 2)
    assert read(store, file, struct(field(1, "v", kind))) == [{"v": expected}, {"v": None}]


ORC_TYPES: list[tuple[str, Any, Any]] = [
    ("boolean", orc_field(1, "v", pa.bool_()), True),
    ("int", orc_field(1, "v", pa.int32()), -5),
    ("long", orc_field(1, "v", pa.int32()), 5),
    ("long", orc_field(1, "v", pa.int64()), 2**62),
    ("double", orc_field(1, "v", pa.float32()), 0.5),
    ("date", orc_field(1, "v", pa.date32()), dt.date(1500, 12, 31)),
    ("time", orc_field(1, "v", pa.int64(), long_type="TIME"), dt.time(0, 0, 0, 1)),
    (
        "timestamp",
        orc_field(1, "v", pa.timestamp("us")),
        dt.datetime.fromisoformat("1969-12-31T23:59:59.999999"),
    ),
    ("timestamptz", orc_field(1, "v", pa.timestamp("us", "UTC")), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
    ("string", orc_field(1, "v", pa.string()), "é"),
    ("binary", orc_field(1, "v", pa.binary()), b"\x00\xff"),
    ("fixed[3]", orc_field(1, "v", pa.binary(), binary_type="FIXED", length="3"), b"abc"),
    ("uuid", orc_field(1, "v", pa.binary(), binary_type="UUID"), uuid.UUID(int=7)),
    ("decimal(20, 3)", orc_field(1, "v", pa.decimal128(18, 3)), decimal.Decimal("-1.125")),
]


@pytest.mark.parametrize(("kind", "stored", "expected"), ORC_TYPES, ids=lambda value: str(value)[:40])
def test_orc_types(store: MemoryObjectStore, kind: str, stored: Any, expected: Any) -> None:
    value = {"time": 1, "uuid": uuid.UUID(int=7).bytes}.get(kind, expected)
    file = put(store, orc_file([stored], [{"v": value}, {"v": None}]), "ORC", 2)
    assert read(store, file, struct(field(1, "v", kind))) == [{"v": expected}, {"v": None}]


def test_orc_timestamp_that_arrow_cannot_hold_is_refused_not_wrapped(store: MemoryObjectStore) -> None:
    stored = orc_field(1, "v", pa.timestamp("us"))
    file = put(store, orc_file([stored], [{"v": dt.datetime.fromisoformat("9999-01-01")}]), "ORC", 1)
    with pytest.raises(Invalid, match="memory://w/data/a cannot be read: ORC timestamp"):
        read(store, file, struct(field(1, "v", "timestamp")))


@pytest.mark.parametrize(
    ("kind", "stored", "value"),
    [("time", orc_field(1, "v", pa.int64()), 1), ("uuid", orc_field(1, "v", pa.binary()), b"u" * 16)],
    ids=["time", "uuid"],
)
def test_orc_values_that_the_file_does_not_call_so_are_refused(
    store: MemoryObjectStore, kind: str, stored: Any, value: Any
) -> None:
    file = put(store, orc_file([stored], [{"v": value}]), "ORC", 1)
    with pytest.raises(Invalid, match="column 'v'"):
        read(store, file, struct(field(1, "v", kind)))


def test_orc_fixed_of_another_length_is_refused(store: MemoryObjectStore) -> None:
    stored = orc_field(1, "v", pa.binary(), binary_type="FIXED", length="3")
    file = put(store, orc_file([stored], [{"v": b"four"}]), "ORC", 1)
    with pytest.raises(Invalid, match="column 'v'"):
        read(store, file, struct(field(1, "v", "fixed[3]")))


ROWS: list[Any] = [
    {"s": {"x": 1, "gone": "d"}, "l": [{"y": 1}, None, {"y": None}], "m": [("k", {"v": 1.5}), ("n", None)]},
    {"s": None, "l": None, "m": None},
    {"s": {"x": None, "gone": None}, "l": [], "m": []},
]
NESTED = struct(
    field(3, "m", maps(30, "string", 31, struct(field(33, "new", "int"), field(32, "w", "double")))),
    field(1, "s", struct(field(12, "d", "int", **{"initial-default": 7}), field(10, "renamed", "long"))),
    field(2, "l", lists(20, struct(field(21, "y", "long")))),
)
NESTED_ROWS = [
    {
        "m": [("k", {"new": None, "w": 1.5}), ("n", None)],
        "s": {"d": 7, "renamed": 1},
        "l": [{"y": 1}, None, {"y": None}],
    },
    {"m": None, "s": None, "l": None},
    {"m": [], "s": {"d": 7, "renamed": None}, "l": []},
]


def nested_avro(rows: Sequence[Any], *, pairs: bool = False) -> bytes:
    inner = {
        "type": "record",
        "name": "r1",
        "fields": [avro_field(10, "x", "int"), avro_field(11, "gone", "string")],
    }
    element = {"type": "record", "name": "r2", "fields": [avro_field(21, "y", "int")]}
    value = {"type": "record", "name": "r3", "fields": [avro_field(32, "v", "float")]}
    map_type: Any = {"type": "map", "values": ["null", value], "key-id": 30, "value-id": 31}
    if pairs:
        key_field = {"name": "key", "type": "string", "field-id": 30}
        pair = {"type": "record", "name": "r4", "fields": [key_field, avro_field(31, "value", value)]}
        map_type = {"type": "array", "items": pair, "logicalType": "map"}

    def entries(held: Any) -> Any:
        if held is None:
            return None
        return [{"key": key, "value": value} for key, value in held] if pairs else dict(held)

    fields = [
        avro_field(1, "s", inner),
        avro_field(2, "l", {"type": "array", "items": ["null", element], "element-id": 20}),
        avro_field(3, "m", map_type),
    ]
    return avro(fields, [row | {"m": entries(row["m"])} for row in rows])


@pytest.mark.parametrize("pairs", [False, True])
def test_nested_avro(store: MemoryObjectStore, pairs: bool) -> None:
    file = put(store, nested_avro(ROWS, pairs=pairs), "AVRO", 3)
    assert read(store, file, NESTED) == NESTED_ROWS
    assert read(store, file, NESTED, batch_rows=1) == NESTED_ROWS


def test_nested_orc(store: MemoryObjectStore) -> None:
    inner = pa.struct([orc_field(10, "x", pa.int32()), orc_field(11, "gone", pa.string())])
    element = orc_field(20, "element", pa.struct([orc_field(21, "y", pa.int32())]))
    value = orc_field(31, "value", pa.struct([orc_field(32, "v", pa.float32())]))
    key = pa.field("key", pa.string(), nullable=False, metadata={"iceberg.id": "30"})
    fields = [
        orc_field(1, "s", inner),
        orc_field(2, "l", pa.list_(element)),
        orc_field(3, "m", pa.map_(key, value)),
    ]
    file = put(store, orc_file(fields, ROWS), "ORC", 3)
    assert read(store, file, NESTED) == NESTED_ROWS
    assert read(store, file, NESTED, batch_rows=1) == NESTED_ROWS


@pytest.mark.parametrize("kind", FORMATS)
def test_files_without_ids_are_read_by_the_name_mapping(store: MemoryObjectStore, kind: str) -> None:
    rows = [{"old_name": 1, "s": {"x": 2}, "l": [{"y": 3}], "m": {"k": 4}, "extra": 5}]
    fields = [
        avro_field(None, "old_name", "int"),
        avro_field(None, "s", {"type": "record", "name": "s", "fields": [avro_field(None, "x", "int")]}),
        avro_field(
            None,
            "l",
            {
                "type": "array",
                "items": {"type": "record", "name": "i", "fields": [avro_field(None, "y", "int")]},
            },
        ),
        avro_field(None, "m", {"type": "map", "values": "int"}),
        avro_field(None, "extra", "int"),
    ]
    plain = pa.schema(
        [
            ("old_name", pa.int32()),
            ("s", pa.struct([("x", pa.int32())])),
            ("l", pa.list_(pa.struct([("y", pa.int32())]))),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("extra", pa.int32()),
        ]
    )
    data = avro(fields, rows) if kind == "AVRO" else orc_file(list(plain), [rows[0] | {"m": [("k", 4)]}])
    file = put(store, data, kind, 1)
    expected = [{"id": 1, "s": {"x": 2}, "l": [{"y": 3}], "m": [("k", 4)]}]
    assert read(store, file, MAPPED_SCHEMA, name_mapping=MAPPING) == expected
    with pytest.raises(Invalid, match="has no field ids"):
        read(store, file, MAPPED_SCHEMA)


@pytest.mark.parametrize("kind", FORMATS)
def test_order_batches_and_files_without_any_wanted_column(store: MemoryObjectStore, kind: str) -> None:
    rows = [{"v": number, "a.b": str(number)} for number in range(20_000)]
    if kind == "AVRO":
        dotted = avro_field(2, "a_x2Eb", "string") | {"iceberg-field-name": "a.b"}
        renamed = [{"v": row["v"], "a_x2Eb": row["a.b"]} for row in rows]
        data = avro([avro_field(1, "v", "long"), dotted], renamed, sync_interval=1000)
    else:
        data = orc_file(
            [orc_field(1, "v", pa.int64()), orc_field(2, "a.b", pa.string())], rows, stripe_size=4096
        )
    file = put(store, data, kind, len(rows))
    schema = struct(field(2, "text", "string"), field(1, "v", "long"))
    batches = list(read_file(store, file, schema, batch_rows=700))
    assert max(batch.num_rows for batch in batches) <= 700
    found = [row for batch in batches for row in batch.to_pylist()]
    assert found == [{"text": row["a.b"], "v": row["v"]} for row in rows]
    assert read(store, file, struct(field(9, "b", "int"))) == [{"b": None}] * 20_000


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files_are_refused(store: MemoryObjectStore, kind: str) -> None:
    rows = [{"v": number * 7919} for number in range(5000)]
    whole = (
        avro([avro_field(1, "v", "long")], rows, codec="deflate")
        if kind == "AVRO"
        else orc_file([orc_field(1, "v", pa.int64())], rows)
    )
    schema = struct(field(1, "v", "long"))
    for bad in (b"", b"neither of the two, but long enough to look", whole[: len(whole) // 2]):
        with pytest.raises(Invalid, match="memory://w/data/a"):
            read(store, put(store, bad, kind, 5000), schema)
    file = put(store, whole, kind, 5000)
    store.delete_many([PATH])
    with pytest.raises(NoSuchFile):
        read(store, file, schema)


def test_avro_value_that_its_type_does_not_hold_is_refused(store: MemoryObjectStore) -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    data = avro([avro_field(1, "v", kind)], [{"v": decimal.Decimal("1234567.25")}])
    narrow = data.replace(b'"precision": 9', b'"precision": 4')
    with pytest.raises(Invalid, match="column 'v'"):
        read(store, put(store, narrow, "AVRO", 1), struct(field(1, "v", "decimal(9, 2)")))


def test_avro_union_of_several_types_is_refused(store: MemoryObjectStore) -> None:
    data = avro([{"name": "v", "type": ["null", "int", "string"], "field-id": 1}], [{"v": 1}])
    with pytest.raises(Invalid, match="column 'v' is a union of several types"):
        read(store, put(store, data, "AVRO", 1), struct(field(1, "v", "int")))
