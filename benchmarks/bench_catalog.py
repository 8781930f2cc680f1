"""Loads, commits and listings beside the peers, in one run on the same machine.

`python -m benchmarks.bench_catalog [--seconds 4] [--peers reference nessie seaweedfs] [--markdown FILE]` prints, for
each kind of request: good ones a second, median ms, 99th percentile ms, the server's CPU ms for one; and our rate
divided by the fastest peer's. A step of the append rows is what a client does for one append: load, commit, and again
after a 409 as Iceberg's clients do by default.
"""

import argparse
import asyncio
import datetime
import platform
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks import client
from benchmarks.http_load import Connection, Result, run
from benchmarks.servers import PEERS, CannotRun, Server, frazil

Figures = dict[str, Result | float]
Step = Callable[[Connection, int], Awaitable[bool]]

_HISTORIES = (10, 1_000, 9_000, 10_000)
_LISTED = 1_000


async def main() -> None:
    """Measure the servers one after the other and print the figures side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument(
        "--warm-up", type=float, default=8.0, help="seconds of loads and appends before measuring"
    )
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--markdown", type=Path, help="write the figures there too")
    options = parser.parse_args()
    found: dict[str, Figures] = {}
    console = Console(width=170)
    starts = {"frazil": frazil, **{name: PEERS[name] for name in options.peers}}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for name, start in starts.items():
            home = Path(folder) / name / "data"
            home.parent.mkdir()
            try:
                with start(home) as server:
                    found[server.name] = await _measure(server, options, console)
            except (CannotRun, RuntimeError, OSError, asyncio.IncompleteReadError) as error:
                if name == "frazil":
                    raise
                console.print(f"{name} is left out: {error!r}")
    header, rows = _grid(found)
    grid = Table(*header, title="good requests/s (p50 ms, p99 ms, server CPU ms a request)")
    for row in rows:
        grid.add_row(*row)
    console.print(grid)
    if options.markdown:
        options.markdown.write_text(_markdown(header, rows), encoding="utf-8")


async def _measure(server: Server, options: argparse.Namespace, console: Console) -> Figures:
    link = Connection(server.base_url)
    await link.json("POST", "/namespaces", {"namespace": ["bench"]})
    figures: Figures = {}

    async def measure(label: str, workers: int, step: Step, most: int | None = None) -> None:
        before = server.cpu_seconds()
        result = await run(server.base_url, workers, options.seconds, step, most=most)
        figures[label] = result.with_cpu(server.cpu_seconds() - before)
        console.print(f"{server.name}: {label}: {_show(figures[label])}")

    for name in [*(f"t{number}" for number in range(8)), *(f"s{number}" for number in range(16)), "hot"]:
        await client.create(link, name)
    # A Java server compiles what it does often; what is measured is what it does after that.
    await client.create(link, "warm")
    await run(server.base_url, 4, options.warm_up, lambda link, _: client.append(link, "warm"))
    await run(server.base_url, 8, options.warm_up / 2, lambda link, _: client.load(link, "warm"))
    turn = iter(range(1_000_000))
    await measure(
        "append, one after the other", 1, lambda link, _: client.append(link, f"s{next(turn) % 16}")
    )
    await measure("append, 8 writers on 8 tables", 8, lambda link, number: client.append(link, f"t{number}"))
    await measure("append, 32 writers on one table", 32, lambda link, _: client.append(link, "hot"))
    await _histories(link, measure)
    await measure("HEAD of a table, 32 connections", 32, _head)
    await measure("a view that is not there, 32 connections", 32, _no_view)
    for number in range(_LISTED):
        if number == 0:
            await link.json("POST", "/namespaces", {"namespace": ["listed"]})
        await client.create(link, f"listed_{number:04}", "listed")
    await measure(f"list {_LISTED:,} tables, 8 connections", 8, _list)
    figures["resident memory after that, MB"] = server.rss_mb()
    link.close()
    return figures


async def _histories(link: Connection, measure: Callable[..., Awaitable[None]]) -> None:
    for count in _HISTORIES:
        table = f"history{count}"
        head = await client.with_history(link, table, count)

        async def next_commit(link: Connection, _: int, table: str = table, head: client.Head = head) -> bool:
            return await client.commit(link, table, head) == 200

        async def load(link: Connection, _: int, table: str = table) -> bool:
            return await client.load(link, table)

        async def load_refs(link: Connection, _: int, table: str = table) -> bool:
            return await client.load(link, table, "?snapshots=refs")

        if count < 10_000:
            await measure(f"load, {count:,} snapshots, 32 connections", 32, load)
        if count >= 9_000:
            await measure(f"load, {count:,} snapshots, one connection", 1, load)
            await measure(f"load refs only, {count:,} snapshots, one connection", 1, load_refs)
        await measure(f"commit alone, {count:,} snapshots", 1, next_commit, most=50)


async def _head(link: Connection, _: int) -> bool:
    status, _body = await link.request("HEAD", "/namespaces/bench/tables/t0")
    return status in (200, 204)


async def _no_view(link: Connection, _: int) -> bool:
    status, _body = await link.request("GET", "/namespaces/bench/views/none")
    return status == 404


async def _list(link: Connection, _: int) -> bool:
    status, _body = await link.request("GET", "/namespaces/listed/tables")
    return status == 200


def _grid(found: dict[str, Figures]) -> tuple[list[str], list[list[str]]]:
    header = ["", *found, "ratio"]
    rows = []
    ours, *peers = found.values()
    for label, figure in ours.items():
        cells = [_show(figures[label]) for figures in found.values()]
        rows.append([label, *cells, _ratio(figure, [figures[label] for figures in peers])])
    return header, rows


def _show(figure: Result | float) -> str:
    if not isinstance(figure, Result):
        return f"{figure:,.0f}"
    failed = f", {figure.failures} failed" if figure.failures else ""
    rate = f"{figure.per_second:,.0f}"
    return f"{rate} ({figure.p50_ms:.1f}, {figure.p99_ms:.1f}, {figure.cpu_ms:.2f}{failed})"


def _ratio(ours: Result | float, peers: list[Result | float]) -> str:
    """Our rate over the fastest peer's; of memory, the smallest peer's over ours."""
    if not isinstance(ours, Result):
        sizes = [peer for peer in peers if not isinstance(peer, Result)]
        return f"{min(sizes) / ours:.1f}" if sizes else ""
    fastest = max((peer.per_second for peer in peers if isinstance(peer, Result)), default=0.0)
    return f"{ours.per_second / fastest:.1f}" if fastest else ""


def _markdown(header: list[str], rows: list[list[str]]) -> str:
    today = datetime.datetime.now(tz=datetime.UTC).date()
    lines = [f"Measured {today} on {platform.system()} {platform.machine()}.", ""]
    lines += [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows]) + "\n"


if __name__ == "__main__":
    uvloop.run(main())
