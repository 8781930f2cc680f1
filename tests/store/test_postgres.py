"""PostgreSQL: what happens to a unit when statements, connections or the whole server fail; migrations."""

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from catalog_server.settings import StartError
from catalog_server.store import buckets, jobs, migrate, pointers, schema
from catalog_server.store.engine import Database
from catalog_server.store.migrate import DatabaseTooNew
from catalog_server.store.postgres import PostgresDatabase
from catalog_server.store.postgres_errors import start_reason
from catalog_server.store.units import row_locks
from table_format.errors import AlreadyExists, Invalid, Unavailable
from tests.postgres import PASSWORD, Postgres
from tests.store.openers import claimant
from tests.store.test_jobs import KINDS, birth

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["postgres"])
def database_url(request: pytest.FixtureRequest, postgres: Postgres) -> Any:
    with postgres.lent() as name:
        yield postgres.url(name)


def create(connection: Connection, name: str) -> str:
    return buckets.create(connection, name, f"memory://{name}", {}, 1).name


def names(connection: Connection) -> list[str]:
    return [row.name for row in buckets.page(connection, None, None)]


def drop_all_connections(connection: Connection) -> None:
    connection.execute(
        text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    )


def drop_own_connection(connection: Connection, name: str) -> None:
    create(connection, name)
    connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))


async def test_units_that_decide_by_rows_run_beside_each_other_and_never_beside_others(
    database: Database, write_elsewhere: Callable[..., None]
) -> None:
    await database.write(create, "b")

    @row_locks
    def unit(connection: Connection) -> None:
        jobs.enqueue(connection, birth(table="mine"), 100)
        write_elsewhere(jobs.enqueue, birth(table="other"), 100)
        with pytest.raises(Unavailable):
            write_elsewhere(create, "two")

    await database.write(unit)
    assert await database.read(names) == ["b"]
    claimed = [await database.write(jobs.claim, claimant("w", 150), KINDS, 100) for _ in range(3)]
    assert [row is None for row in claimed] == [False, False, True]


async def test_a_queued_job_is_not_claimed_before_the_commit_that_wants_it(
    database: Database, write_elsewhere: Callable[..., None]
) -> None:
    """Else it would run on the table as it was before, and nobody would run it again."""
    await database.write(create, "b")
    await database.write(jobs.enqueue, birth(), 100)
    claimed: list[Any] = []

    @row_locks
    def claim(connection: Connection) -> None:
        claimed.append(jobs.claim(connection, claimant("w", 150), KINDS, 100))

    @row_locks
    def commit(connection: Connection) -> None:
        jobs.enqueue(connection, birth(), 100)
        write_elsewhere(claim)

    await database.write(commit)
    assert claimed == [None]
    await database.write(claim)
    assert claimed[1] is not None


async def test_connections_lost_while_nobody_used_them_are_replaced_unnoticed(
    database: Database, write_elsewhere: Callable[..., None]
) -> None:
    lookup = pointers.bucket_location("one")
    for _ in range(2):
        await asyncio.gather(
            *(database.read(names) for _ in range(8)), *(database.hot(lookup) for _ in range(8))
        )
        await asyncio.to_thread(write_elsewhere, drop_all_connections)
        assert await database.hot(lookup) is None
        assert await database.read(names) == []
        await asyncio.to_thread(write_elsewhere, drop_all_connections)
        with pytest.raises(ValueError, match="undone"):
            await database.write(_fail)


def _fail(connection: Connection) -> None:
    create(connection, "one")
    raise ValueError("undone")


async def test_a_connection_lost_before_commit_is_certainly_not_applied(database: Database) -> None:
    with pytest.raises(Unavailable):
        await database.write(drop_own_connection, "one")
    assert await database.read(names) == []
    assert await database.write(create, "two") == "two"


async def test_a_statement_that_failed_unseen_is_no_success(database: Database) -> None:
    def hide(connection: Connection) -> None:
        create(connection, "one")
        with contextlib.suppress(DBAPIError):
            connection.execute(text("SELECT 1 / 0"))

    with pytest.raises(RuntimeError, match="ROLLBACK"):
        await database.write(hide)
    assert await database.read(names) == []


async def test_a_unit_that_meets_anothers_row_is_run_again(
    database: Database, write_elsewhere: Callable[..., None]
) -> None:
    """The other came between look and step: the second run sees it and says so in the words of its own check."""
    beaten = row_locks(lambda connection: create(connection, "one"))
    runs: list[int] = []

    @row_locks
    def unit(connection: Connection) -> None:
        found = buckets.find(connection, "one")
        if not runs:
            write_elsewhere(beaten)
        runs.append(1)
        if found is not None:
            raise AlreadyExists("one")
        connection.execute(
            text(
                "INSERT INTO buckets (name, location, properties, created_at_ms) VALUES ('one', 'memory://x', '{}', 1)"
            )
        )

    with pytest.raises(AlreadyExists):
        await database.write(unit)
    assert len(runs) == 2


