"""Fixtures: the kinds of database that the product runs on. Import them into a conftest."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pytest
from anyio.from_thread import BlockingPortal
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection

from catalog_server.store.engine import Database
from catalog_server.store.postgres import BEGIN_ALONE, PostgresDatabase
from catalog_server.store.sqlite import SqliteDatabase
from tests.postgres import Postgres, free_port, running

T = TypeVar("T")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The one server of this process of the suite."""
    with running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind, of this program's revision or without any tables yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/frazil.db"
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.lent() as name:
        yield server.url(name)


class Elsewhere:
    """A connection for tests that are not async: its statements run on an event loop in another thread."""

    def __init__(self, connection: AsyncConnection, portal: BlockingPortal) -> None:
        self._connection = connection
        self._portal = portal
        self.dialect = connection.dialect

    def run(self, work: Callable[[Connection], T]) -> T:
        result: T = self._portal.call(self._connection.run_sync, work)
        return result

    def execute(self, *arguments: Any) -> Any:
        return self.run(lambda inner: inner.execute(*arguments))

    def scalar(self, *arguments: Any) -> Any:
        return self.run(lambda inner: inner.scalar(*arguments))

    def scalars(self, *arguments: Any) -> Any:
        return self.run(lambda inner: inner.scalars(*arguments))

    def exec_driver_sql(self, *arguments: Any) -> Any:
        return self.run(lambda inner: inner.exec_driver_sql(*arguments))


class _Losing:
    """A driver's connection that is lost while the answer to COMMIT is awaited."""

    def __init__(self, driver: Any, *, applied: bool) -> None:
        self._driver = driver
        self._applied = applied

    def is_closed(self) -> bool:
        return False

    async def execute(self, sql: str) -> str:
        if self._applied:
            await self._driver.execute(sql)
        self._driver.terminate()
        raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")


@contextmanager
def failing_commits(database: Database, *, applied: bool) -> Iterator[None]:
    """The database fails at COMMIT; `applied` tells whether it had come through before."""
    if isinstance(database, PostgresDatabase):
        inner = database._commit

        async def lose(connection: AsyncConnection, driver: Any) -> None:
            await inner(connection, _Losing(driver, applied=applied))

        database._commit = lose  # type: ignore[method-assign]
        yield
        database._commit = inner  # type: ignore[method-assign]
        return

    def fail(connection: Connection) -> None:
        if applied:
            connection.exec_driver_sql("COMMIT")
        raise OperationalError("COMMIT", {}, sqlite3.OperationalError("disk I/O error"))

    assert isinstance(database, SqliteDatabase)
    event.listen(database.writer_engine, "commit", fail)
    yield
    event.remove(database.writer_engine, "commit", fail)


@asynccontextmanager
async def locked(database: Database) -> AsyncIterator[None]:
    """Another process is in the middle of a write unit."""
    if isinstance(database, PostgresDatabase):
        other = await asyncpg.connect(database._connect_options["dsn"])
        await other.execute(BEGIN_ALONE)
        yield
        await other.execute("ROLLBACK")
        await other.close()
        return
    assert isinstance(database, SqliteDatabase)
    beside = sqlite3.connect(database.path, isolation_level=None)
    beside.execute("BEGIN IMMEDIATE")
    yield
    beside.execute("ROLLBACK")
    beside.close()


@asynccontextmanager
async def away(database: Database) -> AsyncIterator[None]:
    """The database can not be reached."""
    if isinstance(database, PostgresDatabase):
        assert database._engine is not None
        options = dict(database._connect_options)
        database._connect_options["host"], database._connect_options["port"] = "127.0.0.1", free_port()
        await database._engine.dispose()
        yield
        database._connect_options.clear()
        database._connect_options.update(options)
        return
    assert isinstance(database, SqliteDatabase)
    renamed = database.path.with_name("moved")
    database.path.rename(renamed)
    database.reader_engine.dispose()
    yield
    database.path.unlink(missing_ok=True)
    renamed.rename(database.path)
    database.reader_engine.dispose()
