"""Small tables and updates as JSON documents."""

from typing import Any

from table_format.jsontypes import JsonObject
from table_format.metadata import create, updates
from table_format.metadata.document import TableMetadata

UUID = "0b1f5a5e-8b0e-4bb5-a4b9-3ef7c7e0d9a1"
LOCATION = "file:///data/t"
NOW = 1_700_000_000_000
PREVIOUS = "file:///data/t/metadata/00000-x.metadata.json"


def field(
    field_id: int, name: str, type_: Any = "long", *, required: bool = False, **more: Any
) -> JsonObject:
    return {"id": field_id, "name": name, "required": required, "type": type_, **more}


def struct(*fields: JsonObject, **more: Any) -> JsonObject:
    return {"type": "struct", "fields": list(fields), **more}


SCHEMA = struct(field(1, "id", required=True), field(2, "name", "string"), field(3, "at", "timestamptz"))


def table(*, version: int = 2, spec: JsonObject | None = None, **properties: str) -> TableMetadata:
    """A new empty table with columns id, name, at."""
    return create.new_table(
        schema=SCHEMA,
        partition_spec=spec,
        write_order=None,
        properties={"format-version": str(version), **properties},
        location=LOCATION,
        uuid=UUID,
        now_ms=NOW,
    )


def snapshot(
    snapshot_id: int, *, number: int | None = None, at: int | None = None, **more: Any
) -> JsonObject:
    """Snapshot n of a table: sequence number n, n seconds after NOW, unless said otherwise."""
    found = {
        "snapshot-id": snapshot_id,
        "timestamp-ms": NOW + snapshot_id * 1000 if at is None else at,
        "sequence-number": snapshot_id if number is None else number,
        "manifest-list": f"{LOCATION}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        **more,
    }
    return {key: value for key, value in found.items() if value is not ...}


def add_snapshot(found: JsonObject) -> JsonObject:
    return {"action": "add-snapshot", "snapshot": found}


def set_ref(snapshot_id: int, name: str = "main", type_: str = "branch", **more: Any) -> JsonObject:
    return {
        "action": "set-snapshot-ref",
        "ref-name": name,
        "type": type_,
        "snapshot-id": snapshot_id,
        **more,
    }


def applied(base: TableMetadata, *found: JsonObject, now: int | None = None) -> TableMetadata:
    """The table after one commit, a second after the base unless said otherwise."""
    now_ms = base.last_updated_ms + 1000 if now is None else now
    return updates.apply(base, found, now_ms=now_ms, previous_location=PREVIOUS)


def with_history(count: int, *, version: int = 2) -> TableMetadata:
    """A table with `count` appends on main, one commit each."""
    base = table(version=version)
    for number in range(1, count + 1):
        more = {} if number == 1 else {"parent-snapshot-id": number - 1}
        seq = 0 if version == 1 else number
        base = applied(
            base,
            add_snapshot(snapshot(number, number=seq, **more)),
            set_ref(number),
            now=NOW + number * 1000,
        )
    return base


def ids(rows: Any, key: str) -> list[Any]:
    return [row[key] for row in rows]


def changed(base: TableMetadata, new: TableMetadata) -> set[str]:
    """Names of the top-level members that differ."""
    keys = {*base.document, *new.document}
    return {key for key in keys if base.document.get(key, ...) != new.document.get(key, ...)}
