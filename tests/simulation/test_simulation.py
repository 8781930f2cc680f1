"""Seeded worlds in which writers, jobs and the life of tables interleave while everything fails now and then.

`make test-simulation` plays 100,000 seeds. One that fails is named with its story, and played again by
`SIMULATION_SEED=n pytest tests/simulation/test_simulation.py`.
"""

from collections import Counter

import pytest

from tests.simulation.world import run, seeds

SEEDS = seeds()
BLOCK = 100
BLOCKS = [range(first, min(first + BLOCK, SEEDS.stop)) for first in range(SEEDS.start, SEEDS.stop, BLOCK)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"seeds-{block.start}-{block.stop - 1}")
def test_whatever_interleaves_and_fails_every_row_is_there_once(block: range) -> None:
    """I1 to I11 of each step, and of the end; `oracle` lists where each is asserted."""
    happened: Counter[str] = Counter()
    for seed in block:
        happened += run(seed)
    if len(block) == BLOCK:  # else a world in which nothing happens would pass
        assert happened["acked"] > BLOCK / 2
        assert happened["compactions"] > BLOCK / 10
        assert happened["deletes"] > BLOCK
        assert happened["snapshots with row ids"] > BLOCK / 10
        assert happened["to a branch"] > 0
        assert happened["tables without garbage"] > 0


def test_a_seed_is_one_story() -> None:
    """Played after others, and again, it takes the same steps to the same end."""
    first = [run(seed) for seed in (1, 2, 3)]
    again = [run(seed) for seed in (3, 2, 1)]
    assert again[::-1] == first
