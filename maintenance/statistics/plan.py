"""Which statistics of a table's head are computed, and from where. Pure: metadata and policy in, columns out.

Sketches of an earlier snapshot are continued with the files that came since, where only appends and rewrites came
since: a value that was counted cannot be taken away again. Everything else is read anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from maintenance.policy_types import StatisticsPolicy
from table_format.errors import Invalid, Unsupported
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata
from table_format.scan.partitions import is_unpartitioned
from table_format.scan.plan import ancestor_ids
from table_format.schema.types import FieldView, children, parse_primitive

THETA: Final = "apache-datasketches-theta-v1"
TYPE_PROPERTY: Final = "frazil.type"
"""On blobs of ours: the column's type, whose change changes the bytes that its values are hashed by."""
_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column whose distinct values are counted."""

    id: int
    name: str
    type: str
    continued: bool
    """Whether an earlier sketch is continued; else every row is read for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsPlan:
    """What one run computes, of main's head."""

    snapshot_id: int
    sequence_number: int
    columns: tuple[Column, ...]
    """By their place in the schema; none: no statistics file is written."""
    since: int | None
    """The snapshot whose sketches are continued."""
    unchanged: bool
    """Whether the rows are those of that snapshot, only stored otherwise."""
    partitions: bool
    """Whether a partition statistics file is written."""
    told: tuple[str, ...]
    """What is not computed, and why."""

    def to_json(self) -> JsonObject:
        """As plain JSON."""
        return {
            "snapshot-id": self.snapshot_id,
            "columns": [
                [c.name, c.type, "continued" if c.continued else "counted anew"] for c in self.columns
            ],
            "continued-from": self.since,
            "partition-statistics": self.partitions,
            "not-computed": list(self.told),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """Nothing is computed, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Earlier:
    """The nearest ancestor of the head with sketches of ours, and what came after it."""

    snapshot_id: int
    types: Mapping[int, str]
    """Of the columns that it has sketches of."""
    changed: int | None
    """Rows that came or went since; None when a snapshot does not say."""
    only_added: bool
    """Whether everything since was appended, or stored anew."""
    only_stored: bool
    """Whether nothing came or went since."""


def plan(metadata: TableMetadata, policy: StatisticsPolicy, *, asked: bool) -> StatisticsPlan | Nothing:
    """What is to be computed of main's head. What a person `asked` for does not wait for enough rows to change."""
    head = metadata.current_snapshot
    if head is None:
        return Nothing(reason="the table has no snapshot")
    told: list[str] = []
    earlier = _earlier(metadata, head["snapshot-id"])
    columns = _columns_due(metadata, policy, earlier, told, asked=asked) if policy.ndv else []
    partitions = policy.partition_statistics and _partitions_due(metadata, told)
    if not columns and not partitions:
        return Nothing(reason="; ".join(told))
    continued = earlier is not None and any(column.continued for column in columns)
    return StatisticsPlan(
        snapshot_id=head["snapshot-id"],
        sequence_number=head.get("sequence-number", 0),
        columns=tuple(columns),
        since=earlier.snapshot_id if earlier is not None and continued else None,
        unchanged=earlier is not None and continued and earlier.only_stored,
        partitions=partitions,
        told=tuple(told),
    )


def _columns_due(
    metadata: TableMetadata,
    policy: StatisticsPolicy,
    earlier: _Earlier | None,
    told: list[str],
    *,
    asked: bool,
) -> list[Column]:
    views = chosen_columns(metadata, policy, told)
    counted = _counted(_entry(metadata.statistics, metadata.current_snapshot_id))
    missing = [view for view in views if view.id not in counted]
    if not missing:
        told.append(
            "the head has the distinct values of these columns" if views else "no column can be counted"
        )
        return []
    if earlier is not None and not asked:
        known = all(view.id in earlier.types for view in missing)
        reason = _too_little(metadata, policy, earlier) if known else None
        if reason is not None:
            told.append(reason)
            return []
    return [
        Column(
            id=view.id,
            name=view.name,
            type=str(view.type),
            continued=earlier is not None and earlier.only_added and earlier.types.get(view.id) == view.type,
        )
        for view in missing
    ]


def chosen_columns(metadata: TableMetadata, policy: StatisticsPolicy, told: list[str]) -> list[FieldView]:
    """The columns whose distinct values the policy wants; why others are left out is added to `told`."""
    views = {view.name: view for view in children(metadata.schema(), None)}
    if not policy.columns:
        able = [view for view in views.values() if why_not_counted(view) is None]
        if len(able) > policy.max_columns:
            told.append(f"{len(able) - policy.max_columns} columns beyond the first {policy.max_columns}")
        return able[: policy.max_columns]
    chosen = []
    for name in policy.columns:
        reason = why_not_counted(views.get(name))
        if reason is None:
            chosen.append(views[name])
        else:
            told.append(f"column {name!r} {reason}")
    return chosen


def why_not_counted(view: FieldView | None) -> str | None:
    """Why the distinct values of a column cannot be counted; None when they can."""
    if view is None:
        return "is no top-level column of the table"
    if not view.primitive:
        return "is a struct, list or map"
    try:
        primitive = parse_primitive(str(view.type))
    except (Invalid, Unsupported):
        return f"is of type {str(view.type)[:40]}, whose values have no form to be counted by"
    return "is of type unknown: it has no values" if primitive.name == _UNKNOWN else None


def _too_little(metadata: TableMetadata, policy: StatisticsPolicy, earlier: _Earlier) -> str | None:
    """Why it is not worth counting again; None when it is, or costs nothing, or cannot be told."""
    if earlier.only_stored or earlier.changed is None:
        return None
    summary = (metadata.current_snapshot or {}).get("summary") or {}
    rows = _count(summary, "total-records")
    if not rows or earlier.changed >= policy.min_change_ratio * rows:
        return None
    return (
        f"{earlier.changed} of {rows} rows changed since the distinct values were counted, a smaller share than "
        f"{policy.min_change_ratio}"
    )


def _partitions_due(metadata: TableMetadata, told: list[str]) -> bool:
    if all(is_unpartitioned(spec) for spec in metadata.partition_specs):
        told.append("no partition statistics: the table is not partitioned")
        return False
    if _entry(metadata.partition_statistics, metadata.current_snapshot_id) is not None:
        told.append("the head has partition statistics")
        return False
    return True


def _entry(entries: Sequence[JsonObject], snapshot_id: int | None) -> JsonObject | None:
    return next((entry for entry in entries if entry["snapshot-id"] == snapshot_id), None)


def _counted(entry: JsonObject | None) -> dict[int, JsonObject]:
    """The sketches of single columns, by column."""
    blobs = [] if entry is None else entry["blob-metadata"]
    return {blob["fields"][0]: blob for blob in blobs if blob["type"] == THETA and len(blob["fields"]) == 1}


def _own_types(entry: JsonObject) -> dict[int, str]:
    """Of the columns whose sketches are ours, and of the very snapshot, the types that they were made with."""
    found = {}
    for column, blob in _counted(entry).items():
        made_with = (blob.get("properties") or {}).get(TYPE_PROPERTY)
        if made_with is not None and blob["snapshot-id"] == entry["snapshot-id"]:
            found[column] = made_with
    return found


def _earlier(metadata: TableMetadata, head_id: int) -> _Earlier | None:
    entries = {entry["snapshot-id"]: entry for entry in metadata.statistics}
    snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.snapshots}
    changed: int | None = 0
    only_added = only_stored = True
    for snapshot_id in ancestor_ids(metadata, head_id):
        types = _own_types(entries[snapshot_id]) if snapshot_id in entries else {}
        if types and snapshot_id in snapshots:
            return _Earlier(snapshot_id, types, changed, only_added, only_stored)
        if snapshot_id not in snapshots:
            return None
        summary = snapshots[snapshot_id].get("summary") or {}
        operation = summary.get("operation")
        if operation == "replace":
            continue
        only_stored = False
        only_added = only_added and operation == "append" and not _takes_away(summary)
        rows = _rows_changed(summary)
        changed = None if changed is None or rows is None else changed + rows
    return None


def _takes_away(summary: Mapping[str, str]) -> bool:
    return any(
        _count(summary, key) for key in ("deleted-data-files", "added-delete-files", "removed-delete-files")
    )


def _rows_changed(summary: Mapping[str, str]) -> int | None:
    """Rows that came or went with a snapshot; None when it does not say."""
    told = [key for key in ("added-records", "deleted-records") if key in summary]
    deletes = ("added-position-deletes", "added-equality-deletes")
    if not told and not any(key in summary for key in deletes):
        return None
    return sum(_count(summary, key) or 0 for key in (*told, *deletes))


def _count(summary: Mapping[str, str], key: str) -> int | None:
    text = summary.get(key, "0")
    # Anybody may write a summary; a number that no table can have counts as none.
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < 19 else None
