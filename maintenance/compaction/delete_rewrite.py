"""Execution of one rewrite of position deletes: read the small files, write one file or the vectors in their place.

Decides nothing and commits nothing. What was written is read back and must be exactly what was meant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from maintenance.compaction.delete_plan import positional
from maintenance.compaction.plan_types import PlannedDeletes
from maintenance.compaction.rewrite import Place, next_path
from table_format.commit.rewrite_deletes import DeleteRewrite
from table_format.commit.summary import ENGINE_NAME
from table_format.commit.tree import file_key
from table_format.errors import Internal
from table_format.manifest.entries import DataFile, ManifestEntry
from table_format.scan.index import scope_of
from table_format.scan.lines import SnapshotLines
from table_format.scan.plan import FileTask
from table_format.scan.positions import position_batches, read_positions, referenced_paths
from table_format.scan.vectors import read_vector
from table_format.write.positions import write_positions
from table_format.write.vectors import write_vectors

_Positions: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(slots=True)
class _Gathered:
    """Deleted positions by data file."""

    parts: dict[str, list[_Positions]] = field(default_factory=dict)

    def add(self, path: str, positions: _Positions) -> None:
        self.parts.setdefault(path, []).append(positions)

    def of(self, path: str) -> _Positions:
        return np.unique(np.concatenate(self.parts[path]))


def execute_deletes(planned: PlannedDeletes, files: SnapshotLines, place: Place) -> list[DeleteRewrite]:
    """Write what takes the place of the planned delete files; nothing when they delete no row of a live file.

    Raises:
        Internal: what was written is not what was read; nothing may be committed.
        Invalid: a delete file cannot be read.
        NoSuchFile: one is gone.
        Stopped: the job is to end; what was written may go.
    """
    wanted = {file.path for file in planned.inputs}
    inputs = [entry for entry in files.delete_entries if entry.data_file.file_path in wanted]
    if planned.data_files:
        tasks = files.bare_tasks(set(planned.data_files))
        return _vectors(planned, inputs, [tasks[path] for path in planned.data_files], files, place)
    return [_merged(planned, inputs, files, place)]


def _vectors(
    planned: PlannedDeletes,
    inputs: Sequence[ManifestEntry],
    tasks: Sequence[FileTask],
    files: SnapshotLines,
    place: Place,
) -> list[DeleteRewrite]:
    applying = {
        task.entry.data_file.file_path: {
            entry.data_file.file_path: entry for entry in positional(task.deletes)
        }
        for task in tasks
    }
    found = _Gathered()
    for entry in inputs:
        place.go_on()
        own = entry.data_file.file_path
        concerned = {path for path, deletes in applying.items() if own in deletes}
        for path, positions in position_batches(place.store, entry.data_file, concerned):
            found.add(path, positions)
    burdened = [task for task in tasks if task.entry.data_file.file_path in found.parts]
    if not burdened:
        return []
    deleted = [(task.entry.data_file, found.of(task.entry.data_file.file_path)) for task in burdened]
    path = next_path(planned.spec_id, planned.partition, place, "puffin")
    outputs = write_vectors(place.store, path, deleted, created_by=ENGINE_NAME)
    for output, (file, positions) in zip(outputs, deleted, strict=True):
        vector = read_vector(place.store, output)
        _check(positions, np.concatenate(list(vector.positions())), output, file.file_path)
    return [
        DeleteRewrite(
            data=[task.entry],
            deletes=list(applying[task.entry.data_file.file_path].values()),
            output=output,
            base_snapshot_id=files.snapshot_id or 0,
            base_sequence_number=files.sequence_number,
        )
        for task, output in zip(burdened, outputs, strict=True)
    ]


def _merged(
    planned: PlannedDeletes,
    inputs: Sequence[ManifestEntry],
    files: SnapshotLines,
    place: Place,
) -> DeleteRewrite:
    named = {path for entry in inputs for path in referenced_paths(place.store, entry.data_file)}
    tasks = files.bare_tasks(named)
    found = _Gathered()
    for entry in inputs:
        place.go_on()
        for path, positions in position_batches(place.store, entry.data_file):
            if path in tasks and _applies(entry, tasks[path]):
                found.add(path, positions)
    output = None
    if found.parts:
        deleted = {path: found.of(path) for path in found.parts}
        output = write_positions(
            place.store,
            next_path(planned.spec_id, planned.partition, place, "parquet"),
            deleted,
            partition=planned.partition,
            spec_id=planned.spec_id,
            properties=place.metadata.properties,
        )
        written = read_positions(place.store, output)
        if written.keys() != deleted.keys():
            raise Internal(f"{output.file_path} names {len(written)} data files instead of {len(deleted)}")
        for path, positions in deleted.items():
            _check(positions, written[path], output, path)
    return DeleteRewrite(
        data=[tasks[path].entry for path in sorted(named) if path in tasks],
        deletes=inputs,
        output=output,
        named=frozenset(named),
        base_snapshot_id=files.snapshot_id or 0,
        base_sequence_number=files.sequence_number,
    )


def _applies(delete: ManifestEntry, task: FileTask) -> bool:
    """Whether it is as young as the data file, in its partition, and no vector stands in its place."""
    key = file_key(delete.data_file)
    attached = any(file_key(entry.data_file) == key for entry in positional(task.deletes))
    return attached and scope_of(task.entry.data_file) == scope_of(delete.data_file)


def _check(meant: _Positions, written: _Positions, output: DataFile, path: str) -> None:
    """Make sure that the written file deletes exactly the rows that the files before it deleted.

    Raises:
        Internal: it does not.
    """
    if not np.array_equal(meant, written):
        raise Internal(
            f"{output.file_path} deletes {len(written)} rows of {path}, where {len(meant)} are deleted; "
            "nothing of it is committed and the delete files stay"
        )
