"""Models of commits: updates and requirements of tables and views, one model per action and per assertion."""

from catalog_server.api.iceberg.openapi.models_metadata import REFERENCE, RETENTION
from catalog_server.api.iceberg.openapi.shapes import (
    array,
    integer,
    long,
    nullable,
    record,
    ref,
    text,
    texts,
    variants,
    word,
)
from table_format.jsontypes import JsonObject

_LAST = "-1 is the one that this commit added last."
_UUID = text(
    "A UUID.", pattern="^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
)

# action: model, what it does, members that must be there, members that may
_Row = tuple[str, str, dict[str, JsonObject], dict[str, JsonObject]]
_SHARED: dict[str, _Row] = {
    "assign-uuid": (
        "AssignUUIDUpdate",
        "Gives a UUID; one that is there never changes.",
        {"uuid": _UUID},
        {},
    ),
    "upgrade-format-version": (
        "UpgradeFormatVersionUpdate",
        "Moves to a later format version; never back.",
        {"format-version": integer(low=1)},
        {},
    ),
    "add-schema": (
        "AddSchemaUpdate",
        "Adds a schema; the server gives its id. An equal one that is there is used again.",
        {"schema": ref("Schema")},
        {"last-column-id": {**integer("Ignored: the server counts."), "deprecated": True}},
    ),
    "set-location": (
        "SetLocationUpdate",
        "Moves to another place inside the bucket.",
        {"location": text()},
        {},
    ),
    "set-properties": ("SetPropertiesUpdate", "Sets properties.", {"updates": texts()}, {}),
    "remove-properties": (
        "RemovePropertiesUpdate",
        "Removes properties; those that are not there are passed over.",
        {"removals": array(text())},
        {},
    ),
}
_TABLES: dict[str, _Row] = {
    "set-current-schema": (
        "SetCurrentSchemaUpdate",
        "Chooses the current schema.",
        {"schema-id": integer(_LAST, low=-1)},
        {},
    ),
    "add-spec": (
        "AddPartitionSpecUpdate",
        "Adds a partition spec; the server gives its id.",
        {"spec": ref("PartitionSpec")},
        {},
    ),
    "set-default-spec": (
        "SetDefaultSpecUpdate",
        "Chooses the partition spec of new files.",
        {"spec-id": integer(_LAST, low=-1)},
        {},
    ),
    "add-sort-order": (
        "AddSortOrderUpdate",
        "Adds a sort order; the server gives its id.",
        {"sort-order": ref("SortOrder")},
        {},
    ),
    "set-default-sort-order": (
        "SetDefaultSortOrderUpdate",
        "Chooses the sort order of new files.",
        {"sort-order-id": integer(_LAST, low=-1)},
        {},
    ),
    "add-snapshot": (
        "AddSnapshotUpdate",
        "Adds a snapshot; no branch moves by that.",
        {"snapshot": ref("Snapshot")},
        {},
    ),
    "set-snapshot-ref": (
        "SetSnapshotRefUpdate",
        "Makes or moves a branch or tag. Retention settings that are left out are reset.",
        {"ref-name": text(minLength=1), **REFERENCE},
        RETENTION,
    ),
    "remove-snapshots": (
        "RemoveSnapshotsUpdate",
        "Forgets snapshots and the branches and tags at them; their files stay until maintenance removes them.",
        {"snapshot-ids": array({"type": "integer", "format": "int64"})},
        {},
    ),
    "remove-snapshot-ref": (
        "RemoveSnapshotRefUpdate",
        "Drops a branch or tag.",
        {"ref-name": text()},
        {},
    ),
    "set-statistics": (
        "SetStatisticsUpdate",
        "Attaches a statistics file to its snapshot.",
        {"statistics": ref("StatisticsFile")},
        {"snapshot-id": {**long("If given, that of the file."), "deprecated": True}},
    ),
    "remove-statistics": (
        "RemoveStatisticsUpdate",
        "Detaches a snapshot's statistics file.",
        {"snapshot-id": long()},
        {},
    ),
    "set-partition-statistics": (
        "SetPartitionStatisticsUpdate",
        "Attaches a partition statistics file to its snapshot.",
        {"partition-statistics": ref("PartitionStatisticsFile")},
        {},
    ),
    "remove-partition-statistics": (
        "RemovePartitionStatisticsUpdate",
        "Detaches a snapshot's partition statistics file.",
        {"snapshot-id": long()},
        {},
    ),
    "remove-partition-specs": (
        "RemovePartitionSpecsUpdate",
        "Removes partition specs; not the default one.",
        {"spec-ids": array(integer())},
        {},
    ),
    "remove-schemas": (
        "RemoveSchemasUpdate",
        "Removes schemas; not the current one.",
        {"schema-ids": array(integer())},
        {},
    ),
    "add-encryption-key": (
        "AddEncryptionKeyUpdate",
        "Adds a key of an encrypted table.",
        {"encryption-key": ref("EncryptedKey")},
        {},
    ),
    "remove-encryption-key": (
        "RemoveEncryptionKeyUpdate",
        "Removes a key of an encrypted table.",
        {"key-id": text()},
        {},
    ),
}
_VIEWS: dict[str, _Row] = {
    "add-view-version": (
        "AddViewVersionUpdate",
        "Adds a version of a view; the server gives its id.",
        {"view-version": ref("ViewVersion")},
        {},
    ),
    "set-current-view-version": (
        "SetCurrentViewVersionUpdate",
        "Chooses the current version of a view.",
        {"view-version-id": integer(_LAST, low=-1)},
        {},
    ),
}
_ASSERTIONS: dict[str, _Row] = {
    "assert-create": ("AssertCreate", "The table does not exist yet.", {}, {}),
    "assert-table-uuid": ("AssertTableUUID", "The table has this UUID.", {"uuid": text()}, {}),
    "assert-ref-snapshot-id": (
        "AssertRefSnapshotId",
        "The branch or tag is at this snapshot; null, or the member left out, if it must not exist.",
        {"ref": text()},
        {"snapshot-id": nullable({"type": "integer", "format": "int64"})},
    ),
    "assert-last-assigned-field-id": (
        "AssertLastAssignedFieldId",
        "No column id was given meanwhile.",
        {"last-assigned-field-id": {"type": "integer"}},
        {},
    ),
    "assert-current-schema-id": (
        "AssertCurrentSchemaId",
        "The current schema is still this.",
        {"current-schema-id": {"type": "integer"}},
        {},
    ),
    "assert-last-assigned-partition-id": (
        "AssertLastAssignedPartitionId",
        "No partition field id was given meanwhile.",
        {"last-assigned-partition-id": {"type": "integer"}},
        {},
    ),
    "assert-default-spec-id": (
        "AssertDefaultSpecId",
        "The default partition spec is still this.",
        {"default-spec-id": {"type": "integer"}},
        {},
    ),
    "assert-default-sort-order-id": (
        "AssertDefaultSortOrderId",
        "The default sort order is still this.",
        {"default-sort-order-id": {"type": "integer"}},
        {},
    ),
    "assert-refs": (
        "AssertRefs",
        "There are these branches and tags and no others. An addition of this server, for expiration.",
        {"refs": array(text())},
        {},
    ),
}
_VIEW_ASSERTIONS: dict[str, _Row] = {
    "assert-view-uuid": ("AssertViewUUID", "The view has this UUID.", {"uuid": text()}, {}),
}


