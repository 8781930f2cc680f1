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
from sqlalchemy import Connection, Engine, create_engine

from catalog_server.settings import StartError
from catalog_server.store import buckets, jobs, migrate, pointers, resources, schema, tables
from catalog_server.store.engine import Database
from catalog_server.store.sqlite import SqliteDatabase
from table_format.ident import TableIdent
from tests.store.openers import Opener

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


ROWS_OF_0001 = """
INSERT INTO buckets (id, name, location, properties, created_at_ms) VALUES (1, 'b', 's3://b', '{}', 1);
INSERT INTO namespaces (id, bucket_id, key, parent_key, properties, created_at_ms)
    VALUES (1, 1, 'n', '', '{"a": "b"}', 1);
INSERT INTO tables (id, bucket_id, namespace_id, name, table_uuid, location, metadata_location, version,
        created_at_ms, updated_at_ms)
    VALUES (5, 1, 1, 't', 'uuid', 's3://b/t', 's3://b/t/metadata/0', 3, 1, 2);
INSERT INTO table_places VALUES (5, 's3://b/t');
INSERT INTO policies VALUES ('table', 5, 'icebergCompaction', '{}', 1, 1);
INSERT INTO unreferenced_objects VALUES ('uuid', 's3://b/t/x', 7);
"""


