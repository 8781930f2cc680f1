"""SQLite: what a write promises in a batch, and when the disk or another process is in the way."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

from catalog_server.store import buckets, pointers
from catalog_server.store.sqlite import SqliteDatabase
from table_format.errors import CommitStateUnknown, Unavailable
from tests.databases import failing_commits

pytestmark = pytest.mark.anyio


def create(connection: Connection, name: str) -> str:
    return buckets.create(connection, name, f"memory://{name}", {}, 1).name


def names(connection: Connection) -> list[str]:
    return [row.name for row in buckets.page(connection, None, None)]


def raise_value_error(connection: Connection, name: str) -> None:
    create(connection, name)
    raise ValueError(name)


async def test_writes_that_pile_up_share_one_commit(sqlite: SqliteDatabase) -> None:
    commits = []
    event.listen(sqlite.writer_engine, "commit", commits.append)
    held, entered = threading.Event(), threading.Event()

    def wait(connection: Connection) -> None:
        entered.set()
        held.wait(5)

    first = asyncio.create_task(sqlite.write(wait))
    await asyncio.to_thread(entered.wait, 5)
    rest = [asyncio.create_task(sqlite.write(create, f"n{number:03}")) for number in range(100)]
    await asyncio.sleep(0.05)
    held.set()
    await asyncio.gather(first, *rest)
    assert len(commits) == 2
    assert len(await sqlite.read(names)) == 100


class Large:
    """Something that a unit was given."""


async def test_the_waiting_writer_keeps_nothing_of_the_last_unit_alive(sqlite: SqliteDatabase) -> None:
    gone = threading.Event()

    def give(connection: Connection, large: Large) -> int:
        return len(names(connection)) + (large is None)

    large = Large()
    weakref.finalize(large, gone.set)
    await sqlite.write(give, large)
    del large
    assert await asyncio.to_thread(gone.wait, 10)


async def test_a_unit_cancelled_while_it_waits_never_runs(sqlite: SqliteDatabase) -> None:
    held, entered = threading.Event(), threading.Event()

    def wait(connection: Connection) -> None:
        entered.set()
        held.wait(5)

    first = asyncio.create_task(sqlite.write(wait))
    await asyncio.to_thread(entered.wait, 5)
    second = asyncio.create_task(sqlite.write(create, "late"))
    await asyncio.sleep(0.02)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await asyncio.sleep(0.02)  # the loop tells the writer a turn later
    held.set()
    await first
    assert await sqlite.read(names) == []


async def test_a_commit_that_fails_is_unknown_to_every_unit_that_had_succeeded(
    sqlite: SqliteDatabase,
) -> None:
    with failing_commits(sqlite, applied=False):
        outcomes = await asyncio.gather(
            sqlite.write(create, "a"), sqlite.write(raise_value_error, "b"), return_exceptions=True
        )
    assert [type(outcome) for outcome in outcomes] == [CommitStateUnknown, ValueError]
    assert await sqlite.write(create, "c") == "c"


async def test_R4_a_commit_refused_for_want_of_a_lock_is_certainly_undone(sqlite: SqliteDatabase) -> None:
    def busy(_: Connection) -> None:
        error = sqlite3.OperationalError("sqlite is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY  # type: ignore[attr-defined]
        raise OperationalError("COMMIT", {}, error)

    event.listen(sqlite.writer_engine, "commit", busy)
    with pytest.raises(Unavailable):
        await sqlite.write(create, "a")
    event.remove(sqlite.writer_engine, "commit", busy)
    assert await sqlite.read(names) == []
    assert await sqlite.write(create, "a") == "a"


async def test_R4_a_lock_held_by_another_process_is_unavailable_before_any_effect(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "frazil.db", busy_timeout_seconds=0.1)
    await database.start()
    other = sqlite3.connect(database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable):
        await database.write(create, "a")
    assert await database.read(names) == []  # readers do not wait for writers
    other.execute("ROLLBACK")
    other.close()
    assert await database.write(create, "a") == "a"
    await database.close()


async def test_a_full_disk_in_a_unit_undoes_the_whole_batch(sqlite: SqliteDatabase) -> None:
    def full(connection: Connection) -> None:
        create(connection, "b")
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.execute("ROLLBACK")  # what SQLite does by itself when it runs out of space
        raise OperationalError("INSERT", {}, sqlite3.OperationalError("database or disk is full"))

    held, entered = threading.Event(), threading.Event()

    def wait(connection: Connection) -> None:
        entered.set()
        held.wait(5)

    first = asyncio.create_task(sqlite.write(wait))
    await asyncio.to_thread(entered.wait, 5)
    batch = [asyncio.create_task(sqlite.write(create, "a")), asyncio.create_task(sqlite.write(full))]
    await asyncio.sleep(0.02)
    held.set()
    await first
    outcomes = await asyncio.gather(*batch, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unavailable, Unavailable]
    assert await sqlite.read(names) == []


async def test_the_writer_survives_whatever_a_batch_dies_of(sqlite: SqliteDatabase) -> None:
    def odd(_: Connection) -> None:
        raise RuntimeError("not a sqlite error")

    event.listen(sqlite.writer_engine, "begin", odd)
    with pytest.raises(CommitStateUnknown):
        await sqlite.write(create, "a")
    event.remove(sqlite.writer_engine, "begin", odd)
    assert await sqlite.write(create, "b") == "b"


async def test_too_many_waiting_writes_are_refused(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "frazil.db", max_queued_writes=2)
    await database.start()
    held, entered = threading.Event(), threading.Event()

    def wait(connection: Connection) -> None:
        entered.set()
        held.wait(5)

    first = asyncio.create_task(database.write(wait))
    await asyncio.to_thread(entered.wait, 5)
    waiting = [asyncio.create_task(database.write(create, f"n{number}")) for number in range(3)]
    await asyncio.sleep(0.02)
    held.set()
    outcomes = await asyncio.gather(first, *waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), str, str, Unavailable]
    await database.close()


async def test_closing_finishes_what_waits_and_refuses_what_comes_later(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "frazil.db")
    await database.start()
    waiting = [asyncio.create_task(database.write(create, f"n{number}")) for number in range(20)]
    await asyncio.sleep(0)
    await database.close()
    assert sorted(await asyncio.gather(*waiting)) == sorted(f"n{number}" for number in range(20))
    with pytest.raises(Unavailable):
        await database.write(create, "late")
    with pytest.raises(Unavailable):
        await database.hot(pointers.bucket_location("n1"))


_CHILD = """
import asyncio, sys
from pathlib import Path
from catalog_server.store import buckets, pointers
from catalog_server.store.sqlite import SqliteDatabase

async def main():
    database = SqliteDatabase(Path(sys.argv[1]))
    await database.start()
    for number in range(100_000):
        await database.write(lambda c: buckets.create(c, f"n{number:06}", "memory://x", {}, 1))
        print(number, flush=True)

asyncio.run(main())
"""


@pytest.mark.process
async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "frazil.db"
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(path)], stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
    )
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= 25:
            break
    child.send_signal(signal.SIGKILL)
    acknowledged = [25] + [int(line) for line in child.stdout if line.strip().isdecimal()]
    child.wait()
    child.stdout.close()
    database = SqliteDatabase(path)
    await database.start()
    stored = await database.read(names)
    await database.close()
    assert stored[: max(acknowledged) + 1] == [f"n{number:06}" for number in range(max(acknowledged) + 1)]
    assert len(stored) <= max(acknowledged) + 2
