"""The peak memory of maintenance grows by little with the number of a table's files.

The size here is a slice of that of `benchmarks/bench_large_tables.py`, which `make bench` runs in full.
"""

import pytest

from benchmarks.bench_large_tables import CASES, MB, make, measure

FILES = 40_000
BASE = 128 * MB
"""Resident before any table is looked at: Python, its libraries, manifests that are held."""
MOST_PER_FILE = 800
"""Bytes: under 1 GB for a million."""
OF_ENCODED = 2_500
"""Bytes, where entries are held as they are written: a run takes a bounded number of those."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make(tmp_path_factory.mktemp("large"), FILES, 5_000, 20)


@pytest.mark.process
@pytest.mark.parametrize("case", list(CASES))
def test_memory_is_bounded(table: str, case: str) -> None:
    found = measure(case, table)
    assert found["told"]
    assert found["peak"] < BASE + FILES * (OF_ENCODED if case == "manifests" else MOST_PER_FILE), found
