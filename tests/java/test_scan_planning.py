"""Scans planned by us and by Java, and our answers read by Java's client."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from table_format.io.local import LocalObjectStore
from table_format.scan.expressions import parse_expression
from table_format.scan.planning import PlannedFile, open_scan, plan_page
from table_format.scan.request import ScanRequest
from table_format.scan.task_json import TaskWriter
from tests.factories.scan_worlds import (
    Filter,
    World,
    build,
    drafts,
    filter_json,
    filters,
    holds,
    wrapped_files,
)
from tests.java.driver import IcebergJava, JavaError

pytestmark = pytest.mark.java

_PLACES = itertools.count()


def _readable_by_java(case: Any) -> bool:
    # Java 1.11 reads a fixed partition value as if its length stood before it.
    return ("x", "identity") not in case[0][1]


cases = drafts().flatmap(lambda draft: st.tuples(st.just(draft), filters(draft[0]))).filter(_readable_by_java)


def _planned(store: LocalObjectStore, world: World, node: Filter) -> list[PlannedFile]:
    wanted = parse_expression(filter_json(node, world.columns))
    scan = open_scan(store, world.metadata, ScanRequest(filter=wanted))
    return [file for page in scan.pages(3) for file in plan_page(store, scan, page)]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases)
def test_java_plans_the_same_files_and_reads_our_answer(case: Any, java: IcebergJava, tmp_path: Path) -> None:
    draft, node = case
    place = f"file://{tmp_path}/{next(_PLACES)}"
    store = LocalObjectStore()
    world = build(store, draft, place)
    metadata = f"{place}/v1.metadata.json"
    store.put(metadata, world.metadata.to_bytes())
    files = _planned(store, world, node)
    try:
        tasks = java.ask("planScan", metadata=metadata, filter=filter_json(node, world.columns))
    except JavaError as error:
        if error.kind != "NullPointerException":  # of the residual of a prefix in a null partition
            raise
        return
    _same_files(world, node, files, {task["path"]: task for task in tasks})
    if files and not any(_is_nan(value) for file in files for value in file.entry.data_file.partition):
        answer = TaskWriter(world.metadata).scan_tasks(files)
        read = java.ask("readTasks", metadata=metadata, answer=answer)
        assert [task["path"] for task in read] == [file.entry.data_file.file_path for file in files]
        _same_partitions(read, {task["path"]: task for task in tasks})


def _same_files(world: World, node: Filter, files: list[PlannedFile], theirs: dict[str, Any]) -> None:
    ours = {file.entry.data_file.file_path for file in files}
    rows = {file.path: file.rows for file in world.files}
    wrapped = wrapped_files(world)
    nans = {
        file.entry.data_file.file_path for file in files if any(map(_is_nan, file.entry.data_file.partition))
    }
    if "'u'" not in repr(node):
        # Engines order UUIDs in two ways, and differ on NaN being greater than all: we keep what any of them keeps.
        assert ours - nans - wrapped <= theirs.keys()
    for path in theirs.keys() - ours - wrapped:
        # To Java the partition null is less than any value, although it does not think so of a null in a row.
        assert "null" in theirs[path]["partition"]
        assert not any(holds(node, row) for row in rows[path])


def _same_partitions(read: list[Any], theirs: dict[str, Any]) -> None:
    for task in read:
        known = theirs.get(task["path"])
        if known is not None and "[B@" not in known["partition"]:
            assert task["partition"] == known["partition"]
            assert task["records"] == known["records"]


def _is_nan(value: object) -> bool:
    # JSON has no such number, and Java's client does not read the name that Java's server writes.
    return isinstance(value, float) and math.isnan(value)
