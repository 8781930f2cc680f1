"""Files made by copying row groups, read by Java: all rows, and those that page indexes and Bloom filters leave."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maintenance.compaction.job import run
from maintenance.ports import JobKind, JobSettings
from table_format.clock import SystemClock, SystemIds
from table_format.io.local import LocalObjectStore
from table_format.manifest.entries import DataFile
from table_format.schema.arrow import to_arrow
from tests.factories.lake import IDENT, Lake
from tests.fakes.jobs import FakeContext, job
from tests.java.driver import IcebergJava

pytestmark = pytest.mark.java

WRITERS: list[dict[str, Any]] = [
    {"data_page_version": "1.0", "write_page_index": True, "bloom_filter_options": {"name": {"ndv": 300}}},
    {"data_page_version": "2.0", "use_dictionary": False, "write_page_index": True, "compression": "zstd"},
    {"row_group_size": 90, "write_page_index": True, "write_page_checksum": True, "compression": "snappy"},
    {"compression": "gzip", "bloom_filter_options": {"name": {"ndv": 300}, "id": {"ndv": 300}}},
]


def lake_of(tmp_path: Path, options: list[dict[str, Any]]) -> Lake:
    lake = Lake(LocalObjectStore(), location=f"file://{tmp_path}", clock=SystemClock(), ids=SystemIds())
    for number, more in enumerate(options):
        rows = [{"id": n, "name": f"n{n % 50:04d}"} for n in range(number * 300, number * 300 + 300)]
        buffer = io.BytesIO()
        table = pa.Table.from_pylist(rows, schema=to_arrow(lake.metadata.schema()))
        pq.write_table(table, buffer, **{"data_page_size": 500, "write_batch_size": 20, **more})
        path = lake.path("d")
        lake.store.put(path, buffer.getvalue())
        size = len(buffer.getvalue())
        lake.append(DataFile(file_path=path, record_count=300, file_size_in_bytes=size))
    return lake


def by_java(java: IcebergJava, lake: Lake, **request: Any) -> list[tuple[int, str]]:
    found = java.ask("readRows", metadata=lake.table.metadata_location, **request)
    return sorted((int(number), name) for number, name in found)


@pytest.mark.parametrize("place", range(len(WRITERS)))
def test_java_reads_copied_row_groups(java: IcebergJava, tmp_path: Path, place: int) -> None:
    options = [WRITERS[place], WRITERS[place], {**WRITERS[place], "row_group_size": 50}]
    lake = lake_of(tmp_path, options)
    lake.catalog.commit(
        IDENT, [], [{"action": "remove-properties", "removals": ["write.parquet.compression-codec"]}]
    )
    before = by_java(java, lake)
    ctx = FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(min_copied_row_group_bytes=1),
        documents={JobKind.COMPACTION: {"status": "enabled", "settings": {"minInputFiles": 2}}},
        ident=IDENT,
    )
    report = run(ctx, job(JobKind.COMPACTION, IDENT, lake.metadata.uuid))
    assert report.figures["groupsCopied"] == 1, report
    assert by_java(java, lake) == before == [(n, f"n{n % 50:04d}") for n in range(900)]
    for column, value, wanted in (
        ("name", "n0007", [(n, "n0007") for n in range(900) if n % 50 == 7]),
        ("id", 617, [(617, "n0017")]),
        ("name", "n9999", []),
    ):
        filtered = {"type": "eq", "term": column, "value": value}
        assert by_java(java, lake, filter=filtered) == wanted
