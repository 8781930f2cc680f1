"""Compaction rate (MB of input Parquet a second), CPU and memory of real jobs, beside Spark's on equal tables.

Ours is the whole job, as its row in the job list tells it: plan, decode and encode or copy, check, commit; the first
job of a worker starts the processes that the later ones find. Spark's is `rewrite_data_files` of a warm session on the
same catalog (a folder with Spark and the Iceberg jars is needed: `--spark`). DuckDB and pyarrow only decode and encode:
no metrics, no commit, no check of the row count. What the disk takes at most is told by `cp` of the same files, synced.
In S3 (a SeaweedFS of its own) it is counted how many of the bytes came to the worker.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import requests
from pyiceberg.catalog import load_catalog
from rich.console import Console
from rich.table import Table

from benchmarks.servers import frazil
from benchmarks.spark_compaction import cpu_seconds, peak_mb
from maintenance.compaction.job import run
from maintenance.ports import JobKind
from table_format.clock import SystemClock, SystemIds
from table_format.io.faults import Counting
from table_format.io.resolve import store_for
from table_format.manifest.entries import DataFile
from table_format.schema.arrow import from_arrow, to_arrow
from tests.factories.lake import IDENT, Lake
from tests.fakes.jobs import FakeContext, job
from tests.s3 import running

MB = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was measured of one way."""

    bytes: int
    """Of the input files that were rewritten."""
    seconds: float
    cpu: float
    """Seconds of CPU of all processes that took part; of the copying `cp`, the system's included."""
    peak_mb: int = 0
    """Of the largest process; 0: not measured."""


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--rows", type=int, default=270_000, help="rows a file (270,000 are about 8 MB)")
    parser.add_argument(
        "--spark", type=Path, help="folder with Spark: venv/ (pyspark) and jars/ (Iceberg's runtime)"
    )
    options = parser.parse_args()
    figures: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder) / "frazil" / "data"
        home.parent.mkdir()
        with frazil(home, maintenance=True) as server:
            base = server.base_url.split("/iceberg/")[0]
            _disable(base)
            tables = ["first", "copied", "decoded", *(["spark"] if options.spark else [])]
            inputs = _fill(base, tables, options.files, options.rows)
            size = sum(path.stat().st_size for path in inputs)
            # Copies, since the files of a table go when it is compacted.
            copies = [
                shutil.copy(path, Path(folder) / f"input-{number}.parquet")
                for number, path in enumerate(inputs)
            ]
            if options.spark:
                figures["Spark rewrite_data_files"] = _spark(f"{base}/iceberg", options.spark, size)
            figures["DuckDB COPY"] = _timed(size, lambda: _duckdb(copies, Path(folder) / "duckdb.parquet"))
            figures["pyarrow read + write"] = _timed(
                size, lambda: _pyarrow(copies, Path(folder) / "pyarrow.parquet")
            )
            # Copies before decoding: the peak of a process never falls.
            figures["frazil, row groups copied, first job"] = _job(base, "first", server.pid, copy=True)
            figures["frazil, row groups copied"] = _job(base, "copied", server.pid, copy=True)
            figures["frazil, decoded and encoded"] = _job(base, "decoded", server.pid, copy=False)
            figures["cp and fsync of the same files"] = _timed(size, lambda: _cp(copies, Path(folder) / "cp"))
    share, s3_rate = _in_s3(options.files, options.rows)
    grid = Table(title=f"{options.files} files, {size / MB:.0f} MB of Parquet (zstd) into files of 64 MB")
    for column in ("", "MB", "seconds", "MB/s", "times the first", "CPU s", "MB/CPU s", "peak MB"):
        grid.add_column(column, justify="right")
    first = next(iter(figures.values()))
    for name, one in figures.items():
        rate = one.bytes / MB / one.seconds
        grid.add_row(
            name,
            f"{one.bytes / MB:.0f}",
            f"{one.seconds:.2f}",
            f"{rate:.1f}",
            f"{rate / (first.bytes / MB / first.seconds):.2f}",
            f"{one.cpu:.2f}",
            f"{one.bytes / MB / one.cpu:.0f}",
            str(one.peak_mb or ""),
        )
    console = Console(width=140)
    console.print(grid)
    ceiling, copied = figures["cp and fsync of the same files"], figures["frazil, row groups copied"]
    ratio = (copied.bytes / copied.seconds) / (ceiling.bytes / ceiling.seconds)
    console.print(f"row groups are copied at {ratio:.2f} times the rate of cp and fsync")
    console.print(f"in S3: {share:.2%} of the bytes came to the worker, {s3_rate:.0f} MB/s")
    console.print("load average " + " ".join(f"{load:.1f}" for load in os.getloadavg()))


