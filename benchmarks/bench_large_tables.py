"""What maintenance takes for tables of very many data files, as manifests only: CPU seconds and peak memory.

`python -m benchmarks.bench_large_tables [--files 1000000] [--snapshots 1000] [--case NAME]` makes the table in a
temporary folder, and does each case in a process of its own:

- `plan`: a compaction is planned; `commit`: then 16 groups are committed, by one who knows nothing of the manifests,
  and again by one who has seen them;
- `records`: the first tenth of the days expires;
- `manifests`: as many manifests as one run takes are written anew;
- `expiration`: which files go when all snapshots but the last expire, each of which had one that no other has;
- `unreferenced`: a listing of all files and as many strays is compared with the references;
- `purge`: all files of the table are named.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import bench_scan_planning
from maintenance.compaction.job import planned_of
from maintenance.compaction.plan_types import CompactionPlan
from maintenance.expiration.job import run as expire
from maintenance.manifests.job import run as rewrite_manifests
from maintenance.orphans.job import run as remove_unreferenced
from maintenance.policy_types import CompactionPolicy
from maintenance.ports import JobKind, JobSettings
from maintenance.purge.job import run as purge
from maintenance.records.job import run as expire_records
from maintenance.report import Report
from table_format.clock import SystemIds
from table_format.commit.rewrite import RewriteGroup, rewrite
from table_format.commit.tree import TreeCache
from table_format.ident import TableIdent
from table_format.io.local import LocalObjectStore
from table_format.io.store import ObjectInfo
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, ManifestContent, ManifestFile
from table_format.manifest.lists import read_manifest_list, write_manifest_list
from table_format.manifest.write import write_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.lines import snapshot_lines
from tests.fakes.catalog import FakeCatalog
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

MB = 1 << 20
DAY_MS = 86_400_000
IDENT = TableIdent.of("bench", "large")
_HISTORY = "history.metadata.json"


class Stand:
    """One table and what a job needs."""

    def __init__(self, path: str, store: LocalObjectStore | None = None) -> None:
        self.store = LocalObjectStore() if store is None else store
        self.metadata = TableMetadata.parse(self.store.get(path))
        self.clock = ManualClock(self.metadata.last_updated_ms + 1000 * DAY_MS)
        ids = SystemIds()
        catalog = FakeCatalog(self.store, self.clock, ids)
        catalog.put(IDENT, self.metadata)
        self.ctx = FakeContext(catalog=catalog, clock=self.clock, ids=ids, store=self.store, ident=IDENT)

    def run(
        self, kind: JobKind, run: Callable[..., Report], document: JsonObject, **changes: object
    ) -> Report:
        """The job's report."""
        self.ctx.documents[kind] = {"status": "enabled", "settings": document}
        return run(self.ctx, job(kind, IDENT, str(self.metadata.uuid), **changes))


def case_plan(path: str) -> str:
    stand = Stand(path)
    planned, files, _ = _planned(stand)
    return f"{len(files.lines)} files, {len(planned.groups) + planned.remaining_groups} groups"


def _planned(stand: Stand):  # type: ignore[no-untyped-def]
    stand.ctx.documents[JobKind.COMPACTION] = {"status": "enabled", "settings": {}}
    policy = stand.ctx.policy(JobKind.COMPACTION)
    if not isinstance(policy, CompactionPolicy):
        raise TypeError(policy)
    found = planned_of(stand.store, stand.metadata, policy, JobSettings(), stand.clock.now_ms(), bool)
    if isinstance(found, Report) or not isinstance(found[0], CompactionPlan):
        raise TypeError(found)
    return found


def case_commit(path: str) -> str:
    stand = Stand(path)
    planned, files, tasks = _planned(stand)
    del files
    by_path = {task.entry.data_file.file_path: task.entry for task in tasks}
    groups = []
    for group in planned.groups[: JobSettings().groups_per_commit]:
        inputs = [by_path[file.path] for file in group.inputs]
        file = inputs[0].data_file
        output = replace(file, file_path=f"{file.file_path}.new", record_count=group.records)
        groups.append(
            RewriteGroup(
                inputs=inputs,
                outputs=[output],
                base_snapshot_id=planned.snapshot_id,
                base_sequence_number=planned.sequence_number,
            )
        )
    cache = TreeCache()
    told = []
    for _ in range(2):
        began = time.process_time()
        rewrite(
            stand.store,
            stand.ctx.catalog.load(IDENT),
            groups,
            summary={},
            clock=stand.clock,
            ids=stand.ctx.ids,
            cache=cache,
        )
        told.append(f"{time.process_time() - began:.1f} s")
    return f"{sum(len(group.inputs) for group in groups)} files replaced: {', then '.join(told)} of it"


