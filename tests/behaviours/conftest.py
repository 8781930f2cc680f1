"""A whole platform in process, its tables in memory; `faults` makes the object store misbehave."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from catalog_server.bootstrap import Platform, build
from catalog_server.services.handles import TableHandle
from catalog_server.services.principals import ANONYMOUS
from catalog_server.settings import load
from table_format.clock import Clock, SystemClock
from table_format.ident import Namespace, TableIdent
from table_format.io.faults import Failing, Rule
from table_format.io.memory import MemoryObjectStore
from tests.databases import database_url, postgres
from tests.factories.platforms import WAREHOUSE, Starter, create

__all__ = ["database_url", "postgres"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def memory(clock: Clock) -> MemoryObjectStore:
    return MemoryObjectStore(clock)


@pytest.fixture
def faults() -> list[Rule]:
    return []


@pytest.fixture
def clock() -> Clock:
    """The platforms' clock; a module that moves time by hand gives its own."""
    return SystemClock()


@pytest.fixture
def start(
    database_url: str, tmp_path: Path, memory: MemoryObjectStore, faults: list[Rule], clock: Clock
) -> Starter:
    """Starts platforms on the same database and store, as several processes would be."""

    @asynccontextmanager
    async def started(**overrides: Any) -> AsyncIterator[Platform]:
        settings = load(
            None,
            {},
            {
                "server.data_dir": tmp_path / "data",
                "storage.default_bucket_location": WAREHOUSE,
                "database.url": database_url,
                "database.busy_timeout_seconds": 20,
                **overrides,
            },
        )
        failing = Failing(memory, faults)
        failing.rules = faults
        platform = build(settings, clock=clock, store_for=lambda _: failing)
        await platform.start()
        try:
            yield platform
        finally:
            await platform.close()

    return started


@pytest.fixture
async def platform(start: Starter) -> AsyncIterator[Platform]:
    async with start() as started:
        await started.namespaces.create(ANONYMOUS, "default", Namespace(("ns",)), {})
        yield started


@pytest.fixture
async def table(platform: Platform) -> TableHandle:
    return await create(platform, TableIdent.of("ns", "t"))
