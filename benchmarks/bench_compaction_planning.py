"""Planning the compaction of a table of very many data files, as manifests only: seconds and peak memory.

`python -m benchmarks.bench_compaction_planning [--files 1000000] [--per-manifest 5000] [--large]` makes the manifests
in a temporary folder and plans in a fresh process. `--large` makes all files large enough, so that nothing is planned.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from benchmarks import bench_scan_planning
from maintenance.compaction.job import planned_of
from maintenance.policies import COMPACTION, effective
from maintenance.policy_types import CompactionPolicy
from maintenance.ports import JobSettings
from maintenance.report import Report
from table_format.clock import SystemClock
from table_format.io.local import LocalObjectStore
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata

MB = 1 << 20


def plan(path: str, *, large: bool) -> JsonObject:
    """Plan in this process; what it took."""
    store, clock = LocalObjectStore(), SystemClock()
    metadata = TableMetadata.parse(store.get(path))
    document: JsonObject = {"tiers": [{"belowBytes": MB, "targetBytes": 64 * MB}]} if large else {}
    policy = effective(COMPACTION, [{"status": "enabled", "settings": document}], {}, allow_unsafe=True)
    if not isinstance(policy, CompactionPolicy):
        raise TypeError(policy)
    began, cpu = clock.monotonic(), time.process_time()
    found = planned_of(store, metadata, policy, JobSettings(), clock.now_ms(), bool)
    seconds = clock.monotonic() - began
    cpu = time.process_time() - cpu
    if isinstance(found, Report):
        raise TypeError(found)
    planned, _, tasks = found
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]
    groups = getattr(planned, "groups", ())
    return {
        "seconds": seconds,
        "cpu": cpu,
        "peak": int(peak) * 1024,
        "files": planned.data_files,
        "groups": len(groups) + getattr(planned, "remaining_groups", 0),
        "inputs": len(tasks),
    }


def main() -> None:
    """Make, plan, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--per-manifest", type=int, default=5_000)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plan:
        sys.stdout.write(json.dumps(plan(options.plan, large=options.large)))
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = bench_scan_planning.make(Path(folder), options.files, options.per_manifest)
        command = [sys.executable, "-m", "benchmarks.bench_compaction_planning", "--plan", path]
        command += ["--large"] if options.large else []
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    told = [
        f"{found['files']} files: planned in {found['seconds']:.1f} s ({found['cpu']:.1f} s of CPU)",
        f"with a peak of {found['peak'] / MB:.0f} MB;",
        f"{found['groups']} groups, {found['inputs']} inputs chosen for this run",
    ]
    Console(width=120).print(*told)


if __name__ == "__main__":
    main()
