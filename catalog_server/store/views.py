"""Rows of views: names, the uuid, and where the current metadata is.

The pointer of an existing view is moved only by `pointers.swap_view`.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, insert, select, update

from catalog_server.store import namespaces as namespace_rows
from catalog_server.store import places, relations
from catalog_server.store.keys import key_of, namespace_of
from catalog_server.store.relations import Relation
from catalog_server.store.schema import buckets, namespaces, views
from table_format.errors import AlreadyExists, NoSuchView
from table_format.ident import TableIdent


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRow:
    """A view: its name, its identity, and where its current metadata is."""

    id: int
    bucket_id: int
    bucket: str
    bucket_location: str
    namespace_id: int
    ident: TableIdent
    view_uuid: str
    location: str
    metadata_location: str
    previous_metadata_location: str | None
    version: int
    created_at_ms: int
    updated_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewBirth:
    """A view about to be inserted."""

    ident: TableIdent
    view_uuid: str
    location: str
    places: tuple[str, ...]
    metadata_location: str


def missing(ident: TableIdent) -> NoSuchView:
    """The error for a view that is not there."""
    return NoSuchView(f"View does not exist: {ident}")


def find(connection: Connection, bucket_id: int, ident: TableIdent) -> ViewRow | None:
    """The view, or None."""
    row = connection.execute(
        _joined().where(
            namespaces.c.bucket_id == bucket_id,
            namespaces.c.key == key_of(ident.namespace),
            views.c.name == ident.name,
        )
    ).first()
    return None if row is None else _view(row)


def require(connection: Connection, bucket_id: int, ident: TableIdent) -> ViewRow:
    """The view.

    Raises:
        NoSuchView: there is none.
    """
    found = find(connection, bucket_id, ident)
    if found is None:
        raise missing(ident)
    return found


def in_namespace(
    connection: Connection, namespace_id: int, after: tuple[str, ...] | None, limit: int | None
) -> list[ViewRow]:
    """Views of one namespace, by name."""
    query = _joined().where(views.c.namespace_id == namespace_id).order_by(views.c.name).limit(limit)
    if after is not None:
        query = query.where(views.c.name > after[0])
    return [_view(row) for row in connection.execute(query)]


def in_bucket(connection: Connection, bucket: str) -> list[ViewRow]:
    """All views of a bucket, by namespace and name."""
    query = _joined().where(buckets.c.name == bucket).order_by(namespaces.c.key, views.c.name)
    return [_view(row) for row in connection.execute(query)]


def create(connection: Connection, bucket_id: int, birth: ViewBirth, now_ms: int) -> ViewRow:
    """Insert a view.

    Raises:
        NoSuchNamespace: its namespace is not there.
        AlreadyExists: the name, the uuid or a place is taken.
    """
    namespace = namespace_rows.require(connection, bucket_id, birth.ident.namespace)
    relations.refuse_taken(connection, namespace.id, birth.ident, Relation.VIEW)
    other = connection.execute(_joined().where(views.c.view_uuid == birth.view_uuid)).first()
    if other is not None:
        raise AlreadyExists(f"View already exists with uuid {birth.view_uuid}: {_view(other).ident}")
    places.refuse_overlap(connection, birth.places)
    inserted = connection.execute(
        insert(views)
        .values(
            bucket_id=bucket_id,
            namespace_id=namespace.id,
            name=birth.ident.name,
            view_uuid=birth.view_uuid,
            location=birth.location,
            metadata_location=birth.metadata_location,
            previous_metadata_location=None,
            version=1,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
        )
        .returning(views.c.id)
    ).scalar_one()
    places.add_of_view(connection, inserted, birth.places)
    return require(connection, bucket_id, birth.ident)


def rename(
    connection: Connection, bucket_id: int, source: TableIdent, destination: TableIdent, now_ms: int
) -> None:
    """Give a view another name, maybe in another namespace; it stays where it lies.

    Raises:
        NoSuchView: there is no such view.
        NoSuchNamespace: the new namespace is not there.
        AlreadyExists: the new name is taken (by a table, or by another view).
    """
    row = require(connection, bucket_id, source)
    namespace = namespace_rows.require(connection, bucket_id, destination.namespace)
    if source == destination:
        return
    relations.refuse_rename(connection, namespace.id, source, destination)
    connection.execute(
        update(views)
        .where(views.c.id == row.id)
        .values(namespace_id=namespace.id, name=destination.name, updated_at_ms=now_ms)
    )


def drop(connection: Connection, bucket_id: int, ident: TableIdent) -> ViewRow:
    """Delete a view's row and places; its files are nobody's business here.

    Raises:
        NoSuchView: there is none.
    """
    row = require(connection, bucket_id, ident)
    connection.execute(delete(views).where(views.c.id == row.id))
    return row


def _joined() -> Select[Any]:
    return (
        select(
            views,
            namespaces.c.key.label("namespace_key"),
            buckets.c.name.label("bucket_name"),
            buckets.c.location.label("bucket_location"),
        )
        .join(namespaces, namespaces.c.id == views.c.namespace_id)
        .join(buckets, buckets.c.id == views.c.bucket_id)
    )


def _view(row: Row[Any]) -> ViewRow:
    return ViewRow(
        id=row.id,
        bucket_id=row.bucket_id,
        bucket=row.bucket_name,
        bucket_location=row.bucket_location,
        namespace_id=row.namespace_id,
        ident=TableIdent(namespace_of(row.namespace_key), row.name),
        view_uuid=row.view_uuid,
        location=row.location,
        metadata_location=row.metadata_location,
        previous_metadata_location=row.previous_metadata_location,
        version=row.version,
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
    )
