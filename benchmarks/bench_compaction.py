"""Compaction rate (MB of input Parquet a second) of a real maintenance job, beside DuckDB and pyarrow on equal files.

The peers only decode and encode (no metrics, no commit, no check of the row count); ours is the whole job, as its row
in the job list tells it: plan, rewrite, check, commit.
"""

import argparse
import shutil
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

MB = 1_000_000


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rows", type=int, default=200_000, help="rows a file (200,000 are about 8 MB)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder) / "frazil" / "data"
        home.parent.mkdir()
        with frazil(home, maintenance=True) as server:
            base = server.base_url.split("/iceberg/")[0]
            _disable(base)
            inputs = _fill(base, options.files, options.rows)
            size = sum(path.stat().st_size for path in inputs)
            copies = [
                shutil.copy(path, Path(folder) / f"input-{number}.parquet")
                for number, path in enumerate(inputs)
            ]
            figures = {
                "DuckDB COPY": _timed(lambda: _duckdb(copies, Path(folder) / "duckdb.parquet")),
                "pyarrow read + write": _timed(lambda: _pyarrow(copies, Path(folder) / "pyarrow.parquet")),
                "frazil job": _job(base),
            }
    grid = Table(title=f"{options.files} files, {size / MB:.0f} MB of Parquet (zstd) into files of 64 MB")
    for column in ("", "seconds", "MB/s", "ratio to ours"):
        grid.add_column(column, justify="right")
    ours = figures["frazil job"]
    for name, seconds in figures.items():
        grid.add_row(name, f"{seconds:.2f}", f"{size / MB / seconds:.1f}", f"{seconds / ours:.2f}")
    Console(width=120).print(grid)


def _disable(base: str) -> None:
    for policy in ("icebergCompaction", "icebergSnapshotManagement", "icebergUnreferencedFileRemoval"):
        answer = requests.put(
            f"{base}/api/v1/buckets/default/policies/{policy}", json={"status": "disabled"}, timeout=30
        )
        answer.raise_for_status()


def _fill(base: str, files: int, rows: int) -> list[Path]:
    catalog = load_catalog("bench", type="rest", uri=f"{base}/iceberg")
    catalog.create_namespace("bench")
    random = np.random.default_rng(7)
    table = None
    for number in range(files):
        batch = _rows(random, number * rows, rows)
        table = table or catalog.create_table("bench.events", batch.schema)
        table.append(batch)
    assert table is not None
    return [Path(task.file.file_path.removeprefix("file://")) for task in table.scan().plan_files()]


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


def _job(base: str) -> float:
    """Seconds from the job's start to its end, as its row tells."""
    policy = f"{base}/api/v1/buckets/default/policies/icebergCompaction"
    requests.put(policy, json={"status": "enabled"}, timeout=30).raise_for_status()
    jobs = f"{base}/api/v1/buckets/default/namespaces/bench/tables/events/jobs"
    asked = requests.post(jobs, json={"kind": "icebergCompaction", "dryRun": False}, timeout=30)
    asked.raise_for_status()
    while True:
        job: dict[str, Any] = requests.get(f"{base}/api/v1/jobs/{asked.json()['id']}", timeout=30).json()
        if job["state"] in ("done", "failed"):
            break
        time.sleep(0.1)
    if job["state"] == "failed" or job["report"]["outcome"] != "done":
        raise SystemExit(f"the job did not compact: {job}")
    return (job["finishedAtMs"] - job["startedAtMs"]) / 1000


if __name__ == "__main__":
    main()
