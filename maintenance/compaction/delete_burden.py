"""How heavily row-level deletes lie on each data file, and which deletes cannot be applied here. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from maintenance.policy_types import CompactionPolicy
from table_format.commit.tree import FileKey, file_key
from table_format.manifest.entries import Content
from table_format.scan.index import is_vector, referenced_path, scope_of
from table_format.scan.plan import FileTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Burdens:
    """What the deletes of one snapshot do to its data files."""

    reached: Counter[FileKey]
    """Rows of all data files to which a delete file applies."""

    def share(self, task: FileTask) -> float:
        """The part of the file's rows that is probably deleted, 0 to 1.

        A delete file's rows are thought spread evenly over the data that it reaches: exact where it reaches one file.
        """
        records = task.entry.data_file.record_count
        if not records:
            return 0.0
        files = (entry.data_file for entry in task.deletes)
        return min(1.0, sum(file.record_count / self.reached[file_key(file)] for file in files))

    def heavy(self, task: FileTask, policy: CompactionPolicy) -> bool:
        """Whether the file is to be rewritten for its deletes alone."""
        if not task.deletes:
            return False
        return len(task.deletes) >= policy.delete_file_threshold or self.share(task) >= policy.delete_ratio


def burdens(tasks: Sequence[FileTask]) -> Burdens:
    """Count what each delete file reaches."""
    reached: Counter[FileKey] = Counter()
    for task in tasks:
        for entry in task.deletes:
            reached[file_key(entry.data_file)] += task.entry.data_file.record_count
    return Burdens(reached=reached)


def why_not_applied(task: FileTask) -> str | None:
    """Why the deletes of this file cannot be applied without doubt; None when they can."""
    for entry in task.deletes:
        file = entry.data_file
        if file.file_format.upper() != "PARQUET" and not is_vector(file):
            return f"a delete file of it has format {file.file_format.upper()}"
        if file.key_metadata is not None:
            return "a delete file of it is encrypted"
        if file.content is Content.EQUALITY_DELETES:
            continue
        if referenced_path(file) is None and scope_of(file) != scope_of(task.entry.data_file):
            # By the specification it deletes nothing there, by DuckDB, which wrote it, it does.
            return "a position delete that names it is filed under another partition"
    return None
