"""The pointer: which metadata file is a table's or view's current one. Looked up hot, swapped in a write unit.

The swaps are the only statements that move a pointer, and the only judges of races. A blank table (its metadata
location is empty) has none: it is not found here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import orjson
from sqlalchemy import Connection

from catalog_server.store.buckets import BucketStorage
from catalog_server.store.keys import key_of, lineage
from catalog_server.store.lookup import Lookup, for_driver
from catalog_server.store.table_entries import TableEntry
from catalog_server.store.tables import TableRow
from catalog_server.store.views import ViewRow
from table_format.errors import NoSuchWarehouse
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject

# One row for each bucket that is there, so that one look tells a missing table from a missing bucket.
_READ = """
SELECT t.id, b.id, b.location, n.id, t.table_uuid, t.location, t.metadata_location,
       t.previous_metadata_location, t.version, t.created_at_ms, t.updated_at_ms,
       COALESCE(t.resource_id, t.table_uuid), t.protected
FROM buckets b
LEFT JOIN namespaces n ON n.bucket_id = b.id AND n.key = ?
LEFT JOIN tables t ON t.namespace_id = n.id AND t.name = ? AND t.metadata_location <> ''
WHERE b.name = ?
"""

_SWAP = """
UPDATE tables SET metadata_location = ?, previous_metadata_location = ?, table_uuid = ?, location = ?,
       version = version + 1, updated_at_ms = ?
WHERE id = ? AND metadata_location = ?
"""


_READ_VIEW = """
SELECT v.id, b.id, b.location, n.id, v.view_uuid, v.location, v.metadata_location,
       v.previous_metadata_location, v.version, v.created_at_ms, v.updated_at_ms
FROM buckets b
LEFT JOIN namespaces n ON n.bucket_id = b.id AND n.key = ?
LEFT JOIN views v ON v.namespace_id = n.id AND v.name = ?
WHERE b.name = ?
"""

_SWAP_VIEW = """
UPDATE views SET metadata_location = ?, previous_metadata_location = ?, location = ?,
       version = version + 1, updated_at_ms = ?
WHERE id = ? AND metadata_location = ?
"""


def read(bucket: str, ident: TableIdent) -> Lookup[TableRow | None]:
    """The table's row, or None when namespace or table is missing; NoSuchWarehouse when the bucket is."""

    def answer(rows: Sequence[Sequence[Any]]) -> TableRow | None:
        return _table(bucket, ident, rows[0]) if _is_there(rows, bucket, ident) else None

    return Lookup(_READ, (key_of(ident.namespace), ident.name, bucket), answer)


def _is_there(rows: Sequence[Sequence[Any]], bucket: str, ident: TableIdent) -> bool:
    if rows:
        return rows[0][0] is not None
    if any("\0" in name for name in (*ident.namespace.levels, ident.name)):
        return False  # PostgreSQL can not even be asked for such a name
    raise NoSuchWarehouse(f"Table bucket does not exist: {bucket}")


def _table(bucket: str, ident: TableIdent, found: Sequence[Any]) -> TableRow:
    return TableRow(
        id=found[0],
        bucket_id=found[1],
        bucket=bucket,
        bucket_location=found[2],
        namespace_id=found[3],
        ident=ident,
        table_uuid=found[4],
        location=found[5],
        metadata_location=found[6],
        previous_metadata_location=found[7],
        version=found[8],
        created_at_ms=found[9],
        updated_at_ms=found[10],
        resource_id=found[11],
        protected=bool(found[12]),
    )


def read_view(bucket: str, ident: TableIdent) -> Lookup[ViewRow | None]:
    """As `read`, of a view. That there is none is the answer that engines ask for most."""

    def answer(rows: Sequence[Sequence[Any]]) -> ViewRow | None:
        return _view(bucket, ident, rows[0]) if _is_there(rows, bucket, ident) else None

    return Lookup(_READ_VIEW, (key_of(ident.namespace), ident.name, bucket), answer)


def _view(bucket: str, ident: TableIdent, found: Sequence[Any]) -> ViewRow:
    return ViewRow(
        id=found[0],
        bucket_id=found[1],
        bucket=bucket,
        bucket_location=found[2],
        namespace_id=found[3],
        ident=ident,
        view_uuid=found[4],
        location=found[5],
        metadata_location=found[6],
        previous_metadata_location=found[7],
        version=found[8],
        created_at_ms=found[9],
        updated_at_ms=found[10],
    )


_NAMESPACE = (
    "(SELECT n.id FROM buckets b JOIN namespaces n ON n.bucket_id = b.id WHERE b.name = ? AND n.key = ?)"
)

# A first row, of no name, tells that the namespace is there. By indexes alone, and what is blank is looked up once, not
# for each name: that is half of what a long listing costs.
_TABLE_NAMES = f"""
SELECT '' AS name WHERE EXISTS {_NAMESPACE}
UNION ALL
SELECT t.name FROM tables t
WHERE t.namespace_id = {_NAMESPACE} AND t.name > ? AND t.name NOT IN (
      SELECT e.name FROM tables e WHERE e.namespace_id = {_NAMESPACE} AND e.metadata_location = '')
ORDER BY name
LIMIT ?
"""  # noqa: S608 - only question marks are put in


