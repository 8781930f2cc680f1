from typing import Any

import orjson
import pytest

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata
from table_format.metadata.validity import check_document
from tests.factories.metadata_documents import add_snapshot, applied, set_ref, snapshot, table, with_history


def full() -> JsonObject:
    return dict(applied(with_history(2), set_ref(1, "old", "tag")).document)


def message(document: Any) -> str:
    with pytest.raises(Invalid) as caught:
        check_document(document)
    return caught.value.message


def edited(base: JsonObject, **changes: Any) -> JsonObject:
    changes = {key.replace("_", "-"): value for key, value in changes.items()}
    return {key: value for key, value in {**base, **changes}.items() if value is not ...}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_we_write_is_valid(version: int) -> None:
    document = table(version=version).document
    assert check_document(document) is document
    assert TableMetadata.parse(orjson.dumps(document)).document == document


def test_optional_members_may_be_absent_or_null() -> None:
    optional = (
        "properties", "current-snapshot-id", "snapshots", "snapshot-log", "metadata-log", "refs",
        "statistics", "partition-statistics", "sort-orders", "default-sort-order-id", "encryption-keys",
    )  # fmt: skip
    document = table().document
    for value in (..., None):
        found = edited(document, **dict.fromkeys(optional, value))
        assert check_document(found) is found


@pytest.mark.parametrize("version", ["2", 0, 4, None, [2], ...])
def test_format_version(version: Any) -> None:
    expected = "table metadata is not a JSON object with format-version 1, 2 or 3"
    assert message(edited(full(), format_version=version)) == expected
    assert message([full()]) == expected


@pytest.mark.parametrize(("version", "shown"), [(True, "a boolean"), (1.0, "a fraction")])
def test_format_version_is_an_integer(version: Any, shown: str) -> None:
    assert message(edited(full(), format_version=version)) == (
        f"'format-version' of table metadata must be an integer, not {shown}"
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"location": ...}, "table metadata lacks the member 'location'"),
        ({"location": 5}, "'location' of table metadata must be a string, not an integer"),
        ({"table_uuid": ...}, "table metadata lacks the member 'table-uuid'"),
        ({"table_uuid": ""}, "'table-uuid' of table metadata must not be empty"),
        (
            {"last_sequence_number": None},
            "'last-sequence-number' of table metadata must be an integer, not null",
        ),
        ({"last_updated_ms": "x"}, "'last-updated-ms' of table metadata must be an integer, not a string"),
        (
            {"last_updated_ms": 2**63},
            f"'last-updated-ms' of table metadata must lie between {-(2**63)} and {2**63 - 1}",
        ),
        ({"last_column_id": ...}, "table metadata lacks the member 'last-column-id'"),
        ({"properties": {"a": 1}}, "'a' of 'properties' of table metadata must be a string, not an integer"),
        ({"schemas": ...}, "table metadata lacks the member 'schemas'"),
        ({"schemas": []}, "table metadata has no schema with id 0"),
        ({"schemas": [{}]}, "schema must be of type 'struct'"),
        (
            {"schemas": [{"type": "struct", "fields": []}]},
            "schema lacks the member 'schema-id'",
        ),
        ({"current_schema_id": 7}, "table metadata has no schema with id 7"),
        ({"schemas": [table().schemas[0]] * 2}, "table metadata has two of the same schema-id"),
        (
            {"schemas": [{**table().schemas[0], "identifier-field-ids": ["x"]}]},
            "'identifier-field-ids' of schema (an element) must be an integer, not a string",
        ),
        ({"partition_specs": None}, "'partition-specs' of table metadata must be an array, not null"),
        ({"default_spec_id": 5}, "table metadata has no partition spec with id 5"),
        ({"partition_specs": [{"fields": []}]}, "partition spec lacks the member 'spec-id'"),
        (
            {
                "partition_specs": [
                    {"spec-id": 0, "fields": [{"name": "a", "transform": "day", "source-id": 1}]}
                ]
            },
            "partition field lacks the member 'field-id'",
        ),
        (
            {"last_partition_id": "x"},
            "'last-partition-id' of table metadata must be an integer, not a string",
        ),
        ({"default_sort_order_id": 5}, "table metadata has no sort order with id 5"),
        ({"sort_orders": [{"order-id": 1}]}, "sort order lacks the member 'fields'"),
        ({"sort_orders": [{"fields": []}]}, "sort order lacks the member 'order-id'"),
        ({"snapshots": {}}, "'snapshots' of table metadata must be an array, not an object"),
        ({"snapshots": [5]}, "snapshot must be an object, not an integer"),
        (
            {"snapshots": [snapshot(1), snapshot(2, **{"parent-snapshot-id": "x"})]},
            "'parent-snapshot-id' of snapshot must be an integer, not a string",
        ),
        (
            {"snapshots": [snapshot(1), snapshot(2, summary={"operation": 5})]},
            "'operation' of 'summary' of snapshot must be a string, not an integer",
        ),
        (
            {"snapshots": [snapshot(2**63)]},
            f"'snapshot-id' of snapshot must lie between 0 and {2**63 - 1}",
        ),
        (
            {"snapshots": [snapshot(1), snapshot(2), snapshot(2)]},
            "table metadata has two snapshots of the same id",
        ),
        (
            {"last_sequence_number": 1},
            "Invalid snapshot with sequence number 2 greater than last sequence number 1",
        ),
        ({"current_snapshot_id": 9}, "Invalid table metadata: Cannot find current version"),
        (
            {"current_snapshot_id": "x"},
            "'current-snapshot-id' of table metadata must be an integer, not a string",
        ),
        ({"refs": []}, "'refs' of table metadata must be an object, not an array"),
        ({"refs": {"a": 1}}, "'a' of refs must be an object, not an integer"),
        ({"refs": {"a": {}}}, "ref 'a' lacks the member 'snapshot-id'"),
        (
            {"refs": {"a": {"snapshot-id": 9, "type": "tag"}}},
            "Snapshot for reference a does not exist in the existing snapshots list",
        ),
        ({"current_snapshot_id": -1}, "Current snapshot is not set, but main branch exists"),
        ({"current_snapshot_id": ...}, "Current snapshot is not set, but main branch exists"),
        ({"current_snapshot_id": 1}, "Current snapshot ID does not match main branch (1 != 2)"),
        ({"snapshot_log": [{"timestamp-ms": 1}]}, "snapshot-log lacks the member 'snapshot-id'"),
        (
            {"metadata_log": [{"timestamp-ms": 1, "metadata-file": 5}]},
            "'metadata-file' of metadata-log must be a string, not an integer",
        ),
        ({"metadata_log": [{"metadata-file": "a"}]}, "metadata-log lacks the member 'timestamp-ms'"),
        ({"statistics": [{}]}, "statistics file lacks the member 'snapshot-id'"),
        ({"partition_statistics": [{}]}, "partition statistics file lacks the member 'snapshot-id'"),
        ({"encryption_keys": [{}]}, "encryption key lacks the member 'key-id'"),
    ],
)
def test_v2_refused(changes: dict[str, Any], text: str) -> None:
    assert message(edited(full(), **changes)) == text


