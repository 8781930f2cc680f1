"""Removing whole data files, and with them all their rows: a DELETE snapshot.

Nothing is written but manifests. A file goes only while it is live exactly once, as it was read; delete files that
reach no data any more go in the same commit. Files that others add meanwhile are none of this commit's business.
"""

from collections.abc import Mapping, Sequence

from table_format.catalog import LoadedTable
from table_format.clock import Clock, Ids
from table_format.commit.change import Change
from table_format.commit.producer import SnapshotProducer
from table_format.commit.rewrite import ancestor_summaries, kept_manifests
from table_format.commit.summary import Changes, Operation, carried_ingest_keys
from table_format.commit.tree import HeadTree, NextTree, scopes_of
from table_format.errors import Invalid
from table_format.manifest.lines import FileLine


def delete_files(
    table: LoadedTable,
    tree: HeadTree,
    files: Sequence[FileLine],
    *,
    summary: Mapping[str, str],
    clock: Clock,
    ids: Ids,
) -> Change | None:
    """The change that takes data files out of main; None without any. `tree` is main's head, read from that table.

    What ingest wrote in the summaries of snapshots about its progress is carried on, as a rewrite does.

    Raises:
        Invalid: a file is not live exactly once at the head, as given.
        Unsupported: the table is encrypted.
    """
    if not files:
        return None
    removed = {file.file_path for file in files}
    tree.look_up(removed)
    for file in files:
        live = tree.at(file.file_path)
        if len(live) != 1 or live[0].sequence_number != file.sequence_number:
            raise Invalid(f"{file.file_path} is not a live data file of the table as it was read")
    after = NextTree(tree, removed, [], scopes_of(files))
    gone = {(path, None) for path in removed} | after.dead
    changes = Changes()
    with SnapshotProducer(tree.store, table, clock=clock, ids=ids) as producer:
        kept = kept_manifests(producer, tree, gone, changes)
        carried = carried_ingest_keys(ancestor_summaries(producer.metadata))
        return producer.finish(
            Operation.DELETE, kept, changes, extra={**carried, **summary}, recount=after.counts
        )
