"""Which position delete files are stored anew without their data files: merged, or from format version 3 on as vectors.

Pure. Only deletes of data files that no group rewrites: whatever becomes of either, the other stays right. A merged
file has at least twice the rows of the largest it came from, so that a deleted row is rewritten a few times only.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from maintenance.compaction.plan_types import PlannedDeletes, PlannedFile
from maintenance.policy_types import CompactionPolicy
from maintenance.rewritable import why_not_applied
from table_format.commit.tree import FileKey, file_key
from table_format.manifest.entries import Content, DataFile, ManifestEntry, Partition
from table_format.manifest.lines import FileLine
from table_format.metadata.document import TableMetadata
from table_format.scan.index import Scope, is_vector, referenced_path, scope_of
from table_format.scan.lines import SnapshotLines

GRANULARITY_PROPERTY: Final = "write.delete.granularity"
MOST_RECORDS: Final = 2_000_000
"""Deleted rows that one rewrite of deletes may hold in memory; a delete file with more is not small."""
MOST_DATA_FILES: Final = 1_000
"""Data files whose vectors share a Puffin file."""


def plan_deletes(
    files: SnapshotLines, metadata: TableMetadata, policy: CompactionPolicy, rewritten: set[str]
) -> tuple[PlannedDeletes, ...]:
    """The rewrites of deletes, the same for the same input; `rewritten` are the paths of data files in groups."""
    if not policy.merge_position_deletes or metadata.format_version < 2:
        return ()
    if metadata.format_version > 2:
        return (*_vectors(files, rewritten), *_superseded(files))
    by_file = metadata.properties.get(GRANULARITY_PROPERTY, "").strip().lower() == "file"
    return tuple(_merges(files, policy, rewritten, by_file=by_file))


def positional(deletes: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """The position delete files, not vectors, among the deletes that apply to a data file."""
    return [
        entry
        for entry in deletes
        if entry.data_file.content is Content.POSITION_DELETES and not is_vector(entry.data_file)
    ]


def _burdened(files: SnapshotLines) -> Iterator[tuple[FileLine, list[ManifestEntry]]]:
    """The data files to which position delete files apply, and those."""
    for line in files.lines if files.deletes else ():
        if found := positional(files.deletes.get(line.file_path, ())):
            yield line, found


def _vectors(files: SnapshotLines, rewritten: set[str]) -> Iterable[PlannedDeletes]:
    """Every data file gets its vector, in as few Puffin files as there are partitions."""
    open_plans: dict[Scope, _Vectors] = {}
    for file, found in sorted(_burdened(files), key=lambda one: one[0].file_path):
        records = sum(entry.data_file.record_count for entry in found)
        if not records or file.file_path in rewritten or records > MOST_RECORDS:
            continue
        if why_not_applied(file, found) is not None:
            continue
        current = open_plans.get(scope_of(file))
        if current is not None and current.is_full(records):
            yield current.planned()
            current = None
        if current is None:
            current = open_plans[scope_of(file)] = _Vectors(file.spec_id, file.partition)
        current.add(file.file_path, found, records)
    for plan in open_plans.values():
        yield plan.planned()


def _superseded(files: SnapshotLines) -> Iterable[PlannedDeletes]:
    """Files that apply to no data file any more, by partition: others wrote vectors, and left them behind."""
    applying = {file_key(entry.data_file) for _, found in _burdened(files) for entry in found}
    parts: dict[Scope, list[ManifestEntry]] = {}
    for entry in files.delete_entries:
        if _may_merge(entry.data_file) and file_key(entry.data_file) not in applying:
            parts.setdefault(scope_of(entry.data_file), []).append(entry)
    for entries in parts.values():
        first = entries[0].data_file
        yield PlannedDeletes(
            spec_id=first.spec_id,
            partition=first.partition,
            inputs=tuple(_planned(entry) for entry in entries),
        )


@dataclass(slots=True)
class _Vectors:
    """The vectors of one Puffin file, gathered."""

    spec_id: int
    partition: Partition
    data_files: list[str] = field(default_factory=list)
    deletes: dict[FileKey, ManifestEntry] = field(default_factory=dict)
    records: int = 0

    def is_full(self, records: int) -> bool:
        return len(self.data_files) >= MOST_DATA_FILES or self.records + records > MOST_RECORDS

    def add(self, path: str, deletes: Sequence[ManifestEntry], records: int) -> None:
        self.data_files.append(path)
        self.deletes |= {file_key(entry.data_file): entry for entry in deletes}
        self.records += records

    def planned(self) -> PlannedDeletes:
        return PlannedDeletes(
            spec_id=self.spec_id,
            partition=self.partition,
            inputs=tuple(_planned(entry) for entry in self.deletes.values()),
            data_files=tuple(self.data_files),
        )


def _merges(
    files: SnapshotLines, policy: CompactionPolicy, rewritten: set[str], *, by_file: bool
) -> Iterable[PlannedDeletes]:
    """Small files of a partition become one, or one a data file where the table wants that granularity."""
    concerned = _blocked(files, rewritten)
    parts: dict[tuple[Scope, str | None], list[ManifestEntry]] = {}
    for entry in files.delete_entries:
        file = entry.data_file
        if not _may_merge(file) or file_key(file) in concerned:
            continue
        only = referenced_path(file) if by_file else None
        parts.setdefault((scope_of(file), only), []).append(entry)
    for entries in parts.values():
        chosen = _worth(entries, policy.min_input_files)
        if chosen:
            first = chosen[0].data_file
            yield PlannedDeletes(
                spec_id=first.spec_id,
                partition=first.partition,
                inputs=tuple(_planned(entry) for entry in chosen),
            )


def _may_merge(file: DataFile) -> bool:
    return (
        file.content is Content.POSITION_DELETES
        and file.file_format.upper() == "PARQUET"
        and file.key_metadata is None
        and file.record_count <= MOST_RECORDS
    )


def _blocked(files: SnapshotLines, rewritten: set[str]) -> set[FileKey]:
    """The delete files of data files that are rewritten, or that lie in another partition (so that it is in doubt)."""
    return {
        file_key(entry.data_file)
        for line, found in _burdened(files)
        for entry in found
        if line.file_path in rewritten or scope_of(line) != scope_of(entry.data_file)
    }


def _worth(entries: Sequence[ManifestEntry], least: int) -> list[ManifestEntry]:
    """The smallest files, as many as make a file of at least twice the rows of the largest of them; none if too few."""
    ordered = sorted(entries, key=lambda entry: (entry.data_file.record_count, entry.data_file.file_path))
    while len(ordered) >= least:
        total = sum(entry.data_file.record_count for entry in ordered)
        if total >= 2 * ordered[-1].data_file.record_count and total <= MOST_RECORDS:
            return ordered
        ordered.pop()
    return []


def _planned(entry: ManifestEntry) -> PlannedFile:
    file = entry.data_file
    return PlannedFile(
        path=file.file_path,
        size=file.file_size_in_bytes,
        records=file.record_count,
        sequence_number=entry.sequence_number or 0,
    )
