"""`frazil maintenance`: plan and ask for runs, watch, cancel and repeat them; how maintenance stands on a table."""

import re
from datetime import UTC, datetime
from typing import Annotated

import typer

from catalog_server.cli import noncurrent, plans, watch
from catalog_server.cli.client import (
    DEFAULT_URL,
    NAMESPACES,
    TABLE_HELP,
    TABLES,
    Bucket,
    Json,
    ManagementClient,
    QueryValue,
    Url,
    namespace_text,
    parse_namespace,
    parse_table,
    shown_name,
    table_path,
)
from catalog_server.cli.output import (
    Failed,
    duration,
    moment,
    print_json,
    print_line,
    print_record,
    print_table,
    size,
)
from catalog_server.cli.policies import KIND_HELP, kinds, policy_type, short_kind
from table_format.clock import SystemClock
from table_format.jsontypes import JsonObject

maintenance = typer.Typer(
    no_args_is_help=True,
    help="Table maintenance runs by itself as the policies say; these commands plan, force and show runs.",
)
noncurrent.add_to(maintenance)
_STATES = ("queued", "running", "done", "failed", "cancelled")
_ORIGINS = ("api", "commit", "maintenance", "drop", "plan")
_AGE = re.compile(r"(\d{1,9})([smhdw])")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _origins(incomplete: str) -> list[str]:
    return [name for name in _ORIGINS if name.startswith(incomplete)]


def _states(incomplete: str) -> list[str]:
    return [name for name in _STATES if name.startswith(incomplete)]


Kind = Annotated[str, typer.Argument(help=KIND_HELP, autocompletion=kinds)]
OfTable = Annotated[str, typer.Argument(help=TABLE_HELP, autocompletion=TABLES)]
JobNumber = Annotated[int, typer.Argument(metavar="JOB", min=1, help="A job's id.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait for the end.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end of the run.")]
Every = Annotated[
    bool, typer.Option("--all", help="Every group and file of the plan, not only the first ten.")
]
Watch = Annotated[
    bool, typer.Option("--watch", help="Show it until it ends: a live table, or a line per change.")
]


@maintenance.command("plan")
def plan(
    *,
    kind: Kind,
    table: OfTable,
    every: Every = False,
    timeout: Timeout = 600.0,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Print what a run would do now, with files and bytes. Changes nothing and leaves no job."""
    client = ManagementClient(url)
    path = f"{table_path(bucket, parse_table(table))}/maintenance/plan"
    answer = client.send("POST", path, body={"kind": policy_type(kind)}).document
    if answer["outcome"] == "pending":
        watch.until_ended(watch.one(client, answer["job"]), timeout=timeout, live=False)
        answer = _as_plan(client.get(f"/jobs/{answer['job']}"))
    if as_json:
        print_json(answer)
    else:
        print_line(f"{answer['kind']} on {table}: {answer['outcome']}: {answer['reason']}")
        _print_figures(answer["figures"])
        if answer["plan"]:
            plans.print_plan(answer["plan"], every=every)
    if answer["outcome"] == "failed":
        raise Failed(f"no plan can be made: {answer['reason']}")


@maintenance.command("run")
def run(  # noqa: PLR0913 - each is one option of the command
    *,
    kind: Kind,
    table: OfTable,
    wait: Wait = True,
    watched: Watch = False,
    timeout: Timeout = 3600.0,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Run one kind of maintenance on a table now."""
    client = ManagementClient(url)
    path = f"{table_path(bucket, parse_table(table))}/jobs"
    job = client.send("POST", path, body={"kind": policy_type(kind), "dryRun": False}).document
    _follow(client, job, wait=wait, watched=watched, timeout=timeout, as_json=as_json)


@maintenance.command("jobs")
def jobs(  # noqa: PLR0913 - each is one option of the command
    *,
    table: Annotated[
        str | None, typer.Option("--table", help="Only jobs of this table.", autocompletion=TABLES)
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", help="Only of this namespace.", autocompletion=NAMESPACES)
    ] = None,
    kind: Annotated[str | None, typer.Option("--kind", help=KIND_HELP, autocompletion=kinds)] = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", help=f"{', '.join(_STATES)}; may be repeated.", autocompletion=_states),
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--origin",
            help=f"Who asked: {', '.join(_ORIGINS)} (maintenance is the clock; plan is `maintenance plan`, whose "
            "jobs are soon forgotten and not listed otherwise).",
            autocompletion=_origins,
        ),
    ] = None,
    dry_run: Annotated[
        bool | None,
        typer.Option("--dry-run/--no-dry-run", help="Only runs that plan, or only runs that change things."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Made since: an age (90m, 24h, 7d) or a time (2026-01-31).")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Made before: an age or a time.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Show at most so many.")] = 20,
    all_buckets: Annotated[bool, typer.Option("--all-buckets", help="Of every bucket.")] = False,
    watched: Watch = False,
    timeout: Timeout = 3600.0,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List maintenance jobs, newest first; with --watch until none of those listed is open."""
    now_ms = SystemClock().now_ms()
    query: dict[str, QueryValue] = {
        "bucket": None if all_buckets else bucket,
        **_within(namespace, table),
        "kind": None if kind is None else policy_type(kind),
        "state": state or None,
        "origin": origin,
        "dryRun": None if dry_run is None else str(dry_run).lower(),
        "sinceMs": None if since is None else str(_moment(since, now_ms)),
        "untilMs": None if until is None else str(_moment(until, now_ms)),
        "pageSize": str(limit),
    }
    client = ManagementClient(url)
    found: list[JsonObject] = client.get("/jobs", query)["jobs"]
    if watched:
        numbers = [job["id"] for job in found]
        look = _looks(client, found)
        ended = watch.until_ended(look, timeout=timeout, live=True, as_json=as_json)
        by_id = {job["id"]: job for job in ended}
        found = [by_id[number] for number in numbers]
    if as_json and not watched:
        print_json(found)
    elif not as_json:
        now_ms = SystemClock().now_ms()
        print_table("Jobs", watch.COLUMNS, [watch.row(job, now_ms) for job in found])
    if watched:
        watch.check([job for job in found if job["state"] == "failed"])


@maintenance.command("show")
def show(
    *,
    job: JobNumber,
    with_plan: Annotated[bool, typer.Option("--plan", help="Print its plan as well.")] = False,
    every: Every = False,
    watched: Watch = False,
    timeout: Timeout = 3600.0,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show one job: what it did or why it did nothing, its attempts, and the next run of its kind."""
    client = ManagementClient(url)
    look = watch.one(client, job)
    found = watch.until_ended(look, timeout=timeout, live=True, as_json=as_json) if watched else look()
    if as_json and not watched:
        print_json(found[0])
    elif not as_json:
        _print_job(found[0], with_plan=with_plan or every, every=every)
    if watched:
        watch.check(found)


