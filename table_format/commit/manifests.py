"""Writing manifests anew: fewer and clustered by partition, with the very same live entries. Adds and removes no file.

New manifests are written once, whatever the head does meanwhile, and every attempt at the commit only lists them in
the place of their inputs; so a busy writer costs the rewrite nothing but attempts. A group of which an input left the
head is lost alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from table_format.catalog import LoadedTable
from table_format.clock import Clock, Ids
from table_format.commit.append import carried_manifests
from table_format.commit.change import Change
from table_format.commit.producer import SnapshotProducer, metadata_path
from table_format.commit.rewrite import ancestor_summaries
from table_format.commit.summary import Changes, Operation, carried_ingest_keys
from table_format.errors import Internal
from table_format.io.store import ObjectStore
from table_format.manifest.clustered import ClusteredEntries
from table_format.manifest.entries import ManifestFile
from table_format.manifest.read import iterate_manifest
from table_format.metadata.document import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestGroup:
    """Manifests of one spec and content, and those that hold their live entries from now on."""

    inputs: tuple[ManifestFile, ...]
    outputs: tuple[ManifestFile, ...]
    entries: int
    format_version: int
    """In which the outputs are written."""
    left_alone: Mapping[str, int]
    """Number of manifests per reason for not taking them after all."""


class NamedManifests:
    """Names for the manifests of one run, and which were given out."""

    def __init__(self, metadata: TableMetadata, ids: Ids) -> None:
        self._metadata = metadata
        self._uuid = ids.uuid()
        self.given: list[str] = []

    def __call__(self) -> str:
        """A name that nothing has."""
        path = metadata_path(self._metadata, f"{self._uuid}-m{len(self.given)}.avro")
        self.given.append(path)
        return path


def cluster(
    store: ObjectStore,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    *,
    target: int,
    name: Callable[[], str],
    stopped: Callable[[], bool] = lambda: False,
) -> ManifestGroup | None:
    """Write the live entries of manifests of one spec and content anew; None when `stopped` says so meanwhile.

    Raises:
        NoSuchFile: a manifest is gone.
        Invalid: a manifest is damaged.
        Unsupported: such manifests cannot be written.
    """
    spec_id, content = manifests[0].spec_id, manifests[0].content
    held = ClusteredEntries.of(metadata, spec_id, content)
    taken: list[ManifestFile] = []
    left: dict[str, int] = {}
    for manifest in manifests:
        if stopped():
            return None
        before, told = held.files, _live_files(manifest)
        reason = held.add(iterate_manifest(store, manifest, metadata), told)
        if reason is None:
            taken.append(manifest)
        else:
            left[reason] = left.get(reason, 0) + 1
        grown = held.files - before
        if (grown and reason is not None) or (reason is None and told not in (None, grown)):
            raise Internal(f"not every live entry of {manifest.path} was taken")
    outputs = tuple(held.write(store, target, name))
    if sum(one.existing_files_count or 0 for one in outputs) != held.files:
        raise Internal("the new manifests do not have the entries of the old ones")
    return ManifestGroup(
        inputs=tuple(taken),
        outputs=outputs,
        entries=held.files,
        format_version=metadata.format_version,
        left_alone=left,
    )


def _live_files(manifest: ManifestFile) -> int | None:
    counts = (manifest.added_files_count, manifest.existing_files_count)
    return None if None in counts else sum(count for count in counts if count is not None)


def replace_manifests(
    store: ObjectStore,
    table: LoadedTable,
    groups: Sequence[ManifestGroup],
    *,
    summary: Mapping[str, str],
    clock: Clock,
    ids: Ids,
) -> tuple[Change | None, list[ManifestGroup]]:
    """The change that lists each group's outputs in the place of its inputs, and the groups that cannot be any more.

    None when no group is left.

    Raises:
        Unsupported: the table is encrypted.
    """
    metadata = table.metadata
    listed = carried_manifests(store, metadata)
    by_path = {manifest.path: manifest for manifest in listed}
    accepted: list[ManifestGroup] = []
    lost: list[ManifestGroup] = []
    for group in groups:
        holds = group.format_version == metadata.format_version and all(
            _same(by_path.get(manifest.path), manifest) for manifest in group.inputs
        )
        (accepted if holds else lost).append(group)
    if not accepted:
        return None, lost
    replaced = {manifest.path for group in accepted for manifest in group.inputs}
    kept = [manifest for manifest in listed if manifest.path not in replaced]
    with SnapshotProducer(store, table, clock=clock, ids=ids) as producer:
        new = [
            replace(manifest, added_snapshot_id=producer.snapshot_id)
            for group in accepted
            for manifest in group.outputs
        ]
        told = {
            "manifests-created": str(len(new)),
            "manifests-kept": str(len(kept)),
            "manifests-replaced": str(len(replaced)),
            "entries-processed": str(sum(group.entries for group in accepted)),
        }
        carried = carried_ingest_keys(ancestor_summaries(metadata))
        change = producer.finish(
            Operation.REPLACE, [*new, *kept], Changes(), extra={**carried, **summary, **told}
        )
    return change, lost


def _same(now: ManifestFile | None, read: ManifestFile) -> bool:
    """Whether the head lists the manifest as it was read: what its entries inherit has not changed."""
    return now is not None and (
        now.spec_id,
        now.content,
        now.sequence_number,
        now.first_row_id,
        now.added_snapshot_id,
    ) == (read.spec_id, read.content, read.sequence_number, read.first_row_id, read.added_snapshot_id)
