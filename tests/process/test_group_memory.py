"""The peak memory of a process that rewrites one group stays bounded, whatever the group asks for.

The sizes here are slices of those of `benchmarks/bench_group_memory.py`, which `make bench` runs in full.
"""

from pathlib import Path

import pytest

from benchmarks.bench_group_memory import MB, measure

MOST = 512 * MB
"""Bytes resident at the peak, Python and its libraries included."""


@pytest.mark.process
@pytest.mark.parametrize(
    ("case", "scale"),
    [
        ("equality-keys", 0.06),
        ("columns", 0.1),
        ("row-groups", 0.15),
        ("strings", 0.3),
        ("sorted", 0.3),
        ("old-rows", 0.3),
    ],
)
def test_group_memory_is_bounded(tmp_path: Path, case: str, scale: float) -> None:
    found = measure(case, tmp_path, scale)
    assert found["rows"] > 0
    assert (found["deleted"] > 0) == (case in ("equality-keys", "old-rows"))
    assert found["peak"] < MOST
