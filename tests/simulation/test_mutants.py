"""The simulation can fail: each known fault, planted in the product, is found within so many seeds."""

import pytest

from tests.simulation.kernel import Violation
from tests.simulation.mutants import MUTANTS, planted
from tests.simulation.world import run

MOST_SEEDS = 1000
FIRST = {
    "compaction_takes_a_new_sequence_number": 19,
    "compaction_does_not_look_again": 2,
    "compaction_drops_all_deletes": 6,
    "compaction_forgets_rows": 2,
    "compaction_takes_no_answer_for_a_refusal": 46,
    "refused_commits_are_believed": 2,
    "unanswered_commits_are_sent_again": 6,
    "expiration_deletes_before_its_commit": 1,
    "expiration_deletes_all_its_snapshots_had": 1,
    "expiration_drops_tags": 1,
    "expiration_ignores_offsets": 1,
    "the_remover_knows_no_age": 4,
    "the_remover_reads_no_manifests": 3,
    "the_swap_is_no_swap": 2,
    "unknown_swaps_are_cleaned_up": 46,
    "keys_are_not_looked_at": 41,
    "transactions_keep_what_worked": 25,
    "expiration_drops_branches": 7,
    "compaction_misses_new_vectors": 2,
    "compaction_gives_rows_new_ids": 26,
    "row_ids_are_given_again": 1,
    "clocks_are_believed": 36,
    "loads_are_answered_from_memory": 10,
    "purges_leave_the_first_files": 124,
    "the_remover_only_marks": 4,
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
