"""What is counted in a table's manifests, how often, and what is told of one that is too large to count."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from catalog_server.services.documents import Document
from catalog_server.services.handles import TableHandle
from catalog_server.services.statistics import CountLimits, Statistics, StatisticsService, statistics
from catalog_server.services.stores import Stores
from table_format.clock import SystemClock
from table_format.errors import NoSuchFile, NoSuchTable
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import Content, DataFile
from tests.factories.lake import IDENT, Lake
from tests.fakes.clock import ManualClock

pytestmark = pytest.mark.anyio
MIB = 1 << 20


@pytest.fixture
def lake() -> Lake:
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock)


def counted(lake: Lake, **limits: Any) -> Statistics:
    return statistics(lake.store, lake.metadata, 100, lake.clock, CountLimits(**limits))


def file(lake: Lake, name: str, size: int, **changes: Any) -> DataFile:
    made = DataFile(
        file_path=f"{lake.metadata.location}/data/{name}", record_count=2, file_size_in_bytes=size
    )
    return replace(made, **changes)


async def test_files_rows_and_bytes_by_size(lake: Lake) -> None:
    empty = counted(lake)
    assert (empty.data_files, empty.bytes, empty.partitions, empty.complete) == (0, 0, 0, True)
    lake.append(
        file(lake, "a", 10), file(lake, "b", MIB - 1), file(lake, "c", MIB), file(lake, "d", 600 * MIB)
    )
    lake.row_delta([], [file(lake, "e", 7, content=Content.POSITION_DELETES)])
    found = counted(lake)
    assert (found.data_files, found.records, found.bytes) == (4, 8, 602 * MIB + 9)
    assert (found.delete_files, found.delete_records, found.delete_bytes) == (1, 2, 7)
    assert (found.partitions, found.snapshots, found.manifests, found.metadata_bytes) == (1, 2, 2, 100)
    told = {one.below_bytes: (one.files, one.bytes) for one in found.file_sizes if one.files}
    assert told == {MIB: (2, MIB + 9), 8 * MIB: (1, MIB), None: (1, 600 * MIB)}
    assert sum(one.files for one in found.delete_file_sizes) == 1
    assert found.complete


@pytest.mark.parametrize("limits", [{"files": 1}, {"seconds": -1.0}])
async def test_of_a_table_too_large_to_count_the_summary_tells(lake: Lake, limits: dict[str, Any]) -> None:
    lake.append(file(lake, "a", 10))
    lake.append(file(lake, "b", 20), file(lake, "c", 30))
    found = counted(lake, **limits)
    assert not found.complete
    assert (found.data_files, found.records, found.bytes) == (3, 6, 60)
    assert sum(one.files for one in found.file_sizes) < 3


async def test_it_is_counted_once_for_all_who_ask_and_again_after_a_commit(lake: Lake) -> None:
    lake.append(file(lake, "a", 10))
    reads: list[str] = []

    class Watching(MemoryObjectStore):
        def get(self, path: str, *rest: Any, **named: Any) -> bytes:
            reads.append(path)
            return lake.store.get(path, *rest, **named)

    watched = Watching(SystemClock())
    with ThreadPoolExecutor(2) as threads:
        service = StatisticsService(Stores(lambda _: watched), threads, SystemClock(), remembered=1)

        def handle() -> TableHandle:
            table = lake.table
            document = Document(table.metadata_location, table.metadata.to_bytes(), table.metadata)
            return TableHandle(
                bucket="default",
                ident=IDENT,
                metadata_location=table.metadata_location,
                document=document,
                row=None,
            )

        first = handle()
        found = await asyncio.gather(*(service.of(first) for _ in range(5)))
        assert {one.data_files for one in found} == {1}
        once = len(reads)
        assert once > 0
        await service.of(first)
        assert len(reads) == once
        lake.append(file(lake, "b", 10))
        assert (await service.of(handle())).data_files == 2
        assert len(reads) > once

        with pytest.raises(NoSuchTable):
            await service.of(replace(first, metadata_location=None))
        lake.append(file(lake, "c", 10))
        lake.store.delete_many(
            [one.path for one in lake.store.list(lake.metadata.location) if one.path.endswith("avro")]
        )
        with pytest.raises(NoSuchFile):
            await service.of(handle())
