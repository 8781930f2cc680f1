import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from table_format.errors import Invalid
from table_format.schema.arrow import field_id, from_arrow, to_arrow
from table_format.schema.types import walk

PRIMITIVES = [
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "string",
    "uuid",
    "binary",
    "fixed[7]",
    "decimal(9, 2)",
    "decimal(38, 10)",
]


def everything(types=PRIMITIVES):
    fields = [
        {"id": place, "name": f"c{place}", "required": place % 2 == 0, "type": text, "doc": f"doc {place}"}
        for place, text in enumerate(types, 1)
    ]
    inner = {"type": "struct", "fields": [{"id": 104, "name": "x", "required": True, "type": "long"}]}
    listed = {"type": "list", "element-id": 103, "element": inner, "element-required": True}
    mapped = {
        "type": "map",
        "key-id": 106,
        "key": "string",
        "value-id": 107,
        "value": listed,
        "value-required": False,
    }
    fields.append({"id": 102, "name": "points", "required": False, "type": listed})
    listed2 = {**listed, "element-id": 108, "element": {"type": "struct", "fields": []}}
    listed2["element"] = {
        "type": "struct",
        "fields": [{"id": 109, "name": "y", "required": False, "type": "date"}],
    }
    fields.append({"id": 105, "name": "by_name", "required": True, "type": {**mapped, "value": listed2}})
    return {"type": "struct", "schema-id": 0, "fields": fields}


def test_arrow_types_ids_docs_and_nullability_are_those_of_pyiceberg():
    theirs = schema_to_pyarrow(Schema.model_validate(everything()), include_field_ids=True)
    assert to_arrow(everything()).equals(theirs, check_metadata=True)


def test_nanosecond_types_and_unknown():
    schema = everything(["timestamp_ns", "timestamptz_ns", "unknown"])
    assert [field.type for field in to_arrow(schema)][:3] == [
        pa.timestamp("ns"),
        pa.timestamp("ns", tz="UTC"),
        pa.null(),
    ]


def test_from_arrow_gives_back_types_and_docs_with_fresh_ids():
    there_and_back = from_arrow(to_arrow(everything()))
    assert to_arrow(there_and_back).equals(to_arrow(everything()))
    assert [field["doc"] for field in there_and_back["fields"][:2]] == ["doc 1", "doc 2"]
    ids = sorted(view.id for view in walk(there_and_back))
    assert ids == list(range(1, len(ids) + 1))
    assert [field["id"] for field in there_and_back["fields"]] == list(range(1, len(PRIMITIVES) + 3))


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.int8(), "int"),
        (pa.uint16(), "int"),
        (pa.uint32(), "long"),
        (pa.uint64(), "decimal(20, 0)"),
        (pa.float16(), "float"),
        (pa.date64(), "date"),
        (pa.time32("s"), "time"),
        (pa.timestamp("ms"), "timestamp"),
        (pa.timestamp("s", tz="Europe/Berlin"), "timestamptz"),
        (pa.timestamp("ns"), "timestamp_ns"),
        (pa.string(), "string"),
        (pa.string_view(), "string"),
        (pa.binary(), "binary"),
        (pa.binary_view(), "binary"),
        (pa.binary(16), "fixed[16]"),
        (pa.uuid(), "uuid"),
        (pa.decimal256(20, 3), "decimal(20, 3)"),
        (pa.decimal32(5, 2), "decimal(5, 2)"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.run_end_encoded(pa.int32(), pa.int64()), "long"),
        (pa.null(), "unknown"),
    ],
)
def test_from_arrow_types(arrow, expected):
    assert from_arrow(pa.schema([pa.field("c", arrow)]))["fields"][0]["type"] == expected


@pytest.mark.parametrize(
    "listed",
    [pa.list_(pa.int32()), pa.large_list(pa.int32()), pa.list_(pa.int32(), 3), pa.list_view(pa.int32())],
)
def test_every_list_layout_is_a_list(listed):
    assert from_arrow(pa.schema([pa.field("c", listed)]))["fields"][0]["type"] == {
        "type": "list",
        "element-id": 2,
        "element": "int",
        "element-required": False,
    }


@pytest.mark.parametrize(
    "arrow", [pa.duration("s"), pa.decimal256(60, 2), pa.decimal128(9, -2), pa.month_day_nano_interval()]
)
def test_a_column_without_an_iceberg_type_is_named(arrow):
    with pytest.raises(Invalid, match=r"column 's\.bad'"):
        from_arrow(pa.schema([pa.field("s", pa.struct([pa.field("bad", arrow)]))]))


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(Invalid, match="share a name"):
        from_arrow(pa.schema([pa.field("a", pa.int32()), pa.field("a", pa.int64())]))


def test_field_id_of_a_field_without_one():
    assert field_id(pa.field("a", pa.int32())) is None
    assert field_id(to_arrow(everything())[4]) == 5
