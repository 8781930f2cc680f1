"""Rows of dropped tables: what a drop takes from the tables, so that an undrop can put it back.

A dropped table keeps its row id, and with it its policies; its resource id, and with it its tags; and its places, which
stay out of bounds for the clean-up of other tables. With a purge job it can be had back only while that job has not
begun. All of it is done in units of work that have the database to themselves, but for `begun` and `purged`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, delete, insert, or_, select, update

from catalog_server.store import places, resources, unreferenced
from catalog_server.store.jobs import JobState, cancelled_report
from catalog_server.store.keys import key_of, namespace_of
from catalog_server.store.schema import (
    buckets,
    dropped_places,
    dropped_tables,
    jobs,
    policies,
    table_places,
    tables,
)
from catalog_server.store.tables import TableRow
from table_format.errors import AlreadyExists, NotFound
from table_format.ident import TableIdent


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedRow:
    """A dropped table: what it was, since when it is none, and what will become of it."""

    table_id: int
    bucket_id: int
    bucket: str
    ident: TableIdent
    table_uuid: str
    resource_id: str
    location: str
    metadata_location: str
    previous_metadata_location: str | None
    version: int
    created_at_ms: int
    updated_at_ms: int
    dropped_at_ms: int
    dropped_by: str
    expires_at_ms: int | None
    """Until when it can be had back; None while it is being purged."""
    purge_job_id: int | None
    purge_state: str | None
    """Where the purge job stands; None when there is no such job (any more)."""
    purge_begun: bool
    """Whether a purge job was ever started: files may be gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropNote:
    """Who drops a table, and when; until when it can be had back, or by which job its files go."""

    principal: str
    now_ms: int
    expires_at_ms: int | None
    purge_job_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedQuery:
    """Which dropped tables of a bucket to list; None leaves a member open."""

    bucket_id: int
    namespace_key: str | None = None
    name: str | None = None


def missing(resource_id: str) -> NotFound:
    """The error for a dropped table that is not there."""
    return NotFound(
        f"Dropped table does not exist: {resource_id}; it was restored, purged or forgotten, or never dropped"
    )


def keep(connection: Connection, row: TableRow, note: DropNote) -> None:
    """Take a table out of the tables and note it as dropped."""
    held = connection.execute(
        select(table_places.c.place, table_places.c.shared).where(table_places.c.table_id == row.id)
    ).all()
    connection.execute(
        insert(dropped_tables).values(
            table_id=row.id,
            bucket_id=row.bucket_id,
            namespace_key=key_of(row.ident.namespace),
            name=row.ident.name,
            table_uuid=row.table_uuid,
            resource_id=row.resource_id,
            location=row.location,
            metadata_location=row.metadata_location,
            previous_metadata_location=row.previous_metadata_location,
            version=row.version,
            created_at_ms=row.created_at_ms,
            updated_at_ms=row.updated_at_ms,
            dropped_at_ms=note.now_ms,
            dropped_by=note.principal,
            expires_at_ms=note.expires_at_ms,
            purge_job_id=note.purge_job_id,
            purge_begun=False,
        )
    )
    if held:
        connection.execute(
            insert(dropped_places),
            [{"table_id": row.id, "place": place.place, "shared": place.shared} for place in held],
        )
    # Restored later, its files must be found unreferenced anew before any may go.
    unreferenced.forget_all(connection, row.table_uuid)
    connection.execute(delete(tables).where(tables.c.id == row.id))


def put_back(
    connection: Connection, row: DroppedRow, ident: TableIdent, namespace_id: int, now_ms: int
) -> None:
    """Make a table of a dropped one again; whether its name, uuid and places are free was asked before."""
    connection.execute(
        insert(tables).values(
            id=row.table_id,
            bucket_id=row.bucket_id,
            namespace_id=namespace_id,
            name=ident.name,
            table_uuid=row.table_uuid,
            location=row.location,
            metadata_location=row.metadata_location,
            previous_metadata_location=row.previous_metadata_location,
            version=row.version + 1,
            created_at_ms=row.created_at_ms,
            updated_at_ms=now_ms,
            resource_id=row.resource_id,
            protected=False,
        )
    )
    held = connection.execute(
        select(dropped_places.c.place, dropped_places.c.shared).where(
            dropped_places.c.table_id == row.table_id
        )
    ).all()
    if held:
        connection.execute(
            insert(table_places),
            [{"table_id": row.table_id, "place": place.place, "shared": place.shared} for place in held],
        )
    connection.execute(delete(dropped_tables).where(dropped_tables.c.table_id == row.table_id))
    places.mark_shared(connection, row.table_id)
    connection.execute(
        update(jobs)
        .where(jobs.c.table_uuid == row.table_uuid)
        .values(namespace_key=key_of(ident.namespace), table_name=ident.name)
    )


