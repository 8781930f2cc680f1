"""The worker and the scheduler over a queue in memory."""

import threading

import anyio
import pytest
from structlog.testing import capture_logs

from maintenance.executors.port import UNLIMITED, Pace, Stopped
from maintenance.leased import LeasedContext, Stop
from maintenance.ports import DroppedNeighbour, JobKind, NewJob
from maintenance.report import Outcome, Report, nothing
from maintenance.scheduler import Scheduler
from maintenance.worker import RUNNERS, Worker, WorkerSettings
from table_format.clock import SystemClock
from table_format.errors import CommitFailed, Invalid, Unavailable
from table_format.ident import TableIdent
from table_format.io.memory import MemoryObjectStore
from tests.factories.lake import Lake
from tests.fakes.clock import CountingIds, ManualClock
from tests.fakes.jobs import FakeContext, FakeQueue

IDENT = TableIdent.of("db", "t")
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def new(kind=JobKind.COMPACTION, **changes):
    values = {"kind": kind, "bucket_id": 1, "table_id": 2, "table_uuid": "u", "ident": IDENT, **changes}
    return NewJob(**values)


def settings(**changes):
    return WorkerSettings(**{"owner": "w1", "poll_seconds": 0.01, "drain_seconds": 0.05, **changes})


def worker(queue, clock, runner, **changes):
    def surroundings(job):
        store = MemoryObjectStore(clock)
        return FakeContext(catalog=None, clock=clock, ids=CountingIds(), store=store)

    return Worker(
        queue, surroundings, clock, CountingIds(), settings(**changes), dict.fromkeys(JobKind, runner)
    )


def away(message):
    error = Unavailable(message)
    error.__cause__ = OSError("refused")
    return error


def test_every_kind_has_a_runner():
    assert set(RUNNERS) == set(JobKind)


async def test_a_job_is_claimed_run_and_finished():
    clock = ManualClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())
    seen = []

    def runner(ctx, job):
        seen.append((job.kind, job.attempts, threading.current_thread() is threading.main_thread()))
        return Report(outcome=Outcome.DONE, reason="did it", plan={"p": 1})

    made = worker(queue, clock, runner)
    assert await made.run_once() is True
    assert await made.run_once() is False
    assert seen == [(JobKind.COMPACTION, 1, False)]
    (row,) = queue.rows
    assert (row.state, row.plan) == ("succeeded", {"p": 1})
    assert row.report == {"outcome": "done", "reason": "did it", "figures": {}, "againAfterMs": None}


async def test_a_report_can_ask_for_the_next_run():
    clock = ManualClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new(payload={"x": 1}))
    reports = [Report(outcome=Outcome.DONE, reason="more", again_after_ms=500), nothing("done")]
    made = worker(queue, clock, lambda ctx, job: reports.pop(0))
    await made.run_once()
    assert await made.run_once() is False
    clock.advance(0.5)
    assert await made.run_once() is True
    assert [(row.state, row.new.payload) for row in queue.rows] == [("succeeded", {"x": 1})] * 2


async def test_a_dry_run_asks_for_no_next_run():
    clock = ManualClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new(dry_run=True))
    made = worker(queue, clock, lambda ctx, job: Report(outcome=Outcome.DONE, reason="", again_after_ms=0))
    await made.run_once()
    assert len(queue.rows) == 1


async def test_a_failure_is_tried_again_later_and_later_and_then_no_more():
    clock = ManualClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new(max_attempts=3))

    def runner(ctx, job):
        raise Unavailable("the store is away")

    made = worker(queue, clock, runner, first_retry_ms=1000, longest_retry_ms=1500)
    waits = []
    for _ in range(2):
        assert await made.run_once() is True
        waits.append(queue.rows[0].run_after_ms - clock.now_ms())
        assert await made.run_once() is False
        clock.advance(waits[-1] / 1000)
    await made.run_once()
    assert waits == [1000, 1500]
    (row,) = queue.rows
    assert (row.state, row.error, row.attempts) == ("failed", "the store is away", 3)


async def test_what_trying_again_cannot_help_fails_at_once():
    clock = ManualClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())

    def runner(ctx, job):
        raise Invalid("the payload is wrong")

    await worker(queue, clock, runner).run_once()
    assert queue.rows[0].state == "failed"


