"""Which data files to rewrite together. Pure: reads nothing but what it is given, decides all that is decided."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from maintenance.columns import why_not_rewritten
from maintenance.compaction.copying import why_rewritten
from maintenance.compaction.delete_burden import burdens
from maintenance.compaction.delete_plan import plan_deletes
from maintenance.compaction.layout import Layout, layout_of
from maintenance.compaction.open_window import open_window
from maintenance.compaction.plan_types import CompactionPlan, Nothing, PlannedFile, PlannedGroup, encode_value
from maintenance.compaction.tiers import BinReason, pack, tier_of, worth
from maintenance.policies import CompactionPolicy, Tier
from maintenance.ports import JobSettings
from maintenance.rewritable import why_not_file, why_not_specs
from table_format.manifest.entries import ManifestEntry, Partition
from table_format.manifest.lines import FileLine
from table_format.metadata.document import TableMetadata
from table_format.scan.lines import SnapshotLines
from table_format.scan.partitions import partition_key

_DELETES = "deletes"
"""Why a group is rewritten that is not worth merging."""


def plan(
    files: SnapshotLines,
    metadata: TableMetadata,
    policy: CompactionPolicy,
    settings: JobSettings,
    now_ms: int,
) -> CompactionPlan | Nothing:
    """The groups to rewrite, those with most files and deletes first, or why there are none."""
    if files.snapshot_id is None or not files.lines:
        return Nothing(reason="the table has no data files")
    left: Counter[str] = Counter()
    layout = layout_of(metadata, policy.strategy, policy.sort_order)
    groups: list[_Group] = []
    odd = why_not_rewritten(metadata)
    if odd is None:
        for part in _candidates(files, metadata, policy, layout, now_ms, left):
            groups += _groups(part, policy, files.deletes, left)
    else:
        left[odd] = len(files.lines)
    rewritten = (
        {line.file_path for group in groups for line in group.lines} if files.delete_entries else set()
    )
    deletes = plan_deletes(files, metadata, policy, rewritten)
    if not groups and not deletes:
        return Nothing(
            reason=_why_nothing(left, policy) if odd is None else f"the table is left alone: {odd}",
            data_files=len(files.lines),
            left_alone=dict(sorted(left.items())),
        )
    groups.sort(key=_rank)
    chosen = [group.planned(layout, files.deletes) for group in _within_limits(groups, policy, settings)]
    return CompactionPlan(
        snapshot_id=files.snapshot_id,
        sequence_number=files.sequence_number,
        groups=tuple(
            replace(group, rewritten_because=why_rewritten(group, metadata, policy, settings))
            for group in chosen
        ),
        remaining_groups=len(groups) - len(chosen),
        data_files=len(files.lines),
        left_alone=dict(sorted(left.items())),
        deletes=deletes,
    )


_Deletes = Mapping[str, tuple[ManifestEntry, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The files of one spec and partition that may be rewritten."""

    spec_id: int
    partition: Partition
    lines: list[FileLine] = field(default_factory=list)
    heavy: set[str] = field(default_factory=set)
    """Those to be rewritten for their deletes alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A group that is worth rewriting; most of those of a large table are left for later runs."""

    part: _Part
    tier: Tier
    reason: str
    lines: Sequence[FileLine]
    relieved: int
    """Files and deletes that it rids readers of."""

    @property
    def size(self) -> int:
        return sum(line.file_size_in_bytes for line in self.lines)

    def planned(self, layout: Layout, deletes: _Deletes) -> PlannedGroup:
        return PlannedGroup(
            spec_id=self.part.spec_id,
            partition=self.part.partition,
            below_bytes=self.tier.below_bytes,
            target_bytes=self.tier.target_bytes,
            reason=self.reason,
            inputs=tuple(
                PlannedFile(
                    path=line.file_path,
                    size=line.file_size_in_bytes,
                    records=line.record_count,
                    sequence_number=line.sequence_number,
                    delete_files=len(deletes.get(line.file_path, ())),
                )
                for line in self.lines
            ),
            strategy=layout.strategy,
            order_id=layout.order_id,
            sort_fields=layout.fields,
        )


