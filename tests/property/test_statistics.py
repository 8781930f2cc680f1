"""Any history of writes and compactions, with statistics computed in between: they tell what the rows and files are."""

import io
from collections import Counter
from functools import partial

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import StaticTable

from maintenance.ports import URGENT_PRIORITY, JobKind
from maintenance.report import Outcome
from maintenance.statistics.job import run
from table_format.io.local import LocalObjectStore
from table_format.io.memory import MemoryObjectStore
from tests.factories.delete_histories import History, steps
from tests.factories.lake import IDENT, Lake
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

COLUMNS = {1: 0, 2: 1, 3: 2}
GROUPED = """
    SELECT spec, by_name,
        coalesce(sum(records) FILTER (content = 'DATA'), 0), count(*) FILTER (content = 'DATA'),
        coalesce(sum(bytes) FILTER (content = 'DATA'), 0),
        coalesce(sum(records) FILTER (content = 'POSITION_DELETES'), 0),
        count(*) FILTER (content = 'POSITION_DELETES'),
        coalesce(sum(records) FILTER (content = 'EQUALITY_DELETES'), 0),
        count(*) FILTER (content = 'EQUALITY_DELETES')
    FROM files GROUP BY ALL ORDER BY by_name NULLS FIRST, spec
"""


def compute(lake):
    ctx = FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        documents={JobKind.STATISTICS: {"status": "enabled"}},
        ident=IDENT,
    )
    wanted = job(JobKind.STATISTICS, IDENT, str(lake.metadata.uuid), priority=URGENT_PRIORITY)
    report = run(ctx, wanted)
    assert report.outcome in (Outcome.DONE, Outcome.NOTHING)
    return report


@settings(max_examples=20, deadline=None)
@given(partitioned=st.booleans(), script=steps, often=st.integers(1, 3))
def test_distinct_values_are_those_of_the_rows_at_every_snapshot(partitioned, script, often):
    clock = ManualClock()
    history = History.of(partial(Lake, MemoryObjectStore(clock), clock=clock), partitioned=partitioned)
    lake = history.lake
    for number, step in enumerate(script, 1):
        history.play(step)
        if number % often == 0:
            compute(lake)
            assert compute(lake).outcome is Outcome.NOTHING
            assert history.by_us() == sorted(history.rows)
    for entry in lake.metadata.statistics:
        rows = history.at[entry["snapshot-id"]]
        told = {blob["fields"][0]: int(blob["properties"]["ndv"]) for blob in entry["blob-metadata"]}
        assert told == {column: len({row[place] for row in rows}) for column, place in COLUMNS.items()}


def entries_by_pyiceberg(lake):
    """Live entries, as PyIceberg reads them from the manifests."""
    table = StaticTable.from_metadata(lake.table.metadata_location)
    reader = PyArrowFileIO()
    for manifest in table.current_snapshot().manifests(reader):
        for entry in manifest.fetch_manifest_entry(reader, discard_deleted=True):
            file = entry.data_file
            name = file.partition[0] if len(file.partition) else None
            yield {
                "spec": manifest.partition_spec_id,
                "by_name": name,
                "content": file.content.name,
                "records": file.record_count,
                "bytes": file.file_size_in_bytes,
            }


@settings(max_examples=15, deadline=None)
@given(partitioned=st.booleans(), script=steps)
def test_partition_statistics_are_the_grouped_files(tmp_path_factory, partitioned, script):
    clock = ManualClock()
    make = partial(Lake, LocalObjectStore(), location=tmp_path_factory.mktemp("lake").as_uri(), clock=clock)
    history = History.of(make, partitioned=partitioned)
    for step in script:
        history.play(step)
    lake = history.lake
    compute(lake)
    if not history.partitioned or lake.metadata.current_snapshot_id is None:
        assert lake.metadata.partition_statistics == []
        return
    (entry,) = lake.metadata.partition_statistics
    raw = lake.store.get(entry["statistics-path"])
    assert len(raw) == entry["file-size-in-bytes"]
    table = pq.read_table(io.BytesIO(raw))
    found = list(entries_by_pyiceberg(lake))
    schema = pa.schema(
        {"spec": "int64", "by_name": "string", "content": "string", "records": "int64", "bytes": "int64"}
    )
    with duckdb.connect() as connection:
        connection.register("files", pa.Table.from_pylist(found, schema))
        expected = connection.execute(GROUPED).fetchall()
    assert [
        (
            row["spec_id"],
            next(iter(row["partition"].values())),
            row["data_record_count"],
            row["data_file_count"],
            row["total_data_file_size_in_bytes"],
            row["position_delete_record_count"],
            row["position_delete_file_count"],
            row["equality_delete_record_count"],
            row["equality_delete_file_count"],
        )
        for row in table.to_pylist()
    ] == expected
    names = Counter(row[1] for row in history.rows)
    for row in table.to_pylist():
        if row["total_record_count"] is not None and len(lake.metadata.partition_specs) == 1:
            assert row["total_record_count"] == names[next(iter(row["partition"].values()))]
    assert history.by_us() == sorted(history.rows)
