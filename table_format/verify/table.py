"""One table, from its metadata down: reads only, changes nothing, and goes on after whatever it finds.

Looked at are the metadata file, manifest lists and manifests of every snapshot, and statistics files; `deep` adds every
data and delete file (that it is there and as long as written) and the counts at each level. Contents of data files are
not read.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from table_format.errors import Forbidden, Invalid, NoSuchFile, TableFormatError, Unsupported
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import (
    Content,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from table_format.manifest.read import iterate_manifest
from table_format.metadata.codec import names_metadata, read, version_of
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import snapshot_manifests

_AT_ONCE: Final = 256
_TOLD: Final = 100
_UNREADABLE: Final = (NoSuchFile, Invalid, Unsupported, Forbidden)


@dataclass(slots=True)
class Verdict:
    """What was found of one table."""

    problems: list[str] = field(default_factory=list)
    """Files that are missing or damaged, counts that do not add up; the first hundred, and how many more."""
    warnings: list[str] = field(default_factory=list)
    """What is no fault by itself but may tell of one."""
    snapshots: int = 0
    files: int = 0
    """Files looked at, of any kind."""
    more: int = 0

    def add(self, problem: str) -> None:
        """One more problem."""
        if len(self.problems) < _TOLD:
            self.problems.append(problem)
        else:
            self.more += 1


@dataclass(slots=True)
class _Totals:
    """What the live entries of a manifest come to, by the names of a snapshot summary."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, file: DataFile) -> None:
        deletes = file.content is not Content.DATA
        self.counts["total-delete-files" if deletes else "total-data-files"] += 1
        if not deletes:
            self.counts["total-records"] += file.record_count


def verify(
    store: ObjectStore, metadata_location: str, table_uuid: str, pool: Executor, *, deep: bool
) -> Verdict:
    """Verify the table whose pointer that is; files are asked for side by side on the pool.

    Raises:
        Unavailable: the store is away; nothing is known then.
    """
    verdict = Verdict(files=1)
    try:
        metadata = read(store, metadata_location)
    except _UNREADABLE as error:
        verdict.add(f"metadata file: {_said(error, metadata_location)}")
        return verdict
    if metadata.uuid != table_uuid:
        verdict.add(f"metadata file {metadata_location} is of table {metadata.uuid}, not of {table_uuid}")
    _Walk(store, metadata, pool, verdict).run(deep=deep)
    verdict.warnings += _successors(store, metadata_location)
    if verdict.more:
        verdict.problems.append(f"and {verdict.more} more")
    return verdict


