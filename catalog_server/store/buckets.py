"""Rows of table buckets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, exists, insert, or_, select

from catalog_server.store.schema import buckets, tables, views
from table_format.errors import AlreadyExists, NoSuchWarehouse


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRow:
    """A table bucket: a name and the place below which all its tables lie.

    `storage` holds the properties of its object store that differ from the installation's, none of them secret;
    `credentials` names those in the settings.
    """

    id: int
    name: str
    location: str
    properties: dict[str, str]
    created_at_ms: int
    storage: dict[str, str]
    credentials: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketStorage:
    """Where a bucket's objects are, and how its store is reached."""

    location: str
    storage: Mapping[str, str]
    credentials: str | None


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


def holding(connection: Connection, locations: Sequence[str]) -> list[BucketStorage]:
    """The storage of the buckets that lie at one of these places."""
    query = select(buckets.c.location, buckets.c.storage, buckets.c.credentials)
    found = connection.execute(query.where(buckets.c.location.in_(locations)))
    return [BucketStorage(location=at, storage=storage, credentials=name) for at, storage, name in found]


def create(
    connection: Connection,
    name: str,
    location: str,
    properties: Mapping[str, str],
    now_ms: int,
    *,
    storage: Mapping[str, str] | None = None,
    credentials: str | None = None,
) -> BucketRow:
    """Insert a bucket.

    Raises:
        AlreadyExists: the name is taken.
    """
    if find(connection, name) is not None:
        raise AlreadyExists(f"Table bucket already exists: {name}")
    connection.execute(
        insert(buckets).values(
            name=name,
            location=location,
            properties=dict(properties),
            created_at_ms=now_ms,
            storage=dict(storage or {}),
            credentials=credentials,
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
        storage=row.storage,
        credentials=row.credentials,
    )
