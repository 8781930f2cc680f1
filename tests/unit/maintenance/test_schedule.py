"""When a kind runs next, and why then."""

from dataclasses import replace

import pytest

from maintenance.policies import COMPACTION, SNAPSHOTS, effective
from maintenance.schedule import NextRun, OpenRun, Past, Why, due_at, next_run

HOURLY = effective(SNAPSHOTS, [{"settings": {"intervalSeconds": 3600}}], {})
COMPACTING = effective(COMPACTION, [{"settings": {"intervalSeconds": 60}}], {})
OFF = effective(SNAPSHOTS, [{"status": "disabled"}], {})
NEVER_RAN = Past(born_ms=1_000, ended_ms=None, open=None)
RUN = OpenRun(job_id=7, running=False, run_after_ms=0, attempts=0, max_attempts=5, error=None)


def test_the_first_run_is_an_interval_after_birth_and_each_other_after_the_last_end():
    first = next_run(HOURLY, NEVER_RAN, 2_000)
    assert first == NextRun(at_ms=3_601_000, why=Why.INTERVAL, reason="3600 s after the table was made")
    later = next_run(HOURLY, replace(NEVER_RAN, ended_ms=10_000_000), 10_000_001)
    assert (later.at_ms, later.reason) == (13_600_000, "3600 s after the last run")


def test_what_is_overdue_is_due_now_and_never_in_the_past():
    late = next_run(HOURLY, NEVER_RAN, 9_000_000)
    assert (late.at_ms, late.why) == (9_000_000, Why.INTERVAL)
    assert late.reason == "due now: 3600 s after the table was made"


def test_compaction_may_come_sooner():
    assert next_run(COMPACTING, NEVER_RAN, 2_000).reason.endswith(", or when a commit asks for it")


def test_a_disabled_kind_says_why_it_never_runs():
    told = next_run(OFF, NEVER_RAN, 2_000)
    assert (told.at_ms, told.why) == (None, Why.DISABLED)
    assert told.reason == OFF.disabled_reason


@pytest.mark.parametrize(
    ("run", "at_ms", "why", "reason"),
    [
        (replace(RUN, running=True), None, Why.RUNNING, "job 7 runs now; the next 3600 s after its end"),
        (RUN, 5_000, Why.QUEUED, "job 7 waits for a worker"),
        (replace(RUN, run_after_ms=4_000), 5_000, Why.QUEUED, "job 7 waits for a worker"),
        (replace(RUN, run_after_ms=9_000), 9_000, Why.POSTPONED, "job 7 waits for its time"),
        (
            replace(RUN, run_after_ms=9_000, attempts=2, error="the store is away"),
            9_000,
            Why.BACK_OFF,
            "attempt 2 of 5 of job 7 failed (the store is away): tried again",
        ),
    ],
    ids=["running", "queued", "due", "postponed", "back-off"],
)
def test_a_job_that_is_there_already_decides(run, at_ms, why, reason):
    told = next_run(HOURLY, replace(NEVER_RAN, open=run), 5_000)
    assert told == NextRun(at_ms=at_ms, why=why, reason=reason)


def test_the_clock_and_the_words_agree():
    for policy in (HOURLY, COMPACTING, OFF):
        for now_ms in (1_000, 61_000, 4_000_000):
            decided = due_at(policy, NEVER_RAN.born_ms, now_ms)
            told = next_run(policy, NEVER_RAN, now_ms).at_ms
            assert told == (None if decided is None else max(decided, now_ms))
