"""What the newest metadata of a table reaches, kept up to date between batches of a deletion.

References only grow: what a snapshot that went meanwhile needed stays protected until the next run. Anything that
cannot be read raises, and then nothing more is deleted.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from maintenance.places import References
from maintenance.ports import Job, JobContext
from maintenance.target import gc_disabled, is_target
from table_format.catalog import LoadedTable
from table_format.commit.expire import ReachableFiles, files_reachable
from table_format.errors import NoSuchFile
from table_format.io.store import ObjectInfo, ObjectStore
from table_format.metadata.document import TableMetadata

_ASKED_ONE_BY_ONE: Final = 500


class Reach:
    """The files that must not be deleted."""

    def __init__(self, ctx: JobContext, job: Job, store: ObjectStore) -> None:
        self._ctx = ctx
        self._job = job
        self._store = store
        self._seen_location: str | None = None
        self._seen_snapshots: set[int] = set()
        self.references = References()

    def cover(self, table: LoadedTable) -> None:
        """Add everything that this version of the table reaches; reads only snapshots not seen before.

        Raises:
            NoSuchFile: a manifest is gone.
            Unavailable: the store is away.
        """
        if table.metadata_location == self._seen_location:
            return
        ids = {snapshot["snapshot-id"] for snapshot in table.metadata.snapshots}
        new = sorted(ids - self._seen_snapshots)
        if new:
            self.references.add(files_reachable(self._store, table.metadata, new).all)
        self.references.add(metadata_files(table))
        self._seen_snapshots |= ids
        self._seen_location = table.metadata_location

    def adopt(self, paths: Iterable[str], snapshot_ids: Iterable[int]) -> None:
        """Take over what was read already: everything that these snapshots reach."""
        self.references.add(paths)
        self._seen_snapshots.update(snapshot_ids)

    def cover_all_but(self, table: LoadedTable, snapshot_ids: Collection[int]) -> None:
        """As `cover`, as if the table did not have those snapshots any more (for a dry run)."""
        gone = set(snapshot_ids)
        kept = [s["snapshot-id"] for s in table.metadata.snapshots if s["snapshot-id"] not in gone]
        self.references.add(files_reachable(self._store, table.metadata, kept).all)
        log = [table.metadata_location, *(entry["metadata-file"] for entry in table.metadata.metadata_log)]
        self.references.add(log)

    def unreferenced(self, paths: Sequence[str]) -> list[str]:
        """Those paths that the table, loaded anew, does not reach; none if it is another table by now."""
        if self._job.ident is None:
            return []
        table = self._ctx.catalog.load(self._job.ident)
        if not is_target(table, self._job) or gc_disabled(table):
            return []
        self.cover(table)
        return [path for path in paths if not self.references.may_hold(path)]


def metadata_files(table: LoadedTable) -> list[str]:
    """The current metadata file, those of its log, and every statistics file it names."""
    metadata = table.metadata
    return [
        table.metadata_location,
        *(entry["metadata-file"] for entry in metadata.metadata_log),
        *(entry["statistics-path"] for entry in (*metadata.statistics, *metadata.partition_statistics)),
    ]


def reach_of_gone(store: ObjectStore, before: TableMetadata, gone: Sequence[int]) -> list[str]:
    """Files of removed snapshots in the order of deletion; what of them cannot be read any more is left out."""
    known = {snapshot["snapshot-id"] for snapshot in before.snapshots}
    wanted = [snapshot_id for snapshot_id in gone if snapshot_id in known]
    try:
        reaches = [files_reachable(store, before, wanted)] if wanted else []
    except NoSuchFile:
        # Part of them went in an earlier, interrupted deletion.
        reaches = [reach for i in wanted if (reach := _readable(store, before, i)) is not None]
    content = {path for reach in reaches for path in (*reach.data_files, *reach.delete_files)}
    manifests = {path for reach in reaches for path in reach.manifests}
    lists = {path for reach in reaches for path in reach.manifest_lists}
    statistics = {path for reach in reaches for path in reach.statistics}
    return [*sorted(content), *sorted(manifests), *sorted(lists), *sorted(statistics)]


def bytes_of(store: ObjectStore, location: str, paths: Sequence[str]) -> int:
    """What these files of a table take; of many those below its location, as one listing tells. Files gone are 0."""
    if len(paths) <= _ASKED_ONE_BY_ONE:
        return sum(info.size for path in paths if (info := _info(store, path)) is not None)
    wanted = set(paths)
    return sum(info.size for info in store.list(location) if info.path in wanted)


def _info(store: ObjectStore, path: str) -> ObjectInfo | None:
    try:
        return store.head(path)
    except NoSuchFile:
        return None


def _readable(store: ObjectStore, before: TableMetadata, snapshot_id: int) -> ReachableFiles | None:
    try:
        return files_reachable(store, before, [snapshot_id])
    except NoSuchFile:
        return None
