"""Which snapshots and refs expire. Pure: metadata, policy and the time in, ids out.

Kept are: every head of a branch or tag that stays; of each branch the newest `min-snapshots-to-keep` and all younger
than the age (the branch's own values first); snapshots on no ref until they are older than the age; and the newest
snapshot that says how far ingest has come, for each topic partition.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from maintenance.policies import MIN_SNAPSHOT_AGE_S, SnapshotPolicy
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata

MAIN: Final = "main"
_INGEST: Final = "ingest."
_OFFSETS: Final = "ingest.offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirationPlan:
    """What leaves the metadata."""

    snapshot_ids: tuple[int, ...]
    """Oldest first."""
    refs: tuple[str, ...]
    older_than_ms: int
    kept: int
    remaining: int = 0
    """Snapshots that may go too, but exceed what one run takes."""

    def to_json(self) -> JsonObject:
        """As plain JSON."""
        return {
            "snapshot-ids": list(self.snapshot_ids),
            "refs": list(self.refs),
            "older-than-ms": self.older_than_ms,
            "kept": self.kept,
            "remaining": self.remaining,
        }

    @classmethod
    def from_json(cls, document: JsonObject) -> "ExpirationPlan":
        """The plan that `to_json` wrote."""
        return cls(
            snapshot_ids=tuple(document["snapshot-ids"]),
            refs=tuple(document["refs"]),
            older_than_ms=document["older-than-ms"],
            kept=document["kept"],
            remaining=document["remaining"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No snapshot expires, and why."""

    reason: str
    next_due_ms: int | None = None
    """When the first snapshot will be old enough, if nothing else changes."""


@dataclass(slots=True)
class _Retained:
    ids: set[int] = field(default_factory=set)
    due: list[int] = field(default_factory=list)
    """When each snapshot that is kept for its age alone may go."""


def plan(
    metadata: TableMetadata, policy: SnapshotPolicy, now_ms: int, *, limit: int
) -> ExpirationPlan | Nothing:
    """The snapshots and refs that expire, at most `limit` snapshots, or why there are none."""
    cutoff = now_ms - policy.max_snapshot_age_ms
    if not metadata.snapshots:
        return Nothing(reason="the table has no snapshots")
    by_id: dict[int, JsonObject] = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.snapshots}
    expired_refs = _expired_refs(metadata, by_id, policy, now_ms)
    retained = _Retained()
    referenced: set[int] = set()
    for name, ref in metadata.refs.items():
        if name not in expired_refs:
            _retain_ref(ref, by_id, policy, now_ms, retained, referenced)
    for snapshot_id, snapshot in by_id.items():
        if snapshot_id not in referenced:
            _retain_while_young(snapshot_id, snapshot, policy.max_snapshot_age_ms, now_ms, retained)
    retained.ids |= _offset_bearers(metadata, by_id, referenced, retained.ids)
    gone = sorted((i for i in by_id if i not in retained.ids), key=lambda i: (by_id[i]["timestamp-ms"], i))
    if not gone and not expired_refs:
        which = "the only snapshot is a head" if len(by_id) == 1 else f"all {len(by_id)} snapshots are heads"
        reason = f"{which}, younger than the age, or within the number to keep"
        return Nothing(reason=reason, next_due_ms=min(retained.due, default=None))
    return ExpirationPlan(
        snapshot_ids=tuple(gone[:limit]),
        refs=tuple(expired_refs),
        older_than_ms=cutoff,
        kept=len(by_id) - len(gone),
        remaining=max(len(gone) - limit, 0),
    )


def _expired_refs(
    metadata: TableMetadata, by_id: Mapping[int, JsonObject], policy: SnapshotPolicy, now_ms: int
) -> list[str]:
    """Branches and tags past their own age; `main`, and a ref whose head is unknown, never."""
    expired = []
    for name, ref in sorted(metadata.refs.items()):
        own = ref.get("max-ref-age-ms")
        limit = policy.max_ref_age_ms if own is None else max(int(own), _floor_ms(policy))
        head = by_id.get(ref["snapshot-id"])
        if name == MAIN or limit is None or head is None:
            continue
        if now_ms - int(head["timestamp-ms"]) > limit:
            expired.append(name)
    return expired


