"""Updates of snapshots, branches, tags and statistics files."""

from operator import itemgetter

from table_format.errors import CommitFailed, Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata import members, snapshots
from table_format.metadata.draft import Draft
from table_format.metadata.snapshots import MAIN

_REF_KEYS = frozenset({"snapshot-id", "type", *snapshots.REF_RETENTION})
_MAY_BE_NULL = frozenset({
    "parent-snapshot-id", "sequence-number", "schema-id", "first-row-id", "added-rows", "key-id", "summary",
})  # fmt: skip
_REF_UPDATE_KEYS = _REF_KEYS | {"action", "ref-name"}


def add_snapshot(draft: Draft, update: JsonObject) -> None:
    """Add a snapshot; no branch moves by that.

    Raises:
        Invalid: not a valid snapshot for this table.
        CommitFailed: its sequence number or first row id is stale.
    """
    snapshot = members.nested(update, "snapshot", "add-snapshot")
    snapshots.check_snapshot(snapshot)
    if not draft.document["schemas"]:
        raise Invalid("Attempting to add a snapshot before a schema is added")
    snapshot_id = snapshot["snapshot-id"]
    if snapshot_id in map(itemgetter("snapshot-id"), draft.document["snapshots"]):
        raise Invalid(f"Snapshot already exists for id: {snapshot_id}")
    snapshot = members.without_nulls(snapshot, _MAY_BE_NULL)
    if snapshot.get("parent-snapshot-id") == -1:
        del snapshot["parent-snapshot-id"]
    _check_operation(draft, snapshot)
    _take_sequence_number(draft, snapshot)
    _take_row_ids(draft, snapshot)
    draft.rows("snapshots").append(snapshot)
    draft.added_snapshots.add(snapshot_id)


def _check_operation(draft: Draft, snapshot: JsonObject) -> None:
    summary = snapshot.get("summary")
    if summary is None and draft.format_version == 1:
        return
    operation = members.text(members.nested(snapshot, "summary", "snapshot"), "operation", "snapshot summary")
    if operation not in snapshots.OPERATIONS:
        raise Invalid("'operation' of snapshot summary must be append, replace, overwrite or delete")
    if draft.format_version > 1:
        members.filled_text(snapshot, "manifest-list", "snapshot")


def _take_sequence_number(draft: Draft, snapshot: JsonObject) -> None:
    if draft.format_version == 1:
        if snapshot.get("sequence-number"):
            raise Invalid(f"Sequence number must be 0 in v1: {snapshot['sequence-number']}")
        return
    number = members.integer(snapshot, "sequence-number", "snapshot", 0)
    last = draft.document["last-sequence-number"]
    if number <= last and "parent-snapshot-id" in snapshot:
        raise CommitFailed(
            f"Validation failed, please retry: Cannot add snapshot with sequence number {number} "
            f"older than last sequence number {last}"
        )
    if number > members.COUNTER_MAX >= last:
        raise Invalid(
            f"Cannot add snapshot with sequence number {number}: above {members.COUNTER_MAX} no commit could follow it"
        )
    # A snapshot without a parent may carry an old number; the table's must not fall with it.
    draft.put("last-sequence-number", max(last, number))


def _take_row_ids(draft: Draft, snapshot: JsonObject) -> None:
    if "first-row-id" in snapshot and "added-rows" not in snapshot:
        raise Invalid("Cannot add a snapshot: added-rows is required with first-row-id")
    if draft.format_version < 3:
        return
    if snapshot.get("first-row-id") is None:
        raise Invalid("Cannot add a snapshot: first-row-id is null")
    first = snapshot["first-row-id"]
    added = members.integer(snapshot, "added-rows", "snapshot", 0)
    following = draft.document.get("next-row-id") or 0
    if first < following:
        raise CommitFailed(
            "Validation failed, please retry: Cannot add a snapshot, first-row-id is behind table "
            f"next-row-id: {first} < {following}"
        )
    if first + added > (members.COUNTER_MAX if following <= members.COUNTER_MAX else members.LONG_MAX):
        raise Invalid("Cannot add a snapshot: row ids are exhausted")
    draft.put("next-row-id", first + added)


