"""A new table's first metadata.

`new_table` gives fresh column, partition and order ids, in the order in which Java gives them: ids sent by the client
only say which partition and sort fields mean which columns. `new_table_with_ids` keeps those of columns and partition
fields, for a client that chose them.
"""

from collections.abc import Mapping
from itertools import count

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata import columns, members, specs
from table_format.metadata.document import TableMetadata
from table_format.metadata.update_table import (
    FORMAT_VERSION,
    RESERVED_PROPERTIES,
    SUPPORTED_VERSIONS,
    check_uuid,
)
from table_format.metadata.updates import DEFAULT_FORMAT_VERSION, start

# Java writes this into every new table, so that engines whose own default is gzip use it too.
_NEW_TABLE_PROPERTIES = {"write.parquet.compression-codec": "zstd"}
_COUNTS = (
    "commit.retry.num-retries",
    "commit.retry.min-wait-ms",
    "commit.retry.max-wait-ms",
    "commit.retry.total-timeout-ms",
)


def new_table(
    *,
    schema: JsonObject,
    partition_spec: JsonObject | None,
    write_order: JsonObject | None,
    properties: Mapping[str, str],
    location: str,
    uuid: str,
    now_ms: int,
) -> TableMetadata:
    """Metadata of a table that is about to be created.

    Raises:
        Invalid: anything in it is malformed or does not fit together.
    """
    version, properties = _checked(schema, partition_spec, write_order, properties, uuid)
    columns.check_new(members.json_object(schema, "schema"), version)
    fresh = _FreshIds()
    fresh_schema = columns.rebuilt(schema, 0, fresh.assign)
    if columns.identifier_ids(schema):
        fresh_schema["identifier-field-ids"] = [
            fresh.ids[field_id] for field_id in columns.identifier_ids(schema)
        ]
    updates: list[JsonObject] = [
        *_birth(uuid, version, fresh_schema),
        {"action": "add-spec", "spec": _fresh_spec(partition_spec, fresh)},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": _fresh_order(write_order, fresh)},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-properties", "updates": _stored(properties)},
    ]
    return start(updates, now_ms=now_ms, location=location)


def new_table_with_ids(
    *,
    schema: JsonObject,
    partition_spec: JsonObject | None,
    write_order: JsonObject | None,
    properties: Mapping[str, str],
    location: str,
    uuid: str,
    now_ms: int,
) -> TableMetadata:
    """As `new_table`, with the ids of columns and partition fields as they were given.

    Raises:
        Invalid: anything in it is malformed or does not fit together.
    """
    version, properties = _checked(schema, partition_spec, write_order, properties, uuid)
    updates: list[JsonObject] = [
        *_birth(uuid, version, members.json_object(schema, "schema")),
        {"action": "add-spec", "spec": specs.UNPARTITIONED if partition_spec is None else partition_spec},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": specs.UNSORTED if write_order is None else write_order},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-properties", "updates": _stored(properties)},
    ]
    return start(updates, now_ms=now_ms, location=location)


def _checked(
    schema: JsonObject,
    partition_spec: JsonObject | None,
    write_order: JsonObject | None,
    properties: Mapping[str, str],
    uuid: str,
) -> tuple[int, dict[str, str]]:
    """Format version and properties, when what was given is JSON and the uuid one."""
    for value, what in ((schema, "schema"), (partition_spec, "partition-spec"), (write_order, "write-order")):
        members.check_json(value, what)
    given = members.text_map({"properties": dict(properties)}, "properties", "a new table")
    version = _format_version(given)
    check_uuid(uuid)
    return version, given


def _birth(uuid: str, version: int, schema: JsonObject) -> list[JsonObject]:
    return [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "upgrade-format-version", "format-version": version},
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
    ]


class _FreshIds:
    """Counts column ids from 1 and remembers what each became."""

    def __init__(self) -> None:
        self.ids: dict[int, int] = {}
        self._next = count(1)

    def assign(self, column_id: int) -> int:
        self.ids[column_id] = next(self._next)
        return self.ids[column_id]

    def source(self, field: JsonObject, what: str) -> JsonObject:
        """The field with its source column's new id."""
        if "source-id" not in field:
            return field
        if field["source-id"] not in self.ids:
            raise Invalid(f"Cannot find source column for {what}: source-id {field['source-id']}")
        return {**field, "source-id": self.ids[field["source-id"]]}


def _fresh_spec(spec: JsonObject | None, fresh: _FreshIds) -> JsonObject:
    if spec is None:
        return specs.UNPARTITIONED
    fields = specs.check_spec_shape(members.json_object(spec, "partition-spec"))
    numbered = [
        {**fresh.source(field, "partition field"), "field-id": specs.FIRST_PARTITION_ID + position}
        for position, field in enumerate(fields)
    ]
    return {**spec, "fields": numbered}


def _fresh_order(order: JsonObject | None, fresh: _FreshIds) -> JsonObject:
    if order is None:
        return specs.UNSORTED
    fields = specs.check_order_shape(members.json_object(order, "write-order"))
    return {**order, "fields": [fresh.source(field, "sort field") for field in fields]}


def _format_version(properties: Mapping[str, str]) -> int:
    text = properties.get(FORMAT_VERSION, str(DEFAULT_FORMAT_VERSION))
    if text not in {str(version) for version in SUPPORTED_VERSIONS}:
        raise Invalid(f"Unsupported format version: v{text[:20]} (supported: v1, v2, v3)")
    return int(text)


def _stored(properties: Mapping[str, str]) -> dict[str, str]:
    for name in _COUNTS:
        if not properties.get(name, "0").isdecimal():
            raise Invalid(f"Table property {name} must be a non-negative integer")
    kept = {name: value for name, value in properties.items() if name not in RESERVED_PROPERTIES}
    return {**_NEW_TABLE_PROPERTIES, **kept}
