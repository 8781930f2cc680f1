"""Replacing data files by others with the same rows: a REPLACE snapshot that leaves the table's content alone.

Or by others that lack some of the rows, as these are to go: an OVERWRITE, or a DELETE where none is left; all else is
the same.

Outputs carry the data sequence number of the snapshot that was planned on, so that equality deletes which arrived
meanwhile still reach them and older ones no longer do. A group is committed only while every input is live and no
new position delete touches one; a group that lost is dropped alone. Delete files that are dead afterwards go in
the same commit.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from table_format.catalog import LoadedTable
from table_format.clock import Clock, Ids
from table_format.commit.append import check_files, existing, packed, target_bytes
from table_format.commit.change import Change
from table_format.commit.producer import SnapshotProducer
from table_format.commit.rewrite_deletes import DeleteRewrite, check_deletes, deletes_still_hold
from table_format.commit.summary import Changes, Operation, carried_ingest_keys
from table_format.commit.tree import FileKey, HeadTree, NextTree, TreeCache, file_key, scopes_of
from table_format.errors import Invalid
from table_format.io.store import ObjectStore
from table_format.manifest.entries import DataFile, ManifestContent, ManifestEntry, ManifestFile, Status
from table_format.metadata.document import TableMetadata
from table_format.scan.index import sequence_of
from table_format.scan.plan import ancestor_ids, is_ancestor
from table_format.schema.types import fields_by_id


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Files of one spec and partition, read at the base snapshot with all deletes applied, and their successors."""

    inputs: list[ManifestEntry]
    outputs: list[DataFile]
    base_snapshot_id: int
    base_sequence_number: int
    deletes: Sequence[ManifestEntry] = ()
    """The deletes that were applied when the inputs were read."""
    columns: frozenset[int] | None = None
    """Ids of the fields that the outputs were written with; None: those of the table's schema at the commit."""
    keeps_lineage: bool = False
    """Whether the outputs store each row's id and last change (format version 3)."""


Rewrite: TypeAlias = RewriteGroup | DeleteRewrite


def rewrite(  # noqa: PLR0913 - what is rewritten, and what every commit needs
    store: ObjectStore,
    table: LoadedTable,
    groups: Sequence[RewriteGroup],
    *,
    summary: Mapping[str, str],
    clock: Clock,
    ids: Ids,
    cache: TreeCache | None = None,
    deletes: Sequence[DeleteRewrite] = (),
    operation: Operation = Operation.REPLACE,
) -> tuple[Change | None, list[Rewrite]]:
    """The change that replaces what can still be replaced, and the groups and deletes that lost their race.

    None when nothing is left: nothing is committed then. Give the attempts of one commit loop the same `cache`. No
    data file may be both in a group and one whose deletes are rewritten. The `operation` says what becomes of the
    content.

    Raises:
        Invalid: a group contradicts itself (mixed partitions, more rows out than in, a file in two groups, …), or its
            rows have ids that its outputs do not store.
        Unsupported: the table is encrypted.
    """
    _check_groups(table.metadata, groups)
    check_deletes(table.metadata, deletes)
    _check_disjoint(groups, deletes)
    if not groups and not deletes:
        return None, []
    tree = HeadTree(store, table.metadata, cache if cache is not None else TreeCache())
    tree.look_up(_concerned(groups, deletes))
    accepted = [group for group in groups if _still_holds(tree, group)]
    moved = [change for change in deletes if deletes_still_hold(tree, change)]
    kept = {id(change) for change in (*accepted, *moved)}
    dropped: list[Rewrite] = [group for group in groups if id(group) not in kept]
    dropped += [change for change in deletes if id(change) not in kept]
    if not kept:
        return None, dropped
    with SnapshotProducer(store, table, clock=clock, ids=ids) as producer:
        return _replace(producer, tree, accepted, moved, (operation, summary)), dropped


def _concerned(groups: Sequence[RewriteGroup], deletes: Sequence[DeleteRewrite]) -> Iterator[str]:
    """The data files that the checks ask for."""
    for group in groups:
        yield from (entry.data_file.file_path for entry in group.inputs)
        yield from (file.file_path for file in group.outputs)
    for change in deletes:
        yield from (entry.data_file.file_path for entry in change.data)
        yield from change.named


