from typing import Any

import pytest

from table_format.errors import Invalid
from table_format.metadata import create
from table_format.metadata.document import TableMetadata
from tests.factories.metadata_documents import LOCATION, NOW, SCHEMA, UUID, field, struct

PART = {"source-id": 70, "field-id": 55, "name": "day", "transform": "day"}
SORT = {"source-id": 60, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}


def new(**more: Any) -> TableMetadata:
    arguments: dict[str, Any] = {
        "schema": SCHEMA,
        "partition_spec": None,
        "write_order": None,
        "properties": {},
        "location": LOCATION,
        "uuid": UUID,
        "now_ms": NOW,
        **more,
    }
    return create.new_table(**arguments)


def invalid(**more: Any) -> str:
    with pytest.raises(Invalid) as caught:
        new(**more)
    return caught.value.message


def test_R35_an_empty_table_has_every_member() -> None:
    assert new().document == {
        "format-version": 2,
        "table-uuid": UUID,
        "location": LOCATION,
        "last-sequence-number": 0,
        "last-updated-ms": NOW,
        "last-column-id": 3,
        "current-schema-id": 0,
        "schemas": [{**SCHEMA, "schema-id": 0}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"write.parquet.compression-codec": "zstd"},
        "current-snapshot-id": -1,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }


def test_v1_has_the_legacy_members_too() -> None:
    document = new(properties={"format-version": "1"}).document
    assert document["format-version"] == 1
    assert document["schema"] == document["schemas"][0]
    assert document["partition-spec"] == []
    assert document["current-snapshot-id"] == -1
    assert "last-sequence-number" not in document


def test_v3() -> None:
    schema = struct(field(1, "v", "variant"), field(2, "n", **{"initial-default": 2**63 - 1}))
    document = new(schema=schema, properties={"format-version": "3"}).document
    assert document["next-row-id"] == 0
    assert document["current-snapshot-id"] is None
    assert document["schemas"] == [{**schema, "schema-id": 0}]


def test_ids_are_fresh_and_references_follow() -> None:
    schema = struct(
        field(50, "s", struct(field(60, "x", required=True)), required=True),
        field(70, "at", "timestamp", **{"x-field": 1}),
        **{"schema-id": 9, "identifier-field-ids": [60], "x-schema": 2},
    )
    document = new(
        schema=schema,
        partition_spec={"spec-id": 4, "fields": [{**PART, "x-part": 3}], "x-spec": 4},
        write_order={"order-id": 9, "fields": [{**SORT, "x-sort": 5}], "x-order": 6},
    ).document
    assert document["schemas"] == [
        {
            "type": "struct",
            "schema-id": 0,
            "identifier-field-ids": [3],
            "x-schema": 2,
            "fields": [
                field(1, "s", struct(field(3, "x", required=True)), required=True),
                field(2, "at", "timestamp", **{"x-field": 1}),
            ],
        }
    ]
    assert document["last-column-id"] == 3
    assert document["partition-specs"] == [
        {
            "spec-id": 0,
            "x-spec": 4,
            "fields": [{**PART, "source-id": 2, "field-id": 1000, "x-part": 3}],
        }
    ]
    assert document["last-partition-id"] == 1000
    assert document["sort-orders"] == [
        {"order-id": 1, "x-order": 6, "fields": [{**SORT, "source-id": 3, "x-sort": 5}]}
    ]
    assert document["default-sort-order-id"] == 1


def test_spec_and_order_without_ids_and_source_id_0() -> None:
    schema = struct(field(0, "zero"), field(1, "one"))
    document = new(
        schema=schema,
        partition_spec={"fields": [{"source-id": 0, "name": "zero", "transform": "identity"}]},
        write_order={"fields": []},
    ).document
    assert document["partition-specs"][0]["fields"] == [
        {"source-id": 1, "name": "zero", "transform": "identity", "field-id": 1000}
    ]
    assert document["sort-orders"] == [{"order-id": 0, "fields": []}]


