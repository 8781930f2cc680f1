"""Rows of tables: names, the uuid, and where the current metadata is.

The pointer of an existing table is moved only by `pointers.swap`. Rows of blank tables, which have no metadata yet, are
those of `table_entries`: nothing here finds them, but their names, uuids and places are taken.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    func,
    insert,
    select,
    tuple_,
    update,
)

from catalog_server.store import namespaces as namespace_rows
from catalog_server.store import places, relations, resources, unreferenced
from catalog_server.store.keys import key_of, namespace_of
from catalog_server.store.relations import Relation
from catalog_server.store.schema import buckets, jobs, namespaces, policies, tables
from table_format.errors import AlreadyExists, Forbidden, NameTaken, NoSuchTable
from table_format.ident import TableIdent

BLANK = ""
"""The metadata location of a table that has no metadata yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A table: its name, its identity, and where its current metadata is."""

    id: int
    bucket_id: int
    bucket: str
    bucket_location: str
    namespace_id: int
    ident: TableIdent
    table_uuid: str
    location: str
    metadata_location: str
    previous_metadata_location: str | None
    version: int
    created_at_ms: int
    updated_at_ms: int
    resource_id: str
    """Stays what it is through renames and when other metadata is registered over the table's."""
    protected: bool
    """Whether it refuses to be dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """A table about to be inserted."""

    ident: TableIdent
    table_uuid: str
    location: str
    places: tuple[str, ...]
    metadata_location: str
    resource_id: str | None = None
    """None: its uuid, or one made of it when that is another table's resource id."""


def missing(ident: TableIdent) -> NoSuchTable:
    """The error for a table that is not there."""
    return NoSuchTable(f"Table does not exist: {ident}")


def taken(ident: TableIdent) -> NameTaken:
    """The error for a name in use."""
    return relations.taken(ident, Relation.TABLE, Relation.TABLE)


def find(connection: Connection, bucket_id: int, ident: TableIdent) -> TableRow | None:
    """The table, or None."""
    row = connection.execute(_named(), _name(bucket_id, ident)).first()
    return None if row is None else _table(row)


def hold(connection: Connection, bucket_id: int, ident: TableIdent) -> TableRow | None:
    """The table as it is and will be until this transaction ends, or None."""
    held = _named().with_for_update(of=tables, read=True)
    row = connection.execute(held, _name(bucket_id, ident)).first()
    return None if row is None else _table(row)


def require(connection: Connection, bucket_id: int, ident: TableIdent) -> TableRow:
    """The table.

    Raises:
        NoSuchTable: there is none.
    """
    found = find(connection, bucket_id, ident)
    if found is None:
        raise _absent(connection, bucket_id, ident)
    return found


def _absent(connection: Connection, bucket_id: int, ident: TableIdent) -> NoSuchTable:
    """`missing`, which says so when a blank table has the name: people see it in listings."""
    blank = (
        select(tables.c.id)
        .join(namespaces, namespaces.c.id == tables.c.namespace_id)
        .where(
            namespaces.c.bucket_id == bucket_id,
            namespaces.c.key == key_of(ident.namespace),
            tables.c.name == ident.name,
        )
    )
    return missing(ident) if connection.execute(blank).first() is None else without_metadata(ident)


def without_metadata(ident: TableIdent) -> NoSuchTable:
    """The error for what a blank table can not be used for."""
    return NoSuchTable(
        f"{missing(ident).message} as more than a name: it has no metadata yet, as it was made by CreateTable of the "
        "S3 Tables API; finish it there, or drop it"
    )


def by_uuid(connection: Connection, table_uuid: str) -> TableRow | None:
    """The table with that uuid, in any bucket."""
    row = connection.execute(_joined().where(tables.c.table_uuid == table_uuid)).first()
    return None if row is None else _table(row)


def by_resource_id(connection: Connection, bucket_id: int, resource_id: str) -> TableRow:
    """The table of that id in the bucket.

    Raises:
        NoSuchTable: there is none.
    """
    own = resources.is_table(resource_id)
    row = connection.execute(_joined().where(tables.c.bucket_id == bucket_id, own)).first()
    if row is None:
        raise NoSuchTable(f"Table does not exist: {resource_id[:100]}")
    return _table(row)


def in_namespace(
    connection: Connection,
    namespace_id: int,
    after: tuple[str, ...] | None,
    limit: int | None,
    prefix: str = "",
) -> list[TableRow]:
    """Tables of one namespace whose name begins so, by name."""
    query = _joined().where(tables.c.namespace_id == namespace_id).order_by(tables.c.name).limit(limit)
    query = query.where(_begins(prefix)) if prefix else query
    if after is not None:
        query = query.where(tables.c.name > after[0])
    return [_table(row) for row in connection.execute(query)]


def in_bucket(
    connection: Connection,
    bucket_id: int,
    after: tuple[str, ...] | None,
    limit: int | None,
    prefix: str = "",
) -> list[TableRow]:
    """Tables of one bucket whose name begins so, by namespace key and name."""
    query = (
        _joined()
        .where(tables.c.bucket_id == bucket_id)
        .order_by(namespaces.c.key, tables.c.name)
        .limit(limit)
    )
    query = query.where(_begins(prefix)) if prefix else query
    if after is not None:
        query = query.where(tuple_(namespaces.c.key, tables.c.name) > tuple_(*after))
    return [_table(row) for row in connection.execute(query)]


def everywhere(connection: Connection) -> list[TableRow]:
    """All tables of all buckets."""
    return [_table(row) for row in connection.execute(_joined().order_by(tables.c.id))]


