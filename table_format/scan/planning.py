"""Scan planning in bounded memory: a snapshot's manifests, cut into pages, each page planned on its own.

`open_scan` reads the manifest list only. A page is a span of manifest entries known by four numbers, so that it can
be planned later and elsewhere from the same metadata and request. What a page costs is bounded by its size, the
largest manifest and the deletes that concern its files; never by the size of the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from table_format.errors import Invalid
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import ManifestContent, ManifestEntry, ManifestFile, Status
from table_format.manifest.read import Places, count_entries, iterate_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.expressions import Expression
from table_format.scan.matching import Matcher
from table_format.scan.overlap import Overlap
from table_format.scan.page_deletes import PageDeletes
from table_format.scan.plan import holds_no_live_file, snapshot_manifests
from table_format.scan.request import (
    ScanRequest,
    appended_snapshots,
    check_selected,
    stats_field_ids,
    wanted_schema,
    wanted_snapshot,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPage:
    """A span of entries over the scan's data manifests, from an entry of one to before an entry of another.

    Manifests count from 0 in the order of `Scan.data_manifests`, entries from 0 in the order of their manifest;
    `end_entry` None is the end of the last manifest.
    """

    first_manifest: int
    first_entry: int
    last_manifest: int
    end_entry: int | None

    def to_json(self) -> list[int | None]:
        """The page as a list of four numbers."""
        return [self.first_manifest, self.first_entry, self.last_manifest, self.end_entry]

    @classmethod
    def from_json(cls, json: object) -> "ScanPage":
        """The page that `to_json` wrote.

        Raises:
            Invalid: it did not write that.
        """
        if not isinstance(json, list) or len(json) != 4:
            raise Invalid("not a page of a scan")
        first, entry, last, end = json
        numbers = [first, entry, last, *([] if end is None else [end])]
        if any(type(number) is not int or number < 0 for number in numbers) or first > last:
            raise Invalid("not a page of a scan")
        return cls(first_manifest=first, first_entry=entry, last_manifest=last, end_entry=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A data file to be read, the deletes that apply to it, and what is left of the filter for its rows."""

    entry: ManifestEntry
    deletes: tuple[ManifestEntry, ...]
    residual: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """An opened scan. `snapshot_id` is None for a table without snapshots, which has no manifests.

    `data_manifests` are all that the snapshot (or range) has, in the order of their lists, those that hold nothing
    for this scan included: pages count them. `stats_field_ids` are the columns whose statistics were asked for.
    """

    metadata: TableMetadata
    request: ScanRequest
    snapshot_id: int | None
    schema: JsonObject
    data_manifests: tuple[ManifestFile, ...]
    deletes: PageDeletes
    stats_field_ids: frozenset[int]
    matcher: Matcher
    appended_by: frozenset[int] | None = None
    """Of a range: the snapshots whose added files are wanted; None for a whole snapshot."""
    places: Places = field(default_factory=Places)
    """Where earlier pages ended: the next one reads on from there, if it is planned with the same scan."""

    def concerns(self, manifest: ManifestFile) -> bool:
        """Whether a data manifest may hold files of this scan, by what its manifest list says."""
        if self.appended_by is None:
            empty = holds_no_live_file(manifest)
        else:
            empty = manifest.added_snapshot_id not in self.appended_by or manifest.added_files_count == 0
        return not empty and self.matcher.manifest_may_match(manifest)

    @property
    def live_files(self) -> int:
        """How many data files are in the manifests that concern the scan: without a filter, those of the scan."""
        counted = [manifest for manifest in self.data_manifests if self.concerns(manifest)]
        added = sum(manifest.added_files_count or 0 for manifest in counted)
        if self.appended_by is not None:
            return added
        return added + sum(manifest.existing_files_count or 0 for manifest in counted)

    def pages(self, max_files: int) -> tuple[ScanPage, ...]:
        """The scan cut into pages of at most `max_files` entries each; none when nothing can match.

        Raises:
            Invalid: `max_files` is not positive.
        """
        if max_files < 1:
            raise Invalid("a page of a scan has at least one file")
        pages: list[ScanPage] = []
        start: tuple[int, int] | None = None
        room = max_files
        end = (0, 0)
        for number, manifest in enumerate(self.data_manifests):
            if not self.concerns(manifest):
                continue
            entry, total = 0, _entry_count(manifest)
            while entry < total:
                start = (number, entry) if start is None else start
                taken = min(room, total - entry)
                entry, room = entry + taken, room - taken
                end = (number, entry)
                if room == 0:
                    pages.append(_page(start, end, whole=entry == total))
                    start, room = None, max_files
        if start is not None:
            pages.append(_page(start, end, whole=True))
        return tuple(pages)


