"""Writers against maintenance for an hour: `python -m tests.race`, RACE_SECONDS (3600) long.

A real `frazil serve` and two `frazil worker` on PostgreSQL; six writers on four tables write each second,
while every kind of maintenance runs at the pace of a day in an hour. Then all must be as the writers remember it, by
DuckDB, with nothing missing, nothing left over, and nothing left to do. Prints figures; exit code 1 if anything failed.
"""

import importlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import duckdb
import requests
from pyiceberg.catalog import load_catalog

from maintenance.ports import JobKind
from tests.postgres import running
from tests.process.servers import Server, frazil, run_frazil, serving
from tests.process.test_worker_killed import worker
from tests.race.writers import COLUMNS, NAMESPACE, Writer, appender, upserter

KEYS = 200
"""Of each upserter: each is written again every 20 seconds."""
POLICIES = {
    # An hour of these is a day of the defaults' intervals. The ages are longer than any write takes on a busy machine:
    # PyIceberg gives up when the snapshot that it began on has expired.
    "icebergCompaction": {"minInputFiles": 5, "triggerFileCount": 20, "intervalSeconds": 150},
    "icebergSnapshotManagement": {
        "minSnapshotsToKeep": 1,
        "maxSnapshotAgeSeconds": 300,
        "intervalSeconds": 150,
        "cleanExpiredMetadata": True,
    },
    "icebergUnreferencedFileRemoval": {
        "unreferencedSeconds": 300,
        "nonCurrentSeconds": 300,
        "intervalSeconds": 150,
    },
    "icebergManifests": {"minManifests": 5, "intervalSeconds": 150},
}
SETTINGS = {
    "FRAZIL_MAINTENANCE__ALLOW_UNSAFE": "true",
    "FRAZIL_MAINTENANCE__TICK_SECONDS": "5",
    "FRAZIL_MAINTENANCE__LEASE_SECONDS": "30",
    "FRAZIL_MAINTENANCE__POLL_SECONDS": "1",
}
TABLES = ("appended", "shared", "keyed", "versioned")
QUIET_SECONDS = 1800.0
"""How long maintenance may take to come to its end after the writers have stopped."""


@contextmanager
def site(directory: Path) -> Iterator[tuple[Server, dict[str, str]]]:
    """The database, the server and both workers; and their settings."""
    with ExitStack() as stack:
        postgres = stack.enter_context(running())
        settings = {
            **SETTINGS,
            "FRAZIL_DATABASE__URL": postgres.url(postgres.empty()),
            "FRAZIL_STORAGE__DEFAULT_BUCKET_LOCATION": (directory / "warehouse").as_uri(),
        }
        server = stack.enter_context(serving(directory, env=settings))
        for _ in range(2):
            stack.enter_context(worker(server, frazil(), **settings))
        yield server, settings


def prepared(server: Server) -> list[Writer]:
    """Policies and tables, and who writes to them."""
    for kind, settings in POLICIES.items():
        url = f"{server.api}/buckets/default/policies/{kind}"
        document = {"status": "enabled", "settings": settings}
        requests.put(url, json=document, timeout=30).raise_for_status()
    catalog = load_catalog("race", type="rest", uri=server.iceberg)
    catalog.create_namespace(NAMESPACE)
    for name in TABLES:
        # Nothing of a minute ago is asked for again; so many of PyIceberg's tries are its way to wait for a turn.
        properties = {"commit.retry.num-retries": "20", "format-version": "3" if name == "versioned" else "2"}
        catalog.create_table(f"{NAMESPACE}.{name}", COLUMNS, properties=properties)
    uri = server.iceberg
    return [
        appender(uri, "appended", 0),
        appender(uri, "shared", 0),
        appender(uri, "shared", 10_000_000),
        upserter(uri, "keyed", 0, KEYS),
        upserter(uri, "keyed", 10_000_000, KEYS),
        upserter(uri, "versioned", 0, KEYS),
    ]


def race(writers: list[Writer], seconds: float) -> None:
    """Let them all write for so long."""
    stop = threading.Event()
    threads = [threading.Thread(target=writer.run, args=(stop,)) for writer in writers]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()


def all_jobs(server: Server) -> list[dict[str, Any]]:
    """Every job there was."""
    found: list[dict[str, Any]] = []
    token = ""
    while True:
        query = {"pageSize": "500", **({"pageToken": token} if token else {})}
        page = requests.get(f"{server.api}/jobs", params=query, timeout=60).json()
        found += page["jobs"]
        token = page.get("nextPageToken") or ""
        if not token:
            return found