def create(connection: Connection, bucket_id: int, birth: Birth, now_ms: int) -> TableRow:
    """Insert a table.

    Raises:
        NoSuchNamespace: its namespace is not there.
        AlreadyExists: the name, the uuid or a place is taken.
    """
    namespace = namespace_rows.require(connection, bucket_id, birth.ident.namespace)
    relations.refuse_taken(connection, namespace.id, birth.ident, Relation.TABLE)
    refuse_uuid(connection, birth.table_uuid, None)
    places.refuse_overlap(connection, birth.places)
    inserted = connection.execute(
        insert(tables)
        .values(
            bucket_id=bucket_id,
            namespace_id=namespace.id,
            name=birth.ident.name,
            table_uuid=birth.table_uuid,
            location=birth.location,
            metadata_location=birth.metadata_location,
            previous_metadata_location=None,
            version=1,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            resource_id=birth.resource_id or resources.free_table_id(connection, birth.table_uuid),
            protected=False,
        )
        .returning(tables.c.id)
    ).scalar_one()
    places.add_of_table(connection, inserted, birth.places)
    return require(connection, bucket_id, birth.ident)


def rename(
    connection: Connection, bucket_id: int, source: TableIdent, destination: TableIdent, now_ms: int
) -> None:
    """Give a table another name, maybe in another namespace; it stays where it lies.

    Raises:
        NoSuchTable: there is no such table.
        NoSuchNamespace: the new namespace is not there.
        AlreadyExists: the new name is taken (by a view, or by another table).
    """
    row = require(connection, bucket_id, source)
    namespace = namespace_rows.require(connection, bucket_id, destination.namespace)
    if source == destination:
        return
    relations.refuse_rename(connection, namespace.id, source, destination)
    connection.execute(
        update(tables)
        .where(tables.c.id == row.id)
        .values(
            namespace_id=namespace.id,
            name=destination.name,
            version=tables.c.version + 1,
            updated_at_ms=now_ms,
        )
    )
    # Its jobs are found under the name it has, not under one that may be another table's tomorrow.
    connection.execute(
        update(jobs)
        .where(jobs.c.table_uuid == row.table_uuid)
        .values(namespace_key=key_of(destination.namespace), table_name=destination.name)
    )


def droppable(connection: Connection, bucket_id: int, ident: TableIdent) -> TableRow:
    """The table, if it may go.

    Raises:
        NoSuchTable: there is none.
        Forbidden: it is protected.
    """
    row = require(connection, bucket_id, ident)
    if row.protected:
        raise protected(ident, "dropped")
    return row


def protected(ident: TableIdent, done: str) -> Forbidden:
    """The error for what can not be done to a protected table."""
    return Forbidden(
        f"Table {ident} is protected and can not be {done}: take its protection away first (`frazil table unprotect`)"
    )


def drop(connection: Connection, bucket_id: int, ident: TableIdent) -> TableRow:
    """Delete a table's row and all that hangs on it for good; the row as it was.

    Raises:
        NoSuchTable: there is none.
        Forbidden: it is protected.
    """
    row = droppable(connection, bucket_id, ident)
    remove(connection, row)
    return row


def remove(connection: Connection, row: TableRow) -> None:
    """Delete a table's row, places, policies, tags and marks for good; its files are nobody's business here."""
    connection.execute(delete(policies).where(policies.c.scope == "table", policies.c.scope_id == row.id))
    # Registered again later, its files must be found unreferenced anew before any may go.
    unreferenced.forget_all(connection, row.table_uuid)
    resources.forget(connection, row.resource_id)
    connection.execute(delete(tables).where(tables.c.id == row.id))


def refuse_uuid(connection: Connection, table_uuid: str, except_table_id: int | None) -> None:
    """Check that no other table has that uuid.

    Raises:
        AlreadyExists: one has.
    """
    other = connection.execute(
        select(tables.c.id, tables.c.name, namespaces.c.key)
        .join(namespaces, namespaces.c.id == tables.c.namespace_id)
        .where(tables.c.table_uuid == table_uuid)
    ).first()
    if other is not None and other.id != except_table_id:
        ident = TableIdent(namespace_of(other.key), other.name)
        raise AlreadyExists(f"Table already exists with uuid {table_uuid}: {ident}")


def _begins(prefix: str) -> ColumnElement[bool]:
    return func.substr(tables.c.name, 1, len(prefix)) == prefix


@cache
def _named() -> Select[Any]:
    """The table of a `_name`; made once, since making a statement costs more than running it."""
    return _joined().where(
        namespaces.c.bucket_id == bindparam("of_bucket"),
        namespaces.c.key == bindparam("of_key"),
        tables.c.name == bindparam("of_name"),
    )


def _name(bucket_id: int, ident: TableIdent) -> dict[str, object]:
    return {"of_bucket": bucket_id, "of_key": key_of(ident.namespace), "of_name": ident.name}


def _joined() -> Select[Any]:
    return (
        select(
            tables,
            namespaces.c.key.label("namespace_key"),
            buckets.c.name.label("bucket_name"),
            buckets.c.location.label("bucket_location"),
        )
        .join(namespaces, namespaces.c.id == tables.c.namespace_id)
        .join(buckets, buckets.c.id == tables.c.bucket_id)
        .where(tables.c.metadata_location != BLANK)
    )


def _table(row: Row[Any]) -> TableRow:
    return TableRow(
        id=row.id,
        bucket_id=row.bucket_id,
        bucket=row.bucket_name,
        bucket_location=row.bucket_location,
        namespace_id=row.namespace_id,
        ident=TableIdent(namespace_of(row.namespace_key), row.name),
        table_uuid=row.table_uuid,
        location=row.location,
        metadata_location=row.metadata_location,
        previous_metadata_location=row.previous_metadata_location,
        version=row.version,
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
        resource_id=row.resource_id or row.table_uuid,
        protected=row.protected,
    )