async def test_an_unexpected_exception_is_recorded_with_its_type():
    clock = ManualClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new(max_attempts=1))

    def runner(ctx, job):
        raise KeyError("snapshot-id")

    await worker(queue, clock, runner).run_once()
    assert (queue.rows[0].state, queue.rows[0].error) == ("failed", "KeyError: 'snapshot-id'")


async def test_the_heartbeat_keeps_a_long_job_leased():
    clock = SystemClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())

    def runner(ctx, job):
        clock.sleep(0.5)
        return nothing(f"leased: {ctx.still_leased()}")

    await worker(queue, clock, runner, lease_ms=200).run_once()
    assert queue.rows[0].report["reason"] == "leased: True"


async def test_maint_D6_a_lost_lease_reaches_the_job_and_its_report_is_not_recorded():
    clock = SystemClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())
    seen = []

    def runner(ctx, job):
        queue.rows[0].token = "another claim"  # another worker took over
        for _ in range(200):
            if not ctx.still_leased():
                seen.append("stopped")
                with pytest.raises(CommitFailed):
                    ctx.save_plan({})
                return nothing("lease lost")
            clock.sleep(0.01)
        return nothing("never told")

    await worker(queue, clock, runner, lease_ms=100).run_once()
    assert seen == ["stopped"]
    assert (queue.rows[0].state, queue.rows[0].report) == ("running", None)


async def test_a_job_that_stopped_for_a_lapsed_lease_is_queued_again_though_a_late_heartbeat_got_it_back():
    """Its report says that another worker takes over; recorded as done, nobody would, and its plan would be lost."""
    clock = SystemClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())

    answers = []

    def runner(ctx, job):
        answers.extend(ctx.still_leased() for _ in range(3))  # it slept past its lease before the second
        return nothing("the lease was lost, another worker takes over")

    def surroundings(job):
        return FakeContext(
            catalog=None, clock=clock, ids=CountingIds(), store=None, leases=[True, False, True]
        )

    runners = dict.fromkeys(JobKind, runner)
    await Worker(queue, surroundings, clock, CountingIds(), settings(), runners).run_once()
    assert answers == [True, False, False]
    assert (queue.rows[0].state, queue.rows[0].report) == ("queued", None)


async def test_maint_D6_a_stalled_job_is_taken_over_by_another_worker():
    clock = ManualClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())
    first = await queue.claim("dead", list(JobKind), 1000)
    clock.advance(1.001)
    assert await queue.requeue_stalled(clock.now_ms()) == 1
    await worker(queue, clock, lambda ctx, job: nothing(f"attempt {job.attempts}")).run_once()
    assert queue.rows[0].report["reason"] == "attempt 2"
    assert await queue.finish(first.id, first.lease_token, {}, None) is False


async def test_a_worker_that_claims_again_what_it_lost_is_not_taken_for_the_run_before():
    """Its first thread still runs: it is told that the lease is lost, and what it reports is not the second's."""
    clock = SystemClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())
    told, second_runs = threading.Event(), threading.Event()

    def runner(ctx, job):
        if job.attempts == 2:
            second_runs.set()
            assert told.wait(20)
            return nothing(f"the second, leased: {ctx.still_leased()}")
        queue.rows[0].lease_until_ms = 0  # it slept past its lease
        assert second_runs.wait(20)
        while ctx.stopped is None:
            clock.sleep(0.01)
        told.set()
        return nothing("the first")

    async def again():
        while queue.rows[0].token is None or not await queue.requeue_stalled(clock.now_ms()):
            await anyio.sleep(0.01)
        assert await made.run_once()

    made = worker(queue, clock, runner, lease_ms=4000)
    async with anyio.create_task_group() as both:
        both.start_soon(again)
        assert await made.run_once()
    assert queue.rows[0].report["reason"] == "the second, leased: True"


async def test_a_job_is_told_its_pace_and_each_heartbeat_tells_it_anew():
    clock = SystemClock()
    queue = FakeQueue(clock)
    queue.paces = [Pace(bytes_per_second=7), Pace(bytes_per_second=3)]
    await queue.enqueue(new())
    seen = []

    def runner(ctx, job):
        reach = ctx.reach("memory://w")
        seen.append(reach.pace())
        while reach.pace() != UNLIMITED:
            if reach.pace() != seen[-1]:
                seen.append(reach.pace())
            clock.sleep(0.005)
        return nothing("as fast as it likes")

    await worker(queue, clock, runner, lease_ms=4000).run_once()
    assert seen == [Pace(bytes_per_second=7), Pace(bytes_per_second=3)]
    assert queue.rows[0].state == "succeeded"


