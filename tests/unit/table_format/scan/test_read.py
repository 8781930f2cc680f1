"""Data files of any age and origin, read into the table's columns."""

import datetime as dt
import decimal
import io
import uuid
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.errors import Invalid, NoSuchFile, Unsupported
from table_format.io.memory import MemoryObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, Partition
from table_format.metadata.document import TableMetadata
from table_format.scan.files import NAME_MAPPING_PROPERTY, read_name_mapping
from table_format.scan.read import read_file
from table_format.schema.arrow import to_arrow
from tests.fakes.clock import ManualClock

PATH = "memory://w/data/a.parquet"
naive = dt.datetime.fromisoformat


def field(field_id: int, name: str, kind: Any, *, required: bool = False, **more: Any) -> JsonObject:
    return {"id": field_id, "name": name, "type": kind, "required": required, **more}


def struct(*fields: JsonObject) -> JsonObject:
    return {"type": "struct", "fields": list(fields)}


def lists(element_id: int, element: Any) -> JsonObject:
    return {"type": "list", "element-id": element_id, "element": element, "element-required": False}


def maps(key_id: int, key: Any, value_id: int, value: Any) -> JsonObject:
    return {
        "type": "map",
        "key-id": key_id,
        "key": key,
        "value-id": value_id,
        "value": value,
        "value-required": False,
    }


@pytest.fixture
def store() -> MemoryObjectStore:
    return MemoryObjectStore(ManualClock())


def put(store: MemoryObjectStore, table: pa.Table, **options: Any) -> DataFile:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    store.put(PATH, buffer.getvalue())
    return DataFile(file_path=PATH, record_count=table.num_rows, file_size_in_bytes=len(buffer.getvalue()))


def put_rows(store: MemoryObjectStore, schema: JsonObject, rows: Sequence[Any]) -> DataFile:
    return put(store, pa.Table.from_pylist(list(rows), schema=to_arrow(schema)))


def read(store: MemoryObjectStore, file: DataFile, schema: JsonObject, **options: Any) -> list[Any]:
    batches = list(read_file(store, file, schema, **options))
    assert all(batch.schema.equals(to_arrow(schema)) for batch in batches)
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


def test_columns_are_found_by_id_not_by_name_or_place(store: MemoryObjectStore) -> None:
    old = struct(field(1, "a", "int"), field(2, "b", "string"), field(3, "gone", "long"))
    file = put_rows(store, old, [{"a": 1, "b": "x", "gone": 9}])
    new = struct(field(2, "a", "string"), field(4, "b", "int"), field(1, "renamed", "int"))
    assert read(store, file, new) == [{"a": "x", "b": None, "renamed": 1}]


@pytest.mark.parametrize(
    ("old", "new", "value", "expected"),
    [
        ("int", "long", 2**31 - 1, 2**31 - 1),
        ("float", "double", 1.5, 1.5),
        ("decimal(9, 2)", "decimal(38, 2)", decimal.Decimal("-12.34"), decimal.Decimal("-12.34")),
    ],
)
def test_promotions(store: MemoryObjectStore, old: str, new: str, value: Any, expected: Any) -> None:
    file = put_rows(store, struct(field(1, "v", old)), [{"v": value}, {"v": None}])
    assert read(store, file, struct(field(1, "v", new))) == [{"v": expected}, {"v": None}]


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("long", "int", 1),
        ("double", "float", 1.0),
        ("int", "string", 1),
        ("int", "double", 1),
        ("decimal(9, 2)", "decimal(9, 3)", decimal.Decimal("1.00")),
        ("decimal(9, 2)", "decimal(5, 2)", decimal.Decimal("1.00")),
        ("string", "binary", "x"),
        ("date", "timestamptz", dt.date(2020, 1, 1)),
        ("timestamp", "long", naive("2020-01-01")),
        ("string", {"type": "struct", "fields": [field(9, "x", "int")]}, "x"),
    ],
)
def test_types_that_the_spec_does_not_promote_are_refused(
    store: MemoryObjectStore, old: Any, new: Any, value: Any
) -> None:
    file = put_rows(store, struct(field(1, "v", old)), [{"v": value}])
    with pytest.raises(Invalid, match="column 'v'"):
        read(store, file, struct(field(1, "v", new)))


