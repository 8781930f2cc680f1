"""Backups of the catalog's database, their way back, and moves from one kind of database to another.

A backup is taken while servers run. A way back or a move fills an empty database, whole or not at all. Tables' files
are not part of it: they lie in the object store, and no commit ever overwrites one.
"""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect

from catalog_server.settings import Settings, StartError
from catalog_server.store import transfer
from catalog_server.store.engine import Database, choose
from catalog_server.store.look import Found, look
from catalog_server.store.schema import METADATA, REVISION
from catalog_server.store.transfer import Counts, NotEmpty
from table_format.clock import SystemClock
from table_format.errors import CommitStateUnknown, Unavailable

HOLD_MS: Final = 7 * 86_400_000
"""For so long after a restore nothing is deleted that had been about to go when the backup was taken."""


async def backup(settings: Settings, file: Path) -> Counts:
    """Write all rows, as they are at one moment, to a new file; it appears only once it is whole and on disk.

    Raises:
        StartError: the database is not there or of another revision, or the file is there or can not be written.
    """
    partial = _partial(file)
    async with _of_this_revision(settings) as database:
        try:
            counts = await _dumped(database, partial)
            _publish(partial, file)
        except OSError as error:
            raise StartError(f"backup {file} can not be written: {error.strerror or error}") from None
        finally:
            partial.unlink(missing_ok=True)
    return counts


async def restore(settings: Settings, file: Path) -> Counts:
    """Fill the settings' database, which must be empty, from a backup of this or an earlier release.

    Raises:
        StartError: the file is no backup, or the database is not empty or can not be used.
    """
    with tempfile.TemporaryDirectory(prefix="frazil-restore-") as folder:
        copied = _copied(file, folder)  # an older one is brought up to date; the original stays as it is
        transfer.check_file(copied)
        transfer.hold_deletions(copied, SystemClock().now_ms() + HOLD_MS)
        return await _fill(settings, copied)


async def move(source: Settings, target: Settings) -> Counts:
    """Copy all rows to the target's database, which must be empty; no other process may have the source open.

    Raises:
        StartError: the source is in use, missing or of another revision, or the target is not empty. When the source
            came into use only while the target was filled, the target is full all the same.
    """
    await _refuse_in_use(source, "what is committed meanwhile would be missing in the copy. ")
    if str(source.database_location) == str(target.database_location):
        raise StartError(f"{source.database_location} is the database itself: give another with --to")
    with tempfile.TemporaryDirectory(prefix="frazil-copy-") as folder:
        file = Path(folder) / "rows.db"
        async with _of_this_revision(source) as database:
            await _dumped(database, file)
        await _refuse_in_use(source, "something opened it while it was read; nothing was copied. ")
        transfer.check_file(file)
        counts = await _fill(target, file)
    opened = (
        f"something opened it since it was read, and what that commits is missing in the copy at "
        f"{target.database_location}. Do not use that copy: empty it and copy again. "
    )
    await _refuse_in_use(source, opened)
    return counts


async def require_this_revision(settings: Settings) -> None:
    """Make sure that opening the database will not change it.

    Raises:
        StartError: it is not there, or of another revision.
    """
    found = await look(settings)
    if found.revision != REVISION:
        raise StartError(_other_revision(settings, found))


async def problems(settings: Settings) -> list[str]:
    """What is wrong with the database itself, in sentences; its tables' files are not looked at.

    Raises:
        StartError: it can not be opened.
    """
    found = await look(settings)
    if found.revision != REVISION:
        return [_other_revision(settings, found)]
    database = choose(settings)
    await database.start()
    try:
        return await database.read(_damage)
    finally:
        await database.close()


def _damage(connection: Connection) -> list[str]:
    told = []
    there = inspect(connection)
    for table in METADATA.sorted_tables:
        if not there.has_table(table.name):
            told.append(f"table {table.name} is missing")
            continue
        columns = {column["name"] for column in there.get_columns(table.name)}
        told += [f"table {table.name} lacks column {c.name}" for c in table.columns if c.name not in columns]
    if connection.dialect.name == "sqlite":
        found = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        told += [str(line) for line in found if line != "ok"]
        strays = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        told += [f"row {row[1]} of {row[0]} lacks its row of {row[2]}" for row in strays]
    return told


@asynccontextmanager
async def _of_this_revision(settings: Settings) -> AsyncIterator[Database]:
    """The database, open; never changed for it."""
    await require_this_revision(settings)
    database = choose(settings)
    await database.start()
    try:
        yield database
    finally:
        await database.close()


async def _refuse_in_use(settings: Settings, why: str) -> None:
    if (await look(settings)).in_use:
        raise StartError(
            f"database {settings.database_location} is in use: {why}Stop every `frazil serve` and `frazil worker` on "
            "it first; `frazil backup` needs no stop"
        )


def _other_revision(settings: Settings, found: Found) -> str:
    where = settings.database_location
    if found.revision is None:
        return f"database {where} is empty or not there: `frazil serve` makes it; see --data-dir and database.url"
    return (
        f"database {where} is of revision {found.revision}, this program of {REVISION}: run `frazil db upgrade`, "
        "or use the frazil that wrote it"
    )


async def _dumped(database: Database, file: Path) -> Counts:
    try:
        return await database.read(transfer.dump, file)
    except Unavailable as error:
        raise StartError(error.message) from error


async def _fill(settings: Settings, file: Path) -> Counts:
    where = settings.database_location
    if isinstance(where, Path):
        where.parent.mkdir(parents=True, exist_ok=True)
    database = choose(settings)
    await database.start()
    try:
        return await database.write(transfer.load, file)
    except NotEmpty as error:
        raise StartError(f"database {where}: {error}") from None
    except Unavailable as error:
        raise StartError(error.message) from error
    except CommitStateUnknown as error:
        raise StartError(
            f"database {where}: {error.message}. It holds all of the rows or none: run the same again. That fills it "
            "if it is empty, and if it is refused because there are rows, they are all there"
        ) from error
    finally:
        await database.close()


def _partial(file: Path) -> Path:
    if file.exists():
        raise StartError(f"{file} exists already: a backup overwrites nothing")
    if not file.parent.is_dir():
        raise StartError(f"backup {file} can not be written: there is no directory {file.parent}")
    return file.with_name(f".{file.name}.partial")


def _copied(file: Path, folder: str) -> Path:
    if not file.is_file():
        raise StartError(f"no backup at {file}")
    return Path(shutil.copyfile(file, Path(folder) / "backup.db"))


def _publish(partial: Path, file: Path) -> None:
    """Under its name only when it is on disk, readable by its owner alone, and in nobody's place."""
    partial.chmod(0o600)
    with partial.open("rb") as handle:
        os.fsync(handle.fileno())
    os.link(partial, file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
