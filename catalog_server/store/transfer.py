"""All rows of a database to and from a file: what backups, restores and moves between kinds of database are made of.

The file is an SQLite database of this program's revision. It is read and written through the same statements as any
other, a page of rows at a time, so that its size does not matter. Texts with JSON go over as they are.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import (
    Connection,
    Engine,
    RowMapping,
    Table,
    TableClause,
    column,
    create_engine,
    delete,
    func,
    insert,
    select,
    table,
    tuple_,
    update,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from catalog_server.settings import StartError
from catalog_server.store import migrate
from catalog_server.store.schema import METADATA, TEXT, JsonText, dropped_tables, jobs, unreferenced_objects
from maintenance.ports import JobKind

_PAGE: Final = 1000

Counts = dict[str, int]
"""Rows by table."""


class NotEmpty(StartError):
    """The database that was to be filled holds something."""


def dump(source: Connection, path: Path) -> Counts:
    """Write all rows into a new file at `path`, whatever lies there; the source's transaction makes them consistent."""
    path.unlink(missing_ok=True)
    with _opened(path) as target:
        migrate.bring_up_to_date(target, str(path))
        counts = _copy_all(source, target)
        _carry_ids(source, target)
    return counts


def load(target: Connection, path: Path) -> Counts:
    """Fill the database, which is of this program's revision, with the rows of a file that `dump` wrote.

    Raises:
        NotEmpty: the database holds something.
        StartError: the file is not such a file, or holds less or other than it should.
    """
    for each in METADATA.sorted_tables:
        if target.execute(select(1).select_from(each).limit(1)).first() is not None:
            raise NotEmpty(f"table {each.name} has rows: only an empty database can be filled")
    with _opened(path) as source:
        counts = _copy_all(source, target)
        _carry_ids(source, target)
    return counts


def check_file(path: Path) -> None:
    """Make sure that the file is one that `dump` wrote, undamaged; an older release's is brought to this revision.

    Raises:
        StartError: it is not, or a newer release wrote it.
    """
    if not path.is_file():
        raise StartError(f"no backup at {path}")
    try:
        with _opened(path) as file:
            problems = file.exec_driver_sql("PRAGMA quick_check").scalars().all()
            if problems != ["ok"]:
                raise StartError(f"backup {path} is damaged: {problems[0]}")
            if migrate.revision(file) is None:
                raise StartError(f"{path} is not a backup that frazil made")
            migrate.bring_up_to_date(file, str(path))
            stray = file.exec_driver_sql("PRAGMA foreign_key_check").first()
            if stray is not None:
                raise StartError(f"backup {path} is damaged: a row of {stray[0]} lacks its row of {stray[2]}")
    except DBAPIError as error:
        raise StartError(f"{path} is not a backup that frazil made: {error.orig}") from None


def hold_deletions(path: Path, until_ms: int) -> None:
    """Put off what a backup's rows would delete: since it was taken, somebody may have thought better of it."""
    with _opened(path) as file:
        file.execute(delete(unreferenced_objects))
        purges = update(jobs).where(jobs.c.kind == JobKind.PURGE.value)
        later = func.max(jobs.c.run_after_ms, until_ms)
        file.execute(purges.where(jobs.c.state == "queued").values(run_after_ms=later))
        # Leased by nobody until then.
        file.execute(
            purges.where(jobs.c.state == "running").values(lease_until_ms=until_ms, lease_token=None)
        )
        kept = func.max(dropped_tables.c.expires_at_ms, until_ms)
        expiring = dropped_tables.c.expires_at_ms.is_not(None)
        file.execute(update(dropped_tables).where(expiring).values(expires_at_ms=kept))


def _copy_all(source: Connection, target: Connection) -> Counts:
    counts: Counts = {}
    for each in METADATA.sorted_tables:
        plain, keys = _plain(each), [key.name for key in each.primary_key]
        counts[each.name] = 0
        for rows in _pages(source, plain, keys):
            target.execute(insert(plain), [dict(row) for row in rows])
            counts[each.name] += len(rows)
        arrived = target.execute(select(func.count()).select_from(each)).scalar_one()
        if arrived != counts[each.name]:
            raise StartError(
                f"of {counts[each.name]} rows of {each.name}, {arrived} arrived; nothing is kept"
            )
    return counts


def _plain(of: Table) -> TableClause:
    """The table without what changes values on the way."""
    columns = (column(c.name, TEXT if isinstance(c.type, JsonText) else c.type) for c in of.columns)
    return table(of.name, *columns)


def _pages(source: Connection, of: TableClause, keys: Sequence[str]) -> Iterator[Sequence[RowMapping]]:
    key = [of.c[name] for name in keys]
    page = select(of).order_by(*key).limit(_PAGE)
    rows = source.execute(page).mappings().all()
    while rows:
        yield rows
        last = [rows[-1][name] for name in keys]
        rows = source.execute(page.where(tuple_(*key) > tuple_(*last))).mappings().all()


def _carry_ids(source: Connection, target: Connection) -> None:
    """Ids are never given out twice, those of rows that are gone included."""
    for each in METADATA.sorted_tables:
        if each.dialect_options["sqlite"]["autoincrement"]:
            _set_last_id(target, each.name, _last_id(source, each.name))


def _last_id(connection: Connection, name: str) -> int:
    if connection.dialect.name == "sqlite":
        row = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = ?", (name,)).first()
        return 0 if row is None else int(row[0])
    sequence = connection.execute(select(func.pg_get_serial_sequence(name, "id"))).scalar_one()
    last, is_given = connection.exec_driver_sql(f"SELECT last_value, is_called FROM {sequence}").one()  # noqa: S608
    return int(last) if is_given else 0


def _set_last_id(connection: Connection, name: str, last: int) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
        connection.exec_driver_sql("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, last))
    elif last:
        sequence = connection.execute(select(func.pg_get_serial_sequence(name, "id"))).scalar_one()
        connection.execute(select(func.setval(sequence, last)))


@contextmanager
def _opened(path: Path) -> Iterator[Connection]:
    """The file in one transaction, for this process alone."""
    engine: Engine = create_engine(URL.create("sqlite", database=str(path)), poolclass=NullPool)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()