def plan(server: Server, table: str, kind: str) -> dict[str, Any]:
    """What that kind would do now."""
    url = f"{server.api}/buckets/default/namespaces/{NAMESPACE}/tables/{table}/maintenance/plan"
    answer = requests.post(url, json={"kind": kind}, timeout=120)
    if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:  # the workers had no time for it yet
        return {"outcome": "none yet", "reason": answer.text}
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def come_to_rest(server: Server) -> list[str]:
    """Wait until no kind has anything to do on any table; what still has when the time is over."""
    deadline = time.monotonic() + QUIET_SECONDS
    while True:
        left = []
        for table in TABLES:
            for kind in POLICIES:
                found = plan(server, table, kind)
                figures = found.get("figures") or {}
                waiting = sum(
                    figures.get(name, 0)
                    for name in ("filesMarked", "filesToDelete", "filesWaiting", "filesTooYoung")
                )
                if found["outcome"] != "nothing" and (kind != JobKind.UNREFERENCED or waiting):
                    left.append(f"{kind} on {table}: {found['outcome']}: {found.get('reason')}")
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(10)


def wrong_rows(server: Server, writers: list[Writer]) -> list[str]:
    """Tables whose content, read by DuckDB, is not what their writers remember."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("httpfs", "avro", "iceberg"):
        module = importlib.import_module(f"duckdb_extension_{name}")
        assert module.__file__ is not None
        folder = Path(module.__file__).parent / f"extensions/v{duckdb.__version__}"
        connection.execute(f"LOAD '{folder / name}.duckdb_extension'")
    connection.execute(
        f"ATTACH 'default' AS lake (TYPE ICEBERG, ENDPOINT '{server.iceberg}', AUTHORIZATION_TYPE 'none')"
    )
    found = []
    for table in TABLES:
        expected = Counter(
            row for writer in writers if writer.name.split()[0] == table for row in writer.rows.items()
        )
        actual = Counter(connection.execute(f"SELECT id, value FROM lake.{NAMESPACE}.{table}").fetchall())
        lost, more = expected - actual, actual - expected
        if lost or more:
            found.append(
                f"{table}: {lost.total()} rows lost, {more.total()} too many: {[*lost][:3]} {[*more][:3]}"
            )
    connection.close()
    return found


def left_over(server: Server) -> list[str]:
    """Files at the tables' places that no snapshot and no metadata file needs, as PyIceberg reads them."""
    catalog = load_catalog("race", type="rest", uri=server.iceberg)
    found = []
    for name in TABLES:
        table = catalog.load_table(f"{NAMESPACE}.{name}")
        needed = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
        for snapshot in table.metadata.snapshots:
            needed.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                needed.add(manifest.manifest_path)
                needed |= {e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io)}
        there = {
            path.as_uri()
            for path in Path(table.location().removeprefix("file://")).rglob("*")
            if path.is_file()
        }
        found += sorted(there - needed)
    return found


def report(server: Server, writers: list[Writer], seconds: float) -> list[str]:
    """Print the figures; what went wrong."""
    problems = [f"{writer.name}: {failure}" for writer in writers for failure in writer.failures]
    for writer in writers:
        times = sorted(writer.seconds)
        print(
            f"{writer.name}: {writer.writes} writes, {len(writer.failures)} failures, median "
            f"{statistics.median(times):.2f} s, p99 {times[int(len(times) * 0.99)]:.2f} s, longest {times[-1]:.2f} s"
        )
    jobs = all_jobs(server)
    outcomes = Counter(
        (job["kind"], job["state"], (job.get("report") or {}).get("outcome"))
        for job in jobs
        if not job["dryRun"]
    )
    for (kind, state, outcome), number in sorted(outcomes.items(), key=str):
        print(f"{kind}: {number} {state}, {outcome}")
    compacted = sum((job.get("report") or {}).get("figures", {}).get("filesRewritten", 0) for job in jobs)
    print(
        f"{compacted} files rewritten while {sum(writer.writes for writer in writers)} commits came in {seconds:.0f} s"
    )
    problems += [
        f"job {job['id']} ({job['kind']}) failed: {job['error']}" for job in jobs if job["state"] == "failed"
    ]
    return problems


def main() -> int:
    """Run the race; 1 when something went wrong."""
    seconds = float(os.environ.get("RACE_SECONDS", "3600"))
    with tempfile.TemporaryDirectory() as directory, site(Path(directory)) as (server, settings):
        writers = prepared(server)
        race(writers, seconds)
        began = time.monotonic()
        unfinished = come_to_rest(server)
        print(f"at rest {time.monotonic() - began:.0f} s after the last write")
        problems = report(server, writers, seconds)
        problems += [f"not at rest: {one}" for one in unfinished]
        problems += wrong_rows(server, writers)
        problems += [f"left over: {path}" for path in left_over(server)]
        checked = run_frazil("verify", "--deep", env=settings, timeout=600)
        print(checked.stdout.strip())
        if checked.returncode:
            problems.append(f"frazil verify: {checked.stderr.strip()}")
    for problem in problems[:50]:
        print(f"FAILED {problem}")
    print(json.dumps({"seconds": seconds, "problems": len(problems)}))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
