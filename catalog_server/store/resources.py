"""Ids that buckets and tables have for as long as they are there: ARNs and tags refer to them.

They are made of what is never given out twice (row ids, uuids of tables), so no source of randomness is needed.
"""

import uuid
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Connection, Select, String, and_, bindparam, or_, select

from catalog_server.store import resource_settings, tags
from catalog_server.store.schema import buckets, dropped_tables, tables
from table_format.errors import NotFound

_SPACE = uuid.UUID("6f1c2b8e-4a54-5d0e-9c39-0a6f27b1d0c5")


def bucket_id(row_id: int, name: str, created_at_ms: int) -> str:
    """The resource id of a new bucket."""
    return str(uuid.uuid5(_SPACE, f"bucket {row_id} {name} {created_at_ms}"))


def free_table_id(connection: Connection, table_uuid: str) -> str:
    """The resource id of a new table: its uuid, unless a table that had this uuid once still goes by it."""
    candidate, taken = table_uuid, 0
    while _is_taken(connection, candidate):
        taken += 1
        candidate = str(uuid.uuid5(_SPACE, f"table {table_uuid} {taken}"))
    return candidate


def require(connection: Connection, resource_id: str) -> None:
    """Check that there is a bucket or table of that id.

    Raises:
        NotFound: there is none.
    """
    for query in (
        select(tables.c.id).where(is_table(resource_id)),
        select(buckets.c.id).where(buckets.c.resource_id == resource_id),
    ):
        if connection.execute(query).first() is not None:
            return
    unwritten = select(buckets.c.id, buckets.c.name, buckets.c.created_at_ms)
    for row in connection.execute(unwritten.where(buckets.c.resource_id.is_(None))):
        if bucket_id(row.id, row.name, row.created_at_ms) == resource_id:
            return
    raise NotFound(f"No table bucket and no table has the resource id {resource_id[:100]!r}")


def forget(connection: Connection, resource_id: str) -> None:
    """Remove what hangs on a resource that goes: its tags, its settings."""
    tags.forget(connection, resource_id)
    resource_settings.forget(connection, resource_id)


def _is_taken(connection: Connection, resource_id: str) -> bool:
    wanted = {"wanted": resource_id}
    return any(connection.execute(query, wanted).first() is not None for query in _taken())


@cache
def _taken() -> tuple[Select[Any], ...]:
    """What has that resource id; made once, since making a statement costs more than running it."""
    wanted = bindparam("wanted", type_=String)
    dropped = select(dropped_tables.c.table_id).where(dropped_tables.c.resource_id == wanted)
    return select(tables.c.id).where(is_table(wanted)), dropped


def is_table(resource_id: str | BindParameter[str]) -> ColumnElement[bool]:
    """Whether a row of tables has that resource id; one that was never written down is the table's uuid."""
    own = tables.c.resource_id
    return or_(own == resource_id, and_(own.is_(None), tables.c.table_uuid == resource_id))