def set_snapshot_ref(draft: Draft, update: JsonObject) -> None:
    """Create or move a branch or tag; moving main moves the table.

    Retention settings that the update leaves out are reset; members that we do not know stay.

    Raises:
        Invalid: unknown snapshot, main as a tag, or bad settings.
    """
    name = members.filled_text(update, "ref-name", "set-snapshot-ref")
    snapshots.check_ref(update, "set-snapshot-ref")
    known = draft.document["refs"].get(name)
    ref: JsonObject = {key: value for key, value in (known or {}).items() if key not in _REF_KEYS}
    ref |= {key: value for key, value in update.items() if key not in _REF_UPDATE_KEYS}
    ref |= {"snapshot-id": update["snapshot-id"], "type": update["type"].lower()}
    ref |= {key: update[key] for key in snapshots.REF_RETENTION if update.get(key) is not None}
    if ref == known:
        return
    snapshot = draft.find("snapshots", "snapshot-id", ref["snapshot-id"])
    if snapshot is None:
        raise Invalid(f"Cannot set {name} to unknown snapshot: {ref['snapshot-id']}")
    if name == MAIN:
        if ref["type"] != "branch":
            raise Invalid(f"Cannot set {MAIN} to a tag, it must be a branch")
        # Going back to an existing snapshot happens now, not when that snapshot was made.
        is_new = ref["snapshot-id"] in draft.added_snapshots
        draft.main_moved(ref["snapshot-id"], snapshot["timestamp-ms"] if is_new else draft.last_updated_ms)
    draft.entries("refs")[name] = ref


def remove_snapshot_ref(draft: Draft, update: JsonObject) -> None:
    """Drop a branch or tag; an unknown one is ignored. Without main the table has no current snapshot."""
    _drop_ref(draft, members.text(update, "ref-name", "remove-snapshot-ref"))


def _drop_ref(draft: Draft, name: str) -> None:
    if name not in draft.document["refs"]:
        return
    del draft.entries("refs")[name]
    if name == MAIN:
        draft.main_dropped()


def remove_snapshots(draft: Draft, update: JsonObject) -> None:
    """Forget snapshots with their statistics and the refs that point at them; unknown ids are ignored."""
    unwanted = set(members.integers(update, "snapshot-ids", "remove-snapshots"))
    removed = unwanted & {row["snapshot-id"] for row in draft.document["snapshots"]}
    if not removed:
        return
    snapshot_rows = draft.rows("snapshots")
    snapshot_rows[:] = [row for row in snapshot_rows if row["snapshot-id"] not in removed]
    draft.snapshots_removed()
    for key in ("statistics", "partition-statistics"):
        _remove_files(draft, key, removed)
    for name in [name for name, ref in draft.document["refs"].items() if ref["snapshot-id"] in removed]:
        _drop_ref(draft, name)


def set_statistics(draft: Draft, update: JsonObject) -> None:
    """Attach a statistics file to its snapshot, in place of an earlier one.

    Raises:
        Invalid: not a valid statistics file entry.
    """
    file = members.nested(update, "statistics", "set-statistics")
    snapshots.check_statistics(file)
    named = members.optional_integer(update, "snapshot-id", "set-statistics")
    if named is not None and named != file["snapshot-id"]:
        raise Invalid("set-statistics names another snapshot-id than its statistics file")
    blobs = [members.without_nulls(blob, {"properties"}) for blob in file["blob-metadata"]]
    _set_file(draft, "statistics", {**file, "blob-metadata": blobs})


def remove_statistics(draft: Draft, update: JsonObject) -> None:
    """Detach a snapshot's statistics file; an unknown snapshot is ignored."""
    _remove_files(draft, "statistics", {members.integer(update, "snapshot-id", "remove-statistics")})


def set_partition_statistics(draft: Draft, update: JsonObject) -> None:
    """Attach a partition statistics file to its snapshot, in place of an earlier one.

    Raises:
        Invalid: not a valid partition statistics file entry.
    """
    file = members.nested(update, "partition-statistics", "set-partition-statistics")
    snapshots.check_partition_statistics(file)
    _set_file(draft, "partition-statistics", file)


def remove_partition_statistics(draft: Draft, update: JsonObject) -> None:
    """Detach a snapshot's partition statistics file; an unknown snapshot is ignored."""
    snapshot_id = members.integer(update, "snapshot-id", "remove-partition-statistics")
    _remove_files(draft, "partition-statistics", {snapshot_id})


def _set_file(draft: Draft, key: str, file: JsonObject) -> None:
    others = [row for row in draft.document[key] if row["snapshot-id"] != file["snapshot-id"]]
    if draft.find(key, "snapshot-id", file["snapshot-id"]) != file:
        draft.rows(key)[:] = [*others, file]


def _remove_files(draft: Draft, key: str, snapshot_ids: set[int]) -> None:
    kept = [row for row in draft.document[key] if row["snapshot-id"] not in snapshot_ids]
    if len(kept) != len(draft.document[key]):
        draft.rows(key)[:] = kept
