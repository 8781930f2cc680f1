"""The deletes that apply to the files of one page of a scan.

By the rules of `index`. Few deletes are read once and kept for all pages; of many, each page reads those that can
concern its files, and holds no others. A delete manifest is passed over only where its own number says that all its
files are too old; what partition they claim is no reason, for position deletes that name a data file apply by name.
"""

from collections.abc import Iterator, Sequence

from table_format.io.store import ObjectStore
from table_format.manifest.entries import Content, ManifestEntry, ManifestFile, Status
from table_format.manifest.read import iterate_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.index import DeleteIndex, is_vector, referenced_path, scope_of, sequence_of
from table_format.scan.partitions import is_unpartitioned
from table_format.scan.plan import holds_no_live_file

KEPT_DELETES = 10_000
"""Delete files up to which all are kept, some 20 MB."""


class PageDeletes:
    """The live delete files of a snapshot, by their manifests."""

    def __init__(self, metadata: TableMetadata, manifests: Sequence[ManifestFile]) -> None:
        """Nothing is read yet."""
        self._metadata = metadata
        self._manifests = [manifest for manifest in manifests if not holds_no_live_file(manifest)]
        self._unpartitioned = {spec["spec-id"] for spec in metadata.partition_specs if is_unpartitioned(spec)}
        self._whole: DeleteIndex | None = None

    @property
    def _few(self) -> bool:
        counts = ((each.added_files_count, each.existing_files_count) for each in self._manifests)
        return sum((added or 0) + (existing or 0) for added, existing in counts) <= KEPT_DELETES

    def index(self, store: ObjectStore, data: Sequence[ManifestEntry]) -> DeleteIndex:
        """An index that is complete for these data files.

        Raises:
            Invalid: a manifest is damaged, a deletion vector names no data file, or a data file has two.
            NoSuchFile: a manifest is gone.
        """
        if not data or not self._manifests:
            return DeleteIndex((), self._metadata.partition_specs)
        if self._whole is None and self._few:
            self._whole = DeleteIndex(self._live(store, 0), self._metadata.partition_specs)
        if self._whole is not None:
            return self._whole
        return DeleteIndex(self._concerning(store, data), self._metadata.partition_specs)

    def _live(self, store: ObjectStore, oldest: int) -> Iterator[ManifestEntry]:
        for manifest in self._manifests:
            # Its number is that of the commit that wrote it, which no file in it can exceed.
            if manifest.sequence_number >= oldest:
                for entry in iterate_manifest(store, manifest, self._metadata):
                    if entry.status is not Status.DELETED and sequence_of(entry) >= oldest:
                        yield entry

    def _concerning(self, store: ObjectStore, data: Sequence[ManifestEntry]) -> Iterator[ManifestEntry]:
        paths = {entry.data_file.file_path for entry in data}
        scopes = {scope_of(entry.data_file) for entry in data}
        for entry in self._live(store, min(map(sequence_of, data))):
            file = entry.data_file
            if file.content is Content.POSITION_DELETES:
                path = referenced_path(file)
                concerned = path in paths if path is not None else is_vector(file) or scope_of(file) in scopes
            else:
                concerned = file.spec_id in self._unpartitioned or scope_of(file) in scopes
            if concerned:
                yield entry
