"""D1: a writer that appends every 200 ms does not stop compaction, and compaction does not stop the writer."""

import time
from pathlib import Path

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import load_catalog

from tests.process.servers import serving

pytestmark = [pytest.mark.process, pytest.mark.slow]
SECONDS = 60.0
INTERVAL = 0.2
ROWS = 10


@pytest.mark.timeout(240)
def test_compaction_commits_while_a_writer_appends_every_200_ms(tmp_path: Path) -> None:
    with serving(tmp_path, maintenance=True, env={"FRAZIL_MAINTENANCE__TICK_SECONDS": "1"}) as server:
        catalog = load_catalog("c", type="rest", uri=server.iceberg)
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
        answer = requests.put(
            f"{server.api}/buckets/default/policies/icebergCompaction",
            json={"status": "enabled", "settings": {"minInputFiles": 5, "triggerFileCount": 5}},
            timeout=30,
        )
        assert answer.status_code == 200, answer.text

        appends = 0
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            begun = time.monotonic()
            first = appends * ROWS
            table.append(pa.table({"id": pa.array(range(first, first + ROWS), pa.int64())}))
            appends += 1
            time.sleep(max(0.0, INTERVAL - (time.monotonic() - begun)))

        table = catalog.load_table("db.t")
        operations = [
            snapshot.summary.operation.value for snapshot in table.metadata.snapshots if snapshot.summary
        ]
        assert operations.count("append") == appends
        assert appends >= 100
        # It committed again and again while the writer was at it, not only after it had stopped.
        assert operations.count("replace") >= 5
        assert "replace" in operations[: len(operations) // 2]
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(appends * ROWS))
        jobs = requests.get(
            f"{server.api}/jobs", params={"bucket": "default", "pageSize": "200"}, timeout=30
        ).json()
        assert [job for job in jobs["jobs"] if job["state"] == "failed"] == []
