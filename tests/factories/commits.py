"""Requests that clients send: a small schema, and the requirements and updates of an append."""

from typing import Any

from table_format.metadata.document import TableMetadata

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
    ],
}


def append(metadata: TableMetadata, snapshot_id: int, **changes: Any) -> tuple[list[Any], list[Any]]:
    """The requirements and updates by which every client appends."""
    parent = metadata.current_snapshot_id
    snapshot: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata.last_sequence_number + 1,
        "timestamp-ms": metadata.last_updated_ms,
        "manifest-list": f"{metadata.location}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": metadata.current_schema_id,
        **changes,
    }
    if parent is not None:
        snapshot["parent-snapshot-id"] = parent
    requirements = [
        {"type": "assert-table-uuid", "uuid": metadata.uuid},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent},
    ]
    updates = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
    ]
    return requirements, updates


def birth_updates(metadata: TableMetadata) -> list[Any]:
    """The updates that a client sends to finish a staged create."""
    document = metadata.document
    return [
        {"action": "assign-uuid", "uuid": metadata.uuid},
        {"action": "upgrade-format-version", "format-version": metadata.format_version},
        {"action": "add-schema", "schema": metadata.schema()},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata.spec()},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata.sort_orders[0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata.location},
        {"action": "set-properties", "updates": document.get("properties") or {}},
    ]
