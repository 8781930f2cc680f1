"""Moves and restores when something comes in between: another process, or a COMMIT whose answer is lost."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from catalog_server.bootstrap import build
from catalog_server.services import backups
from catalog_server.settings import Settings, StartError, load
from catalog_server.store import transfer
from catalog_server.store.engine import Database, choose
from table_format.errors import CommitStateUnknown

pytestmark = pytest.mark.anyio
Place = Callable[[str], Settings]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Settings of a database of its own, by name."""

    def named(name: str) -> Settings:
        return load(
            None, {}, {"server.data_dir": tmp_path, "database.url": f"sqlite:///{tmp_path}/{name}.db"}
        )

    return named


@pytest.fixture
async def source(place: Place) -> Settings:
    """A database with its tables and one bucket in it."""
    settings = place("source")
    platform = build(settings)
    await platform.start()
    await platform.close()
    return settings


@pytest.fixture
def opener(source: Settings) -> Iterator[Callable[[], None]]:
    """Opens the source as another process does, until the test ends."""
    with closing(sqlite3.connect(str(source.database_location), check_same_thread=False)) as other:
        yield lambda: other.execute("SELECT count(*) FROM buckets").close()


async def test_a_database_that_is_opened_while_it_is_read_is_not_copied(
    source: Settings, place: Place, opener: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def dump(*arguments: Any) -> transfer.Counts:
        opener()
        return inner(*arguments)

    inner = transfer.dump
    monkeypatch.setattr(transfer, "dump", dump)
    with pytest.raises(StartError, match="opened it while it was read; nothing was copied"):
        await backups.move(source, place("target"))
    assert not Path(str(place("target").database_location)).exists()


async def test_a_copy_of_a_database_that_was_opened_since_is_not_to_be_used(
    source: Settings, place: Place, opener: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_rows(*arguments: Any) -> transfer.Counts:
        opener()
        return inner(*arguments)

    inner = transfer.load
    monkeypatch.setattr(transfer, "load", load_rows)
    with pytest.raises(StartError, match="Do not use that copy: empty it and copy again"):
        await backups.move(source, place("target"))


@pytest.mark.parametrize("applied", [True, False])
async def test_a_restore_whose_commit_is_in_doubt_says_how_to_find_out(
    source: Settings, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    written = await backups.backup(source, tmp_path / "backup.db")

    def doubtful(settings: Settings) -> Database:
        database = choose(settings)
        inner = database.write

        async def write(*arguments: Any) -> Any:
            if applied:
                await inner(*arguments)
            raise CommitStateUnknown("the database failed while committing")

        database.write = write  # type: ignore[method-assign,assignment]
        return database

    with monkeypatch.context() as patched:
        patched.setattr(backups, "choose", doubtful)
        with pytest.raises(StartError, match="all of the rows or none: run the same again"):
            await backups.restore(place("target"), tmp_path / "backup.db")
    if applied:
        with pytest.raises(StartError, match="only an empty database can be filled"):
            await backups.restore(place("target"), tmp_path / "backup.db")
    else:
        assert await backups.restore(place("target"), tmp_path / "backup.db") == written
