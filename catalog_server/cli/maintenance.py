"""`frazil maintenance`: ask for runs, watch them, look at what ran."""

import sys
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.status import Status

from catalog_server.cli.client import (
    DEFAULT_URL,
    TABLE_HELP,
    Bucket,
    Json,
    ManagementClient,
    Url,
    namespace_text,
    parse_table,
    shown_name,
    table_path,
)
from catalog_server.cli.output import Failed, console, print_json, print_line, print_table
from catalog_server.cli.policies import KIND_HELP, policy_type
from table_format.clock import Clock, SystemClock
from table_format.jsontypes import JsonObject

maintenance = typer.Typer(
    no_args_is_help=True,
    help="Table maintenance runs by itself as the policies say; these commands plan, force and show runs.",
)
_POLL_SECONDS = 0.2
_HINT_AFTER_SECONDS = 15.0
_OPEN_STATES = ("queued", "running")

Kind = Annotated[str, typer.Argument(help=KIND_HELP)]
OfTable = Annotated[str, typer.Argument(help=TABLE_HELP)]
Wait = Annotated[float, typer.Option("--timeout", help="Seconds to wait for the run to end.")]


@maintenance.command("plan")
def plan(
    kind: Kind,
    table: OfTable,
    timeout: Wait = 600.0,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Print what a run would do now. Changes nothing."""
    client = ManagementClient(url)
    job = _finished(client, _request(client, bucket, table, kind, dry_run=True), timeout)
    if as_json:
        print_json(job)
        return
    if not job["plan"]:
        _print_report(job)
        return
    # The report of a dry run says the same again in figures.
    _print_outcome(job)
    console().print_json(orjson.dumps(job["plan"]).decode())


@maintenance.command("run")
def run(
    kind: Kind,
    table: OfTable,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end of the run.")] = True,
    timeout: Wait = 3600.0,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Run one kind of maintenance on a table now."""
    client = ManagementClient(url)
    job = _request(client, bucket, table, kind, dry_run=False)
    if wait:
        job = _finished(client, job, timeout)
    if as_json:
        print_json(job)
    elif wait:
        _print_report(job)
    else:
        print_line(f"job {job['id']} is {job['state']}; see `frazil maintenance jobs`")


@maintenance.command("jobs")
def jobs(
    table: Annotated[str | None, typer.Option("--table", help="Only jobs of this table.")] = None,
    kind: Annotated[str | None, typer.Option("--kind", help=KIND_HELP)] = None,
    state: Annotated[str | None, typer.Option("--state", help="queued, running, done or failed.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Show at most so many.")] = 20,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List maintenance jobs, newest first."""
    ident = None if table is None else parse_table(table)
    query = {
        "bucket": bucket,
        "namespace": None if ident is None else namespace_text(ident.namespace),
        "table": None if ident is None else ident.name,
        "kind": None if kind is None else policy_type(kind),
        "state": state,
        "pageSize": str(limit),
    }
    found = ManagementClient(url).get("/jobs", query)["jobs"]
    if as_json:
        print_json(found)
        return
    rows = [
        [job["id"], _kind(job), shown_name(job["namespace"], job["table"]), job["state"], _outcome(job)]
        for job in found
    ]
    print_table("Jobs", ["id", "kind", "table", "state", "outcome"], rows)


def _kind(job: JsonObject) -> str:
    """Its kind, and whether it was a plan only, which changed nothing."""
    return f"{job['kind']} (plan)" if job["dryRun"] else str(job["kind"])


def _request(client: ManagementClient, bucket: str, table: str, kind: str, *, dry_run: bool) -> JsonObject:
    path = f"{table_path(bucket, parse_table(table))}/jobs"
    return client.send("POST", path, body={"kind": policy_type(kind), "dryRun": dry_run}).document


def _finished(client: ManagementClient, job: JsonObject, timeout: float) -> JsonObject:
    """The job when it has ended.

    Raises:
        Failed: it failed, or did not end in time.
    """
    clock = SystemClock()
    with Console(file=sys.stderr).status("queued") as status:
        job = _watched(client, job, clock, status, timeout)
    if job["state"] == "failed":
        raise Failed(f"job {job['id']} failed: {job['error']}")
    return job


def _watched(
    client: ManagementClient, job: JsonObject, clock: Clock, status: Status, timeout: float
) -> JsonObject:
    started = clock.monotonic()
    while job["state"] in _OPEN_STATES:
        waited = clock.monotonic() - started
        if not waited <= timeout:  # not a number ends it as well
            raise Failed(
                f"job {job['id']} is still {job['state']} after {timeout:.0f} s; it goes on by itself"
            )
        hint = ""
        if job["state"] == "queued" and waited > _HINT_AFTER_SECONDS:
            hint = " (is a maintenance worker running? `frazil worker` starts one)"
        status.update(f"{job['kind']}: {job['state']} for {waited:.0f} s{hint}")
        clock.sleep(_POLL_SECONDS)
        job = client.get(f"/jobs/{job['id']}")
    return job


def _print_outcome(job: JsonObject) -> None:
    print_line(f"{job['kind']} on {shown_name(job['namespace'], job['table'])}: {_outcome(job)}")


def _print_report(job: JsonObject) -> None:
    report = job["report"] or {}
    _print_outcome(job)
    figures = report.get("figures") or {}
    if figures:
        print_table("Figures", ["what", "value"], [[name, _figure(value)] for name, value in figures.items()])


def _figure(value: object) -> object:
    return ", ".join(str(entry) for entry in value) if isinstance(value, list) else value


def _outcome(job: JsonObject) -> str:
    if job["error"]:
        return str(job["error"])
    report = job["report"] or {}
    reason = report.get("reason")
    return f"{report.get('outcome', '')}: {reason}" if reason else str(report.get("outcome", ""))
