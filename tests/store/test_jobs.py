"""The job queue's rows: one queued per table and kind, one running per table, leases that run out."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import Connection

from catalog_server.store import buckets, job_listing, jobs
from catalog_server.store.engine import Database
from catalog_server.store.job_listing import JobQuery
from catalog_server.store.jobs import JobBirth, JobRow, JobState
from table_format.errors import NoSuchWarehouse
from tests.store.openers import Opener, claimant

COMPACTION, SNAPSHOTS, PURGE = "icebergCompaction", "icebergSnapshotManagement", "tablePurge"
KINDS = (COMPACTION, SNAPSHOTS, PURGE)


def birth(kind: str = COMPACTION, table: str = "t") -> JobBirth:
    return JobBirth(
        kind=kind,
        origin="api",
        bucket_id=1,
        namespace_key="n",
        table_name=table,
        table_id=1,
        table_uuid=f"uuid-{table}",
        dry_run=False,
        payload={"location": f"s3://b/{table}"},
        priority=0,
        max_attempts=3,
        run_after_ms=0,
    )


def queue(connection: Connection, kind: str = COMPACTION, table: str = "t") -> JobRow:
    return jobs.enqueue(connection, birth(kind, table), 100)


def claim(connection: Connection, owner: str = "w", now_ms: int = 100) -> JobRow | None:
    return jobs.claim(connection, claimant(owner, now_ms + 50), KINDS, now_ms)


def must_claim(connection: Connection, owner: str = "w", now_ms: int = 100) -> JobRow:
    row = claim(connection, owner, now_ms)
    assert row is not None
    return row


def must_find(connection: Connection, job_id: int) -> JobRow:
    row = jobs.find(connection, job_id)
    assert row is not None
    return row


def test_a_job_is_queued_once_per_table_and_kind(connection: Connection) -> None:
    first = queue(connection)
    assert queue(connection).id == first.id
    assert queue(connection, SNAPSHOTS).id != first.id
    assert queue(connection, table="u").id != first.id
    dry = jobs.enqueue(connection, replace(birth(), dry_run=True), 100)
    assert dry.id != first.id


def test_a_table_has_one_running_job(connection: Connection) -> None:
    queue(connection)
    queue(connection, SNAPSHOTS)
    other = queue(connection, table="u")
    first = must_claim(connection)
    assert (first.kind, first.state, first.attempts, first.lease_until_ms) == (
        COMPACTION,
        JobState.RUNNING,
        1,
        150,
    )
    assert must_claim(connection).id == other.id
    assert claim(connection) is None
    assert jobs.finish(connection, first.id, "w", ({"outcome": "done"}, None), 120)
    assert must_claim(connection).kind == SNAPSHOTS


def test_a_dry_run_waits_for_nothing(connection: Connection) -> None:
    queue(connection)
    must_claim(connection)
    dry = jobs.enqueue(connection, replace(birth(), dry_run=True), 100)
    assert must_claim(connection).id == dry.id


def test_the_urgent_come_first_and_the_late_wait(connection: Connection) -> None:
    queue(connection, table="a")
    late = jobs.enqueue(connection, replace(birth(table="b"), run_after_ms=500), 100)
    urgent = jobs.enqueue(connection, jobs.urgent(birth(table="c"), dry_run=False), 100)
    assert must_claim(connection).id == urgent.id
    assert must_claim(connection).table == "a"
    assert claim(connection, now_ms=499) is None
    assert must_claim(connection, now_ms=500).id == late.id


def test_only_wanted_kinds_are_claimed(connection: Connection) -> None:
    queue(connection)
    assert jobs.claim(connection, claimant("w", 150), [PURGE], 100) is None


def test_a_lease_belongs_to_its_owner(connection: Connection) -> None:
    job = queue(connection)
    must_claim(connection, "w1")
    assert jobs.leased(connection, job.id, "w1", 149)
    assert not jobs.leased(connection, job.id, "w1", 150)
    assert not jobs.leased(connection, job.id, "w2", 120)
    assert jobs.heartbeat(connection, job.id, "w1", 300)
    assert jobs.leased(connection, job.id, "w1", 299)
    for refused in (
        jobs.heartbeat(connection, job.id, "w2", 999),
        jobs.save_plan(connection, job.id, "w2", {}),
        jobs.finish(connection, job.id, "w2", ({}, None), 120),
        jobs.fail(connection, job.id, "w2", ("no", None), 120),
        jobs.fail(connection, job.id, "w2", ("no", 200), 120),
    ):
        assert refused is False
    assert must_find(connection, job.id).state is JobState.RUNNING


def test_finishing_keeps_the_saved_plan_unless_a_new_one_is_given(connection: Connection) -> None:
    job = queue(connection)
    must_claim(connection)
    assert jobs.save_plan(connection, job.id, "w", {"step": 1})
    assert jobs.finish(connection, job.id, "w", ({"outcome": "done"}, None), 130)
    done = must_find(connection, job.id)
    assert (done.state, done.plan, done.report, done.finished_at_ms) == (
        JobState.DONE,
        {"step": 1},
        {"outcome": "done"},
        130,
    )
    assert not jobs.finish(connection, job.id, "w", ({}, None), 131)


def test_a_failure_is_tried_again_later_or_never(connection: Connection) -> None:
    job = queue(connection)
    must_claim(connection)
    assert jobs.fail(connection, job.id, "w", ("store away", 400), 130)
    waiting = must_find(connection, job.id)
    assert (waiting.state, waiting.error, waiting.run_after_ms) == (JobState.QUEUED, "store away", 400)
    assert claim(connection, now_ms=399) is None
    again = must_claim(connection, now_ms=400)
    assert (again.attempts, again.error) == (2, None)
    assert jobs.fail(connection, job.id, "w", ("broken", None), 410)
    assert must_find(connection, job.id).state is JobState.FAILED


def test_D6_a_stalled_job_goes_back_and_keeps_its_plan(connection: Connection) -> None:
    job = queue(connection)
    must_claim(connection)
    jobs.save_plan(connection, job.id, "w", {"delete": ["a"]})
    assert jobs.requeue_stalled(connection, 150, jobs.leases(connection)) == 0
    newer = queue(connection)  # asked for while it ran
    assert jobs.requeue_stalled(connection, 151, jobs.leases(connection)) == 1
    assert not jobs.heartbeat(connection, job.id, "w", 999)
    joined = must_find(connection, newer.id)
    assert joined.state is JobState.DONE
    assert joined.report is not None
    assert joined.report["outcome"] == "skipped"
    taken = must_claim(connection, "w2", 160)
    assert (taken.id, taken.attempts, taken.plan) == (job.id, 2, {"delete": ["a"]})


def test_a_job_that_stalls_too_often_fails(connection: Connection) -> None:
    job = queue(connection)
    for attempt in (1, 2, 3):
        must_claim(connection, now_ms=attempt * 1000)
        assert jobs.requeue_stalled(connection, attempt * 1000 + 51, jobs.leases(connection)) == 1
    failed = must_find(connection, job.id)
    assert (failed.state, failed.attempts) == (JobState.FAILED, 3)
    assert failed.error == "worker w stopped answering in attempt 3"


def test_jobs_are_listed_newest_first_and_filtered(connection: Connection) -> None:
    made = [queue(connection, kind, table) for kind in (COMPACTION, SNAPSHOTS) for table in ("t", "u")]
    ids = [row.id for row in made]
    assert [row.id for row in job_listing.page(connection, JobQuery(), None, None)] == ids[::-1]
    assert [row.id for row in job_listing.page(connection, JobQuery(), (str(ids[2]),), 1)] == [ids[1]]
    only = JobQuery(bucket="b", namespace_key="n", table="u", kind=SNAPSHOTS, states=["queued"])
    assert [row.id for row in job_listing.page(connection, only, None, None)] == [ids[3]]
    with pytest.raises(NoSuchWarehouse):
        job_listing.page(connection, JobQuery(bucket="c"), None, None)


def test_unpurged_tables_are_still_somewhere(connection: Connection) -> None:
    queue(connection, PURGE, "t")
    queue(connection, PURGE, "u")
    queue(connection, COMPACTION, "v")
    assert job_listing.unpurged_locations(connection, PURGE, "uuid-t") == ["s3://b/u"]
    row = must_claim(connection)
    while row.table != "u" or row.kind != PURGE:
        row = must_claim(connection)
    jobs.finish(connection, row.id, "w", ({}, None), 120)
    assert job_listing.unpurged_locations(connection, PURGE, "uuid-t") == []


def test_last_ends_tell_what_is_open(connection: Connection) -> None:
    first = queue(connection)
    assert job_listing.last_ends(connection) == {("uuid-t", COMPACTION, False): None}
    must_claim(connection)
    assert job_listing.last_ends(connection) == {("uuid-t", COMPACTION, False): None}
    jobs.finish(connection, first.id, "w", ({}, None), 170)
    assert job_listing.last_ends(connection) == {("uuid-t", COMPACTION, False): 170}
    queue(connection)
    assert job_listing.last_ends(connection) == {("uuid-t", COMPACTION, False): None}


@pytest.mark.anyio
async def test_C20_many_workers_claim_every_job_once(database: Database, opened: Opener) -> None:
    await database.write(buckets.create, "b", "s3://b", {}, 1)
    second = await opened()
    for number in range(40):
        await database.write(jobs.enqueue, birth(table=f"t{number}"), 100)
    claimed = await asyncio.gather(
        *(
            (second if n % 2 else database).write(jobs.claim, claimant(f"w{n}", 150), KINDS, 100)
            for n in range(60)
        )
    )
    ids = [row.id for row in claimed if row is not None]
    assert len(ids) == len(set(ids)) == 40


def test_a_run_asked_for_now_brings_a_postponed_one_forward(connection: Connection) -> None:
    postponed = jobs.enqueue(connection, replace(birth(), run_after_ms=9_000), 100)

    by_commit = jobs.enqueue(connection, birth(), 110)
    assert (by_commit.id, by_commit.run_after_ms) == (postponed.id, 9_000)
    worth_more = jobs.enqueue(connection, replace(birth(), priority=7), 115)
    assert (worth_more.id, worth_more.run_after_ms, worth_more.priority) == (postponed.id, 9_000, 7)

    by_person = jobs.enqueue(connection, jobs.urgent(birth(), dry_run=False), 120)
    assert (by_person.id, by_person.run_after_ms, by_person.priority) == (postponed.id, 0, 10)
    assert must_claim(connection, now_ms=130).id == postponed.id


def test_jobs_of_commits_do_not_pass_a_retry_that_waits_longer(connection: Connection) -> None:
    retry = jobs.enqueue(connection, replace(birth(table="a"), run_after_ms=150), 100)
    by_commit = jobs.enqueue(connection, birth(table="b"), 200)

    assert must_claim(connection, now_ms=300).id == retry.id
    assert must_claim(connection, now_ms=300).id == by_commit.id
