"""Rows of table buckets. A bucket goes only when nothing is in it, decided in the transaction that deletes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, exists, func, insert, or_, select, update

from catalog_server.store import dropped, resources
from catalog_server.store.keys import namespace_of
from catalog_server.store.schema import (
    buckets,
    idempotency,
    ingest_topic_changes,
    ingest_topics,
    jobs,
    namespaces,
    policies,
    tables,
    views,
)
from table_format.errors import AlreadyExists, BucketNotEmpty, NoSuchWarehouse
from table_format.ident import TableIdent


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
    resource_id: str
    """A bucket of the same name that is made after this one was deleted has another."""
    protected: bool
    """Whether it refuses to be deleted."""
    version: int
    """Grows by one at each change of the settings."""
    updated_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketStorage:
    """Where a bucket's objects are, and how its store is reached."""

    location: str
    storage: Mapping[str, str]
    credentials: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSettings:
    """What can be changed of a bucket once it is there."""

    properties: dict[str, str] = field(default_factory=dict)
    storage: dict[str, str] = field(default_factory=dict)
    """Properties of its object store, nothing secret."""
    credentials: str | None = None
    """NAME of the setting storage.credentials.NAME."""
    protected: bool = False


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


def page(
    connection: Connection, after: tuple[str, ...] | None, limit: int | None, prefix: str = ""
) -> list[BucketRow]:
    """Buckets by name, of those whose name begins so."""
    query = select(buckets).order_by(buckets.c.name).limit(limit)
    if after is not None:
        query = query.where(buckets.c.name > after[0])
    if prefix:
        query = query.where(func.substr(buckets.c.name, 1, len(prefix)) == prefix)
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


def any_metadata(connection: Connection, bucket_id: int) -> str | None:
    """Where the current metadata of one of the bucket's tables is, the newest; None when it has no table."""
    query = select(tables.c.metadata_location).where(
        tables.c.bucket_id == bucket_id, tables.c.metadata_location != ""
    )
    found = connection.execute(query.order_by(tables.c.id.desc()).limit(1)).scalar()
    return None if found is None else str(found)


def create(  # noqa: PLR0913 - each is one column
    connection: Connection,
    name: str,
    location: str,
    properties: Mapping[str, str],
    now_ms: int,
    *,
    storage: Mapping[str, str] | None = None,
    credentials: str | None = None,
    protected: bool = False,
) -> BucketRow:
    """Insert a bucket.

    Raises:
        AlreadyExists: the name is taken.
    """
    if find(connection, name) is not None:
        raise AlreadyExists(f"Table bucket already exists: {name}")
    inserted = connection.execute(
        insert(buckets)
        .values(
            name=name,
            location=location,
            properties=dict(properties),
            created_at_ms=now_ms,
            storage=dict(storage or {}),
            credentials=credentials,
            protected=protected,
            version=1,
            updated_at_ms=now_ms,
        )
        .returning(buckets.c.id)
    ).scalar_one()
    connection.execute(
        update(buckets)
        .where(buckets.c.id == inserted)
        .values(resource_id=resources.bucket_id(inserted, name, now_ms))
    )
    return require(connection, name)


def update_settings(
    connection: Connection, row: BucketRow, settings: BucketSettings, now_ms: int
) -> BucketRow:
    """Replace what can be changed of a bucket; the same again changes nothing.

    Raises:
        NoSuchWarehouse: it was deleted meanwhile.
    """
    if settings == settings_of(row):
        return row
    connection.execute(
        update(buckets)
        .where(buckets.c.id == row.id)
        .values(
            properties=settings.properties,
            storage=settings.storage,
            credentials=settings.credentials,
            protected=settings.protected,
            version=buckets.c.version + 1,
            updated_at_ms=now_ms,
        )
    )
    return require(connection, row.name)


def settings_of(row: BucketRow) -> BucketSettings:
    """What can be changed of a bucket, as it is."""
    return BucketSettings(
        properties=row.properties,
        storage=row.storage,
        credentials=row.credentials,
        protected=row.protected,
    )


def held(connection: Connection, bucket_id: int, purge: str) -> str | None:
    """What keeps the bucket from going, in words; None when nothing does. `purge`: the kind of job deleting files."""
    for what, rows in (("table", tables), ("view", views)):
        query = (
            select(namespaces.c.key, rows.c.name)
            .join(namespaces, namespaces.c.id == rows.c.namespace_id)
            .where(rows.c.bucket_id == bucket_id)
            .limit(1)
        )
        found = connection.execute(query).first()
        if found is not None:
            return f"it contains {what} {TableIdent(namespace_of(found.key), found.name)}"
    query = select(namespaces.c.key).where(namespaces.c.bucket_id == bucket_id).order_by(namespaces.c.key)
    key = connection.execute(query.limit(1)).scalar()
    if key is not None:
        return f"it contains namespace {namespace_of(key)}"
    gone = dropped.any_of(connection, bucket_id)
    if gone is not None:
        return (
            f"dropped table {gone.ident} can still be restored or is to be purged: restore it, purge it and wait, or "
            "forget it"
        )
    return _open_job(connection, bucket_id, purge)


def _open_job(connection: Connection, bucket_id: int, purge: str) -> str | None:
    """A job whose end the bucket must wait for: a purge that is to come, or anything that runs."""
    waits = and_(jobs.c.state == "queued", jobs.c.kind == purge, ~jobs.c.dry_run)
    row = connection.execute(
        select(jobs.c.id, jobs.c.kind, jobs.c.state)
        .where(jobs.c.bucket_id == bucket_id, or_(jobs.c.state == "running", waits))
        .order_by(jobs.c.id)
        .limit(1)
    ).first()
    return None if row is None else f"its job {row.id} ({row.kind}) is {row.state}: wait for its end"


def remove(connection: Connection, row: BucketRow, purge: str) -> None:
    """Delete an empty bucket with what hangs on it: policies, tags, topics, its jobs and answers to requests of old.

    Raises:
        BucketNotEmpty: something is in it.
    """
    inside = held(connection, row.id, purge)
    if inside is not None:
        raise BucketNotEmpty(f"Table bucket {row.name} is not empty: {inside}")
    connection.execute(delete(policies).where(policies.c.scope == "bucket", policies.c.scope_id == row.id))
    connection.execute(delete(ingest_topics).where(ingest_topics.c.bucket_id == row.id))
    connection.execute(delete(ingest_topic_changes).where(ingest_topic_changes.c.bucket_id == row.id))
    connection.execute(delete(jobs).where(jobs.c.bucket_id == row.id))
    connection.execute(delete(idempotency).where(idempotency.c.bucket_id == row.id))
    resources.forget(connection, row.resource_id)
    connection.execute(delete(buckets).where(buckets.c.id == row.id))


def _bucket(row: Row[Any]) -> BucketRow:
    return BucketRow(
        id=row.id,
        name=row.name,
        location=row.location,
        properties=row.properties,
        created_at_ms=row.created_at_ms,
        storage=row.storage,
        credentials=row.credentials,
        resource_id=row.resource_id or resources.bucket_id(row.id, row.name, row.created_at_ms),
        protected=row.protected,
        version=row.version,
        updated_at_ms=row.updated_at_ms,
    )
