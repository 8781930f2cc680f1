"""Which jobs a new snapshot, or the mere passing of time, asks for.

Pure. A trigger only asks: whether there is work is for the plan to decide.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from maintenance.policies import (
    COMPACTION,
    SNAPSHOTS,
    UNREFERENCED,
    CompactionPolicy,
    SnapshotPolicy,
    UnreferencedPolicy,
    effective,
)
from maintenance.ports import JobKind
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePolicies:
    """The three policies in force for one table."""

    compaction: CompactionPolicy
    snapshots: SnapshotPolicy
    unreferenced: UnreferencedPolicy


def table_policies(
    layers: Mapping[str, list[JsonObject]], table_properties: Mapping[str, str]
) -> TablePolicies:
    """The policies in force, from documents per policy type (widest level first, the table's own last)."""
    compaction = effective(COMPACTION, layers.get(COMPACTION, []), table_properties)
    snapshots = effective(SNAPSHOTS, layers.get(SNAPSHOTS, []), table_properties)
    unreferenced = effective(UNREFERENCED, layers.get(UNREFERENCED, []), table_properties)
    if (
        not isinstance(compaction, CompactionPolicy)
        or not isinstance(snapshots, SnapshotPolicy)
        or not isinstance(unreferenced, UnreferencedPolicy)
    ):
        raise TypeError("a policy type gave a policy of another type")
    return TablePolicies(compaction=compaction, snapshots=snapshots, unreferenced=unreferenced)


def wants(summary: Mapping[str, str], metadata: TableMetadata, policies: TablePolicies) -> list[JobKind]:
    """The jobs that a snapshot with this summary asks for, just after its commit.

    Compaction is asked for each time the table's file count passes a multiple of the trigger count, so that a
    table whose files are all well-sized is not planned at every commit. Expiration and unreferenced files
    depend on time only, which the scheduler watches.
    """
    policy = policies.compaction
    if not policy.enabled or metadata.format_version > 2 or summary.get("operation") == "replace":
        return []
    added, deleted = _count(summary, "added-data-files"), _count(summary, "deleted-data-files")
    if added == 0:
        return []
    total = _count(summary, "total-data-files")
    if total == 0:  # a writer that keeps no totals
        return [JobKind.COMPACTION] if added >= policy.trigger_file_count else []
    before = max(total - added + deleted, 0)
    passed = total // policy.trigger_file_count > before // policy.trigger_file_count
    return [JobKind.COMPACTION] if passed or added >= policy.trigger_file_count else []


def expiry_due(metadata: TableMetadata, policy: SnapshotPolicy, now_ms: int) -> bool:
    """Whether an expiration could find work: several snapshots, the oldest beyond the age."""
    if not policy.enabled or len(metadata.snapshots) <= 1:
        return False
    oldest = min(int(snapshot["timestamp-ms"]) for snapshot in metadata.snapshots)
    return oldest < now_ms - policy.max_snapshot_age_ms


def _count(summary: Mapping[str, str], key: str) -> int:
    text = summary.get(key, "0")
    # Anybody may write a summary; a number that no table can have counts as none.
    return int(text) if text.isdecimal() and len(text) < 19 else 0
