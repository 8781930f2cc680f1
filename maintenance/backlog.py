"""Whether compaction falls behind a table's writers, and why that is thought. Pure: metadata, policy and jobs in.

A signal for whoever writes, to slow down or to call somebody; nothing here slows anybody down. A large table is not
behind, nor one that compaction has looked at and could do nothing more for: what counts is what came since.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from maintenance.policy_types import CompactionPolicy
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata

TIMES: Final = 10
"""So many times what asks for one compaction has gathered: several runs were asked for, and none kept up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What the jobs say of compaction on one table."""

    waiting_since_ms: int | None = None
    """Since when a job could run that no worker has taken; None when there is none."""
    error: str | None = None
    """Why the open job's last attempt, or the last job, failed."""
    settled_ms: int | None = None
    """When the last run that left nothing to do began; None: none did, or a later one left something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """Compaction falls behind."""

    reason: str
    """For people."""
    data_files: int
    """That wait for it: added since it last left nothing to do, or all there are."""
    delete_files: int


def behind(metadata: TableMetadata, policy: CompactionPolicy, served: Served, now_ms: int) -> Behind | None:
    """Whether and why; None while compaction keeps up, and where none is to run."""
    if not policy.enabled:
        return None
    data, deletes = _unserved(metadata, policy, served)
    reasons = []
    if data >= TIMES * policy.trigger_file_count:
        reasons.append(f"{data} data files wait for compaction, which {policy.trigger_file_count} ask for")
    most_deletes = policy.trigger_delete_files or policy.trigger_file_count
    if deletes >= TIMES * most_deletes:
        reasons.append(f"{deletes} delete files wait for compaction, of which {most_deletes} are many")
    waited_s = 0 if served.waiting_since_ms is None else (now_ms - served.waiting_since_ms) // 1000
    if waited_s > policy.interval_seconds:
        reasons.append(
            f"its job has waited {waited_s} s for a worker, longer than the interval between two runs"
        )
    if not reasons:
        return None
    if served.error is not None:
        reasons.append(f"the last attempt failed: {served.error}")
    return Behind(reason="; ".join(reasons), data_files=data, delete_files=deletes)


def _unserved(metadata: TableMetadata, policy: CompactionPolicy, served: Served) -> tuple[int, int]:
    """Data and delete files that no compaction has looked at."""
    if served.settled_ms is not None:
        later = [
            _summary(snapshot)
            for snapshot in metadata.snapshots
            if int(snapshot["timestamp-ms"]) >= served.settled_ms
            and _summary(snapshot).get("operation") != "replace"
        ]
        return (
            sum(_count(summary, "added-data-files") for summary in later),
            sum(_count(summary, "added-delete-files") for summary in later),
        )
    summary = _summary(metadata.current_snapshot or {})
    files, size = _count(summary, "total-data-files"), _count(summary, "total-files-size")
    large = files > 0 and size // files >= policy.tiers[0].below_bytes
    return 0 if large else files, _count(summary, "total-delete-files")


def _summary(snapshot: JsonObject) -> Mapping[str, str]:
    found = snapshot.get("summary")
    return found if isinstance(found, dict) else {}


def _count(summary: Mapping[str, str], key: str) -> int:
    text = summary.get(key, "0")
    # Anybody may write a summary; a number that no table can have counts as none.
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < 19 else 0
