"""kill -9 of a maintenance worker in the middle of its work: another carries on; no row, no needed file is lost."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import load_catalog

from tests.process.servers import Server, environment, frazil, serving

pytestmark = pytest.mark.process
HARNESS = str(Path(__file__).with_name("crash_server.py"))
FAST = {
    "FRAZIL_MAINTENANCE__ALLOW_UNSAFE": "true",
    "FRAZIL_MAINTENANCE__LEASE_SECONDS": "2",
    "FRAZIL_MAINTENANCE__TICK_SECONDS": "0.3",
    "FRAZIL_MAINTENANCE__POLL_SECONDS": "0.1",
}
POLICIES = {
    "icebergCompaction": {"minInputFiles": 2, "triggerFileCount": 1000},
    "icebergSnapshotManagement": {"minSnapshotsToKeep": 1, "maxSnapshotAgeSeconds": 1},
    "icebergUnreferencedFileRemoval": {"unreferencedSeconds": 1, "nonCurrentSeconds": 1},
    "icebergManifests": {"minManifests": 2},
    "icebergStatistics": {},
}


@contextmanager
def worker(server: Server, command: list[str], **env: str) -> Iterator[subprocess.Popen[bytes]]:
    line = [*command, "worker", "--data-dir", str(server.data_dir)]
    with (server.data_dir.parent / "worker.log").open("ab") as log:
        process = subprocess.Popen(line, env=environment({**FAST, **env}), stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)


def table_with_history(server: Server) -> Any:
    """Seven snapshots with a row each, the second one tagged."""
    for kind, settings in POLICIES.items():
        document = {"status": "enabled", "settings": {**settings, "intervalSeconds": 86400}}
        url = f"{server.api}/buckets/default/policies/{kind}"
        requests.put(url, json=document, timeout=30).raise_for_status()
    catalog = load_catalog("c", type="rest", uri=server.iceberg)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    for number in range(7):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))
    with table.manage_snapshots() as manage:
        manage.create_tag(table.metadata.snapshots[1].snapshot_id, "second")
    return table


def ask(server: Server, kind: str) -> int:
    url = f"{server.api}/buckets/default/namespaces/db/tables/t/jobs"
    answer = requests.post(url, json={"kind": kind}, timeout=30)
    answer.raise_for_status()
    job_id: int = answer.json()["id"]
    return job_id


def ended(server: Server, job_id: int) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        job: dict[str, Any] = requests.get(f"{server.api}/jobs/{job_id}", timeout=30).json()
        if job["state"] in ("done", "failed"):
            return job
        time.sleep(0.1)
    raise TimeoutError(f"job {job_id} did not end: {job}")


def ids(table: Any, **scan: Any) -> list[int]:
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())


def needed(table: Any) -> set[Path]:
    """Every file that any snapshot of the table needs, as PyIceberg reads it."""
    found = {table.metadata_location}
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return {Path(location.removeprefix("file://")) for location in found}


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("kind", "point"),
    [
        ("icebergCompaction", "between-metadata-write-and-swap"),
        ("icebergCompaction", "after-swap-before-answer"),
        ("icebergSnapshotManagement", "after-swap-before-answer"),
        ("icebergSnapshotManagement", "amid-deletion"),
        ("icebergUnreferencedFileRemoval", "amid-deletion"),
        ("icebergManifests", "after-manifest-write"),
        ("icebergManifests", "after-swap-before-answer"),
        ("icebergStatistics", "after-swap-before-answer"),
    ],
)
def test_a_killed_worker_is_taken_over(tmp_path: Path, kind: str, point: str) -> None:
    trigger = tmp_path / "armed"
    crashing = {"FRAZIL_TEST_CRASH_POINT": point, "FRAZIL_TEST_CRASH_TRIGGER": str(trigger)}
    with serving(tmp_path, env=FAST) as server:
        table = table_with_history(server)
        strays = [Path(table.location().removeprefix("file://")) / "data" / f"stray{n}" for n in range(4)]
        for stray in strays:
            stray.write_bytes(b"x")
            os.utime(stray, (1, 1))
        if kind in ("icebergSnapshotManagement", "icebergUnreferencedFileRemoval"):
            with worker(server, frazil()):
                assert ended(server, ask(server, "icebergCompaction"))["state"] == "done"
                if kind == "icebergUnreferencedFileRemoval":
                    assert ended(server, ask(server, kind))["report"]["figures"]["filesMarked"] >= len(strays)
        time.sleep(1.2)
        trigger.touch()
        job_id = ask(server, kind)
        with worker(server, [sys.executable, HARNESS], **crashing) as victim:
            assert victim.wait(60) == -9
        with worker(server, frazil()):
            job = ended(server, job_id)
        assert (job["state"], job["attempts"]) == ("done", 2), job
        table.refresh()
        assert ids(table) == list(range(7))
        assert ids(table, snapshot_id=table.snapshot_by_name("second").snapshot_id) == [0, 1]
        assert [path for path in needed(table) if not path.is_file()] == []
        if kind == "icebergStatistics":
            (statistics,) = table.metadata.statistics
            assert statistics.snapshot_id == table.current_snapshot().snapshot_id
            assert [blob.properties["ndv"] for blob in statistics.blob_metadata] == ["7"]
            assert Path(statistics.statistics_path.removeprefix("file://")).is_file()
            assert job["report"]["outcome"] == "nothing"  # its first worker had entered them
        if kind == "icebergManifests":
            assert len(table.current_snapshot().manifests(table.io)) == 1
            assert table.current_snapshot().summary.additional_properties["manifests-replaced"] == "7"
        if kind == "icebergCompaction":
            assert len(list(table.scan().plan_files())) == 1
        if kind == "icebergSnapshotManagement":
            assert len(table.metadata.snapshots) == 2
            data = {path.name for path in strays[0].parent.iterdir()}
            assert {name for name in data if name.endswith(".parquet")} == {
                path.name for path in needed(table) if path.suffix == ".parquet"
            }
        if kind == "icebergUnreferencedFileRemoval":
            assert [path for path in strays if path.exists()] == []
