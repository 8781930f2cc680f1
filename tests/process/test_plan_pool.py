"""Planning processes: started when needed, replaced when they die, bounded, and gone in the end."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from catalog_server.services.plan_pool import PlanPool, PoolLimits
from catalog_server.services.plan_process import PlanningCrashed
from catalog_server.services.plan_work import Outcome, PlanJob
from catalog_server.telemetry import REGISTRY
from table_format.errors import Invalid, NoSuchFile, Unavailable
from table_format.io.local import LocalObjectStore
from tests.factories.lake import Lake

pytestmark = [pytest.mark.anyio, pytest.mark.process, pytest.mark.timeout(120)]

LIMITS = PoolLimits(processes=1, queue=1, idle_seconds=60, timeout_seconds=60)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def opened(**limits: Any) -> AsyncIterator[PlanPool]:
    pool = PlanPool(replace(LIMITS, **limits))
    try:
        yield pool
    finally:
        await pool.close()


def running() -> float:
    count = REGISTRY.get_sample_value("frazil_planning_processes")
    assert count is not None
    return count


@pytest.fixture(autouse=True)
def no_process_is_left(anyio_backend: str) -> Any:
    assert running() == 0
    yield
    assert running() == 0


@pytest.fixture
def job(tmp_path: Path) -> PlanJob:
    lake = Lake(LocalObjectStore(), location=f"file://{tmp_path}/t")
    lake.append(lake.data_file([{"id": 1, "name": "a"}]))
    return PlanJob(metadata=lake.metadata.to_bytes(), request={}, page_files=10, page_bytes=1 << 20)


def processes_of(pool: PlanPool) -> list[int]:
    return [process.pid for process in pool._idle]


async def until(holds: Callable[[], bool]) -> None:
    """Let other tasks run until something holds; the test's timeout is the limit."""
    while not holds():
        await asyncio.sleep(0)


def children() -> list[int]:
    """The planning processes that run."""
    pids = [
        int(pid) for task in Path("/proc/self/task").glob("*/children") for pid in task.read_text().split()
    ]
    return [pid for pid in pids if b"plan_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def stuck(pool: PlanPool, job: PlanJob) -> tuple[int, "asyncio.Future[Outcome]"]:
    """A process that will not answer, and what waits for it."""
    if not processes_of(pool):
        await pool.run(job, {})
    (pid,) = processes_of(pool)
    os.kill(pid, signal.SIGSTOP)
    work = asyncio.ensure_future(pool.run(job, {}))
    await until(lambda: processes_of(pool) == [])
    return pid, work


async def test_a_job_is_done_in_a_process_that_is_kept(job: PlanJob) -> None:
    async with opened() as pool:
        first = await pool.run(job, {})
        (pid,) = processes_of(pool)
        assert first.answered == 1
        assert b"00001-d.parquet" in first.tasks
        assert await pool.run(replace(job, page=first.pages[0]), {}) == first
        assert processes_of(pool) == [pid]
        assert pid != os.getpid()


async def test_errors_of_planning_come_out_as_they_are(job: PlanJob) -> None:
    async with opened() as pool:
        with pytest.raises(Invalid, match="nope"):
            await pool.run(replace(job, request={"select": ["nope"]}), {})
        document = orjson.loads(job.metadata)
        document["snapshots"][-1]["manifest-list"] = "file:///nowhere/list.avro"
        with pytest.raises(NoSuchFile, match=r"nowhere/list\.avro"):
            await pool.run(replace(job, metadata=orjson.dumps(document)), {})
        with pytest.raises(PlanningCrashed, match="TypeError"):
            await pool.run(replace(job, request={"unheard-of": 1}), {})
        assert (await pool.run(job, {})).answered == 1


async def test_the_death_of_a_process_that_was_kept_is_not_the_next_jobs_fault(job: PlanJob) -> None:
    async with opened() as pool:
        pid, work = await stuck(pool, job)
        os.kill(pid, signal.SIGKILL)
        assert (await work).answered == 1
        assert processes_of(pool) != [pid]


async def test_a_process_that_dies_at_its_first_job_is_unavailable_and_replaced(job: PlanJob) -> None:
    async with opened() as pool:
        work = asyncio.ensure_future(pool.run(job, {}))
        await until(lambda: children() != [])
        (pid,) = children()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unavailable, match="ended before it answered"):
            await work
        assert (await pool.run(job, {})).answered == 1


async def test_a_process_that_died_idle_is_not_asked(job: PlanJob) -> None:
    async with opened() as pool:
        await pool.run(job, {})
        (process,) = pool._idle
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: not process.alive)
        assert (await pool.run(job, {})).answered == 1


async def test_planning_that_takes_too_long_is_given_up(job: PlanJob) -> None:
    async with opened(timeout_seconds=20) as pool:
        await pool.run(job, {})
        pool._limits = replace(pool._limits, timeout_seconds=0.2)
        _, work = await stuck(pool, job)
        with pytest.raises(Unavailable, match=r"longer than 0\.2 seconds"):
            await work
        assert running() == 0


async def test_nobody_waits_for_an_answer_that_nobody_wants(job: PlanJob) -> None:
    async with opened() as pool:
        _, work = await stuck(pool, job)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert running() == 0


async def test_more_than_may_wait_are_refused(job: PlanJob) -> None:
    async with opened() as pool:
        _, first = await stuck(pool, job)
        second = asyncio.ensure_future(pool.run(job, {}))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match=r"too many scans are being planned \(2\)"):
            await pool.run(job, {})
        first.cancel()
        assert (await second).answered == 1
        assert (await pool.run(job, {})).answered == 1


async def test_idle_processes_end(job: PlanJob) -> None:
    async with opened(idle_seconds=0.01) as pool:
        await pool.run(job, {})
        await until(lambda: running() == 0)
        assert processes_of(pool) == []
        assert (await pool.run(job, {})).answered == 1


async def test_a_process_ends_with_whoever_started_it(job: PlanJob) -> None:
    """Also when that one is killed: the end of its input is all that it needs."""
    async with opened() as pool:
        await pool.run(job, {})
        (process,) = pool._idle
        process.let_go()
        await until(lambda: not process.alive)
        assert process._process.returncode == 0


async def test_ctrl_c_in_the_terminal_is_left_to_the_server(job: PlanJob) -> None:
    async with opened() as pool:
        await pool.run(job, {})
        (pid,) = processes_of(pool)
        os.kill(pid, signal.SIGINT)
        assert (await pool.run(job, {})).answered == 1
        assert processes_of(pool) == [pid]
