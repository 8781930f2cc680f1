"""Rows of figures: what a table's metadata at one location tells of its size, and sums over a bucket.

A row is good for ever for the metadata it names; whether that is still the current one is seen by comparing.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, case, delete, func, insert, or_, select

from catalog_server.store.schema import namespaces, table_figures, tables, views


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """A table at one metadata location; None where the metadata does not tell, or could not be read."""

    table_id: int
    metadata_location: str
    snapshots: int | None
    data_files: int | None
    delete_files: int | None
    records: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFigures:
    """Sums over a bucket. Sizes are sums over the tables that were measured."""

    namespaces: int
    tables: int
    views: int
    snapshots: int
    data_files: int
    delete_files: int
    records: int
    bytes: int
    current_tables: int
    """Tables whose sizes are those of their current metadata."""
    stale_tables: int
    """Tables that were committed to since they were measured: their older sizes are counted."""
    unknown_tables: int
    """Tables whose sizes are not counted: never measured, or their metadata does not tell them."""


def unmeasured(connection: Connection, bucket_id: int, most: int) -> list[tuple[int, str]]:
    """Ids and metadata locations of tables without figures of their current metadata, the longest waiting first."""
    rows = connection.execute(
        select(tables.c.id, tables.c.metadata_location)
        .outerjoin(table_figures, table_figures.c.table_id == tables.c.id)
        .where(
            tables.c.bucket_id == bucket_id,
            or_(
                table_figures.c.table_id.is_(None),
                table_figures.c.metadata_location != tables.c.metadata_location,
            ),
        )
        .order_by(func.coalesce(table_figures.c.measured_at_ms, 0), tables.c.id)
        .limit(most)
    )
    return [(row.id, row.metadata_location) for row in rows]


def put(connection: Connection, measured: Collection[TableFigures], now_ms: int) -> None:
    """Remember figures, of those tables that are still there."""
    ids = [one.table_id for one in measured]
    there = set(connection.execute(select(tables.c.id).where(tables.c.id.in_(ids))).scalars())
    connection.execute(delete(table_figures).where(table_figures.c.table_id.in_(ids)))
    kept = [one for one in measured if one.table_id in there]
    if kept:
        connection.execute(insert(table_figures), [_values(one, now_ms) for one in kept])


def of_buckets(connection: Connection, bucket_ids: Sequence[int]) -> dict[int, BucketFigures]:
    """The sums over each of these buckets."""
    counts = {
        what: _counts(connection, rows, bucket_ids)
        for what, rows in (("namespaces", namespaces), ("views", views))
    }
    figure = table_figures.c
    known = and_(figure.table_id.is_not(None), figure.bytes.is_not(None))
    is_current = figure.metadata_location == tables.c.metadata_location
    sums = connection.execute(
        select(
            tables.c.bucket_id,
            func.count().label("tables"),
            *(func.coalesce(func.sum(figure[name]), 0).label(name) for name in _SIZES),
            func.count(case((and_(known, is_current), 1))).label("current"),
            func.count(case((and_(known, ~is_current), 1))).label("stale"),
        )
        .outerjoin(table_figures, figure.table_id == tables.c.id)
        .where(tables.c.bucket_id.in_(bucket_ids))
        .group_by(tables.c.bucket_id)
    )
    of_tables = {row.bucket_id: row for row in sums}
    return {
        bucket_id: _sums(
            of_tables.get(bucket_id),
            counts["namespaces"].get(bucket_id, 0),
            counts["views"].get(bucket_id, 0),
        )
        for bucket_id in bucket_ids
    }


_SIZES = ("snapshots", "data_files", "delete_files", "records", "bytes")


def _counts(connection: Connection, rows: Any, bucket_ids: Sequence[int]) -> dict[int, int]:
    found = connection.execute(
        select(rows.c.bucket_id, func.count().label("number"))
        .where(rows.c.bucket_id.in_(bucket_ids))
        .group_by(rows.c.bucket_id)
    )
    return {row.bucket_id: row.number for row in found}


def _sums(row: Any | None, namespaces_there: int, views_there: int) -> BucketFigures:
    sizes = dict.fromkeys(_SIZES, 0) if row is None else {name: int(getattr(row, name)) for name in _SIZES}
    there, current, stale = (0, 0, 0) if row is None else (row.tables, row.current, row.stale)
    return BucketFigures(
        namespaces=namespaces_there,
        tables=there,
        views=views_there,
        **sizes,
        current_tables=current,
        stale_tables=stale,
        unknown_tables=there - current - stale,
    )


def _values(one: TableFigures, now_ms: int) -> dict[str, Any]:
    return {
        "table_id": one.table_id,
        "metadata_location": one.metadata_location,
        **{name: getattr(one, name) for name in _SIZES},
        "measured_at_ms": now_ms,
    }