def _disable(base: str) -> None:
    for policy in ("icebergCompaction", "icebergSnapshotManagement", "icebergUnreferencedFileRemoval"):
        answer = requests.put(
            f"{base}/api/v1/buckets/default/policies/{policy}", json={"status": "disabled"}, timeout=30
        )
        answer.raise_for_status()


def _fill(base: str, tables: list[str], files: int, rows: int) -> list[Path]:
    """Equal tables; the files of the last one."""
    catalog = load_catalog("bench", type="rest", uri=f"{base}/iceberg")
    catalog.create_namespace("bench")
    random = np.random.default_rng(7)
    made: dict[str, Any] = dict.fromkeys(tables)
    for number in range(files):
        batch = _rows(random, number * rows, rows)
        for name in tables:
            table: Any = made[name] or catalog.create_table(f"bench.{name}", batch.schema)
            table.append(batch)
            made[name] = table
    last: Any = made[tables[-1]]
    return [Path(task.file.file_path.removeprefix("file://")) for task in last.scan().plan_files()]


def _rows(random: Any, first: int, rows: int) -> pa.Table:
    """Rows as an order system would have them: keys, prices, flags, dates, words."""
    words = np.array(["express", "regular", "special", "pending", "final", "bold", "quick", "even"])
    comments = [" ".join(words[picked]) for picked in random.integers(0, len(words), (rows, 4))]
    return pa.table(
        {
            "id": pa.array(np.arange(first, first + rows)),
            "customer": pa.array(random.integers(0, 150_000, rows)),
            "quantity": pa.array(random.integers(1, 50, rows).astype("int32")),
            "price": pa.array(random.random(rows) * 100_000),
            "discount": pa.array(np.round(random.random(rows) / 10, 2)),
            "status": pa.array(words[random.integers(0, 3, rows)]),
            "ordered": pa.array(random.integers(8_000, 10_000, rows).astype("int32")).cast(pa.date32()),
            "updated": pa.array(1_700_000_000_000_000 + random.integers(0, 10**12, rows)).cast(
                pa.timestamp("us")
            ),
            "comment": pa.array(comments),
        }
    )


def _duckdb(inputs: list[Path], output: Path) -> None:
    paths = ", ".join(f"'{path}'" for path in inputs)
    duckdb.connect().execute(
        f"COPY (SELECT * FROM read_parquet([{paths}])) TO '{output}' (FORMAT parquet, COMPRESSION zstd)"
    )


def _pyarrow(inputs: list[Path], output: Path) -> None:
    with pq.ParquetWriter(output, pq.read_schema(inputs[0]), compression="zstd") as writer:
        for path in inputs:
            for batch in pq.ParquetFile(path).iter_batches(batch_size=131_072):
                writer.write_batch(batch)


def _cp(inputs: list[Path], folder: Path) -> None:
    folder.mkdir()
    subprocess.run(["cp", *map(str, inputs), str(folder)], check=True)
    for place in (*sorted(folder.iterdir()), folder):
        descriptor = os.open(place, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def _timed(size: int, work: Any) -> Figures:
    before, start = os.times(), time.perf_counter()
    work()
    seconds, after = time.perf_counter() - start, os.times()
    return Figures(bytes=size, seconds=seconds, cpu=sum(after[:4]) - sum(before[:4]))


def _spark(uri: str, home: Path, size: int) -> Figures:
    command = [home / "venv/bin/python", Path(__file__).with_name("spark_compaction.py")]
    command += [uri, "bench.spark", 64 << 20, home / "jars"]
    told = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=3600)
    line = next((line for line in told.stdout.splitlines() if line.startswith("RESULT ")), None)
    if line is None:
        raise SystemExit(f"Spark failed: {told.stderr[-3000:]}")
    found = json.loads(line.removeprefix("RESULT "))
    return Figures(bytes=size, seconds=found["seconds"], cpu=found["cpu"], peak_mb=found["peak_mb"])


