"""A database of its own for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from catalog_server.store.sqlite import SqliteDatabase


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    opened = SqliteDatabase(tmp_path / "frazil.db", busy_timeout_seconds=20)
    await opened.start()
    yield opened
    await opened.close()
