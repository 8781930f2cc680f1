"""A look at a database from outside, which changes nothing: its revision, and whether others have it open."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from catalog_server.settings import PostgresUrl, Settings, StartError
from catalog_server.store import postgres_errors
from catalog_server.store.postgres import connect_options

_REVISION = "SELECT version_num FROM alembic_version"
_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'frazil' AND pid <> pg_backend_pid()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a look found."""

    revision: str | None
    """None: nothing was ever kept here."""
    in_use: bool
    """Whether another process of ours has it open."""


async def look(settings: Settings) -> Found:
    """Look at the database that the settings name.

    Raises:
        StartError: it can not be opened; an SQLite file that is not there is no error.
    """
    location = settings.database_location
    if isinstance(location, PostgresUrl):
        return await _postgres(location, settings)
    return _sqlite(location)


def _sqlite(path: Path) -> Found:
    if not path.exists():
        return Found(revision=None, in_use=False)
    try:
        # Whoever has a file in WAL mode open holds a lock on it, which this mode does not share.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=0)) as alone:
            alone.execute("PRAGMA locking_mode = EXCLUSIVE")
            try:
                alone.execute("BEGIN IMMEDIATE")
                alone.execute("ROLLBACK")
                in_use = False
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                in_use = True
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
            has = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
            row = connection.execute(_REVISION).fetchone() if connection.execute(has).fetchone() else None
    except sqlite3.Error as error:
        raise StartError(f"database {path} can not be opened: {error}") from error
    return Found(revision=None if row is None else str(row[0]), in_use=in_use)


async def _postgres(location: PostgresUrl, settings: Settings) -> Found:
    try:
        connection = await asyncpg.connect(**connect_options(location.url, settings.database))
        try:
            has = await connection.fetchval("SELECT to_regclass('alembic_version') IS NOT NULL")
            revision = await connection.fetchval(_REVISION) if has else None
            others = await connection.fetchval(_OTHERS)
        finally:
            await connection.close()
    except postgres_errors.ANY as error:
        reason = postgres_errors.start_reason(error)
        raise StartError(f"database {location.label} can not be used: {reason}") from None
    return Found(revision=revision, in_use=others > 0)