def _records(member: str, rows: dict[str, _Row]) -> dict[str, JsonObject]:
    return {
        model: record(doc, {member: word(value), **needed}, maybe)
        for value, (model, doc, needed, maybe) in rows.items()
    }


def _names(rows: dict[str, _Row]) -> dict[str, str]:
    return {value: row[0] for value, row in rows.items()}


MODELS: dict[str, JsonObject] = {
    **_records("action", {**_SHARED, **_TABLES, **_VIEWS}),
    **_records("type", {**_ASSERTIONS, **_VIEW_ASSERTIONS}),
    "TableUpdate": variants("action", _names({**_SHARED, **_TABLES}), "One change of a table's metadata."),
    "ViewUpdate": variants("action", _names({**_SHARED, **_VIEWS}), "One change of a view's metadata."),
    "TableRequirement": variants(
        "type", _names(_ASSERTIONS), "What must hold of the table, or the commit is refused with 409."
    ),
    "ViewRequirement": variants(
        "type", _names(_VIEW_ASSERTIONS), "What must hold of the view, or the commit is refused with 409."
    ),
    "CommitTableRequest": record(
        "A commit to one table.",
        {
            "requirements": array(ref("TableRequirement")),
            "updates": array(ref("TableUpdate"), "Applied in this order, all or none."),
        },
        {"identifier": ref("TableIdentifier")},
    ),
    "TableChange": record(
        "What a transaction does to one table.",
        {
            "identifier": ref("TableIdentifier"),
            "requirements": array(ref("TableRequirement")),
            "updates": array(ref("TableUpdate")),
        },
    ),
    "CommitTransactionRequest": record(
        "A commit to several tables, each named once.",
        {"table-changes": array(ref("TableChange"), minItems=1)},
    ),
    "CommitViewRequest": record(
        "A commit to one view.",
        {"updates": array(ref("ViewUpdate"))},
        {"identifier": ref("TableIdentifier"), "requirements": array(ref("ViewRequirement"))},
    ),
}
