"""A metadata file that is in the way is somebody else's: it is refused, and never deleted."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

from catalog_server.services.commit_plan import Current, Planned
from catalog_server.services.metadata_files import MetadataFiles
from table_format.clock import SystemClock
from table_format.errors import AlreadyExists, Unavailable
from table_format.ident import TableIdent
from table_format.io.faults import Failing, Rule
from table_format.io.memory import MemoryObjectStore
from table_format.io.store import ObjectStore
from table_format.metadata import codec
from tests.factories.metadata_documents import table

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


class OneStore:
    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def store_for(self, _location: str) -> ObjectStore:
        return self.store


class RepeatingIds:
    """Ids that break their promise: every uuid is the same."""

    def uuid(self) -> str:
        return "00000000-0000-4000-8000-000000000001"

    def snapshot_id(self) -> int:
        return 1

    def jitter(self, low: float, high: float) -> float:
        return low


def files_over(store: ObjectStore, threads: Executor) -> MetadataFiles:
    return MetadataFiles(OneStore(store), RepeatingIds(), threads)  # type: ignore[arg-type]


def planned(metadata: Any) -> Planned:
    return Planned(
        ident=TableIdent.of("ns", "t"),
        current=Current(row=None, base=None, layers=()),
        metadata=metadata,
        new_places=(),
        jobs=(),
    )


def in_memory() -> tuple[MemoryObjectStore, Any, str]:
    metadata = table(location="memory://b/t")
    return MemoryObjectStore(SystemClock()), metadata, codec.new_location(metadata, None, RepeatingIds())


async def test_a_file_in_the_way_of_a_table_stays(threads: Executor) -> None:
    store, metadata, location = in_memory()
    store.put(location, b"somebody else's")
    with pytest.raises(AlreadyExists):
        await files_over(store, threads).write([planned(metadata)])
    assert store.get(location) == b"somebody else's"


async def test_a_file_in_the_way_of_a_view_stays(threads: Executor) -> None:
    store, metadata, location = in_memory()
    store.put(location, b"somebody else's")
    with pytest.raises(AlreadyExists):
        await files_over(store, threads).write_view(metadata, None)
    assert store.get(location) == b"somebody else's"


async def test_a_file_of_ours_that_may_be_half_there_goes(threads: Executor) -> None:
    store, metadata, location = in_memory()
    failing = Failing(store, [Rule(methods=("put",), after=True, error=lambda: Unavailable("away"))])
    with pytest.raises(Unavailable):
        await files_over(failing, threads).write([planned(metadata)])
    assert not store.exists(location)


async def test_a_cancelled_write_deletes_nothing(threads: Executor) -> None:
    store, metadata, location = in_memory()
    store.put(location, b"somebody else's")
    go_on = threading.Event()
    threads.submit(go_on.wait)
    writing = asyncio.create_task(files_over(store, threads).write_view(metadata, None))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert store.get(location) == b"somebody else's"