def forget(connection: Connection, row: DroppedRow) -> None:
    """Delete the row, its places, policies and tags; its files are nobody's business here."""
    _forget_rest(connection, row.table_id, row.resource_id)
    connection.execute(delete(dropped_tables).where(dropped_tables.c.table_id == row.table_id))


def call_purge_off(connection: Connection, row: DroppedRow, reason: str, now_ms: int) -> None:
    """End the table's purge job if it is queued, with nothing done."""
    connection.execute(
        update(jobs)
        .where(jobs.c.id == row.purge_job_id, jobs.c.state == JobState.QUEUED)
        .values(state=JobState.CANCELLED, report=cancelled_report(reason), finished_at_ms=now_ms)
    )


def begun(connection: Connection, job_id: int) -> None:
    """A purge job begins: from now on the table can not be had back. Decides by the row that it changes alone."""
    connection.execute(
        update(dropped_tables).where(dropped_tables.c.purge_job_id == job_id).values(purge_begun=True)
    )


def purged(connection: Connection, job_id: int) -> None:
    """A purge job has ended: forget the table that it was for. Decides by the row that it deletes alone."""
    gone = connection.execute(
        delete(dropped_tables)
        .where(dropped_tables.c.purge_job_id == job_id)
        .returning(dropped_tables.c.table_id, dropped_tables.c.resource_id)
    ).all()
    for row in gone:
        _forget_rest(connection, row.table_id, row.resource_id)


def set_purge(connection: Connection, table_id: int, job_id: int) -> None:
    """The table's files go by that job; it can be had back no more once the job begins."""
    connection.execute(
        update(dropped_tables)
        .where(dropped_tables.c.table_id == table_id)
        .values(purge_job_id=job_id, expires_at_ms=None)
    )


def expired(connection: Connection, now_ms: int, limit: int) -> list[DroppedRow]:
    """So many of the tables whose time to be had back is over, the longest over first."""
    query = _joined().where(dropped_tables.c.expires_at_ms <= now_ms)
    return [
        _dropped(row)
        for row in connection.execute(query.order_by(dropped_tables.c.expires_at_ms).limit(limit))
    ]


def find(connection: Connection, bucket_id: int, resource_id: str) -> DroppedRow | None:
    """The dropped table of that resource id, or None."""
    row = connection.execute(
        _joined().where(dropped_tables.c.resource_id == resource_id, dropped_tables.c.bucket_id == bucket_id)
    ).first()
    return None if row is None else _dropped(row)


def require(connection: Connection, bucket_id: int, resource_id: str) -> DroppedRow:
    """The dropped table of that resource id.

    Raises:
        NotFound: there is none.
    """
    found = find(connection, bucket_id, resource_id)
    if found is None:
        raise missing(resource_id)
    return found


def by_uuid(connection: Connection, bucket_id: int, table_uuid: str) -> DroppedRow | None:
    """The table of that uuid that was dropped last from that bucket, or None."""
    row = connection.execute(
        _joined()
        .where(dropped_tables.c.table_uuid == table_uuid, dropped_tables.c.bucket_id == bucket_id)
        .order_by(dropped_tables.c.dropped_at_ms.desc(), dropped_tables.c.table_id.desc())
    ).first()
    return None if row is None else _dropped(row)


def refuse_uuid(connection: Connection, table_uuid: str) -> None:
    """Check that no dropped table, of any bucket, has that uuid: jobs and restores could not tell the two apart.

    Raises:
        AlreadyExists: one has.
    """
    row = connection.execute(_joined().where(dropped_tables.c.table_uuid == table_uuid)).first()
    if row is not None:
        found = _dropped(row)
        raise AlreadyExists(
            f"Dropped table {found.ident} of the bucket {found.bucket} has the uuid {table_uuid}: restore it, or "
            "forget it first"
        )


