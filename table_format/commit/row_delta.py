"""Rows added and older rows deleted in one snapshot: data files together with row-level delete files.

Equality deletes reach rows of strictly older commits, so the rows of the same snapshot stay. They name no data file,
which is why this conflicts with nothing but another move of the head: whatever a rewrite made of the older rows
meanwhile keeps their sequence numbers and is reached all the same.
"""

from collections.abc import Mapping, Sequence

from table_format.catalog import LoadedTable
from table_format.clock import Clock, Ids
from table_format.commit.append import append, carried_manifests, check_files, merged_when_many
from table_format.commit.change import Change
from table_format.commit.producer import SnapshotProducer
from table_format.commit.summary import Changes, Operation
from table_format.errors import Invalid, Unsupported
from table_format.io.store import ObjectStore
from table_format.manifest.entries import Content, DataFile, ManifestContent
from table_format.metadata.document import TableMetadata


def row_delta(  # noqa: PLR0913 - what `append` takes, and the deletes
    store: ObjectStore,
    table: LoadedTable,
    data: Sequence[DataFile],
    deletes: Sequence[DataFile],
    *,
    summary: Mapping[str, str],
    clock: Clock,
    ids: Ids,
    merge_min: int | None = None,
) -> Change:
    """The change that adds data files and equality delete files to main; an append when there are no deletes.

    More than `merge_min` data (or delete) manifests in the parent are merged, as `append` does.

    Raises:
        Invalid: a file is of the wrong kind, is given twice or names an unknown spec.
        Unsupported: the table is encrypted, or of format version 1.
    """
    if not deletes:
        return append(store, table, data, summary=summary, clock=clock, ids=ids, merge_min=merge_min)
    if table.metadata.format_version < 2:
        raise Unsupported(f"table {table.ident} is of format version 1, which has no delete files")
    check_files(table.metadata, data)
    _check_deletes(table.metadata, deletes)
    changes = Changes()
    for file in (*data, *deletes):
        changes.add(file)
    with SnapshotProducer(store, table, clock=clock, ids=ids) as producer:
        old = carried_manifests(store, table.metadata)
        new = producer.write_added((file, None) for file in data)
        new += producer.write_added(((file, None) for file in deletes), ManifestContent.DELETES)
        for content in ManifestContent:
            old = merged_when_many(producer, old, content, merge_min)
        operation = Operation.OVERWRITE if data else Operation.DELETE
        return producer.finish(operation, [*new, *old], changes, extra=summary)


def _check_deletes(metadata: TableMetadata, files: Sequence[DataFile]) -> None:
    paths: set[str] = set()
    for file in files:
        if file.content is not Content.EQUALITY_DELETES or not file.equality_ids:
            raise Invalid(f"{file.file_path} is not an equality delete file")
        if file.file_path in paths:
            raise Invalid(f"{file.file_path} is given twice")
        if len(file.partition) != len(metadata.spec(file.spec_id)["fields"]):
            raise Invalid(f"partition of {file.file_path} does not match spec {file.spec_id}")
        paths.add(file.file_path)
