"""Which data files to rewrite together. Pure: reads nothing but what it is given, decides all that is decided."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from maintenance.compaction.columns import why_not_rewritten
from maintenance.compaction.copying import why_rewritten
from maintenance.compaction.delete_burden import burdens, why_not_applied
from maintenance.compaction.delete_plan import plan_deletes
from maintenance.compaction.layout import Layout, layout_of
from maintenance.compaction.open_window import open_window
from maintenance.compaction.plan_types import CompactionPlan, Nothing, PlannedFile, PlannedGroup, encode_value
from maintenance.compaction.tiers import BinReason, pack, tier_of, worth
from maintenance.policies import CompactionPolicy, Tier
from maintenance.ports import JobSettings
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import ManifestEntry, Partition
from table_format.metadata.document import TableMetadata
from table_format.scan.partitions import partition_key
from table_format.scan.plan import FileTask, SnapshotFiles
from table_format.schema.types import fields_by_id

_KNOWN_TRANSFORMS = ("identity", "year", "month", "day", "hour", "void")
_KNOWN_PARAMETRIC = ("bucket[", "truncate[")
_DELETES = "deletes"
"""Why a group is rewritten that is not worth merging."""


def plan(
    files: SnapshotFiles,
    metadata: TableMetadata,
    policy: CompactionPolicy,
    settings: JobSettings,
    now_ms: int,
) -> CompactionPlan | Nothing:
    """The groups to rewrite, those with most files and deletes first, or why there are none."""
    if files.snapshot_id is None or not files.tasks:
        return Nothing(reason="the table has no data files")
    left: Counter[str] = Counter()
    layout = layout_of(metadata, policy.strategy, policy.sort_order)
    groups: list[PlannedGroup] = []
    odd = why_not_rewritten(metadata)
    if odd is None:
        for (spec_id, _), part in _candidates(files.tasks, metadata, policy, layout, now_ms, left).items():
            groups += _groups(spec_id, part, policy, left)
    else:
        left[odd] = len(files.tasks)
    deletes = plan_deletes(files, metadata, policy, {file.path for group in groups for file in group.inputs})
    if not groups and not deletes:
        return Nothing(
            reason=_why_nothing(left, policy) if odd is None else f"the table is left alone: {odd}",
            data_files=len(files.tasks),
            left_alone=dict(sorted(left.items())),
        )
    groups.sort(key=_rank)
    chosen = [
        replace(group, strategy=layout.strategy, order_id=layout.order_id, sort_fields=layout.fields)
        for group in _within_limits(groups, policy, settings)
    ]
    return CompactionPlan(
        snapshot_id=files.snapshot_id,
        sequence_number=files.sequence_number,
        groups=tuple(
            replace(group, rewritten_because=why_rewritten(group, metadata, policy, settings))
            for group in chosen
        ),
        remaining_groups=len(groups) - len(chosen),
        data_files=len(files.tasks),
        left_alone=dict(sorted(left.items())),
        deletes=deletes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The files of one spec and partition that may be rewritten."""

    partition: Partition
    files: list[PlannedFile] = field(default_factory=list)
    heavy: set[str] = field(default_factory=set)
    """Those to be rewritten for their deletes alone."""


_Candidates = dict[tuple[int, object], _Part]


def _candidates(
    tasks: Sequence[FileTask],
    metadata: TableMetadata,
    policy: CompactionPolicy,
    layout: Layout,
    now_ms: int,
    left: Counter[str],
) -> _Candidates:
    columns = fields_by_id(metadata.schema())
    known_specs = {spec["spec-id"]: _why_not_spec(spec, columns) for spec in metadata.partition_specs}
    why_young = _why_young(tasks, metadata, policy, now_ms)
    found: _Candidates = {}
    weights = burdens(tasks)
    for task in tasks:
        entry = task.entry
        heavy = weights.heavy(task, policy)
        reason = _why_not(task, known_specs, policy, layout, heavy=heavy) or why_young(entry)
        if reason is not None:
            left[reason] += 1
            continue
        file = entry.data_file
        key = (file.spec_id, partition_key(file.partition))
        part = found.setdefault(key, _Part(partition=file.partition))
        part.files.append(_planned(task))
        if heavy:
            part.heavy.add(file.file_path)
    return found


