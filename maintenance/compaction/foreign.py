"""Files outside the table's bucket that manifests name: never read, whoever named them, and told."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from maintenance.report import Report, skipped
from table_format.manifest.entries import ManifestFile
from table_format.scan.plan import FileTask, SnapshotFiles

OUTSIDE: Final = "outside the table bucket"


def own_files(reaches: Callable[[str], bool], files: SnapshotFiles) -> tuple[SnapshotFiles, int] | Report:
    """The files less data files outside the bucket, and how many those are.

    A report, when a delete file lies there: which rows it deletes cannot be told, so no file may be rewritten.
    """
    for entry in files.delete_entries:
        if not reaches(entry.data_file.file_path):
            return skipped(
                f"delete file {entry.data_file.file_path} lies outside the table bucket and is not read: which rows "
                "it deletes cannot be told, so no file is rewritten"
            )
    own: list[FileTask] = []
    spans: list[tuple[int, ManifestFile]] = []
    for manifest, tasks in files.by_manifest():
        spans.append((len(own), manifest))
        own += [task for task in tasks if reaches(task.entry.data_file.file_path)]
    return replace(files, tasks=own, spans=spans), len(files.tasks) - len(own)
