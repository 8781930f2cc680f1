"""Every row of every table goes over to a file and from there to either kind of database, unchanged."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Integer,
    LargeBinary,
    Table,
    create_engine,
    insert,
    select,
    update,
)

from catalog_server.settings import StartError
from catalog_server.store import buckets, schema, transfer
from catalog_server.store.engine import Database
from catalog_server.store.schema import METADATA, JsonText
from catalog_server.store.sqlite import SqliteDatabase
from maintenance.ports import JobKind

pytestmark = pytest.mark.anyio

MANY = 1_001
"""More than a page."""

Rows = dict[str, list[tuple[Any, ...]]]


def value(column: Column[Any], number: int) -> object:
    """Something that fits the column, another in each row."""
    if column.nullable and number % 3 == 2:
        return None
    if column.foreign_keys and column.name == "parent_id":
        return number - 1 or None
    match column.type:
        case JsonText():
            return {"number": number, "large": 2**62 + number, "é": [None, "\u2028", 1.5]}
        case Boolean():
            return number % 2 == 0
        case LargeBinary():
            return bytes([number % 256, 0, 255])
        case BigInteger() | Integer():
            return number
        case _:
            return f"{column.name} é {number:05}"


def fill(connection: Connection) -> None:
    for table in METADATA.sorted_tables:
        count = MANY if table.name in ("idempotency", "tags", "unreferenced_objects") else 4
        made = []
        for number in range(1, count + 1):
            row = {column.name: value(column, number) for column in table.columns}
            made.append(row | ({"bucket_id": 1 + number % 4} if "bucket_id" in row else {}))
        connection.execute(insert(table), made)


def rows(connection: Connection) -> Rows:
    def of(table: Table) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]

    return {table.name: of(table) for table in METADATA.sorted_tables}


@pytest.fixture
async def filled(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(tmp_path / "filled.db", busy_timeout_seconds=20)
    await database.start()
    await database.write(fill)
    yield database
    await database.close()


async def test_every_row_goes_there_and_back(
    filled: SqliteDatabase, database: Database, tmp_path: Path
) -> None:
    before = await filled.read(rows)
    assert all(len(found) >= 4 for found in before.values())
    counts = await filled.read(transfer.dump, tmp_path / "one")
    assert counts == {name: len(found) for name, found in before.items()}
    transfer.check_file(tmp_path / "one")
    assert await database.write(transfer.load, tmp_path / "one") == counts
    assert await database.read(rows) == before
    assert await database.read(transfer.dump, tmp_path / "two") == counts
    with create_engine(f"sqlite:///{tmp_path}/two").connect() as file:
        assert rows(file) == before


async def test_ids_of_rows_that_are_gone_are_not_given_out_again(database: Database, tmp_path: Path) -> None:
    def three(connection: Connection) -> None:
        for name in ("a", "b", "c"):
            buckets.create(connection, name, f"s3://{name}", {}, 1)
        connection.execute(schema.buckets.delete().where(schema.buckets.c.name == "c"))

    def another(connection: Connection) -> int:
        buckets.create(connection, "d", "s3://d", {}, 1)
        found: int = connection.execute(
            select(schema.buckets.c.id).where(schema.buckets.c.name == "d")
        ).scalar_one()
        return found

    await database.write(three)
    await database.read(transfer.dump, tmp_path / "file")
    other = SqliteDatabase(tmp_path / "other.db", busy_timeout_seconds=20)
    await other.start()
    await other.write(transfer.load, tmp_path / "file")
    assert await other.write(another) == 4
    await other.close()


async def test_ids_go_on_after_a_load(database: Database, tmp_path: Path) -> None:
    source = SqliteDatabase(tmp_path / "source.db", busy_timeout_seconds=20)
    await source.start()
    await source.write(lambda connection: buckets.create(connection, "a", "s3://a", {}, 1))
    await source.read(transfer.dump, tmp_path / "file")
    await source.close()
    await database.write(transfer.load, tmp_path / "file")
    await database.write(lambda connection: buckets.create(connection, "b", "s3://b", {}, 1))
    found = await database.read(lambda c: c.execute(select(schema.buckets.c.id)).scalars().all())
    assert sorted(found) == [1, 2]


async def test_a_database_that_holds_something_is_not_filled(
    filled: SqliteDatabase, database: Database, tmp_path: Path
) -> None:
    await filled.read(transfer.dump, tmp_path / "file")
    await database.write(lambda connection: buckets.create(connection, "mine", "s3://mine", {}, 1))
    before = await database.read(rows)
    with pytest.raises(transfer.NotEmpty, match="table buckets has rows"):
        await database.write(transfer.load, tmp_path / "file")
    assert await database.read(rows) == before


def garbage(path: Path) -> None:
    path.write_bytes(b"not a database at all, but long enough to be read as one" * 100)


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t (x)")


def newer(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE alembic_version (version_num TEXT)")
        other.execute("INSERT INTO alembic_version VALUES ('9999_from_the_future')")


@pytest.mark.parametrize(
    ("make", "told"), [(garbage, "not a backup"), (foreign, "not a backup"), (newer, "newer frazil")]
)
def test_what_is_no_backup_is_refused(tmp_path: Path, make: Callable[[Path], None], told: str) -> None:
    make(tmp_path / "file")
    with pytest.raises(StartError, match=told):
        transfer.check_file(tmp_path / "file")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="no backup at"):
        transfer.check_file(tmp_path / "file")


async def test_a_backup_that_lost_rows_is_refused(filled: SqliteDatabase, tmp_path: Path) -> None:
    await filled.read(transfer.dump, tmp_path / "file")
    with sqlite3.connect(tmp_path / "file") as damaged:
        damaged.execute("DELETE FROM tables WHERE id = 1")
    with pytest.raises(StartError, match="lacks its row of tables"):
        transfer.check_file(tmp_path / "file")


async def test_what_was_about_to_be_deleted_is_held_back(filled: SqliteDatabase, tmp_path: Path) -> None:
    def purges(connection: Connection) -> None:
        for number, state in ((1, "queued"), (2, "running"), (3, "done")):
            change = update(schema.jobs).where(schema.jobs.c.id == number)
            connection.execute(change.values(kind=JobKind.PURGE.value, state=state))

    await filled.write(purges)
    await filled.read(transfer.dump, tmp_path / "file")
    transfer.hold_deletions(tmp_path / "file", 5_000)
    with create_engine(f"sqlite:///{tmp_path}/file").connect() as file:
        found = rows(file)
        waits = {row.id: (row.run_after_ms, row.lease_until_ms) for row in file.execute(select(schema.jobs))}
        expiry = file.execute(select(schema.dropped_tables.c.expires_at_ms)).scalars().all()
    assert found["unreferenced_objects"] == []
    assert (waits[1][0], waits[2][1]) == (5_000, 5_000)
    assert (waits[3][0], waits[4][0]) == (3, 4)
    assert set(expiry) == {5_000, None}
