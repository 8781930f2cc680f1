"""Adding data files: a fast append (one new manifest a spec in front of the old list), manifests merged when many.

An append conflicts with nothing but another move of the head. Merged manifests carry every live entry with both
sequence numbers written out, since an inherited number would silently become the new commit's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from table_format.catalog import LoadedTable
from table_format.clock import Clock, Ids
from table_format.commit.change import Change
from table_format.commit.producer import SnapshotProducer
from table_format.commit.summary import Changes, Operation
from table_format.errors import Invalid
from table_format.io.store import ObjectStore
from table_format.manifest.entries import (
    Content,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from table_format.manifest.read import iterate_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import holds_no_live_file, snapshot_manifests

TARGET_PROPERTY = "commit.manifest.target-size-bytes"
DEFAULT_TARGET_BYTES = 8 * 1024 * 1024
MERGE_FROM_MANIFESTS = 100
"""What streams pass as `merge_min`: Iceberg's default of `commit.manifest.min-count-to-merge`."""


def append(
    store: ObjectStore,
    table: LoadedTable,
    files: Sequence[DataFile],
    *,
    summary: Mapping[str, str],
    clock: Clock,
    ids: Ids,
    merge_min: int | None = None,
) -> Change:
    """The change that adds data files to main; without files it only records `summary` in a new snapshot.

    More than `merge_min` data manifests in the parent (None: never) are merged into as few of the table's target
    manifest size as they fit.

    Raises:
        Invalid: a file is not a data file, is given twice or names an unknown spec.
        Unsupported: the table is encrypted.
    """
    check_files(table.metadata, files)
    changes = Changes()
    for file in files:
        changes.add(file)
    with SnapshotProducer(store, table, clock=clock, ids=ids) as producer:
        old = carried_manifests(store, table.metadata)
        new = producer.write_added((file, None) for file in files)
        old = merged_when_many(producer, old, ManifestContent.DATA, merge_min)
        return producer.finish(Operation.APPEND, [*new, *old], changes, extra=summary)


def check_files(metadata: TableMetadata, files: Sequence[DataFile]) -> None:
    """Refuse what would corrupt the table.

    Raises:
        Invalid: a file is not a data file, is given twice or names an unknown spec.
    """
    paths: set[str] = set()
    for file in files:
        if file.content is not Content.DATA:
            raise Invalid(f"{file.file_path} is a delete file, not a data file")
        if file.file_path in paths:
            raise Invalid(f"{file.file_path} is given twice: its rows would be doubled")
        if len(file.partition) != len(metadata.spec(file.spec_id)["fields"]):
            raise Invalid(f"partition of {file.file_path} does not match spec {file.spec_id}")
        paths.add(file.file_path)


def carried_manifests(store: ObjectStore, metadata: TableMetadata) -> list[ManifestFile]:
    """The head's manifests that still hold a live file; the others told only the past."""
    head = metadata.current_snapshot
    if head is None:
        return []
    return [manifest for manifest in snapshot_manifests(store, head) if not holds_no_live_file(manifest)]


def existing(entry: ManifestEntry) -> ManifestEntry:
    """A live entry as it stands in a rewritten manifest: both sequence numbers explicit (they were read)."""
    return replace(entry, status=Status.EXISTING)


def merged_when_many(
    producer: SnapshotProducer,
    manifests: Sequence[ManifestFile],
    content: ManifestContent,
    merge_min: int | None,
) -> list[ManifestFile]:
    """The manifests as they are, or, with more than `merge_min` of this content, those merged into few."""
    many = sum(manifest.content is content for manifest in manifests)
    return (
        list(manifests) if merge_min is None or many <= merge_min else _merged(producer, manifests, content)
    )


def _merged(
    producer: SnapshotProducer, manifests: Sequence[ManifestFile], content: ManifestContent
) -> list[ManifestFile]:
    """The manifests with small ones of one content and spec packed together; the rest untouched, in place."""
    target = target_bytes(producer.metadata)
    small: dict[int, list[ManifestFile]] = {}
    untouched: list[ManifestFile] = []
    for manifest in manifests:
        if manifest.content is content and manifest.length < target:
            small.setdefault(manifest.spec_id, []).append(manifest)
        else:
            untouched.append(manifest)
    merged: list[ManifestFile] = []
    for spec_id, candidates in sorted(small.items()):
        for group in packed(candidates, target):
            if len(group) == 1:
                merged.append(group[0])
                continue
            entries = (
                existing(entry)
                for manifest in group
                for entry in iterate_manifest(producer.store, manifest, producer.metadata)
                if entry.status is not Status.DELETED
            )
            merged.append(producer.write_manifest(entries, spec_id, content))
    return [*merged, *untouched]


def packed(manifests: Sequence[ManifestFile], target: int) -> list[list[ManifestFile]]:
    """The manifests in groups whose sizes add up to `target` at most, in order."""
    groups: list[list[ManifestFile]] = []
    size = 0
    for manifest in manifests:
        if not groups or size + manifest.length > target:
            groups.append([])
            size = 0
        groups[-1].append(manifest)
        size += manifest.length
    return groups


def target_bytes(metadata: TableMetadata) -> int:
    """How large a manifest of the table should become."""
    text = metadata.properties.get(TARGET_PROPERTY, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else DEFAULT_TARGET_BYTES
