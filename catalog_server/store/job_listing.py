"""What is read of many jobs at once: listings, ends by table and kind, counts, what history may forget.

Every statement here finds its rows in an index: plans and reports may be long, and 100,000 jobs are no exception.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    exists,
    func,
    literal_column,
    null,
    or_,
    select,
)

from catalog_server.store import buckets
from catalog_server.store.job_rows import ENDED, OPEN, PLAN, JobRow, JobState, job_of, joined
from catalog_server.store.schema import jobs, tables
from table_format.jsontypes import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Which jobs to list; None leaves a member open."""

    bucket: str | None = None
    namespace_key: str | None = None
    table: str | None = None
    kind: str | None = None
    states: Collection[str] | None = None
    origin: str | None = None
    dry_run: bool | None = None
    since_ms: int | None = None
    """Made at this moment or later."""
    until_ms: int | None = None
    """Made before this moment."""


# In the words of the index that it is answered by.
_NOT_DONE = jobs.c.state != literal_column("'done'")


def page(
    connection: Connection, query: JobQuery, after: tuple[str, ...] | None, limit: int | None
) -> list[JobRow]:
    """Jobs, the newest first.

    Raises:
        NoSuchWarehouse: there is no such bucket; the jobs of one that was go with it.
    """
    wanted = _wanted(query)
    if query.bucket is not None:
        bucket_id = buckets.require(connection, query.bucket).id
        wanted.append(_same(jobs.c.bucket_id, bucket_id, by_index=query.table is not None))
    if after is not None:
        wanted.append(jobs.c.id < int(after[0]))
    # The filters are answered by an index alone; only the rows of the page are read.
    ids = select(jobs.c.id).where(*wanted).order_by(jobs.c.id.desc()).limit(limit).subquery()
    rows = connection.execute(joined().join(ids, ids.c.id == jobs.c.id).order_by(jobs.c.id.desc()))
    return [job_of(row) for row in rows]


def _wanted(query: JobQuery) -> list[ColumnElement[bool]]:
    by_name = query.table is not None and query.namespace_key is not None and query.bucket is not None
    wanted: list[ColumnElement[bool]] = []
    for column, value in ((jobs.c.namespace_key, query.namespace_key), (jobs.c.table_name, query.table)):
        if value is not None:
            wanted.append(_same(column, value, by_index=by_name))
    for column, value in ((jobs.c.kind, query.kind), (jobs.c.origin, query.origin)):
        if value is not None:
            wanted.append(_same(column, value, by_index=False))
    if query.origin is None:
        wanted.append(_unindexed(jobs.c.origin) != PLAN)
    if query.states is not None:
        wanted.append(_unindexed(jobs.c.state).in_(list(query.states)))
    if query.dry_run is not None:
        wanted.append(jobs.c.dry_run == query.dry_run)
    if query.since_ms is not None:
        wanted.append(jobs.c.created_at_ms >= query.since_ms)
    if query.until_ms is not None:
        wanted.append(jobs.c.created_at_ms < query.until_ms)
    return wanted


def _same(column: ColumnElement[Any], value: object, *, by_index: bool) -> ColumnElement[bool]:
    return column == value if by_index else _unindexed(column) == value


def _unindexed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """The column, not to be looked up in an index of its own.

    SQLite, which keeps no statistics, would read every row that has the value: of the done jobs that is nearly all.
    """
    return func.coalesce(column, null())


