"""All live files of a snapshot line by line, for jobs that go through whole tables: a tenth of what entries take.

Whole entries, with metrics, are read later and for some files alone.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from table_format.io.store import ObjectStore
from table_format.manifest.entries import ManifestContent, ManifestEntry, ManifestFile
from table_format.manifest.lines import FileLine, live_entries_of, live_lines
from table_format.metadata.document import TableMetadata
from table_format.scan.index import DeleteIndex, scope_of
from table_format.scan.plan import (
    FileTask,
    find_snapshot,
    holds_no_live_file,
    live_entries,
    snapshot_manifests,
)


@dataclass(frozen=True, slots=True)
class SnapshotLines:
    """The live files of one snapshot; `snapshot_id` None and no files for a table without snapshots."""

    snapshot_id: int | None
    sequence_number: int
    lines: Sequence[FileLine]
    """Of data files."""
    delete_entries: Sequence[ManifestEntry] = ()
    deletes: Mapping[str, tuple[ManifestEntry, ...]] = field(default_factory=dict)
    """Those that apply to a data file, by its path, in the order of `FileTask`; files without any are left out."""
    spans: Sequence[tuple[int, ManifestFile]] = ()
    """The manifests that lines came from, each with the number of its first."""

    def by_manifest(self) -> Iterator[tuple[ManifestFile, Sequence[FileLine]]]:
        """The lines of one manifest after the other."""
        ends = [first for first, _ in self.spans[1:]] + [len(self.lines)] * bool(self.spans)
        for (first, manifest), end in zip(self.spans, ends, strict=True):
            yield manifest, self.lines[first:end]

    def bare_tasks(self, paths: Set[str]) -> dict[str, FileTask]:
        """The data files of these paths that are live, without their metrics."""
        return {
            line.file_path: FileTask(line.data_entry(), self.deletes.get(line.file_path, ()))
            for line in self.lines
            if line.file_path in paths
        }


def snapshot_lines(store: ObjectStore, metadata: TableMetadata) -> SnapshotLines:
    """The live files of main's head.

    Raises:
        NoSuchFile, Invalid: a manifest cannot be read.
    """
    wanted = metadata.current_snapshot_id
    if wanted is None:
        return SnapshotLines(None, 0, [])
    snapshot = find_snapshot(metadata, wanted)
    manifests = snapshot_manifests(store, snapshot)
    delete_entries = list(live_entries(store, metadata, manifests, ManifestContent.DELETES))
    index = DeleteIndex(delete_entries, metadata.partition_specs)
    lines: list[FileLine] = []
    deletes: dict[str, tuple[ManifestEntry, ...]] = {}
    spans: list[tuple[int, ManifestFile]] = []
    for manifest in manifests:
        if manifest.content is not ManifestContent.DATA or holds_no_live_file(manifest):
            continue
        spans.append((len(lines), manifest))
        lines += live_lines(store, manifest, metadata)
        for line in lines[spans[-1][0] :] if delete_entries else ():
            if found := index.applying(line.file_path, scope_of(line), line.sequence_number):
                deletes[line.file_path] = found
    return SnapshotLines(wanted, snapshot.get("sequence-number", 0), lines, delete_entries, deletes, spans)


def whole_tasks(
    store: ObjectStore, metadata: TableMetadata, files: SnapshotLines, paths: Set[str]
) -> list[FileTask]:
    """The tasks of these data files, whole; only manifests that hold one are read.

    Raises:
        NoSuchFile: a manifest is gone.
    """
    return [
        FileTask(entry, files.deletes.get(entry.data_file.file_path, ()))
        for manifest, lines in files.by_manifest()
        if any(line.file_path in paths for line in lines)
        for entry in live_entries_of(store, manifest, metadata, paths)
    ]
