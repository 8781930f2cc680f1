"""Rows of table buckets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, exists, insert, or_, select

from catalog_server.store.schema import buckets, tables, views
from table_format.errors import AlreadyExists, NoSuchWarehouse


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRow:
    """A table bucket: a name and the place below which all its tables lie."""

    id: int
    name: str
    location: str
    properties: dict[str, str]
    created_at_ms: int


def find(connection: Connection, name: str) -> BucketRow | None:
    """The bucket of that name, or None."""
    row = connection.execute(select(buckets).where(buckets.c.name == name)).first()
    return None if row is None else _bucket(row)


def require(connection: Connection, name: str) -> BucketRow:
    """The bucket of that name.

    Raises:
        NoSuchWarehouse: there is none.
    """
    found = find(connection, name)
    if found is None:
        raise NoSuchWarehouse(f"Table bucket does not exist: {name}")
    return found


def page(connection: Connection, after: tuple[str, ...] | None, limit: int | None) -> list[BucketRow]:
    """Buckets by name."""
    query = select(buckets).order_by(buckets.c.name).limit(limit)
    if after is not None:
        query = query.where(buckets.c.name > after[0])
    return [_bucket(row) for row in connection.execute(query)]


def in_use(connection: Connection, bucket_id: int) -> bool:
    """Whether the bucket has a table or view."""
    query = select(
        or_(exists().where(tables.c.bucket_id == bucket_id), exists().where(views.c.bucket_id == bucket_id))
    )
    return bool(connection.execute(query).scalar_one())


def create(
    connection: Connection, name: str, location: str, properties: Mapping[str, str], now_ms: int
) -> BucketRow:
    """Insert a bucket.

    Raises:
        AlreadyExists: the name is taken.
    """
    if find(connection, name) is not None:
        raise AlreadyExists(f"Table bucket already exists: {name}")
    connection.execute(
        insert(buckets).values(
            name=name, location=location, properties=dict(properties), created_at_ms=now_ms
        )
    )
    return require(connection, name)


def _bucket(row: Row[Any]) -> BucketRow:
    return BucketRow(
        id=row.id,
        name=row.name,
        location=row.location,
        properties=row.properties,
        created_at_ms=row.created_at_ms,
    )
