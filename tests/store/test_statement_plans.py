"""No statement of a request looks at more rows for more siblings: SQLite finds all of them by an index."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from catalog_server.services import commit_unit
from catalog_server.settings import load
from catalog_server.store import buckets, dropped, namespaces, places, pointers, tables
from catalog_server.store.dropped import DropNote, DroppedQuery
from catalog_server.store.engine import choose
from catalog_server.store.lookup import Lookup
from catalog_server.store.sqlite import SqliteDatabase
from catalog_server.store.tables import Birth, TableRow
from table_format.ident import Namespace, TableIdent

pytestmark = pytest.mark.anyio

PARENT, CHILD = Namespace(("a",)), Namespace(("a", "b"))
T, U = TableIdent(CHILD, "t"), TableIdent(CHILD, "u")


def birth(ident: TableIdent) -> Birth:
    place = f"file:///w/{ident.name}"
    return Birth(
        ident=ident,
        table_uuid=f"uuid of {ident.name}",
        location=place,
        places=(place,),
        metadata_location=f"{place}/metadata/0.json",
    )


@pytest.fixture
async def database(tmp_path: Path) -> Any:
    opened = choose(load(None, {}, {"server.data_dir": tmp_path}))
    assert isinstance(opened, SqliteDatabase)
    await opened.start()
    await opened.write(buckets.create, "bucket", "file:///w", {}, 1)
    yield opened
    await opened.close()


def life(connection: Connection) -> TableRow:
    """What requests ask of the database, from the birth of a namespace to the end of a table."""
    bucket = buckets.require(connection, "bucket")
    namespaces.create(connection, bucket.id, PARENT, {}, 1)
    namespaces.create(connection, bucket.id, CHILD, {}, 1)
    namespaces.children(connection, bucket.id, PARENT, ("a",), 10)
    row = tables.create(connection, bucket.id, birth(T), 1)
    other = tables.create(connection, bucket.id, birth(U), 1)
    places.refuse_inside(connection, ["file:///w/t/data"], [row.id])
    places.refuse_overlap(connection, ["file:///w/t/data"], row.id)
    tables.in_namespace(connection, row.namespace_id, ("a",), 10)
    change = pointers.Swap(
        table_id=row.id,
        expected=row.metadata_location,
        new="file:///w/t/metadata/1.json",
        table_uuid=row.table_uuid,
        location=row.location,
    )
    assert pointers.swap(connection, change, 2)
    commit_unit.jobs.enqueue(connection, commit_unit.job_for(row, "icebergCompaction", "commit", 3), 2)
    commit_unit.jobs.enqueue(connection, commit_unit.job_for(row, "icebergCompaction", "commit", 3), 2)
    tables.rename(connection, bucket.id, U, TableIdent(PARENT, "v"), 3)
    _dropped(connection, tables.require(connection, bucket.id, TableIdent(PARENT, "v")))
    tables.drop(connection, bucket.id, TableIdent(PARENT, "v"))
    assert other.id != row.id
    return row


def _dropped(connection: Connection, row: TableRow) -> None:
    """A table that is dropped, had back, and all that is asked meanwhile."""
    dropped.keep(connection, row, DropNote(principal="x", now_ms=4, expires_at_ms=5))
    gone = dropped.require(connection, row.bucket_id, row.resource_id)
    for query in (
        DroppedQuery(bucket_id=row.bucket_id),
        DroppedQuery(bucket_id=row.bucket_id, namespace_key="a", name="v"),
    ):
        dropped.page(connection, query, ("9", "9"), 10)
    dropped.by_uuid(connection, row.bucket_id, row.table_uuid)
    dropped.any_of(connection, row.bucket_id)
    dropped.expired(connection, 4, 10)
    dropped.set_purge(connection, row.id, 77)
    dropped.begun(connection, 78)
    dropped.purged(connection, 78)
    dropped.purge_of(connection, 77)
    dropped.overlapping(connection, [row.location], 78)
    places.refuse_inside(connection, [row.location + "/data"], [row.id])
    places.overlapped(connection, [row.location])
    places.mark_shared(connection, row.id)
    dropped.put_back(connection, gone, row.ident, row.namespace_id, 6)


def scans(database: SqliteDatabase, sql: str, values: Any) -> list[str]:
    """The steps of SQLite's plan that go through a whole table or index."""
    with database.reader_engine.connect() as connection:
        steps = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all()
    return [f"{step[3]}: {sql}" for step in steps if step[3].startswith("SCAN") and "CONSTANT" not in step[3]]


async def test_load_5_no_statement_of_a_write_looks_at_siblings(database: SqliteDatabase) -> None:
    seen: dict[str, Any] = {}

    def note(_: Any, __: Any, sql: str, values: Any, *rest: Any) -> None:
        if sql.split(maxsplit=1)[0] in ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH"):
            seen.setdefault(sql, values)

    event.listen(database.writer_engine, "before_cursor_execute", note)
    await database.write(life)
    assert len(seen) > 20
    found = [scan for sql, values in seen.items() for scan in scans(database, sql, _one(values))]
    assert found == []


def _one(values: Any) -> Any:
    return values[0] if isinstance(values, list) and values and not isinstance(values[0], str) else values


def lookups(row: TableRow) -> Iterator[Lookup[Any]]:
    yield pointers.read("bucket", T)
    yield pointers.read_view("bucket", T)
    yield pointers.bucket_location("bucket")
    yield pointers.namespace_properties(row.bucket_id, CHILD)
    yield pointers.policy_layers(row)
    yield pointers.table_names("bucket", CHILD, "a", 10)


async def test_load_2_no_lookup_depends_on_how_much_there_is(database: SqliteDatabase) -> None:
    row = await database.write(life)
    found = [scan for lookup in lookups(row) for scan in scans(database, lookup.sql, lookup.values)]
    assert found == []


async def test_a_scan_would_be_seen(database: SqliteDatabase) -> None:
    assert scans(database, "SELECT id FROM tables WHERE version = ?", (1,))


async def test_names_come_in_order_from_the_index_alone(database: SqliteDatabase) -> None:
    lookup = pointers.table_names("bucket", CHILD, "", 10)
    with database.reader_engine.connect() as connection:
        steps = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {lookup.sql}", lookup.values).all()
    plan = [step[3] for step in steps]
    assert any("t USING COVERING INDEX" in step for step in plan), plan
    assert not any("TEMP B-TREE" in step for step in plan), plan
