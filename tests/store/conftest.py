"""A database of its own for each test, on each kind."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from sqlalchemy import Connection, create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from catalog_server.settings import load
from catalog_server.store import buckets, schema
from catalog_server.store.engine import Database, choose
from catalog_server.store.sqlite import SqliteDatabase
from tests.databases import Elsewhere, database_url, postgres
from tests.store.openers import Opener

__all__ = ["database_url", "postgres"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def opened(database_url: str, tmp_path: Path) -> AsyncIterator[Opener]:
    """Opens the test's database, as many times as several processes would."""
    async with AsyncExitStack() as stack:

        async def open_another(**settings: Any) -> Database:
            database = _chosen(database_url, tmp_path, **settings)
            await database.start()
            stack.push_async_callback(database.close)
            return database

        yield open_another


def _chosen(url: str, data_dir: Path, **settings: Any) -> Database:
    wanted = {f"database.{name}": value for name, value in settings.items()}
    wanted = {"database.busy_timeout_seconds": 20, **wanted, "database.url": url}
    return choose(load(None, {}, {"server.data_dir": data_dir, **wanted}))


@pytest.fixture
def write_elsewhere(database_url: str, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Runs a write unit to its end as another process would, whatever this thread is in the middle of."""
    database = _chosen(database_url, tmp_path, busy_timeout_seconds=0.2)
    with start_blocking_portal() as portal:
        portal.call(database.start)
        yield lambda *arguments: portal.call(database.write, *arguments)
        portal.call(database.close)


@pytest.fixture
async def database(opened: Opener) -> Database:
    return await opened()


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(tmp_path / "frazil.db", busy_timeout_seconds=20)
    await database.start()
    yield database
    await database.close()


@pytest.fixture
def connection(database_url: str, tmp_path: Path) -> Iterator[Connection | Elsewhere]:
    """A connection in a transaction; there is a bucket "b" with the id 1."""
    if database_url.startswith("sqlite"):
        engine = create_engine(f"sqlite:///{tmp_path}/rows.db")
        schema.METADATA.create_all(engine)
        with engine.begin() as opened:
            opened.exec_driver_sql("PRAGMA foreign_keys = ON")
            buckets.create(opened, "b", "s3://b", {}, 1)
            yield opened
        engine.dispose()
        return
    asynchronous = create_async_engine(database_url, poolclass=NullPool)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(asynchronous.begin()) as inner:
        elsewhere = Elsewhere(inner, portal)
        elsewhere.run(lambda connection: buckets.create(connection, "b", "s3://b", {}, 1))
        yield elsewhere
