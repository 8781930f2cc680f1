"""Plans that take long: submitted, asked for again, cancelled, failed, and taken over by another server process."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.plans import PlanView
from catalog_server.services.principals import ANONYMOUS
from catalog_server.store.plans import PlanState
from table_format.errors import NoSuchFile, NoSuchPlanTask, Unavailable
from table_format.ident import Namespace, TableIdent
from table_format.io.faults import Rule
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import DataFile
from tests.factories.lake import Lake
from tests.factories.platforms import Starter
from tests.factories.scans import names_of

pytestmark = pytest.mark.anyio

IDENT = TableIdent.of("ns", "t")
LISTS = r"/snap-[^/]*\.avro$"


class Gate:
    """A store rule that holds whoever reads a manifest list until it is opened."""

    def __init__(self, error: Callable[[], BaseException] | None = None) -> None:
        self.waiting = threading.Event()
        self.open = threading.Event()
        self.error = error

    def rule(self) -> Rule:
        return _Held(methods=frozenset({"get"}), pattern=LISTS, times=None, gate=self)

    async def reached(self) -> None:
        await asyncio.to_thread(self.waiting.wait, 30)


class _Held(Rule):
    """A rule that waits instead of failing."""

    def __init__(self, gate: Gate, **fields: Any) -> None:
        super().__init__(**fields)
        self._gate = gate

    def due(self, method: Any, paths: Any) -> bool:
        if not super().due(method, paths):
            return False
        self._gate.waiting.set()
        assert self._gate.open.wait(30)
        if self._gate.error is not None:
            raise self._gate.error()
        return False


@pytest.fixture
def starter(start: Starter, memory: MemoryObjectStore) -> Starter:
    """Platforms that plan in threads and make nobody wait."""

    @asynccontextmanager
    async def started(**overrides: Any) -> AsyncIterator[Platform]:
        settings = {"planning.processes": 0, "planning.page_files": 2, "planning.wait_seconds": 0.001}
        async with start(**settings, **overrides) as platform:
            if not await platform.namespaces.exists(ANONYMOUS, "default", Namespace(("ns",))):
                await platform.namespaces.create(ANONYMOUS, "default", Namespace(("ns",)), {})
            yield platform

    return started


def fill(platform: Platform, memory: MemoryObjectStore, *names: str) -> Callable[[], Lake]:
    catalog = platform.catalog("default")

    def run() -> Lake:
        lake = Lake(memory, catalog=catalog, ident=IDENT, clock=platform.clock, ids=platform.ids)
        files = [
            DataFile(
                file_path=f"{lake.metadata.location}/{name}.parquet", record_count=1, file_size_in_bytes=9
            )
            for name in names
        ]
        lake.append(*files)
        return lake

    return run


async def submit(platform: Platform, **request: Any) -> PlanView:
    return await platform.plans.submit(ANONYMOUS, "default", IDENT, request)


async def result(platform: Platform, plan_id: str) -> PlanView:
    return await platform.plans.result(ANONYMOUS, "default", IDENT, plan_id)


async def ended(platform: Platform, plan_id: str) -> PlanView:
    """The plan once it is not submitted any more; the test's timeout is the limit."""
    while (view := await result(platform, plan_id)).state is PlanState.SUBMITTED:
        await asyncio.sleep(0)
    return view


async def names(platform: Platform, view: PlanView) -> list[str]:
    found = []
    for token in view.tokens:
        page = await platform.plans.page(ANONYMOUS, "default", IDENT, token)
        found += names_of(orjson.loads(b"{" + page.tasks + b"}"))
    return found


async def test_a_plan_that_takes_long_is_submitted_and_completed_later(
    starter: Starter, memory: MemoryObjectStore, faults: list[Rule]
) -> None:
    async with starter() as platform:
        await asyncio.to_thread(fill(platform, memory, *"abcde"))
        gate = Gate()
        faults.append(gate.rule())
        view = await submit(platform)
        assert (view.state, view.tasks, view.tokens) == (PlanState.SUBMITTED, b"", ())
        await gate.reached()
        assert (await result(platform, view.id)).state is PlanState.SUBMITTED
        with pytest.raises(NoSuchPlanTask):
            await platform.plans.page(ANONYMOUS, "default", IDENT, f"{view.id}-0")
        gate.open.set()
        done = await ended(platform, view.id)
        assert (done.state, len(done.tokens)) == (PlanState.COMPLETED, 3)
        assert await names(platform, done) == list("abcde")


