"""Bring the database to this program's revision at start, one process at a time.

A database that a newer program has written is refused, not guessed at.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect

from catalog_server.settings import StartError
from catalog_server.store import schema

_INSIDE_PACKAGE = Path(__file__).resolve().parent.parent / "migrations"
_IN_SOURCE_TREE = Path(__file__).resolve().parent.parent.parent / "migrations"


class DatabaseTooNew(StartError):
    """The database has a revision that this program does not know."""


def scripts() -> Path:
    """The directory with the Alembic scripts: inside the installed package, or at the top of a checkout."""
    return _INSIDE_PACKAGE if _INSIDE_PACKAGE.is_dir() else _IN_SOURCE_TREE


def upgrade(engine: Engine, path: Path) -> str | None:
    """Apply the migrations that are missing to an SQLite file; the revision it had, None when it is new.

    Raises:
        DatabaseTooNew: the database has an unknown revision.
    """
    with (
        _lock(path.with_name(path.name + ".migrate.lock")),
        engine.connect() as connection,
        connection.begin(),
    ):
        return bring_up_to_date(connection, str(path))


def bring_up_to_date(connection: Connection, name: str) -> str | None:
    """Apply the migrations that are missing, in the transaction of the connection, which no other process is in.

    Returns the revision that the database had before; None: it was empty.

    Raises:
        DatabaseTooNew: the database has an unknown revision.
    """
    current = revision(connection)
    if current == schema.REVISION:
        return current
    # Alembic takes a third of a second to import, and most starts have nothing to migrate.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        raise DatabaseTooNew(
            f"database {name} is of revision {current}, which this program does not know: "
            "it was written by a newer frazil; start that one"
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    return current


def revision(connection: Connection) -> str | None:
    """The database's revision; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    row = connection.exec_driver_sql("SELECT version_num FROM alembic_version").first()
    return None if row is None else str(row[0])


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