def test_nested_columns_are_projected_at_every_level(store: MemoryObjectStore) -> None:
    inner_old = struct(field(10, "x", "int"), field(11, "dropped", "string"))
    old = struct(
        field(1, "s", inner_old),
        field(2, "l", lists(20, struct(field(21, "y", "int"), field(22, "z", "string")))),
        field(3, "m", maps(30, "string", 31, struct(field(32, "v", "float")))),
    )
    rows = [
        {
            "s": {"x": 1, "dropped": "d"},
            "l": [{"y": 1, "z": "a"}, None, {"y": None, "z": "b"}],
            "m": [("k", {"v": 1.5}), ("n", None)],
        },
        {"s": None, "l": None, "m": None},
        {"s": {"x": None, "dropped": None}, "l": [], "m": []},
    ]
    file = put_rows(store, old, rows)
    new = struct(
        field(3, "m", maps(30, "string", 31, struct(field(33, "new", "int"), field(32, "w", "double")))),
        field(1, "s", struct(field(12, "added", "date"), field(10, "renamed", "long"))),
        field(2, "l", lists(20, struct(field(22, "z", "string"), field(21, "y", "long")))),
    )
    assert read(store, file, new) == [
        {
            "m": [("k", {"new": None, "w": 1.5}), ("n", None)],
            "s": {"added": None, "renamed": 1},
            "l": [{"z": "a", "y": 1}, None, {"z": "b", "y": None}],
        },
        {"m": None, "s": None, "l": None},
        {"m": [], "s": {"added": None, "renamed": None}, "l": []},
    ]


def test_batches_bound_memory_and_keep_order(store: MemoryObjectStore) -> None:
    schema = struct(field(1, "v", "long"), field(2, "l", lists(3, "int")))
    table = pa.Table.from_pylist([{"v": n, "l": [n, n]} for n in range(100)], schema=to_arrow(schema))
    file = put(store, table, row_group_size=30)
    batches = list(read_file(store, file, schema, batch_rows=7))
    assert max(batch.num_rows for batch in batches) == 7
    assert [row["v"] for batch in batches for row in batch.to_pylist()] == list(range(100))


def test_every_primitive_type_comes_back_as_written(store: MemoryObjectStore) -> None:
    kinds = {
        "boolean": True,
        "int": -1,
        "long": 2**62,
        "float": 0.5,
        "double": -0.25,
        "decimal(18, 3)": decimal.Decimal("1.250"),
        "date": dt.date(1969, 12, 31),
        "time": dt.time(23, 59, 59, 999999),
        "timestamp": naive("1969-12-31T23:59:59.999999"),
        "timestamptz": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        "string": "é",
        "uuid": uuid.UUID(int=7),
        "fixed[3]": b"abc",
        "binary": b"\x00\xff",
    }
    schema = struct(*(field(n, f"c{n}", kind) for n, kind in enumerate(kinds)))
    rows = [
        {f"c{n}": value for n, value in enumerate(kinds.values())},
        dict.fromkeys(f"c{n}" for n in range(14)),
    ]
    assert read(store, put_rows(store, schema, rows), schema) == rows


def file_of(store: MemoryObjectStore, array: pa.Array, **options: Any) -> DataFile:
    column = pa.field("v", array.type, metadata={b"PARQUET:field_id": b"1"})
    return put(store, pa.table([array], schema=pa.schema([column])), **options)


