"""How jobs end other than by themselves: cancelled, tried again, handed back; and what history forgets."""

from dataclasses import replace

import pytest
from sqlalchemy import Connection

from catalog_server.store import job_listing, jobs, namespaces, tables
from catalog_server.store.job_rows import PLAN
from catalog_server.store.jobs import JobRow, JobState
from catalog_server.store.tables import Birth
from table_format.errors import JobInTheWay, NoSuchJob
from table_format.ident import Namespace, TableIdent
from tests.store.openers import claimant
from tests.store.test_jobs import COMPACTION, KINDS, PURGE, SNAPSHOTS, birth, must_claim, must_find, queue


def test_a_queued_job_is_cancelled_at_once_and_never_claimed(connection: Connection) -> None:
    job = queue(connection)
    cancelled = jobs.cancel(connection, job.id, 150)
    assert (cancelled.state, cancelled.finished_at_ms, cancelled.cancel_requested_at_ms) == (
        JobState.CANCELLED,
        150,
        150,
    )
    assert cancelled.report is not None
    assert cancelled.report["outcome"] == "cancelled"
    assert jobs.cancel(connection, job.id, 160) == cancelled
    assert jobs.claim(connection, claimant("w", 999), KINDS, 200) is None
    assert queue(connection).id != job.id


def test_a_running_job_is_asked_and_ends_when_its_worker_says_so(connection: Connection) -> None:
    job = queue(connection)
    must_claim(connection)
    assert not jobs.cancel_requested(connection, job.id)
    asked = jobs.cancel(connection, job.id, 120)
    assert (asked.state, asked.cancel_requested_at_ms) == (JobState.RUNNING, 120)
    assert jobs.cancel(connection, job.id, 130).cancel_requested_at_ms == 120
    assert jobs.cancel_requested(connection, job.id)
    assert not jobs.leased(connection, job.id, "w", 121)  # so that it stops before it deletes anything
    assert jobs.heartbeat(connection, job.id, "w", 500)
    assert not jobs.end_cancelled(connection, job.id, "another", ({"outcome": "cancelled"}, None), 140)
    jobs.save_plan(connection, job.id, "w", {"phase": "deleting"})
    assert jobs.end_cancelled(connection, job.id, "w", ({"outcome": "cancelled"}, None), 140)
    ended = must_find(connection, job.id)
    assert (ended.state, ended.report, ended.plan, ended.finished_at_ms) == (
        JobState.CANCELLED,
        {"outcome": "cancelled"},
        {"phase": "deleting"},
        140,
    )


@pytest.mark.parametrize("end", ["done", "failed"])
def test_what_ended_can_not_be_cancelled(connection: Connection, end: str) -> None:
    job = queue(connection)
    must_claim(connection)
    if end == "done":
        jobs.finish(connection, job.id, "w", ({}, None), 120)
    else:
        jobs.fail(connection, job.id, "w", ("broken", None), 120)
    with pytest.raises(JobInTheWay, match=f"Job {job.id} is {end}"):
        jobs.cancel(connection, job.id, 130)
    with pytest.raises(NoSuchJob):
        jobs.cancel(connection, 999, 130)


@pytest.mark.parametrize("how", ["fails", "fails for good", "is handed back", "stalls"])
def test_a_job_that_was_asked_to_end_is_never_queued_again(connection: Connection, how: str) -> None:
    job = queue(connection)
    must_claim(connection)
    jobs.cancel(connection, job.id, 110)
    if how == "stalls":
        assert jobs.requeue_stalled(connection, 151, jobs.leases(connection)) == 1
    elif how == "is handed back":
        assert jobs.hand_back(connection, job.id, "w", 120)
    else:
        assert jobs.fail(connection, job.id, "w", ("away", None if how == "fails for good" else 500), 120)
    ended = must_find(connection, job.id)
    assert ended.state is JobState.CANCELLED
    assert ended.report is not None
    assert ended.report["outcome"] == "cancelled"
    assert [one["error"] for one in ended.failures] == ([] if how == "is handed back" else [ended.error])


def test_a_job_that_ends_by_itself_first_is_done(connection: Connection) -> None:
    job = queue(connection)
    must_claim(connection)
    jobs.cancel(connection, job.id, 110)
    assert jobs.finish(connection, job.id, "w", ({"outcome": "done"}, None), 120)
    assert must_find(connection, job.id).state is JobState.DONE
    assert jobs.cancel_requested(connection, job.id)  # which is why its worker asks for no further run


def failed(connection: Connection, kind: str = COMPACTION) -> JobRow:
    job = queue(connection, kind)
    must_claim(connection)
    jobs.save_plan(connection, job.id, "w", {"phase": "deleting"})
    jobs.fail(connection, job.id, "w", ("broken", None), 120)
    return must_find(connection, job.id)


