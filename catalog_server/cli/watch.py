"""Watching jobs until they end: a live table in a terminal, a line per change elsewhere, JSON lines with `--json`.

Decides nothing about the jobs, and says nothing about how they ended but what they say.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

import orjson
from rich.console import Console
from rich.live import Live
from rich.table import Table

from catalog_server.cli.client import ManagementClient, shown_name
from catalog_server.cli.output import Failed, console, duration, moment, print_line
from table_format.clock import SystemClock
from table_format.jsontypes import JsonObject

OPEN_STATES: Final = ("queued", "running")
POLL_SECONDS: Final = 0.3
_HINT_AFTER_SECONDS: Final = 15.0
_NO_WORKER: Final = "is a maintenance worker running? `frazil worker` starts one"

Look: TypeAlias = Callable[[], Sequence[JsonObject]]
_Show: TypeAlias = Callable[[Sequence[JsonObject], int], None]

COLUMNS: Final = ("id", "kind", "table", "state", "time", "outcome")


def until_ended(look: Look, *, timeout: float, live: bool, as_json: bool = False) -> Sequence[JsonObject]:
    """The jobs that `look` gives, when none of them is queued or running any more.

    `live` shows them meanwhile; without it only a terminal is told, on standard error, that there is something to wait
    for.

    Raises:
        Failed: they did not end in time (seconds).
    """
    clock = SystemClock()
    started = clock.monotonic()
    with _screen(live=live, as_json=as_json) as show:
        while True:
            jobs = look()
            show(jobs, clock.now_ms())
            still = [job for job in jobs if job["state"] in OPEN_STATES]
            if not still:
                return jobs
            waited = clock.monotonic() - started
            if not waited <= timeout:  # not a number ends it as well
                job = still[0]
                hint = f" ({_NO_WORKER})" if job["state"] == "queued" else ""
                raise Failed(
                    f"job {job['id']} is still {job['state']} after {timeout:.0f} s{hint}; it goes on by itself"
                )
            clock.sleep(POLL_SECONDS)


def one(client: ManagementClient, job_id: int) -> Look:
    """A look at one job."""
    return lambda: [client.get(f"/jobs/{job_id}")]


def check(jobs: Sequence[JsonObject]) -> None:
    """Let the command fail when a job did.

    Raises:
        Failed: a job failed, or was cancelled.
    """
    for job in jobs:
        if job["state"] == "failed":
            raise Failed(f"job {job['id']} failed: {job['error']}")
        if job["state"] == "cancelled":
            raise Failed(
                f"job {job['id']} was cancelled; `frazil maintenance retry {job['id']}` runs it again"
            )


def row(job: JsonObject, now_ms: int) -> list[object]:
    """A job as a row of `COLUMNS`."""
    return [job["id"], kind(job), table_of(job), state(job), _time(job, now_ms), outcome(job)]


def kind(job: JsonObject) -> str:
    """Its kind, and whether it was a plan only, which changed nothing."""
    return f"{job['kind']} (plan)" if job["dryRun"] else str(job["kind"])


def table_of(job: JsonObject) -> str:
    """The table's name as commands take it."""
    return shown_name(job["namespace"], job["table"])


def state(job: JsonObject) -> str:
    """Its state, and whether it is asked to end."""
    asked = job["state"] == "running" and job["cancelRequestedAtMs"] is not None
    return "running (to be cancelled)" if asked else str(job["state"])


def outcome(job: JsonObject) -> str:
    """What it did, or why it did nothing, or what went wrong."""
    if job["error"]:
        return str(job["error"])
    report = job["report"] or {}
    reason = report.get("reason")
    return f"{report.get('outcome', '')}: {reason}" if reason else str(report.get("outcome", ""))


def _time(job: JsonObject, now_ms: int) -> str:
    """How long it ran, runs, or waits."""
    if job["state"] == "queued":
        late = max(job["createdAtMs"], job["runAfterMs"])
        return f"in {duration(late - now_ms)}" if late > now_ms else f"waits {duration(now_ms - late)}"
    started, finished = job["startedAtMs"], job["finishedAtMs"]
    if started is None:
        return ""
    return duration((now_ms if finished is None else finished) - started)


@contextmanager
def _screen(*, live: bool, as_json: bool) -> Iterator[_Show]:
    if live and not as_json and sys.stdout.isatty():
        with Live(console=console(), refresh_per_second=4, transient=True) as shown:
            yield lambda jobs, now_ms: shown.update(_table(jobs, now_ms))
    elif live:
        yield _Lines(as_json=as_json).show
    else:
        with Console(file=sys.stderr).status("waiting") as status:
            yield lambda jobs, now_ms: status.update(_waiting(jobs, now_ms))


def _waiting(jobs: Sequence[JsonObject], now_ms: int) -> str:
    job = next((one for one in jobs if one["state"] in OPEN_STATES), None)
    if job is None:
        return "done"
    waits = now_ms - max(job["createdAtMs"], job["runAfterMs"])
    hint = f" ({_NO_WORKER})" if job["state"] == "queued" and waits > _HINT_AFTER_SECONDS * 1000 else ""
    return f"{job['kind']}: {state(job)}, {_time(job, now_ms)}{hint}"


def _table(jobs: Sequence[JsonObject], now_ms: int) -> Table:
    table = Table(header_style="bold")
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for job in jobs:
        table.add_row(*(str(cell) for cell in row(job, now_ms)))
    return table


class _Lines:
    """A line for each change of a job."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._told: dict[int, str] = {}

    def show(self, jobs: Sequence[JsonObject], now_ms: int) -> None:
        """Print what changed since the last look, the oldest job first."""
        for job in sorted(jobs, key=lambda job: int(job["id"])):
            now = f"{state(job)} {job['attempts']}"
            if self._told.get(job["id"]) == now:
                continue
            self._told[job["id"]] = now
            if self._as_json:
                print_line(orjson.dumps(job).decode())
            else:
                told = outcome(job)
                print_line(
                    f"{moment(now_ms)} job {job['id']} {kind(job)} {table_of(job)}: {state(job)}"
                    + (f", {told}" if told else "")
                )
