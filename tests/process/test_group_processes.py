"""The processes that rewrite groups beside a real worker: they do the work, and none outlives it."""

import signal
import subprocess
import time
from pathlib import Path

import pytest
import requests

from tests.process.servers import Server, frazil, serving
from tests.process.test_worker_killed import FAST, ask, ids, table_with_history, worker

pytestmark = pytest.mark.process


def children(process: subprocess.Popen[bytes]) -> set[int]:
    """The processes that rewrite groups for a worker, as far as there are any now."""
    found = set()
    for listing in Path(f"/proc/{process.pid}/task").glob("*/children"):
        try:
            pids = listing.read_text().split()
        except OSError:  # the thread has ended meanwhile
            continue
        found |= {int(pid) for pid in pids if is_executor(int(pid))}
    return found


def is_executor(pid: int) -> bool:
    try:
        return b"maintenance.executors.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def seen_while_running(server: Server, process: subprocess.Popen[bytes], job_id: int) -> set[int]:
    """Waits for the job's end, and gives the processes that there were until then."""
    found: set[int] = set()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found |= children(process)
        job = requests.get(f"{server.api}/jobs/{job_id}", timeout=30).json()
        if job["state"] in ("done", "failed"):
            assert job["state"] == "done", job
            return found
    raise TimeoutError(job_id)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_its_worker(tmp_path: Path, end: signal.Signals) -> None:
    with serving(tmp_path, env=FAST) as server:
        table = table_with_history(server)
        with worker(server, frazil()) as process:
            seen = seen_while_running(server, process, ask(server, "icebergCompaction"))
            assert seen
            process.send_signal(end)
            process.wait(120)
        deadline = time.monotonic() + 120
        while any(is_executor(pid) for pid in seen):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert len(list(table.refresh().scan().plan_files())) == 1
        assert ids(table) == list(range(7))