async def test_another_process_answers_for_a_plan_that_one_sees_through(
    starter: Starter, memory: MemoryObjectStore, faults: list[Rule]
) -> None:
    async with starter() as one, starter() as other:
        await asyncio.to_thread(fill(one, memory, *"abcde"))
        gate = Gate()
        faults.append(gate.rule())
        view = await submit(one)
        await gate.reached()
        seen = faults[0].seen
        assert (await result(other, view.id)).state is PlanState.SUBMITTED
        assert faults[0].seen == seen  # the lease is held: nobody plans twice
        gate.open.set()
        done = await ended(other, view.id)
        assert await names(other, done) == list("abcde")


async def test_a_plan_of_a_stopped_process_is_made_by_the_next_that_is_asked(
    starter: Starter, memory: MemoryObjectStore, faults: list[Rule]
) -> None:
    gate = Gate()
    async with starter() as one:
        await asyncio.to_thread(fill(one, memory, *"abcde"))
        faults.append(gate.rule())
        view = await submit(one)
        await gate.reached()
        stopping = asyncio.ensure_future(one.plans.close())
        await stopping
        gate.open.set()
    faults.clear()
    async with starter() as other:
        assert (await result(other, view.id)).state is PlanState.SUBMITTED
        assert await names(other, await ended(other, view.id)) == list("abcde")


async def test_a_submitted_plan_can_be_cancelled(
    starter: Starter, memory: MemoryObjectStore, faults: list[Rule]
) -> None:
    async with starter() as platform:
        await asyncio.to_thread(fill(platform, memory, *"abcde"))
        gate = Gate()
        faults.append(gate.rule())
        view = await submit(platform)
        await gate.reached()
        await platform.plans.cancel(ANONYMOUS, "default", IDENT, view.id)
        gate.open.set()
        assert (await result(platform, view.id)).state is PlanState.CANCELLED


async def test_a_submitted_plan_that_fails_says_why(
    starter: Starter, memory: MemoryObjectStore, faults: list[Rule]
) -> None:
    async with starter() as platform:
        await asyncio.to_thread(fill(platform, memory, *"abcde"))
        gate = Gate(error=lambda: NoSuchFile("the list is gone (injected)"))
        faults.append(gate.rule())
        view = await submit(platform)
        gate.open.set()
        done = await ended(platform, view.id)
        assert done.state is PlanState.FAILED
        assert done.error == {
            "message": "the list is gone (injected)",
            "type": "NotFoundException",
            "code": 404,
        }


async def test_an_interrupted_plan_is_begun_again_when_asked_for(
    starter: Starter, memory: MemoryObjectStore, faults: list[Rule]
) -> None:
    """Unavailable is no answer to keep: the next who asks has it planned again."""
    async with starter() as platform:
        await asyncio.to_thread(fill(platform, memory, *"abcde"))
        gate = Gate(error=lambda: Unavailable("away (injected)"))
        faults.append(gate.rule())
        view = await submit(platform)
        await gate.reached()
        gate.open.set()
        while platform.plans._background._going:
            await asyncio.sleep(0)
        faults.clear()
        assert await names(platform, await ended(platform, view.id)) == list("abcde")


async def test_more_than_may_wait_are_unavailable(
    starter: Starter, memory: MemoryObjectStore, faults: list[Rule]
) -> None:
    async with starter(**{"planning.queue": 1}) as platform:
        await asyncio.to_thread(fill(platform, memory, *"abcde"))
        gate = Gate()
        faults.append(gate.rule())
        views = [await submit(platform) for _ in range(3)]
        with pytest.raises(Unavailable, match=r"too many scans are being planned \(3\)"):
            await submit(platform)
        gate.open.set()
        for view in views:
            assert len((await ended(platform, view.id)).tokens) == 3


async def test_pages_outlive_the_process_that_planned(starter: Starter, memory: MemoryObjectStore) -> None:
    async with starter() as one:
        await asyncio.to_thread(fill(one, memory, *"abcde"))
        view = await submit(one)
        done = await ended(one, view.id)
    async with starter() as other:
        assert await names(other, done) == list("abcde")
