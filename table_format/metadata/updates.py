"""Table updates: every action of the REST specification applied to a document (copy on write).

Owns the order of things (check, apply one by one, finish); each action is a small function in `update_*.py`.
An action that we do not know fails the commit.
"""

from collections.abc import Callable, Sequence

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata import members, update_schema, update_snapshot, update_table
from table_format.metadata.document import TableMetadata
from table_format.metadata.draft import Draft, VersionsToKeep

DEFAULT_FORMAT_VERSION = 2

_ACTIONS: dict[str, Callable[[Draft, JsonObject], None]] = {
    "assign-uuid": update_table.assign_uuid,
    "upgrade-format-version": update_table.upgrade_format_version,
    "add-schema": update_schema.add_schema,
    "set-current-schema": update_schema.set_current_schema,
    "remove-schemas": update_schema.remove_schemas,
    "add-spec": update_schema.add_spec,
    "set-default-spec": update_schema.set_default_spec,
    "remove-partition-specs": update_schema.remove_partition_specs,
    "add-sort-order": update_schema.add_sort_order,
    "set-default-sort-order": update_schema.set_default_sort_order,
    "add-snapshot": update_snapshot.add_snapshot,
    "set-snapshot-ref": update_snapshot.set_snapshot_ref,
    "remove-snapshot-ref": update_snapshot.remove_snapshot_ref,
    "remove-snapshots": update_snapshot.remove_snapshots,
    "set-statistics": update_snapshot.set_statistics,
    "remove-statistics": update_snapshot.remove_statistics,
    "set-partition-statistics": update_snapshot.set_partition_statistics,
    "remove-partition-statistics": update_snapshot.remove_partition_statistics,
    "set-location": update_table.set_location,
    "set-properties": update_table.set_properties,
    "remove-properties": update_table.remove_properties,
    "add-encryption-key": update_table.add_encryption_key,
    "remove-encryption-key": update_table.remove_encryption_key,
}


def apply(
    base: TableMetadata,
    updates: Sequence[JsonObject],
    *,
    now_ms: int,
    previous_location: str | None,
    versions_to_keep: VersionsToKeep | None = None,
) -> TableMetadata:
    """The metadata after the updates; `base` itself when they change nothing.

    `previous_location`, where `base` is stored, enters the metadata log; `versions_to_keep` says how long that may
    be where the table's properties are not to decide alone.

    Raises:
        Invalid: malformed, or not applicable whatever other commits do.
        CommitFailed: a sequence number or row id is stale; reload and try again.
    """
    draft = Draft(base, format_version=base.format_version, now_ms=now_ms)
    _run(draft, updates)
    return draft.finish(previous_location, versions_to_keep)


def start(
    updates: Sequence[JsonObject], *, now_ms: int, location: str | None, uuid: str | None = None
) -> TableMetadata:
    """A table made from updates alone (the commit that ends a staged create).

    `location` and `uuid` stand in where the updates give none.

    Raises:
        Invalid: malformed, or not enough for a table.
    """
    versions = [update for update in _each(updates) if _action(update) == "upgrade-format-version"]
    version = DEFAULT_FORMAT_VERSION
    if versions:
        version = members.integer(versions[0], "format-version", "upgrade-format-version")
        if version not in update_table.SUPPORTED_VERSIONS:
            raise Invalid(f"Unsupported format version: v{version} (supported: v3)")
    draft = Draft(None, format_version=version, now_ms=now_ms)
    draft.document["location"] = location
    _run(draft, updates)
    if draft.document["table-uuid"] is None and uuid is not None:
        draft.put("table-uuid", uuid)
    return draft.finish(None)


def trimmed_metadata_files(base: TableMetadata, new: TableMetadata) -> list[str]:
    """The metadata files that the log of `base` names and that of `new` does not any more, oldest first."""
    kept = {entry["metadata-file"] for entry in new.metadata_log}
    return [entry["metadata-file"] for entry in base.metadata_log if entry["metadata-file"] not in kept]


def _run(draft: Draft, updates: Sequence[JsonObject]) -> None:
    for update in _each(updates):
        action = _action(update)
        members.check_json(update, action)
        _ACTIONS[action](draft, update)


def _each(updates: object) -> Sequence[JsonObject]:
    if not isinstance(updates, list | tuple):
        raise Invalid(f"updates must be an array, not {members.shown(updates)}")
    return updates


def _action(update: object) -> str:
    action = members.text(members.json_object(update, "an update"), "action", "an update")
    if action not in _ACTIONS:
        raise Invalid(f"unknown update action {action[:80]!r}")
    return action
