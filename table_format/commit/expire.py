"""Expiring snapshots and refs (metadata only), and what files a set of snapshots can reach.

Which snapshots go is decided elsewhere; here a snapshot that a remaining ref points to is never removed. Files
are deleted by others, after the commit, as reachable-from-removed minus reachable-from-retained.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from table_format.catalog import LoadedTable
from table_format.commit.change import MAIN, Change, assert_ref, assert_same_table
from table_format.errors import Invalid
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import ManifestFile
from table_format.manifest.lines import live_lines
from table_format.manifest.lists import ListMemo
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import find_snapshot, snapshot_manifests


@dataclass(frozen=True, slots=True)
class Reachable:
    """What a set of snapshots needs, but for the files that its manifests name, which `content_of` reads."""

    manifests: Mapping[str, ManifestFile]
    manifest_lists: frozenset[str]
    statistics: frozenset[str]


def expire(table: LoadedTable, snapshot_ids: Sequence[int], ref_names: Sequence[str]) -> Change:
    """The change that removes snapshots and refs; ids and names that are gone already are left out.

    It holds only while every branch and tag is where it was and there is no other: `remove-snapshots` takes the refs of
    its snapshots along, so a tag set meanwhile must stop it. Nothing left to remove gives a change without updates,
    which is not worth sending.

    Raises:
        Invalid: `main` is to be removed, or a snapshot that a remaining branch or tag points to.
    """
    metadata = table.metadata
    if MAIN in ref_names:
        raise Invalid(f"branch {MAIN} of {table.ident} cannot be removed")
    refs = metadata.refs
    gone_refs = [name for name in dict.fromkeys(ref_names) if name in refs]
    known = {snapshot["snapshot-id"] for snapshot in metadata.snapshots}
    gone = [snapshot_id for snapshot_id in dict.fromkeys(snapshot_ids) if snapshot_id in known]
    removed = set(gone)
    for name, ref in refs.items():
        if name not in gone_refs and ref["snapshot-id"] in removed:
            raise Invalid(f"snapshot {ref['snapshot-id']} of {table.ident} is held by {ref['type']} {name}")
    updates: list[JsonObject] = [{"action": "remove-snapshot-ref", "ref-name": name} for name in gone_refs]
    if gone:
        updates += _statistics_updates(metadata, known - removed)
        updates.append({"action": "remove-snapshots", "snapshot-ids": gone})
    requirements = [assert_ref(name, ref["snapshot-id"]) for name, ref in sorted(refs.items())]
    requirements.append({"type": "assert-refs", "refs": sorted(refs)})
    return Change(updates=updates, requirements=[*assert_same_table(metadata), *requirements])


def _statistics_updates(metadata: TableMetadata, kept: set[int]) -> list[JsonObject]:
    """Statistics of removed snapshots go by name as well: not every catalog drops them with their snapshot.

    So do those of snapshots that went earlier: engines enter statistics without a look whether theirs is still there.
    """
    updates: list[JsonObject] = []
    for action, entries in (
        ("remove-statistics", metadata.statistics),
        ("remove-partition-statistics", metadata.partition_statistics),
    ):
        ids = {entry["snapshot-id"] for entry in entries} - kept
        updates += [{"action": action, "snapshot-id": snapshot_id} for snapshot_id in sorted(ids)]
    return updates


def reachable(store: ObjectStore, metadata: TableMetadata, snapshot_ids: Iterable[int]) -> Reachable:
    """What the snapshots need: manifests, lists, statistics. Only the lists are read.

    Anything that cannot be read raises, and the caller then deletes nothing.

    Raises:
        Invalid: the table has no such snapshot.
        NoSuchFile: a manifest list is gone.
        Unavailable: the store is away.
    """
    wanted = list(dict.fromkeys(snapshot_ids))
    lists: set[str] = set()
    manifests: dict[str, ManifestFile] = {}
    known = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.snapshots}
    memo = ListMemo()
    for snapshot_id in wanted:
        snapshot = known.get(snapshot_id) or find_snapshot(metadata, snapshot_id)
        manifests.update((manifest.path, manifest) for manifest in snapshot_manifests(store, snapshot, memo))
        if "manifest-list" in snapshot:
            lists.add(snapshot["manifest-list"])
    ids = set(wanted)
    statistics = {
        entry["statistics-path"]
        for entry in (*metadata.statistics, *metadata.partition_statistics)
        if entry["snapshot-id"] in ids
    }
    return Reachable(manifests, frozenset(lists), frozenset(statistics))


def content_of(
    store: ObjectStore, metadata: TableMetadata, manifests: Iterable[ManifestFile]
) -> Iterator[str]:
    """The live data and delete files of manifests; several may name the same.

    Raises:
        NoSuchFile: a manifest is gone.
        Invalid: one is damaged.
        Unavailable: the store is away.
    """
    for manifest in manifests:
        for line in live_lines(store, manifest, metadata):
            yield line.file_path
