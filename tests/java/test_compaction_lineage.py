"""Histories of tables of format version 3, compacted: Java reads the rows, ids and last changes of the model."""

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
from tests.factories.column_kinds import KINDS, rows_of, table_schema
from tests.factories.lake import Lake
from tests.factories.lineage_histories import (
    ONLY_DELETES,
    LineageHistory,
    compacted,
    delete_steps,
    put_vectors,
    steps,
)
from tests.java.driver import IcebergJava

pytestmark = pytest.mark.java

_PLACES = itertools.count()


def by_java(java: IcebergJava, lake: Lake, **request: int) -> list[tuple[Any, ...]]:
    rows = java.ask("readRows", metadata=lake.table.metadata_location, lineage=True, **request)
    return sorted(
        (int(i), name, int(version), int(row), int(changed)) for i, name, version, row, changed in rows
    )


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(partitioned=st.booleans(), version=st.sampled_from([2, 3]), script=steps)
def test_maint_C14_java_reads_the_same_ids_before_and_after_compaction(
    java: IcebergJava, tmp_path: Path, partitioned: bool, version: int, script: list[Any]
) -> None:
    location = f"file://{tmp_path / str(next(_PLACES))}"
    make = partial(Lake, LocalObjectStore(), location=location, clock=SystemClock(), ids=SystemIds())
    history = LineageHistory.of(make, partitioned=partitioned, version=version)
    for step in [*script, ("upgrade", "x", 0), ("append", "x", 1)]:
        history.play(step)
    assert by_java(java, history.lake) == history.expected()
    while history.compact().outcome is not Outcome.NOTHING:
        pass
    assert by_java(java, history.lake) == history.expected()
    for snapshot_id, rows in history.at.items():
        assert by_java(java, history.lake, snapshot=snapshot_id) == rows


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(partitioned=st.booleans(), version=st.sampled_from([2, 3]), script=delete_steps)
def test_maint_D7_java_reads_the_same_rows_by_deletes_stored_anew(
    java: IcebergJava, tmp_path: Path, partitioned: bool, version: int, script: list[Any]
) -> None:
    """Merged position delete files, then vectors in their place."""
    location = f"file://{tmp_path / str(next(_PLACES))}"
    make = partial(Lake, LocalObjectStore(), location=location, clock=SystemClock(), ids=SystemIds())
    history = LineageHistory.of(make, partitioned=partitioned, version=version)
    for step in script:
        history.play(step)
    while history.compact(ONLY_DELETES).outcome is not Outcome.NOTHING:
        pass
    plain = java.ask("readRows", metadata=history.lake.table.metadata_location)
    assert sorted(int(row[2]) for row in plain) == sorted(history.rows)
    for step in (("upgrade", "x", 0), ("append", "x", 1), ("delete", "x", 3)):
        history.play(step)
    while history.compact(ONLY_DELETES).outcome is not Outcome.NOTHING:
        pass
    assert by_java(java, history.lake) == history.expected()
    for snapshot_id, rows in history.at.items():
        assert by_java(java, history.lake, snapshot=snapshot_id) == rows


@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_values_of_every_kind_as_before(java: IcebergJava, tmp_path: Path, kind: str) -> None:
    lake = Lake(
        LocalObjectStore(),
        location=f"file://{tmp_path}",
        schema=table_schema(kind),
        clock=SystemClock(),
        ids=SystemIds(),
        **{"format-version": "3"},
    )
    schema, rows = lake.metadata.schema(), rows_of(kind)
    for turn in range(3):
        lake.append(lake.data_file([{**row, "id": 10 * turn + row["id"]} for row in rows], schema=schema))
    put_vectors(lake, [(lake.tasks()[0], [1])])

    def read() -> list[Any]:
        return sorted(java.ask("readRows", metadata=lake.table.metadata_location, lineage=True))

    before = read()
    assert compacted(lake).figures["filesRewritten"] == 3
    assert (len(lake.tasks()), len(before)) == (1, 3 * len(rows) - 1)
    assert read() == before
