"""Watching jobs: a line per change, an end with the last of them, and an error when one failed."""

import json
from typing import Any

import pytest

from catalog_server.cli import watch
from catalog_server.cli.output import Failed

JOB: dict[str, Any] = {
    "id": 1,
    "kind": "icebergCompaction",
    "state": "queued",
    "namespace": ["db"],
    "table": "t",
    "dryRun": False,
    "attempts": 0,
    "createdAtMs": 0,
    "runAfterMs": 0,
    "startedAtMs": None,
    "finishedAtMs": None,
    "cancelRequestedAtMs": None,
    "report": None,
    "error": None,
}
RUNNING = {**JOB, "state": "running", "attempts": 1, "startedAtMs": 1_000}
DONE = {
    **RUNNING,
    "state": "done",
    "finishedAtMs": 3_500,
    "report": {"outcome": "nothing", "reason": "all is well"},
}


def looks(*jobs: dict[str, Any]) -> watch.Look:
    left = list(jobs)
    return lambda: [left.pop(0) if len(left) > 1 else left[0]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.0)


def test_a_line_per_change_until_the_job_ends(capsys: pytest.CaptureFixture[str]) -> None:
    (ended,) = watch.until_ended(looks(JOB, JOB, RUNNING, RUNNING, DONE), timeout=60, live=True)
    assert ended == DONE
    told = [line.partition("Z ")[2] for line in capsys.readouterr().out.splitlines()]
    assert told == [
        "job 1 icebergCompaction db.t: queued",
        "job 1 icebergCompaction db.t: running",
        "job 1 icebergCompaction db.t: done, nothing: all is well",
    ]


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    watch.until_ended(looks(JOB, RUNNING, DONE), timeout=60, live=True, as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["state"] for line in lines] == ["queued", "running", "done"]


def test_waiting_without_watching_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    watch.until_ended(looks(JOB, DONE), timeout=60, live=False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("timeout", [0.0, float("nan")])
def test_what_does_not_end_in_time_is_an_error_that_says_what_may_be_wrong(timeout: float) -> None:
    with pytest.raises(Failed, match=r"job 1 is still queued after .* s \(is a maintenance worker running"):
        watch.until_ended(looks(JOB), timeout=timeout, live=True)


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        ({**DONE, "state": "failed", "error": "the store is away"}, "job 1 failed: the store is away"),
        ({**DONE, "state": "cancelled"}, "job 1 was cancelled; `frazil maintenance retry 1` runs it again"),
    ],
)
def test_a_job_that_did_not_succeed_is_an_error(ended: dict[str, Any], told: str) -> None:
    watch.check([DONE])
    with pytest.raises(Failed) as caught:
        watch.check([DONE, ended])
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("job", "now_ms", "shown"),
    [
        (JOB, 2_000, "waits 2.0 s"),
        ({**JOB, "runAfterMs": 9_000}, 2_000, "in 7.0 s"),
        (RUNNING, 61_000, "1 min 0 s"),
        (DONE, 99_000, "2.5 s"),
        ({**JOB, "state": "cancelled", "finishedAtMs": 5}, 9, ""),
    ],
)
def test_the_time_of_a_job(job: dict[str, Any], now_ms: int, shown: str) -> None:
    assert watch.row(job, now_ms)[4] == shown


def test_a_job_that_is_to_end_is_told_as_such() -> None:
    asked = {**RUNNING, "cancelRequestedAtMs": 5}
    assert (watch.state(asked), watch.state(RUNNING)) == ("running (to be cancelled)", "running")
    assert watch.kind({**JOB, "dryRun": True}) == "icebergCompaction (plan)"
