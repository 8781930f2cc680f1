"""PostgreSQL: every unit is a transaction of its own; any number of processes may share the database.

A write unit holds one advisory lock until its transaction ends: alone, or, marked with `row_locks`, together with
other marked ones. So what a unit found holds until it has committed, as on SQLite. COMMIT is sent by this module
itself, never by the layers below, because whatever fails before it is certainly not applied, and whatever fails while
its answer is awaited is unknown.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

import asyncpg
import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from catalog_server.settings import DatabaseSettings, StartError
from catalog_server.store import idempotency, migrate, postgres_errors
from catalog_server.store.lookup import Lookup, numbered
from catalog_server.store.postgres_errors import Again
from catalog_server.store.units import has_row_locks
from table_format.errors import CommitStateUnknown, Unavailable

P = ParamSpec("P")
T = TypeVar("T")

_log = structlog.get_logger(__name__)

OLDEST_VERSION = 130_000
_DIALECT = "postgresql+asyncpg://"
# Advisory locks are numbers; these two are this program's.
_WRITE_LOCK, _MIGRATION_LOCK = 7_310_579_619_217_408_001, 7_310_579_619_217_408_002
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
BEGIN_ALONE = f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({_WRITE_LOCK})"
_BEGIN_BESIDE = f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock_shared({_WRITE_LOCK})"
# Whoever has switched waiting for the disk off in the server's configuration did not think of table pointers.
_BE_DURABLE = """
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""
_ATTEMPTS = 5
_FIRST_PAUSE_SECONDS = 0.01
_GRACE_SECONDS = 5.0  # that the server has for answering that a statement took too long
_IDLE_IN_TRANSACTION_SECONDS = 10.0  # a process that was stopped must not hold its locks for ever