@maintenance.command("cancel")
def cancel(
    job: JobNumber,
    wait: Wait = True,
    timeout: Timeout = 600.0,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Cancel a job: at once while it waits, at its next safe step while it runs. Nothing is left half-done."""
    client = ManagementClient(url)
    found = client.send("POST", f"/jobs/{job}/cancel").document
    if wait:
        (found,) = watch.until_ended(watch.one(client, job), timeout=timeout, live=False)
    if as_json:
        print_json(found)
        return
    told = watch.outcome(found)
    print_line(f"job {job} is {watch.state(found)}" + (f" ({told})" if told else ""))


@maintenance.command("retry")
def retry(
    *,
    job: JobNumber,
    wait: Wait = True,
    watched: Watch = False,
    timeout: Timeout = 3600.0,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Run a failed or cancelled job again, with fresh attempts."""
    client = ManagementClient(url)
    queued = client.send("POST", f"/jobs/{job}/retry").document
    _follow(client, queued, wait=wait, watched=watched, timeout=timeout, as_json=as_json)


@maintenance.command("status")
def status(table: OfTable, bucket: Bucket = "default", url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show how each kind of maintenance stands on a table: its last run, its next one, and why then."""
    found = ManagementClient(url).get(f"{table_path(bucket, parse_table(table))}/maintenance")
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = []
    for kind in found["kinds"]:
        upcoming = kind["nextRun"]
        result = kind["result"] if kind["enabled"] else f"{kind['result']}, disabled"
        told = f"{result}: {kind['reason']}" if kind["reason"] else result
        # Two rows, so that the texts have room on a terminal of 80 columns.
        rows.append(
            [short_kind(kind["kind"]), "last", moment((kind["lastRun"] or {}).get("finishedAtMs")), told]
        )
        rows.append(["", "next", moment(upcoming["atMs"]) or upcoming["why"], upcoming["reason"]])
    print_table(f"Maintenance of {table}", ["kind", "run", "when", "what, or why then"], rows)
    if found["behind"]:
        print_line(f"compaction falls behind: {found['behind']['reason']}")


def _within(namespace: str | None, table: str | None) -> dict[str, QueryValue]:
    """The part of a query that names a namespace or a table."""
    if table is not None and namespace is not None:
        raise typer.BadParameter("give --table or --namespace, not both (a table is named NAMESPACE.NAME)")
    if table is not None:
        ident = parse_table(table)
        return {"namespace": namespace_text(ident.namespace), "table": ident.name}
    return {} if namespace is None else {"namespace": namespace_text(parse_namespace(namespace))}


def _follow(
    client: ManagementClient, job: JsonObject, *, wait: bool, watched: bool, timeout: float, as_json: bool
) -> None:
    """Wait for a job that was just queued, and print how it ended."""
    if not (wait or watched):
        if as_json:
            print_json(job)
        else:
            print_line(f"job {job['id']} is {job['state']}; see `frazil maintenance show {job['id']}`")
        return
    look = watch.one(client, job["id"])
    (ended,) = watch.until_ended(look, timeout=timeout, live=watched, as_json=as_json)
    if as_json and not watched:
        print_json(ended)
    elif not as_json:
        print_line(f"{watch.kind(ended)} on {watch.table_of(ended)}: {watch.outcome(ended)}")
        _print_figures((ended["report"] or {}).get("figures") or {})
    watch.check([ended])


def _looks(client: ManagementClient, found: list[JsonObject]) -> watch.Look:
    """Looks at the jobs found, of which only open ones are asked for again."""
    known = {job["id"]: job for job in found}

    def look() -> list[JsonObject]:
        for number, job in known.items():
            if job["state"] in watch.OPEN_STATES:
                known[number] = client.get(f"/jobs/{number}")
        return list(known.values())

    return look


def _as_plan(job: JsonObject) -> JsonObject:
    """The answer that the server would have given, had the plan been made in time."""
    report = job["report"] or {}
    return {
        "job": job["id"],
        "kind": job["kind"],
        "outcome": report.get("outcome", "failed"),
        "reason": job["error"] or report.get("reason", ""),
        "figures": report.get("figures", {}),
        "plan": job["plan"],
    }


def _moment(text: str, now_ms: int) -> int:
    """Milliseconds since 1970 of an age before now, or of a time (UTC unless it says otherwise)."""
    if (age := _AGE.fullmatch(text)) is not None:
        return max(now_ms - int(age[1]) * _UNIT_SECONDS[age[2]] * 1000, 0)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither an age (90m, 24h, 7d) nor a time (2026-01-31 or 2026-01-31T12:00:00Z)"
        ) from None
    moment_of = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
    return max(int(moment_of.timestamp() * 1000), 0)


def _print_job(job: JsonObject, *, with_plan: bool, every: bool) -> None:
    lease, upcoming = job["lease"] or {}, job["nextRun"] or {}
    took = job["startedAtMs"] is not None and job["finishedAtMs"] is not None
    next_at = moment(upcoming.get("atMs")) or upcoming.get("why")
    print_record(
        f"Job {job['id']}",
        [
            ("kind", watch.kind(job)),
            ("bucket", job["bucket"]),
            ("table", shown_name(job["namespace"], job["table"]) or None),
            ("state", watch.state(job)),
            ("outcome", watch.outcome(job) or None),
            ("asked for by", job["origin"]),
            ("attempts", f"{job['attempts']} of {job['maxAttempts']}"),
            ("made", moment(job["createdAtMs"])),
            ("not before", moment(job["runAfterMs"]) if job["runAfterMs"] else None),
            ("started", moment(job["startedAtMs"]) or None),
            ("finished", moment(job["finishedAtMs"]) or None),
            ("took", duration(job["finishedAtMs"] - job["startedAtMs"]) if took else None),
            ("worker", lease.get("worker")),
            ("lease until", moment(lease.get("untilMs")) or None),
            ("next run", next_at),
            ("why then", upcoming.get("reason")),
        ],
    )
    _print_figures((job["report"] or {}).get("figures") or {})
    failures = [[one["attempt"], moment(one["atMs"]), one["worker"], one["error"]] for one in job["failures"]]
    if failures:
        print_table("Attempts that failed", ["attempt", "at", "worker", "error"], failures)
    if with_plan and job["plan"]:
        plans.print_plan(job["plan"], every=every)


def _print_figures(figures: JsonObject) -> None:
    rows = [[_words(name), _figure(name, value)] for name, value in figures.items() if value != []]
    if rows:
        print_table("Figures", ["what", "value"], rows)


def _words(name: str) -> str:
    """A figure's name in words: `bytesToRewrite` is `bytes to rewrite`."""
    return re.sub(r"[A-Z]", lambda letter: f" {letter[0].lower()}", name)


def _figure(name: str, value: object) -> object:
    if isinstance(value, list):
        return ", ".join(str(entry) for entry in value)
    is_size = "bytes" in name.lower() or name.endswith("Size")
    return size(value) if is_size and isinstance(value, int) else value
