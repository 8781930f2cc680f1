"""Snapshot summaries: what a commit added and removed, and the totals after it, in Java's key names.

Owns the arithmetic only. Totals come either from the parent's totals (as Java does: absent stays absent) or from
a recount of the whole tree, which heals totals that another writer let drift.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from table_format.errors import Invalid
from table_format.manifest.entries import Content, DataFile
from table_format.scan.partitions import partition_key

ENGINE_NAME = "frazil"
INGEST_PREFIX = "ingest."

_TOTALS = (
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)


class Operation(StrEnum):
    """What a snapshot did (spec, "Snapshots")."""

    APPEND = "append"
    REPLACE = "replace"
    OVERWRITE = "overwrite"
    DELETE = "delete"


@dataclass(slots=True)
class FileCounts:
    """Counters over a set of data and delete files."""

    data_files: int = 0
    records: int = 0
    size: int = 0
    position_delete_files: int = 0
    dvs: int = 0
    position_deletes: int = 0
    equality_delete_files: int = 0
    equality_deletes: int = 0

    @property
    def delete_files(self) -> int:
        """Delete files of every kind; a deletion vector counts as one."""
        return self.position_delete_files + self.dvs + self.equality_delete_files

    def add_data(self, files: int, records: int, size: int) -> None:
        """Count so many data files in; out, with numbers below nought."""
        self.data_files += files
        self.records += records
        self.size += size

    def add(self, file: DataFile) -> None:
        """Count one file in."""
        self.size += content_size(file)
        match file.content:
            case Content.DATA:
                self.data_files += 1
                self.records += file.record_count
            case Content.POSITION_DELETES:
                self.position_deletes += file.record_count
                if file.file_format.upper() == "PUFFIN":
                    self.dvs += 1
                else:
                    self.position_delete_files += 1
            case _:
                self.equality_delete_files += 1
                self.equality_deletes += file.record_count


def content_size(file: DataFile) -> int:
    """Bytes of the content: a deletion vector is a slice of its Puffin file."""
    return file.file_size_in_bytes if file.content_size_in_bytes is None else file.content_size_in_bytes


def count(files: Iterable[DataFile]) -> FileCounts:
    """The counters of all files."""
    counts = FileCounts()
    for file in files:
        counts.add(file)
    return counts


@dataclass(slots=True)
class Changes:
    """The files that one commit adds and removes."""

    added: FileCounts = field(default_factory=FileCounts)
    removed: FileCounts = field(default_factory=FileCounts)
    partitions: set[tuple[int, tuple[Hashable, ...]]] = field(default_factory=set)

    def add(self, file: DataFile) -> None:
        """An added file."""
        self.added.add(file)
        self.partitions.add((file.spec_id, partition_key(file.partition)))

    def remove(self, file: DataFile) -> None:
        """A removed file."""
        self.removed.add(file)
        self.partitions.add((file.spec_id, partition_key(file.partition)))

    def figures(self) -> dict[str, str]:
        """The `added-…`, `deleted-…` and `removed-…` keys; zeros are left out, as Java leaves them out."""
        added, removed = self.added, self.removed
        figures = {
            "added-data-files": added.data_files,
            "deleted-data-files": removed.data_files,
            "added-records": added.records,
            "deleted-records": removed.records,
            "added-files-size": added.size,
            "removed-files-size": removed.size,
            "added-delete-files": added.delete_files,
            "removed-delete-files": removed.delete_files,
            "added-position-delete-files": added.position_delete_files,
            "removed-position-delete-files": removed.position_delete_files,
            "added-dvs": added.dvs,
            "removed-dvs": removed.dvs,
            "added-position-deletes": added.position_deletes,
            "removed-position-deletes": removed.position_deletes,
            "added-equality-delete-files": added.equality_delete_files,
            "removed-equality-delete-files": removed.equality_delete_files,
            "added-equality-deletes": added.equality_deletes,
            "removed-equality-deletes": removed.equality_deletes,
        }
        return {key: str(value) for key, value in figures.items() if value} | {
            "changed-partition-count": str(len(self.partitions))
        }


def summarise(
    operation: Operation,
    changes: Changes,
    parent: Mapping[str, str] | None,
    *,
    extra: Mapping[str, str],
    recount: FileCounts | None = None,
) -> dict[str, str]:
    """A whole snapshot summary; `parent` is the parent snapshot's summary, None for a first snapshot.

    `extra` are the caller's keys; it may not set keys that are computed here.

    Raises:
        Invalid: `extra` sets a computed key.
    """
    figures = changes.figures()
    totals = _totals_after(figures, parent) if recount is None else totals_of(recount)
    computed = {"operation": str(operation), **figures, **totals}
    if taken := sorted(computed.keys() & extra.keys()):
        raise Invalid(f"summary keys {', '.join(taken)} are computed and cannot be set")
    return {"operation": str(operation), **extra, "engine-name": ENGINE_NAME, **figures, **totals}


def totals_of(counts: FileCounts) -> dict[str, str]:
    """The `total-…` keys of a tree that was counted file by file."""
    return {
        "total-records": str(counts.records),
        "total-files-size": str(counts.size),
        "total-data-files": str(counts.data_files),
        "total-delete-files": str(counts.delete_files),
        "total-position-deletes": str(counts.position_deletes),
        "total-equality-deletes": str(counts.equality_deletes),
    }


def _totals_after(figures: Mapping[str, str], parent: Mapping[str, str] | None) -> dict[str, str]:
    totals: dict[str, str] = {}
    for total, added, removed in _TOTALS:
        before = "0" if parent is None else parent.get(total)
        # A parent without (or with a nonsense) total leaves it unknown: a made-up number would be believed.
        if before is None or not before.isascii() or not before.isdigit():
            continue
        after = int(before) + int(figures.get(added, 0)) - int(figures.get(removed, 0))
        if after >= 0:
            totals[total] = str(after)
    return totals


def carried_ingest_keys(snapshots: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The `ingest.…` keys of the first summary that has any (give the head's first, then its ancestors').

    The nearest bearer is where a reader that walks the ancestors would have found them, so that copying them
    into a new head changes no answer and keeps them when the bearer expires.
    """
    for summary in snapshots:
        if carried := {key: value for key, value in summary.items() if key.startswith(INGEST_PREFIX)}:
            return carried
    return {}
