"""Every file that snapshots reach, at once, for tests to compare with."""

from collections.abc import Iterable
from dataclasses import dataclass

from table_format.commit.expire import content_of, reachable
from table_format.io.store import ObjectStore
from table_format.manifest.entries import ManifestContent
from table_format.metadata.document import TableMetadata


@dataclass(frozen=True)
class ReachableFiles:
    """By kind."""

    data_files: frozenset[str]
    delete_files: frozenset[str]
    manifests: frozenset[str]
    manifest_lists: frozenset[str]
    statistics: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        """Every path of every kind."""
        return self.data_files | self.delete_files | self.manifests | self.manifest_lists | self.statistics


def files_reachable(
    store: ObjectStore, metadata: TableMetadata, snapshot_ids: Iterable[int]
) -> ReachableFiles:
    """What they reach."""
    found = reachable(store, metadata, snapshot_ids)
    data, deletes = (
        frozenset(content_of(store, metadata, (m for m in found.manifests.values() if m.content is content)))
        for content in ManifestContent
    )
    return ReachableFiles(data, deletes, frozenset(found.manifests), found.manifest_lists, found.statistics)
