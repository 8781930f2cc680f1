"""Scan planning of tables of 10 to 1,000,000 data files, page by page, beside PyIceberg's `plan_files`.

`python -m benchmarks.bench_scan_planning` makes each table as manifests only (no data) in a temporary folder, then
plans it in a fresh process per planner, size and filter: files planned, seconds, files per second, peak resident
memory. `--sizes 10,1000` chooses sizes, `--peer-limit` the largest that PyIceberg is given, `--one-manifest` puts all
files of a table into one manifest.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson

from table_format.io.local import LocalObjectStore
from table_format.manifest.entries import DataFile, ManifestContent, ManifestEntry, ManifestFile, Status
from table_format.manifest.lists import write_manifest_list
from table_format.manifest.values import to_bytes
from table_format.manifest.write import write_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.expressions import parse_expression
from table_format.scan.planning import open_scan, plan_page
from table_format.scan.request import ScanRequest
from table_format.scan.task_json import TaskWriter

SNAPSHOT = 4_611_686_018_427_387_905
COLUMNS = {"id": "long", "day": "date", "name": "string", "price": "double"}
PARTITIONS = 1000
PAGE_FILES = 1000
FILTERS = {
    "all": True,
    "partition": {"type": "eq", "term": "day", "value": 500},
    "metrics": {"type": "lt", "term": "id", "value": 50_000},
}


def metadata_of(location: str) -> TableMetadata:
    fields = [
        {"id": number, "name": name, "type": kind, "required": False}
        for number, (name, kind) in enumerate(COLUMNS.items(), 1)
    ]
    spec = [{"source-id": 2, "field-id": 1000, "name": "day", "transform": "identity"}]
    snapshot = {
        "snapshot-id": SNAPSHOT,
        "sequence-number": 1,
        "timestamp-ms": 1_700_000_000_000,
        "manifest-list": f"{location}/list.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    return TableMetadata(
        {
            "format-version": 2,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": location,
            "last-sequence-number": 1,
            "last-updated-ms": 1_700_000_000_000,
            "last-column-id": len(fields),
            "current-schema-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": spec}],
            "last-partition-id": 1000,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": {},
            "current-snapshot-id": SNAPSHOT,
            "refs": {"main": {"type": "branch", "snapshot-id": SNAPSHOT}},
            "snapshots": [snapshot],
            "snapshot-log": [],
            "metadata-log": [],
        }
    )


def entry(location: str, number: int, files: int) -> ManifestEntry:
    day = number * PARTITIONS // files
    low, high = ({1: number * 1000, 2: day, 3: f"name-{number:09}", 4: 0.5}, {1: number * 1000 + 999, 2: day})
    high |= {3: f"name-{number:09}z", 4: 1000.0}
    kinds = dict(enumerate(COLUMNS.values(), 1))
    file = DataFile(
        file_path=f"{location}/data/day={day}/{number:08}-1-3f0c2a1e-9d0b-4d5e-8a65-2a8f6a7f2b11-00001.parquet",
        partition=(day,),
        record_count=1000,
        file_size_in_bytes=1 << 20,
        column_sizes=dict.fromkeys(kinds, 4000),
        value_counts=dict.fromkeys(kinds, 1000),
        null_value_counts=dict.fromkeys(kinds, 0),
        nan_value_counts={4: 0},
        lower_bounds={key: to_bytes(kinds[key], value) for key, value in low.items()},
        upper_bounds={key: to_bytes(kinds[key], value) for key, value in high.items()},
        split_offsets=[4],
        sort_order_id=0,
    )
    return ManifestEntry(
        status=Status.ADDED,
        snapshot_id=SNAPSHOT,
        sequence_number=None,
        file_sequence_number=None,
        data_file=file,
    )


def make(folder: Path, files: int, per_manifest: int) -> str:
    location, store = f"file://{folder}", LocalObjectStore()
    metadata = metadata_of(location)
    written: list[ManifestFile] = []
    for start in range(0, files, per_manifest):
        entries = [
            entry(location, number, files) for number in range(start, min(start + per_manifest, files))
        ]
        manifest = write_manifest(
            store,
            f"{location}/m{start}.avro",
            entries,
            metadata=metadata,
            spec_id=0,
            content=ManifestContent.DATA,
            snapshot_id=SNAPSHOT,
        )
        written.append(replace(manifest, sequence_number=1, min_sequence_number=1))
    write_manifest_list(
        store,
        f"{location}/list.avro",
        written,
        format_version=2,
        snapshot_id=SNAPSHOT,
        parent_snapshot_id=None,
        sequence_number=1,
    )
    path = f"{location}/v1.metadata.json"
    store.put(path, metadata.to_bytes())
    return path


def plan_ours(path: str, name: str) -> int:
    """Every page planned and written as JSON, as a server does it."""
    store = LocalObjectStore()
    metadata = TableMetadata.parse(store.get(path))
    scan = open_scan(store, metadata, ScanRequest(filter=parse_expression(FILTERS[name])))
    found = 0
    for page in scan.pages(PAGE_FILES):
        answer = TaskWriter(metadata).scan_tasks(plan_page(store, scan, page))
        found += len(answer["file-scan-tasks"])
        orjson.dumps(answer)
    return found


def plan_pyiceberg(path: str, name: str) -> int:
    # Here, so that our own figures hold none of it.
    from pyiceberg.expressions import AlwaysTrue, EqualTo, LessThan  # noqa: PLC0415
    from pyiceberg.table import StaticTable  # noqa: PLC0415

    filters = {"all": AlwaysTrue(), "partition": EqualTo("day", 500), "metrics": LessThan("id", 50_000)}
    return sum(1 for _ in StaticTable.from_metadata(path).scan(filters[name]).plan_files())


PLANNERS = {"ours": plan_ours, "pyiceberg": plan_pyiceberg}


def measure(planner: str, path: str, name: str) -> None:
    started = time.perf_counter()
    before = time.process_time()
    found = PLANNERS[planner](path, name)
    seconds, cpu = time.perf_counter() - started, time.process_time() - before
    # Of this program alone: the kernel counts what the parent held into `ru_maxrss`.
    [peak] = [
        int(line.split()[1]) / 1024
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    ]
    print(f"{found:>9} files {seconds:8.2f} s {cpu:8.2f} s CPU {peak:7.0f} MB")


def planners(files: int, peer_limit: int) -> Iterator[str]:
    yield "ours"
    if files <= peer_limit:
        yield "pyiceberg"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10,1000,100000,1000000")
    parser.add_argument("--filters", default="all,partition,metrics")
    parser.add_argument("--peer-limit", type=int, default=1_000_000)
    parser.add_argument("--one-manifest", action="store_true")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        measure(*chosen.measure)
        return
    for files in map(int, chosen.sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            path = make(Path(folder), files, files if chosen.one_manifest else 5000)
            for name in chosen.filters.split(","):
                for planner in planners(files, chosen.peer_limit):
                    print(f"{files:>9} {name:<10} {planner:<10}", end=" ", flush=True)
                    command = [sys.executable, "-m", "benchmarks.bench_scan_planning", "--measure"]
                    subprocess.run([*command, planner, path, name], check=True)


if __name__ == "__main__":
    main()
