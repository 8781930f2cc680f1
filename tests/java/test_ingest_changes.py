"""Tables kept by key: Java and PyIceberg read what a replay of the log leaves, with deletes and after compaction."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import StaticTable

from table_format.io.local import LocalObjectStore
from tests.factories.change_logs import KEYED, LAYOUTS, PARTITIONS, ChangeLog, steps
from tests.factories.ingest_lab import Lab
from tests.java.driver import IcebergJava

pytestmark = pytest.mark.java

_PLACES = itertools.count()


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layout=st.sampled_from(list(LAYOUTS)), script=steps)
def test_java_reads_a_replay_of_the_log(
    java: IcebergJava, tmp_path: Path, layout: str, script: list[Any]
) -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    location = f"file://{tmp_path / str(next(_PLACES))}"
    keys = {**KEYED, **LAYOUTS[layout], "metadata.columns": False}
    log = ChangeLog(
        Lab(partitions=PARTITIONS, topic="t", store=LocalObjectStore(), location=location, **keys)
    )
    for step in script:
        log.play(step)
    if not log.finish():
        return
    read = java.ask("readRows", metadata=log.lab.table().metadata_location)
    assert sorted((int(row[0]), row[1], int(row[2])) for row in read) == log.expected()
    structlog.reset_defaults()


def test_pyiceberg_reads_it_once_compaction_has_applied_the_deletes(
    java: IcebergJava, tmp_path: Path
) -> None:
    keys = {**KEYED, **LAYOUTS["by place"]}
    log = ChangeLog(
        Lab(partitions=PARTITIONS, topic="t", store=LocalObjectStore(), location=f"file://{tmp_path}", **keys)
    )
    for _ in range(3):
        log.play(("log", [("put", 1, "a"), ("put", 2, "b"), ("put", 3, "a"), ("delete", 2), ("put", 1, "b")]))
        log.run()
    read = java.ask("readRows", metadata=log.lab.table().metadata_location)
    assert len(read) == 2
    log.compact()
    assert log.lab.summary()["total-delete-files"] == "0"
    table = StaticTable.from_metadata(log.lab.table().metadata_location)
    rows = table.scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["place"], row["version"]) for row in rows) == log.expected()