def page(
    connection: Connection, query: DroppedQuery, after: tuple[str, ...] | None, limit: int | None
) -> list[DroppedRow]:
    """Dropped tables of a bucket, the last dropped first."""
    wanted: list[ColumnElement[bool]] = [dropped_tables.c.bucket_id == query.bucket_id]
    if query.namespace_key is not None:
        wanted.append(dropped_tables.c.namespace_key == query.namespace_key)
    if query.name is not None:
        wanted.append(dropped_tables.c.name == query.name)
    if after is not None:
        at_ms, table_id = (int(part) for part in after)
        wanted.append(
            or_(
                dropped_tables.c.dropped_at_ms < at_ms,
                and_(dropped_tables.c.dropped_at_ms == at_ms, dropped_tables.c.table_id < table_id),
            )
        )
    newest = (dropped_tables.c.dropped_at_ms.desc(), dropped_tables.c.table_id.desc())
    rows = connection.execute(_joined().where(*wanted).order_by(*newest).limit(limit))
    return [_dropped(row) for row in rows]


def places_of(connection: Connection, table_id: int) -> Sequence[str]:
    """The places of a dropped table."""
    query = select(dropped_places.c.place).where(dropped_places.c.table_id == table_id)
    return list(connection.execute(query.order_by(dropped_places.c.place)).scalars())


def overlapping(connection: Connection, locations: Iterable[str], except_job_id: int) -> list[DroppedRow]:
    """Dropped tables that have files at or below or above those places, but the one that the job purges."""
    found: dict[int, DroppedRow] = {}
    for location in locations:
        owners = select(dropped_places.c.table_id).where(places.touches(dropped_places, location))
        for row in connection.execute(_joined().where(dropped_tables.c.table_id.in_(owners))):
            if row.purge_job_id != except_job_id:
                found[row.table_id] = _dropped(row)
    return list(found.values())


def purge_of(connection: Connection, job_id: int) -> tuple[DroppedRow, bool] | None:
    """The table that a job purges, and whether others' files lie at its places; None when it purges none."""
    row = connection.execute(_joined().where(dropped_tables.c.purge_job_id == job_id)).first()
    if row is None:
        return None
    shared = select(dropped_places.c.place).where(
        dropped_places.c.table_id == row.table_id, dropped_places.c.shared
    )
    return _dropped(row), connection.execute(shared.limit(1)).first() is not None


def any_of(connection: Connection, bucket_id: int) -> DroppedRow | None:
    """One of the dropped tables of a bucket, or None."""
    found = page(connection, DroppedQuery(bucket_id=bucket_id), None, 1)
    return found[0] if found else None


def _forget_rest(connection: Connection, table_id: int, resource_id: str) -> None:
    connection.execute(delete(policies).where(policies.c.scope == "table", policies.c.scope_id == table_id))
    resources.forget(connection, resource_id)


def _joined() -> Select[Any]:
    return (
        select(
            dropped_tables,
            buckets.c.name.label("bucket_name"),
            jobs.c.state.label("purge_state"),
        )
        .join(buckets, buckets.c.id == dropped_tables.c.bucket_id)
        .outerjoin(jobs, jobs.c.id == dropped_tables.c.purge_job_id)
    )


def _dropped(row: Row[Any]) -> DroppedRow:
    return DroppedRow(
        table_id=row.table_id,
        bucket_id=row.bucket_id,
        bucket=row.bucket_name,
        ident=TableIdent(namespace_of(row.namespace_key), row.name),
        table_uuid=row.table_uuid,
        resource_id=row.resource_id,
        location=row.location,
        metadata_location=row.metadata_location,
        previous_metadata_location=row.previous_metadata_location,
        version=row.version,
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
        dropped_at_ms=row.dropped_at_ms,
        dropped_by=row.dropped_by,
        expires_at_ms=row.expires_at_ms,
        purge_job_id=row.purge_job_id,
        purge_state=row.purge_state,
        purge_begun=row.purge_begun,
    )
