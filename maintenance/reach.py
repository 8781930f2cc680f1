"""What the newest metadata of a table reaches, kept up to date between batches of a deletion.

References only grow: what a snapshot that went meanwhile needed stays protected until the next run. Anything that
cannot be read raises, and then nothing more is deleted.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from maintenance.places import References, batched
from maintenance.ports import Job, JobContext
from maintenance.target import gc_disabled, is_target
from table_format.catalog import LoadedTable
from table_format.commit.expire import Reachable, content_of, reachable
from table_format.errors import NoSuchFile
from table_format.io.store import ObjectInfo, ObjectStore
from table_format.metadata.document import TableMetadata

_ASKED_ONE_BY_ONE: Final = 500
_AT_ONCE: Final = 10_000


class Reach:
    """The files that must not be deleted."""

    def __init__(self, ctx: JobContext, job: Job, store: ObjectStore) -> None:
        self._ctx = ctx
        self._job = job
        self._store = store
        self._seen_location: str | None = None
        self._seen_snapshots: set[int] = set()
        self._seen_manifests: set[str] = set()
        self.references = References()

    def cover(self, table: LoadedTable) -> None:
        """Add everything that this version of the table reaches; reads only what was not seen before.

        Raises:
            NoSuchFile: a manifest is gone.
            Unavailable: the store is away.
        """
        if table.metadata_location == self._seen_location:
            return
        ids = {snapshot["snapshot-id"] for snapshot in table.metadata.snapshots}
        self._add(table.metadata, sorted(ids - self._seen_snapshots))
        self.references.add(metadata_files(table))
        self._seen_snapshots |= ids
        self._seen_location = table.metadata_location

    def adopt(self, metadata: TableMetadata, snapshot_ids: Sequence[int], listed: References) -> list[str]:
        """Add everything that these snapshots reach; those of their files and manifests that are not among `listed`.

        Raises:
            NoSuchFile: a manifest is gone.
            Unavailable: the store is away.
        """
        missing: list[str] = []
        self._add(metadata, snapshot_ids, lambda paths: _without(paths, listed, missing))
        self._seen_snapshots.update(snapshot_ids)
        return missing

    def cover_all_but(self, table: LoadedTable, snapshot_ids: Collection[int]) -> None:
        """As `cover`, as if the table did not have those snapshots any more (for a dry run)."""
        gone = set(snapshot_ids)
        kept = [s["snapshot-id"] for s in table.metadata.snapshots if s["snapshot-id"] not in gone]
        self._add(table.metadata, kept)
        log = [table.metadata_location, *(entry["metadata-file"] for entry in table.metadata.metadata_log)]
        self.references.add(log)

    def _add(
        self,
        metadata: TableMetadata,
        snapshot_ids: Sequence[int],
        watched: Callable[[Iterable[str]], Iterable[str]] = iter,
    ) -> None:
        found = reachable(self._store, metadata, snapshot_ids)
        new = [manifest for path, manifest in found.manifests.items() if path not in self._seen_manifests]
        self.references.add(watched(content_of(self._store, metadata, new)))
        # After their content: of a manifest that is referenced, everything it names is.
        self.references.add(watched([*found.manifests, *found.manifest_lists]))
        self.references.add(found.statistics)
        self._seen_manifests.update(found.manifests)

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


def _without(paths: Iterable[str], listed: References, missing: list[str]) -> Iterator[str]:
    """The paths; those that are not listed are noted."""
    for some in batched(paths, _AT_ONCE):
        missing += listed.missing_of(some)
        yield from some


def reach_of_gone(
    store: ObjectStore, before: TableMetadata, gone: Sequence[int], kept: References | None = None
) -> list[str]:
    """Files of removed snapshots in the order of deletion; what of them cannot be read any more is left out.

    Without those that `kept` may hold: of a manifest that it holds it must hold all content, too.
    """
    return [path for stage in stages_of_gone(store, before, gone, kept) for path in stage]


def stages_of_gone(
    store: ObjectStore, before: TableMetadata, gone: Sequence[int], kept: References | None = None
) -> list[list[str]]:
    """The same in stages: what one names is not known any more once that is gone, so each is to end before the next."""
    known = {snapshot["snapshot-id"] for snapshot in before.snapshots}
    wanted = [snapshot_id for snapshot_id in gone if snapshot_id in known]
    found = _found(store, before, wanted)
    manifests = [manifest for manifest in found.manifests.values() if not _held(kept, manifest.path)]
    content: set[str] = set()
    for manifest in manifests:
        # Part of them went in an earlier, interrupted deletion; those name nothing that is left.
        with contextlib.suppress(NoSuchFile):
            content.update(p for p in content_of(store, before, [manifest]) if not _held(kept, p))
    others = [
        sorted(manifest.path for manifest in manifests),
        [*sorted(found.manifest_lists), *sorted(found.statistics)],
    ]
    return [sorted(content), *([path for path in paths if not _held(kept, path)] for paths in others)]


def _held(kept: References | None, path: str) -> bool:
    return kept is not None and kept.may_hold(path)


def _found(store: ObjectStore, before: TableMetadata, snapshot_ids: Sequence[int]) -> Reachable:
    """What the snapshots reach; those whose lists are gone are left out."""
    try:
        return reachable(store, before, snapshot_ids)
    except NoSuchFile:
        readable = [i for i in snapshot_ids if _is_readable(store, before, i)]
        return reachable(store, before, readable)


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


def _is_readable(store: ObjectStore, before: TableMetadata, snapshot_id: int) -> bool:
    try:
        reachable(store, before, [snapshot_id])
    except NoSuchFile:
        return False
    return True
