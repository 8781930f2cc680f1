"""How a table's current snapshot is laid out, in numbers: read from its manifests, never from data.

A count ends after so many files or seconds: of a larger table the totals are those that its snapshot's summary tells.
It runs in a thread, one at a time in a process, and what came of it holds for ever for that metadata file.
"""

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from concurrent.futures import Executor
from dataclasses import dataclass, field

from catalog_server.services.handles import TableHandle
from catalog_server.services.stores import Stores
from table_format.clock import Clock
from table_format.errors import NoSuchTable
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, ManifestContent, ManifestFile, Status
from table_format.manifest.read import read_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import holds_no_live_file, snapshot_manifests

_MIB = 1024 * 1024
SIZE_BOUNDS = (_MIB, 8 * _MIB, 32 * _MIB, 64 * _MIB, 128 * _MIB, 512 * _MIB)
"""Upper bounds, in bytes, of the classes of sizes; the last class has none."""
_MOST_PARTITIONS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeClass:
    """Files whose size is below one bound, and not below the one before."""

    below_bytes: int | None
    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Of a table's current snapshot; sizes in bytes."""

    snapshots: int
    current_snapshot_id: int | None
    data_files: int
    delete_files: int
    records: int
    """In data files, before deletes are applied."""
    bytes: int
    """Of data files."""
    delete_records: int
    """Rows in delete files: positions, and values of equality deletes."""
    delete_bytes: int
    partitions: int
    """Different ones that have data files; no more than 100,000 are told apart."""
    manifests: int
    metadata_bytes: int
    file_sizes: tuple[SizeClass, ...]
    delete_file_sizes: tuple[SizeClass, ...]
    complete: bool
    """Whether all files were looked at; else the classes of sizes and the partitions are those of a part of them."""


NO_STATISTICS = Statistics(
    snapshots=0,
    current_snapshot_id=None,
    data_files=0,
    delete_files=0,
    records=0,
    bytes=0,
    delete_records=0,
    delete_bytes=0,
    partitions=0,
    manifests=0,
    metadata_bytes=0,
    file_sizes=(),
    delete_file_sizes=(),
    complete=True,
)
"""Of a table without metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountLimits:
    """When a count ends before its end."""

    files: int = 1_000_000
    seconds: float = 15.0


class StatisticsService:
    """Statistics of tables, each worked out once per metadata file. Used on the event loop only."""

    def __init__(
        self,
        stores: Stores,
        threads: Executor,
        clock: Clock,
        limits: CountLimits | None = None,
        *,
        remembered: int = 256,
    ) -> None:
        self._stores = stores
        self._threads = threads
        self._clock = clock
        self._limits = limits or CountLimits()
        self._most = remembered
        self._known: OrderedDict[str, Statistics] = OrderedDict()
        self._counting: dict[str, asyncio.Task[Statistics]] = {}
        self._turn = asyncio.Semaphore(1)

    async def of(self, table: TableHandle) -> Statistics:
        """The statistics of a table as it was loaded.

        Raises:
            NoSuchTable: it is only staged.
            NoSuchFile: a manifest is gone.
            Invalid, Unsupported: one can not be read.
            Unavailable: the store is away.
        """
        at = table.metadata_location
        if at is None:
            raise NoSuchTable(f"Table does not exist: {table.ident}")
        found = self._known.get(at)
        if found is not None:
            self._known.move_to_end(at)
            return found
        task = self._counting.get(at)
        if task is None:
            task = self._counting[at] = asyncio.get_running_loop().create_task(self._count(at, table))
            task.add_done_callback(lambda _: self._counting.pop(at, None))
        # Whoever is cancelled must not take the others' count along.
        return await asyncio.shield(task)

    async def _count(self, at: str, table: TableHandle) -> Statistics:
        def work() -> Statistics:
            store = self._stores.store_for(table.metadata.location)
            return statistics(store, table.metadata, len(table.raw), self._clock, self._limits)

        async with self._turn:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        self._known[at] = found
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return found


@dataclass(slots=True)
class _Tally:
    files: int = 0
    records: int = 0
    bytes: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * (len(SIZE_BOUNDS) + 1))
    sizes: list[int] = field(default_factory=lambda: [0] * (len(SIZE_BOUNDS) + 1))

    def add(self, one: DataFile) -> None:
        """Count a file; a deletion vector is as large as its part of the file that it lies in."""
        size = one.file_size_in_bytes if one.content_size_in_bytes is None else one.content_size_in_bytes
        place = bisect_right(SIZE_BOUNDS, size)
        self.counts[place] += 1
        self.sizes[place] += size
        self.files += 1
        self.records += one.record_count
        self.bytes += size

    def classes(self) -> tuple[SizeClass, ...]:
        """The files by size."""
        bounds: tuple[int | None, ...] = (*SIZE_BOUNDS, None)
        return tuple(
            SizeClass(below_bytes=bound, files=count, bytes=size)
            for bound, count, size in zip(bounds, self.counts, self.sizes, strict=True)
        )


def statistics(
    store: ObjectStore, metadata: TableMetadata, metadata_bytes: int, clock: Clock, limits: CountLimits
) -> Statistics:
    """Count the files, bytes and rows of the current snapshot.

    Raises:
        NoSuchFile: a manifest is gone.
        Invalid, Unsupported: one can not be read.
    """
    snapshot = metadata.current_snapshot
    manifests = [] if snapshot is None else snapshot_manifests(store, snapshot)
    data, deletes = _Tally(), _Tally()
    partitions: set[tuple[object, ...]] = set()
    ends = clock.monotonic() + limits.seconds
    complete = True
    # Data first, so that a count that is cut short tells of what matters most.
    for manifest in sorted(manifests, key=lambda one: one.content is not ManifestContent.DATA):
        if clock.monotonic() > ends or data.files + deletes.files >= limits.files:
            complete = False
            break
        of_data = manifest.content is ManifestContent.DATA
        for one in _live(store, manifest, metadata):
            (data if of_data else deletes).add(one)
            if of_data and len(partitions) < _MOST_PARTITIONS:
                partitions.add((one.spec_id, *map(str, one.partition)))
    summary = {} if complete or snapshot is None else snapshot.get("summary") or {}
    return Statistics(
        snapshots=len(metadata.snapshots),
        current_snapshot_id=metadata.current_snapshot_id,
        data_files=_told(summary, "total-data-files", data.files),
        delete_files=_told(summary, "total-delete-files", deletes.files),
        records=_told(summary, "total-records", data.records),
        bytes=data.bytes
        if complete
        else max(_told(summary, "total-files-size", 0) - deletes.bytes, data.bytes),
        delete_records=deletes.records
        if complete
        else _told(summary, "total-position-deletes", 0) + _told(summary, "total-equality-deletes", 0),
        delete_bytes=deletes.bytes,
        partitions=len(partitions),
        manifests=len(manifests),
        metadata_bytes=metadata_bytes,
        file_sizes=data.classes(),
        delete_file_sizes=deletes.classes(),
        complete=complete,
    )


def _live(store: ObjectStore, manifest: ManifestFile, metadata: TableMetadata) -> list[DataFile]:
    if holds_no_live_file(manifest):
        return []
    entries = read_manifest(store, manifest, metadata)
    return [entry.data_file for entry in entries if entry.status is not Status.DELETED]


def _told(summary: JsonObject, name: str, counted: int) -> int:
    """What the snapshot's summary says, where it says more than was counted."""
    text = str(summary.get(name, ""))
    return max(int(text), counted) if text.isascii() and text.isdigit() and len(text) < 19 else counted
