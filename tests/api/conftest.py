"""One server for a module's tests; each test makes its own namespaces.

The server is of one of four kinds: in this process or a real one over HTTP, on SQLite or on PostgreSQL. All of them are
asked by `make test-blackbox`; otherwise only the modules in `_EVERYWHERE` are run on more than the first kind. What
looks inside the server (the fixture `platform`), or sends what HTTP clients refuse to, runs in process only.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from catalog_server.bootstrap import Platform
from tests.api.iceberg_client import Catalog, Http, in_process, over_http
from tests.databases import postgres
from tests.postgres import Postgres

__all__ = ["postgres"]

_IN_PROCESS = ("sqlite", "postgres")
_OVER_HTTP = ("http-sqlite", "http-postgres")
_EVERYWHERE = {
    "test_iceberg_commits",
    "test_iceberg_idempotency",
    "test_iceberg_names",
    "test_iceberg_namespaces",
    "test_iceberg_tables",
    "test_iceberg_views",
    "test_s3tables_concurrency",
    "test_s3tables_tables",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" not in metafunc.fixturenames:
        return
    marked = metafunc.definition.get_closest_marker("in_process") is not None
    inside = marked or "platform" in metafunc.fixturenames
    if "FRAZIL_TEST_TARGETS" in os.environ:
        wanted = os.environ["FRAZIL_TEST_TARGETS"].split(",")
    elif metafunc.module.__name__.rpartition(".")[2] in _EVERYWHERE:
        wanted = ["sqlite", "postgres"] if inside else ["sqlite", "http-postgres"]
    else:
        wanted = ["sqlite"]
    kinds = [kind for kind in wanted if kind in _IN_PROCESS or (kind in _OVER_HTTP and not inside)]
    metafunc.parametrize("target", kinds, scope="module")


@pytest.fixture(scope="module")
def running(
    target: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[Http, Platform | None]]:
    directory: Path = tmp_path_factory.mktemp("api")
    with ExitStack() as stack:
        url = ""
        if target.endswith("postgres"):
            server: Postgres = request.getfixturevalue("postgres")
            url = server.url(stack.enter_context(server.lent()))
        if target in _IN_PROCESS:
            yield stack.enter_context(in_process(directory, **{"database.url": url}))
        else:
            yield stack.enter_context(over_http(directory, FRAZIL_DATABASE__URL=url)), None


@pytest.fixture
def http(running: tuple[Http, Platform | None]) -> Http:
    return running[0]


@pytest.fixture
def platform(running: tuple[Http, Platform | None]) -> Platform:
    assert running[1] is not None
    return running[1]


@pytest.fixture
def catalog(http: Http) -> Catalog:
    return Catalog(http)
