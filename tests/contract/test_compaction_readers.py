"""Histories with row-level deletes, compacted, read by DuckDB: the model's rows, at the head and at every snapshot."""

import importlib.util
import itertools
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import StaticTable

from maintenance.report import Outcome
from table_format.clock import SystemClock, SystemIds
from table_format.io.local import LocalObjectStore
from tests.factories.delete_histories import SCHEMA, WRITES, History, scripts
from tests.factories.lake import IDENT, Lake
from tests.factories.lineage_histories import ONLY_DELETES, compacted

pytestmark = pytest.mark.engine

_PLACES = itertools.count()


@pytest.fixture(scope="module")
def duck() -> Any:
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("avro", "iceberg"):
        found = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert found is not None
        assert found.submodule_search_locations is not None
        folder = Path(found.submodule_search_locations[0]) / "extensions" / f"v{duckdb.__version__}"
        connection.execute(f"LOAD '{folder / f'{name}.duckdb_extension'}'")
    yield connection
    connection.close()


def by_duckdb(duck: Any, lake: Lake, snapshot_id: int) -> list[tuple[int, str, int]]:
    location = lake.table.metadata_location.removeprefix("file://")
    scan = f"iceberg_scan('{location}', snapshot_from_id => {snapshot_id}::UBIGINT)"
    rows: list[tuple[int, str, int]] = duck.execute(f"SELECT id, name, version FROM {scan}").fetchall()
    return sorted(rows)


# DuckDB does not ask to which partition an equality delete belongs, nor under which spec.
steps = scripts(*(kind for kind in WRITES if kind != "evolve"))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(partitioned=st.booleans(), script=steps)
def test_duckdb_reads_the_same_rows_before_and_after_compaction(
    duck: Any, tmp_path: Path, partitioned: bool, script: list[Any]
) -> None:
    location = f"file://{tmp_path / str(next(_PLACES))}"
    make = partial(Lake, LocalObjectStore(), location=location, clock=SystemClock(), ids=SystemIds())
    history = History.of(make, partitioned=partitioned, whole_keys=True)
    for step in script:
        history.play(step)
    while history.compact().outcome is not Outcome.NOTHING:
        pass
    for snapshot_id, rows in history.at.items():
        assert by_duckdb(duck, history.lake, snapshot_id) == rows


@pytest.mark.parametrize("version", [2, 3])
def test_duckdb_and_pyiceberg_read_deletes_that_were_stored_anew(
    duck: Any, tmp_path: Path, version: int
) -> None:
    """Merged position delete files in format version 2, vectors in 3."""
    lake = Lake(
        LocalObjectStore(), location=f"file://{tmp_path}", schema=SCHEMA, clock=SystemClock(), ids=SystemIds()
    )
    files = [
        lake.append_rows(*({"id": n, "name": "x", "version": 1000 * f + n} for n in range(300)))
        for f in range(3)
    ]
    for place in range(4):
        deleted = [(file.file_path, place * 70 + number) for number, file in enumerate(files)]
        lake.row_delta([], [lake.position_file(deleted)])
    if version == 3:
        lake.catalog.commit(IDENT, [], [{"action": "upgrade-format-version", "format-version": 3}])
    before = sorted((row["id"], row["name"], row["version"]) for row in lake.rows())
    assert compacted(lake, ONLY_DELETES).figures["deleteFilesRemoved"] == 4
    head = lake.metadata.current_snapshot_id
    assert head is not None
    assert by_duckdb(duck, lake, head) == before
    assert len(before) == 888
    theirs = StaticTable.from_metadata(lake.table.metadata_location).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"], row["version"]) for row in theirs) == before
