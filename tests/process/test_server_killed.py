"""kill -9 of the server inside a commit: nothing lost, nothing double, nothing deleted that is referenced."""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import load_catalog

from tests.process.servers import Server, serving, start_server

pytestmark = pytest.mark.process
HARNESS = str(Path(__file__).with_name("crash_server.py"))


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def open_table(server: Server) -> Any:
    return load_catalog("c", type="rest", uri=server.iceberg).load_table("db.t")


def metadata_files(data_dir: Path) -> set[str]:
    return {path.name for path in data_dir.rglob("*.metadata.json")}


def referenced(document: dict[str, Any]) -> list[Path]:
    """Every metadata file and manifest list that the table's metadata names."""
    named = [entry["metadata-file"] for entry in document.get("metadata-log", [])]
    named += [snapshot["manifest-list"] for snapshot in document.get("snapshots", [])]
    return [Path(location.removeprefix("file://")) for location in named]


@pytest.mark.parametrize(
    ("point", "landed"),
    [
        ("before-metadata-write", False),
        ("between-metadata-write-and-swap", False),
        ("after-swap-before-answer", True),
    ],
)
def test_killed_inside_a_commit(tmp_path: Path, point: str, landed: bool) -> None:
    trigger = tmp_path / "armed"
    env = {"FRAZIL_TEST_CRASH_POINT": point, "FRAZIL_TEST_CRASH_TRIGGER": str(trigger)}
    server = start_server(tmp_path, env=env, command=[sys.executable, HARNESS])
    try:
        catalog = load_catalog("c", type="rest", uri=server.iceberg)
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", rows().schema)
        table.append(rows(1, 2))
        table.append(rows(3))
        known = metadata_files(server.data_dir)
        trigger.touch()
        with pytest.raises((requests.ConnectionError, ConnectionError)):
            table.append(rows(4, 5))
        assert server.process.wait(30) == -9
    finally:
        server.kill()

    with serving(tmp_path) as again:
        table = open_table(again)
        expected = [1, 2, 3, 4, 5] if landed else [1, 2, 3]
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == expected
        assert all(path.is_file() for path in referenced(table.metadata.model_dump(by_alias=True)))
        left = metadata_files(again.data_dir) - known
        assert len(left) == (0 if point == "before-metadata-write" else 1)
        # The table goes on, with an unbroken chain of metadata files.
        table.append(rows(6))
        assert sorted(open_table(again).scan().to_arrow()["id"].to_pylist()) == [*expected, 6]
        _assert_chain_unbroken(open_table(again).metadata_location)


def test_killed_after_the_swap_then_the_same_commit_again_is_refused(tmp_path: Path) -> None:
    """R7: the client that lost the answer and repeats its commit as it was gets 409, and one copy of the rows."""
    trigger = tmp_path / "armed"
    env = {
        "FRAZIL_TEST_CRASH_POINT": "after-swap-before-answer",
        "FRAZIL_TEST_CRASH_TRIGGER": str(trigger),
    }
    server = start_server(tmp_path, env=env, command=[sys.executable, HARNESS])
    try:
        catalog = load_catalog("c", type="rest", uri=server.iceberg)
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", rows().schema)
        table.append(rows(1))
        stale = open_table(server)
        trigger.touch()
        with pytest.raises((requests.ConnectionError, ConnectionError)):
            table.append(rows(2))
    finally:
        server.kill()
    with serving(tmp_path) as again:
        answer = requests.post(
            f"{again.iceberg}/v1/default/namespaces/db/tables/t",
            json={
                "requirements": [
                    {
                        "type": "assert-ref-snapshot-id",
                        "ref": "main",
                        "snapshot-id": stale.metadata.current_snapshot_id,
                    }
                ],
                "updates": [{"action": "set-properties", "updates": {"again": "yes"}}],
            },
            timeout=30,
        )
        assert (answer.status_code, answer.json()["error"]["type"]) == (409, "CommitFailedException")
        assert sorted(open_table(again).scan().to_arrow()["id"].to_pylist()) == [1, 2]


def _assert_chain_unbroken(location: str) -> None:
    """Each metadata file's log ends with its predecessor, down to the first."""
    path = Path(location.removeprefix("file://"))
    seen = 0
    while True:
        log = json.loads(path.read_bytes()).get("metadata-log", [])
        if not log:
            break
        path = Path(log[-1]["metadata-file"].removeprefix("file://"))
        seen += 1
    assert seen >= 3
