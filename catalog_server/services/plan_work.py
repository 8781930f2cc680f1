"""The work of planning, as one function of a job: from a scan, or a page of it, to scan tasks as JSON.

Runs in a planning process or a thread; knows neither database nor event loop. What a job holds is bounded by the size
of a page. A page whose answer would be too long is cut in two, to be fetched one by one.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from catalog_server.services.locations import is_inside
from table_format.io.confined import Confined
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import ManifestFile
from table_format.metadata import jsontext
from table_format.metadata.document import TableMetadata
from table_format.scan.expressions import TRUE, parse_expression
from table_format.scan.planning import PlannedFile, Scan, ScanPage, open_scan, plan_page
from table_format.scan.request import ScanRequest
from table_format.scan.task_json import TaskWriter

# The first answer goes on over pages that the filter leaves nearly empty, but not for ever.
_PAGES_AT_ONCE = 8

Span: TypeAlias = list[int | None]
"""A page as it is stored and sent: `ScanPage.to_json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanJob:
    """One page of a scan to be planned; `page` None opens the scan and plans what fits into the first answer.

    `metadata` is a table metadata document, `request` a PlanTableScanRequest whose snapshot is named. Nothing outside
    of `within` is read.
    """

    metadata: bytes
    request: JsonObject
    page: Span | None = None
    page_files: int
    page_bytes: int
    within: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Scan tasks as the JSON members of an answer, and all pages of the scan (or those that a page fell into).

    The tasks are those of the first `answered` pages.
    """

    tasks: bytes
    pages: list[Span]
    answered: int


class Planner:
    """Runs jobs. It keeps the last `keep` scans open, for their next pages; if any, it serves one thread only."""

    def __init__(self, store_for: Callable[[str], ObjectStore], *, keep: int = 0) -> None:
        self._store_for = store_for
        self._keep = keep
        self._open: OrderedDict[bytes, Scan] = OrderedDict()

    def run(self, job: PlanJob) -> Outcome:
        """Do one job.

        Raises:
            Invalid: columns or filter do not fit the table; a manifest is damaged, or lies outside of the bucket.
            NoSuchFile: a manifest is gone.
        """
        scan = self._scan(job)
        store = self._store(scan.metadata, job)
        if job.page is None:
            return _first(store, scan, job)
        page = ScanPage.from_json(job.page)
        tasks = _members(scan, plan_page(store, scan, page), job.page_bytes)
        if tasks is not None:
            return Outcome(tasks=tasks, pages=[job.page], answered=1)
        halves = _halves(scan, page)
        if not halves:
            whole = _members(scan, plan_page(store, scan, page), None)
            return Outcome(tasks=whole or b"", pages=[job.page], answered=1)
        return Outcome(tasks=b"", pages=halves, answered=0)

    def _store(self, metadata: TableMetadata, job: PlanJob) -> ObjectStore:
        store = self._store_for(metadata.location)
        return store if job.within is None else Confined(store, job.within, is_inside)

    def _scan(self, job: PlanJob) -> Scan:
        key = hashlib.blake2b(jsontext.dumps(job.request) + b"\0" + job.metadata).digest()
        scan = self._open.pop(key, None)
        if scan is None:
            metadata = TableMetadata.parse(job.metadata)
            scan = open_scan(self._store(metadata, job), metadata, _request(job.request))
        if self._keep:
            self._open[key] = scan
            while len(self._open) > self._keep:
                self._open.popitem(last=False)
        return scan


def _request(members: JsonObject) -> ScanRequest:
    known = {name.replace("-", "_"): value for name, value in members.items()}
    known.pop("min_rows_requested", None)  # a hint; all rows are given
    known["filter"] = parse_expression(members["filter"]) if "filter" in members else TRUE
    for name in ("select", "stats_fields"):
        if name in known:
            known[name] = tuple(known[name])
    return ScanRequest(**known)


def _first(store: ObjectStore, scan: Scan, job: PlanJob) -> Outcome:
    """All pages of the scan, the first of them planned as far as one answer goes."""
    pages = scan.pages(job.page_files)
    planned: list[PlannedFile] = []
    taken: list[ScanPage] = []
    for page in pages[:_PAGES_AT_ONCE]:
        found = list(plan_page(store, scan, page))
        if taken and len(planned) + len(found) > job.page_files:
            break
        planned += found
        taken.append(page)
    tasks = _members(scan, planned, job.page_bytes)
    spans = [page.to_json() for page in pages]
    if tasks is None:
        return Outcome(tasks=b"", pages=spans, answered=0)
    return Outcome(tasks=tasks, pages=spans, answered=len(taken))


def _members(scan: Scan, files: Iterable[PlannedFile], most: int | None) -> bytes | None:
    """The members `delete-files` (where there are any) and `file-scan-tasks`; None when longer than `most`."""
    writer = TaskWriter(scan.metadata, scan.stats_field_ids)
    tasks: list[bytes] = []
    length = 0
    for file in files:
        tasks.append(jsontext.dumps(writer.task(file)))
        length += len(tasks[-1]) + 1
        if most is not None and length > most:
            return None
    members = b'"file-scan-tasks":[' + b",".join(tasks) + b"]"
    if writer.delete_files:
        members = b'"delete-files":' + jsontext.dumps(writer.delete_files) + b"," + members
    return None if most is not None and len(members) > most else members


def _halves(scan: Scan, page: ScanPage) -> list[Span]:
    """The page as two, or none when it has less than two entries."""
    spans = list(_spans(scan, page))
    left = sum(end - start for _, start, end in spans) // 2
    if left == 0:
        return []
    for number, start, end in spans:
        if left < end - start:
            cut = start + left
            first = replace(page, last_manifest=number, end_entry=cut)
            # Begins in the same manifest, at the cut: an entry that no list has counted belongs to one of the two.
            second = replace(page, first_manifest=number, first_entry=cut)
            return [first.to_json(), second.to_json()]
        left -= end - start
    return []


def _spans(scan: Scan, page: ScanPage) -> Iterable[tuple[int, int, int]]:
    """The page manifest by manifest: its number, first entry and end, by what the manifest list says."""
    for number in range(page.first_manifest, page.last_manifest + 1):
        manifest = scan.data_manifests[number]
        if not scan.concerns(manifest):
            continue
        start = page.first_entry if number == page.first_manifest else 0
        end = page.end_entry if number == page.last_manifest else None
        counted = _entries(manifest)
        yield number, start, max(start, counted if end is None else end)


def _entries(manifest: ManifestFile) -> int:
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    return sum(count or 0 for count in counts)
