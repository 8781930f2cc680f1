"""Compaction rate (MB of input Parquet a second) and memory of real maintenance jobs, beside Spark's on equal tables.

Ours is the whole job, as its row in the job list tells it: plan, decode and encode or copy, check, commit. Spark's is
`rewrite_data_files` of a warm session on the same catalog (a folder with Spark and the Iceberg jars is needed:
`--spark`). DuckDB and pyarrow only decode and encode: no metrics, no commit, no check of the row count. In S3 (a
SeaweedFS of its own) it is counted how many of the bytes came to the worker.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
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


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rows", type=int, default=200_000, help="rows a file (200,000 are about 8 MB)")
    parser.add_argument(
        "--spark", type=Path, help="folder with Spark: venv/ (pyspark) and jars/ (Iceberg's runtime)"
    )
    options = parser.parse_args()
    figures: dict[str, tuple[float, int]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder) / "frazil" / "data"
        home.parent.mkdir()
        with frazil(home, maintenance=True) as server:
            base = server.base_url.split("/iceberg/")[0]
            _disable(base)
            tables = ["decoded", "copied", *(["spark"] if options.spark else [])]
            inputs = _fill(base, tables, options.files, options.rows)
            size = sum(path.stat().st_size for path in inputs)
            copies = [
                shutil.copy(path, Path(folder) / f"input-{number}.parquet")
                for number, path in enumerate(inputs)
            ]
            if options.spark:
                figures["Spark rewrite_data_files"] = _spark(f"{base}/iceberg", options.spark)
            figures["DuckDB COPY"] = _timed(lambda: _duckdb(copies, Path(folder) / "duckdb.parquet")), 0
            figures["pyarrow read + write"] = (
                _timed(lambda: _pyarrow(copies, Path(folder) / "pyarrow.parquet")),
                0,
            )
            # In this order: the peak of a process never falls.
            figures["frazil, row groups copied"] = _job(base, "copied", server.pid, copy=True)
            figures["frazil, decoded and encoded"] = _job(base, "decoded", server.pid, copy=False)
    share, s3_rate = _in_s3(options.files, options.rows)
    grid = Table(title=f"{options.files} files, {size / MB:.0f} MB of Parquet (zstd) into files of 64 MB")
    for column in ("", "seconds", "MB/s", "ratio to the first", "peak MB"):
        grid.add_column(column, justify="right")
    first = next(iter(figures.values()))[0]
    for name, (seconds, peak) in figures.items():
        grid.add_row(
            name, f"{seconds:.2f}", f"{size / MB / seconds:.1f}", f"{first / seconds:.2f}", str(peak or "")
        )
    console = Console(width=120)
    console.print(grid)
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


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _spark(uri: str, home: Path) -> tuple[float, int]:
    command = [home / "venv/bin/python", Path(__file__).with_name("spark_compaction.py")]
    command += [uri, "bench.spark", 64 << 20, home / "jars"]
    told = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=3600)
    line = next((line for line in told.stdout.splitlines() if line.startswith("RESULT ")), None)
    if line is None:
        raise SystemExit(f"Spark failed: {told.stderr[-3000:]}")
    found = json.loads(line.removeprefix("RESULT "))
    return found["seconds"], found["peak_mb"]


def _job(base: str, table: str, pid: int, *, copy: bool) -> tuple[float, int]:
    """Seconds from the job's start to its end, as its row tells, and the peak memory of the largest process."""
    place = f"{base}/api/v1/buckets/default/namespaces/bench/tables/{table}"
    document = {"status": "enabled", "settings": {"copyRowGroups": copy, "triggerFileCount": 1_000_000}}
    requests.put(f"{place}/policies/icebergCompaction", json=document, timeout=30).raise_for_status()
    asked = requests.post(f"{place}/jobs", json={"kind": "icebergCompaction", "dryRun": False}, timeout=30)
    asked.raise_for_status()
    peak = 0
    while True:
        job: dict[str, Any] = requests.get(f"{base}/api/v1/jobs/{asked.json()['id']}", timeout=30).json()
        peak = max(peak, *(_peak_mb(child) for child in _descendants(pid)), 0)
        if job["state"] in ("done", "failed"):
            break
        time.sleep(0.05)
    if job["state"] == "failed" or job["report"]["outcome"] != "done":
        raise SystemExit(f"the job did not compact: {job}")
    figures = job["report"]["figures"]
    if figures["groupsCopied" if copy else "groupsRewritten"] != figures["groups"]:
        raise SystemExit(f"not what was to be measured: {figures}")
    return (job["finishedAtMs"] - job["startedAtMs"]) / 1000, peak


def _descendants(pid: int) -> list[int]:
    try:
        told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [one for child in map(int, told.split()) for one in (child, *_descendants(child))]


def _peak_mb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")), 0)


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
