"""One platform for a module's tests; each test makes its own namespaces."""

from collections.abc import Iterator

import pytest

from catalog_server.bootstrap import Platform
from tests.api.iceberg_client import Catalog, Http, in_process


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Http, Platform]]:
    with in_process(tmp_path_factory.mktemp("api")) as both:
        yield both


@pytest.fixture
def http(running: tuple[Http, Platform]) -> Http:
    return running[0]


@pytest.fixture
def platform(running: tuple[Http, Platform]) -> Platform:
    return running[1]


@pytest.fixture
def catalog(http: Http) -> Catalog:
    return Catalog(http)
