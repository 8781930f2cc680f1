"""Rows of figures: what a table's metadata at one location tells of its size, and sums over buckets and namespaces.

A row is good for ever for the metadata it names; whether that is still the current one is seen by comparing.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, and_, case, delete, func, insert, or_, select

from catalog_server.store.schema import namespaces, table_figures, tables, views

_SIZES = ("snapshots", "data_files", "delete_files", "records", "bytes")
# Summed in halves: sums of what strange writers claim may be beyond the largest integer of a database.
_HALF = 2**32


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
class Figures:
    """Sums over a bucket or a namespace. Sizes are sums over the tables that were measured."""

    namespaces: int
    """In a bucket on all levels; in a namespace directly below it."""
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


@dataclass(frozen=True, slots=True)
class _Scope:
    of_tables: Column[Any]
    of_views: Column[Any]
    of_namespaces: Column[Any]


_BUCKETS = _Scope(tables.c.bucket_id, views.c.bucket_id, namespaces.c.bucket_id)
_NAMESPACES = _Scope(tables.c.namespace_id, views.c.namespace_id, namespaces.c.parent_id)


def unmeasured_in_bucket(connection: Connection, bucket_id: int, most: int) -> list[tuple[int, str]]:
    """Ids and metadata locations of tables without figures of their current metadata, the longest waiting first."""
    return _unmeasured(connection, _BUCKETS, bucket_id, most)


def unmeasured_in_namespace(connection: Connection, namespace_id: int, most: int) -> list[tuple[int, str]]:
    """As `unmeasured_in_bucket`, of one namespace."""
    return _unmeasured(connection, _NAMESPACES, namespace_id, most)


def put(connection: Connection, measured: Collection[TableFigures], now_ms: int) -> None:
    """Remember figures, of those tables that are still there."""
    ids = [one.table_id for one in measured]
    there = set(connection.execute(select(tables.c.id).where(tables.c.id.in_(ids))).scalars())
    connection.execute(delete(table_figures).where(table_figures.c.table_id.in_(ids)))
    kept = [one for one in measured if one.table_id in there]
    if kept:
        connection.execute(insert(table_figures), [_values(one, now_ms) for one in kept])


def of_buckets(connection: Connection, bucket_ids: Sequence[int]) -> dict[int, Figures]:
    """The sums over each of these buckets."""
    return _sums(connection, _BUCKETS, bucket_ids)


def of_namespace(connection: Connection, namespace_id: int) -> Figures:
    """The sums over what is directly in a namespace."""
    return _sums(connection, _NAMESPACES, [namespace_id])[namespace_id]


def _unmeasured(connection: Connection, scope: _Scope, scope_id: int, most: int) -> list[tuple[int, str]]:
    rows = connection.execute(
        select(tables.c.id, tables.c.metadata_location)
        .outerjoin(table_figures, table_figures.c.table_id == tables.c.id)
        .where(
            scope.of_tables == scope_id,
            tables.c.metadata_location != "",
            or_(
                table_figures.c.table_id.is_(None),
                table_figures.c.metadata_location != tables.c.metadata_location,
            ),
        )
        .order_by(func.coalesce(table_figures.c.measured_at_ms, 0), tables.c.id)
        .limit(most)
    )
    return [(row.id, row.metadata_location) for row in rows]


def _sums(connection: Connection, scope: _Scope, ids: Sequence[int]) -> dict[int, Figures]:
    figure = table_figures.c
    known = and_(figure.table_id.is_not(None), figure.bytes.is_not(None))
    is_current = figure.metadata_location == tables.c.metadata_location
    found = connection.execute(
        select(
            scope.of_tables.label("scope"),
            func.count().label("tables"),
            *(func.sum(figure[name] // _HALF).label(f"{name}_high") for name in _SIZES),
            *(func.sum(figure[name] % _HALF).label(f"{name}_low") for name in _SIZES),
            func.count(case((and_(known, is_current), 1))).label("current"),
            func.count(case((and_(known, ~is_current), 1))).label("stale"),
        )
        .outerjoin(table_figures, figure.table_id == tables.c.id)
        .where(scope.of_tables.in_(ids))
        .group_by(scope.of_tables)
    )
    of_tables = {row.scope: row for row in found}
    below, beside = _counts(connection, scope.of_namespaces, ids), _counts(connection, scope.of_views, ids)
    return {one: _figures(of_tables.get(one), below.get(one, 0), beside.get(one, 0)) for one in ids}


def _counts(connection: Connection, scope: Column[Any], ids: Sequence[int]) -> dict[int, int]:
    found = connection.execute(
        select(scope.label("scope"), func.count().label("number")).where(scope.in_(ids)).group_by(scope)
    )
    return {row.scope: row.number for row in found}


def _figures(row: Any | None, namespaces_there: int, views_there: int) -> Figures:
    sizes = {name: 0 if row is None else _sum(row, name) for name in _SIZES}
    there, current, stale = (0, 0, 0) if row is None else (row.tables, row.current, row.stale)
    return Figures(
        namespaces=namespaces_there,
        tables=there,
        views=views_there,
        **sizes,
        current_tables=current,
        stale_tables=stale,
        unknown_tables=there - current - stale,
    )


def _sum(row: Any, name: str) -> int:
    high, low = getattr(row, f"{name}_high"), getattr(row, f"{name}_low")
    return 0 if high is None else int(high) * _HALF + int(low)


def _values(one: TableFigures, now_ms: int) -> dict[str, Any]:
    return {
        "table_id": one.table_id,
        "metadata_location": one.metadata_location,
        **{name: getattr(one, name) for name in _SIZES},
        "measured_at_ms": now_ms,
    }
