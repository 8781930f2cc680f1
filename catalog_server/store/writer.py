"""The writer thread: takes units of work from a queue and commits as many at once as have piled up.

Each unit runs in its own savepoint, so one that fails does not touch its neighbours. A unit's future resolves
after the COMMIT of its batch, never before. A failed COMMIT is reported as what it is: certainly undone, or
unknown.
"""

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from table_format.errors import CommitStateUnknown, Unavailable

T = TypeVar("T")

_log = structlog.get_logger(__name__)

# Refused for want of a lock: nothing of the transaction can have reached the file.
_NOT_APPLIED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@dataclass(frozen=True, slots=True, eq=False)
class _Unit:
    work: Callable[[Connection], Any]
    future: "Future[Any]" = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Done:
    value: Any


class _BatchLost(Exception):
    """SQLite undid the whole transaction by itself (disk full, for example), before any COMMIT."""


class Writer:
    """One thread, one connection, one queue."""

    def __init__(self, engine: Engine, *, max_batch: int, max_queued: int) -> None:
        self._engine = engine
        self._max_batch = max_batch
        self._queue: queue.Queue[_Unit | None] = queue.Queue(max_queued)
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._closed = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="db-write", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish what is queued and stop; later units are refused."""
        self._closed.set()
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        while not self._queue.empty():  # came in between the two lines above
            unit = self._queue.get_nowait()
            if unit is not None:
                unit.future.set_exception(Unavailable("the server is stopping; nothing was changed"))

    def submit(self, work: Callable[[Connection], T]) -> "Future[T]":
        """Queue a unit of work.

        Raises:
            Unavailable: too many units wait, or the writer is stopping.
        """
        unit = _Unit(work)
        if self._closed.is_set():
            raise Unavailable("the server is stopping; try again")
        try:
            self._queue.put_nowait(unit)
        except queue.Full:
            raise Unavailable("too many writes are waiting for the database; try again later") from None
        return unit.future

    def _run(self) -> None:
        while self._run_next():
            pass
        self._discard()

    def _run_next(self) -> bool:
        """Wait for a batch and run it; whether there may be more.

        A call of its own: while the thread waits it must not keep the last batch, with whole documents in it, alive.
        """
        first = self._queue.get()
        batch: list[_Unit] = []
        stopping = first is None
        if first is not None:
            batch.append(first)
        while len(batch) < self._max_batch:
            try:
                unit = self._queue.get_nowait()
            except queue.Empty:
                break
            if unit is None:
                stopping = True
            else:
                batch.append(unit)
        units = [unit for unit in batch if unit.future.set_running_or_notify_cancel()]
        try:
            self._run_batch(units)
        except Exception as error:  # noqa: BLE001 - top of the loop: a dead writer would hang every request
            _log.exception("database_writer_failed")
            self._discard()
            self._tell_unknown(units, error)
        return not stopping

    @staticmethod
    def _tell_unknown(units: list[_Unit], error: Exception) -> None:
        for unit in units:
            if not unit.future.done():
                told = CommitStateUnknown("the database writer failed: the change may or may not be there")
                told.__cause__ = error
                unit.future.set_exception(told)

    def _run_batch(self, units: list[_Unit]) -> None:
        if not units:
            return
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
            connection = self._connection
            transaction = connection.begin()
        except DBAPIError as error:
            self._discard()
            self._refuse(units, error)
            return
        try:
            outcomes = [_attempt(connection, unit) for unit in units]
        except (_BatchLost, sqlite3.Error) as error:
            self._discard()
            self._refuse(units, error)
            return
        try:
            transaction.commit()
        except Exception as error:  # noqa: BLE001 - top of the writer's loop: whatever it is, every unit is told
            outcomes = self._after_failed_commit(connection, outcomes, error)
        for unit, outcome in zip(units, outcomes, strict=True):
            if isinstance(outcome, _Done):
                unit.future.set_result(outcome.value)
            else:
                unit.future.set_exception(outcome)

    def _after_failed_commit(
        self, connection: Connection, outcomes: list[_Done | Exception], error: Exception
    ) -> list[_Done | Exception]:
        """Units that had succeeded until then: certainly undone, or unknown."""
        undone = _code(error) in _NOT_APPLIED and _roll_back(connection)
        self._discard()
        _log.error("database_commit_failed", error=str(error), undone=undone, units=len(outcomes))
        told: Exception = (
            Unavailable("the database is busy; nothing was changed")
            if undone
            else CommitStateUnknown(
                "the database failed while committing: the change may or may not be there"
            )
        )
        return [told if isinstance(outcome, _Done) else outcome for outcome in outcomes]

    def _refuse(self, units: list[_Unit], error: Exception) -> None:
        _log.warning("database_write_refused", error=str(error), units=len(units))
        cause = error.orig if isinstance(error, DBAPIError) else error
        for unit in units:
            unit.future.set_exception(
                Unavailable(f"the catalog's database takes no writes now ({cause}); nothing was changed")
            )

    def _discard(self) -> None:
        """Drop the connection, whatever state it is in; SQLite undoes what was not committed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


def _attempt(connection: Connection, unit: _Unit) -> _Done | Exception:
    # Straight on the driver: SQLAlchemy would compile these three words anew for every unit.
    driver = _driver(connection)
    driver.execute("SAVEPOINT unit")
    try:
        value = unit.work(connection)
    except Exception as error:
        if not driver.in_transaction:
            raise _BatchLost(str(error)) from error
        driver.execute("ROLLBACK TO unit")
        driver.execute("RELEASE unit")
        if isinstance(error, DBAPIError) and isinstance(error.orig, sqlite3.OperationalError):
            return Unavailable(
                f"the catalog's database takes no writes now ({error.orig}); nothing was changed"
            )
        return error
    driver.execute("RELEASE unit")
    return _Done(value)


def _driver(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection):
        raise TypeError("the writer needs the sqlite3 driver")
    return driver


def _roll_back(connection: Connection) -> bool:
    """Whether a transaction was still open and could be undone."""
    driver = _driver(connection)
    if not driver.in_transaction:
        return False
    try:
        driver.execute("ROLLBACK")
    except sqlite3.Error:
        return False
    return True


def _code(error: Exception) -> int | None:
    """SQLite's primary result code."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, sqlite3.Error):
        return None
    code = getattr(cause, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF
