"""Files outside the table's bucket that manifests name: never read, whoever named them, and told."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Final

from maintenance.report import Report, skipped
from table_format.manifest.entries import ManifestFile
from table_format.manifest.lines import FileLine
from table_format.scan.lines import SnapshotLines

OUTSIDE: Final = "outside the table bucket"


_MOST_FOLDERS: Final = 10_000


def own_files(reaches: Callable[[str], bool], files: SnapshotLines) -> tuple[SnapshotLines, int] | Report:
    """The files less data files outside the bucket, and how many those are.

    A report, when a delete file lies there: which rows it deletes cannot be told, so no file may be rewritten.
    """
    for entry in files.delete_entries:
        if not reaches(entry.data_file.file_path):
            return skipped(
                f"delete file {entry.data_file.file_path} lies outside the table bucket and is not read: which rows "
                "it deletes cannot be told, so no file is rewritten"
            )
    in_bucket = _asked_by_folder(reaches)
    own: list[FileLine] = []
    spans: list[tuple[int, ManifestFile]] = []
    for manifest, lines in files.by_manifest():
        spans.append((len(own), manifest))
        own += [line for line in lines if in_bucket(line.file_path)]
    if len(own) == len(files.lines):
        return files, 0
    return replace(files, lines=own, spans=spans), len(files.lines) - len(own)


def _asked_by_folder(reaches: Callable[[str], bool]) -> Callable[[str], bool]:
    """The same answers, most of them given once for a folder: what lies in one of the bucket's is the bucket's."""
    folder_is_own = lru_cache(maxsize=_MOST_FOLDERS)(reaches)

    def asked(path: str) -> bool:
        folder, _, name = path.rpartition("/")
        plain = name not in ("", ".", "..") and folder_is_own(folder)
        return plain or reaches(path)

    return asked