def table_names(bucket: str, namespace: Namespace, after: str, most: int) -> Lookup[list[str] | None]:
    """So many names of a namespace's tables, in order, after that one; None when there is no such namespace."""

    def answer(rows: Sequence[Sequence[Any]]) -> list[str] | None:
        return [row[0] for row in rows[1:]] if rows else None

    place = (bucket, key_of(namespace))
    return Lookup(_TABLE_NAMES, (*place, *place, after, *place, most + 1), answer)


def bucket_location(bucket: str) -> Lookup[tuple[int, str] | None]:
    """A bucket's id and location, or None."""

    def answer(rows: Sequence[Sequence[Any]]) -> tuple[int, str] | None:
        return (rows[0][0], rows[0][1]) if rows else None

    return Lookup("SELECT id, location FROM buckets WHERE name = ?", (bucket,), answer)


def bucket_storage(bucket: str) -> Lookup[BucketStorage | None]:
    """How a bucket's store is reached, or None."""

    def answer(rows: Sequence[Sequence[Any]]) -> BucketStorage | None:
        if not rows:
            return None
        location, storage, credentials = rows[0]
        return BucketStorage(location=location, storage=orjson.loads(storage), credentials=credentials)

    return Lookup("SELECT location, storage, credentials FROM buckets WHERE name = ?", (bucket,), answer)


def namespace_properties(bucket_id: int, namespace: Namespace) -> Lookup[dict[str, str] | None]:
    """A namespace's properties, or None when there is no such namespace."""

    def answer(rows: Sequence[Sequence[Any]]) -> dict[str, str] | None:
        return cast("dict[str, str]", orjson.loads(rows[0][0])) if rows else None

    sql = "SELECT properties FROM namespaces WHERE bucket_id = ? AND key = ?"
    return Lookup(sql, (bucket_id, key_of(namespace)), answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The policy documents set at one level above (or at) a table, by policy type."""

    scope: str
    documents: dict[str, JsonObject]


def policy_layers(row: TableRow | TableEntry) -> Lookup[list[Layer]]:
    """Policies that reach a table, the widest level first, the table's own last; empty levels included."""
    keys = lineage(row.ident.namespace)
    marks = ", ".join("?" * len(keys))
    sql = f"""
        SELECT p.scope, n.key, p.policy_type, p.document
        FROM policies p
        LEFT JOIN namespaces n ON p.scope = 'namespace' AND n.id = p.scope_id
        WHERE (p.scope = 'bucket' AND p.scope_id = ?) OR (p.scope = 'table' AND p.scope_id = ?)
           OR (p.scope = 'namespace' AND p.scope_id IN
               (SELECT id FROM namespaces WHERE bucket_id = ? AND key IN ({marks})))
        """  # noqa: S608 - only question marks are put in

    def answer(rows: Sequence[Sequence[Any]]) -> list[Layer]:
        layers: dict[tuple[str, str | None], Layer] = {("bucket", None): Layer(scope="bucket", documents={})}
        layers |= {("namespace", key): Layer(scope="namespace", documents={}) for key in keys}
        layers["table", None] = Layer(scope="table", documents={})
        for scope, key, policy_type, document in rows:
            layers[scope, key].documents[policy_type] = orjson.loads(document)
        return list(layers.values())

    return Lookup(sql, (row.bucket_id, row.id, row.bucket_id, *keys), answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """One pointer to move: from `expected` to `new`, and what the new metadata says of the table."""

    table_id: int
    expected: str
    new: str
    table_uuid: str
    location: str


def swap(connection: Connection, change: Swap, now_ms: int) -> bool:
    """Move the pointer if it is where it is expected to be; whether it was."""
    moved_rows = connection.exec_driver_sql(
        for_driver(connection, _SWAP),
        (
            change.new,
            change.expected,
            change.table_uuid,
            change.location,
            now_ms,
            change.table_id,
            change.expected,
        ),
    )
    return moved_rows.rowcount == 1


def moved(row: TableRow, change: Swap, now_ms: int) -> TableRow:
    """The row as the swap left it."""
    return replace(
        row,
        metadata_location=change.new,
        previous_metadata_location=change.expected,
        table_uuid=change.table_uuid,
        location=change.location,
        version=row.version + 1,
        updated_at_ms=now_ms,
    )


def swap_view(connection: Connection, row: ViewRow, new: str, location: str, now_ms: int) -> ViewRow | None:
    """Move a view's pointer if it is where the row says; the row as the swap left it, None when it was not."""
    moved_rows = connection.exec_driver_sql(
        for_driver(connection, _SWAP_VIEW),
        (new, row.metadata_location, location, now_ms, row.id, row.metadata_location),
    )
    if moved_rows.rowcount != 1:
        return None
    return replace(
        row,
        metadata_location=new,
        previous_metadata_location=row.metadata_location,
        location=location,
        version=row.version + 1,
        updated_at_ms=now_ms,
    )
