"""Tables as the S3 Tables API knows them: with metadata, or blank, which is without any yet.

A blank table is a row of `tables` whose metadata location is empty: it has the name and a place, and nothing else. What
reads tables elsewhere (`tables`, `pointers`) never sees it. Its first pointer is set by `begin`, and by nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, insert, select, tuple_, update

from catalog_server.store import dropped, places, relations, resources, tables
from catalog_server.store import namespaces as namespace_rows
from catalog_server.store.keys import key_of, namespace_of
from catalog_server.store.lookup import Lookup
from catalog_server.store.relations import Relation
from catalog_server.store.schema import buckets, namespaces
from catalog_server.store.schema import policies as policy_rows
from catalog_server.store.schema import tables as rows
from catalog_server.store.tables import BLANK
from table_format.errors import NameTaken
from table_format.ident import Namespace, TableIdent

_AFTER_NAMES = "\U0010ffff"  # behind every character that a name can have


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """A table of the S3 Tables API; without `metadata_location` while it is blank."""

    id: int
    bucket_id: int
    bucket: str
    namespace_id: int
    ident: TableIdent
    resource_id: str
    table_uuid: str
    location: str
    metadata_location: str | None
    version: int
    protected: bool
    created_at_ms: int
    updated_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlankBirth:
    """A blank table about to be inserted."""

    ident: TableIdent
    resource_id: str
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The first metadata of a blank table."""

    entry: TableEntry
    metadata_location: str
    table_uuid: str
    location: str
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Which entries of a bucket: of one namespace or all, whose names begin so."""

    bucket_id: int
    namespace: Namespace | None
    prefix: str


def find(connection: Connection, bucket_id: int, ident: TableIdent) -> TableEntry | None:
    """The entry of that name, or None."""
    row = connection.execute(_named(bucket_id, ident)).first()
    return None if row is None else _entry(row)


def require(connection: Connection, bucket_id: int, ident: TableIdent) -> TableEntry:
    """The entry of that name.

    Raises:
        NoSuchTable: there is none.
    """
    found = find(connection, bucket_id, ident)
    if found is None:
        raise tables.missing(ident)
    return found


def taken(entry: TableEntry) -> NameTaken:
    """The error for a name that the entry has."""
    usual = tables.taken(entry.ident)
    if entry.metadata_location is not None:
        return usual
    return NameTaken(
        f"{usual.message}; it has no metadata yet, as it was made by CreateTable of the S3 Tables API: "
        "finish it there, or drop it first"
    )


def by_resource_id(connection: Connection, bucket_id: int, resource_id: str) -> TableEntry | None:
    """The entry of that id in the bucket, or None."""
    query = _joined().where(resources.is_table(resource_id), rows.c.bucket_id == bucket_id)
    row = connection.execute(query).first()
    return None if row is None else _entry(row)


def page(
    connection: Connection, listing: Listing, after: tuple[str, ...] | None, limit: int
) -> list[TableEntry]:
    """Entries by namespace key and name."""
    query = (
        _joined()
        .where(rows.c.bucket_id == listing.bucket_id)
        .order_by(namespaces.c.key, rows.c.name)
        .limit(limit)
    )
    if listing.namespace is not None:
        query = query.where(namespaces.c.key == key_of(listing.namespace))
    if listing.prefix:
        query = query.where(rows.c.name >= listing.prefix, rows.c.name < listing.prefix + _AFTER_NAMES)
    if after is not None:
        query = query.where(tuple_(namespaces.c.key, rows.c.name) > tuple_(*after))
    return [_entry(row) for row in connection.execute(query)]


_READ = """
SELECT t.id, b.id, n.id, COALESCE(t.resource_id, t.table_uuid), t.table_uuid, t.location, t.metadata_location,
       t.version, t.protected, t.created_at_ms, t.updated_at_ms