def rows(engine: Engine, *tables: str) -> dict[str, list[tuple[Any, ...]]]:
    with engine.connect() as connection:
        return {
            name: [tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM {name}")]
            for name in tables
        }


def test_0002_adds_views_and_keeps_the_rows_of_0001_up_and_down(engine: Engine) -> None:
    kept = ("buckets", "namespaces", "tables", "table_places", "policies", "unreferenced_objects")
    run(engine, command.upgrade, "0001_initial")
    first = layout(engine)
    with engine.begin() as connection:
        for statement in ROWS_OF_0001.split(";\n")[:-1]:
            connection.exec_driver_sql(statement)
    before = rows(engine, *kept)
    run(engine, command.upgrade, "0002_views")
    assert rows(engine, *kept) == before
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO views (bucket_id, namespace_id, name, view_uuid, location, metadata_location, version, "
            "created_at_ms, updated_at_ms) VALUES (1, 1, 'v', 'u', 's3://b/v', 's3://b/v/metadata/0', 1, 1, 1)"
        )
        connection.exec_driver_sql("INSERT INTO view_places VALUES (1, 's3://b/v')")
    run(engine, command.downgrade, "0001_initial")
    assert rows(engine, *kept) == before
    assert layout(engine) == first
    run(engine, command.upgrade, "0002_views")
    assert rows(engine, *kept, "views") == {**before, "views": []}


def test_0004_adds_reports_and_keeps_the_rows_of_0003_up_and_down(engine: Engine) -> None:
    kept = ("buckets", "namespaces", "tables", "table_places", "policies", "unreferenced_objects")
    run(engine, command.upgrade, "0003_scan_plans")
    before_layout = layout(engine)
    with engine.begin() as connection:
        for statement in ROWS_OF_0001.split(";\n")[:-1]:
            connection.exec_driver_sql(statement)
    before = rows(engine, *kept)
    run(engine, command.upgrade, "0004_metrics_reports")
    with engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        connection.exec_driver_sql(
            "INSERT INTO metrics_reports (table_id, type, report, received_at_ms) VALUES (5, 'x', '{}', 1)"
        )
    assert rows(engine, *kept) == before
    run(engine, command.downgrade, "0003_scan_plans")
    assert rows(engine, *kept) == before
    assert layout(engine) == before_layout


def test_0005_gives_buckets_storage_and_keeps_the_rows_of_0004_up_and_down(engine: Engine) -> None:
    run(engine, command.upgrade, "0004_metrics_reports")
    first = layout(engine)
    with engine.begin() as connection:
        for statement in ROWS_OF_0001.split(";\n")[:-1]:
            connection.exec_driver_sql(statement)
    before = rows(engine, "buckets", "tables")
    run(engine, command.upgrade, "0005_bucket_storage")
    with engine.begin() as connection:
        # A server of the release before, beside this one, knows nothing of the new columns.
        connection.exec_driver_sql(
            "INSERT INTO buckets (name, location, properties, created_at_ms) VALUES ('c', 's3://c', '{}', 2)"
        )
        found = connection.exec_driver_sql("SELECT name, storage, credentials FROM buckets ORDER BY name")
        assert [tuple(row) for row in found] == [("b", "{}", None), ("c", "{}", None)]
        connection.exec_driver_sql("DELETE FROM buckets WHERE name = 'c'")
    assert rows(engine, "tables") == {"tables": before["tables"]}
    run(engine, command.downgrade, "0004_metrics_reports")
    assert rows(engine, "buckets", "tables") == before
    assert layout(engine) == first


JOB = (
    "INSERT INTO jobs (id, kind, state, origin, bucket_id, table_uuid, dry_run, payload, priority, attempts, "
    "max_attempts, run_after_ms, error, created_at_ms, finished_at_ms) "
    "VALUES ({}, 'icebergCompaction', '{}', '{}', 1, 'uuid', {}, '{{}}', 0, 1, 5, 0, {}, 1, 2)"
)


def revision(name: str) -> tuple[str, str]:
    """The revision of that name, without its number, and the one below it."""
    for script in ScriptDirectory.from_config(config()).walk_revisions():
        if script.revision.partition("_")[2] == name:
            return script.revision, str(script.down_revision)
    raise LookupError(name)


def test_job_ends_keep_jobs_up_and_down_where_cancelled_ones_count_as_failed(engine: Engine) -> None:
    above, below = revision("job_ends")
    run(engine, command.upgrade, below)
    indexes = [row[:2] for row in layout(engine) if row[0] == "index"]
    with engine.begin() as connection:
        connection.exec_driver_sql(ROWS_OF_0001.split(";\n", maxsplit=1)[0])
        connection.exec_driver_sql(JOB.format(1, "done", "api", 0, "NULL"))
        connection.exec_driver_sql(JOB.format(2, "queued", "commit", 0, "'once'"))
    (before,) = rows(engine, "jobs").values()
    run(engine, command.upgrade, above)
    assert [row[: len(before[0])] for row in rows(engine, "jobs")["jobs"]] == before
    with engine.begin() as connection:
        connection.exec_driver_sql(JOB.format(3, "cancelled", "api", 0, "NULL"))
        connection.exec_driver_sql(JOB.format(4, "done", "plan", 1, "NULL"))
    run(engine, command.downgrade, below)
    assert [row[:2] for row in layout(engine) if row[0] == "index"] == indexes
    after = rows(engine, "jobs")["jobs"]
    assert after[:2] == before
    with engine.connect() as connection:
        states = connection.exec_driver_sql("SELECT id, state, error FROM jobs WHERE id > 2").all()
    assert [tuple(row) for row in states] == [(3, "failed", "cancelled")]


def test_0007_adds_resource_settings_and_keeps_the_rows_before_up_and_down(engine: Engine) -> None:
    kept = ("buckets", "namespaces", "tables", "table_places", "policies", "unreferenced_objects")
    run(engine, command.upgrade, "0004_metrics_reports")
    with engine.begin() as connection:
        for statement in ROWS_OF_0001.split(";\n")[:-1]:
            connection.exec_driver_sql(statement)
    run(engine, command.upgrade, "0006_job_ends")
    before_layout, before = layout(engine), rows(engine, *kept)
    run(engine, command.upgrade, "0007_resource_settings")
    assert rows(engine, *kept) == before
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO resource_settings VALUES ('id', 'name', '{}', 1, 2)")
    run(engine, command.downgrade, "0006_job_ends")
    assert rows(engine, *kept) == before
    assert layout(engine) == before_layout


def test_resources_are_made_of_the_rows_that_are_there_and_nothing_goes_along(engine: Engine) -> None:
    above, below = revision("resources")
    kept = ("namespaces", "tables", "table_places", "policies", "unreferenced_objects", "metrics_reports")
    run(engine, command.upgrade, below)
    before_layout = layout(engine)
    with engine.begin() as connection:
        for statement in ROWS_OF_0001.split(";\n")[:-1]:
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql(
            "INSERT INTO metrics_reports (table_id, type, report, received_at_ms) VALUES (5, 'x', '{}', 1)"
        )
        connection.exec_driver_sql(
            "INSERT INTO buckets (name, location, properties, created_at_ms) VALUES ('c', 's3://c', '{}', 9)"
        )
    before = rows(engine, "buckets", *kept)

    made = config()
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")  # as the program does before it begins
        connection.commit()
        made.attributes["connection"] = connection
        with connection.begin():
            command.upgrade(made, above)
    after = rows(engine, "buckets", *kept)
    for name in ("table_places", "policies", "unreferenced_objects", "metrics_reports"):
        assert after[name] == before[name]
    assert [row[:-4] for row in after["buckets"]] == before["buckets"]
    assert [row[-3:] for row in after["buckets"]] == [(0, 1, 1), (0, 1, 9)]
    ids = [row[-4] for row in after["buckets"]]
    assert ids == [resources.bucket_id(1, "b", 1), resources.bucket_id(2, "c", 9)]
    assert after["namespaces"] == [(*before["namespaces"][0], 1, 1)]
    assert after["tables"] == [(*before["tables"][0], "uuid", 0)]

    run(engine, command.downgrade, below)
    assert rows(engine, "buckets", *kept) == before
    assert [row[:3] for row in layout(engine)] == [row[:3] for row in before_layout]
    run(engine, command.upgrade, above)
    assert [row[-4] for row in rows(engine, "buckets")["buckets"]] == ids


def test_going_back_before_resources_forgets_blank_tables_and_nothing_else(engine: Engine) -> None:
    above, below = revision("resources")
    kept = ("tables", "table_places", "policies")
    run(engine, command.upgrade, below)
    with engine.begin() as connection:
        for statement in ROWS_OF_0001.split(";\n")[:-1]:
            connection.exec_driver_sql(statement)
    before = rows(engine, *kept)
    run(engine, command.upgrade, above)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO tables (id, bucket_id, namespace_id, name, table_uuid, resource_id, location, "
            "metadata_location, version, created_at_ms, updated_at_ms) "
            "SELECT 99, bucket_id, namespace_id, 'blank', 'r', 'r', 's3://b/blank', '', 1, 1, 1 FROM tables LIMIT 1"
        )
        connection.exec_driver_sql("INSERT INTO table_places (table_id, place) VALUES (99, 's3://b/blank')")
        connection.exec_driver_sql(
            "INSERT INTO policies VALUES ('table', 99, 'icebergCompaction', '{}', 1, 1)"
        )
    run(engine, command.downgrade, below)
    assert rows(engine, *kept) == before


async def test_rows_that_a_server_of_the_release_before_adds_are_resources(database: Database) -> None:
    def old_server(connection: Connection) -> None:
        for statement in ROWS_OF_0001.split(";\n")[:3]:
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql(
            "INSERT INTO tables (id, bucket_id, namespace_id, name, table_uuid, location, metadata_location, version,"
            " created_at_ms, updated_at_ms) VALUES (6, 1, 1, 'u', 'other', 's3://b/u', 's3://b/u/metadata/0', 1, 1, 1)"
        )

    await database.write(old_server)
    bucket = await database.read(buckets.require, "b")
    table = await database.read(tables.require, 1, TableIdent.of("n", "t"))
    assert bucket.resource_id == resources.bucket_id(1, "b", 1)
    assert (table.resource_id, table.protected) == ("uuid", False)
    assert (await database.hot(pointers.read("b", TableIdent.of("n", "t")))) == table
    for resource_id in (bucket.resource_id, "uuid", "other"):
        await database.read(resources.require, resource_id)


def test_0009_adds_dropped_tables_and_keeps_the_rows_of_0008_up_and_down(engine: Engine) -> None:
    kept = ("buckets", "namespaces", "tables", "policies", "tags", "resource_settings", "metrics_reports")
    run(engine, command.upgrade, "0008_resources")
    before_layout = [row[1] for row in layout(engine)]
    with engine.begin() as connection:
        for statement in ROWS_OF_0001.split(";\n")[:-1]:
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql("INSERT INTO tags VALUES ('uuid', 'k', 'v')")
        connection.exec_driver_sql(
            "INSERT INTO metrics_reports (table_id, type, report, received_at_ms) VALUES (5, 'x', '{}', 1)"
        )
    before = rows(engine, *kept)
    run(engine, command.upgrade, "0009_dropped_tables")
    assert rows(engine, *kept, "table_places", "dropped_tables") == {
        **before,
        "table_places": [(5, "s3://b/t", 0)],
        "dropped_tables": [],
    }
    with engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        connection.exec_driver_sql(
            "INSERT INTO dropped_tables (table_id, bucket_id, namespace_key, name, table_uuid, resource_id, location, "
            "metadata_location, version, created_at_ms, updated_at_ms, dropped_at_ms, dropped_by, expires_at_ms, "
            "purge_begun) VALUES (7, 1, 'n', 'd', 'gone', 'gone', 's3://b/d', 's3://b/d/metadata/0', 1, 1, 1, 2, 'x', "
            "9, FALSE)"
        )
        connection.exec_driver_sql("INSERT INTO dropped_places VALUES (7, 's3://b/d', 0)")
        connection.exec_driver_sql("INSERT INTO tags VALUES ('gone', 'k', 'v')")
        connection.exec_driver_sql("INSERT INTO resource_settings VALUES ('gone', 'k', '{}', 1, 1)")
        connection.exec_driver_sql(
            "INSERT INTO policies VALUES ('table', 7, 'icebergCompaction', '{}', 1, 1)"
        )
    run(engine, command.downgrade, "0008_resources")
    assert rows(engine, *kept) == before
    assert rows(engine, "table_places") == {"table_places": [(5, "s3://b/t")]}
    assert [row[1] for row in layout(engine)] == before_layout
    run(engine, command.upgrade, "0009_dropped_tables")


def test_0010_adds_held_files_and_going_back_deletes_none_that_was_held(engine: Engine) -> None:
    run(engine, command.upgrade, "0009_dropped_tables")
    before_layout = [row[1] for row in layout(engine)]
    marks = ("held", "deleting", "waiting")
    with engine.begin() as connection:
        for path in marks:
            connection.exec_driver_sql(f"INSERT INTO unreferenced_objects VALUES ('uuid', '{path}', 7)")
    before = rows(engine, "unreferenced_objects")
    run(engine, command.upgrade, "0010_held_files")
    assert rows(engine, "unreferenced_objects")["unreferenced_objects"] == [
        ("uuid", path, 7, None, 0) for path in marks
    ]
    run(engine, command.downgrade, "0009_dropped_tables")
    assert rows(engine, "unreferenced_objects") == before
    run(engine, command.upgrade, "0010_held_files")
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO held_files VALUES ('uuid', 'held', NULL, 1, 'me', 1)")
        connection.exec_driver_sql("INSERT INTO held_files VALUES ('other', 'waiting', NULL, 1, 'me', 1)")
    run(engine, command.downgrade, "0009_dropped_tables")
    # Its age begins anew: before it may go it must be found unreferenced again.
    assert rows(engine, "unreferenced_objects")["unreferenced_objects"] == [
        ("uuid", "deleting", 7),
        ("uuid", "waiting", 7),
    ]
    assert [row[1] for row in layout(engine)] == before_layout


def test_0011_leaves_what_runs_to_nobody_and_goes_down_again(engine: Engine) -> None:
    run(engine, command.upgrade, "0010_held_files")
    before_layout = [row[1] for row in layout(engine)]
    with engine.begin() as connection:
        connection.exec_driver_sql(ROWS_OF_0001.split(";\n", maxsplit=1)[0])
        connection.exec_driver_sql(
            "INSERT INTO jobs (id, kind, state, origin, bucket_id, table_uuid, dry_run, payload, priority, attempts, "
            "max_attempts, run_after_ms, lease_owner, lease_until_ms, created_at_ms) "
            "VALUES (7, 'icebergCompaction', 'running', 'api', 1, 'uuid', FALSE, '{}', 0, 1, 5, 0, 'w', 9, 1)"
        )
    before = rows(engine, "jobs")
    run(engine, command.upgrade, "0011_lease_tokens")
    with engine.begin() as connection:
        for token in ("", "w"):
            assert not jobs.heartbeat(connection, 7, token, 99)
            assert not jobs.leased(connection, 7, token, 5)
    run(engine, command.downgrade, "0010_held_files")
    assert rows(engine, "jobs") == before
    assert [row[1] for row in layout(engine)] == before_layout


def test_0012_adds_registered_topics_and_keeps_the_rows_before_up_and_down(engine: Engine) -> None:
    run(engine, command.upgrade, "0011_lease_tokens")
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO buckets (name, location, properties, created_at_ms) VALUES ('b', 'file:///b', '{}', 1)"
        )
    run(engine, command.upgrade, "0012_ingest_topics")
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO ingest_topics (bucket_id, topic, document, home, version, updated_at_ms)"
            " SELECT id, 't', '{}', 'x', 1, 1 FROM buckets"
        )
    run(engine, command.downgrade, "0011_lease_tokens")
    run(engine, command.upgrade, "0012_ingest_topics")
    with engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT name FROM buckets").scalars().all() == ["b"]
        assert connection.exec_driver_sql("SELECT count(*) FROM ingest_topics").scalar_one() == 0