@pytest.mark.parametrize(
    ("array", "kind", "expected"),
    [
        (pa.array(["a", "b", "a"]).dictionary_encode(), "string", ["a", "b", "a"]),
        (pa.array([1, 2], pa.int16()), "int", [1, 2]),
        (pa.array([uuid.UUID(int=3).bytes], pa.binary(16)), "uuid", [uuid.UUID(int=3)]),
        (pa.array([1_500], pa.timestamp("ms")), "timestamp", [naive("1970-01-01T00:00:01.5")]),
        (pa.array([1_999], pa.timestamp("ns")), "timestamp", [naive("1970-01-01T00:00:00.000001")]),
        (pa.array([5], pa.time32("ms")), "time", [dt.time(0, 0, 0, 5000)]),
        (pa.array([None, None], pa.null()), "int", [None, None]),
        (
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"u" * 16], pa.binary(16))),
            "fixed[16]",
            [b"u" * 16],
        ),
    ],
)
def test_physical_types_of_other_writers(
    store: MemoryObjectStore, array: pa.Array, kind: str, expected: list[Any]
) -> None:
    rows = read(store, file_of(store, array), struct(field(1, "v", kind)))
    assert [row["v"] for row in rows] == expected


def test_old_hadoop_timestamps(store: MemoryObjectStore) -> None:
    moment = naive("2019-05-06T07:08:09.123456")
    file = file_of(store, pa.array([moment], pa.timestamp("ns")), use_deprecated_int96_timestamps=True)
    assert read(store, file, struct(field(1, "v", "timestamp"))) == [{"v": moment}]


@pytest.mark.parametrize("text", ["0001-12-31T00:00:00", "1600-01-01T00:00:00", "9999-12-31T23:59:59.999999"])
def test_old_hadoop_timestamps_beyond_what_nanoseconds_hold_do_not_wrap(
    store: MemoryObjectStore, text: str
) -> None:
    """Read as nanoseconds, the usual "for ever" of 9999 became 1816 without a word."""
    array = pa.array([naive(text)], pa.timestamp("us"))
    file = file_of(store, array, use_deprecated_int96_timestamps=True)
    assert read(store, file, struct(field(1, "v", "timestamp"))) == [{"v": naive(text)}]


def test_names_with_dots_are_single_names(store: MemoryObjectStore) -> None:
    schema = struct(field(1, "a.b", "int"), field(2, "a", struct(field(3, "b", "int"))), field(4, "c", "int"))
    file = put_rows(store, schema, [{"a.b": 1, "a": {"b": 2}, "c": 3}])
    assert read(store, file, struct(field(1, "a.b", "int"))) == [{"a.b": 1}]
    assert read(store, file, struct(field(2, "a", struct(field(3, "b", "int"))))) == [{"a": {"b": 2}}]


def test_file_without_any_wanted_column_still_has_its_rows(store: MemoryObjectStore) -> None:
    file = put_rows(store, struct(field(1, "a", "int")), [{"a": n} for n in range(5)])
    assert read(store, file, struct(field(2, "b", "int")), batch_rows=2) == [{"b": None}] * 5


def test_required_column_that_is_missing_is_refused(store: MemoryObjectStore) -> None:
    file = put_rows(store, struct(field(1, "a", "int")), [{"a": 1}])
    with pytest.raises(Invalid, match="required column 'b' is not in the file"):
        read(store, file, struct(field(2, "b", "int", required=True)))


