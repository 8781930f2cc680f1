"""How heavily row-level deletes lie on each data file, and which deletes cannot be applied here. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from maintenance.policy_types import CompactionPolicy
from table_format.commit.tree import FileKey, file_key
from table_format.manifest.entries import Content, ManifestEntry
from table_format.manifest.lines import FileLine
from table_format.scan.index import is_vector, referenced_path, scope_of
from table_format.scan.lines import SnapshotLines

Deletes: TypeAlias = Sequence[ManifestEntry]
"""The delete files that apply to a data file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burdens:
    """What the deletes of one snapshot do to its data files."""

    reached: Counter[FileKey]
    """Rows of all data files to which a delete file applies."""

    def share(self, line: FileLine, deletes: Deletes) -> float:
        """The part of the file's rows that is probably deleted, 0 to 1.

        A delete file's rows are thought spread evenly over the data that it reaches: exact where it reaches one file.
        """
        if not line.record_count:
            return 0.0
        files = (entry.data_file for entry in deletes)
        return min(1.0, sum(file.record_count / self.reached[file_key(file)] for file in files))

    def heavy(self, line: FileLine, deletes: Deletes, policy: CompactionPolicy) -> bool:
        """Whether the file is to be rewritten for its deletes alone."""
        if not deletes:
            return False
        return (
            len(deletes) >= policy.delete_file_threshold or self.share(line, deletes) >= policy.delete_ratio
        )


def burdens(files: SnapshotLines) -> Burdens:
    """Count what each delete file reaches."""
    reached: Counter[FileKey] = Counter()
    for line in files.lines if files.deletes else ():
        for entry in files.deletes.get(line.file_path, ()):
            reached[file_key(entry.data_file)] += line.record_count
    return Burdens(reached=reached)


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