def _check_disjoint(groups: Sequence[RewriteGroup], deletes: Sequence[DeleteRewrite]) -> None:
    inputs = {entry.data_file.file_path for group in groups for entry in group.inputs}
    for change in deletes:
        for entry in change.data:
            if entry.data_file.file_path in inputs:
                raise Invalid(
                    f"{entry.data_file.file_path} and its deletes are to be rewritten in one commit: if the one were "
                    "dropped, the other would be wrong"
                )


def _check_groups(metadata: TableMetadata, groups: Sequence[RewriteGroup]) -> None:
    check_files(metadata, [file for group in groups for file in group.outputs])
    inputs = [entry.data_file.file_path for group in groups for entry in group.inputs]
    outputs = {file.file_path for group in groups for file in group.outputs}
    if len(set(inputs)) != len(inputs):
        raise Invalid("a data file is to be rewritten twice in one commit")
    if both := outputs.intersection(inputs):
        raise Invalid(f"{min(both)} is both input and output of a rewrite")
    for group in groups:
        _check_group(metadata, group)


def _check_group(metadata: TableMetadata, group: RewriteGroup) -> None:
    if not group.inputs:
        raise Invalid("a rewrite group has no inputs: adding files is an append")
    files = [entry.data_file for entry in group.inputs]
    if len(scopes_of([*files, *group.outputs])) > 1:
        raise Invalid(f"the rewrite of {files[0].file_path} mixes specs or partitions")
    if sum(file.record_count for file in group.outputs) > sum(file.record_count for file in files):
        raise Invalid(f"the rewrite of {files[0].file_path} has more rows out than in")
    base = metadata.snapshot(group.base_snapshot_id)
    if base is not None and base.get("sequence-number", 0) != group.base_sequence_number:
        raise Invalid(
            f"snapshot {group.base_snapshot_id} does not have sequence {group.base_sequence_number}"
        )
    if any(sequence_of(entry) > group.base_sequence_number for entry in group.inputs):
        raise Invalid(f"an input of the rewrite of {files[0].file_path} is younger than its base snapshot")
    if not group.keeps_lineage and any(file.first_row_id is not None for file in files):
        raise Invalid(f"rows of {files[0].file_path} have ids, which its rewrite does not store")


def _still_holds(tree: HeadTree, group: RewriteGroup) -> bool:
    """Whether the group's outputs hold exactly what its inputs hold at the head."""
    if tree.metadata.format_version > 2 and not group.keeps_lineage:
        return False  # upgraded since: its rows are as old as their files were, not as the outputs
    for entry in group.inputs:
        live = tree.at(entry.data_file.file_path)
        # Twice live (a broken table) would lose one copy's rows; another age means removed and added again.
        if len(live) != 1 or live[0].sequence_number != entry.sequence_number:
            return False
        # The first commit after an upgrade gave its rows ids, which the outputs would not have.
        if live[0].first_row_id != entry.data_file.first_row_id:
            return False
    if any(tree.at(file.file_path) for file in group.outputs):
        return False
    if not tree.delete_keys.issuperset(file_key(entry.data_file) for entry in group.deletes):
        # While its data file is live, a delete goes only if its rows shall return or another file tells them.
        return False
    if _equality_would_miss(tree, group):
        return False
    return _descends(tree, group) and not any(
        tree.new_position_deletes(entry, group.base_sequence_number) for entry in group.inputs
    )


def _equality_would_miss(tree: HeadTree, group: RewriteGroup) -> bool:
    """Whether an equality delete that reached the inputs after they were read would not find its rows in the outputs.

    One of an age at which outputs are out of its reach, though it was not applied (the sequence rule does not let
    writers make such a one anew); or one by a column that the outputs lack, as it was dropped from the schema.
    """
    columns = group.columns if group.columns is not None else frozenset(fields_by_id(tree.metadata.schema()))
    late = tree.equality_deletes_reaching(group.inputs[0].data_file, group.base_sequence_number)
    return any(
        sequence_of(delete) <= group.base_sequence_number
        or not columns.issuperset(delete.data_file.equality_ids or ())
        for delete in late
    )


def _descends(tree: HeadTree, group: RewriteGroup) -> bool:
    """Whether the head has all that the plan saw.

    After a rollback or a branch swap it may lack deletes that were applied, or hold older ones that were not. That
    cannot matter where no row was removed and the head has no deletes.
    """
    head = tree.metadata.current_snapshot_id
    if head is not None and is_ancestor(tree.metadata, group.base_snapshot_id, head):
        return True
    rows_in = sum(entry.data_file.record_count for entry in group.inputs)
    return not tree.deletes and rows_in == sum(file.record_count for file in group.outputs)


