"""Which manifests of the head are written anew. Pure: the manifest list, metadata and policy in, manifests out.

Two things ask for it, each among the manifests of one spec and content: many that are far smaller than the target; and
many whose partitions overlap, so that a filter on the partition opens them all. What comes out of a rewrite is neither,
so a second run finds nothing.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from maintenance.policy_types import ManifestPolicy
from table_format.errors import Invalid, Unsupported
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import ManifestContent, ManifestFile
from table_format.manifest.partition import PartitionColumn, partition_columns
from table_format.manifest.write import EntryForm
from table_format.metadata.document import TableMetadata
from table_format.scan.comparables import bound_reader
from table_format.scan.plan import holds_no_live_file

_MOST_NAMED: Final = 1000

Bound: TypeAlias = tuple[Any, ...]
Range: TypeAlias = tuple[Bound, Bound]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Manifests of one spec and content that are written anew together."""

    manifests: tuple[ManifestFile, ...]
    why: str
    depth: int
    """Most of the part's manifests that overlap in one partition."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(manifest.length for manifest in self.manifests)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPlan:
    """What one run writes anew."""

    parts: tuple[Part, ...]
    manifests: int
    """Manifests of the head with live files."""
    target_bytes: int
    remaining: int
    """Manifests that are left for the next run, as this one takes enough."""
    left_alone: Mapping[str, int]
    """Number of manifests per reason for not taking them."""

    def to_json(self) -> JsonObject:
        """As plain JSON; of very many manifests the first are named."""
        return {
            "parts": [
                {
                    "spec-id": part.manifests[0].spec_id,
                    "content": part.manifests[0].content.name.lower(),
                    "why": part.why,
                    "manifests": len(part.manifests),
                    "bytes": part.size,
                    "paths": [manifest.path for manifest in part.manifests[:_MOST_NAMED]],
                }
                for part in self.parts
            ],
            "manifests": self.manifests,
            "target-bytes": self.target_bytes,
            "remaining": self.remaining,
            "left-alone": dict(self.left_alone),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No manifest is written anew, and why."""

    reason: str
    manifests: int
    left_alone: Mapping[str, int]


def plan(
    manifests: Sequence[ManifestFile], metadata: TableMetadata, policy: ManifestPolicy, *, limit_bytes: int
) -> ManifestPlan | Nothing:
    """The manifests to write anew, of about `limit_bytes` at most for each spec and content, or why there are none."""
    live = [manifest for manifest in manifests if not holds_no_live_file(manifest)]
    left: Counter[str] = Counter()
    classes: dict[tuple[int, ManifestContent], list[ManifestFile]] = {}
    for manifest in live:
        if manifest.key_metadata is not None:
            left["encrypted"] += 1
        else:
            classes.setdefault((manifest.spec_id, manifest.content), []).append(manifest)
    parts: list[Part] = []
    remaining = 0
    told: list[str] = []
    for (spec_id, content), members in sorted(classes.items()):
        if (reason := _why_not_written(metadata, spec_id, content)) is not None:
            left[reason] += len(members)
            continue
        chosen = _choose(members, partition_columns(metadata, spec_id), policy, limit_bytes)
        if isinstance(chosen, str):
            told.append(f"{content.name.lower()} of spec {spec_id}: {chosen}")
            continue
        parts.append(chosen)
        remaining += len(_small(members, policy)) - len(chosen.manifests) if chosen.why == _SMALL else 0
    if not parts:
        reason = "; ".join(told) or ("no manifest can be rewritten" if left else "the table has no manifests")
        return Nothing(reason=reason, manifests=len(live), left_alone=dict(sorted(left.items())))
    return ManifestPlan(
        parts=tuple(parts),
        manifests=len(live),
        target_bytes=policy.target_size_bytes,
        remaining=max(remaining, 0),
        left_alone=dict(sorted(left.items())),
    )


_SMALL: Final = "small"
_OVERLAPPING: Final = "overlapping"


