"""Manifests gone through line by line beside the same ones read, and a snapshot's lines from tasks."""

from collections.abc import Sequence

from table_format.errors import Invalid
from table_format.io.store import ObjectStore
from table_format.manifest.entries import ManifestEntry, ManifestFile, Status
from table_format.manifest.lines import FileLine, live_entries_of, live_lines
from table_format.manifest.read import read_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.lines import SnapshotLines
from table_format.scan.plan import FileTask


def read_both_ways(
    store: ObjectStore, manifest: ManifestFile, metadata: TableMetadata
) -> list[ManifestEntry]:
    """The manifest read, after its lines were found to be the same: before its layout is learnt, and after."""
    try:
        entries = read_manifest(store, manifest, metadata)
    except Invalid:
        # What lines pass over need not be right; but nothing else may come of it.
        try:
            list(live_lines(store, manifest, metadata))
            list(live_lines(store, manifest, metadata))
        except Invalid:
            pass
        raise
    live = [entry for entry in entries if entry.status is not Status.DELETED]
    for _ in range(2):
        lines = list(live_lines(store, manifest, metadata))
        # By text: NaN is not equal to itself, and 0.0 is to -0.0.
        assert repr(lines) == repr([FileLine.of(entry) for entry in live])
    paths = {entry.data_file.file_path for entry in live[::2]}
    whole = list(live_entries_of(store, manifest, metadata, paths))
    assert repr(whole) == repr([entry for entry in live if entry.data_file.file_path in paths])
    return entries


def lines_of(
    snapshot_id: int, sequence_number: int, tasks: Sequence[FileTask], delete_entries: Sequence[ManifestEntry]
) -> SnapshotLines:
    """The tasks, line by line."""
    return SnapshotLines(
        snapshot_id,
        sequence_number,
        [FileLine.of(task.entry) for task in tasks],
        delete_entries,
        {task.entry.data_file.file_path: task.deletes for task in tasks if task.deletes},
    )
