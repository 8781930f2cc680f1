"""loadTable and commit rates beside SeaweedFS's Iceberg catalog, in one run on the same machine.

`python -m benchmarks.bench_catalog [--seconds 5]` prints one table: sequential commits, 8 writers on 8 tables, 32
appenders on one table (with reload and retry on 409), loadTable with 10 and 1,000 snapshots at 32 connections.
"""

import argparse
import asyncio
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.http_load import Connection, Result, run
from benchmarks.servers import Server, frazil, seaweedfs

_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": number, "name": f"column_{number}", "required": False, "type": "string"}
        for number in range(1, 31)
    ],
}
_ids = itertools.count(1)
_SUMMARY = {
    "operation": "append",
    **{
        f"{what}-{kind}": "1000"
        for what in ("added", "total")
        for kind in ("data-files", "records", "files-size")
    },
}


async def main() -> None:
    """Measure both servers and print the figures side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--snapshots", type=int, nargs="*", default=[10, 1000])
    options = parser.parse_args()
    rows: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for start in (frazil, seaweedfs):
            home = Path(folder) / start.__name__ / "data"
            home.parent.mkdir()
            with start(home) as server:
                rows[server.name] = await _measure(server, options.seconds, options.snapshots)
    grid = Table(title="requests/s (p50 ms, p99 ms, server CPU ms a request)")
    grid.add_column("")
    for name in rows:
        grid.add_column(name, justify="right")
    for label in next(iter(rows.values())):
        grid.add_row(label, *(figures[label] for figures in rows.values()))
    Console(width=140).print(grid)


async def _measure(server: Server, seconds: float, snapshots: list[int]) -> dict[str, str]:
    setup = Connection(server.base_url)
    await setup.json("POST", "/namespaces", {"namespace": ["bench"]})
    figures: dict[str, str] = {}
    names = [f"t{number}" for number in range(8)]
    for name in [*names, "seq", "hot", *(f"load{count}" for count in snapshots)]:
        await setup.json("POST", "/namespaces/bench/tables", {"name": name, "schema": _SCHEMA})

    async def measure(label: str, workers: int, step: Callable[[Connection, int], Any]) -> None:
        before = server.cpu_seconds()
        result = await run(server.base_url, workers, seconds, step)
        figures[label] = _show(result, server.cpu_seconds() - before)

    await measure("commits, one after the other", 1, lambda link, _: append(link, "seq"))
    await measure("commits, 8 writers on 8 tables", 8, lambda link, number: append(link, names[number]))
    await measure("commits, 32 appenders on one table", 32, lambda link, _: append(link, "hot"))
    for count in snapshots:
        for _ in range(count):
            assert await append(setup, f"load{count}")
        await measure(
            f"loadTable, {count} snapshots, 32 connections",
            32,
            lambda link, _, count=count: load(link, f"load{count}"),
        )
    figures["resident memory, MB"] = f"{server.rss_mb():.0f}"
    setup.close()
    return figures


async def load(link: Connection, table: str) -> bool:
    """One loadTable."""
    status, _ = await link.request("GET", f"/namespaces/bench/tables/{table}")
    return status == 200


async def append(link: Connection, table: str) -> bool:
    """One append commit as an engine sends it: load, then commit on the head seen; reload on 409 until it lands."""
    for _ in range(200):
        loaded: Any = await link.json("GET", f"/namespaces/bench/tables/{table}?snapshots=refs")
        document = loaded["metadata"]
        head = document.get("current-snapshot-id")
        head = None if head in (None, -1) else head
        snapshot_id = next(_ids)
        snapshot = {
            "snapshot-id": snapshot_id,
            "sequence-number": document.get("last-sequence-number", 0) + 1,
            "timestamp-ms": document["last-updated-ms"] + 1,
            "manifest-list": f"{document['location']}/metadata/snap-{snapshot_id}.avro",
            "summary": _SUMMARY,
            "schema-id": 0,
        }
        if head is not None:
            snapshot["parent-snapshot-id"] = head
        status, _body = await link.request(
            "POST",
            f"/namespaces/bench/tables/{table}",
            {
                "requirements": [
                    {"type": "assert-table-uuid", "uuid": document["table-uuid"]},
                    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": head},
                ],
                "updates": [
                    {"action": "add-snapshot", "snapshot": snapshot},
                    {
                        "action": "set-snapshot-ref",
                        "ref-name": "main",
                        "type": "branch",
                        "snapshot-id": snapshot_id,
                    },
                ],
            },
        )
        if status == 200:
            return True
        if status != 409:
            return False
    return False


def _show(result: Result, cpu: float) -> str:
    failed = f", {result.failures} failed" if result.failures else ""
    per_request = 1000 * cpu / max(result.answers, 1)
    return f"{result.per_second:,.0f} ({result.p50_ms:.1f}, {result.p99_ms:.1f}, {per_request:.2f}{failed})"


if __name__ == "__main__":
    asyncio.run(main())