def test_v3_needs_next_row_id() -> None:
    assert message(edited(table(version=3).document, next_row_id=...)) == (
        "table metadata lacks the member 'next-row-id'"
    )


def legacy(**changes: Any) -> JsonObject:
    document = table(version=1).document
    lists = ("schemas", "current-schema-id", "partition-specs", "default-spec-id")
    return edited({key: value for key, value in document.items() if key not in lists}, **changes)


def test_v1_with_only_the_legacy_members() -> None:
    schema = {key: value for key, value in table().schema().items() if key != "schema-id"}
    for found in (legacy(), legacy(schema=schema), legacy(current_schema_id=0, default_spec_id=0)):
        assert check_document(found) is found
    assert TableMetadata(legacy(schema=schema)).schema() == {**schema, "schema-id": 0}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"schema": ...}, "table metadata lacks the member 'schema'"),
        ({"schema": 5}, "'schema' of table metadata must be an object, not an integer"),
        ({"current_schema_id": 3}, "table metadata has no schema with id 3"),
        ({"partition_spec": ...}, "table metadata lacks the member 'partition-spec'"),
        (
            {"partition_spec": [5]},
            "an element of 'fields' of partition spec must be an object, not an integer",
        ),
        ({"default_spec_id": 3}, "table metadata has a default-spec-id but no partition-specs"),
        ({"table_uuid": 5}, "'table-uuid' of table metadata must be a string, not an integer"),
    ],
)
def test_v1_refused(changes: dict[str, Any], text: str) -> None:
    assert message(legacy(**changes)) == text


def test_v1_snapshots_without_summary_or_manifest_list() -> None:
    old = snapshot(1, number=0, **{"manifest-list": ..., "summary": ..., "manifests": ["file:///m.avro"]})
    document = applied(table(version=1), add_snapshot(old), set_ref(1)).document
    assert check_document(document) is document


def test_types_and_transforms_of_the_future_are_kept() -> None:
    document = table().document
    schema = {
        **document["schemas"][0],
        "fields": [{"id": 1, "name": "a", "required": False, "type": "hologram"}],
    }
    spec = {
        "spec-id": 0,
        "fields": [{"name": "z", "transform": "zorder", "source-ids": [1], "field-id": 1000}],
    }
    found = edited(document, schemas=[schema], partition_specs=[spec])
    assert check_document(found) is found