async def test_too_long_a_statement_and_too_few_connections_are_unavailable(opened: Any) -> None:
    database = await opened(statement_timeout_seconds=0.2, pool_size=1, acquire_timeout_seconds=0.05)
    slow = text("SELECT pg_sleep(30)")
    with pytest.raises(Unavailable, match="statement timeout"):
        await database.read(lambda connection: connection.execute(slow).all())
    waiting = asyncio.create_task(database.write(lambda connection: connection.execute(slow).all()))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="all 1 connections"):
        await database.read(names)
    with pytest.raises(Unavailable, match="nothing was changed"):
        await waiting
    assert await database.write(create, "a") == "a"


async def test_a_character_that_no_text_can_hold(database: Database) -> None:
    assert await database.hot(pointers.bucket_location("a\0b")) is None
    with pytest.raises(Invalid, match=r"U\+0000"):
        await database.read(buckets.find, "a\0b")
    with pytest.raises(Invalid, match=r"U\+0000"):
        await database.write(buckets.create, "a", "s3://a\0", {}, 1)


async def test_a_name_that_no_index_can_hold(database: Database) -> None:
    long = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(500))
    with pytest.raises(Invalid, match="too long to be stored"):
        await database.write(buckets.create, "a", f"s3://{long}", {}, 1)


async def test_the_event_loop_never_waits_for_itself(database: Database) -> None:
    with pytest.raises(RuntimeError, match="await"):
        database.read_now(names)


async def test_several_starts_at_once_migrate_once(postgres: Postgres) -> None:
    name = postgres.empty()
    databases = [postgres.opened(name) for _ in range(4)]
    await asyncio.gather(*(database.start() for database in databases))
    for database in databases:
        assert await database.read(names) == []
        await database.close()
    assert postgres.sql(name, "SELECT version_num FROM alembic_version") == schema.REVISION


async def test_a_database_newer_than_the_program_is_refused(postgres: Postgres) -> None:
    name = postgres.database()
    postgres.sql(name, "UPDATE alembic_version SET version_num = '9999_future'")
    with pytest.raises(DatabaseTooNew, match=r"9999_future.*newer frazil") as caught:
        await postgres.opened(name).start()
    assert postgres.label(name) in str(caught.value)


async def test_one_encoded_otherwise_is_refused(postgres: Postgres) -> None:
    postgres.sql("postgres", "CREATE DATABASE odd TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    with pytest.raises(StartError, match="LATIN1"):
        await postgres.opened("odd").start()


async def test_what_is_shown_of_a_database_holds_no_secret(postgres: Postgres) -> None:
    database = postgres.opened("no_such_database")
    with pytest.raises(StartError) as caught:
        await database.start()
    assert PASSWORD not in f"{caught.value!r} {database!r} {caught.value.__cause__!r}"
    assert isinstance(database, PostgresDatabase)
    assert "postgresql://frazil@" in str(caught.value)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (socket.gaierror(-2, "Name or service not known"), "the host name is not known"),
        (TimeoutError(), "it does not answer"),
        (ConnectionRefusedError(111, "Connect call failed"), "[Errno 111] Connect call failed"),
        (asyncpg.ClientConfigurationError("s3cret"), "the URL is not a PostgreSQL one; write special"),
        (
            asyncpg.InvalidCatalogNameError('database "x" does not exist'),
            'database "x" does not exist; create',
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_why_a_database_can_not_be_used_is_one_line(error: Exception, reason: str) -> None:
    assert start_reason(error).startswith(reason)


async def test_texts_compare_byte_by_byte_whatever_the_database_collates_by(postgres: Postgres) -> None:
    otherwise = postgres.sql(
        postgres.database(),
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' "
        "AND table_name <> 'alembic_version' AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'",
    )
    assert otherwise == ""  # a migration has to make text columns of its `_TEXT`


@pytest.fixture
async def migrating(postgres: Postgres) -> AsyncIterator[Callable[..., Any]]:
    engine = create_async_engine(postgres.url(postgres.empty()), poolclass=NullPool)

    async def run(work: Callable[..., Any], *arguments: Any) -> Any:
        async with engine.begin() as connection:
            return await connection.run_sync(work, *arguments)

    yield run
    await engine.dispose()


def step(connection: Connection, way: Any, target: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.scripts()))
    config.attributes["connection"] = connection
    way(config, target)


def drift(connection: Connection) -> list[Any]:
    return list(compare_metadata(MigrationContext.configure(connection), schema.METADATA))


async def test_migrations_up_down_and_up_again_end_at_the_schema_file(migrating: Callable[..., Any]) -> None:
    await migrating(step, command.upgrade, "head")
    assert await migrating(drift) == []
    await migrating(step, command.downgrade, "base")
    await migrating(step, command.upgrade, "head")
    assert await migrating(drift) == []
