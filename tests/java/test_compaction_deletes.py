"""Histories with row-level deletes, compacted: Java reads what the model says, before and after, at every snapshot."""

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maintenance.report import Outcome
from table_format.clock import SystemClock, SystemIds
from table_format.io.local import LocalObjectStore
from tests.factories.delete_histories import History, steps
from tests.factories.lake import Lake
from tests.java.driver import IcebergJava

pytestmark = pytest.mark.java

_PLACES = itertools.count()


def by_java(java: IcebergJava, lake: Lake, **request: int) -> list[tuple[int, str, int]]:
    rows = java.ask("readRows", metadata=lake.table.metadata_location, **request)
    return sorted((int(number), name, int(version)) for number, name, version in rows)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(partitioned=st.booleans(), script=steps)
def test_java_reads_the_same_rows_before_and_after_compaction(
    java: IcebergJava, tmp_path: Path, partitioned: bool, script: list[Any]
) -> None:
    location = f"file://{tmp_path / str(next(_PLACES))}"
    make = partial(Lake, LocalObjectStore(), location=location, clock=SystemClock(), ids=SystemIds())
    history = History.of(make, partitioned=partitioned)
    for step in script:
        history.play(step)
    while history.compact().outcome is not Outcome.NOTHING:
        pass
    if history.at:
        assert by_java(java, history.lake) == sorted(history.rows)
    for snapshot_id, rows in history.at.items():
        assert by_java(java, history.lake, snapshot=snapshot_id) == rows
