"""The layout of a table's current snapshot in numbers. Reads manifests, never data."""

from bisect import bisect_right

from catalog_server.api.management.wire import Figures, SizeClass
from table_format.io.store import ObjectStore
from table_format.manifest.entries import ManifestContent
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import live_entries, snapshot_manifests

_MIB = 1024 * 1024
SIZE_BOUNDS = (_MIB, 8 * _MIB, 32 * _MIB, 64 * _MIB, 128 * _MIB, 512 * _MIB)


def figures(store: ObjectStore, metadata: TableMetadata, metadata_bytes: int) -> Figures:
    """Count files, bytes and rows of the current snapshot.

    Raises:
        NoSuchFile: a manifest is gone.
        Unsupported: the snapshot has no manifest list.
    """
    snapshot = metadata.current_snapshot
    manifests = [] if snapshot is None else snapshot_manifests(store, snapshot)
    counts = [0] * (len(SIZE_BOUNDS) + 1)
    sizes = [0] * (len(SIZE_BOUNDS) + 1)
    records = 0
    for entry in live_entries(store, metadata, manifests, ManifestContent.DATA):
        data_file = entry.data_file
        place = bisect_right(SIZE_BOUNDS, data_file.file_size_in_bytes)
        counts[place] += 1
        sizes[place] += data_file.file_size_in_bytes
        records += data_file.record_count
    deletes = sum(1 for _ in live_entries(store, metadata, manifests, ManifestContent.DELETES))
    bounds: tuple[int | None, ...] = (*SIZE_BOUNDS, None)
    return Figures(
        snapshots=len(metadata.snapshots),
        current_snapshot_id=metadata.current_snapshot_id,
        data_files=sum(counts),
        delete_files=deletes,
        records=records,
        bytes=sum(sizes),
        manifests=len(manifests),
        metadata_bytes=metadata_bytes,
        file_sizes=[
            SizeClass(below_bytes=bound, files=count, bytes=size)
            for bound, count, size in zip(bounds, counts, sizes, strict=True)
        ],
    )
