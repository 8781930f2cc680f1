"""How heavily row-level deletes lie on each data file. Pure."""

from collections import Counter
from dataclasses import dataclass

from maintenance.policy_types import CompactionPolicy
from maintenance.rewritable import Deletes
from table_format.commit.tree import FileKey, file_key
from table_format.manifest.lines import FileLine
from table_format.scan.lines import SnapshotLines


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
