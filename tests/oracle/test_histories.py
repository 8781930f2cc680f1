"""Histories by many writers, and every kind of maintenance: Java, DuckDB and our reader find the rows as before.

`make test-oracle` plays more, and lets Spark take part. A seed that fails is named with its story, and played again by
`ORACLE_SEED=n make test-oracle`.
"""

from collections import Counter

import pytest

from tests.oracle.histories import run, seeds
from tests.oracle.lab import Lab

pytestmark = [
    pytest.mark.java,
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    # What PyIceberg says of its own doings.
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

SEEDS = seeds(6)
BLOCK = 3
BLOCKS = [SEEDS[first : first + BLOCK] for first in range(0, len(SEEDS), BLOCK)]
WORK = ("binpack done", "sort done", "z-order done", "manifests done", "snapshots done", "unreferenced done")


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"seeds-{block.start}-{block.stop - 1}")
def test_maintenance_leaves_every_row_of_every_snapshot_branch_and_tag(lab: Lab, block: range) -> None:
    happened: Counter[str] = Counter()
    for seed in block:
        happened += run(lab, seed)
    if len(block) == BLOCK:  # else histories in which nothing happens would pass
        assert happened["read by Java and us"] > 20 * BLOCK
        assert happened["read by DuckDB"] > 5 * BLOCK
        assert sum(happened[what] > 0 for what in WORK) >= 4