def _replace(
    producer: SnapshotProducer,
    tree: HeadTree,
    groups: Sequence[RewriteGroup],
    deletes: Sequence[DeleteRewrite],
    kind: tuple[Operation, Mapping[str, str]],
) -> Change:
    operation, summary = kind
    if operation is Operation.OVERWRITE and not any(group.outputs for group in groups):
        operation = Operation.DELETE
    removed = {entry.data_file.file_path for group in groups for entry in group.inputs}
    outputs = [(file, group.base_sequence_number) for group in groups for file in group.outputs]
    moved = [(change.output, change.sequence_number) for change in deletes if change.output is not None]
    touched = [entry.data_file for group in groups for entry in group.inputs]
    touched += [entry.data_file for change in deletes for entry in (*change.data, *change.deletes)]
    after = NextTree(
        tree,
        removed,
        outputs,
        scopes_of(touched),
        replaced={file_key(e.data_file) for change in deletes if change.is_merge for e in change.deletes},
        deletes=[file for file, _ in moved],
    )
    changes = Changes()
    for file in (*(file for file, _ in outputs), *(file for file, _ in moved)):
        changes.add(file)
    # Format version 1 has no sequence numbers, and no deletes that could need them.
    numbered = producer.metadata.format_version > 1
    new = producer.write_added((file, sequence if numbered else None) for file, sequence in outputs)
    new += producer.write_added(moved, ManifestContent.DELETES)
    gone = {(path, None) for path in removed} | after.dead
    kept = kept_manifests(producer, tree, gone, changes)
    carried = carried_ingest_keys(ancestor_summaries(producer.metadata))
    return producer.finish(
        operation, [*new, *kept], changes, extra={**carried, **summary}, recount=after.counts
    )


def kept_manifests(
    producer: SnapshotProducer, tree: HeadTree, gone: set[FileKey], changes: Changes
) -> list[ManifestFile]:
    """The head's manifests, those in which something goes written anew: packed, or readers open them one by one."""
    tree.look_up(path for path, _ in gone)
    untouched: list[ManifestFile] = []
    touched: dict[tuple[int, ManifestContent], list[ManifestFile]] = {}
    for manifest in tree.manifests:
        if tree.holds_any(manifest, gone):
            touched.setdefault((manifest.spec_id, manifest.content), []).append(manifest)
        else:
            untouched.append(manifest)
    target = target_bytes(producer.metadata)
    anew = [
        producer.write_manifest(
            _entries_of(distinct, producer.snapshot_id, tree, gone, changes), spec_id, content
        )
        for (spec_id, content), manifests in sorted(touched.items())
        for group in packed(manifests, target)
        for distinct in _distinct(group, tree)
    ]
    return [*anew, *untouched]


def _distinct(manifests: Sequence[ManifestFile], tree: HeadTree) -> list[list[ManifestFile]]:
    """The manifests in one list, unless a broken table has the same live file in several."""
    lists: list[list[ManifestFile]] = []
    seen = np.empty(0, np.int64)
    for manifest in manifests:
        hashes = tree.hashes(manifest)
        if not lists or len(np.intersect1d(seen, hashes)):
            lists.append([])
            seen = seen[:0]
        seen = np.concatenate([seen, hashes])
        lists[-1].append(manifest)
    return lists


def _entries_of(
    manifests: Sequence[ManifestFile],
    snapshot_id: int,
    tree: HeadTree,
    gone: AbstractSet[FileKey],
    changes: Changes,
) -> Iterator[ManifestEntry]:
    """What the manifests hold, less what goes."""
    for manifest in manifests:
        for entry in tree.live(manifest):
            if file_key(entry.data_file) in gone:
                changes.remove(entry.data_file)
                yield replace(entry, status=Status.DELETED, snapshot_id=snapshot_id)
            else:
                yield existing(entry)


def ancestor_summaries(metadata: TableMetadata) -> list[Mapping[str, str]]:
    """The summaries of the head and its known ancestors, nearest first."""
    head = metadata.current_snapshot_id
    known = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.snapshots}
    ids = () if head is None else ancestor_ids(metadata, head)
    return [known[i].get("summary") or {} for i in ids if i in known]
