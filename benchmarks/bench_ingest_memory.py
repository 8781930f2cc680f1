"""Peak memory of ingest with many topics, or many partitions of a table open at once, beside its budget.

`python -m benchmarks.bench_ingest_memory [--case topics|partitions] [--count N] [--megabytes M] [--budget MIB]` runs
each case in a process of its own. Brokers and catalog are in that process, too: what they hold before ingest begins is
taken off.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson
import structlog

from table_format.io.local import LocalObjectStore
from tests.factories.ingest_lab import Lab

MIB = 1 << 20
CASES = {"topics": 500, "partitions": 1000}
_RECORD = 1000


def peak_mib() -> float:
    """The most that this process has had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def crowd(case: str, count: int, megabytes: int, budget: int) -> Lab:
    """A lab with so many bytes of records in its log, spread over topics or over partitions of one table."""
    lab = Lab(topic="t0", **{"commit.interval.ms": 900_000})
    keys = lab.keys if case == "topics" else {**lab.keys, "partition.by": "[place]"}
    lab.document = {"patterns": {"all": {"glob": "t*", **keys}}, "memory": {"budget_bytes": budget * MIB}}
    topics = count if case == "topics" else 1
    for topic in range(1, topics):
        lab.cluster.create(f"t{topic}")
    for number in range(megabytes * MIB // _RECORD):
        # Texts that do not repeat, so that files are as large as what they hold.
        text = f"{number * 2654435761 % 2**64:016x}" * ((_RECORD - 40) // 16)
        value = orjson.dumps({"n": number, "place": number % count, "text": text})
        lab.cluster.produce(f"t{number % topics}", value, timestamp_ms=1_700_000_000_000 + number)
    return lab


def measure(case: str, count: int, megabytes: int, budget: int) -> dict[str, float]:
    """Ingest everything here; MiB over what there was before, seconds of processor time, files."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    lab = crowd(case, count, megabytes, budget)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        lab.store = lab.catalog.store = LocalObjectStore()
        lab.catalog.location = Path(directory).as_uri()
        before, began = peak_mib(), time.process_time()
        # Time passes only where nothing is left to be read: all of it is read before anything is due to be committed.
        end = lab.clock.monotonic() + 5
        worker = lab.run(exit_at_end=False, should_stop=lambda: lab.clock.monotonic() > end)
        seconds = time.process_time() - began
        assert worker.stopped == {}, worker.stopped
        files = sum(1 for _ in Path(directory).rglob("*.parquet"))
    return {"over_start_mib": peak_mib() - before, "cpu_seconds": seconds, "files": files}


def apart(case: str, count: int, megabytes: int, budget: int) -> dict[str, float]:
    """The same in a process of its own."""
    line = [sys.executable, "-m", "benchmarks.bench_ingest_memory", "--here", "--case", case]
    line += ["--count", str(count), "--megabytes", str(megabytes), "--budget", str(budget)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print one line per case and budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=sorted(CASES), help="one of them (default: all)")
    parser.add_argument("--count", type=int, help="how many topics or partitions (default: 500, 1000)")
    parser.add_argument("--megabytes", type=int, default=300, help="of records (default: %(default)s)")
    parser.add_argument("--budget", type=int, help="MiB (default: 64 and 512)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    for case in [asked.case] if asked.case else sorted(CASES):
        count = asked.count or CASES[case]
        for budget in [asked.budget] if asked.budget else (64, 512):
            if asked.here:
                print(json.dumps(measure(case, count, asked.megabytes, budget)))
                continue
            found = apart(case, count, asked.megabytes, budget)
            print(
                f"{count:5d} {case:10s} {asked.megabytes} MB  budget {budget:4d} MiB"
                f"  peak {found['over_start_mib']:6.0f} MiB over start"
                f"  {found['cpu_seconds']:6.1f} s of CPU  {found['files']:6.0f} files"
            )


if __name__ == "__main__":
    main()