async def test_without_a_pace_no_job_begins_and_one_that_runs_keeps_its_own():
    clock = SystemClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())
    begun = []

    async def unknown(job, worker):
        if begun or not answers.pop(0):
            raise Unavailable("the database is away")
        return Pace(bytes_per_second=7.0)

    def runner(ctx, job):
        begun.append(ctx.pace)
        until = queue.rows[0].lease_until_ms
        while queue.rows[0].lease_until_ms == until:  # until a heartbeat came through
            clock.sleep(0.005)
        return nothing(f"{ctx.pace.bytes_per_second}")

    answers = [False, True]
    queue.pace = unknown
    await worker(queue, clock, runner, first_retry_ms=0).run_once()
    assert (begun, queue.rows[0].state, queue.rows[0].error) == ([], "queued", "the database is away")
    await worker(queue, clock, runner, lease_ms=4000).run_once()
    assert (queue.rows[0].state, queue.rows[0].report["reason"]) == ("succeeded", "7.0")


@pytest.mark.parametrize("how", ["cancelled", "lease lost"])
async def test_a_job_that_is_held_back_keeps_its_lease_and_ends_when_it_is_told(how):
    """At a byte a second it would wait for a year; it is told between two slices of that, and leaves no file."""
    clock = SystemClock()
    queue = FakeQueue(clock)
    store = MemoryObjectStore(clock)
    lake = Lake(store, clock=clock)
    for number in range(3):
        lake.append_rows({"id": number, "name": "x"})
    files = {info.path for info in store.list(f"{lake.metadata.location}/data")}
    await queue.enqueue(new(table_uuid=lake.metadata.uuid))
    queue.pace = always(Pace(bytes_per_second=1e-3))
    tiers = [{"belowBytes": 1 << 20, "targetBytes": 1 << 21}]
    document = {"status": "enabled", "settings": {"tiers": tiers, "minInputFiles": 2}}

    def surroundings(job):
        return FakeContext(
            catalog=lake.catalog,
            clock=clock,
            ids=lake.ids,
            store=store,
            documents={JobKind.COMPACTION: document},
            ident=IDENT,
        )

    beats = []
    honest = queue.heartbeat

    async def heartbeat(*args):
        beats.append(clock.monotonic())
        if len(beats) == 2:
            if how == "cancelled":
                queue.rows[0].cancel_requested = True
            else:
                queue.rows[0].token = "another claim"
        return await honest(*args)

    queue.heartbeat = heartbeat
    await Worker(queue, surroundings, clock, lake.ids, settings(lease_ms=4000), RUNNERS).run_once()
    assert len(beats) >= 2
    assert queue.rows[0].state == ("cancelled" if how == "cancelled" else "running")
    assert len(lake.tasks()) == 3
    assert {info.path for info in store.list(f"{lake.metadata.location}/data")} == files


def always(pace):
    async def answer(job, worker):
        return pace

    return answer


async def test_a_heartbeat_that_gets_no_answer_for_a_whole_lease_gives_the_lease_up():
    clock = SystemClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())

    async def away(job_id, token, lease_ms):
        raise Unavailable("the database is away")

    queue.heartbeat = away

    def runner(ctx, job):
        for _ in range(200):
            if not ctx.still_leased():
                return nothing("gave up")
            clock.sleep(0.01)
        return nothing("kept on")

    await worker(queue, clock, runner, lease_ms=200).run_once()
    assert queue.rows[0].report is None


async def test_stopping_lets_a_short_job_finish_and_claims_no_other():
    clock = SystemClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())
    await queue.enqueue(new(JobKind.SNAPSHOTS))
    stop = anyio.Event()
    started = threading.Event()

    def runner(ctx, job):
        started.set()
        clock.sleep(0.05)
        return nothing("finished")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker(queue, clock, runner, drain_seconds=5).run, stop)
        await anyio.to_thread.run_sync(started.wait)
        stop.set()
    assert [row.state for row in queue.rows] == ["succeeded", "queued"]


async def test_stopping_takes_the_lease_from_a_long_job_after_the_grace_and_queues_it_again():
    clock = SystemClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())
    stop = anyio.Event()
    started = threading.Event()

    def runner(ctx, job):
        started.set()
        while ctx.still_leased():
            clock.sleep(0.01)
        return nothing("cut short")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker(queue, clock, runner).run, stop)
        await anyio.to_thread.run_sync(started.wait)
        stop.set()
    assert (queue.rows[0].state, queue.rows[0].report) == ("queued", None)


