"""Migrations: from nothing to now, back and forth, in step with `schema.py`, and never on a newer database."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine

from catalog_server.settings import StartError
from catalog_server.store import migrate, schema
from catalog_server.store.engine import Database

pytestmark = pytest.mark.anyio


def config() -> Config:
    made = Config()
    made.set_main_option("script_location", str(migrate.scripts()))
    return made


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = create_engine(f"sqlite:///{tmp_path}/m.db")
    yield made
    made.dispose()


def run(engine: Engine, step: Any, target: str) -> None:
    made = config()
    with engine.begin() as connection:
        made.attributes["connection"] = connection
        step(made, target)


def layout(engine: Engine) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(
            "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
        )
        return [tuple(row) for row in rows]


def test_the_schema_file_describes_the_newest_revision() -> None:
    assert ScriptDirectory.from_config(config()).get_heads() == [schema.REVISION]


def test_upgrade_from_empty_leaves_no_drift(engine: Engine) -> None:
    run(engine, command.upgrade, "head")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.METADATA) == []


def test_upgrade_makes_the_same_indexes_as_the_schema_file(engine: Engine, tmp_path: Path) -> None:
    run(engine, command.upgrade, "head")
    direct = create_engine(f"sqlite:///{tmp_path}/direct.db")
    schema.METADATA.create_all(direct)

    def indexes(of: Engine) -> list[tuple[Any, ...]]:
        return [row for row in layout(of) if row[0] == "index"]

    assert indexes(engine) == indexes(direct)
    direct.dispose()


def test_downgrade_and_upgrade_again(engine: Engine) -> None:
    run(engine, command.upgrade, "head")
    before = layout(engine)
    run(engine, command.downgrade, "base")
    assert [row[1] for row in layout(engine)] == ["alembic_version"]
    run(engine, command.upgrade, "head")
    assert layout(engine) == before


async def test_a_database_newer_than_the_program_is_refused(tmp_path: Path) -> None:
    database = Database(tmp_path / "frazil.db")
    database.start()
    await database.close()
    with sqlite3.connect(tmp_path / "frazil.db") as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999_future'")
    raw.close()
    newer = Database(tmp_path / "frazil.db")
    with pytest.raises(migrate.DatabaseTooNew, match=r"9999_future.*newer frazil"):
        newer.start()
    await newer.close()


async def test_a_file_that_is_no_database_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "frazil.db").write_bytes(b"this is not a database at all, whatever its name says" * 100)
    database = Database(tmp_path / "frazil.db")
    with pytest.raises(StartError, match="can not be opened") as caught:
        database.start()
    assert "\n" not in str(caught.value)
    await database.close()


async def test_several_starts_at_once_migrate_once(tmp_path: Path) -> None:
    databases = [Database(tmp_path / "frazil.db") for _ in range(4)]
    await asyncio.gather(*(asyncio.to_thread(database.start) for database in databases))
    for database in databases:
        await database.close()


async def test_rows_survive_a_second_start(database: Database) -> None:
    await database.write(
        lambda connection: (
            connection.exec_driver_sql(
                "INSERT INTO buckets (name, location, properties, created_at_ms) VALUES ('b', 'memory://b', '{}', 1)"
            )
            and None
        )
    )
    again = Database(database.path)
    again.start()
    found = await again.read(lambda c: c.exec_driver_sql("SELECT name FROM buckets").scalar_one())
    assert found == "b"
    await again.close()
