"""What a table with very long metadata takes: memory and CPU of the first load, of loads from memory, of commits.

`python -m benchmarks.bench_memory [--megabytes 100]` makes a table whose metadata file has about so many bytes and
prints the server's resident memory and its peak after each step, as multiples of the file too.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from benchmarks import client
from benchmarks.http_load import Connection
from benchmarks.servers import Server, frazil

MB = 1 << 20


async def main() -> None:
    """Measure the steps one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    wanted = parser.parse_args().megabytes * MB
    grid = Table("", "seconds", "server CPU s", "resident MB", "peak MB", "peak over start, times the file")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder) / "frazil" / "data"
        home.parent.mkdir()
        with frazil(home) as server:
            size = await _make(server, home, wanted)
        with frazil(home) as server:  # a new process: nothing in memory yet
            link = Connection(server.base_url)
            start = server.rss_mb()

            async def step(label: str, work: Awaitable[object]) -> None:
                began, cpu = time.perf_counter(), server.cpu_seconds()
                _reset_peak(server)
                await work
                took = time.perf_counter() - began
                peak = _peak_mb(server)
                cells = [
                    f"{took:.2f}",
                    f"{server.cpu_seconds() - cpu:.2f}",
                    f"{server.rss_mb():.0f}",
                    f"{peak:.0f}",
                ]
                grid.add_row(label, *cells, f"{(peak - start) * MB / size:.1f}")

            await step("start", asyncio.sleep(0))
            await step("first load of refs", client.load(link, "long", "?snapshots=refs"))
            await step("load of everything", client.load(link, "long"))
            head = await client.head_of(link, "long")
            for number in range(1, 4):
                await step(f"commit {number}", client.commit(link, "long", head))
            await step("load of everything again", client.load(link, "long"))
    console = Console(width=120)
    console.print(f"a metadata file of {size / MB:.0f} MB")
    console.print(grid)


async def _make(server: Server, home: Path, wanted: int) -> int:
    """A table registered on a file that was written around the server, as no client would send it in one request."""
    link = Connection(server.base_url)
    await link.json("POST", "/namespaces", {"namespace": ["bench"]})
    head = await client.with_history(link, "model", 100)
    model = await link.json("GET", "/namespaces/bench/tables/model")
    document = model["metadata"]
    assert isinstance(document, dict)
    place = home / "warehouse" / "bench" / "long"
    (place / "metadata").mkdir(parents=True)
    text = orjson.dumps(document).replace(head.location.encode(), place.as_uri().encode())
    document = orjson.loads(text.replace(head.uuid.encode(), b"11111111-2222-4333-8444-555555555555"))
    file = place / "metadata" / "00001-11111111-2222-4333-8444-555555555555.metadata.json"
    file.write_bytes(orjson.dumps(document))
    body = {"name": "long", "metadata-location": file.as_uri()}
    await link.json("POST", "/namespaces/bench/register", body)
    one = len(orjson.dumps(document["snapshots"])) // len(document["snapshots"])
    count = wanted // (one + 52)
    last = document["snapshots"][-1]
    document["snapshots"] = [
        {**last, "snapshot-id": 10**9 + number, "sequence-number": number + 1} for number in range(count)
    ]
    newest = document["snapshots"][-1]
    document["snapshot-log"] = [
        {"timestamp-ms": last["timestamp-ms"], "snapshot-id": row["snapshot-id"]}
        for row in document["snapshots"]
    ]
    document |= {"last-sequence-number": count, "current-snapshot-id": newest["snapshot-id"]}
    document["refs"] = {"main": {"snapshot-id": newest["snapshot-id"], "type": "branch"}}
    for row, parent in zip(document["snapshots"][1:], document["snapshots"], strict=False):
        row["parent-snapshot-id"] = parent["snapshot-id"]
    document["snapshots"][0].pop("parent-snapshot-id", None)
    # In place of the short file: what is registered from outside is bounded more tightly than what has grown here.
    file.write_bytes(orjson.dumps(document))
    link.close()
    return file.stat().st_size


def _reset_peak(server: Server) -> None:
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")


def _peak_mb(server: Server) -> float:
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    asyncio.run(main())