async def test_a_database_newer_than_the_program_is_refused(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "frazil.db")
    await database.start()
    await database.close()
    with sqlite3.connect(tmp_path / "frazil.db") as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999_future'")
    raw.close()
    newer = SqliteDatabase(tmp_path / "frazil.db")
    with pytest.raises(migrate.DatabaseTooNew, match=r"9999_future.*newer frazil"):
        await newer.start()
    await newer.close()


async def test_a_file_that_is_no_database_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "frazil.db").write_bytes(b"this is not a database at all, whatever its name says" * 100)
    database = SqliteDatabase(tmp_path / "frazil.db")
    with pytest.raises(StartError, match="can not be opened") as caught:
        await database.start()
    assert "\n" not in str(caught.value)
    await database.close()


async def test_several_starts_at_once_migrate_once(tmp_path: Path) -> None:
    databases = [SqliteDatabase(tmp_path / "frazil.db") for _ in range(4)]
    await asyncio.gather(*(database.start() for database in databases))
    for database in databases:
        await database.close()


async def test_rows_survive_a_second_start(database: Database, opened: Opener) -> None:
    await database.write(
        lambda connection: (
            connection.exec_driver_sql(
                "INSERT INTO buckets (name, location, properties, created_at_ms) VALUES ('b', 'memory://b', '{}', 1)"
            )
            and None
        )
    )
    again = await opened()
    found = await again.read(lambda c: c.exec_driver_sql("SELECT name FROM buckets").scalar_one())
    assert found == "b"
