"""The document cache: within its budget, one read at a time, and derived forms made once."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from catalog_server.services.documents import Document, DocumentCache
from catalog_server.services.stores import Stores
from table_format.clock import SystemClock
from table_format.errors import Invalid, NoSuchFile, Unavailable
from table_format.io.faults import Failing, Rule
from table_format.io.memory import MemoryObjectStore
from table_format.metadata import codec
from table_format.metadata.create import new_table
from table_format.metadata.document import TableMetadata
from tests.factories.commits import SCHEMA
from tests.factories.views import view

pytestmark = pytest.mark.anyio

METADATA = new_table(
    schema=SCHEMA,
    partition_spec=None,
    write_order=None,
    properties={},
    location="memory://x/t",
    uuid="11111111-2222-4333-8444-555555555555",
    now_ms=1,
)
WEIGHT = Document("x", METADATA.to_bytes(), METADATA).weight


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def store() -> Failing:
    return Failing(MemoryObjectStore(SystemClock()))


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def cache(store: Failing, threads: ThreadPoolExecutor, max_bytes: int) -> DocumentCache:
    stores = Stores(lambda _: store)
    return DocumentCache(stores, threads, max_bytes=max_bytes, max_metadata_bytes=1 << 20)


def document(name: str, metadata: TableMetadata = METADATA) -> Document:
    return Document(name, metadata.to_bytes(), metadata)


def test_the_least_recently_used_goes_first(store: Failing, threads: ThreadPoolExecutor) -> None:
    kept = cache(store, threads, 3 * WEIGHT)
    for name in ("a", "b", "c"):
        kept.put(document(name))
    assert kept.peek("a") is not None
    kept.put(document("d"))
    assert [name for name in "abcd" if kept.peek(name)] == ["a", "c", "d"]
    kept.put(document("d"))  # again: not counted twice
    assert [name for name in "abcd" if kept.peek(name)] == ["a", "c", "d"]


def test_derived_forms_count(store: Failing, threads: ThreadPoolExecutor) -> None:
    kept = cache(store, threads, 3 * WEIGHT)
    for name in ("a", "b", "c"):
        kept.put(document(name))
    found = kept.peek("a")
    assert found is not None
    found.variant("big", lambda raw: b"x" * WEIGHT)
    assert kept.peek("a") is found
    kept.put(document("c"))
    assert [name for name in "abc" if kept.peek(name)] == ["a", "c"]


def test_what_is_larger_than_the_budget_is_not_kept(store: Failing, threads: ThreadPoolExecutor) -> None:
    kept = cache(store, threads, WEIGHT - 1)
    kept.put(document("a"))
    assert kept.peek("a") is None
    assert cache(store, threads, 0).peek("a") is None


def test_a_form_is_derived_once_even_by_many_threads() -> None:
    made: list[bytes] = []
    start = threading.Barrier(8)
    one = document("a")

    def make(raw: bytes) -> bytes:
        made.append(raw)
        return b"form"

    def derive() -> bytes:
        start.wait()
        return one.variant("form", make)

    with ThreadPoolExecutor(8) as pool:
        assert {future.result() for future in [pool.submit(derive) for _ in range(8)]} == {b"form"}
    assert made == [one.raw]


async def test_one_read_serves_all_who_ask_at_once(store: Failing, threads: ThreadPoolExecutor) -> None:
    codec.write(store, "memory://x/m.json", METADATA)
    counted = Rule(methods=frozenset({"get"}), nth=10**9)
    store.rules.append(counted)
    kept = cache(store, threads, 10 * WEIGHT)
    found = await asyncio.gather(*(kept.load("memory://x/m.json") for _ in range(10)))
    assert counted.seen == 1
    assert all(one is found[0] for one in found)
    assert await kept.load("memory://x/m.json") is found[0]
    assert found[0].metadata == METADATA


async def test_one_who_is_cancelled_does_not_take_the_others_along(
    store: Failing, threads: ThreadPoolExecutor
) -> None:
    codec.write(store, "memory://x/m.json", METADATA)
    kept = cache(store, threads, 10 * WEIGHT)
    tasks = [asyncio.create_task(kept.load("memory://x/m.json")) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    outcomes: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1].metadata == outcomes[2].metadata == METADATA


async def test_a_failed_read_is_not_remembered(store: Failing, threads: ThreadPoolExecutor) -> None:
    kept = cache(store, threads, 10 * WEIGHT)
    with pytest.raises(NoSuchFile, match=r"Failed to open input stream for file: memory://x/m\.json"):
        await kept.load("memory://x/m.json")
    codec.write(store, "memory://x/m.json", METADATA)
    store.rules.append(Rule(methods=frozenset({"get"})))
    with pytest.raises(Unavailable):
        await kept.load("memory://x/m.json")
    assert (await kept.load("memory://x/m.json")).metadata == METADATA


async def test_tables_and_views_are_told_apart_whatever_lay_at_the_address(
    store: Failing, threads: ThreadPoolExecutor
) -> None:
    store.put("memory://x/t", METADATA.to_bytes())
    store.put("memory://x/v", view().to_bytes())
    kept = cache(store, threads, 100 * WEIGHT)
    assert (await kept.load_view("memory://x/v")).metadata == view()
    assert kept.peek("memory://x/v") is None
    assert (await kept.load("memory://x/t")).metadata == METADATA
    with pytest.raises(Invalid, match="memory://x/v is not a readable table metadata file"):
        await kept.load("memory://x/v")
    with pytest.raises(Invalid, match="memory://x/t is not a readable view metadata file"):
        await kept.load_view("memory://x/t")
    store.put("memory://x/v", METADATA.to_bytes())
    assert (await kept.load("memory://x/v")).metadata == METADATA
    assert kept.peek("memory://x/v") is not None
