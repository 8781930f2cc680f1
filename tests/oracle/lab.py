"""A server in this process that other engines reach over HTTP, and its jobs, each run at once with its own settings.

The clock can be moved for the removal of unreferenced files alone, which commits nothing: commits of the future would
bar the way to writers that live now.
"""

import functools
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import uvicorn

from catalog_server.app import create_app
from catalog_server.bootstrap import Platform
from catalog_server.services.job_context import DatabaseJobContext
from maintenance.executors.inline import InlineExecutor
from maintenance.ports import Job, JobKind, JobSettings
from maintenance.worker import Worker, WorkerSettings
from table_format.clock import SystemClock
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata
from tests.api.iceberg_client import Http, in_process
from tests.engines.conftest import extension
from tests.java.driver import IcebergJava

NAMESPACE = "db"
BUCKET = "default"
_DAY_MS = 86_400_000
_OWNER = "oracle"


class MovedClock(SystemClock):
    """The machine's clock and some more."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@dataclass(frozen=True)
class Version:
    """What the catalog says of a table at one moment."""

    location: str
    """Of the metadata file."""
    metadata: TableMetadata

    @property
    def document(self) -> JsonObject:
        return self.metadata.document

    @property
    def heads(self) -> dict[str, int]:
        """Snapshot by branch or tag."""
        return {name: ref["snapshot-id"] for name, ref in self.document.get("refs", {}).items()}

    @property
    def snapshots(self) -> list[int]:
        return [one["snapshot-id"] for one in self.document.get("snapshots", ())]


@dataclass
class Lab:
    """The server, and those who read and write."""

    http: Http
    platform: Platform
    clock: MovedClock
    iceberg: str
    java: IcebergJava
    directory: Path
    duck: duckdb.DuckDBPyConnection
    """For reading metadata files; writers attach the catalog."""
    made: int = 0
    _settings: JobSettings = field(default_factory=JobSettings)
    _days: int = 0

    # tables

    def url(self, table: str) -> str:
        return f"/iceberg/v1/{BUCKET}/namespaces/{NAMESPACE}/tables/{table}"

    def create(self, body: JsonObject) -> str:
        """A new table; its name."""
        self.made += 1
        name = f"t{self.made}"
        url = f"/iceberg/v1/{BUCKET}/namespaces/{NAMESPACE}/tables"
        self.http.post(url, json={"name": name, **body}).raise_for_status()
        return name

    def version(self, table: str) -> Version:
        answer = self.http.get(self.url(table))
        answer.raise_for_status()
        body = answer.json()
        return Version(body["metadata-location"], TableMetadata(body["metadata"]))

    def ask(self, table: str, command: str, **members: Any) -> Any:
        """Have Java do something to a table."""
        return self.java.ask(command, uri=self.iceberg, table=f"{NAMESPACE}.{table}", **members)

    def commit(self, table: str, *updates: JsonObject) -> None:
        """Updates without requirements."""
        self.http.post(
            self.url(table), json={"requirements": [], "updates": list(updates)}
        ).raise_for_status()

    def attached(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB of its own with the catalog as `lake`: one that stays remembers tables as they were."""
        connection = loaded_duckdb()
        connection.execute(
            f"ATTACH '{BUCKET}' AS lake (TYPE ICEBERG, ENDPOINT '{self.iceberg}', AUTHORIZATION_TYPE 'none')"
        )
        return connection

    # jobs

    def job(self, table: str, kind: JobKind, settings: JsonObject, limits: JobSettings | None = None) -> Any:
        """One run of a job under that policy: its report."""
        base = f"/api/v1/buckets/{BUCKET}/namespaces/{NAMESPACE}/tables/{table}"
        policy = {"status": "enabled", "settings": settings}
        self.http.put(f"{base}/policies/{kind}", json=policy).raise_for_status()
        answer = self.http.post(f"{base}/jobs", json={"kind": str(kind)})
        answer.raise_for_status()
        found = self.finish(answer.json()["id"], kind, limits)
        self.http.put(f"{base}/policies/{kind}", json={"status": "disabled"}).raise_for_status()
        return found["report"]

    def finish(self, job: int, kind: JobKind, limits: JobSettings | None = None) -> Any:
        """Work until that job is done."""
        self._settings = replace(limits or JobSettings(), allow_unsafe=True)
        worker = self.http.portal.call(self._worker, kind)
        while (found := self.http.get(f"/api/v1/jobs/{job}").json())["state"] in ("queued", "running"):
            assert self.http.portal.call(worker.run_once), f"nobody takes the job: {found}"
        assert found["state"] == "done", f"{kind} of {found['table']}: {found['error']}"
        return found

    def remove_unreferenced(self, table: str) -> Any:
        """Both phases, days apart: the report of the second."""
        days = {"unreferencedDays": 1, "nonCurrentDays": 1}
        report = None
        try:
            for _ in range(2):
                self._days += 3  # on from what earlier runs asked to be woken for
                self.clock.ahead_ms = self._days * _DAY_MS
                # Small tables with much that expired look like a wrong location.
                limits = JobSettings(max_unreferenced_share=1)
                report = self.job(table, JobKind.UNREFERENCED, days, limits)
        finally:
            self.clock.ahead_ms = 0
        return report

    async def _worker(self, kind: JobKind) -> Worker:
        settings = WorkerSettings(owner=_OWNER, kinds=(kind,), poll_seconds=0.05, first_retry_ms=1)
        return Worker(self.platform.jobs, self._context, self.clock, self.platform.ids, settings)

    def _context(self, job: Job) -> DatabaseJobContext:
        made = self.platform.job_context(job)
        return replace(made, settings=self._settings, executor=InlineExecutor())


def loaded_duckdb() -> duckdb.DuckDBPyConnection:
    """DuckDB with its Iceberg extension."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "threads": 1})
    for name in ("httpfs", "avro", "iceberg"):
        connection.execute(f"LOAD '{extension(name)}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


@contextmanager
def opened(directory: Path, java: IcebergJava) -> Iterator[Lab]:
    """A lab with an empty catalog; nothing is maintained but by `Lab.job`."""
    clock = MovedClock()
    unsafe = {"maintenance.allow_unsafe": True}
    with in_process(directory, clock=clock, **unsafe) as (http, platform), socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()  # from here on clients can connect; they are answered once the server runs
        server = uvicorn.Server(uvicorn.Config(create_app(platform), lifespan="off", log_config=None))
        running = http.portal.start_task_soon(functools.partial(server.serve, sockets=[bound]))
        duck = loaded_duckdb()
        try:
            uri = f"http://127.0.0.1:{bound.getsockname()[1]}/iceberg"
            lab = Lab(http, platform, clock, uri, java, directory, duck)
            http.post(f"/iceberg/v1/{BUCKET}/namespaces", json={"namespace": [NAMESPACE]}).raise_for_status()
            for kind in JobKind:
                if kind is not JobKind.PURGE:
                    url = f"/api/v1/buckets/{BUCKET}/policies/{kind}"
                    http.put(url, json={"status": "disabled"}).raise_for_status()
            yield lab
        finally:
            duck.close()
            server.should_exit = True
            running.result()


def path_of(uri: str) -> Path:
    """The local file of a URI."""
    return Path(urlsplit(uri).path)


def aged(path: Path) -> None:
    """Make a file old enough for whoever asks for its age."""
    os.utime(path, (1, 1))