class PostgresDatabase:
    """One PostgreSQL database. Keeps the promises of `engine.Database`; lives on the event loop of `start`."""

    def __init__(self, url: str, label: str, settings: DatabaseSettings) -> None:
        """`url` is what asyncpg takes, password and all; `label` is the same for people, without secrets."""
        self.label = label
        self._settings = settings
        self._connect_options = connect_options(url, settings)
        self._engine: AsyncEngine | None = None
        self._hot: asyncpg.Pool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._running: set[asyncio.Task[Any]] = set()

    async def start(self) -> str | None:
        """Bring the database to this program's revision and open it; the revision it had, None when it is new.

        Raises:
            DatabaseTooNew: a newer program has written it.
            StartError: it can not be reached or used.
        """
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        try:
            found = await self._migrate()
            self._hot = await asyncpg.create_pool(
                min_size=1,
                max_size=self._settings.hot_pool_size,
                reset=_nothing_to_reset,
                **self._connect_options,
            )
        except postgres_errors.ANY as error:
            reason = postgres_errors.start_reason(error)
            raise StartError(f"database {self.label} can not be used: {reason}") from None
        self._engine = create_async_engine(
            _DIALECT,
            async_creator=self._connect,
            isolation_level="AUTOCOMMIT",  # BEGIN and COMMIT are sent below
            pool_size=self._settings.pool_size,
            max_overflow=0,
            pool_timeout=self._settings.acquire_timeout_seconds,
            pool_reset_on_return=None,
        )
        return found

    async def close(self) -> None:
        """Finish the units that run, then close every connection."""
        engine, self._engine = self._engine, None  # from here on units are refused
        while self._running:
            await asyncio.wait(set(self._running))
        hot, self._hot = self._hot, None
        if hot is not None:
            hot.terminate()  # nothing but reads that nobody waits for
        if engine is not None:
            await engine.dispose()

    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn(connection, …)` in one transaction on one snapshot.

        Raises:
            Unavailable: the database does not answer.
        """
        return await self._to_the_end(self._read(lambda connection: fn(connection, *args, **kwargs)))

    def read_now(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`read`, waiting in the calling thread (for worker threads, never on the event loop).

        Raises:
            Unavailable: the database does not answer.
        """
        return self._from_thread(lambda: self.read(fn, *args, **kwargs))

    async def write(
        self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `fn(connection, …)` as one all-or-nothing unit; returns once it is durable.

        Raises:
            Unavailable: certainly not applied.
            CommitStateUnknown: the answer to COMMIT did not come.
        """
        begin = _BEGIN_BESIDE if has_row_locks(fn) else BEGIN_ALONE
        unit = idempotency.joined(fn)
        return await self._to_the_end(
            self._write(begin, lambda connection: unit(connection, *args, **kwargs))
        )

    def write_now(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`write`, waiting in the calling thread (for worker threads, never on the event loop).

        Raises:
            Unavailable, CommitStateUnknown: as `write`.
        """
        return self._from_thread(lambda: self.write(fn, *args, **kwargs))

    async def hot(self, lookup: Lookup[T]) -> T:
        """Answer a lookup by one prepared statement, without the layers that units go through.

        Raises:
            Unavailable: the database does not answer.
        """
        try:
            return lookup.answer(await self._fetch(lookup))
        except postgres_errors.ANY as error:
            if postgres_errors.is_nul_character(error):
                return lookup.answer([])  # PostgreSQL holds no such text, so nothing can have that name
            self._tell(error)

    async def _fetch(self, lookup: Lookup[Any]) -> list[Any]:
        sql, timeout = numbered(lookup.sql), self._settings.acquire_timeout_seconds
        for _ in range(self._settings.hot_pool_size + 1):
            if self._hot is None:
                raise Unavailable("the catalog's database is closed")
            async with self._hot.acquire(timeout=timeout) as connection:
                try:
                    found: list[Any] = await connection.fetch(sql, *lookup.values)
                except postgres_errors.ANY as error:
                    if not postgres_errors.is_lost(error):
                        raise
                    # It may have been lost long before, when the database was restarted, and all others too.
                else:
                    return found
        raise self._closes_connections()

    async def _read(self, work: Callable[[Connection], T]) -> T:
        for attempt in range(2):
            async with self._transaction(_BEGIN_READ) as (connection, driver):
                try:
                    result = await connection.run_sync(work)
                except postgres_errors.ANY as error:
                    if await self._undo(connection, driver) or attempt:
                        self._tell(error)
                except BaseException:
                    await self._undo(connection, driver)
                    raise
                else:
                    await self._undo(connection, driver)
                    return result
        raise self._closes_connections()

    async def _write(self, begin: str, work: Callable[[Connection], T]) -> T:
        pause = _FIRST_PAUSE_SECONDS
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._attempt(begin, work)
            except Again as again:
                _log.info("database_unit_again", reason=str(again.cause))
            await asyncio.sleep(pause)
            pause *= 2
        try:
            return await self._attempt(begin, work)
        except Again as again:
            self._tell(again.cause)

    async def _attempt(self, begin: str, work: Callable[[Connection], T]) -> T:
        """One try of a unit.

        Raises:
            Again: certainly undone, by something that another try may not meet.
        """
        async with self._transaction(begin) as (connection, driver):
            try:
                result = await connection.run_sync(work)
            except postgres_errors.ANY as error:
                await self._undo(connection, driver)
                if postgres_errors.may_pass(error):
                    raise Again(error) from error
                self._tell(error)
            except BaseException:
                await self._undo(connection, driver)
                raise
            await self._commit(connection, driver)
            return result

    async def _commit(self, connection: AsyncConnection, driver: Any) -> None:
        if driver.is_closed():
            await connection.invalidate()
            raise Unavailable(f"the connection to database {self.label} was lost; nothing was changed")
        try:
            answer = await driver.execute("COMMIT")
        except BaseException as error:
            undone = postgres_errors.undone_by_server(error)
            _log.error("database_commit_failed", error=str(error), undone=undone)
            await connection.invalidate()
            if undone:
                raise Again(error) from error
            if not isinstance(error, Exception):
                raise
            raise CommitStateUnknown(
                "the database failed while committing: the change may or may not be there"
            ) from error
        if answer != "COMMIT":
            # The server undoes a transaction in which a statement failed, and calls that a success.
            raise RuntimeError(f"a unit hid a failed statement: PostgreSQL answered {answer} to COMMIT")

    async def _undo(self, connection: AsyncConnection, driver: Any) -> bool:
        """End the transaction without effect; False when the connection is lost (and so the transaction)."""
        try:
            if not driver.is_closed():
                await driver.execute("ROLLBACK", timeout=_GRACE_SECONDS)
                return True
        except postgres_errors.ANY:
            _log.info("database_connection_dropped", database=self.label)
        await connection.invalidate()
        return False

    @asynccontextmanager
    async def _transaction(self, begin: str) -> AsyncIterator[tuple[AsyncConnection, Any]]:
        """A connection of the pool in a transaction, which the caller ends.

        Raises:
            Unavailable: there is none.
        """
        for _ in range(self._settings.pool_size + 1):  # all may have been lost, when the server was restarted
            connection = await self._taken()
            try:
                driver = await _driver(connection)
                if await self._begun(connection, driver, begin):
                    yield connection, driver
                    return
            finally:
                await connection.close()
        raise self._closes_connections()

    async def _taken(self) -> AsyncConnection:
        if self._engine is None:
            raise Unavailable("the catalog's database is closed")
        try:
            return await self._engine.connect()
        except PoolTimeout as error:
            raise Unavailable(
                f"all {self._settings.pool_size} connections to the database are busy; try again later"
            ) from error
        except postgres_errors.ANY as error:
            raise postgres_errors.unavailable(error, self.label) from error

    async def _begun(self, connection: AsyncConnection, driver: Any, begin: str) -> bool:
        """Whether a transaction could be begun; False when the connection had been lost long before."""
        if driver.is_closed():
            await connection.invalidate()
            return False
        try:
            await driver.execute(begin)
        except postgres_errors.ANY as error:
            if await self._undo(connection, driver):
                self._tell(error)
            return False
        return True

    def _closes_connections(self) -> Unavailable:
        return Unavailable(f"the catalog's database {self.label} closes its connections; nothing was changed")

    def _tell(self, error: BaseException) -> NoReturn:
        """Raise what an error of a unit that changed nothing means."""
        told = postgres_errors.refused(error, self.label)
        raise told from None if told is error else error

    async def _to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it even if whoever waits goes away: half a transaction would be left on the connection."""
        if self._engine is None:
            work.close()
            raise Unavailable("the catalog's database is closed")
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    def _from_thread(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._loop is None:
            raise Unavailable("the catalog's database is closed")
        if threading.get_ident() == self._thread:
            raise RuntimeError("the event loop would wait for itself: await `read` or `write` here")
        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    async def _connect(self) -> asyncpg.Connection:
        connection = await asyncpg.connect(**self._connect_options)
        await connection.execute(_BE_DURABLE)
        return connection

    async def _migrate(self) -> str | None:
        options = {**self._connect_options, "command_timeout": None}
        # However long the migrations take, also those of another process that is a little ahead.
        patient = {"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0"}
        options["server_settings"] = {**options["server_settings"], **patient}

        async def connect() -> Any:
            return await asyncpg.connect(**options)

        engine = create_async_engine(
            _DIALECT, async_creator=connect, isolation_level="AUTOCOMMIT", poolclass=NullPool
        )
        async with engine.connect() as connection:
            driver = await _driver(connection)
            await self._check_server(driver)
            await driver.execute(f"BEGIN; SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            found = await connection.run_sync(migrate.bring_up_to_date, self.label)
            await driver.execute("COMMIT")
        return found

    async def _check_server(self, driver: Any) -> None:
        version, encoding = await driver.fetchrow(
            "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')"
        )
        if version < OLDEST_VERSION:
            raise StartError(
                f"database {self.label} is of PostgreSQL {version // 10_000}: version 13 or newer is needed"
            )
        if encoding != "UTF8":
            raise StartError(f"database {self.label} is encoded in {encoding}: make one with ENCODING 'UTF8'")


def connect_options(url: str, settings: DatabaseSettings) -> dict[str, Any]:
    """What asyncpg is told for each connection."""

    def milliseconds(seconds: float) -> str:
        return str(max(1, round(seconds * 1000)))

    return {
        "dsn": url,
        "timeout": settings.connect_timeout_seconds,
        "command_timeout": settings.statement_timeout_seconds + _GRACE_SECONDS,
        "target_session_attrs": "read-write",  # a standby would answer with pointers of yesterday
        "server_settings": {
            "application_name": "frazil",
            "statement_timeout": milliseconds(settings.statement_timeout_seconds),
            "lock_timeout": milliseconds(settings.busy_timeout_seconds),
            "idle_in_transaction_session_timeout": milliseconds(_IDLE_IN_TRANSACTION_SECONDS),
            "jit": "off",  # worth its while in long queries only
        },
    }


async def _driver(connection: AsyncConnection) -> Any:
    return (await connection.get_raw_connection()).driver_connection


async def _nothing_to_reset(_: Any) -> None:
    """Lookups leave nothing behind on a connection; asyncpg's own reset would cost a round trip each time."""
