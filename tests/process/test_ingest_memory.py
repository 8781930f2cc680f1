"""Ingest with many topics, in a process whose peak of memory is looked at."""

import pytest

from benchmarks.bench_ingest_memory import apart

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


def test_500_topics_stay_near_the_budget() -> None:
    """100 MB of records; they take more than that in memory when nothing is written out before their commits."""
    found = apart("topics", 500, 100, 16)
    assert found["files"] >= 500
    assert found["over_start_mib"] < 64


def test_1000_open_partitions_stay_near_the_budget() -> None:
    """As many partitions as are closed at once come on top of the budget."""
    found = apart("partitions", 1000, 40, 16)
    assert found["files"] >= 1000
    assert found["over_start_mib"] < 128