def _job(base: str, table: str, pid: int, *, copy: bool) -> Figures:
    """A job from its start to its end, as its row tells; the CPU is that of the worker and its processes."""
    place = f"{base}/api/v1/buckets/default/namespaces/bench/tables/{table}"
    # One tier: else a job that is done is followed by one for the next tier, beside the next that is measured.
    tiers = [{"belowBytes": 32 << 20, "targetBytes": 64 << 20}]
    settings = {"copyRowGroups": copy, "triggerFileCount": 1_000_000, "tiers": tiers}
    document = {"status": "enabled", "settings": settings}
    requests.put(f"{place}/policies/icebergCompaction", json=document, timeout=30).raise_for_status()
    before = _cpu_of(pid)
    asked = requests.post(f"{place}/jobs", json={"kind": "icebergCompaction", "dryRun": False}, timeout=30)
    asked.raise_for_status()
    peak = 0
    while True:
        job: dict[str, Any] = requests.get(f"{base}/api/v1/jobs/{asked.json()['id']}", timeout=30).json()
        peak = max(peak, *(peak_mb(child) for child in _descendants(pid)), 0)
        if job["state"] in ("done", "failed"):
            break
        time.sleep(0.1)
    cpu = _cpu_of(pid) - before
    if job["state"] == "failed" or job["report"]["outcome"] != "done":
        raise SystemExit(f"the job did not compact: {job}")
    figures = job["report"]["figures"]
    if figures["groupsCopied" if copy else "groupsRewritten"] != figures["groups"]:
        raise SystemExit(f"not what was to be measured: {figures}")
    seconds = (job["finishedAtMs"] - job["startedAtMs"]) / 1000
    return Figures(bytes=figures["bytesRead"], seconds=seconds, cpu=cpu, peak_mb=peak)


def _cpu_of(pid: int) -> float:
    """CPU seconds of all processes below that one, also of those that ended."""
    return sum(cpu_seconds(one) for one in _descendants(pid))


def _descendants(pid: int) -> list[int]:
    """Processes below that one."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            parent = int(place.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.parent.name))
    found, pending = [], [pid]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _in_s3(files: int, rows: int) -> tuple[float, float]:
    """The share of the bytes that came to the worker, and MB/s, of a job on a table in S3."""
    with running() as server:
        location = f"s3://{server.bucket()}/bench"
        clock, ids = SystemClock(), SystemIds()
        store = Counting(store_for(location, server.properties))
        random = np.random.default_rng(7)
        first = _rows(random, 0, rows)
        lake = Lake(store, location=location, schema=from_arrow(first.schema), clock=clock, ids=ids)
        wanted = to_arrow(lake.metadata.schema())
        entries = []
        for number in range(files):
            path = lake.path("d")
            with store.open_output(path) as sink:
                batch = _rows(random, number * rows, rows) if number else first
                pq.write_table(batch.cast(wanted), sink, compression="zstd", write_page_index=True)
            entries.append(
                DataFile(file_path=path, record_count=rows, file_size_in_bytes=store.head(path).size)
            )
        lake.append(*entries)
        ctx = FakeContext(catalog=lake.catalog, clock=clock, ids=ids, store=store, ident=IDENT)
        store.reset()
        start = time.perf_counter()
        report = run(ctx, job(JobKind.COMPACTION, IDENT, lake.metadata.uuid))
        seconds = time.perf_counter() - start
        if report.figures["groupsCopied"] != report.figures["groups"]:
            raise SystemExit(f"not copied: {report}")
        size = report.figures["bytesRead"]
        assert isinstance(size, int)
        return (store.bytes_read + store.bytes_written) / size, size / MB / seconds


if __name__ == "__main__":
    main()
