"""No statement on jobs reads the rows of other jobs: with plans of 100,000 jobs that would be hundreds of megabytes.

SQLite keeps no statistics here, so that its plans are the same for a hundred thousand jobs as for none.
"""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, event

from catalog_server.store import buckets, job_listing, jobs, schema
from catalog_server.store.job_listing import JobQuery
from tests.store.openers import claimant
from tests.store.test_jobs import COMPACTION, KINDS, PURGE, birth

TABLE = JobQuery(bucket="b", namespace_key="n", table="t")


def _page(query: JobQuery) -> Callable[[Connection], object]:
    return lambda connection: job_listing.page(connection, query, ("9",), 101)


STATEMENTS: dict[str, Callable[[Connection], object]] = {
    "all": _page(JobQuery()),
    "by state": _page(JobQuery(states=["failed"])),
    "by kind and origin": _page(JobQuery(kind=PURGE, origin="drop")),
    "by bucket": _page(JobQuery(bucket="b")),
    "by namespace": _page(JobQuery(bucket="b", namespace_key="n")),
    "by table": _page(TABLE),
    "by table and state": _page(JobQuery(bucket="b", namespace_key="n", table="t", states=["done"])),
    "by name alone": _page(JobQuery(table="t")),
    "by time": _page(JobQuery(since_ms=1, until_ms=2)),
    "dry runs": _page(JobQuery(dry_run=True)),
    "last ends": job_listing.last_ends,
    "of a table": lambda connection: job_listing.of_table(connection, "uuid-t", [COMPACTION]),
    "queued by origin": lambda connection: job_listing.open_by_origin(connection, "maintenance"),
    "purges to come": lambda connection: job_listing.unpurged_locations(connection, PURGE, "uuid-u"),
    "counts": job_listing.counts,
    "waiting": lambda connection: job_listing.waiting_since(connection, 9),
    "ended": lambda connection: job_listing.ended_since(connection, 1, 10),
    "claim": lambda connection: jobs.claim(connection, claimant("w", 9), KINDS, 9),
    "leases": jobs.leases,
    "stalled": lambda connection: jobs.requeue_stalled(connection, 9, {1: 8, 2: 8}),
    "cancel": lambda connection: jobs.cancel(connection, 1, 9),
    "cancel requested": lambda connection: jobs.cancel_requested(connection, 1),
}


@pytest.fixture
def sqlite_connection(tmp_path: Any) -> Any:
    engine = create_engine(f"sqlite:///{tmp_path}/plans.db")
    schema.METADATA.create_all(engine)
    with engine.begin() as opened:
        buckets.create(opened, "b", "s3://b", {}, 1)
        jobs.enqueue(opened, birth(), 1)
        yield opened
    engine.dispose()


def steps(connection: Connection, statement: Callable[[Connection], object]) -> list[str]:
    """The steps of SQLite's plans for all that the statement asks of jobs."""
    seen: list[tuple[str, Any]] = []
    note = lambda *told: seen.append((told[2], told[3]))  # noqa: E731 - to be removed again
    event.listen(connection, "before_cursor_execute", note)
    statement(connection)
    event.remove(connection, "before_cursor_execute", note)
    assert seen
    return [
        step[3]
        for sql, values in seen
        for step in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all()
    ]


def reads_rows_of_others(step: str) -> bool:
    return (
        step.startswith(("SCAN jobs", "SCAN other", "SCAN served", "SCAN newer")) and "COVERING" not in step
    )


@pytest.mark.parametrize("name", STATEMENTS)
def test_rows_are_found_by_an_index(sqlite_connection: Connection, name: str) -> None:
    found = steps(sqlite_connection, STATEMENTS[name])
    assert [step for step in found if reads_rows_of_others(step)] == []


def test_a_listing_by_anything_but_a_table_reads_the_rows_of_its_page_only(
    sqlite_connection: Connection,
) -> None:
    for name in ("by state", "by kind and origin", "by bucket", "by namespace", "by time"):
        found = steps(sqlite_connection, STATEMENTS[name])
        assert "SEARCH jobs USING COVERING INDEX ix_jobs_listing (id<?)" in found, name
    by_name = (
        "SEARCH jobs USING INDEX ix_jobs_name (bucket_id=? AND namespace_key=? AND table_name=? AND id<?)"
    )
    assert by_name in steps(sqlite_connection, STATEMENTS["by table"])


def test_a_statement_that_reads_all_rows_would_be_seen(sqlite_connection: Connection) -> None:
    def all_errors(connection: Connection) -> object:
        return connection.exec_driver_sql("SELECT error FROM jobs WHERE error = ?", ("x",)).all()

    assert any(reads_rows_of_others(step) for step in steps(sqlite_connection, all_errors))
