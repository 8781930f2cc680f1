"""The peak memory of rewriting one group, each in a new process, for groups that ask for much.

`python -m benchmarks.bench_group_memory [--case NAME] [--scale 1.0]` writes the inputs of each case to a temporary
directory, rewrites them as one group in a process of its own, and prints that process's peak resident memory and time.
"""

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from maintenance.compaction.layout import Strategy
from maintenance.compaction.plan_types import PlannedFile, PlannedGroup
from maintenance.compaction.rewrite import Place, execute
from maintenance.records.plan import column_of
from maintenance.records.rewrite import FreeWork
from table_format.clock import SystemClock, SystemIds
from table_format.io.local import LocalObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import Content, DataFile, ManifestEntry, Status
from table_format.metadata.create import new_table
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import FileTask
from table_format.schema.arrow import compute, to_arrow

MB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The inputs of a case."""

    metadata: bytes
    group: PlannedGroup
    tasks: list[FileTask]
    limit: int | None = None
    """When given, each file is freed of rows whose column `at` is lower, instead of being merged with the others."""


class Maker:
    """Writes the files of one table."""

    def __init__(self, folder: Path, *fields: tuple[str, str], order: JsonObject | None = None) -> None:
        self._folder = folder
        self._numbers = count()
        wanted = [
            {"id": number, "name": name, "required": False, "type": kind}
            for number, (name, kind) in enumerate(fields, start=1)
        ]
        self.metadata = new_table(
            schema={"type": "struct", "fields": wanted},
            partition_spec=None,
            write_order=order,
            properties={},
            location=folder.as_uri(),
            uuid=SystemIds().uuid(),
            now_ms=SystemClock().now_ms(),
        )
        self.arrow = to_arrow(self.metadata.schema())

    def file(self, batches: Iterator[pa.Table], **options: Any) -> DataFile:
        """A data file of a row group a table."""
        return self._write(self.arrow, batches, **options)

    def keys(self, batches: Iterator[pa.Table], ids: list[int]) -> DataFile:
        """An equality delete file of these columns."""
        schema = pa.schema([self.arrow.field(number - 1) for number in ids])
        written = self._write(schema, batches)
        return DataFile(
            content=Content.EQUALITY_DELETES,
            file_path=written.file_path,
            spec_id=0,
            partition=(),
            record_count=written.record_count,
            file_size_in_bytes=written.file_size_in_bytes,
            equality_ids=ids,
        )

    def _write(self, schema: pa.Schema, batches: Iterator[pa.Table], **options: Any) -> DataFile:
        path = self._folder / f"{next(self._numbers):04d}.parquet"
        rows = 0
        with pq.ParquetWriter(path, schema, compression="zstd", **options) as writer:
            for table in batches:
                writer.write_table(table.cast(schema), row_group_size=max(table.num_rows, 1))
                rows += table.num_rows
        return DataFile(
            file_path=path.as_uri(),
            spec_id=0,
            partition=(),
            record_count=rows,
            file_size_in_bytes=path.stat().st_size,
        )

    def made(self, data: list[DataFile], deletes: list[DataFile] | None = None, **more: Any) -> Made:
        """The group of all data files, with the deletes on each."""

        def entry(file: DataFile, sequence: int) -> ManifestEntry:
            return ManifestEntry(
                status=Status.ADDED,
                snapshot_id=1,
                sequence_number=sequence,
                file_sequence_number=sequence,
                data_file=file,
            )

        lying = tuple(entry(file, 2) for file in deletes or ())
        tasks = [FileTask(entry(file, 1), lying) for file in data]
        inputs = tuple(
            PlannedFile(
                path=file.file_path,
                size=file.file_size_in_bytes,
                records=file.record_count,
                sequence_number=1,
                delete_files=len(lying),
            )
            for file in data
        )
        group = PlannedGroup(
            spec_id=0,
            partition=(),
            below_bytes=32 * MB,
            target_bytes=64 * MB,
            reason="benchmark",
            rewritten_because="rows are decoded here",
            inputs=inputs,
            **more,
        )
        return Made(metadata=self.metadata.to_bytes(), group=group, tasks=tasks)


def equality_keys(folder: Path, scale: float) -> Made:
    """50 million keys of a number and a text, a tenth of them of rows that are there, over 2 million rows."""
    make = Maker(folder, ("id", "long"), ("customer", "string"), ("amount", "double"))
    keys, rows = int(50_000_000 * scale), int(2_000_000 * scale)
    random = np.random.default_rng(1)

    def of(ids: "np.ndarray[Any, np.dtype[np.int64]]") -> dict[str, Any]:
        texts: Any = pa.array(ids % 1000, pa.int64()).cast(pa.string())
        return {"id": ids, "customer": compute.utf8_lpad(texts, width=16, padding="c")}

    def data(number: int) -> Iterator[pa.Table]:
        ids = np.arange(rows // 4, dtype=np.int64) * 4 + number
        yield pa.table({**of(ids * 9), "amount": random.random(len(ids))})

    def deletes(number: int) -> Iterator[pa.Table]:
        for start in range(0, keys // 10, 1_000_000):
            size = min(1_000_000, keys // 10 - start)
            yield pa.table(of(np.arange(start, start + size, dtype=np.int64) * 100 + number * 10))

    data_files = [make.file(data(number)) for number in range(4)]
    return make.made(data_files, [make.keys(deletes(number), [1, 2]) for number in range(10)])


def columns(folder: Path, scale: float) -> Made:
    """5,000 columns, in 8 files of 10 MB or so."""
    width = max(int(5000 * scale), 10)
    make = Maker(folder, *((f"c{number}", "double" if number % 2 else "string") for number in range(width)))
    random = np.random.default_rng(2)

    def data() -> Iterator[pa.Table]:
        for _ in range(2):
            values = random.random((width, 400))
            texts = [
                pa.array(each) if number % 2 else pa.array((each * 1000).astype(np.int64)).cast(pa.string())
                for number, each in enumerate(values)
            ]
            yield pa.table(texts, names=make.arrow.names)

    return make.made([make.file(data()) for _ in range(8)])


def row_groups(folder: Path, scale: float) -> Made:
    """Two files of one row group each, of 1 GB uncompressed."""
    make = Maker(folder, ("a", "long"), ("b", "double"), ("c", "string"))
    rows = (1 << 30) // 42

    def data() -> Iterator[pa.Table]:
        size = int(rows * scale)
        numbers = np.arange(size, dtype=np.int64)
        texts: Any = pa.array(numbers // 7, pa.int64()).cast(pa.large_string())
        texts = compute.utf8_lpad(texts, width=20, padding="x")
        yield pa.table({"a": numbers, "b": numbers % 1000 / 7.0, "c": texts})

    return make.made([make.file(data(), use_dictionary=False) for _ in range(2)])


def strings(folder: Path, scale: float) -> Made:
    """Strings of 10 MB each in pages of their own, 60 of them in a row group, beside short ones."""
    make = Maker(folder, ("id", "long"), ("text", "string"))
    size = int(10 * MB * scale)
    random = np.random.default_rng(3)

    def data() -> Iterator[pa.Table]:
        texts = [bytes(random.integers(97, 101, size, dtype=np.uint8)).decode() for _ in range(60)]
        short = ["short"] * 1000
        yield pa.table({"id": range(1060), "text": pa.array([*short, *texts], pa.large_string())})

    return make.made([make.file(data(), use_dictionary=False, write_batch_size=1) for _ in range(2)])


def sorted_rows(folder: Path, scale: float) -> Made:
    """Four million rows of random keys, to be sorted."""
    by_id = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
    make = Maker(folder, ("id", "long"), ("text", "string"), order={"order-id": 1, "fields": [by_id]})
    random = np.random.default_rng(4)
    rows = int(1_000_000 * scale)

    def data() -> Iterator[pa.Table]:
        ids = random.integers(0, 1 << 60, rows)
        yield pa.table({"id": ids, "text": pa.array(ids, pa.int64()).cast(pa.string())})

    files = [make.file(data()) for _ in range(4)]
    return make.made(files, strategy=Strategy.Z_ORDER)


def old_rows(folder: Path, scale: float) -> Made:
    """A file of one row group of 1 GB uncompressed, half of whose rows are old."""
    make = Maker(folder, ("a", "long"), ("at", "timestamp"), ("c", "string"))
    size = int((1 << 30) // 42 * scale)

    def data() -> Iterator[pa.Table]:
        numbers = np.arange(size, dtype=np.int64)
        texts: Any = pa.array(numbers // 7, pa.int64()).cast(pa.large_string())
        yield pa.table(
            {"a": numbers, "at": numbers, "c": compute.utf8_lpad(texts, width=20, padding="x")},
        )

    return replace(make.made([make.file(data(), use_dictionary=False)]), limit=size // 2)


CASES: dict[str, Callable[[Path, float], Made]] = {
    "equality-keys": equality_keys,
    "columns": columns,
    "row-groups": row_groups,
    "strings": strings,
    "sorted": sorted_rows,
    "old-rows": old_rows,
}


def rewrite(folder: Path) -> JsonObject:
    """Rewrite the group that lies there, in this process; what it took."""
    made: Made = pickle.loads((folder / "made.pickle").read_bytes())
    clock = SystemClock()
    before, start = _peak(), clock.monotonic()
    files, deleted = _expired(made) if made.limit is not None else _merged(made)
    return {
        "seconds": clock.monotonic() - start,
        "peak": _peak(),
        "before": before,
        "rows": sum(file.record_count for file in files),
        "deleted": deleted,
        "written": sum(file.file_size_in_bytes for file in files),
    }


def _merged(made: Made) -> tuple[Sequence[DataFile], int]:
    place = Place(
        store=LocalObjectStore(),
        metadata=TableMetadata.parse(made.metadata),
        ids=SystemIds(),
        name_prefix="out-",
        numbers=count(),
        opened=set(),
        go_on=lambda: None,
    )
    done = execute(made.group, {task.entry.data_file.file_path: task for task in made.tasks}, place)
    return done.outputs, done.deleted


def _expired(made: Made) -> tuple[Sequence[DataFile], int]:
    metadata = TableMetadata.parse(made.metadata)
    files, old = [], 0
    for number, task in enumerate(made.tasks):
        work = FreeWork(
            task=task,
            metadata=metadata,
            column=column_of(metadata, "at"),
            limit=made.limit or 0,
            share=0.5,
            name=f"out-{number}.parquet",
        )
        ended = work.run(LocalObjectStore(), lambda: None)
        if ended.error is not None or ended.freed is None:
            raise ended.error or AssertionError("it freed nothing")
        files += [] if ended.freed.output is None else [ended.freed.output]
        old += ended.freed.old
    return files, old


def _peak() -> int:
    """The peak resident memory of this process so far, bytes."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