def test_properties() -> None:
    given = {"a": "b", "format-version": "2", "uuid": "x", "write.parquet.compression-codec": "gzip"}
    document = new(properties=given).document
    assert document["properties"] == {"a": "b", "write.parquet.compression-codec": "gzip"}
    assert given["uuid"] == "x"


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"schema": 5}, "schema must be an object, not an integer"),
        ({"schema": {}}, "schema must be of type 'struct'"),
        (
            {"schema": struct(field(1, "a"), field(1, "b"))},
            "Invalid schema: multiple fields for id 1: a and b",
        ),
        (
            {"schema": struct(field(1, "a", doc=float("nan")))},
            "schema holds a number that JSON cannot express",
        ),
        (
            {"schema": struct(field(1, "v", "variant"))},
            "Invalid schema for v2:\n- Invalid type for v: variant is not supported until v3",
        ),
        ({"partition_spec": []}, "partition-spec must be an object, not an array"),
        (
            {"partition_spec": {"fields": [PART]}},
            "Cannot find source column for partition field: source-id 70",
        ),
        (
            {"partition_spec": {"fields": [{**PART, "source-id": 2}]}},
            "Invalid source type string for transform: day (partition field day)",
        ),
        (
            {"partition_spec": {"fields": [{"name": "a", "transform": "day", "source-ids": [1]}]}},
            "'source-ids' of partition field is not supported: transforms take one source column",
        ),
        ({"write_order": "x"}, "write-order must be an object, not a string"),
        ({"write_order": {"fields": [SORT]}}, "Cannot find source column for sort field: source-id 60"),
        ({"properties": {"a": 5}}, "'a' of 'properties' of a new table must be a string, not an integer"),
        (
            {"properties": {"format-version": "4"}},
            "Unsupported format version: v4 (supported: v1, v2, v3)",
        ),
        (
            {"properties": {"format-version": "two"}},
            "Unsupported format version: vtwo (supported: v1, v2, v3)",
        ),
        (
            {"properties": {"commit.retry.num-retries": "-1"}},
            "Table property commit.retry.num-retries must be a non-negative integer",
        ),
        ({"uuid": "x"}, f"'uuid' must be a UUID such as {UUID}"),
        ({"location": ""}, "a new table needs a location: add a set-location update"),
    ],
)
def test_refused(more: dict[str, Any], text: str) -> None:
    assert invalid(**more) == text


def test_arguments_are_not_changed_or_shared() -> None:
    schema = struct(field(7, "a"))
    metadata = new(schema=schema)
    assert schema == struct(field(7, "a"))
    assert metadata.schema()["fields"][0]["id"] == 1


def test_ids_that_a_client_chose_stay_where_that_is_asked_for() -> None:
    nested = struct(field(40, "x", "int"))
    schema = struct(
        field(60, "id", required=True),
        field(70, "at", "timestamptz"),
        field(5, "deep", nested),
        **{"identifier-field-ids": [60]},
    )
    made = create.new_table_with_ids(
        schema=schema,
        partition_spec={
            "spec-id": 7,
            "fields": [PART, {"source-id": 60, "name": "b", "transform": "bucket[4]"}],
        },
        write_order={"order-id": 9, "fields": [SORT]},
        properties={"owner": "me"},
        location=LOCATION,
        uuid=UUID,
        now_ms=NOW,
    ).document
    assert made["schemas"] == [{**schema, "schema-id": 0}]
    assert made["last-column-id"] == 70
    assert made["partition-specs"][0]["fields"] == [
        {**PART},
        {"source-id": 60, "field-id": 1000, "name": "b", "transform": "bucket[4]"},
    ]
    assert (made["default-spec-id"], made["last-partition-id"]) == (0, 1000)
    assert made["sort-orders"] == [{"order-id": 1, "fields": [SORT]}]
    assert made["properties"] == {"write.parquet.compression-codec": "zstd", "owner": "me"}


def test_chosen_ids_name_one_column_each() -> None:
    with pytest.raises(Invalid, match="multiple fields for id 1"):
        create.new_table_with_ids(
            schema=struct(field(1, "a"), field(1, "b")),
            partition_spec=None,
            write_order=None,
            properties={},
            location=LOCATION,
            uuid=UUID,
            now_ms=NOW,
        )
