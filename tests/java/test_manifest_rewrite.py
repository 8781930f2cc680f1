"""Manifests written anew, read by Java and PyIceberg: the rows from before at the head and at every snapshot."""

from functools import partial
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from maintenance.manifests.job import run
from maintenance.ports import JobKind
from maintenance.report import Outcome
from table_format.clock import SystemClock, SystemIds
from table_format.io.local import LocalObjectStore
from tests.factories.delete_histories import History
from tests.factories.lake import IDENT, Lake
from tests.fakes.jobs import FakeContext, job
from tests.java.driver import IcebergJava

pytestmark = pytest.mark.java

READABLE_BY_BOTH = [
    *(("append", name, number) for number in range(4) for name in ("x", "y")),
    ("position", "x", 3),
    ("named", "y", 5),
    ("append", "y", 2),
    ("position", "x", 1),
]
BY_EQUALITY = [("upsert", "x", 2), ("equality", "y", 1), ("evolve", "x", 0), ("append", "x", 3)]


def history(path: Path, version: int, partitioned: bool) -> History:
    make = partial(
        Lake,
        LocalObjectStore(),
        location=f"file://{path}",
        clock=SystemClock(),
        ids=SystemIds(),
        **{"format-version": str(version)},
    )
    return History.of(make, partitioned=partitioned)


def rewrite(lake: Lake) -> None:
    ctx = FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        documents={JobKind.MANIFESTS: {"status": "enabled", "settings": {"minManifests": 2}}},
        ident=IDENT,
    )
    assert run(ctx, job(JobKind.MANIFESTS, IDENT, str(lake.metadata.uuid))).outcome is Outcome.DONE


def by_java(java: IcebergJava, lake: Lake, **scan: int) -> list[tuple[int, str, int]]:
    rows = java.ask("readRows", metadata=lake.table.metadata_location, **scan)
    return sorted((int(number), name, int(version)) for number, name, version in rows)


def by_pyiceberg(lake: Lake, snapshot_id: int) -> list[tuple[int, str, int]]:
    table = StaticTable.from_metadata(lake.table.metadata_location)
    rows = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    return sorted((row["id"], row["name"], row["version"]) for row in rows)


@pytest.mark.parametrize(
    ("version", "partitioned", "script"),
    [
        (1, True, READABLE_BY_BOTH[:8]),
        (2, True, READABLE_BY_BOTH),
        (2, False, [*READABLE_BY_BOTH, *BY_EQUALITY]),
    ],
)
def test_others_read_the_same_rows_before_and_after(
    java: IcebergJava, tmp_path: Path, version: int, partitioned: bool, script: list[tuple[str, str, int]]
) -> None:
    told = history(tmp_path, version, partitioned)
    for step in script:
        told.play(step)
        told.rows.sort()
    before = told.lake.metadata.current_snapshot_id
    rewrite(told.lake)
    head = told.lake.metadata.current_snapshot_id
    assert head != before
    assert by_java(java, told.lake) == sorted(told.rows)
    for snapshot_id, rows in told.at.items():
        assert by_java(java, told.lake, snapshot=snapshot_id) == rows
        if script[-1] not in BY_EQUALITY:
            assert by_pyiceberg(told.lake, snapshot_id) == rows
    if script[-1] not in BY_EQUALITY:
        assert head is not None
        assert by_pyiceberg(told.lake, head) == sorted(told.rows)
