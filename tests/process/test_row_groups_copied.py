"""Compaction that copies row groups, by real jobs on local disk and in S3; how little of S3's bytes come here."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from pyiceberg.catalog import load_catalog

from maintenance.compaction.job import run
from maintenance.ports import JobKind
from table_format.clock import SystemClock, SystemIds
from table_format.io.faults import Counting
from table_format.io.resolve import store_for
from table_format.manifest.entries import DataFile
from table_format.schema.arrow import to_arrow
from tests.factories.lake import IDENT, Lake
from tests.fakes.jobs import FakeContext, job
from tests.process.servers import serving
from tests.process.test_worker_killed import FAST, ended
from tests.s3 import S3Server

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
COUNTERS: Any = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "kind", "required": False, "type": "string"},
    ],
}


def noise(number: int, rows: int) -> pa.Table:
    """Numbers that do not compress, and words that do: `rows` times 8 bytes, about."""
    random = np.random.default_rng(number)
    words = np.array(["express", "regular", "final"])
    return pa.table({"id": random.integers(0, 2**62, rows), "kind": words[random.integers(0, 3, rows)]})


def test_a_job_copies_row_groups_of_files_that_pyiceberg_wrote(tmp_path: Path) -> None:
    with serving(tmp_path / "local", env=FAST, maintenance=True) as server:
        catalog = load_catalog("c", type="rest", uri=server.iceberg)
        catalog.create_namespace("db")
        parts = [noise(number, 700_000) for number in range(3)]
        table = catalog.create_table("db.t", parts[0].schema)
        policy = f"{server.api}/buckets/default/policies/icebergCompaction"
        document = {"status": "enabled", "settings": {"minInputFiles": 2, "triggerFileCount": 1000}}
        requests.put(policy, json=document, timeout=30).raise_for_status()
        for part in parts:
            table.append(part)
        jobs = f"{server.api}/buckets/default/namespaces/db/tables/t/jobs"
        asked = requests.post(jobs, json={"kind": "icebergCompaction"}, timeout=30)
        done = ended(server, asked.json()["id"])
        assert done["state"] == "done", done
        figures = done["report"]["figures"]
        assert (figures["groupsCopied"], figures["notCopied"], figures["dataFilesAfter"]) == (1, [], 1)
        found = catalog.load_table("db.t").scan().to_arrow()
        assert found.num_rows == 2_100_000
        wanted = pa.concat_tables(parts)
        assert found.sort_by("id")["id"].to_pylist() == wanted.sort_by("id")["id"].to_pylist()
        assert found.sort_by("id")["kind"].to_pylist() == wanted.sort_by("id")["kind"].to_pylist()


@pytest.fixture
def lake(s3: S3Server) -> Lake:
    """Seven files of 8 MB in S3; the store counts what is read and written."""
    location = f"s3://{s3.bucket()}/ware house/%41"
    clock, ids = SystemClock(), SystemIds()
    store = Counting(store_for(location, s3.properties))
    lake = Lake(store, location=location, schema=COUNTERS, clock=clock, ids=ids)
    files = []
    for number in range(7):
        path = lake.path("d")
        with store.open_output(path) as sink:
            rows = noise(number, 1_000_000).cast(to_arrow(COUNTERS))
            pq.write_table(rows, sink, compression="zstd", write_page_index=True)
        size = store.head(path).size
        files.append(DataFile(file_path=path, record_count=1_000_000, file_size_in_bytes=size))
    lake.append(*files)
    return lake


def test_in_s3_less_than_a_hundredth_of_the_bytes_comes_to_the_worker(lake: Lake) -> None:
    ctx = FakeContext(catalog=lake.catalog, clock=lake.clock, ids=lake.ids, store=lake.store, ident=IDENT)
    size = sum(task.entry.data_file.file_size_in_bytes for task in lake.tasks())
    store = lake.store
    assert isinstance(store, Counting)
    store.reset()
    report = run(ctx, job(JobKind.COMPACTION, IDENT, lake.metadata.uuid))
    through = store.bytes_read + store.bytes_written  # manifests, footers, indexes and samples included
    assert report.figures["groupsCopied"] == 1, report
    assert size > 50_000_000
    assert through < size / 100
    (output,) = [task.entry.data_file for task in lake.tasks()]
    with store.open_input(output.file_path) as source:
        found = pq.read_table(source)
    wanted = pa.concat_tables([noise(number, 1_000_000) for number in range(7)])
    assert found["id"].combine_chunks().equals(wanted["id"].combine_chunks())
    assert found["kind"].cast(pa.string()).combine_chunks().equals(wanted["kind"].combine_chunks())
