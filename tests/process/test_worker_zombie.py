"""Workers that sleep amid a job until another has done it, and wake up; and kills of kinds not killed elsewhere.

Whatever the zombie does then, no row and no needed file is lost, and it goes on to its next job. On PostgreSQL: who
sleeps amid a heartbeat keeps SQLite's one lock for as long.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import load_catalog

from tests.postgres import Postgres
from tests.process.servers import Server, frazil, serving
from tests.process.test_ingest_zombie import eventually, sleeps
from tests.process.test_worker_killed import FAST, HARNESS, POLICIES, ids, needed, worker

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]
COMPACTION, SNAPSHOTS, UNREFERENCED, MANIFESTS, STATISTICS = POLICIES
RECORDS, PURGE = "icebergRecordExpiration", "tablePurge"
BEFORE_SWAP, AFTER_SWAP, AMID_DELETION = (
    "between-metadata-write-and-swap",
    "after-swap-before-answer",
    "amid-deletion",
)
NUMBERS = count()
COLUMNS = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


@dataclass(frozen=True)
class Site:
    """A server, and what its workers need to know."""

    server: Server
    settings: dict[str, str]

    @contextmanager
    def worker(self, command: list[str], **more: str) -> Iterator[subprocess.Popen[bytes]]:
        with worker(self.server, command, **self.settings, **more) as process:
            yield process

    def ended(self, job_id: int) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def has_ended() -> bool:
            found.update(requests.get(f"{self.server.api}/jobs/{job_id}", timeout=30).json())
            return found["state"] in ("done", "failed")

        eventually(has_ended, 240)
        return found


@pytest.fixture(scope="module")
def site(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("zombies")
    settings = {
        **FAST,
        "FRAZIL_DATABASE__URL": postgres.url(postgres.empty()),
        "FRAZIL_STORAGE__DEFAULT_BUCKET_LOCATION": (directory / "warehouse").as_uri(),
    }
    with serving(directory, env=settings) as server:
        policies = {**POLICIES, RECORDS: {"days": 30, "column": "at"}}
        for kind, asked in policies.items():
            document = {"status": "enabled", "settings": {**asked, "intervalSeconds": 86400}}
            url = f"{server.api}/buckets/default/policies/{kind}"
            requests.put(url, json=document, timeout=30).raise_for_status()
        load_catalog("c", type="rest", uri=server.iceberg).create_namespace("db")
        yield Site(server, settings)


class Lake:
    """A table of its own with five snapshots of a row each, the first two rows old, and files that nobody needs."""

    def __init__(self, site: Site) -> None:
        self.site, server = site, site.server
        self.name = f"t{next(NUMBERS)}"
        self.catalog = load_catalog("c", type="rest", uri=server.iceberg)
        self.table = self.catalog.create_table(f"db.{self.name}", COLUMNS)
        now = datetime.now(UTC)
        for number in range(5):
            at = now - timedelta(days=400 if number < 2 else 0)
            self.table.append(pa.table({"id": [number], "at": [at]}, schema=COLUMNS))
        self.place = Path(self.table.location().removeprefix("file://"))
        self.strays = [self.place / "data" / f"stray{number}" for number in range(4)]
        for stray in self.strays:
            stray.write_bytes(b"x")
            os.utime(stray, (1, 1))

    def ask(self, kind: str) -> int:
        if kind == PURGE:
            self.catalog.purge_table(f"db.{self.name}")
            query = {"namespace": "db", "table": self.name, "kind": PURGE}
            found = requests.get(f"{self.site.server.api}/jobs", params=query, timeout=30).json()["jobs"]
            return int(found[0]["id"])
        url = f"{self.site.server.api}/buckets/default/namespaces/db/tables/{self.name}/jobs"
        answer = requests.post(url, json={"kind": kind}, timeout=30)
        answer.raise_for_status()
        return int(answer.json()["id"])

    def prepare(self, kind: str) -> None:
        """Whatever must have been before the job has something to do."""
        if kind == UNREFERENCED:
            with self.site.worker(frazil()):
                marked = self.site.ended(self.ask(kind))["report"]["figures"]["filesMarked"]
            assert marked >= len(self.strays)
        ripe = time.time() + 1.2
        eventually(lambda: time.time() > ripe)

    def check(self, kind: str) -> None:
        """What the job was to do is done, once, and nothing else."""
        if kind == PURGE:
            assert [
                path for path in self.place.rglob("*") if path.is_file() and path not in self.strays
            ] == []
            return
        self.table.refresh()
        assert ids(self.table) == ([2, 3, 4] if kind == RECORDS else [0, 1, 2, 3, 4])
        assert [path for path in needed(self.table) if not path.is_file()] == []
        if kind == COMPACTION:
            assert len(list(self.table.scan().plan_files())) == 1
        if kind == SNAPSHOTS:
            assert len(self.table.metadata.snapshots) == 1
        if kind == MANIFESTS:
            assert len(self.table.current_snapshot().manifests(self.table.io)) == 1
        if kind == STATISTICS:
            head = self.table.metadata.current_snapshot_id
            assert [entry.snapshot_id for entry in self.table.metadata.statistics] == [head]
        assert [path for path in self.strays if path.exists()] == (
            [] if kind == UNREFERENCED else self.strays
        )


@pytest.fixture
def lake(site: Site) -> Lake:
    return Lake(site)


def harness(tmp_path: Path, point: str, name: str) -> dict[str, str]:
    trigger = tmp_path / "armed"
    trigger.touch()
    return {
        "FRAZIL_TEST_CRASH_POINT": point,
        "FRAZIL_TEST_CRASH_TRIGGER": str(trigger),
        "FRAZIL_TEST_CRASH_SIGNAL": name,
    }


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        (COMPACTION, "after-manifest-write"),
        (RECORDS, BEFORE_SWAP),
        (RECORDS, AFTER_SWAP),
        (PURGE, AMID_DELETION),
    ],
)
def test_a_killed_worker_is_taken_over(site: Site, lake: Lake, tmp_path: Path, kind: str, point: str) -> None:
    lake.prepare(kind)
    job_id = lake.ask(kind)
    with site.worker([sys.executable, HARNESS], **harness(tmp_path, point, "SIGKILL")) as victim:
        assert victim.wait(240) == -signal.SIGKILL
    with site.worker(frazil()):
        assert site.ended(job_id)["state"] == "done"
    lake.check(kind)


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        (COMPACTION, BEFORE_SWAP),
        (RECORDS, BEFORE_SWAP),
        (MANIFESTS, BEFORE_SWAP),
        (STATISTICS, BEFORE_SWAP),
        (SNAPSHOTS, AMID_DELETION),
        (UNREFERENCED, AMID_DELETION),
        (PURGE, AMID_DELETION),
    ],
)
def test_a_zombie_does_no_harm_and_goes_on_to_its_next_job(
    site: Site, lake: Lake, tmp_path: Path, kind: str, point: str
) -> None:
    lake.prepare(kind)
    job_id = lake.ask(kind)
    with site.worker([sys.executable, HARNESS], **harness(tmp_path, point, "SIGSTOP")) as zombie:
        eventually(lambda: sleeps(zombie), 240)
        with site.worker(frazil()):
            done = site.ended(job_id)
        assert (done["state"], done["attempts"]) == ("done", 2), done
        lake.check(kind)
        zombie.send_signal(signal.SIGCONT)
        other = Lake(site)  # one job at a time: when it has done this one, it has ended the other
        assert site.ended(other.ask(COMPACTION))["state"] == "done"
    lake.check(kind)
    other.check(COMPACTION)