def _page(start: tuple[int, int], end: tuple[int, int], *, whole: bool) -> ScanPage:
    # Open at the end of a manifest: should it hold more than its list says, then nothing of it is lost.
    return ScanPage(
        first_manifest=start[0],
        first_entry=start[1],
        last_manifest=end[0],
        end_entry=None if whole else end[1],
    )


def _entry_count(manifest: ManifestFile) -> int:
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    return sum(count or 0 for count in counts)


def open_scan(store: ObjectStore, metadata: TableMetadata, request: ScanRequest) -> Scan:
    """Find the snapshot, read its manifest list, and check the request against the table.

    A range reads one list per snapshot that appended. Manifests whose list gives no counts (old v1 writers) are
    read once, to count.

    Raises:
        Invalid: no such snapshot or column, a filter that does not fit the schema, a start that is no ancestor.
        NoSuchFile: a manifest list is gone.
    """
    snapshot = wanted_snapshot(metadata, request)
    schema = wanted_schema(metadata, request, snapshot)
    check_selected(metadata, request, schema, snapshot)
    stats = stats_field_ids(request, schema)
    matcher = Matcher(metadata, request.filter, schema, case_sensitive=request.case_sensitive)
    appended: frozenset[int] | None = None
    manifests: list[ManifestFile] = []
    if request.start_snapshot_id is not None and snapshot is not None:
        snapshots = appended_snapshots(metadata, request.start_snapshot_id, snapshot["snapshot-id"])
        appended = frozenset(each["snapshot-id"] for each in snapshots)
        manifests = _manifests_written_by(store, snapshots, appended)
    elif snapshot is not None:
        manifests = snapshot_manifests(store, snapshot)
    counted = [_counted(store, manifest) for manifest in manifests]
    of_deletes = [each for each in counted if each.content is ManifestContent.DELETES]
    return Scan(
        metadata=metadata,
        request=request,
        snapshot_id=None if snapshot is None else snapshot["snapshot-id"],
        schema=schema,
        data_manifests=tuple(each for each in counted if each.content is ManifestContent.DATA),
        # An append scan is of files as they were added: no delete concerns it.
        deletes=PageDeletes(metadata, [] if appended is not None else of_deletes),
        stats_field_ids=stats,
        matcher=matcher,
        appended_by=appended,
    )


def _manifests_written_by(
    store: ObjectStore, snapshots: list[JsonObject], ids: frozenset[int]
) -> list[ManifestFile]:
    """The manifests that these snapshots wrote, each once."""
    found: dict[str, ManifestFile] = {}
    for snapshot in snapshots:
        for manifest in snapshot_manifests(store, snapshot):
            if manifest.added_snapshot_id in ids:
                found.setdefault(manifest.path, manifest)
    return list(found.values())


def _counted(store: ObjectStore, manifest: ManifestFile) -> ManifestFile:
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    return count_entries(store, manifest) if None in counts else manifest


def plan_page(store: ObjectStore, scan: Scan, page: ScanPage) -> Iterator[PlannedFile]:
    """The files of one page that can hold rows of the scan, in the order of the manifests.

    Raises:
        Invalid: the page is not one of this scan; a manifest is damaged.
        NoSuchFile: a manifest is gone (the snapshot was expired meanwhile).
    """
    if page.last_manifest >= len(scan.data_manifests):
        raise Invalid("the page is not one of this scan: the scan has fewer manifests")
    found = list(_page_files(store, scan, page))
    index = scan.deletes.index(store, [entry for entry, _ in found])
    overlap = Overlap(scan.metadata)
    for entry, residual in found:
        deletes = overlap.concerning(entry.data_file, index.applying_to(entry))
        yield PlannedFile(entry=entry, deletes=deletes, residual=residual)


def _page_files(store: ObjectStore, scan: Scan, page: ScanPage) -> Iterator[tuple[ManifestEntry, Expression]]:
    for number in range(page.first_manifest, page.last_manifest + 1):
        manifest = scan.data_manifests[number]
        if not scan.concerns(manifest):
            continue
        start = page.first_entry if number == page.first_manifest else 0
        end = page.end_entry if number == page.last_manifest else None
        entries = iterate_manifest(store, manifest, scan.metadata, start=start, places=scan.places)
        for entry in islice(entries, None if end is None else end - start):
            if _wanted(scan, entry):
                residual = scan.matcher.file_residual(entry.data_file)
                if residual is not None:
                    yield entry, residual


def _wanted(scan: Scan, entry: ManifestEntry) -> bool:
    if scan.appended_by is None:
        return entry.status is not Status.DELETED
    return entry.status is Status.ADDED and entry.snapshot_id in scan.appended_by


def plan_scan(store: ObjectStore, scan: Scan, *, page_files: int = 10_000) -> Iterator[PlannedFile]:
    """All files of the scan, a page at a time."""
    for page in scan.pages(page_files):
        yield from plan_page(store, scan, page)
