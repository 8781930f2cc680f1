"""Requests beside 10, 1,000 and 100,000 sibling tables and up to 10,000 namespaces: none may grow with the siblings.

`python -m benchmarks.bench_scale [--seconds 2]` fills a database directly (names, places, pointers; no files), starts
the server on it and prints, for each size, ms (median) and the server's CPU ms for one request.
"""

import argparse
import asyncio
import itertools
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sqlalchemy import Connection, insert

from benchmarks import client
from benchmarks.http_load import Connection as Link
from benchmarks.http_load import Result, run
from benchmarks.servers import frazil
from catalog_server.bootstrap import build
from catalog_server.services.principals import SYSTEM
from catalog_server.settings import load
from catalog_server.store import schema
from catalog_server.store.keys import key_of
from table_format.ident import Namespace

_BATCH = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How full the catalog is: tables are all in one namespace."""

    namespaces: int
    tables: int


SIZES = (Size(namespaces=10, tables=10), Size(namespaces=1_000, tables=1_000))
SIZES += (Size(namespaces=10_000, tables=100_000),)


async def main() -> None:
    """Measure every size and print the figures side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    seconds = parser.parse_args().seconds
    figures: dict[str, list[str]] = {}
    console = Console(width=140)
    for size in SIZES:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            home = Path(folder) / "frazil" / "data"
            home.parent.mkdir()
            await fill(home, size)
            with frazil(home) as server:
                link = Link(server.base_url)
                for label, workers, step in await _steps(link):
                    before = server.cpu_seconds()
                    result = await run(server.base_url, workers, seconds, step)
                    cpu = server.cpu_seconds() - before
                    figures.setdefault(label, []).append(_show(result.with_cpu(cpu)))
                figures.setdefault("resident memory, MB", []).append(f"{server.rss_mb():.0f}")
                link.close()
        console.print(f"measured {size}")
    grid = Table("", title="median ms, server CPU ms a request (failed)")
    for size in SIZES:
        grid.add_column(f"{size.tables:,} tables, {size.namespaces:,} namespaces", justify="right")
    for label, cells in figures.items():
        grid.add_row(label, *cells)
    console.print(grid)


async def fill(home: Path, size: Size) -> None:
    """Make the database of a server that has so much in it."""
    platform = build(load(None, {}, {"server.data_dir": home}))
    await platform.start()
    bucket = await platform.buckets.get(SYSTEM, "default")
    await platform.database.write(
        _namespaces, bucket.id, ["wide", *(f"n{n:06}" for n in range(size.namespaces))]
    )
    for start in range(0, size.tables, _BATCH):
        numbers = list(range(start, min(start + _BATCH, size.tables)))
        await platform.database.write(_tables, bucket.id, bucket.location, numbers)
    await platform.close()


def _namespaces(connection: Connection, bucket_id: int, names: list[str]) -> None:
    rows = [
        {
            "bucket_id": bucket_id,
            "parent_id": None,
            "key": key_of(Namespace((name,))),
            "parent_key": key_of(Namespace(())),
            "properties": {},
            "created_at_ms": 1,
        }
        for name in names
    ]
    connection.execute(insert(schema.namespaces), rows)


def _tables(connection: Connection, bucket_id: int, root: str, numbers: list[int]) -> None:
    found = connection.execute(
        schema.namespaces.select().where(schema.namespaces.c.key == key_of(Namespace(("wide",))))
    ).one()
    places = {number: f"{root}/wide/filler_{number:06}-0" for number in numbers}
    rows = [
        {
            "id": number + 1,
            "bucket_id": bucket_id,
            "namespace_id": found.id,
            "name": f"filler_{number:06}",
            "table_uuid": f"00000000-0000-0000-0000-{number:012}",
            "location": place,
            "metadata_location": f"{place}/metadata/00000-0.metadata.json",
            "previous_metadata_location": None,
            "version": 1,
            "created_at_ms": 1,
            "updated_at_ms": 1,
        }
        for number, place in places.items()
    ]
    connection.execute(insert(schema.tables), rows)
    known = [{"table_id": number + 1, "place": place} for number, place in places.items()]
    connection.execute(insert(schema.table_places), known)


async def _steps(link: Link) -> list[tuple[str, int, Callable[[Link, int], Awaitable[bool]]]]:
    numbers = itertools.count()
    await client.create(link, "m_probe", "wide")
    head = await client.create(link, "m_commit", "wide")
    first: dict[str, object] = await link.json("GET", "/namespaces/wide/tables?pageToken=&pageSize=5")
    token = first.get("next-page-token") or ""

    async def get(link: Link, path: str, *expected: int) -> bool:
        status, _ = await link.request("GET", path)
        return status in (expected or (200,))

    async def create(link: Link, _: int) -> bool:
        await client.create(link, f"made_{next(numbers):06}", "wide")
        return True

    async def create_namespace(link: Link, _: int) -> bool:
        status, _ = await link.request("POST", "/namespaces", {"namespace": [f"made_{next(numbers):06}"]})
        return status == 200

    async def commit(link: Link, _: int) -> bool:
        return await client.commit(link, "m_commit", head, namespace="wide") == 200

    return [
        ("load a table, 8 connections", 8, lambda link, _: get(link, "/namespaces/wide/tables/m_probe")),
        (
            "a table that is not there, 8 connections",
            8,
            lambda link, _: get(link, "/namespaces/wide/tables/no", 404),
        ),
        (
            "a view that is not there, 8 connections",
            8,
            lambda link, _: get(link, "/namespaces/wide/views/no", 404),
        ),
        (
            "first 100 tables, 8 connections",
            8,
            lambda link, _: get(link, "/namespaces/wide/tables?pageSize=100"),
        ),
        (
            "the 100 tables after a token, 8 connections",
            8,
            lambda link, _: get(link, f"/namespaces/wide/tables?pageSize=100&pageToken={token}"),
        ),
        ("first 100 namespaces, 8 connections", 8, lambda link, _: get(link, "/namespaces?pageSize=100")),
        ("create a table, one after the other", 1, create),
        ("create a namespace, one after the other", 1, create_namespace),
        ("commit, one after the other", 1, commit),
    ]


def _show(figure: Result) -> str:
    failed = f" ({figure.failures} failed)" if figure.failures else ""
    return f"{figure.p50_ms:.1f}, {figure.cpu_ms:.2f}{failed}"


if __name__ == "__main__":
    asyncio.run(main())
