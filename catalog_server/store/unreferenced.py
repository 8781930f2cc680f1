"""Which files of a table were seen without a reference, since when, and which of them are held back from deletion.

A file is either being deleted or can be held, never both: the deletion of a batch and a hold are decided in write units
that exclude each other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, and_, delete, insert, or_, select, union, update

from catalog_server.store.schema import held_files, unreferenced_objects
from catalog_server.store.units import row_locks
from table_format.errors import JobInTheWay, NoSuchFile, VersionConflict

_CHUNK = 500  # paths per statement, well below SQLite's limit of variables

_noted = unreferenced_objects.c
_held = held_files.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why a file stays although nothing refers to it."""

    until_ms: int | None
    """None: until it is released."""
    held_at_ms: int
    held_by: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoncurrentRow:
    """A file that is noted as unreferenced, or held, or both."""

    path: str
    size: int | None
    """None: not known."""
    noted_at_ms: int | None
    """None: it is held, and was not seen without a reference since."""
    deleting: bool
    hold: Hold | None


def known(connection: Connection, table_uuid: str) -> dict[str, int]:
    """First-seen milliseconds by path."""
    rows = connection.execute(
        select(_noted.path, _noted.first_seen_ms).where(_noted.table_uuid == table_uuid)
    )
    return {row.path: row.first_seen_ms for row in rows}


@row_locks
def mark(connection: Connection, table_uuid: str, files: Sequence[tuple[str, int, int]]) -> None:
    """Add files (path, size, first seen); one that is known keeps its time."""
    before = known(connection, table_uuid)
    new = {
        path: {"table_uuid": table_uuid, "path": path, "size": size, "first_seen_ms": at_ms}
        for path, size, at_ms in files
        if path not in before
    }
    if new:
        connection.execute(insert(unreferenced_objects), list(new.values()))


@row_locks
def forget(connection: Connection, table_uuid: str, paths: Sequence[str]) -> None:
    """Remove paths; what is held stays held."""
    for chunk in _chunks(paths):
        connection.execute(
            delete(unreferenced_objects).where(_noted.table_uuid == table_uuid, _noted.path.in_(chunk))
        )


def forget_all(connection: Connection, table_uuid: str) -> None:
    """Remove all paths of a table: what was known of them holds no more. What is held stays held."""
    connection.execute(delete(unreferenced_objects).where(_noted.table_uuid == table_uuid))


def held(connection: Connection, table_uuid: str, paths: Sequence[str], now_ms: int) -> set[str]:
    """Those of the paths that are held at that moment."""
    return {
        path
        for chunk in _chunks(paths)
        for path in connection.execute(
            select(_held.path).where(_held.table_uuid == table_uuid, _held.path.in_(chunk), _in_force(now_ms))
        ).scalars()
    }


def claim(connection: Connection, table_uuid: str, paths: Sequence[str], now_ms: int) -> list[str]:
    """Those of the paths that may be deleted now, as they are noted and not held; they cannot be held any more."""
    kept = held(connection, table_uuid, paths, now_ms)
    wanted = [path for path in paths if path not in kept]
    for chunk in _chunks(wanted):
        connection.execute(
            update(unreferenced_objects)
            .where(_noted.table_uuid == table_uuid, _noted.path.in_(chunk))
            .values(deleting=True)
        )
    return wanted


def page(
    connection: Connection, table_uuid: str, after: str | None, limit: int | None, *, held_only: bool
) -> list[NoncurrentRow]:
    """Noted and held files by path, those after a path."""
    holds = select(_held.path.label("path")).where(_held.table_uuid == table_uuid)
    notes = select(_noted.path.label("path")).where(_noted.table_uuid == table_uuid)
    paths = (holds if held_only else union(holds, notes)).subquery()
    query = _rows(table_uuid, paths)
    if after is not None:
        query = query.where(paths.c.path > after)
    return [_row(row) for row in connection.execute(query.order_by(paths.c.path).limit(limit))]


def find(connection: Connection, table_uuid: str, path: str) -> NoncurrentRow:
    """One file.

    Raises:
        NoSuchFile: it is neither noted nor held.
    """
    holds = select(_held.path.label("path")).where(_held.table_uuid == table_uuid, _held.path == path)
    notes = select(_noted.path.label("path")).where(_noted.table_uuid == table_uuid, _noted.path == path)
    row = connection.execute(_rows(table_uuid, union(holds, notes).subquery())).first()
    if row is None:
        raise NoSuchFile(f"No noncurrent file of this table has the path {path[:2000]}")
    return _row(row)


def hold(
    connection: Connection, table_uuid: str, path: str, wanted: Hold, if_version: int | None
) -> NoncurrentRow:
    """Hold a file back from deletion; a hold that is there already is replaced. The version in `wanted` is a floor.

    Raises:
        NoSuchFile: it is neither noted nor held.
        JobInTheWay: it is being deleted.
        VersionConflict: the hold is not of the version the caller knows (0: not there).
    """
    before = find(connection, table_uuid, path)
    _same_version(before, if_version)
    if before.deleting:
        raise JobInTheWay(f"{path[:2000]} is being deleted: it can not be held any more")
    version = max(wanted.version, (before.hold.version if before.hold else 0) + 1)
    values = {
        "until_ms": wanted.until_ms,
        "held_at_ms": wanted.held_at_ms,
        "held_by": wanted.held_by,
        "version": version,
    }
    if before.hold is None:
        connection.execute(insert(held_files).values(table_uuid=table_uuid, path=path, **values))
    else:
        connection.execute(
            update(held_files).where(_held.table_uuid == table_uuid, _held.path == path).values(**values)
        )
    return find(connection, table_uuid, path)


def release(connection: Connection, table_uuid: str, path: str, if_version: int | None) -> None:
    """Hold a file back no more: its deletion goes on where it stood.

    Raises:
        NoSuchFile: it is not held.
        VersionConflict: the hold is not of the version the caller knows.
    """
    before = find(connection, table_uuid, path)
    if before.hold is None:
        raise NoSuchFile(f"{path[:2000]} is not held")
    _same_version(before, if_version)
    connection.execute(delete(held_files).where(_held.table_uuid == table_uuid, _held.path == path))


def _same_version(row: NoncurrentRow, if_version: int | None) -> None:
    version = row.hold.version if row.hold else 0
    if if_version is not None and if_version != version:
        raise VersionConflict(
            f"The hold changed: it is at version {version}, not {if_version}; read it again and retry"
        )


def _in_force(now_ms: int) -> Any:
    return or_(_held.until_ms.is_(None), _held.until_ms > now_ms)


def _rows(table_uuid: str, paths: Any) -> Select[Any]:
    return (
        select(
            paths.c.path,
            _noted.size,
            _noted.first_seen_ms,
            _noted.deleting,
            _held.until_ms,
            _held.held_at_ms,
            _held.held_by,
            _held.version,
        )
        .select_from(paths)
        .outerjoin(unreferenced_objects, and_(_noted.table_uuid == table_uuid, _noted.path == paths.c.path))
        .outerjoin(held_files, and_(_held.table_uuid == table_uuid, _held.path == paths.c.path))
    )


def _row(row: Any) -> NoncurrentRow:
    hold = None
    if row.version is not None:
        hold = Hold(
            until_ms=row.until_ms, held_at_ms=row.held_at_ms, held_by=row.held_by, version=row.version
        )
    return NoncurrentRow(
        path=row.path,
        size=row.size,
        noted_at_ms=row.first_seen_ms,
        deleting=bool(row.deleting),
        hold=hold,
    )


def _chunks(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(paths), _CHUNK):
        yield paths[start : start + _CHUNK]
