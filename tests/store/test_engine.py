"""The database, of either kind: what reads, lookups and writes promise."""

import asyncio
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text

from catalog_server.store import buckets, namespaces, pointers
from catalog_server.store.engine import Database
from table_format.errors import (
    CommitStateUnknown,
    NamespaceNotEmpty,
    NoSuchNamespace,
    Unavailable,
)
from table_format.ident import Namespace
from tests.databases import failing_commits
from tests.store.openers import Opener

pytestmark = pytest.mark.anyio

N = Namespace(("n",))


def create(connection: Connection, name: str) -> str:
    return buckets.create(connection, name, f"memory://{name}", {}, 1).name


def names(connection: Connection) -> list[str]:
    return [row.name for row in buckets.page(connection, None, None)]


def raise_value_error(connection: Connection, name: str) -> None:
    create(connection, name)
    raise ValueError(name)


async def test_a_write_is_seen_by_the_next_read(database: Database) -> None:
    assert await database.write(create, "one") == "one"
    assert await database.read(names) == ["one"]
    assert await asyncio.to_thread(database.read_now, names) == ["one"]
    assert await database.hot(pointers.bucket_location("one")) == (1, "memory://one")


async def test_a_thread_reads_and_writes_as_well(database: Database) -> None:
    assert await asyncio.to_thread(database.write_now, create, "one") == "one"
    with pytest.raises(ValueError, match="two"):
        await asyncio.to_thread(database.write_now, raise_value_error, "two")
    assert await asyncio.to_thread(database.read_now, names) == ["one"]


async def test_a_failing_unit_leaves_its_neighbours_alone(database: Database) -> None:
    outcomes = await asyncio.gather(
        database.write(create, "a"),
        database.write(raise_value_error, "b"),
        database.write(create, "c"),
        database.write(create, "d"),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [str, ValueError, str, str]
    assert await database.read(names) == ["a", "c", "d"]


async def test_of_equal_units_one_is_done_and_the_others_see_it(database: Database, opened: Opener) -> None:
    second = await opened()
    outcomes = await asyncio.gather(
        *((database, second)[number % 2].write(create, "a") for number in range(8)), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AlreadyExists"] * 7 + ["str"]


async def test_several_processes_write_to_one_database(database: Database, opened: Opener) -> None:
    second = await opened()
    await asyncio.gather(
        *(database.write(create, f"a{number:02}") for number in range(30)),
        *(second.write(create, f"b{number:02}") for number in range(30)),
    )
    assert len(await database.read(names)) == 60


async def test_a_read_sees_one_state_from_its_first_statement_to_its_last(
    database: Database, write_elsewhere: Callable[..., None]
) -> None:
    await database.write(create, "one")

    def twice(connection: Connection) -> tuple[list[str], list[str]]:
        before = names(connection)
        write_elsewhere(create, "two")
        return before, names(connection)

    assert await database.read(twice) == (["one"], ["one"])
    assert await database.read(names) == ["one", "two"]


async def test_what_a_unit_found_holds_until_it_is_done(
    database: Database, write_elsewhere: Callable[..., None]
) -> None:
    def unit(connection: Connection) -> list[str]:
        found = names(connection)
        with pytest.raises(Unavailable):
            write_elsewhere(create, "two")
        return found + names(connection)

    assert await database.write(unit) == []
    assert await database.read(names) == []
    await asyncio.to_thread(write_elsewhere, create, "two")
    assert await database.read(names) == ["two"]


async def test_a_namespace_is_never_dropped_under_a_child_that_is_being_made(
    database: Database, opened: Opener
) -> None:
    second = await opened()
    await database.write(create, "b")
    child = Namespace(("n", "c"))
    for _ in range(10):
        await database.write(namespaces.create, 1, N, {}, 1)
        outcomes = await asyncio.gather(
            database.write(namespaces.drop, 1, N),
            second.write(namespaces.create, 1, child, {}, 1),
            return_exceptions=True,
        )
        found = [type(outcome) for outcome in outcomes]
        assert found in ([type(None), NoSuchNamespace], [NamespaceNotEmpty, namespaces.NamespaceRow])
        if found[0] is NamespaceNotEmpty:
            await database.write(namespaces.drop, 1, child)
            await database.write(namespaces.drop, 1, N)


async def test_a_commit_that_fails_leaves_the_outcome_open(database: Database) -> None:
    for applied in (False, True):
        with failing_commits(database, applied=applied), pytest.raises(CommitStateUnknown):
            await database.write(create, f"applied-{applied}")
    assert "applied-True" in await database.read(names)
    assert await database.write(create, "c") == "c"


async def test_a_fault_of_the_program_comes_out_as_it_is(database: Database) -> None:
    with pytest.raises(Exception, match="no_such_table"):
        await database.read(lambda connection: connection.execute(text("SELECT 1 FROM no_such_table")))
    with pytest.raises(Exception, match="no_such_table"):
        await database.write(lambda connection: connection.execute(text("DELETE FROM no_such_table")))
    assert await database.write(create, "a") == "a"


async def test_closing_finishes_what_runs_and_refuses_what_comes_later(opened: Opener) -> None:
    database = await opened()
    waiting = [asyncio.create_task(database.write(create, f"n{number}")) for number in range(8)]
    await asyncio.sleep(0)
    await database.close()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    other = await opened()
    told = sorted(outcome for outcome in done if isinstance(outcome, str))
    assert await other.read(names) == told
    assert all(isinstance(outcome, str | Unavailable) for outcome in done)
    for call in (database.write(create, "late"), database.hot(pointers.bucket_location("n1"))):
        with pytest.raises(Unavailable):
            await call
