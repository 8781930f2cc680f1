"""The deletes that can concern some data files, and no others: what one page of a scan has to hold.

By the rules of `index`. A delete manifest is passed over only where its own numbers say that all its files are too
old; what partition its files claim is no reason, for position deletes that name a data file apply by that name.
"""

from collections.abc import Sequence

from table_format.io.store import ObjectStore
from table_format.manifest.entries import Content, ManifestContent, ManifestEntry, ManifestFile, Status
from table_format.manifest.read import iterate_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.index import DeleteIndex, referenced_path, scope_of, sequence_of
from table_format.scan.partitions import is_unpartitioned
from table_format.scan.plan import holds_no_live_file


def deletes_of(
    store: ObjectStore,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    data: Sequence[ManifestEntry],
) -> DeleteIndex:
    """An index of the deletes in these manifests, complete for these data files.

    Raises:
        Invalid: a manifest is damaged, or a deletion vector names no data file.
        NoSuchFile: a manifest is gone.
    """
    unpartitioned = {spec["spec-id"] for spec in metadata.partition_specs if is_unpartitioned(spec)}
    paths = {entry.data_file.file_path for entry in data}
    scopes = {scope_of(entry.data_file) for entry in data}
    oldest = min((sequence_of(entry) for entry in data), default=None)
    if oldest is None:
        return DeleteIndex((), metadata.partition_specs)

    def concerns(entry: ManifestEntry) -> bool:
        file = entry.data_file
        if entry.status is Status.DELETED or sequence_of(entry) < oldest:
            return False
        if file.content is Content.POSITION_DELETES:
            path = referenced_path(file)
            if path is not None:
                return path in paths
            return file.file_format.upper() == "PUFFIN" or scope_of(file) in scopes
        return file.spec_id in unpartitioned or scope_of(file) in scopes

    found = [
        entry
        for manifest in manifests
        if manifest.content is ManifestContent.DELETES
        and not holds_no_live_file(manifest)
        # The number of the commit that wrote it, which no file in it can exceed; v1 lists have 0 and no deletes.
        and manifest.sequence_number >= oldest
        for entry in iterate_manifest(store, manifest, metadata)
        if concerns(entry)
    ]
    return DeleteIndex(found, metadata.partition_specs)