async def test_a_queue_that_is_away_for_a_while_does_not_end_the_worker():
    clock = SystemClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())
    stop = anyio.Event()
    claim = queue.claim
    troubles = [ValueError("odd"), away("gone"), Unavailable("away")]

    async def shaky(*args, **rest):
        if troubles:
            raise troubles.pop()
        return await claim(*args, **rest)

    queue.claim = shaky

    def runner(ctx, job):
        return nothing("ran")

    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker(queue, clock, runner).run, stop)
            with anyio.fail_after(5):
                while queue.rows[0].state != "succeeded":
                    await anyio.sleep(0.01)
            stop.set()
    # What is away is told in one line at each try; what nobody expected with its traceback.
    told = [line for line in logs if line["event"] == "maintenance.claim_failed"]
    assert [(line["error"], line.get("cause"), "exc_info" in line) for line in told] == [
        ("away", None, False),
        ("gone", "OSError('refused')", False),
        ("odd", None, True),
    ]


def test_a_leased_context_passes_everything_through():
    clock = ManualClock()
    inner = FakeContext(catalog="catalog", clock=clock, ids="ids", store="store", others=["memory://x"])
    beside = DroppedNeighbour(metadata_location="memory://x/m", location="memory://x", purged=False)
    inner.neighbours = [beside]
    context = LeasedContext(inner)
    assert context.dropped_neighbours(["memory://x"]) == [beside]
    assert (context.catalog, context.clock, context.ids) == ("catalog", clock, "ids")
    assert (context.settings, context.unreferenced) == (inner.settings, inner.unreferenced)
    assert (context.store_for("memory://y"), context.other_table_locations()) == ("store", ["memory://x"])
    assert context.policy(JobKind.COMPACTION) == inner.policy(JobKind.COMPACTION)
    context.save_plan({"a": 1})
    assert inner.plans == [{"a": 1}]
    assert (context.still_leased(), context.stopped, context.told) == (True, None, None)
    context.stop(Stop.LOST)
    assert context.told is None  # until the job asks, it may come to its own end
    assert context.stopped == "the lease was lost, another worker takes over"
    assert (context.still_leased(), context.told) == (False, Stop.LOST)


async def test_a_running_job_that_is_cancelled_ends_at_its_next_question_and_says_how_far_it_came():
    clock = SystemClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())

    def runner(ctx, job):
        queue.rows[0].cancel_requested = True
        while ctx.stopped is None:
            clock.sleep(0.005)
        assert not ctx.still_leased()
        ctx.save_plan({"left": 3})  # for whoever tries it again
        return Report(
            outcome=Outcome.SKIPPED, reason=f"2 of 5: {ctx.stopped}", plan={"p": 1}, again_after_ms=0
        )

    await worker(queue, clock, runner).run_once()
    (row,) = queue.rows  # and no further run is asked for
    assert (row.state, row.plan) == ("cancelled", {"p": 1})
    assert row.report == {
        "outcome": "cancelled",
        "reason": "2 of 5: it was cancelled",
        "figures": {},
        "againAfterMs": None,
    }


async def test_a_job_learns_of_its_cancellation_from_the_database_before_it_deletes():
    clock = ManualClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())

    def surroundings(job):
        return FakeContext(catalog=None, clock=clock, ids=CountingIds(), store=None, cancelled=True)

    def runner(ctx, job):
        assert (ctx.stopped, ctx.still_leased(), ctx.stopped) == (None, False, "it was cancelled")
        raise Stopped

    runners = dict.fromkeys(JobKind, runner)
    await Worker(queue, surroundings, clock, CountingIds(), settings(), runners).run_once()
    assert queue.rows[0].state == "cancelled"
    assert queue.rows[0].report["reason"] == "cancelled before it was done; nothing is half-done"


async def test_a_cancelled_job_that_failed_while_it_ended_says_so():
    clock = ManualClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())

    def surroundings(job):
        return FakeContext(catalog=None, clock=clock, ids=CountingIds(), store=None, cancelled=True)

    def runner(ctx, job):
        ctx.still_leased()
        raise Unavailable("the store is away")

    runners = dict.fromkeys(JobKind, runner)
    await Worker(queue, surroundings, clock, CountingIds(), settings(), runners).run_once()
    assert (queue.rows[0].state, queue.rows[0].error) == ("cancelled", None)
    assert queue.rows[0].report["reason"] == "cancelled; it failed while it ended: the store is away"