def test_trying_again_begins_with_fresh_attempts_and_keeps_plan_and_failures(connection: Connection) -> None:
    job = failed(connection)
    again = jobs.retry(connection, job.id, 200)
    assert (again.id, again.state, again.attempts, again.error, again.report) == (
        job.id,
        JobState.QUEUED,
        0,
        None,
        None,
    )
    assert (again.plan, again.failures) == ({"phase": "deleting"}, job.failures)
    assert job.failures == ({"attempt": 1, "atMs": 120, "worker": "w", "error": "broken"},)
    claimed = must_claim(connection, now_ms=200)
    assert (claimed.id, claimed.attempts, claimed.finished_at_ms) == (job.id, 1, None)


def test_a_cancelled_job_is_tried_again_without_its_cancellation(connection: Connection) -> None:
    job = queue(connection)
    jobs.cancel(connection, job.id, 110)
    jobs.retry(connection, job.id, 120)
    must_claim(connection, now_ms=130)
    assert jobs.leased(connection, job.id, "w", 131)


def test_what_can_not_be_tried_again(connection: Connection) -> None:
    job = failed(connection)
    waits = queue(connection)
    with pytest.raises(JobInTheWay, match=f"Job {waits.id} is queued for the same table and kind"):
        jobs.retry(connection, job.id, 130)
    with pytest.raises(JobInTheWay, match=f"Job {waits.id} is queued"):
        jobs.retry(connection, waits.id, 130)
    must_claim(connection)
    assert jobs.retry(connection, job.id, 140).state is JobState.QUEUED  # beside one that runs it may wait
    assert jobs.claim(connection, claimant("w", 999), KINDS, 150) is None


def test_an_attempt_that_was_handed_back_does_not_count(connection: Connection) -> None:
    job = queue(connection)
    must_claim(connection)
    jobs.save_plan(connection, job.id, "w", {"step": 1})
    assert not jobs.hand_back(connection, job.id, "another", 120)
    assert jobs.hand_back(connection, job.id, "w", 120)
    back = must_find(connection, job.id)
    assert (back.state, back.attempts, back.error, back.failures) == (JobState.QUEUED, 0, None, ())
    assert (must_claim(connection, "v", 121).attempts, must_find(connection, job.id).plan) == (1, {"step": 1})


def test_failures_are_kept_up_to_twenty(connection: Connection) -> None:
    job = jobs.enqueue(connection, replace(birth(), max_attempts=99), 100)
    for attempt in range(25):
        must_claim(connection, now_ms=1000 * attempt + 1000)
        jobs.fail(connection, job.id, "w", (f"error {attempt}", 0), 1000 * attempt + 1001)
    told = must_find(connection, job.id).failures
    assert [one["error"] for one in told] == [f"error {n}" for n in range(5, 25)]


def test_a_cancelled_run_counts_as_the_last_one(connection: Connection) -> None:
    job = queue(connection)
    jobs.cancel(connection, job.id, 170)
    assert job_listing.last_ends(connection) == {("uuid-t", COMPACTION, False): 170}
    stands = job_listing.of_table(connection, "uuid-t", KINDS)
    assert stands[COMPACTION].last == must_find(connection, job.id)
    assert (stands[COMPACTION].open, stands[SNAPSHOTS].last, stands[PURGE].open) == (None, None, None)


def test_how_a_kind_stands_is_told_by_what_runs_before_what_waits(connection: Connection) -> None:
    first = queue(connection)
    must_claim(connection)
    assert job_listing.of_table(connection, "uuid-t", [COMPACTION])[COMPACTION].open == must_find(
        connection, first.id
    )
    queue(connection)
    jobs.enqueue(connection, replace(birth(), dry_run=True), 100)
    stands = job_listing.of_table(connection, "uuid-t", [COMPACTION])[COMPACTION]
    assert (stands.last, stands.open and stands.open.id) == (None, first.id)


def test_cancelled_purges_still_keep_their_places(connection: Connection) -> None:
    job = queue(connection, PURGE)
    jobs.cancel(connection, job.id, 110)
    assert job_listing.unpurged_locations(connection, PURGE, "uuid-u") == ["s3://b/t"]


def run_to(connection: Connection, kind: str, table: str, end: JobState, at_ms: int) -> int:
    job = jobs.enqueue(connection, birth(kind, table), at_ms - 1)
    if end is JobState.CANCELLED:
        jobs.cancel(connection, job.id, at_ms)
        return job.id
    must_claim(connection, now_ms=at_ms - 1)
    if end is JobState.DONE:
        jobs.finish(connection, job.id, "w", ({}, None), at_ms)
    else:
        jobs.fail(connection, job.id, "w", ("broken", None), at_ms)
    return job.id


