"""One platform for a module's tests; each test makes its own namespaces."""

from collections.abc import Iterator

import pytest
from catalog_server.bootstrap import Platform
from starlette.testclient import TestClient
from tests.api.iceberg_client import Catalog, in_process


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Platform]]:
    with in_process(tmp_path_factory.mktemp("api")) as both:
        yield both


@pytest.fixture
def http(running: tuple[TestClient, Platform]) -> TestClient:
    return running[0]


@pytest.fixture
def platform(running: tuple[TestClient, Platform]) -> Platform:
    return running[1]


@pytest.fixture
def catalog(http: TestClient) -> Catalog:
    return Catalog(http)
