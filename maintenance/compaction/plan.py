"""Which data files to rewrite together. Pure: reads nothing but what it is given, decides all that is decided."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from maintenance.compaction.layout import Layout, layout_of
from maintenance.compaction.plan_types import CompactionPlan, Nothing, PlannedFile, PlannedGroup, encode_value
from maintenance.compaction.tiers import BinReason, pack, tier_of, worth
from maintenance.policies import CompactionPolicy
from maintenance.ports import JobSettings
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import ManifestEntry, Partition
from table_format.metadata.document import TableMetadata
from table_format.scan.partitions import partition_key
from table_format.scan.plan import FileTask, SnapshotFiles
from table_format.schema.types import fields_by_id

_KNOWN_TRANSFORMS = ("identity", "year", "month", "day", "hour", "void")
_KNOWN_PARAMETRIC = ("bucket[", "truncate[")


def plan(
    files: SnapshotFiles,
    metadata: TableMetadata,
    policy: CompactionPolicy,
    settings: JobSettings,
    now_ms: int,
) -> CompactionPlan | Nothing:
    """The groups to rewrite, those with most files first, or why there are none."""
    if metadata.format_version > 2:
        return Nothing(
            reason=f"format version {metadata.format_version}: rewriting would lose row lineage, not supported yet",
            data_files=len(files.tasks),
        )
    if files.snapshot_id is None or not files.tasks:
        return Nothing(reason="the table has no data files")
    left: Counter[str] = Counter()
    layout = layout_of(metadata, policy.strategy)
    partitions = _candidates(files.tasks, metadata, policy, layout, now_ms, left)
    groups: list[PlannedGroup] = []
    for (spec_id, _), (partition, candidates) in partitions.items():
        groups += _groups(spec_id, partition, candidates, policy, left)
        groups += _to_sort(spec_id, partition, candidates, policy)
    if not groups:
        return Nothing(
            reason=_why_nothing(left, policy),
            data_files=len(files.tasks),
            left_alone=dict(sorted(left.items())),
        )
    groups.sort(key=_rank)
    chosen = _within_limits(groups, policy, settings)
    return CompactionPlan(
        snapshot_id=files.snapshot_id,
        sequence_number=files.sequence_number,
        groups=tuple(replace(group, strategy=layout.strategy, order_id=layout.order_id) for group in chosen),
        remaining_groups=len(groups) - len(chosen),
        data_files=len(files.tasks),
        left_alone=dict(sorted(left.items())),
    )


_Candidates = dict[tuple[int, object], tuple[Partition, list[PlannedFile]]]


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
    written = {snapshot["snapshot-id"]: int(snapshot["timestamp-ms"]) for snapshot in metadata.snapshots}
    youngest = now_ms - policy.min_file_age_seconds * 1000
    found: _Candidates = {}
    for task in tasks:
        entry = task.entry
        reason = _why_not(task, known_specs, policy, layout)
        if (
            reason is None
            and policy.min_file_age_seconds
            and written.get(entry.snapshot_id or -1, 0) > youngest
        ):
            reason = "younger than minFileAgeSeconds"
        if reason is not None:
            left[reason] += 1
            continue
        file = entry.data_file
        key = (file.spec_id, partition_key(file.partition))
        found.setdefault(key, (file.partition, []))[1].append(_planned(entry))
    return found


def _why_not_spec(spec: JsonObject, columns: Mapping[int, object]) -> str | None:
    for field in spec["fields"]:
        transform = str(field["transform"])
        if transform not in _KNOWN_TRANSFORMS and not transform.startswith(_KNOWN_PARAMETRIC):
            return "partition transform unknown here"
        if field.get("source-id") not in columns:
            return "partition column was dropped"
    return None


def _why_not(
    task: FileTask, known_specs: Mapping[int, str | None], policy: CompactionPolicy, layout: Layout
) -> str | None:
    file = task.entry.data_file
    if tier_of(file.file_size_in_bytes, policy.tiers) is None and not layout.unsorted(file):
        return "large enough"
    if task.deletes:
        return "row-level deletes apply to it"
    if file.file_format.upper() != "PARQUET":
        return f"format {file.file_format}"
    if file.key_metadata is not None:
        return "encrypted"
    return known_specs.get(file.spec_id, "partition spec unknown")


def _planned(entry: ManifestEntry) -> PlannedFile:
    file = entry.data_file
    return PlannedFile(
        path=file.file_path,
        size=file.file_size_in_bytes,
        records=file.record_count,
        sequence_number=entry.sequence_number or 0,
    )


def _groups(
    spec_id: int,
    partition: Partition,
    files: list[PlannedFile],
    policy: CompactionPolicy,
    left: Counter[str],
) -> list[PlannedGroup]:
    groups = []
    for candidate in pack(files, policy.tiers):
        reason = worth(candidate, policy.min_input_files)
        if reason is None:
            alone = len(candidate.files) == 1
            left["alone in its bin" if alone else "too little to merge yet"] += len(candidate.files)
            continue
        groups.append(
            PlannedGroup(
                spec_id=spec_id,
                partition=partition,
                below_bytes=candidate.tier.below_bytes,
                target_bytes=candidate.tier.target_bytes,
                reason=str(reason),
                inputs=candidate.files,
            )
        )
    return groups


def _to_sort(
    spec_id: int, partition: Partition, files: Sequence[PlannedFile], policy: CompactionPolicy
) -> list[PlannedGroup]:
    """A group per file that is large enough, and a candidate because it is not sorted."""
    last = policy.tiers[-1]
    return [
        PlannedGroup(
            spec_id=spec_id,
            partition=partition,
            below_bytes=last.below_bytes,
            target_bytes=last.target_bytes,
            reason=str(BinReason.UNSORTED),
            inputs=(file,),
        )
        for file in files
        if tier_of(file.size, policy.tiers) is None
    ]


def _rank(group: PlannedGroup) -> tuple[int, int, str, int, str]:
    first = group.inputs[0]
    partition = json.dumps([encode_value(value) for value in group.partition])
    return (-len(group.inputs), group.spec_id, partition, first.sequence_number, first.path)


def _within_limits(
    groups: list[PlannedGroup], policy: CompactionPolicy, settings: JobSettings
) -> list[PlannedGroup]:
    most = min(policy.max_bytes_per_run or settings.max_bytes_per_run, settings.max_bytes_per_run)
    chosen: list[PlannedGroup] = []
    size = 0
    for group in groups[: settings.max_groups_per_run]:
        size += group.size
        if chosen and size > most:
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