def forgettable(connection: Connection, kept_since_ms: int, plans_since_ms: int = 0) -> set[int]:
    return set(job_listing.forgettable(connection, kept_since_ms, plans_since_ms, PURGE, 100))


@pytest.fixture
def living(connection: Connection) -> None:
    """There is a table with the uuid "uuid-t", and none with "uuid-u"."""
    namespaces.create(connection, 1, Namespace(("n",)), {}, 1)
    born = Birth(
        ident=TableIdent.of("n", "t"),
        table_uuid="uuid-t",
        location="s3://b/t",
        places=("s3://b/t",),
        metadata_location="s3://b/t/metadata/0.json",
    )
    tables.create(connection, 1, born, 1)


@pytest.mark.usefixtures("living")
def test_history_forgets_all_but_the_last_of_each_kind_of_a_table_that_lives(connection: Connection) -> None:
    old = [run_to(connection, COMPACTION, "t", JobState.DONE, at) for at in (1000, 2000, 3000)]
    other = run_to(connection, SNAPSHOTS, "t", JobState.FAILED, 1500)
    gone = run_to(connection, COMPACTION, "u", JobState.DONE, 1600)
    young = run_to(connection, COMPACTION, "u", JobState.CANCELLED, 9000)
    assert forgettable(connection, 5000) == {*old[:2], gone}
    assert forgettable(connection, 2000) == {old[0], gone}
    assert job_listing.forget(connection, sorted(forgettable(connection, 5000))) == 3
    assert {row.id for row in job_listing.page(connection, job_listing.JobQuery(), None, None)} == {
        old[2],
        other,
        young,
    }
    assert job_listing.last_ends(connection)["uuid-t", COMPACTION, False] == 3000


def test_history_never_forgets_a_purge_that_did_not_succeed(connection: Connection) -> None:
    stuck = run_to(connection, PURGE, "t", JobState.FAILED, 1000)
    cancelled = run_to(connection, PURGE, "u", JobState.CANCELLED, 1000)
    done = run_to(connection, PURGE, "v", JobState.DONE, 1000)
    assert forgettable(connection, 5000) == {done}
    assert {stuck, cancelled} & forgettable(connection, 5000) == set()
    run_to(connection, PURGE, "t", JobState.DONE, 9000)
    assert forgettable(connection, 5000) == {done, stuck}  # a later one of the same table did


def test_history_forgets_no_job_that_was_queued_again_meanwhile(connection: Connection) -> None:
    job = run_to(connection, COMPACTION, "u", JobState.FAILED, 1000)
    found = forgettable(connection, 5000)
    jobs.retry(connection, job, 1001)
    assert job_listing.forget(connection, sorted(found)) == 0


def test_plans_made_for_one_answer_are_not_listed_and_forgotten_soon(connection: Connection) -> None:
    made = jobs.enqueue(connection, replace(birth(), dry_run=True, origin=PLAN), 100)
    assert job_listing.page(connection, job_listing.JobQuery(), None, None) == []
    listed = job_listing.page(connection, job_listing.JobQuery(origin=PLAN), None, None)
    assert [row.id for row in listed] == [made.id]
    assert job_listing.counts(connection) == []
    must_claim(connection)
    jobs.finish(connection, made.id, "w", ({}, {}), 120)
    assert forgettable(connection, 0, 120) == set()
    assert forgettable(connection, 0, 121) == {made.id}
    unmade = jobs.enqueue(connection, replace(birth(), dry_run=True, origin=PLAN), 200)
    assert job_listing.forget_unmade_plans(connection, 200) == 0
    assert job_listing.forget_unmade_plans(connection, 201) == 1
    assert jobs.find(connection, unmade.id) is None


def test_figures(connection: Connection) -> None:
    run_to(connection, SNAPSHOTS, "c", JobState.DONE, 500)
    queue(connection, table="a")
    jobs.enqueue(connection, replace(birth(table="b"), run_after_ms=700), 100)
    assert {(one.kind, one.state): one.count for one in job_listing.counts(connection)} == {
        (COMPACTION, "queued"): 2,
        (SNAPSHOTS, "done"): 1,
    }
    assert job_listing.waiting_since(connection, 600) == {COMPACTION: 100}
    (ended,) = job_listing.ended_since(connection, 500, 10)
    assert (ended.kind, ended.state, ended.finished_at_ms, ended.milliseconds) == (SNAPSHOTS, "done", 500, 1)
    assert job_listing.ended_since(connection, 501, 10) == []