class _Walk:
    def __init__(self, store: ObjectStore, metadata: TableMetadata, pool: Executor, verdict: Verdict) -> None:
        self._store = store
        self._metadata = metadata
        self._pool = pool
        self._verdict = verdict
        self._seen: set[str] = set()

    def run(self, *, deep: bool) -> None:
        self._verdict.snapshots = len(self._metadata.snapshots)
        lists = {s["snapshot-id"]: self._manifests(s) for s in self._metadata.snapshots}
        manifests = {one.path: one for found in lists.values() for one in found or ()}
        whole = set(self._present((path, one.length, "manifest") for path, one in manifests.items()))
        self._statistics()
        if not deep:
            return
        totals = {path: self._content(manifests[path]) for path in sorted(whole)}
        for snapshot in self._metadata.snapshots:
            of_snapshot = lists[snapshot["snapshot-id"]]
            if of_snapshot is not None:
                self._add_up(snapshot, [totals.get(one.path) for one in of_snapshot])
        head = self._metadata.current_snapshot_id
        listed = None if head is None else lists.get(head)
        self._once_only([one for one in listed or () if one.path in whole])

    def _manifests(self, snapshot: JsonObject) -> list[ManifestFile] | None:
        self._verdict.files += 1
        try:
            return snapshot_manifests(self._store, snapshot)
        except _UNREADABLE as error:
            where = snapshot.get("manifest-list", "")
            self._verdict.add(f"manifest list of snapshot {snapshot['snapshot-id']}: {_said(error, where)}")
            return None

    def _statistics(self) -> None:
        entries = (*self._metadata.statistics, *self._metadata.partition_statistics)
        files = ((e["statistics-path"], int(e["file-size-in-bytes"]), "statistics file") for e in entries)
        for _ in self._present(files):
            pass

    def _content(self, manifest: ManifestFile) -> _Totals | None:
        """What a manifest's live entries come to; None when it can not be read to the end."""
        totals, statuses, rows = _Totals(), Counter[Status](), Counter[Status]()

        def live() -> Iterator[tuple[str, int, str]]:
            for entry in iterate_manifest(self._store, manifest, self._metadata):
                statuses[entry.status] += 1
                rows[entry.status] += entry.data_file.record_count
                if entry.status is not Status.DELETED:
                    totals.add(entry.data_file)
                    yield _file_of(entry)

        try:
            for _ in self._present(live()):
                pass
        except _UNREADABLE as error:
            self._verdict.add(f"manifest: {_said(error, manifest.path)}")
            return None
        for name, found, written in _counts(manifest, statuses, rows):
            if written is not None and written != found:
                self._verdict.add(
                    f"manifest {manifest.path} has {found} {name}, by the manifest list {written}"
                )
        return totals

    def _add_up(self, snapshot: JsonObject, parts: Sequence[_Totals | None]) -> None:
        if any(part is None for part in parts):
            return
        sums = sum((part.counts for part in parts if part is not None), Counter[str]())
        summary = snapshot.get("summary") or {}
        for name in ("total-data-files", "total-delete-files", "total-records"):
            written = summary.get(name)
            if written is not None and str(written) != str(sums[name]):
                self._verdict.add(
                    f"snapshot {snapshot['snapshot-id']} says {name} {written}, its manifests {sums[name]}"
                )

    def _once_only(self, manifests: Iterable[ManifestFile]) -> None:
        paths: Counter[str] = Counter()
        for manifest in manifests:
            if manifest.content is ManifestContent.DATA:
                try:
                    paths.update(
                        entry.data_file.file_path
                        for entry in iterate_manifest(self._store, manifest, self._metadata)
                        if entry.status is not Status.DELETED
                    )
                except _UNREADABLE:
                    continue  # told before
        for path, times in paths.items():
            if times > 1:
                self._verdict.add(f"data file {path} is listed {times} times: its rows count as often")

    def _present(self, files: Iterable[tuple[str, int, str]]) -> Iterator[str]:
        """Look at files (path, bytes, what) not looked at before; gives those that are as they should be."""
        fresh = (file for file in files if file[0] not in self._seen)
        while part := list(islice(fresh, _AT_ONCE)):
            distinct = {path: (path, size, what) for path, size, what in part}
            self._seen.update(distinct)
            self._verdict.files += len(distinct)
            for path, problem in zip(distinct, self._pool.map(self._problem, distinct.values()), strict=True):
                if problem is None:
                    yield path
                else:
                    self._verdict.add(problem)

    def _problem(self, file: tuple[str, int, str]) -> str | None:
        path, size, what = file
        try:
            found = self._store.head(path)
        except _UNREADABLE as error:
            return f"{what}: {_said(error, path)}"
        return None if found.size == size else f"{what} {path} has {found.size} bytes, not {size}"


def _file_of(entry: ManifestEntry) -> tuple[str, int, str]:
    file = entry.data_file
    what = "data file" if file.content is Content.DATA else "delete file"
    return file.file_path, file.file_size_in_bytes, what


def _counts(
    manifest: ManifestFile, statuses: Counter[Status], rows: Counter[Status]
) -> Iterator[tuple[str, int, int | None]]:
    yield "added files", statuses[Status.ADDED], manifest.added_files_count
    yield "existing files", statuses[Status.EXISTING], manifest.existing_files_count
    yield "deleted files", statuses[Status.DELETED], manifest.deleted_files_count
    yield "added rows", rows[Status.ADDED], manifest.added_rows_count
    yield "existing rows", rows[Status.EXISTING], manifest.existing_rows_count
    yield "deleted rows", rows[Status.DELETED], manifest.deleted_rows_count


def _successors(store: ObjectStore, location: str) -> list[str]:
    """Metadata files that were made from this one: commits that the catalog does not know of.

    After a restore of an old backup they are the newest truth; else one may be what a killed writer left.
    """
    folder, version = location.rpartition("/")[0], version_of(location)
    later = (info.path for info in store.list(folder) if names_metadata(info.path))
    newer = sorted((path for path in later if version_of(path) > version), key=version_of)
    for path in reversed(newer):
        try:
            log = [entry["metadata-file"] for entry in read(store, path).metadata_log]
        except TableFormatError:
            continue
        reaches_back = not log or version_of(log[0]) <= version
        if location in log or not reaches_back:
            told = "commits that the catalog does not know of (made after the backup that was restored, or left by a"
            return [f"{path} continues from {location}: {told} writer that was killed)"]
    return []


def _said(error: TableFormatError, path: str) -> str:
    return error.message if path in error.message else f"{path}: {error.message}"
