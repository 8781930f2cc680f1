"""Which files of a table were seen without a reference, and since when."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, delete, insert, select

from catalog_server.store.schema import unreferenced_objects
from catalog_server.store.units import row_locks

_CHUNK = 500  # paths per statement, well below SQLite's limit of variables


def known(connection: Connection, table_uuid: str) -> dict[str, int]:
    """First-seen milliseconds by path."""
    rows = connection.execute(
        select(unreferenced_objects.c.path, unreferenced_objects.c.first_seen_ms).where(
            unreferenced_objects.c.table_uuid == table_uuid
        )
    )
    return {row.path: row.first_seen_ms for row in rows}


@row_locks
def mark(connection: Connection, table_uuid: str, first_seen_ms: Mapping[str, int]) -> None:
    """Add paths; one that is known keeps its time."""
    before = known(connection, table_uuid)
    new = [
        {"table_uuid": table_uuid, "path": path, "first_seen_ms": at_ms}
        for path, at_ms in first_seen_ms.items()
        if path not in before
    ]
    if new:
        connection.execute(insert(unreferenced_objects), new)


@row_locks
def forget(connection: Connection, table_uuid: str, paths: Sequence[str]) -> None:
    """Remove paths."""
    for start in range(0, len(paths), _CHUNK):
        connection.execute(
            delete(unreferenced_objects).where(
                unreferenced_objects.c.table_uuid == table_uuid,
                unreferenced_objects.c.path.in_(paths[start : start + _CHUNK]),
            )
        )


def forget_all(connection: Connection, table_uuid: str) -> None:
    """Remove all paths of a table: what was known of them holds no more."""
    connection.execute(delete(unreferenced_objects).where(unreferenced_objects.c.table_uuid == table_uuid))
