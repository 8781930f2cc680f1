from typing import Any

import pytest

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata import updates
from table_format.metadata.document import TableMetadata
from tests.factories.metadata_documents import (
    LOCATION,
    NOW,
    SCHEMA,
    UUID,
    add_snapshot,
    set_ref,
    snapshot,
    table,
)

ASSIGN = {"action": "assign-uuid", "uuid": UUID}
SCHEMA_UPDATES = [
    {"action": "add-schema", "schema": SCHEMA, "last-column-id": 3},
    {"action": "set-current-schema", "schema-id": -1},
]
SPEC_UPDATES = [
    {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
    {"action": "set-default-spec", "spec-id": -1},
]
ORDER_UPDATES = [
    {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
    {"action": "set-default-sort-order", "sort-order-id": -1},
]
PLACE = {"action": "set-location", "location": LOCATION}


def started(*found: JsonObject, location: str | None = None, **more: Any) -> TableMetadata:
    return updates.start(list(found), now_ms=NOW, location=location, **more)


def invalid(*found: Any, **more: Any) -> str:
    with pytest.raises(Invalid) as caught:
        started(*found, **more)
    return caught.value.message


@pytest.mark.parametrize("version", [1, 2, 3])
def test_all_updates_of_a_staged_create_give_the_staged_table(version: int) -> None:
    new = started(
        ASSIGN,
        {"action": "upgrade-format-version", "format-version": version},
        *SCHEMA_UPDATES,
        *SPEC_UPDATES,
        *ORDER_UPDATES,
        PLACE,
        {"action": "set-properties", "updates": {"write.parquet.compression-codec": "zstd"}},
    )
    assert new == table(version=version)


def test_create_with_data_in_one_commit() -> None:
    new = started(
        ASSIGN, *SCHEMA_UPDATES, *SPEC_UPDATES, *ORDER_UPDATES, PLACE, add_snapshot(snapshot(1)), set_ref(1)
    )
    assert new.current_snapshot_id == 1
    assert new.last_sequence_number == 1
    assert new.snapshot_log == [{"timestamp-ms": NOW + 1000, "snapshot-id": 1}]
    assert new.metadata_log == []
    assert new.last_updated_ms == NOW


def test_what_the_updates_leave_out() -> None:
    new = started(ASSIGN, SCHEMA_UPDATES[0], location=LOCATION)
    assert new.format_version == 2
    assert new.location == LOCATION
    assert new.current_schema_id == 0
    assert new.partition_specs == [{"spec-id": 0, "fields": []}]
    assert new.last_partition_id == 999
    assert new.sort_orders == [{"order-id": 0, "fields": []}]
    assert new.document["current-snapshot-id"] == -1


def test_uuid_given_by_the_caller_stands_in() -> None:
    other = "11111111-2222-3333-4444-555555555555"
    assert started(*SCHEMA_UPDATES, location=LOCATION, uuid=other).uuid == other
    assert started(ASSIGN, *SCHEMA_UPDATES, location=LOCATION, uuid=other).uuid == UUID


def test_location_update_wins() -> None:
    assert started(ASSIGN, *SCHEMA_UPDATES, PLACE, location="file:///other").location == LOCATION


def test_first_partitioned_spec_gets_id_0_and_first_order_id_1() -> None:
    new = started(
        ASSIGN,
        *SCHEMA_UPDATES,
        {
            "action": "add-spec",
            "spec": {"fields": [{"source-id": 3, "name": "day", "transform": "day"}]},
        },
        SPEC_UPDATES[1],
        {
            "action": "add-sort-order",
            "sort-order": {
                "fields": [
                    {
                        "source-id": 1,
                        "transform": "identity",
                        "direction": "asc",
                        "null-order": "nulls-last",
                    }
                ]
            },
        },
        ORDER_UPDATES[1],
        PLACE,
    )
    assert new.spec()["spec-id"] == 0
    assert new.last_partition_id == 1000
    assert new.default_sort_order_id == 1
    assert len(new.sort_orders) == 1


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([*SCHEMA_UPDATES, PLACE], "UUID is required in format v2: add an assign-uuid update"),
        (
            [{"action": "upgrade-format-version", "format-version": 1}, *SCHEMA_UPDATES, PLACE],
            "UUID is required in format v1: add an assign-uuid update",
        ),
        ([ASSIGN, *SCHEMA_UPDATES], "a new table needs a location: add a set-location update"),
        ([ASSIGN, PLACE], "a new table needs a schema: add an add-schema update"),
        ([], "a new table needs a location: add a set-location update"),
        ([ASSIGN, *SPEC_UPDATES], "Cannot add a partition spec or sort order before a schema is added"),
        ([ASSIGN, add_snapshot(snapshot(1))], "Attempting to add a snapshot before a schema is added"),
        (
            [{"action": "upgrade-format-version", "format-version": 4}],
            "Unsupported format version: v4 (supported: v3)",
        ),
        (
            [{"action": "upgrade-format-version"}],
            "upgrade-format-version lacks the member 'format-version'",
        ),
        ([5], "an update must be an object, not an integer"),
        ([{"action": "freeze"}], "unknown update action 'freeze'"),
    ],
)
def test_not_enough_or_wrong(found: list[Any], text: str) -> None:
    assert invalid(*found) == text
