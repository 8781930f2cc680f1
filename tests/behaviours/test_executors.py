"""One behaviour of all executors: inline, a pool of processes, and a real Ray on this machine."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from maintenance.compaction.job import run
from maintenance.executors.choice import executor_of
from maintenance.executors.kinds import ExecutorKind
from maintenance.executors.port import Ended, Executor, MemoryExceeded, Pace, Reach, Stopped, WorkLost
from maintenance.ports import JobKind
from maintenance.report import Outcome
from maintenance.statistics.job import run as compute_statistics
from table_format.errors import Internal, Invalid
from table_format.io.local import LocalObjectStore
from table_format.io.memory import MemoryObjectStore
from tests.factories.lake import BY_NAME, IDENT, Lake
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job
from tests.fakes.works import MEMORY, Act

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]
ELSEWHERE = [ExecutorKind.PROCESS, ExecutorKind.RAY]
TIERS = [{"belowBytes": 1024 * 16, "targetBytes": 1024 * 64}]


@pytest.fixture(scope="module", params=list(ExecutorKind))
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    yield from _made(request.param)


@pytest.fixture(scope="module", params=ELSEWHERE)
def elsewhere(request: pytest.FixtureRequest) -> Iterator[Executor]:
    yield from _made(request.param)


def _made(kind: ExecutorKind) -> Iterator[Executor]:
    made = executor_of(kind, side_by_side=2, memory_mb=MEMORY >> 20, most_memory_mb=0, ray_address="")
    yield made
    made.close()


@pytest.fixture
def reach(tmp_path: Path) -> Reach:
    (tmp_path / "input").write_bytes(b"rows")
    return Reach(
        location=tmp_path.as_uri(), properties={}, within=tmp_path.as_uri(), store=LocalObjectStore()
    )


def go_on() -> None:
    """Nothing stops."""


def done(executor: Executor, reach: Reach, *works: Act) -> dict[str, Ended[Any]]:
    outcomes = list(executor.run(works, reach, go_on))
    assert len(outcomes) == len(works)
    return {ended.work.name: ended for ended in outcomes if isinstance(ended.work, Act)}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"


def test_all_are_executed_and_their_calls_counted(executor: Executor, reach: Reach, tmp_path: Path) -> None:
    found = done(executor, reach, *(Act("copy", tmp_path, f"out{n}") for n in range(5)))
    assert sorted(ended.result[0] for ended in found.values()) == [f"out{n}" for n in range(5)]
    assert {(tmp_path / f"out{n}").read_bytes() for n in range(5)} == {b"rows"}
    assert all(ended.calls == {"read": 1, "write": 1} for ended in found.values())
    assert all(ended.error is None and ended.seconds >= 0 for ended in found.values())


def test_pieces_go_no_faster_than_they_may(executor: Executor, reach: Reach, tmp_path: Path) -> None:
    """Four bytes in and four out, wherever that is: at two a second, with a second's worth free."""
    slow = replace(reach, pace=lambda: Pace(bytes_per_second=2, pieces=1))
    (ended,) = done(executor, slow, Act("copy", tmp_path, "slow")).values()
    assert ended.error is None
    assert 1.9 < ended.throttled <= ended.seconds
    assert (tmp_path / "slow").read_bytes() == b"rows"


def test_nothing_to_do(executor: Executor, reach: Reach) -> None:
    assert list(executor.run([], reach, go_on)) == []


def test_an_error_is_that_of_its_piece_alone(executor: Executor, reach: Reach, tmp_path: Path) -> None:
    found = done(executor, reach, Act("refuse", tmp_path, "bad"), Act("copy", tmp_path, "good"))
    assert isinstance(found["bad"].error, Invalid)
    assert found["bad"].error.message == "bad makes no sense"
    assert found["good"].error is None


def test_pieces_are_asked_for_when_they_can_begin(executor: Executor, reach: Reach, tmp_path: Path) -> None:
    asked = []

    def works() -> Iterator[Act]:
        for number in range(6):
            asked.append(number)
            yield Act("copy", tmp_path, f"out{number}")

    outcomes = executor.run(works(), reach, go_on)
    next(outcomes)
    assert len(asked) <= 3
    assert len(list(outcomes)) == 5


def test_what_asks_for_pieces_may_stop_all(executor: Executor, reach: Reach, tmp_path: Path) -> None:
    def works() -> Iterator[Act]:
        yield Act("copy", tmp_path, "first")
        raise Stopped

    with pytest.raises(Stopped):
        list(executor.run(works(), reach, go_on))
    assert [ended.error for ended in done(executor, reach, Act("copy", tmp_path, "later")).values()] == [None]


def test_objects_in_memory_are_reached_where_they_are(executor: Executor, tmp_path: Path) -> None:
    store = MemoryObjectStore(ManualClock())
    store.put((tmp_path / "input").as_uri().replace("file://", "memory://w"), b"rows")
    reach = Reach(location="memory://w", properties={}, within="memory://w", store=store)
    (ended,) = executor.run([Act("refuse", tmp_path, "here")], reach, go_on)
    assert isinstance(ended.error, Invalid)