def _candidates(
    files: SnapshotLines,
    metadata: TableMetadata,
    policy: CompactionPolicy,
    layout: Layout,
    now_ms: int,
    left: Counter[str],
) -> Iterable[_Part]:
    known_specs = why_not_specs(metadata)
    why_young = _why_young(files.lines, metadata, policy, now_ms)
    parts: dict[tuple[int, object], _Part] = {}
    # Files of one manifest share the objects of their partitions, which are found sooner than equal ones.
    seen: dict[tuple[int, int], _Part] = {}
    weights = burdens(files)
    for line in files.lines:
        deletes = files.deletes.get(line.file_path, ()) if files.deletes else ()
        heavy = weights.heavy(line, deletes, policy) if deletes else False
        reason = _why_not(line, deletes, known_specs, policy, layout, heavy=heavy) or why_young(line)
        if reason is not None:
            left[reason] += 1
            continue
        part = seen.get((line.spec_id, id(line.partition)))
        if part is None:
            key = (line.spec_id, partition_key(line.partition))
            part = parts.setdefault(key, _Part(spec_id=line.spec_id, partition=line.partition))
            seen[line.spec_id, id(line.partition)] = part
        part.lines.append(line)
        if heavy:
            part.heavy.add(line.file_path)
    return parts.values()


def _why_young(
    lines: Sequence[FileLine], metadata: TableMetadata, policy: CompactionPolicy, now_ms: int
) -> Callable[[FileLine], str | None]:
    written = {snapshot["snapshot-id"]: int(snapshot["timestamp-ms"]) for snapshot in metadata.snapshots}
    youngest = now_ms - policy.min_file_age_seconds * 1000
    window = open_window(lines, metadata, policy.open_partition_seconds, now_ms)

    def why(line: FileLine) -> str | None:
        if policy.min_file_age_seconds and written.get(line.snapshot_id or -1, 0) > youngest:
            return "younger than minFileAgeSeconds"
        if window.newest and window.has(line):
            return "in the newest partition, written to within openPartitionSeconds"
        return None

    return why


def _why_not(
    line: FileLine,
    deletes: Sequence[ManifestEntry],
    known_specs: Mapping[int, str | None],
    policy: CompactionPolicy,
    layout: Layout,
    *,
    heavy: bool,
) -> str | None:
    if tier_of(line.file_size_in_bytes, policy.tiers) is None and not (heavy or layout.unsorted(line)):
        return "large enough, with few deletes" if deletes else "large enough"
    return why_not_file(line, deletes, known_specs)


def _groups(part: _Part, policy: CompactionPolicy, deletes: _Deletes, left: Counter[str]) -> list[_Group]:
    groups = []

    def group(tier: Tier, reason: str, lines: Sequence[FileLine]) -> None:
        also = sum(len(deletes.get(line.file_path, ())) for line in lines) if deletes else 0
        groups.append(_Group(part=part, tier=tier, reason=reason, lines=lines, relieved=len(lines) + also))

    for candidate in pack(part.lines, policy.tiers):
        worthy = worth(candidate, policy.min_input_files)
        if worthy is not None:
            group(candidate.tier, str(worthy), candidate.files)
            continue
        heavy = [line for line in candidate.files if line.file_path in part.heavy]
        if heavy:
            group(candidate.tier, _DELETES, heavy)
        if others := len(candidate.files) - len(heavy):
            left["alone in its bin" if len(candidate.files) == 1 else "too little to merge yet"] += others
    for line in part.lines:
        if tier_of(line.file_size_in_bytes, policy.tiers) is None:
            # Large enough: it is a candidate for its deletes, or else because it is not sorted.
            reason = _DELETES if line.file_path in part.heavy else str(BinReason.UNSORTED)
            group(policy.tiers[-1], reason, [line])
    return groups


def _rank(group: _Group) -> tuple[int, int, str, int, str]:
    first, part = group.lines[0], group.part
    partition = json.dumps([encode_value(value) for value in part.partition])
    return (-group.relieved, part.spec_id, partition, first.sequence_number, first.file_path)


def _within_limits(groups: list[_Group], policy: CompactionPolicy, settings: JobSettings) -> list[_Group]:
    chosen: list[_Group] = []
    size = 0
    for group in groups[: settings.max_groups_per_run]:
        size += group.size
        if chosen and size > policy.max_bytes_per_run:
            break
        chosen.append(group)
    return chosen


def _why_nothing(left: Counter[str], policy: CompactionPolicy) -> str:
    told = ", ".join(f"{number} {reason}" for reason, number in sorted(left.items()))
    border = policy.tiers[-1].below_bytes
    return (
        f"no group of files is worth rewriting: {told} (files from {border} bytes are large enough; a group must reach "
        f"its tier's border, or have {policy.min_input_files} files and twice the bytes of its largest)"
    )