def last_ends(connection: Connection) -> dict[tuple[str, str, bool], int | None]:
    """By (table_uuid, kind, dry run): when the last run ended; None while a job is queued or running."""
    open_jobs = func.count().filter(jobs.c.state.in_(OPEN))
    rows = connection.execute(
        select(
            jobs.c.table_uuid,
            jobs.c.kind,
            jobs.c.dry_run,
            func.max(jobs.c.finished_at_ms).label("ended"),
            open_jobs.label("open"),
        ).group_by(jobs.c.table_uuid, jobs.c.kind, jobs.c.dry_run)
    )
    return {(row.table_uuid, row.kind, row.dry_run): None if row.open else row.ended for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class KindJobs:
    """The jobs of one kind on one table that tell how it stands."""

    last: JobRow | None
    """The last run that ended, dry runs aside."""
    open: JobRow | None
    """The one that runs, or else the one that waits."""


def of_table(connection: Connection, table_uuid: str, kinds: Collection[str]) -> dict[str, KindJobs]:
    """How each kind stands on a table."""
    found = {}
    for kind in kinds:
        of_kind = joined().where(jobs.c.table_uuid == table_uuid, jobs.c.kind == kind, ~jobs.c.dry_run)
        last = connection.execute(
            of_kind.where(jobs.c.state.in_(ENDED))
            .order_by(jobs.c.finished_at_ms.desc(), jobs.c.id.desc())
            .limit(1)
        ).first()
        # "running" comes after "queued".
        now = connection.execute(
            of_kind.where(jobs.c.state.in_(OPEN)).order_by(jobs.c.state.desc()).limit(1)
        ).first()
        found[kind] = KindJobs(
            last=None if last is None else job_of(last), open=None if now is None else job_of(now)
        )
    return found


def open_by_origin(connection: Connection, origin: str) -> int:
    """How many jobs of that origin are queued."""
    found = connection.scalar(
        select(func.count()).where(jobs.c.state == JobState.QUEUED, _unindexed(jobs.c.origin) == origin)
    )
    return int(found or 0)


def unpurged_locations(connection: Connection, kind: str, except_table_uuid: str) -> list[str]:
    """Locations of dropped tables whose purge is still to come, or stopped half-way.

    Only those of before there were rows of dropped tables, which have places of their own.
    """
    rows = connection.execute(
        select(jobs.c.payload).where(jobs.c.kind == kind, _NOT_DONE, jobs.c.table_uuid != except_table_uuid)
    )
    payloads = [row.payload for row in rows]
    return [one["location"] for one in payloads if "location" in one and "resource_id" not in one]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How many jobs of a kind are in a state."""

    kind: str
    state: str
    count: int


def counts(connection: Connection) -> list[Standing]:
    """Jobs by kind and state."""
    rows = connection.execute(
        select(jobs.c.kind, jobs.c.state, func.count().label("number"))
        .where(_unindexed(jobs.c.origin) != PLAN)
        .group_by(jobs.c.kind, jobs.c.state)
    )
    return [Standing(kind=row.kind, state=row.state, count=row.number) for row in rows]


def waiting_since(connection: Connection, now_ms: int) -> dict[str, int]:
    """By kind: since when the job that waits longest could have run."""
    since = func.min(func.coalesce(func.nullif(jobs.c.run_after_ms, 0), jobs.c.created_at_ms))
    rows = connection.execute(
        select(jobs.c.kind, since.label("since"))
        .where(jobs.c.state == JobState.QUEUED, jobs.c.run_after_ms <= now_ms)
        .group_by(jobs.c.kind)
    )
    return {row.kind: row.since for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How long the last attempt of a job took."""

    id: int
    kind: str
    state: str
    finished_at_ms: int
    milliseconds: int
    report: JsonObject | None


def overdue(connection: Connection, before_ms: int) -> dict[str, int]:
    """Queued jobs by kind that could have run since that moment, or that failed already; dry runs aside."""
    waits = and_(jobs.c.run_after_ms <= before_ms, jobs.c.created_at_ms <= before_ms)
    rows = connection.execute(
        select(jobs.c.kind, func.count().label("found"))
        .where(jobs.c.state == JobState.QUEUED, ~jobs.c.dry_run, or_(waits, jobs.c.error.is_not(None)))
        .group_by(jobs.c.kind)
    )
    return {row.kind: row.found for row in rows}


def ended_since(connection: Connection, since_ms: int, limit: int) -> list[Ended]:
    """Jobs that ended at that moment or later, the oldest first; dry runs aside."""
    rows = connection.execute(
        select(
            jobs.c.id, jobs.c.kind, jobs.c.state, jobs.c.started_at_ms, jobs.c.finished_at_ms, jobs.c.report
        )
        .where(jobs.c.finished_at_ms >= since_ms, ~jobs.c.dry_run, jobs.c.started_at_ms.is_not(None))
        .order_by(jobs.c.finished_at_ms)
        .limit(limit)
    )
    return [
        Ended(
            id=row.id,
            kind=row.kind,
            state=row.state,
            finished_at_ms=row.finished_at_ms,
            milliseconds=max(row.finished_at_ms - row.started_at_ms, 0),
            report=row.report,
        )
        for row in rows
    ]


def forgettable(
    connection: Connection, kept_since_ms: int, plans_since_ms: int, purge: str, limit: int
) -> list[int]:
    """Ids of jobs that nothing needs any more: ended before, and not the last of their table and kind.

    Of a table that is gone the last may go as well. A purge that did not come to its end is never forgotten, unless a
    later one did: it is all that is known of the files that are still there.
    """
    newer = jobs.alias("newer")
    superseded = exists().where(
        newer.c.table_uuid == jobs.c.table_uuid,
        newer.c.kind == jobs.c.kind,
        newer.c.dry_run == jobs.c.dry_run,
        newer.c.state.in_(ENDED),
        newer.c.finished_at_ms >= jobs.c.finished_at_ms,
        newer.c.id > jobs.c.id,
    )
    later = jobs.alias("later")
    purged = exists().where(
        later.c.table_uuid == jobs.c.table_uuid,
        later.c.kind == purge,
        later.c.state == JobState.DONE,
        later.c.id > jobs.c.id,
    )
    lives = exists().where(tables.c.table_uuid == jobs.c.table_uuid)
    old = and_(
        jobs.c.finished_at_ms < kept_since_ms,
        or_(jobs.c.kind != purge, jobs.c.state == JobState.DONE, purged),
        or_(jobs.c.dry_run, superseded, ~lives),
    )
    made_for_one_answer = and_(jobs.c.finished_at_ms < plans_since_ms, _unindexed(jobs.c.origin) == PLAN)
    rows = connection.execute(
        select(jobs.c.id).where(or_(old, made_for_one_answer)).order_by(jobs.c.finished_at_ms).limit(limit)
    )
    return list(rows.scalars())


def forget(connection: Connection, ids: Sequence[int]) -> int:
    """Delete these jobs, those aside that were queued again meanwhile; how many."""
    gone = connection.execute(delete(jobs).where(jobs.c.id.in_(list(ids)), jobs.c.state.in_(ENDED)))
    return gone.rowcount


def forget_unmade_plans(connection: Connection, made_before_ms: int) -> int:
    """Delete dry runs that were made for one answer and that no worker took; how many."""
    gone = connection.execute(
        delete(jobs).where(
            jobs.c.state == JobState.QUEUED,
            _unindexed(jobs.c.origin) == PLAN,
            jobs.c.created_at_ms < made_before_ms,
        )
    )
    return gone.rowcount
