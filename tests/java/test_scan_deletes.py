"""Which deletes apply to which file, and what a range appended: histories planned by us and by Java."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from table_format.clock import SystemClock, SystemIds
from table_format.io.local import LocalObjectStore
from table_format.scan.planning import open_scan, plan_page
from table_format.scan.request import ScanRequest
from tests.factories.lake import BY_NAME, Lake
from tests.java.driver import IcebergJava, JavaError

pytestmark = pytest.mark.java

_PLACES = itertools.count()
PARTITIONS = ("x", "y")

steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "equality", "position", "named", "both", "rewrite"]),
        st.sampled_from(PARTITIONS),
        st.integers(0, 5),
    ),
    min_size=2,
    max_size=7,
)


def history(place: Path, partitioned: bool, script: list[tuple[str, str, int]]) -> Lake:
    lake = Lake(
        LocalObjectStore(),
        location=f"file://{place}",
        clock=SystemClock(),
        ids=SystemIds(),
        spec=BY_NAME if partitioned else None,
    )
    for number, (kind, name, which) in enumerate(script):
        partition = (name,) if partitioned else ()
        row = {"id": number, "name": name}
        inside = [
            task
            for task in lake.tasks()
            if task.entry.data_file.partition == partition and lake.metadata.current_snapshot_id
        ]
        if kind == "append" or not inside:
            lake.append_rows(row, partition=partition)
            continue
        target = inside[which % len(inside)]
        path = target.entry.data_file.file_path
        equality = lake.equality_file([row], [1], partition=partition)
        match kind:
            case "equality":
                lake.row_delta([], [equality])
            case "position":
                lake.row_delta([], [lake.position_file([(path, 0)], partition=partition)])
            case "named":
                named = lake.position_file([(path, 0)], partition=partition, referenced_data_file=path)
                lake.row_delta([], [named])
            case "both":
                data = lake.data_file([row], partition=partition)
                positions = lake.position_file([(data.file_path, 0)], partition=partition)
                lake.row_delta([data], [equality, positions])
            case "rewrite":
                lake.rewrite(lake.group([target]))
    return lake


def ours(lake: Lake, size: int, **request: Any) -> dict[str, list[str]]:
    scan = open_scan(lake.store, lake.metadata, ScanRequest(**request))
    return {
        file.entry.data_file.file_path: sorted(each.data_file.file_path for each in file.deletes)
        for page in scan.pages(size)
        for file in plan_page(lake.store, scan, page)
    }


def theirs(java: IcebergJava, lake: Lake, **request: int) -> dict[str, list[str]]:
    tasks = java.ask("planScan", metadata=lake.table.metadata_location, **request)
    return {task["path"]: sorted(task["deletes"]) for task in tasks}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(partitioned=st.booleans(), script=steps, size=st.integers(1, 4), data=st.data())
def test_java_attaches_the_same_deletes_and_finds_the_same_appends(
    java: IcebergJava, tmp_path: Path, partitioned: bool, script: Any, size: int, data: st.DataObject
) -> None:
    lake = history(tmp_path / str(next(_PLACES)), partitioned, script)
    assert ours(lake, size) == theirs(java, lake)
    ids = [snapshot["snapshot-id"] for snapshot in lake.metadata.snapshots]
    then = data.draw(st.sampled_from(ids))
    assert ours(lake, size, snapshot_id=then) == theirs(java, lake, snapshot=then)
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(ids) - 1)] * 2)))
    request = {"start_snapshot_id": ids[first], "end_snapshot_id": ids[last]}
    if first == last:
        assert ours(lake, size, **request) == {}
        with pytest.raises(JavaError, match="not a parent ancestor"):
            theirs(java, lake, **{"from": ids[first], "to": ids[last]})
    else:
        assert ours(lake, size, **request) == theirs(java, lake, **{"from": ids[first], "to": ids[last]})
