"""Every process collects the same tests: parallel workers compare their lists and refuse to start on a difference."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _collected(hash_seed: str) -> list[str]:
    listed = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "no:randomly",
            "-p",
            "no:xdist",
            "tests",
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stdout[-2000:] + listed.stderr[-2000:]
    return [line for line in listed.stdout.splitlines() if "::" in line]


@pytest.mark.timeout(600)
def test_names_of_tests_depend_on_neither_the_clock_nor_the_hash_seed() -> None:
    # One after the other, not at once: a collection takes seconds, so a name made from the time of day differs.
    first, second = _collected("1"), _collected("77")
    assert len(first) > 1000
    assert [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]] == []
