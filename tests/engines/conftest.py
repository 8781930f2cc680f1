"""One real server for a module's engine tests, and DuckDB with its Iceberg extension from wheels."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from tests.process.servers import Server, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as running:
        yield running


def extension(name: str) -> Path:
    """The signed extension of the installed wheel that fits the installed DuckDB."""
    module = importlib.import_module(f"duckdb_extension_{name}")
    assert module.__file__ is not None
    return Path(module.__file__).parent / f"extensions/v{duckdb.__version__}/{name}.duckdb_extension"


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[[], duckdb.DuckDBPyConnection]]:
    """Makes DuckDB connections with the catalog attached as `lake`."""
    opened = []

    def make() -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        for name in ("httpfs", "avro", "iceberg"):
            connection.execute(f"LOAD '{extension(name)}'")
        connection.execute(
            f"ATTACH 'default' AS lake (TYPE ICEBERG, ENDPOINT '{server.iceberg}', AUTHORIZATION_TYPE 'none')"
        )
        opened.append(connection)
        return connection

    yield make
    for connection in opened:
        connection.close()
