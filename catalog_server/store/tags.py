"""Rows of tags, by the resource id of what they are on. What a tag may be is decided in the services."""

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, delete, insert, select

from catalog_server.store.schema import tags


def of(connection: Connection, resource_id: str) -> dict[str, str]:
    """All tags of a resource, by key."""
    rows = connection.execute(
        select(tags.c.key, tags.c.value).where(tags.c.resource_id == resource_id).order_by(tags.c.key)
    )
    return {row.key: row.value for row in rows}


def put(connection: Connection, resource_id: str, wanted: Mapping[str, str]) -> None:
    """Set tags; those of other keys stay."""
    remove(connection, resource_id, wanted)
    if wanted:
        rows = [{"resource_id": resource_id, "key": key, "value": value} for key, value in wanted.items()]
        connection.execute(insert(tags), rows)


def remove(connection: Connection, resource_id: str, keys: Iterable[str]) -> None:
    """Remove the tags of those keys, where they are there."""
    connection.execute(delete(tags).where(tags.c.resource_id == resource_id, tags.c.key.in_(list(keys))))


def forget(connection: Connection, resource_id: str) -> None:
    """Remove all tags of a resource that goes."""
    connection.execute(delete(tags).where(tags.c.resource_id == resource_id))
