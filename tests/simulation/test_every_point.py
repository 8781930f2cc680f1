"""Each kind of job, its worker killed at every point of its run; and stopped there for longer than its lease."""

import pytest

from maintenance.ports import JobKind
from tests.simulation.world import one_job

FIVE_MINUTES_MS = 300_000


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", JobKind)
@pytest.mark.parametrize("stall_ms", [0, FIVE_MINUTES_MS], ids=["killed", "stopped"])
def test_a_worker_may_end_anywhere_and_another_carries_its_job_on(kind: JobKind, stall_ms: int) -> None:
    """Nothing is lost, the job comes to its end, and one that comes back late does no harm."""
    point = 0
    while one_job(kind, point, stall_ms) is not None:
        point += 1
    assert point > 10
