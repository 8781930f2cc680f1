"""The simulation can fail: each known fault, planted in the product, is found within so many seeds."""

import pytest

from tests.simulation.kernel import Violation
from tests.simulation.mutants import MUTANTS, planted
from tests.simulation.world import run

MOST_SEEDS = 1000
FIRST = {
    "compaction_takes_a_new_sequence_number": 32,
    "compaction_does_not_look_again": 2,
    "compaction_drops_all_deletes": 32,
    "compaction_forgets_rows": 1,
    "compaction_takes_no_answer_for_a_refusal": 164,
    "refused_commits_are_believed": 55,
    "unanswered_commits_are_sent_again": 55,
    "expiration_deletes_before_its_commit": 5,
    "expiration_deletes_all_its_snapshots_had": 5,
    "expiration_drops_tags": 5,
    "expiration_ignores_offsets": 5,
    "the_remover_knows_no_age": 25,
    "the_remover_reads_no_manifests": 0,
    "the_swap_is_no_swap": 22,
    "unknown_swaps_are_cleaned_up": 89,
}
"""Where the search begins: a seed that found it once, so that the suite seldom looks for long."""


def play(seeds: list[int]) -> None:
    for seed in seeds:
        run(seed)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", MUTANTS)
def test_the_simulation_finds(name: str) -> None:
    first = FIRST[name]
    with planted(name), pytest.raises(Violation):
        play([first, *range(first), *range(first + 1, MOST_SEEDS)])
