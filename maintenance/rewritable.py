"""Which data files may be rewritten, by whatever kind of job: none on doubt. Pure.

Files outside the table's bucket that manifests name are never read, whoever named them, and told.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias

from maintenance.report import Report, skipped
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import Content, ManifestEntry, ManifestFile
from table_format.manifest.lines import FileLine
from table_format.metadata.document import TableMetadata
from table_format.scan.index import is_vector, referenced_path, scope_of
from table_format.scan.lines import SnapshotLines
from table_format.scan.plan import FileTask
from table_format.schema.types import fields_by_id

OUTSIDE: Final = "outside the table bucket"
_MOST_FOLDERS: Final = 10_000
_KNOWN_TRANSFORMS: Final = ("identity", "year", "month", "day", "hour", "void")
_KNOWN_PARAMETRIC: Final = ("bucket[", "truncate[")

Deletes: TypeAlias = Sequence[ManifestEntry]
"""The delete files that apply to a data file."""


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


def why_not_specs(metadata: TableMetadata) -> dict[int, str | None]:
    """Why files of each partition spec cannot be written; None when they can."""
    columns = fields_by_id(metadata.schema())
    return {spec["spec-id"]: _why_not_spec(spec, columns) for spec in metadata.partition_specs}


def _why_not_spec(spec: JsonObject, columns: Mapping[int, object]) -> str | None:
    for part in spec["fields"]:
        transform = str(part["transform"])
        if transform not in _KNOWN_TRANSFORMS and not transform.startswith(_KNOWN_PARAMETRIC):
            return "partition transform unknown here"
        if part.get("source-id") not in columns:
            return "partition column was dropped"
    return None


def why_not_file(line: FileLine, deletes: Deletes, known_specs: Mapping[int, str | None]) -> str | None:
    """Why the file cannot be rewritten faithfully; None when it can. `known_specs` is from `why_not_specs`."""
    if deletes and (doubt := why_not_applied(line, deletes)) is not None:
        return doubt
    if line.file_format.upper() != "PARQUET":
        return f"format {line.file_format}"
    if line.key_metadata is not None:
        return "encrypted"
    return known_specs.get(line.spec_id, "partition spec unknown")


def why_not_applied(line: FileLine, deletes: Deletes) -> str | None:
    """Why the deletes of this file cannot be applied without doubt; None when they can."""
    for entry in deletes:
        file = entry.data_file
        if file.file_format.upper() != "PARQUET" and not is_vector(file):
            return f"a delete file of it has format {file.file_format.upper()}"
        if file.key_metadata is not None:
            return "a delete file of it is encrypted"
        if file.content is Content.EQUALITY_DELETES:
            continue
        if referenced_path(file) is None and scope_of(file) != scope_of(line):
            # By the specification it deletes nothing there, by DuckDB, which wrote it, it does.
            return "a position delete that names it is filed under another partition"
    return None


def most_deleted(tasks: Sequence[FileTask]) -> int:
    """Most rows of these files that their deletes can take away, by the manifests.

    Two files may delete the same row, and positions may lie beyond others' reach: fewer rows are no fault.
    """
    files = {
        (entry.data_file.file_path, entry.data_file.content_offset): entry.data_file
        for task in tasks
        for entry in task.deletes
    }
    # A key may stand in many rows, so that only positions can be counted.
    if any(file.content is Content.EQUALITY_DELETES for file in files.values()):
        return sum(task.entry.data_file.record_count for task in tasks)
    return sum(file.record_count for file in files.values())
