"""Asks the demo's questions through two independent Iceberg clients: DuckDB's own over REST, and PyIceberg."""

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.catalog import load_catalog

from examples.demo.flights import Answers, answer


class DuckDb:
    """DuckDB 1.5 with its iceberg extension, loaded from installed wheels (nothing is downloaded)."""

    name = "DuckDB"

    def __init__(self, base_url: str) -> None:
        self._connection = duckdb.connect()
        self._connection.execute(
            "SET autoinstall_known_extensions=false; SET autoload_known_extensions=false"
        )
        for extension in ("httpfs", "avro", "iceberg"):
            self._connection.execute(f"LOAD '{_extension_file(extension)}'")
        self._connection.execute(
            f"ATTACH 'default' AS lake (TYPE ICEBERG, ENDPOINT '{base_url}/iceberg', AUTHORIZATION_TYPE 'none')"
        )

    def ask(self, table: str) -> Answers:
        """All questions, each one SQL statement."""
        source = f"lake.{table}"
        totals = self._all(f"SELECT count(*), sum(distance) FROM {source}")[0]
        carriers = self._all(f"SELECT carrier, count(*), sum(distance) FROM {source} GROUP BY 1 ORDER BY 1")
        months = self._all(f'SELECT "month", count(*), sum(dep_delay) FROM {source} GROUP BY 1 ORDER BY 1')
        routes = self._all(
            f"SELECT origin, dest, count(*) FROM {source} GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 10"
        )
        return Answers(
            rows=int(totals[0]),
            distance=int(totals[1]),
            by_carrier={name: (int(count), int(miles)) for name, count, miles in carriers},
            by_month={int(month): (int(count), int(delay)) for month, count, delay in months},
            top_routes=[(origin, dest, int(count)) for origin, dest, count in routes],
        )

    def _all(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()


class PyIceberg:
    """PyIceberg 0.12 over the same catalog URI."""

    name = "PyIceberg"

    def __init__(self, base_url: str) -> None:
        self._catalog = load_catalog("frazil", type="rest", uri=f"{base_url}/iceberg", warehouse="default")

    def ask(self, table: str) -> Answers:
        """All questions over one scan of the columns they need."""
        columns = ("carrier", "distance", "month", "dep_delay", "origin", "dest", "flight")
        return answer(self._catalog.load_table(table).scan(selected_fields=columns).to_arrow())


def timed(ask: Callable[[str], Answers], table: str, *, tries: int = 3) -> tuple[Answers, float]:
    """The answers and the best of some tries, in milliseconds."""
    best, result = float("inf"), None
    for _ in range(tries):
        start = time.perf_counter()
        result = ask(table)
        best = min(best, (time.perf_counter() - start) * 1000)
    assert result is not None
    return result, best


def _extension_file(name: str) -> Path:
    module = importlib.import_module(f"duckdb_extension_{name}")
    assert module.__file__ is not None
    found = list(
        Path(module.__file__).parent.glob(f"extensions/v{duckdb.__version__}/{name}.duckdb_extension")
    )
    if not found:
        raise SystemExit(
            f"the DuckDB extension {name} does not fit DuckDB {duckdb.__version__}: run `make setup`"
        )
    return found[0]