def _floor_ms(policy: SnapshotPolicy) -> int:
    """What a ref says of itself counts down to an hour, or to the policy's age where that is lower."""
    return min(MIN_SNAPSHOT_AGE_S * 1000, policy.max_snapshot_age_ms)


def _retain_ref(
    ref: JsonObject,
    by_id: Mapping[int, JsonObject],
    policy: SnapshotPolicy,
    now_ms: int,
    retained: _Retained,
    referenced: set[int],
) -> None:
    head: int = ref["snapshot-id"]
    retained.ids.add(head)
    referenced.add(head)
    if ref.get("type") == "tag":
        return
    own_keep, own_age = ref.get("min-snapshots-to-keep"), ref.get("max-snapshot-age-ms")
    keep = policy.min_snapshots_to_keep if own_keep is None else max(int(own_keep), 1)
    age = policy.max_snapshot_age_ms if own_age is None else max(int(own_age), _floor_ms(policy))
    for position, (snapshot_id, snapshot) in enumerate(_ancestry(head, by_id)):
        referenced.add(snapshot_id)
        if position < keep:
            retained.ids.add(snapshot_id)
        else:
            _retain_while_young(snapshot_id, snapshot, age, now_ms, retained)


def _retain_while_young(
    snapshot_id: int, snapshot: JsonObject, age_ms: int, now_ms: int, retained: _Retained
) -> None:
    due = int(snapshot["timestamp-ms"]) + age_ms
    if due >= now_ms:
        retained.ids.add(snapshot_id)
        retained.due.append(due)


def _ancestry(head: int, by_id: Mapping[int, JsonObject]) -> Iterator[tuple[int, JsonObject]]:
    seen: set[int] = set()
    current: int | None = head
    while current is not None and current in by_id and current not in seen:
        seen.add(current)
        yield current, by_id[current]
        current = by_id[current].get("parent-snapshot-id")


def _offset_bearers(
    metadata: TableMetadata, by_id: Mapping[int, JsonObject], referenced: set[int], retained: set[int]
) -> set[int]:
    """Snapshots that must stay because nothing that stays and is nearer to the head says the same about ingest.

    Beyond main's known ancestors come the snapshots on no ref: an earlier expiration may have cut them off.
    """
    head = metadata.current_snapshot_id
    order = [] if head is None else [snapshot for _, snapshot in _ancestry(head, by_id)]
    loose = [snapshot for snapshot_id, snapshot in by_id.items() if snapshot_id not in referenced]
    order += sorted(loose, key=lambda s: (s.get("sequence-number", 0), s["timestamp-ms"]), reverse=True)
    told: set[str] = set()
    bearers: set[int] = set()
    for snapshot in order:
        claims = set(_claims(snapshot.get("summary") or {}))
        if not claims <= told and snapshot["snapshot-id"] not in retained:
            bearers.add(snapshot["snapshot-id"])
        told |= claims
    return bearers


def _claims(summary: Mapping[str, str]) -> Iterable[str]:
    """What a summary says about ingest: its keys, and for the offsets each topic partition by itself."""
    for key, value in summary.items():
        if not key.startswith(_INGEST):
            continue
        yield key
        if key == _OFFSETS:
            yield from _topic_partitions(value)


def _topic_partitions(text: str) -> Iterable[str]:
    try:
        offsets = json.loads(text)
    except ValueError:
        return
    for topic, partitions in offsets.items() if isinstance(offsets, dict) else ():
        names = partitions if isinstance(partitions, dict) else ()
        yield from (f"{_OFFSETS}/{topic}/{partition}" for partition in names)
