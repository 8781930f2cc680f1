"""Which jobs a new snapshot, or the mere passing of time, asks for.

Pure. A trigger only asks: whether there is work is for the plan to decide.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from maintenance.policies import COMPACTION, MANIFESTS, SNAPSHOTS, STATISTICS, UNREFERENCED, effective
from maintenance.policy_types import (
    CompactionPolicy,
    ManifestPolicy,
    Policy,
    SnapshotPolicy,
    StatisticsPolicy,
    UnreferencedPolicy,
)
from maintenance.ports import MOST_BENEFIT, JobKind
from maintenance.setting_rules import MIB
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata

P = TypeVar("P", bound=Policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePolicies:
    """The policies in force for one table that commits ask about."""

    compaction: CompactionPolicy
    snapshots: SnapshotPolicy
    unreferenced: UnreferencedPolicy
    manifests: ManifestPolicy
    statistics: StatisticsPolicy


def table_policies(
    layers: Mapping[str, list[JsonObject]], table_properties: Mapping[str, str]
) -> TablePolicies:
    """The policies in force, from documents per policy type (widest level first, the table's own last)."""

    def of(kind: str, expected: type[P]) -> P:
        policy = effective(kind, layers.get(kind, []), table_properties)
        if not isinstance(policy, expected):
            raise TypeError("a policy type gave a policy of another type")
        return policy

    return TablePolicies(
        compaction=of(COMPACTION, CompactionPolicy),
        snapshots=of(SNAPSHOTS, SnapshotPolicy),
        unreferenced=of(UNREFERENCED, UnreferencedPolicy),
        manifests=of(MANIFESTS, ManifestPolicy),
        statistics=of(STATISTICS, StatisticsPolicy),
    )


def wants(
    summary: Mapping[str, str],
    metadata: TableMetadata,
    policies: TablePolicies,
    before: TableMetadata | None = None,
) -> list[JobKind]:
    """The jobs that a snapshot with this summary asks for, just after its commit; `before` it the table was that.

    Compaction is asked for each time one of the table's counts passes a multiple of its trigger, so that a table
    whose files are all well-sized is not planned at every commit; a manifest rewrite, and statistics, each time the
    commits pass one.
    Expiration and unreferenced files depend on time only, which the scheduler watches.
    """
    if summary.get("operation") == "replace":
        return []
    wanted = (
        [JobKind.COMPACTION] if _asks_for_compaction(summary, metadata, policies.compaction, before) else []
    )
    manifests = policies.manifests
    if manifests.enabled and _many_commits(metadata, manifests.trigger_commits, before):
        wanted.append(JobKind.MANIFESTS)
    statistics = policies.statistics
    if statistics.enabled and _many_commits(metadata, statistics.trigger_commits, before):
        wanted.append(JobKind.STATISTICS)
    return wanted


def benefit(summary: Mapping[str, str], policy: CompactionPolicy) -> int:
    """What compaction is worth on a table, 0 to `MOST_BENEFIT`: files that would go, per MiB that would be rewritten.

    One file a MiB is 4; four times as many are one more. By the totals of the head's summary: a guess, good enough to
    say who goes first.
    """
    size = max(_count(summary, "total-files-size"), 1)
    files = _count(summary, "total-data-files") + _count(summary, "total-delete-files")
    spare = files - math.ceil(size / policy.target_file_size_bytes)
    if spare <= 0:
        return 0
    return min(max(round(math.log(spare * MIB / size, 4)) + 4, 0), MOST_BENEFIT)


def _asks_for_compaction(
    summary: Mapping[str, str],
    metadata: TableMetadata,
    policy: CompactionPolicy,
    before: TableMetadata | None,
) -> bool:
    if not policy.enabled:
        return False
    asked = _many_files(summary, policy) or _many_others(summary, policy)
    return asked or _many_commits(metadata, policy.trigger_commits, before)


def _many_files(summary: Mapping[str, str], policy: CompactionPolicy) -> bool:
    added, deleted = _count(summary, "added-data-files"), _count(summary, "deleted-data-files")
    if added == 0:
        return False
    total = _count(summary, "total-data-files")
    if total == 0:  # a writer that keeps no totals
        return added >= policy.trigger_file_count
    return added >= policy.trigger_file_count or _passed(
        total - added + deleted, total, policy.trigger_file_count
    )


def _many_others(summary: Mapping[str, str], policy: CompactionPolicy) -> bool:
    """Whether bytes, delete files or deleted rows passed a multiple of their trigger, or came at once."""
    sizes = (_count(summary, "added-files-size"), _count(summary, "removed-files-size"))
    files = (_count(summary, "added-delete-files"), _count(summary, "removed-delete-files"))
    records = (
        _count(summary, "added-position-deletes") + _count(summary, "added-equality-deletes"),
        _count(summary, "removed-position-deletes") + _count(summary, "removed-equality-deletes"),
    )
    deletes = _count(summary, "total-position-deletes") + _count(summary, "total-equality-deletes")
    return any(
        every is not None and added > 0 and (added >= every or _passed(total - added + removed, total, every))
        for every, (added, removed), total in (
            (policy.trigger_bytes, sizes, _count(summary, "total-files-size")),
            (policy.trigger_delete_files, files, _count(summary, "total-delete-files")),
            (policy.trigger_delete_records, records, deletes),
        )
    )


def _many_commits(metadata: TableMetadata, every: int | None, before: TableMetadata | None) -> bool:
    """Whether the number of the table's commits passed a multiple: each takes a sequence number, but in format v1."""
    if every is None:
        return False
    if metadata.format_version == 1:
        return _passed(0 if before is None else len(before.snapshots), len(metadata.snapshots), every)
    known = 0 if before is None else before.last_sequence_number
    return _passed(known, metadata.last_sequence_number, every)


def _passed(before: int, after: int, every: int) -> bool:
    return after // every > max(before, 0) // every


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
