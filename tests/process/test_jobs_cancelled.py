"""Jobs of real workers that are cancelled, stopped or killed at a named point, and tried again: nothing half-done."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import load_catalog

from catalog_server.cli import completion
from tests.process.servers import Server, frazil, run_frazil, serving, start_server
from tests.process.test_worker_killed import FAST, POLICIES, needed, worker

pytestmark = pytest.mark.process
HARNESS = str(Path(__file__).with_name("paused_worker.py"))
CRASHING = [sys.executable, str(Path(__file__).with_name("crash_server.py"))]
NUMBERS = count()
COMPACTION, SNAPSHOTS, UNREFERENCED, *_ = POLICIES


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("cancelled"), env=FAST) as running:
        for kind, settings in POLICIES.items():
            document = {"status": "enabled", "settings": {**settings, "intervalSeconds": 86400}}
            url = f"{running.api}/buckets/default/policies/{kind}"
            requests.put(url, json=document, timeout=30).raise_for_status()
        load_catalog("c", type="rest", uri=running.iceberg).create_namespace("db")
        yield running


class Lake:
    """A table of its own with four snapshots of a row each."""

    def __init__(self, server: Server) -> None:
        self.name = f"t{next(NUMBERS)}"
        self.api = f"{server.api}/buckets/default/namespaces/db/tables/{self.name}"
        catalog = load_catalog("c", type="rest", uri=server.iceberg)
        self.table = catalog.create_table(f"db.{self.name}", pa.schema([("id", pa.int64())]))
        for number in range(4):
            self.table.append(pa.table({"id": pa.array([number], pa.int64())}))
        self.data = Path(self.table.location().removeprefix("file://")) / "data"

    def ask(self, kind: str) -> int:
        answer = requests.post(f"{self.api}/jobs", json={"kind": kind}, timeout=30)
        answer.raise_for_status()
        job_id: int = answer.json()["id"]
        return job_id

    def check(self) -> None:
        """Every row is there once, and every file that any snapshot needs."""
        self.table.refresh()
        assert sorted(self.table.scan().to_arrow()["id"].to_pylist()) == list(range(4))
        assert [path for path in needed(self.table) if not path.is_file()] == []

    def files(self) -> set[Path]:
        return {path for path in self.data.rglob("*") if path.is_file()}


@pytest.fixture
def lake(server: Server) -> Lake:
    return Lake(server)


def until(what: Callable[[], Any], told: Callable[[], object] = lambda: "") -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.05)
    raise TimeoutError(f"it did not come true: {told()}")


def job(server: Server, job_id: int) -> dict[str, Any]:
    found: dict[str, Any] = requests.get(f"{server.api}/jobs/{job_id}", timeout=30).json()
    return found


def in_state(server: Server, job_id: int, *states: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        found = job(server, job_id)
        return found if found["state"] in states else None

    found: dict[str, Any] = until(ended, lambda: job(server, job_id))
    return found


def paused(tmp_path: Path, point: str) -> dict[str, str]:
    return {"FRAZIL_TEST_PAUSE_POINT": point, "FRAZIL_TEST_PAUSE_AT": str(tmp_path)}


def cancel(server: Server, job_id: int) -> dict[str, Any]:
    answer = requests.post(f"{server.api}/jobs/{job_id}/cancel", timeout=30)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def retry(server: Server, job_id: int) -> None:
    requests.post(f"{server.api}/jobs/{job_id}/retry", timeout=30).raise_for_status()


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("kind", "point", "told"),
    [
        (COMPACTION, "amid-rewrite", "stopped after 0 groups: it was cancelled"),
        (SNAPSHOTS, "after-commit", "left: it was cancelled"),
        (UNREFERENCED, "before-listing", "left: it was cancelled"),
    ],
)
def test_a_running_job_is_cancelled_at_its_next_safe_step_and_goes_on_when_tried_again(
    server: Server, lake: Lake, tmp_path: Path, kind: str, point: str, told: str
) -> None:
    reached, go_on, stray = tmp_path / "reached", tmp_path / "go-on", lake.data / "stray"
    with worker(server, [sys.executable, HARNESS], **paused(tmp_path, point)):
        if kind == UNREFERENCED:
            stray.write_bytes(b"x")
            os.utime(stray, (1, 1))
            go_on.touch()  # marked now, to be deleted by the run that is cancelled
            in_state(server, lake.ask(kind), "done")
            until(lambda: time.time() - stray.stat().st_ctime > 2)
            go_on.unlink()
            reached.unlink()
        before = lake.files()
        job_id = lake.ask(kind)
        until(reached.exists)
        assert cancel(server, job_id)["state"] == "running"
        go_on.touch()
        ended = in_state(server, job_id, "cancelled", "done", "failed")
        assert (ended["state"], ended["report"]["outcome"]) == ("cancelled", "cancelled")
        assert told in ended["report"]["reason"]
        assert lake.files() == before
        lake.check()
        retry(server, job_id)
        assert in_state(server, job_id, "cancelled", "done", "failed")["state"] == "done"
    lake.check()
    if kind == COMPACTION:
        assert len(list(lake.table.scan().plan_files())) == 1
    if kind == SNAPSHOTS:
        assert len(lake.table.metadata.snapshots) == 1
        manifests = set(lake.data.parent.joinpath("metadata").glob("*.avro"))
        assert manifests == {path for path in needed(lake.table) if path.suffix == ".avro"}
    if kind == UNREFERENCED:
        assert not stray.exists()


@pytest.mark.timeout(180)
def test_a_plan_is_awaited_and_leaves_no_job_and_a_commit_under_way_is_finished(
    server: Server, lake: Lake, tmp_path: Path
) -> None:
    with worker(server, [sys.executable, HARNESS], **paused(tmp_path, "amid-commit")):
        answer = requests.post(f"{lake.api}/maintenance/plan", json={"kind": COMPACTION}, timeout=60)
        assert answer.status_code == 200, answer.text
        assert (answer.json()["outcome"], answer.json()["figures"]["filesToRewrite"]) == ("done", 4)
        assert answer.json()["figures"]["bytesToRewrite"] > 0
        assert len(answer.json()["plan"]["groups"]) == 1
        job_id = lake.ask(COMPACTION)
        until((tmp_path / "reached").exists)
        cancel(server, job_id)
        (tmp_path / "go-on").touch()
        ended = in_state(server, job_id, "cancelled", "done", "failed")
    # It was all that there was to do; and no further run of it is asked for.
    assert (ended["state"], ended["report"]["figures"]["filesRewritten"]) == ("done", 4)
    lake.check()
    assert len(list(lake.table.scan().plan_files())) == 1
    listed = requests.get(f"{server.api}/jobs", params={"namespace": "db", "table": lake.name}, timeout=30)
    assert [one["id"] for one in listed.json()["jobs"]] == [job_id]


@pytest.mark.timeout(180)
def test_a_worker_killed_after_it_was_asked_to_cancel(server: Server, lake: Lake, tmp_path: Path) -> None:
    before = lake.files()
    job_id = lake.ask(COMPACTION)
    with worker(server, [sys.executable, HARNESS], **paused(tmp_path, "amid-rewrite")) as victim:
        until((tmp_path / "reached").exists)
        cancel(server, job_id)
        victim.kill()
        victim.wait(30)
    with worker(server, frazil()):
        ended = in_state(server, job_id, "cancelled", "done", "failed")
    assert (ended["state"], ended["attempts"], len(ended["failures"])) == ("cancelled", 1, 1)
    assert before <= lake.files()
    lake.check()


@pytest.mark.timeout(180)
def test_a_worker_that_is_told_to_stop_hands_its_job_back(server: Server, lake: Lake, tmp_path: Path) -> None:
    before = lake.files()
    job_id = lake.ask(COMPACTION)
    stopping = {**paused(tmp_path, "amid-rewrite"), "FRAZIL_SERVER__DRAIN_SECONDS": "0.2"}
    with worker(server, [sys.executable, HARNESS], **stopping) as victim:
        until((tmp_path / "reached").exists)
        victim.send_signal(signal.SIGTERM)
        until(lambda: "drain_over" in (server.data_dir.parent / "worker.log").read_text())
        (tmp_path / "go-on").touch()
        assert victim.wait(60) == 0
    back = job(server, job_id)
    assert (back["state"], back["attempts"], back["error"], back["failures"]) == ("queued", 0, None, [])
    assert lake.files() == before
    cancel(server, job_id)
    lake.check()


@pytest.mark.timeout(180)
def test_a_server_killed_before_it_could_answer_has_done_it_once(tmp_path: Path) -> None:
    """Whoever asks again is answered as if nothing had happened, or told how the job stands."""
    trigger = tmp_path / "armed"
    crashing = {
        "FRAZIL_TEST_CRASH_POINT": "after-write-before-answer",
        "FRAZIL_TEST_CRASH_TRIGGER": str(trigger),
    }

    def killed_by(victim: Server, path: str) -> None:
        trigger.touch()
        with pytest.raises(requests.ConnectionError):
            requests.post(f"{victim.api}{path}", timeout=30)
        assert victim.process.wait(30) == -signal.SIGKILL
        trigger.unlink()

    first = start_server(tmp_path, env={**FAST, **crashing}, command=CRASHING)
    try:
        load_catalog("c", type="rest", uri=first.iceberg).create_namespace("db")
        job_id = Lake(first).ask(COMPACTION)
        killed_by(first, f"/jobs/{job_id}/cancel")
    finally:
        first.kill()
    second = start_server(tmp_path, env={**FAST, **crashing}, command=CRASHING)
    try:
        assert cancel(second, job_id)["state"] == "cancelled"
        killed_by(second, f"/jobs/{job_id}/retry")
    finally:
        second.kill()
    with serving(tmp_path, env=FAST) as server:
        again = requests.post(f"{server.api}/jobs/{job_id}/retry", timeout=30)
        assert again.status_code == 409
        assert again.json()["detail"].startswith(f"Job {job_id} is queued")


def test_watching_a_job_that_fails_ends_with_an_error(server: Server, lake: Lake) -> None:
    job_id = lake.ask(COMPACTION)
    env = {"FRAZIL_URL": server.url}
    line = frazil("maintenance", "show", str(job_id), "--watch")
    watching = subprocess.Popen(
        line, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    assert "queued" in watching.stdout.readline()
    cancelled = run_frazil("maintenance", "cancel", str(job_id), env=env)
    assert (cancelled.returncode, "is cancelled" in cancelled.stdout) == (0, True), cancelled
    out, error = watching.communicate(timeout=60)
    assert "cancelled, cancelled: cancelled while it was queued" in out
    assert error == f"frazil: job {job_id} was cancelled; `frazil maintenance retry {job_id}` runs it again\n"
    assert watching.returncode == 1


def test_a_shell_completes_names_that_the_server_knows(server: Server, lake: Lake) -> None:
    given = {"url": server.url, "bucket": "default"}
    assert completion.buckets(given, "def") == ["default"]
    assert completion.namespaces(given, "d") == ["db"]
    assert completion.tables(given, "d") == ["db."]
    assert lake.name in [name.removeprefix("db.") for name in completion.tables(given, "db.t")]
    assert completion.tables(given, 'nope."') == []
    assert completion.buckets({"url": f"{server.url}/nothing-here"}, "") == []
