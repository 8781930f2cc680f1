"""SQLite: reads on a few threads, all writes on one thread that shares each durable commit among many.

A write's result is handed out only after COMMIT. Not here: what the statements say.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from catalog_server.settings import StartError
from catalog_server.store import idempotency, migrate
from catalog_server.store.lookup import Lookup
from catalog_server.store.writer import Writer
from table_format.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")


class SqliteDatabase:
    """One SQLite file; several processes may have it open. Keeps the promises of `engine.Database`."""

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout_seconds: float = 5.0,
        readers: int = 4,
        max_batch: int = 128,
        max_queued_writes: int = 10_000,
    ) -> None:
        self.path = path
        self._busy_timeout_ms = int(busy_timeout_seconds * 1000)
        self.reader_engine = self._engine("BEGIN", pool_size=readers)
        self.writer_engine = self._engine("BEGIN IMMEDIATE", pool_size=1)
        self._readers = ThreadPoolExecutor(readers, thread_name_prefix="db-read")
        self._writer = Writer(self.writer_engine, max_batch=max_batch, max_queued=max_queued_writes)
        self._hot: sqlite3.Connection | None = None

    async def start(self) -> str | None:
        """Bring the database to this program's revision and open it; the revision it had, None when it is new.

        Raises:
            DatabaseTooNew: a newer program has written it.
            StartError: it can not be opened.
        """
        found = await asyncio.to_thread(self._open)
        self._writer.start()
        return found

    def _open(self) -> str | None:
        try:
            found = migrate.upgrade(self.writer_engine, self.path)
            self._hot = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._hot.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")
            self._hot.execute("PRAGMA query_only = ON")
        except (DBAPIError, sqlite3.Error, OSError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise StartError(f"database {self.path} can not be opened: {cause}") from error
        return found

    async def close(self) -> None:
        """Finish the writes that wait, then close everything."""
        await asyncio.to_thread(self._writer.stop)
        self._readers.shutdown(wait=True)
        if self._hot is not None:
            self._hot.close()
            self._hot = None
        self.reader_engine.dispose()
        self.writer_engine.dispose()

    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn(connection, …)` in one read transaction on a reader thread.

        Raises:
            Unavailable: the database does not answer.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, lambda: self.read_now(fn, *args, **kwargs))

    def read_now(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`read` in the calling thread (for worker threads, never on the event loop).

        Raises:
            Unavailable: the database does not answer.
        """
        try:
            with self.reader_engine.connect() as connection, connection.begin():
                return fn(connection, *args, **kwargs)
        except OperationalError as error:
            raise Unavailable(f"the catalog's database does not answer: {error.orig}") from error

    async def write(
        self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `fn(connection, …)` as one all-or-nothing unit; returns once it is durable.

        An exception of `fn` undoes the unit and comes out here.

        Raises:
            Unavailable: certainly not applied.
            CommitStateUnknown: the final COMMIT failed in a way that leaves its outcome open.
        """
        unit = idempotency.joined(fn)
        return await asyncio.wrap_future(
            self._writer.submit(lambda connection: unit(connection, *args, **kwargs))
        )

    def write_now(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`write`, waiting in the calling thread (for worker threads, never on the event loop).

        Raises:
            Unavailable, CommitStateUnknown: as `write`.
        """
        return self._writer.submit(lambda connection: fn(connection, *args, **kwargs)).result()

    async def hot(self, lookup: Lookup[T]) -> T:
        """Answer a lookup right here, on the event loop: microseconds, no thread.

        Raises:
            Unavailable: the database does not answer.
        """
        if self._hot is None:
            raise Unavailable("the catalog's database is closed")
        try:
            found = self._hot.execute(lookup.sql, lookup.values).fetchall()
        except sqlite3.OperationalError as error:
            raise Unavailable(f"the catalog's database does not answer: {error}") from error
        return lookup.answer(found)

    def _engine(self, begin: str, pool_size: int) -> Engine:
        engine = create_engine(
            URL.create("sqlite", database=str(self.path)),
            poolclass=QueuePool,
            pool_size=pool_size,
            max_overflow=-1,
            connect_args={"check_same_thread": False},
        )
        busy_timeout_ms = self._busy_timeout_ms

        def connected(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
            connection.isolation_level = None  # transactions are begun by `begun` below, not by the driver
            connection.execute(f"PRAGMA busy_timeout = {busy_timeout_ms}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")

        def begun(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        event.listen(engine, "connect", connected)
        event.listen(engine, "begin", begun)
        return engine