FROM buckets b
JOIN namespaces n ON n.bucket_id = b.id
JOIN tables t ON t.namespace_id = n.id
WHERE b.name = ? AND n.key = ? AND t.name = ?
"""


def read(bucket: str, ident: TableIdent) -> Lookup[TableEntry | None]:
    """The entry, or None when bucket, namespace or table is missing."""

    def answer(found: Sequence[Sequence[Any]]) -> TableEntry | None:
        if not found:
            return None
        row = found[0]
        return TableEntry(
            id=row[0],
            bucket_id=row[1],
            bucket=bucket,
            namespace_id=row[2],
            ident=ident,
            resource_id=row[3],
            table_uuid=row[4],
            location=row[5],
            metadata_location=row[6] or None,
            version=row[7],
            protected=bool(row[8]),
            created_at_ms=row[9],
            updated_at_ms=row[10],
        )

    return Lookup(_READ, (bucket, key_of(ident.namespace), ident.name), answer)


def create_blank(connection: Connection, bucket_id: int, birth: BlankBirth, now_ms: int) -> TableEntry:
    """Insert a blank table.

    Raises:
        NoSuchNamespace: its namespace is not there.
        AlreadyExists: the name or the place is taken.
    """
    namespace = namespace_rows.require(connection, bucket_id, birth.ident.namespace)
    relations.refuse_taken(connection, namespace.id, birth.ident, Relation.TABLE)
    places.refuse_overlap(connection, [birth.location])
    inserted = connection.execute(
        insert(rows)
        .values(
            bucket_id=bucket_id,
            namespace_id=namespace.id,
            name=birth.ident.name,
            table_uuid=birth.resource_id,  # until its metadata says another
            location=birth.location,
            metadata_location=BLANK,
            previous_metadata_location=None,
            version=1,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            resource_id=birth.resource_id,
            protected=False,
        )
        .returning(rows.c.id)
    ).scalar_one()
    places.add_of_table(connection, inserted, [birth.location])
    return require(connection, bucket_id, birth.ident)


def begin(connection: Connection, beginning: Beginning, now_ms: int) -> bool:
    """Give a blank table its first metadata; False when it is not the blank table any more that it was.

    Raises:
        AlreadyExists: the uuid is another table's, be it a dropped one's, or a place is.
    """
    entry = beginning.entry
    tables.refuse_uuid(connection, beginning.table_uuid, entry.id)
    dropped.refuse_uuid(connection, beginning.table_uuid)
    places.refuse_overlap(connection, beginning.places, entry.id)
    changed = connection.execute(
        update(rows)
        .where(rows.c.id == entry.id, rows.c.metadata_location == BLANK, rows.c.version == entry.version)
        .values(
            metadata_location=beginning.metadata_location,
            table_uuid=beginning.table_uuid,
            location=beginning.location,
            version=rows.c.version + 1,
            updated_at_ms=now_ms,
        )
    )
    if changed.rowcount != 1:
        return False
    places.add_of_table(connection, entry.id, beginning.places)
    return True


def rename(connection: Connection, entry: TableEntry, destination: TableIdent, now_ms: int) -> None:
    """Give a table another name, maybe in another namespace; it stays where it lies.

    Raises:
        NoSuchNamespace: the new namespace is not there.
        AlreadyExists: the new name is taken.
    """
    if entry.metadata_location is not None:
        tables.rename(connection, entry.bucket_id, entry.ident, destination, now_ms)
        return
    namespace = namespace_rows.require(connection, entry.bucket_id, destination.namespace)
    if entry.ident == destination:
        return
    relations.refuse_rename(connection, namespace.id, entry.ident, destination)
    connection.execute(
        update(rows)
        .where(rows.c.id == entry.id)
        .values(
            namespace_id=namespace.id,
            name=destination.name,
            version=rows.c.version + 1,
            updated_at_ms=now_ms,
        )
    )


def set_protected(connection: Connection, entry: TableEntry, protected: bool) -> None:
    """Protect a table from being dropped, or no more."""
    connection.execute(update(rows).where(rows.c.id == entry.id).values(protected=protected))


def drop_if_blank(connection: Connection, bucket_id: int, ident: TableIdent) -> bool:
    """Forget the table of that name if it is a blank one; whether it was.

    It has no files that we know of: what a client may have put into its place stays there.

    Raises:
        Forbidden: it is protected.
    """
    entry = find(connection, bucket_id, ident)
    if entry is None or entry.metadata_location is not None:
        return False
    if entry.protected:
        raise tables.protected(ident, "dropped")
    connection.execute(
        delete(policy_rows).where(policy_rows.c.scope == "table", policy_rows.c.scope_id == entry.id)
    )
    resources.forget(connection, entry.resource_id)
    connection.execute(delete(rows).where(rows.c.id == entry.id))
    return True


def _named(bucket_id: int, ident: TableIdent) -> Select[Any]:
    return _joined().where(
        namespaces.c.bucket_id == bucket_id,
        namespaces.c.key == key_of(ident.namespace),
        rows.c.name == ident.name,
    )


def _joined() -> Select[Any]:
    return (
        select(rows, namespaces.c.key.label("namespace_key"), buckets.c.name.label("bucket_name"))
        .join(namespaces, namespaces.c.id == rows.c.namespace_id)
        .join(buckets, buckets.c.id == rows.c.bucket_id)
    )


def _entry(row: Row[Any]) -> TableEntry:
    return TableEntry(
        id=row.id,
        bucket_id=row.bucket_id,
        bucket=row.bucket_name,
        namespace_id=row.namespace_id,
        ident=TableIdent(namespace_of(row.namespace_key), row.name),
        resource_id=row.resource_id or row.table_uuid,
        table_uuid=row.table_uuid,
        location=row.location,
        metadata_location=row.metadata_location or None,
        version=row.version,
        protected=row.protected,
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
    )
