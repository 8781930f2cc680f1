"""A database of its own for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from catalog_server.store.engine import Database


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(tmp_path / "frazil.db", busy_timeout_seconds=20)
    opened.start()
    yield opened
    await opened.close()