def _why_young(
    tasks: Sequence[FileTask], metadata: TableMetadata, policy: CompactionPolicy, now_ms: int
) -> Callable[[ManifestEntry], str | None]:
    written = {snapshot["snapshot-id"]: int(snapshot["timestamp-ms"]) for snapshot in metadata.snapshots}
    youngest = now_ms - policy.min_file_age_seconds * 1000
    window = open_window(tasks, metadata, policy.open_partition_seconds, now_ms)

    def why(entry: ManifestEntry) -> str | None:
        if policy.min_file_age_seconds and written.get(entry.snapshot_id or -1, 0) > youngest:
            return "younger than minFileAgeSeconds"
        if window.has(entry.data_file):
            return "in the newest partition, written to within openPartitionSeconds"
        return None

    return why


def _why_not_spec(spec: JsonObject, columns: Mapping[int, object]) -> str | None:
    for part in spec["fields"]:
        transform = str(part["transform"])
        if transform not in _KNOWN_TRANSFORMS and not transform.startswith(_KNOWN_PARAMETRIC):
            return "partition transform unknown here"
        if part.get("source-id") not in columns:
            return "partition column was dropped"
    return None


def _why_not(
    task: FileTask,
    known_specs: Mapping[int, str | None],
    policy: CompactionPolicy,
    layout: Layout,
    *,
    heavy: bool,
) -> str | None:
    file = task.entry.data_file
    wanted = heavy or layout.unsorted(file)
    if tier_of(file.file_size_in_bytes, policy.tiers) is None and not wanted:
        return "large enough, with few deletes" if task.deletes else "large enough"
    if (doubt := why_not_applied(task)) is not None:
        return doubt
    if file.file_format.upper() != "PARQUET":
        return f"format {file.file_format}"
    if file.key_metadata is not None:
        return "encrypted"
    return known_specs.get(file.spec_id, "partition spec unknown")


def _planned(task: FileTask) -> PlannedFile:
    file = task.entry.data_file
    return PlannedFile(
        path=file.file_path,
        size=file.file_size_in_bytes,
        records=file.record_count,
        sequence_number=task.entry.sequence_number or 0,
        delete_files=len(task.deletes),
    )


def _groups(spec_id: int, part: _Part, policy: CompactionPolicy, left: Counter[str]) -> list[PlannedGroup]:
    groups = []

    def group(tier: Tier, reason: str, inputs: Sequence[PlannedFile]) -> None:
        groups.append(
            PlannedGroup(
                spec_id=spec_id,
                partition=part.partition,
                below_bytes=tier.below_bytes,
                target_bytes=tier.target_bytes,
                reason=reason,
                inputs=tuple(inputs),
            )
        )

    for candidate in pack(part.files, policy.tiers):
        worthy = worth(candidate, policy.min_input_files)
        if worthy is not None:
            group(candidate.tier, str(worthy), candidate.files)
            continue
        heavy = [file for file in candidate.files if file.path in part.heavy]
        if heavy:
            group(candidate.tier, _DELETES, heavy)
        if others := len(candidate.files) - len(heavy):
            left["alone in its bin" if len(candidate.files) == 1 else "too little to merge yet"] += others
    for file in part.files:
        if tier_of(file.size, policy.tiers) is None:
            # Large enough: it is a candidate for its deletes, or else because it is not sorted.
            reason = _DELETES if file.path in part.heavy else str(BinReason.UNSORTED)
            group(policy.tiers[-1], reason, [file])
    return groups


def _rank(group: PlannedGroup) -> tuple[int, int, str, int, str]:
    first = group.inputs[0]
    partition = json.dumps([encode_value(value) for value in group.partition])
    relieved = sum(1 + file.delete_files for file in group.inputs)
    return (-relieved, group.spec_id, partition, first.sequence_number, first.path)


def _within_limits(
    groups: list[PlannedGroup], policy: CompactionPolicy, settings: JobSettings
) -> list[PlannedGroup]:
    chosen: list[PlannedGroup] = []
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
