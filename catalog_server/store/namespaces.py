"""Rows of namespaces. A child needs its parent; a parent with children, tables or views can not go."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from catalog_server.store.keys import key_of, namespace_of
from catalog_server.store.schema import buckets, namespaces, policies, tables, views
from table_format.errors import AlreadyExists, NamespaceNotEmpty, NoSuchNamespace, NoSuchWarehouse
from table_format.ident import Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRow:
    """A namespace and its properties as they were given."""

    id: int
    bucket_id: int
    namespace: Namespace
    properties: dict[str, str]
    created_at_ms: int
    version: int
    """Grows by one at each change of the properties."""
    updated_at_ms: int


def missing(namespace: Namespace) -> NoSuchNamespace:
    """The error for a namespace that is not there."""
    return NoSuchNamespace(f"Namespace does not exist: {namespace}")


def find(connection: Connection, bucket_id: int, namespace: Namespace) -> NamespaceRow | None:
    """The namespace, or None."""
    row = connection.execute(
        select(namespaces).where(namespaces.c.bucket_id == bucket_id, namespaces.c.key == key_of(namespace))
    ).first()
    return None if row is None else _namespace(row)


def require(connection: Connection, bucket_id: int, namespace: Namespace) -> NamespaceRow:
    """The namespace.

    Raises:
        NoSuchNamespace: there is none.
        NoSuchWarehouse: the bucket is gone too, since its id was looked up.
    """
    found = find(connection, bucket_id, namespace)
    if found is None:
        if connection.execute(select(buckets.c.id).where(buckets.c.id == bucket_id)).first() is None:
            raise NoSuchWarehouse(f"Table bucket of namespace {namespace} does not exist any more")
        raise missing(namespace)
    return found


def create(
    connection: Connection, bucket_id: int, namespace: Namespace, properties: Mapping[str, str], now_ms: int
) -> NamespaceRow:
    """Insert a namespace below its parent.

    Raises:
        AlreadyExists: it is there.
        NoSuchNamespace: its parent is not.
    """
    if find(connection, bucket_id, namespace) is not None:
        raise AlreadyExists(f"Namespace already exists: {namespace}")
    parent = namespace.parent
    parent_id = require(connection, bucket_id, parent).id if parent.levels else None
    connection.execute(
        insert(namespaces).values(
            bucket_id=bucket_id,
            parent_id=parent_id,
            key=key_of(namespace),
            parent_key=key_of(parent),
            properties=dict(properties),
            created_at_ms=now_ms,
            version=1,
            updated_at_ms=now_ms,
        )
    )
    return require(connection, bucket_id, namespace)


def children(
    connection: Connection,
    bucket_id: int,
    parent: Namespace,
    after: tuple[str, ...] | None,
    limit: int | None,
) -> list[NamespaceRow]:
    """Namespaces directly below `parent`, by key.

    Raises:
        NoSuchNamespace: the parent is not there.
    """
    if parent.levels:
        require(connection, bucket_id, parent)
    query = (
        select(namespaces)
        .where(namespaces.c.bucket_id == bucket_id, namespaces.c.parent_key == key_of(parent))
        .order_by(namespaces.c.key)
        .limit(limit)
    )
    if after is not None:
        query = query.where(namespaces.c.key > after[0])
    return [_namespace(row) for row in connection.execute(query)]


def top_level(
    connection: Connection, bucket_id: int, prefix: str, after: tuple[str, ...] | None, limit: int | None
) -> list[NamespaceRow]:
    """Namespaces of one level, by key, of those whose key begins so."""
    query = (
        select(namespaces)
        .where(namespaces.c.bucket_id == bucket_id, namespaces.c.parent_key == "")
        .where(func.substr(namespaces.c.key, 1, len(prefix)) == prefix)
        .order_by(namespaces.c.key)
        .limit(limit)
    )
    if prefix:  # a range that the index has
        query = query.where(namespaces.c.key >= prefix)
    if after is not None:
        query = query.where(namespaces.c.key > after[0])
    return [_namespace(row) for row in connection.execute(query)]


def ids(connection: Connection) -> dict[tuple[int, str], int]:
    """Ids of all namespaces by bucket id and key."""
    rows = connection.execute(select(namespaces.c.bucket_id, namespaces.c.key, namespaces.c.id))
    return {(row.bucket_id, row.key): row.id for row in rows}


def drop(connection: Connection, bucket_id: int, namespace: Namespace) -> None:
    """Delete an empty namespace and the policies on it.

    Raises:
        NoSuchNamespace: there is none.
        NamespaceNotEmpty: it has namespaces, tables or views.
    """
    row = require(connection, bucket_id, namespace)
    child = connection.execute(
        select(namespaces.c.key).where(namespaces.c.parent_id == row.id).limit(1)
    ).first()
    if child is not None:
        raise NamespaceNotEmpty(
            f"Namespace {namespace} is not empty: it contains namespace {namespace_of(child.key)}"
        )
    for kind, rows in (("table", tables), ("view", views)):
        found = connection.execute(select(rows.c.name).where(rows.c.namespace_id == row.id).limit(1)).first()
        if found is not None:
            raise NamespaceNotEmpty(f"Namespace {namespace} is not empty: it contains {kind} {found.name}")
    connection.execute(delete(policies).where(policies.c.scope == "namespace", policies.c.scope_id == row.id))
    connection.execute(delete(namespaces).where(namespaces.c.id == row.id))


def set_properties(
    connection: Connection, namespace_id: int, properties: Mapping[str, str], now_ms: int
) -> None:
    """Replace the properties."""
    connection.execute(
        update(namespaces)
        .where(namespaces.c.id == namespace_id)
        .values(properties=dict(properties), version=namespaces.c.version + 1, updated_at_ms=now_ms)
    )


def _namespace(row: Row[Any]) -> NamespaceRow:
    return NamespaceRow(
        id=row.id,
        bucket_id=row.bucket_id,
        namespace=namespace_of(row.key),
        properties=row.properties,
        created_at_ms=row.created_at_ms,
        version=row.version,
        updated_at_ms=row.updated_at_ms,
    )