def test_pieces_run_side_by_side_elsewhere(elsewhere: Executor, reach: Reach, tmp_path: Path) -> None:
    found = done(elsewhere, reach, Act("meet", tmp_path, "a"), Act("meet", tmp_path, "b"))
    pids = {ended.result[1] for ended in found.values()}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_a_process_that_dies_takes_its_one_piece_along(
    elsewhere: Executor, reach: Reach, tmp_path: Path
) -> None:
    works = [Act("copy", tmp_path, "a"), Act("die", tmp_path, "dead"), Act("copy", tmp_path, "b")]
    found = done(elsewhere, reach, *works, Act("copy", tmp_path, "c"))
    assert isinstance(found["dead"].error, WorkLost)
    assert found["dead"].error.message.startswith("die dead: ")
    assert [found[name].error for name in "abc"] == [None] * 3


def test_too_much_memory_ends_the_piece(elsewhere: Executor, reach: Reach, tmp_path: Path) -> None:
    refused_for_memory(elsewhere, reach, tmp_path, "eat")


def test_too_much_memory_amid_a_step_ends_the_process(reach: Reach, tmp_path: Path) -> None:
    """On Ray its own monitor does that, by the memory of the machine."""
    for pool in _made(ExecutorKind.PROCESS):
        refused_for_memory(pool, reach, tmp_path, "gorge")


def refused_for_memory(executor: Executor, reach: Reach, folder: Path, deed: str) -> None:
    found = done(executor, reach, Act(deed, folder, "greedy"), Act("copy", folder, "modest"))
    assert isinstance(found["greedy"].error, MemoryExceeded)
    assert "more than 300 MB of memory" in found["greedy"].error.message
    assert "maintenance.group_memory_mb" in found["greedy"].error.message
    assert found["modest"].error is None


def test_what_nobody_expected_is_an_error_of_its_piece(
    elsewhere: Executor, reach: Reach, tmp_path: Path
) -> None:
    found = done(elsewhere, reach, Act("crash", tmp_path, "bug"), Act("copy", tmp_path, "good"))
    assert isinstance(found["bug"].error, Internal)
    assert "ZeroDivisionError: bug" in found["bug"].error.message
    assert found["good"].error is None


@pytest.mark.parametrize("deed", ["wait", "hang"])
def test_a_stop_ends_what_runs_and_awaits_its_end(
    elsewhere: Executor, reach: Reach, tmp_path: Path, deed: str
) -> None:
    works = [Act(deed, tmp_path, "a"), Act(deed, tmp_path, "b"), Act("copy", tmp_path, "never")]

    def stop() -> None:
        if all(work.began.exists() and work.began.read_text() for work in works[:2]):
            raise Stopped

    with pytest.raises(Stopped):
        list(elsewhere.run(works, reach, stop))
    until(lambda: not any(runs(int(work.began.read_text())) for work in works[:2]))
    assert not (tmp_path / "never").exists()
    assert done(elsewhere, reach, Act("copy", tmp_path, "later"))["later"].error is None


def lake_at(folder: Path) -> Lake:
    clock = ManualClock()
    made = Lake(LocalObjectStore(), location=folder.as_uri(), clock=clock, spec=BY_NAME)
    for name in ("x", "y"):
        for number in range(4):
            made.append_rows(
                {"id": number, "name": name}, {"id": 10 + number, "name": name}, partition=(name,)
            )
    gone = made.tasks()[0].entry.data_file
    made.row_delta([], [made.position_file([(gone.file_path, 0)], partition=gone.partition)])
    made.row_delta([], [made.equality_file([{"id": 12, "name": "x"}], [1], partition=("x",))])
    return made


def compact(lake: Lake, executor: Executor) -> Any:
    document = {"status": "enabled", "settings": {"tiers": TIERS, "minInputFiles": 2}}
    ctx = FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        documents={JobKind.COMPACTION: document},
        ident=IDENT,
        executor=executor,
    )
    return run(ctx, job(JobKind.COMPACTION, IDENT, lake.metadata.uuid or ""))


def outputs(lake: Lake) -> list[str]:
    return [info.path for info in lake.store.list(lake.metadata.location) if "compact-" in info.path]


def test_a_compaction_gives_the_same_table(executor: Executor, tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    rows = lake.rows()
    report = compact(lake, executor)
    assert (report.outcome, report.figures["groups"]) == (Outcome.DONE, 2)
    assert (lake.rows(), len(lake.tasks()), len(outputs(lake))) == (rows, 2, 2)
    assert report.figures["rowsDeleted"] == 2
    assert int(lake.summary["total-delete-files"]) == 0
    assert compact(lake, executor).outcome is Outcome.NOTHING


def test_distinct_values_are_counted_there(executor: Executor, tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    ctx = FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        documents={JobKind.STATISTICS: {"status": "enabled", "settings": {}}},
        ident=IDENT,
        executor=executor,
    )
    report = compute_statistics(ctx, job(JobKind.STATISTICS, IDENT, lake.metadata.uuid or ""))
    assert report.figures["distinctValues"] == [f"id {len({row['id'] for row in lake.rows()})}", "name 2"]
    assert report.figures["rowsRead"] == len(lake.rows())


def test_a_group_that_can_not_be_read_stops_no_other(executor: Executor, tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    broken = next(t for t in lake.tasks() if t.entry.data_file.partition == ("y",)).entry.data_file.file_path
    Path(broken.removeprefix("file://")).write_bytes(b"no Parquet")
    with pytest.raises(Invalid, match="not a readable Parquet file"):
        compact(lake, executor)
    partitions = [task.entry.data_file.partition for task in lake.tasks()]
    assert sorted(partitions) == [("x",), *[("y",)] * 4]
    assert len(outputs(lake)) == 1