async def test_a_job_that_comes_to_its_end_before_it_hears_of_its_cancellation_is_done_and_runs_no_further():
    clock = ManualClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())

    def runner(ctx, job):
        queue.rows[0].cancel_requested = True
        return Report(outcome=Outcome.DONE, reason="all of it", again_after_ms=0)

    await worker(queue, clock, runner).run_once()
    assert [(row.state, row.report["outcome"]) for row in queue.rows] == [("succeeded", "done")]


async def test_a_database_that_is_away_does_not_cancel():
    clock = SystemClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())
    asked = threading.Event()

    async def gone(job_id):
        asked.set()
        raise Unavailable("the database is away")

    queue.cancel_requested = gone

    def runner(ctx, job):
        assert asked.wait(5)
        return nothing(f"stopped: {ctx.stopped}")

    await worker(queue, clock, runner).run_once()
    assert queue.rows[0].report["reason"] == "stopped: None"


async def test_a_worker_that_stops_hands_the_job_back_and_the_attempt_does_not_count():
    clock = SystemClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new(max_attempts=1))
    stop = anyio.Event()
    started = threading.Event()
    reasons = []

    def runner(ctx, job):
        started.set()
        while ctx.still_leased():
            clock.sleep(0.01)
        reasons.append(ctx.stopped)
        return nothing("cut short")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker(queue, clock, runner).run, stop)
        await anyio.to_thread.run_sync(started.wait)
        stop.set()
    assert (queue.rows[0].state, queue.rows[0].attempts, queue.rows[0].error) == ("queued", 0, None)
    assert reasons == ["the worker stops, another attempt goes on"]


async def test_a_dry_run_does_not_wait_behind_a_long_job():
    clock = SystemClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new())
    await queue.enqueue(new(JobKind.SNAPSHOTS, dry_run=True))
    stop = anyio.Event()
    planned, may_end = threading.Event(), threading.Event()

    def runner(ctx, job):
        if job.dry_run:
            planned.set()
            return nothing("planned")
        assert planned.wait(5), "the dry run waits"
        may_end.set()
        return nothing("ran")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker(queue, clock, runner).run, stop)
        await anyio.to_thread.run_sync(may_end.wait)
        stop.set()
    assert [row.state for row in queue.rows] == ["succeeded", "succeeded"]


class Source:
    def __init__(self, *due):
        self.jobs = list(due)
        self.asked = []

    async def due(self, now_ms):
        self.asked.append(now_ms)
        return self.jobs


async def test_a_tick_requeues_stalled_jobs_and_enqueues_what_is_due_once():
    clock = ManualClock()
    queue = FakeQueue(clock)
    await queue.enqueue(new(JobKind.SNAPSHOTS))
    await queue.claim("dead", list(JobKind), 1000)
    clock.advance(2)
    scheduler = Scheduler(Source(new()), queue, clock, 60)
    assert await scheduler.tick() == 1
    assert await scheduler.tick() == 1
    assert [(row.new.kind, row.state) for row in queue.rows] == [
        (JobKind.SNAPSHOTS, "queued"),
        (JobKind.COMPACTION, "queued"),
    ]


async def test_a_tick_sweeps_away_what_has_expired():
    clock = ManualClock()
    swept = []

    async def sweep():
        swept.append("rows")

    scheduler = Scheduler(Source(), FakeQueue(clock), clock, 60, [sweep, sweep])
    assert await scheduler.tick() == 0
    assert swept == ["rows", "rows"]


async def test_the_scheduler_ticks_at_once_and_again_and_survives_a_bad_tick():
    clock = SystemClock()
    queue = FakeQueue(clock)
    source = Source(new())
    troubles = [away("gone")]
    due = source.due

    async def shaky(now_ms):
        found = await due(now_ms)
        if troubles:
            raise troubles.pop()
        return found

    source.due = shaky
    stop = anyio.Event()
    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Scheduler(source, queue, clock, 0.05).run, stop)
            with anyio.fail_after(5):
                while len(source.asked) < 3:
                    await anyio.sleep(0.01)
            stop.set()
    assert len(queue.rows) == 1
    assert [line for line in logs if line["event"] == "maintenance.tick_failed"] == [
        {
            "event": "maintenance.tick_failed",
            "log_level": "warning",
            "error": "gone",
            "cause": "OSError('refused')",
        }
    ]
