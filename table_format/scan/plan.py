"""From a snapshot to its live files, each data file with the delete files that apply to it (spec, "Scan Planning").

Reads manifests, never data. Filters nothing by predicate: maintenance and export want every row. Each manifest is
read once per call, or once per `ManifestCache` when the caller keeps one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from table_format.errors import Invalid, Unsupported
from table_format.io.store import Gets, ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import ManifestContent, ManifestEntry, ManifestFile, Status
from table_format.manifest.lists import ListMemo, read_manifest_list
from table_format.manifest.read import describe_manifest, read_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.index import DeleteIndex


@dataclass(frozen=True, slots=True)
class FileTask:
    """A live data file and the deletes that apply to it: a DV or position deletes, then equality deletes."""

    entry: ManifestEntry
    deletes: tuple[ManifestEntry, ...]


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """All live files of one snapshot; `snapshot_id` None and no files for a table without snapshots."""

    snapshot_id: int | None
    sequence_number: int
    tasks: list[FileTask]
    delete_entries: list[ManifestEntry]


@dataclass(slots=True)
class ManifestCache:
    """Entries of manifests already read; manifests never change, so that entries never go stale.

    But the row ids that they inherit come from the manifest list: the first commit after an upgrade to format version
    3 gives them. Keep one cache over the attempts of a commit loop: only manifests that arrived meanwhile are read
    again.
    """

    entries: dict[tuple[str, int | None], list[ManifestEntry]] = field(default_factory=dict)
    """By the manifest's path and first row id."""

    def read(self, store: Gets, manifest: ManifestFile, metadata: TableMetadata) -> list[ManifestEntry]:
        """The manifest's entries, deleted ones included."""
        key = (manifest.path, manifest.first_row_id)
        known = self.entries.get(key)
        if known is None:
            known = self.entries[key] = read_manifest(store, manifest, metadata)
        return known

    def keep_only(self, manifests: list[ManifestFile]) -> None:
        """Forget every manifest but these."""
        kept = {(manifest.path, manifest.first_row_id) for manifest in manifests}
        self.entries = {key: entries for key, entries in self.entries.items() if key in kept}


def find_snapshot(metadata: TableMetadata, snapshot_id: int) -> JsonObject:
    """The snapshot of that id.

    Raises:
        Invalid: the table has no such snapshot.
    """
    snapshot = metadata.snapshot(snapshot_id)
    if snapshot is None:
        raise Invalid(f"the table has no snapshot {snapshot_id}: it may have been expired")
    return snapshot


def snapshot_manifests(
    store: ObjectStore, snapshot: JsonObject, memo: ListMemo | None = None
) -> list[ManifestFile]:
    """The manifests of one snapshot, also of one that an old v1 writer gave no manifest list.

    Whoever asks for those of many snapshots gives a `memo`.

    Raises:
        NoSuchFile: the manifest list is gone.
        Invalid: the snapshot names neither a list nor manifests.
        Unsupported: the list is encrypted.
    """
    if snapshot.get("key-id") is not None:
        raise Unsupported(f"the manifest list of snapshot {snapshot['snapshot-id']} is encrypted")
    location, embedded = snapshot.get("manifest-list"), snapshot.get("manifests")
    if isinstance(location, str):
        return read_manifest_list(store, location, memo)
    if not isinstance(embedded, list):
        raise Invalid(f"snapshot {snapshot['snapshot-id']} names neither a manifest list nor manifests")
    return [describe_manifest(store, path, added_snapshot_id=snapshot["snapshot-id"]) for path in embedded]


def live_entries(
    store: ObjectStore,
    metadata: TableMetadata,
    manifests: list[ManifestFile],
    content: ManifestContent,
    cache: ManifestCache | None = None,
) -> Iterator[ManifestEntry]:
    """The entries of all manifests of that content, without those marked deleted."""
    reading = cache if cache is not None else ManifestCache()
    for manifest in manifests:
        if manifest.content is content and not holds_no_live_file(manifest):
            for entry in reading.read(store, manifest, metadata):
                if entry.status is not Status.DELETED:
                    yield entry


def holds_no_live_file(manifest: ManifestFile) -> bool:
    """Whether the manifest's counts say that all its entries are marked deleted."""
    return manifest.added_files_count == 0 and manifest.existing_files_count == 0


def snapshot_files(
    store: ObjectStore, metadata: TableMetadata, snapshot_id: int | None = None
) -> SnapshotFiles:
    """The live data files of a snapshot (main's head by default) with their deletes attached.

    Raises:
        Invalid: there is no such snapshot.
        NoSuchFile: a manifest is gone.
    """
    wanted = metadata.current_snapshot_id if snapshot_id is None else snapshot_id
    if wanted is None:
        return SnapshotFiles(None, 0, [], [])
    snapshot = find_snapshot(metadata, wanted)
    manifests = snapshot_manifests(store, snapshot)
    deletes = list(live_entries(store, metadata, manifests, ManifestContent.DELETES))
    index = DeleteIndex(deletes, metadata.partition_specs)
    data = live_entries(store, metadata, manifests, ManifestContent.DATA)
    tasks = [FileTask(entry, index.applying_to(entry)) for entry in data]
    return SnapshotFiles(snapshot["snapshot-id"], snapshot.get("sequence-number", 0), tasks, deletes)


def entries_added_since(
    store: ObjectStore,
    metadata: TableMetadata,
    base_snapshot_id: int | None,
    head_snapshot_id: int | None,
    *,
    cache: ManifestCache | None = None,
) -> list[ManifestEntry]:
    """The live entries, data and deletes, that came into `head` after `base`, oldest manifest last.

    An entry came after when the snapshot that added it is not `base` or an ancestor of it. Manifests that
    are part of `base`'s tree by their age are not read.

    Raises:
        Invalid: there is no such snapshot, or `base` is not an ancestor of `head`.
    """
    if head_snapshot_id is None or base_snapshot_id == head_snapshot_id:
        return []
    head = find_snapshot(metadata, head_snapshot_id)
    if base_snapshot_id is not None and not is_ancestor(metadata, base_snapshot_id, head_snapshot_id):
        raise Invalid(f"snapshot {base_snapshot_id} is not a known ancestor of {head_snapshot_id}")
    since = set(ancestor_ids(metadata, head_snapshot_id))
    if base_snapshot_id is not None:
        since -= set(ancestor_ids(metadata, base_snapshot_id))
    reading = cache if cache is not None else ManifestCache()
    return [
        entry
        for manifest in snapshot_manifests(store, head)
        # An entry that a snapshot added stands in a manifest that this or a later snapshot wrote.
        if manifest.added_snapshot_id is None or manifest.added_snapshot_id in since
        for entry in reading.read(store, manifest, metadata)
        if entry.status is not Status.DELETED and entry.snapshot_id in since
    ]


def ancestor_ids(metadata: TableMetadata, snapshot_id: int) -> Iterator[int]:
    """The snapshot's id, its parent's, and so on; the last may be that of an expired snapshot."""
    seen: set[int] = set()
    parents = {snapshot["snapshot-id"]: snapshot.get("parent-snapshot-id") for snapshot in metadata.snapshots}
    current: int | None = snapshot_id
    while current is not None and current not in seen:
        seen.add(current)
        yield current
        current = parents.get(current)


def is_ancestor(metadata: TableMetadata, ancestor: int, snapshot_id: int) -> bool:
    """Whether following the parents from `snapshot_id` meets `ancestor` (a snapshot is its own ancestor).

    False also when the chain breaks at an expired snapshot before that.
    """
    return any(known == ancestor for known in ancestor_ids(metadata, snapshot_id))