DEFAULTS: list[tuple[str, Any, Any]] = [
    ("boolean", True, True),
    ("int", -7, -7),
    ("long", 2**40, 2**40),
    ("float", 0.1, pytest.approx(0.1)),
    ("double", 0.1, 0.1),
    ("decimal(9, 2)", "-12.30", decimal.Decimal("-12.30")),
    ("decimal(38,0)", "9" * 38, decimal.Decimal("9" * 38)),
    ("date", "1969-12-31", dt.date(1969, 12, 31)),
    ("time", "23:59:59.999999", dt.time(23, 59, 59, 999999)),
    ("timestamp", "1969-12-31T23:59:59.999999", naive("1969-12-31T23:59:59.999999")),
    ("timestamptz", "2020-01-01T00:00:00+00:00", dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
    ("string", "é", "é"),
    ("string", "", ""),
    ("uuid", "00000000-0000-0000-0000-000000000007", uuid.UUID(int=7)),
    ("fixed[3]", "616263", b"abc"),
    ("binary", "00FF", b"\x00\xff"),
    ("binary", "", b""),
]


@pytest.mark.parametrize(("kind", "default", "expected"), DEFAULTS)
def test_initial_defaults_fill_columns_that_the_file_lacks(
    store: MemoryObjectStore, kind: str, default: Any, expected: Any
) -> None:
    old = struct(
        field(1, "a", "int"),
        field(3, "s", struct(field(4, "x", "int"))),
        field(6, "l", lists(7, struct(field(8, "x", "int")))),
    )
    rows = [{"a": 1, "s": {"x": 1}, "l": [{"x": 1}, None]}, {"a": 2, "s": None, "l": None}]
    file = put_rows(store, old, rows)
    late = field(2, "d", kind, required=True, **{"initial-default": default})
    new = struct(
        field(1, "a", "int"),
        late,
        field(3, "s", struct(field(4, "x", "int"), late | {"id": 5})),
        field(6, "l", lists(7, struct(field(8, "x", "int"), late | {"id": 9}))),
        field(10, "t", struct(late | {"id": 11})),
    )
    assert read(store, file, new) == [
        {
            "a": 1,
            "d": expected,
            "s": {"x": 1, "d": expected},
            "l": [{"x": 1, "d": expected}, None],
            "t": None,
        },
        {"a": 2, "d": expected, "s": None, "l": None, "t": None},
    ]


@pytest.mark.parametrize("kind", ["timestamp_ns", "timestamptz_ns"])
def test_initial_defaults_of_nanoseconds(store: MemoryObjectStore, kind: str) -> None:
    file = put_rows(store, struct(field(1, "a", "int")), [{"a": 1}])
    text = "1969-12-31T23:59:59.999999999" + ("+00:00" if "tz" in kind else "")
    [batch] = read_file(store, file, struct(field(2, "d", kind, **{"initial-default": text})))
    assert batch.column(0).cast(pa.int64()).to_pylist() == [-1]


def test_initial_default_is_not_for_nulls_in_the_file_nor_before_a_partition_value(
    store: MemoryObjectStore,
) -> None:
    file = put_rows(store, struct(field(1, "a", "int")), [{"a": None}])
    seven = {"initial-default": 7, "write-default": 8}
    assert read(store, file, struct(field(1, "a", "int", **seven))) == [{"a": None}]
    spec = {
        "spec-id": 0,
        "fields": [{"source-id": 2, "field-id": 1000, "name": "p", "transform": "identity"}],
    }
    schema = struct(field(2, "p", "int", **seven), field(3, "b", "int", **seven))
    for value, expected in ((3, 3), (None, 7)):
        inside = DataFile(file_path=PATH, record_count=1, file_size_in_bytes=1, partition=(value,))
        assert read(store, inside, schema, spec=spec) == [{"p": expected, "b": 7}]


@pytest.mark.parametrize(
    ("kind", "default"), [("int", "7"), ("date", "2020-13-01"), ("decimal(9, 2)", "1.2")]
)
def test_initial_default_that_is_no_value_of_its_type_is_refused(
    store: MemoryObjectStore, kind: str, default: Any
) -> None:
    file = put_rows(store, struct(field(1, "a", "int")), [{"a": 1}])
    schema = struct(field(3, "s", struct(field(2, "d", kind, **{"initial-default": default}))))
    with pytest.raises(Invalid, match=r"the initial default of column 's\.d'"):
        read(store, file, schema)


def test_dates_become_timestamps_from_version_3_on(store: MemoryObjectStore) -> None:
    far = put_rows(
        store, struct(field(1, "v", "date")), [{"v": dt.date(1969, 12, 31)}, {"v": dt.date(9999, 1, 1)}]
    )
    found = read(store, far, struct(field(1, "v", "timestamp")))
    assert found == [{"v": naive("1969-12-31T00:00:00")}, {"v": naive("9999-01-01T00:00:00")}]
    with pytest.raises(Invalid, match="column 'v' is timestamp"):
        read(store, far, struct(field(1, "v", "timestamp_ns")))


def test_microseconds_that_nanoseconds_cannot_hold_are_refused_not_wrapped(store: MemoryObjectStore) -> None:
    file = put_rows(store, struct(field(1, "v", "timestamp")), [{"v": naive("9999-01-01T00:00:00")}])
    with pytest.raises(Invalid, match="column 'v'"):
        read(store, file, struct(field(1, "v", "timestamp_ns")))


def no_ids(store: MemoryObjectStore) -> DataFile:
    rows = [{"old_name": 1, "s": {"x": 2}, "l": [{"y": 3}], "m": [("k", 4)], "extra": 5}]
    item = pa.field("item", pa.struct([("y", pa.int32())]))
    schema = pa.schema(
        [
            pa.field("old_name", pa.int32()),
            pa.field("s", pa.struct([("x", pa.int32())])),
            pa.field("l", pa.list_(item)),
            pa.field("m", pa.map_(pa.string(), pa.int32())),
            pa.field("extra", pa.int32()),
        ]
    )
    return put(store, pa.Table.from_pylist(rows, schema=schema))


MAPPING: list[JsonObject] = [
    {"field-id": 1, "names": ["name", "old_name"]},
    {"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["x"]}]},
    {
        "field-id": 4,
        "names": ["l"],
        "fields": [{"field-id": 5, "names": ["element"], "fields": [{"field-id": 6, "names": ["y"]}]}],
    },
    {
        "field-id": 7,
        "names": ["m"],
        "fields": [{"field-id": 8, "names": ["key"]}, {"field-id": 9, "names": ["value"]}],
    },
    {"names": ["unmapped"]},
]
MAPPED_SCHEMA = struct(
    field(1, "id", "long"),
    field(2, "s", struct(field(3, "x", "long"))),
    field(4, "l", lists(5, struct(field(6, "y", "long")))),
    field(7, "m", maps(8, "string", 9, "long")),
)


def test_file_without_ids_is_read_by_the_name_mapping(store: MemoryObjectStore) -> None:
    rows = read(store, no_ids(store), MAPPED_SCHEMA, name_mapping=MAPPING)
    assert rows == [{"id": 1, "s": {"x": 2}, "l": [{"y": 3}], "m": [("k", 4)]}]


def test_file_without_ids_and_without_mapping_is_refused(store: MemoryObjectStore) -> None:
    with pytest.raises(Invalid, match=NAME_MAPPING_PROPERTY):
        read(store, no_ids(store), MAPPED_SCHEMA)


def test_file_with_ids_is_not_read_by_the_mapping(store: MemoryObjectStore) -> None:
    file = put_rows(store, struct(field(5, "name", "int")), [{"name": 1}])
    assert read(store, file, struct(field(1, "id", "int")), name_mapping=MAPPING) == [{"id": None}]


def test_name_mapping_of_a_table() -> None:
    def metadata(text: str | None) -> TableMetadata:
        return TableMetadata({"properties": {} if text is None else {NAME_MAPPING_PROPERTY: text}})

    assert read_name_mapping(metadata(None)) is None
    assert read_name_mapping(metadata(orjson.dumps(MAPPING).decode())) == MAPPING
    for text in ("{", "{}", "[1]"):
        with pytest.raises(Invalid, match=NAME_MAPPING_PROPERTY):
            read_name_mapping(metadata(text))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", "x", "x"),
        ("date", 1, dt.date(1970, 1, 2)),
        ("timestamptz", 1_000_000, dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)),
        ("time", 1, dt.time(0, 0, 0, 1)),
        ("uuid", uuid.UUID(int=9), uuid.UUID(int=9)),
        ("decimal(5, 2)", decimal.Decimal("1.25"), decimal.Decimal("1.25")),
        ("binary", b"z", b"z"),
        ("boolean", False, False),
        ("int", None, None),
    ],
)
def test_identity_partition_column_that_the_file_leaves_out(
    store: MemoryObjectStore, kind: str, value: Any, expected: Any
) -> None:
    file = put_rows(store, struct(field(1, "a", "int")), [{"a": 1}, {"a": 2}])
    partition: Partition = (value, 7)
    spec = {
        "spec-id": 0,
        "fields": [
            {"source-id": 2, "field-id": 1000, "name": "p", "transform": "identity"},
            {"source-id": 1, "field-id": 1001, "name": "b", "transform": "bucket[8]"},
        ],
    }
    with_partition = DataFile(
        file_path=PATH, record_count=2, file_size_in_bytes=file.file_size_in_bytes, partition=partition
    )
    schema = struct(field(2, "p", kind), field(1, "a", "int"))
    assert read(store, with_partition, schema, spec=spec) == [
        {"p": expected, "a": 1},
        {"p": expected, "a": 2},
    ]