def measure(case: str, folder: Path, scale: float) -> JsonObject:
    """Make the inputs of a case and rewrite them, each in a process of its own; what it took."""

    def run(step: str) -> bytes:
        command = [sys.executable, "-m", "benchmarks.bench_group_memory", step, str(folder)]
        return subprocess.run(
            [*command, "--case", case, "--scale", str(scale)], check=True, stdout=subprocess.PIPE
        ).stdout

    run("--make")
    # Whatever is logged goes before.
    found: JsonObject = json.loads(run("--rewrite").splitlines()[-1])
    return found


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=sorted(CASES))
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full size")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rewrite", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        made = CASES[options.case](options.make, options.scale)
        (options.make / "made.pickle").write_bytes(pickle.dumps(made))
        return
    if options.rewrite:
        sys.stdout.write("\n" + json.dumps(rewrite(options.rewrite)))
        return
    grid = Table("group", "peak MB", "of it before", "seconds", "rows out", "rows deleted", "MB written")
    for case in [options.case] if options.case else CASES:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            found = measure(case, Path(folder), options.scale)
        cells = [found["peak"] / MB, found["before"] / MB]
        grid.add_row(
            case,
            *(f"{cell:.0f}" for cell in cells),
            f"{found['seconds']:.1f}",
            str(found["rows"]),
            str(found["deleted"]),
            f"{found['written'] / MB:.1f}",
        )
    Console(width=120).print(grid)


if __name__ == "__main__":
    main()