def _why_not_written(metadata: TableMetadata, spec_id: int, content: ManifestContent) -> str | None:
    try:
        EntryForm.of(metadata, spec_id, content)
    except (Invalid, Unsupported):
        return "of a spec that cannot be written here"
    return None


def _choose(
    members: Sequence[ManifestFile],
    columns: Sequence[PartitionColumn],
    policy: ManifestPolicy,
    limit_bytes: int,
) -> Part | str:
    small = _small(members, policy)
    ranges = _ranges(members, columns)
    deepest = depth(ranges)
    total = sum(manifest.length for manifest in members)
    overlapping = deepest >= policy.min_manifests
    if overlapping and total <= limit_bytes:
        # The small ones are among them: one rewrite does for both.
        return Part(manifests=tuple(members), why=_OVERLAPPING, depth=deepest)
    if len(small) >= policy.min_manifests:
        taken = _within(small, limit_bytes)
        return Part(manifests=tuple(taken), why=_SMALL, depth=depth(_ranges(taken, columns)))
    reason = (
        f"of {len(members)} manifests {len(small)} are smaller than three quarters of {policy.target_size_bytes} "
        f"bytes, fewer than {policy.min_manifests}"
    )
    if overlapping:
        return f"{reason}; {deepest} overlap, but their {total} bytes are more than one run takes ({limit_bytes})"
    return f"{reason}, and at most {deepest} overlap in one partition"


def _small(members: Sequence[ManifestFile], policy: ManifestPolicy) -> list[ManifestFile]:
    return [manifest for manifest in members if manifest.length < policy.target_size_bytes * 3 // 4]


def _within(manifests: Sequence[ManifestFile], limit_bytes: int) -> list[ManifestFile]:
    """The first of them up to the limit, but at least two."""
    taken: list[ManifestFile] = []
    size = 0
    for manifest in manifests:
        if len(taken) >= 2 and size + manifest.length > limit_bytes:
            break
        taken.append(manifest)
        size += manifest.length
    return taken


def overlap(manifests: Sequence[ManifestFile], metadata: TableMetadata) -> int:
    """Most of these manifests of one spec that overlap in one partition."""
    if not manifests:
        return 0
    return depth(_ranges(manifests, partition_columns(metadata, manifests[0].spec_id)))


def _ranges(manifests: Sequence[ManifestFile], columns: Sequence[PartitionColumn]) -> list[Range]:
    """The manifests' ranges in the first partition field in which they differ; none when that cannot be told."""
    for position, column in enumerate(columns):
        if column.type is None:
            return []
        read = bound_reader(column.type)
        ranges: list[Range] = []
        for manifest in manifests:
            summaries = manifest.partitions
            if summaries is None or len(summaries) != len(columns):
                return []
            summary = summaries[position]
            lower = None if summary.lower_bound is None else read(summary.lower_bound)
            upper = None if summary.upper_bound is None else read(summary.upper_bound)
            found: list[Bound] = [(0,)] if summary.contains_null else []
            found += [(1, bound) for bound in (lower, upper) if bound is not None]
            found += [(2,)] if summary.contains_nan else []
            if not found or (lower is None) != (upper is None):
                return []
            ranges.append((found[0], found[-1]))
        if len(set(ranges)) > 1 or any(low != high for low, high in ranges):
            return ranges
    return []


def depth(ranges: Sequence[Range]) -> int:
    """How many ranges lie over each other at most; those that only touch at their ends do not. 1 for none."""
    wide = [(low, high) for low, high in ranges if low < high]
    starts, ends = sorted(low for low, _ in wide), sorted(high for _, high in wide)
    deepest = 1
    for low, high in ranges:
        if low < high:
            deepest = max(deepest, bisect_right(starts, low) - bisect_right(ends, low))
        else:
            deepest = max(deepest, 1 + bisect_left(starts, low) - bisect_right(ends, low))
    return deepest
