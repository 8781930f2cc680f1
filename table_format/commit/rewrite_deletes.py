"""Row-level deletes by position that are stored anew: small files merged (format version 2), or as vectors (version 3).

The deleted rows stay the same. A rewrite of deletes is committed only while the head still holds what it was made
from; what lost its race is dropped and leaves the old files in force.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from table_format.commit.tree import HeadTree, NextTree, file_key, scopes_of
from table_format.errors import Invalid
from table_format.manifest.entries import Content, DataFile, ManifestEntry
from table_format.metadata.document import TableMetadata
from table_format.scan.index import is_vector, scope_of, sequence_of
from table_format.scan.plan import is_ancestor


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRewrite:
    """Position delete files and what takes their place: one file for all of them, or the vector of one data file."""

    data: Sequence[ManifestEntry]
    """The data files whose deleted rows the output names, as they were read."""
    deletes: Sequence[ManifestEntry]
    """The position delete files that were read. Merged ones go; others go when a vector has all that they say."""
    output: DataFile | None
    """None: the files delete no row that is not gone or deleted otherwise; they go if that is still so."""
    named: frozenset[str] = frozenset()
    """All paths in the files, also those of data files that are gone: should one be back, nothing is sure."""
    base_snapshot_id: int
    base_sequence_number: int

    @property
    def is_vector(self) -> bool:
        """Whether the output is the vector of one data file."""
        return self.output is not None and is_vector(self.output)

    @property
    def is_merge(self) -> bool:
        """Whether the output is one file for all."""
        return self.output is not None and not self.is_vector

    @property
    def sequence_number(self) -> int | None:
        """The output's data sequence number: of merged files the highest, so that it reaches what they reached."""
        return None if self.is_vector else max(map(sequence_of, self.deletes))


def check_deletes(metadata: TableMetadata, rewrites: Sequence[DeleteRewrite]) -> None:
    """Refuse what would corrupt the table.

    Raises:
        Invalid: a rewrite contradicts itself, or two of them each other.
    """
    vectors = [change.data[0].data_file.file_path for change in rewrites if change.is_vector]
    merged = [file_key(e.data_file) for change in rewrites if not change.is_vector for e in change.deletes]
    if len(set(vectors)) != len(vectors) or len(set(merged)) != len(merged):
        raise Invalid("deletes of a data file are to be rewritten twice in one commit")
    for change in rewrites:
        if (fault := _fault(metadata, change)) is not None:
            raise Invalid(f"the rewrite of deletes {change.deletes[0].data_file.file_path} {fault}")


def _fault(metadata: TableMetadata, change: DeleteRewrite) -> str | None:
    files = [entry.data_file for entry in change.deletes]
    if any(file.content is not Content.POSITION_DELETES or is_vector(file) for file in files):
        return "is of other files than position delete files"
    if any(sequence_of(entry) > change.base_sequence_number for entry in change.deletes):
        return "is of files younger than its base snapshot"
    output = change.output
    if output is None:
        return None
    if output.content is not Content.POSITION_DELETES:
        return "has an output that deletes no positions"
    return _vector_fault(change, output) if change.is_vector else _merge_fault(metadata, files, output)


def _vector_fault(change: DeleteRewrite, output: DataFile) -> str | None:
    data, *others = change.data
    wanted = (data.data_file.file_path, scope_of(data.data_file))
    if others or (output.referenced_data_file, scope_of(output)) != wanted:
        return "has a vector of another data file"
    return None


def _merge_fault(metadata: TableMetadata, files: Sequence[DataFile], output: DataFile) -> str | None:
    if {scope_of(file) for file in files} != {scope_of(output)}:
        return "mixes partitions"
    if len(output.partition) != len(metadata.spec(output.spec_id)["fields"]):
        return "has an output of another shape than its spec"
    return None


def deletes_still_hold(tree: HeadTree, change: DeleteRewrite) -> bool:
    """Whether the output says of the head's data files what the files that it replaces say."""
    head, version = tree.metadata.current_snapshot_id, tree.metadata.format_version
    if head is None or not is_ancestor(tree.metadata, change.base_snapshot_id, head):
        return False
    # From version 3 on position delete files may stay, but none may be added.
    if change.output is not None and (version > 2) != change.is_vector:
        return False
    if not tree.delete_keys.issuperset(file_key(entry.data_file) for entry in change.deletes):
        return False
    if change.output is None:
        after = NextTree(tree, set(), [], scopes_of(entry.data_file for entry in change.deletes))
        return after.dead.issuperset(file_key(entry.data_file) for entry in change.deletes)
    if file_key(change.output) in tree.delete_keys:
        return False
    if change.is_vector:
        (data,) = change.data
        late = tree.new_position_deletes(data, change.base_sequence_number)
        return not late and _is_live(tree, data)
    known = {entry.data_file.file_path: entry for entry in change.data}
    return all(path in known and _is_live(tree, known[path]) for path in change.named if tree.at(path))


def _is_live(tree: HeadTree, entry: ManifestEntry) -> bool:
    live = tree.at(entry.data_file.file_path)
    return len(live) == 1 and live[0].sequence_number == entry.sequence_number
