"""The demo runs to its end, on the mock cluster and on a real broker, and says no when an answer is wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.servers import environment

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
ROWS = "50000"


def run_demo(home: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    env = {**environment(), "COLUMNS": "140", **extra}
    command = [sys.executable, "-m", "examples.demo", "--home", str(home), "--rows", ROWS, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=240, check=False
    )


def check_output(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for said in ("exactly the answers computed from the CSV", "data files", "snapshots", "What to type next"):
        assert said in done.stdout


def test_demo_on_the_mock_cluster(tmp_path: Path) -> None:
    check_output(run_demo(tmp_path))


@pytest.mark.kafka
def test_demo_on_a_real_broker(tmp_path: Path, broker: str) -> None:
    check_output(run_demo(tmp_path, FRAZIL_DEMO_BOOTSTRAP_SERVERS=broker))


def test_demo_fails_when_an_answer_is_wrong(tmp_path: Path) -> None:
    """The comparison is a real one: a demo whose truth is off by one row does not end with 0."""
    program = (
        "import dataclasses, runpy, sys\n"
        "from examples.demo import flights\n"
        "right = flights.answer\n"
        "seen = []\n"
        "def answer(table):\n"
        "    seen.append(1)\n"
        "    told = right(table)\n"
        "    return dataclasses.replace(told, rows=told.rows + 1) if len(seen) == 1 else told\n"
        "flights.answer = answer\n"
        "sys.argv[0] = 'demo'\n"
        "runpy.run_module('examples.demo', run_name='__main__')\n"
    )
    command = [sys.executable, "-c", program, "--home", str(tmp_path), "--rows", ROWS]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "MISMATCH" in done.stderr + done.stdout
    assert os.listdir(tmp_path)