def test_column_in_the_file_wins_over_the_partition_value(store: MemoryObjectStore) -> None:
    file = put_rows(store, struct(field(1, "a", "int")), [{"a": 1}])
    spec = {
        "spec-id": 0,
        "fields": [{"source-id": 1, "field-id": 1000, "name": "a", "transform": "identity"}],
    }
    file = DataFile(file_path=PATH, record_count=1, file_size_in_bytes=1, partition=(9,))
    assert read(store, file, struct(field(1, "a", "int")), spec=spec) == [{"a": 1}]


def test_files_that_cannot_be_read(store: MemoryObjectStore) -> None:
    schema = struct(field(1, "a", "int"))
    good = put_rows(store, schema, [{"a": n} for n in range(1000)])
    whole = store.get(PATH)
    for bad in (b"", b"not parquet at all, but long enough to look", whole[: len(whole) // 2]):
        store.put(PATH, bad)
        with pytest.raises(Invalid, match="not a readable Parquet file"):
            read(store, good, schema)
    store.put(PATH, whole[:8] + b"\xff" * 300 + whole[308:])
    with pytest.raises(Invalid, match="cannot be read"):
        read(store, good, schema)
    store.delete_many([PATH])
    with pytest.raises(NoSuchFile):
        read(store, good, schema)


@pytest.mark.parametrize(
    ("more", "text"),
    [({"file_format": "LANCE"}, "only Parquet, ORC and Avro"), ({"key_metadata": b"k"}, "encrypted")],
)
def test_files_that_are_not_supported(store: MemoryObjectStore, more: dict[str, Any], text: str) -> None:
    file = DataFile(file_path=PATH, record_count=1, file_size_in_bytes=1, **more)
    with pytest.raises(Unsupported, match=text):
        read(store, file, struct(field(1, "a", "int")))


def test_maint_C11_format_in_lower_case(store: MemoryObjectStore) -> None:
    put_rows(store, struct(field(1, "a", "int")), [{"a": 1}])
    file = DataFile(file_path=PATH, file_format="parquet", record_count=1, file_size_in_bytes=1)
    assert read(store, file, struct(field(1, "a", "int"))) == [{"a": 1}]


def test_table_without_columns(store: MemoryObjectStore) -> None:
    file = put_rows(store, struct(field(1, "a", "int")), [{"a": 1}])
    with pytest.raises(Invalid, match="no columns"):
        read(store, file, struct())


def test_batches_of_long_values_have_few_rows_and_row_groups_are_read_in_order() -> None:
    schema: JsonObject = {"type": "struct", "fields": [field(1, "id", "long"), field(2, "name", "string")]}
    store = MemoryObjectStore(ManualClock())
    table = pa.table({"id": range(40), "name": pa.array(["x" * 600_000] * 40, pa.large_string())})
    sink = io.BytesIO()
    pq.write_table(table.cast(to_arrow(schema)), sink, row_group_size=7, use_dictionary=False)
    store.put("memory://w/long", sink.getvalue())
    file = DataFile(file_path="memory://w/long", record_count=40, file_size_in_bytes=len(sink.getvalue()))
    batches = list(read_file(store, file, schema))
    assert max(batch.nbytes for batch in batches) < 2_000_000
    assert [row for batch in batches for row in batch.column(0).to_pylist()] == list(range(40))