def case_records(path: str) -> str:
    stand = Stand(path)
    stand.clock = stand.ctx.clock = ManualClock((bench_scan_planning.PARTITIONS // 10 + 30) * DAY_MS)
    settings: JsonObject = {"days": 30, "column": "day"}
    return stand.run(JobKind.RECORDS, expire_records, settings).reason


def case_manifests(path: str) -> str:
    stand = Stand(path)
    document: JsonObject = {"targetSizeBytes": 8 * MB, "minManifests": 2}
    return stand.run(JobKind.MANIFESTS, rewrite_manifests, document).reason


def case_expiration(path: str) -> str:
    stand = Stand(str(Path(path).parent / _HISTORY).replace("file:/", "file:///", 1))
    stand.ctx.settings = JobSettings(max_snapshots_per_run=1_000_000)
    settings: JsonObject = {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 1}
    return stand.run(JobKind.SNAPSHOTS, expire, settings, dry_run=True).reason


class _Listed(LocalObjectStore):
    """All files of the table, which are not there, and as many strays."""

    def __init__(self, paths: str) -> None:
        super().__init__()
        self._paths = paths

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        yield from super().list(prefix)
        with Path(self._paths).open() as lines:
            for line in lines:
                path = line.rstrip()
                yield ObjectInfo(path=path, size=MB, modified_ms=1, etag=f'"{hash(path):x}"')
                yield ObjectInfo(path=f"{path}.stray", size=MB, modified_ms=1)


def case_unreferenced(path: str) -> str:
    listing = str(Path(path.removeprefix("file://")).parent / "listing")
    with Path(listing).open("w") as out:
        before = Stand(path)
        out.writelines(f"{line.file_path}\n" for line in snapshot_lines(before.store, before.metadata).lines)
    peak_before = peak()
    stand = Stand(path, _Listed(listing))
    settings: JsonObject = {"unreferencedDays": 3, "nonCurrentDays": 10}
    told = stand.run(
        JobKind.UNREFERENCED,
        remove_unreferenced,
        settings,
        dry_run=True,
        payload={"allowLargeShare": True},
    ).reason
    return f"{told} (making the listing took {peak_before / MB:.0f} MB)"


def case_purge(path: str) -> str:
    stand = Stand(path)
    location = stand.metadata.location
    payload: JsonObject = {"metadata_location": path, "location": location}
    return purge(
        stand.ctx, job(JobKind.PURGE, None, str(stand.metadata.uuid), payload=payload, dry_run=True)
    ).reason


CASES: Mapping[str, Callable[[str], str]] = {
    name.removeprefix("case_"): case for name, case in list(globals().items()) if name.startswith("case_")
}


def peak() -> int:
    """Of this program alone, in bytes: the kernel counts what the parent held into `ru_maxrss`."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


def make_history(path: str, snapshots: int) -> None:
    """Beside the table another metadata file, of which each snapshot has one manifest more, of one file."""
    store = LocalObjectStore()
    metadata = TableMetadata.parse(store.get(path))
    head = metadata.current_snapshot or {}
    manifests: list[ManifestFile] = read_manifest_list(store, head["manifest-list"])
    made: list[JsonObject] = []
    for number in range(snapshots):
        snapshot_id, sequence = number + 1, number + 2
        entry = bench_scan_planning.entry(metadata.location, number, max(snapshots, 1))
        file: DataFile = replace(entry.data_file, file_path=f"{metadata.location}/data/more-{number}.parquet")
        added = write_manifest(
            store,
            f"{metadata.location}/more-{number}.avro",
            [replace(entry, data_file=file, snapshot_id=snapshot_id)],
            metadata=metadata,
            spec_id=0,
            content=ManifestContent.DATA,
            snapshot_id=snapshot_id,
        )
        where = f"{metadata.location}/more-{number}-list.avro"
        write_manifest_list(
            store,
            where,
            [*manifests, added],
            format_version=2,
            snapshot_id=snapshot_id,
            parent_snapshot_id=made[-1]["snapshot-id"] if made else head["snapshot-id"],
            sequence_number=sequence,
        )
        made.append(
            {
                **head,
                "snapshot-id": snapshot_id,
                "parent-snapshot-id": made[-1]["snapshot-id"] if made else head["snapshot-id"],
                "sequence-number": sequence,
                "timestamp-ms": head["timestamp-ms"] + number + 1,
                "manifest-list": where,
            }
        )
    last = made[-1]["snapshot-id"]
    document = {
        **metadata.document,
        "snapshots": [head, *made],
        "current-snapshot-id": last,
        "refs": {"main": {"type": "branch", "snapshot-id": last}},
        "last-sequence-number": snapshots + 1,
        "last-updated-ms": made[-1]["timestamp-ms"],
    }
    store.put(f"{metadata.location}/{_HISTORY}", TableMetadata(document).to_bytes())


def measure(case: str, path: str) -> JsonObject:
    """The case in a process of its own: CPU seconds, peak memory in bytes, what came of it."""
    command = [sys.executable, "-m", "benchmarks.bench_large_tables", "--measure", path, "--case", case]
    found: JsonObject = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def make(folder: Path, files: int, per_manifest: int, snapshots: int) -> str:
    """The table and its history; where its metadata is."""
    path = bench_scan_planning.make(folder, files, per_manifest)
    make_history(path, snapshots)
    return path


def main() -> None:
    """Make, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--per-manifest", type=int, default=5_000)
    parser.add_argument("--snapshots", type=int, default=1_000)
    parser.add_argument("--case", choices=list(CASES))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        began = time.process_time()
        told = CASES[options.case](options.measure)
        found = {"cpu": time.process_time() - began, "peak": peak(), "told": told}
        sys.stdout.write(json.dumps(found))
        return
    table = Table("case", "CPU s", "peak MB", "what came of it")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = make(Path(folder), options.files, options.per_manifest, options.snapshots)
        for case in [options.case] if options.case else CASES:
            found = measure(case, path)
            table.add_row(case, f"{found['cpu']:.1f}", f"{found['peak'] / MB:.0f}", found["told"][:300])
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
