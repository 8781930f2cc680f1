"""The database side of drop, purge and undrop: each is one unit of work that has the database to itself.

So a table is there, or dropped, or gone, and never two of these; whoever comes second finds what the first made of it.
"""

from dataclasses import dataclass

from sqlalchemy import Connection

from catalog_server.services.commit_unit import LostRace
from catalog_server.store import buckets, dropped, jobs, namespaces, places, relations, table_entries, tables
from catalog_server.store.dropped import DropNote, DroppedRow
from catalog_server.store.jobs import JobBirth
from catalog_server.store.keys import key_of
from catalog_server.store.relations import Relation
from catalog_server.store.tables import TableRow
from maintenance.ports import JobKind
from table_format.errors import AlreadyExists, CommitFailed, NoSuchNamespace, VersionConflict
from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject

PURGE_ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A table to be dropped."""

    bucket: str
    ident: TableIdent
    principal: str
    now_ms: int
    kept_ms: int
    """How long it can be had back; 0 forgets it at once."""
    purge: bool
    if_version: int | None = None


def drop(connection: Connection, wanted: Drop) -> DroppedRow | None:
    """Take a table out of the catalog, with a purge by a job of the same transaction; None when it is forgotten.

    A blank table, which has no metadata to have back, is forgotten at once.

    Raises:
        NoSuchTable: there is none.
        Forbidden: it is protected.
        VersionConflict: it is not of the version that is meant.
    """
    owner = buckets.require(connection, wanted.bucket)
    if wanted.if_version is None and table_entries.drop_if_blank(connection, owner.id, wanted.ident):
        return None
    row = tables.droppable(connection, owner.id, wanted.ident)
    if wanted.if_version is not None and row.version != wanted.if_version:
        raise VersionConflict(f"Table {row.ident} was changed since it was read: read it again and retry")
    if not wanted.purge and wanted.kept_ms <= 0:
        tables.remove(connection, row)
        return None
    note = DropNote(
        principal=wanted.principal,
        now_ms=wanted.now_ms,
        expires_at_ms=None if wanted.purge else wanted.now_ms + wanted.kept_ms,
    )
    dropped.keep(connection, row, note)
    kept = dropped.require(connection, row.bucket_id, row.resource_id)
    return _with_purge(connection, kept, wanted.now_ms) if wanted.purge else kept


def unregister(connection: Connection, bucket: str, ident: TableIdent, expected: str | None) -> TableRow:
    """Forget a table at once, if its metadata is still the expected.

    Raises:
        NoSuchTable: there is none.
        Forbidden: it is protected.
        LostRace: its metadata is not the expected.
    """
    row = tables.droppable(connection, buckets.require(connection, bucket).id, ident)
    if row.metadata_location != expected:
        raise LostRace
    tables.remove(connection, row)
    return row


def purge(connection: Connection, bucket: str, resource_id: str, now_ms: int) -> DroppedRow:
    """Let a job delete the files of a dropped table; one that is purged already is answered as it is.

    Raises:
        NotFound: there is no such dropped table.
        CommitFailed: its files lie among those of a table.
    """
    row = dropped.require(connection, buckets.require(connection, bucket).id, resource_id)
    if row.purge_job_id is not None and row.purge_state in (jobs.JobState.QUEUED, jobs.JobState.RUNNING):
        return row
    other = places.overlapped(connection, dropped.places_of(connection, row.table_id))
    if other is not None:
        raise CommitFailed(
            f"Dropped table {row.ident} can not be purged: a table lies at {other} now, among whose files its own can "
            "not be told apart; forget the dropped table instead, or drop that table first"
        )
    return _with_purge(connection, row, now_ms)


def forget(connection: Connection, bucket: str, resource_id: str, now_ms: int) -> None:
    """Forget a dropped table; its files stay.

    Raises:
        NotFound: there is no such dropped table.
        CommitFailed: its purge is under way.
    """
    row = dropped.require(connection, buckets.require(connection, bucket).id, resource_id)
    call_purge_off(connection, row, "forgotten", now_ms=now_ms)
    dropped.forget(connection, row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrop:
    """A dropped table to be had back."""

    bucket: str
    resource_id: str
    metadata_location: str
    """What was found to be its metadata, so that no other row is meant by now."""
    ident: TableIdent
    now_ms: int


def undrop(connection: Connection, wanted: Undrop) -> TableRow:
    """Make a table of a dropped one again, with its id, places, policies and tags.

    Raises:
        NotFound: there is no such dropped table.
        NoSuchNamespace: the namespace is not there.
        AlreadyExists: the name, the uuid or a place is another table's.
        CommitFailed: its purge has begun, or it was restored and dropped again meanwhile.
    """
    owner = buckets.require(connection, wanted.bucket)
    row = dropped.require(connection, owner.id, wanted.resource_id)
    if row.metadata_location != wanted.metadata_location:
        raise CommitFailed(f"Dropped table {row.ident} changed meanwhile: list the dropped tables and retry")
    call_purge_off(connection, row, "restored", now_ms=wanted.now_ms)
    return put_back(connection, row, wanted.ident, wanted.now_ms)


def put_back(connection: Connection, row: DroppedRow, ident: TableIdent, now_ms: int) -> TableRow:
    """Put a dropped table's row back under that name, after all checks.

    Raises:
        NoSuchNamespace, AlreadyExists: as `undrop`.
    """
    namespace = namespaces.find(connection, row.bucket_id, ident.namespace)
    if namespace is None:
        raise NoSuchNamespace(
            f"Namespace does not exist: {ident.namespace}; create it, or restore the table into another one"
        )
    try:
        relations.refuse_taken(connection, namespace.id, ident, Relation.TABLE)
    except AlreadyExists as taken:
        raise AlreadyExists(
            f"{taken.message}; restore the dropped table under another name, or rename the other one"
        ) from None
    tables.refuse_uuid(connection, row.table_uuid, None)
    places.refuse_overlap(connection, dropped.places_of(connection, row.table_id))
    dropped.put_back(connection, row, ident, namespace.id, now_ms)
    return tables.require(connection, row.bucket_id, ident)


def call_purge_off(connection: Connection, row: DroppedRow, why: str, *, now_ms: int) -> None:
    """End a dropped table's purge that has not begun.

    Raises:
        CommitFailed: it has.
    """
    if row.purge_job_id is None:
        return
    if row.purge_begun and row.purge_state in (jobs.JobState.QUEUED, jobs.JobState.RUNNING):
        raise CommitFailed(
            f"Dropped table {row.ident} can not be {why}: its files are being deleted by job {row.purge_job_id}"
        )
    if row.purge_begun and why != "forgotten":
        raise CommitFailed(
            f"Dropped table {row.ident} can not be {why}: job {row.purge_job_id} has begun to delete its files"
        )
    dropped.call_purge_off(connection, row, f"the table was {why} before the purge began", now_ms)


def expire(connection: Connection, now_ms: int, limit: int) -> int:
    """Forget so many dropped tables whose time is over; how many it were."""
    gone = dropped.expired(connection, now_ms, limit)
    for row in gone:
        dropped.forget(connection, row)
    return len(gone)


def _with_purge(connection: Connection, row: DroppedRow, now_ms: int) -> DroppedRow:
    wanted = _purge_of(row)
    job = jobs.enqueue(connection, wanted, now_ms)
    # Of another table of that uuid, or of this one as it was dropped before: that job would go by older metadata.
    if job.payload != wanted.payload:
        raise CommitFailed(
            f"job {job.id} is queued to purge another table of the uuid {row.table_uuid}, or this one as it was "
            "before it was restored: try again when that job has ended, or cancel it"
        )
    dropped.set_purge(connection, row.table_id, job.id)
    return dropped.require(connection, row.bucket_id, row.resource_id)


def _purge_of(row: DroppedRow) -> JobBirth:
    payload: JsonObject = {
        "metadata_location": row.metadata_location,
        "location": row.location,
        "resource_id": row.resource_id,
        "created_at_ms": row.created_at_ms,
        "dropped_at_ms": row.dropped_at_ms,
    }
    return JobBirth(
        kind=JobKind.PURGE.value,
        origin="drop",
        bucket_id=row.bucket_id,
        namespace_key=key_of(row.ident.namespace),
        table_name=row.ident.name,
        table_id=row.table_id,
        table_uuid=row.table_uuid,
        dry_run=False,
        payload=payload,
        priority=0,
        max_attempts=PURGE_ATTEMPTS,
        run_after_ms=0,
    )
