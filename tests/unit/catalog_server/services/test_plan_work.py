"""The work of planning: what comes at once, what comes in pages, and pages that are too long for an answer."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from catalog_server.services.plan_work import Outcome, PlanJob, Planner
from table_format.clock import SystemClock
from table_format.io.faults import Counting
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import DataFile
from tests.factories.lake import Lake
from tests.factories.scans import deletes_of, names_of


@pytest.fixture
def store() -> Counting:
    return Counting(MemoryObjectStore(SystemClock()))


@pytest.fixture
def lake(store: Counting) -> Lake:
    return Lake(store)


def append(lake: Lake, *names: str) -> None:
    lake.append(
        *[
            DataFile(
                file_path=f"{lake.metadata.location}/{name}.parquet", record_count=1, file_size_in_bytes=9
            )
            for name in names
        ]
    )


def job(lake: Lake, **changes: Any) -> PlanJob:
    made = PlanJob(metadata=lake.metadata.to_bytes(), request={}, page_files=3, page_bytes=1 << 20)
    return replace(made, **changes)


def answer(outcome: Outcome) -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads(b"{" + outcome.tasks + b"}")
    return read


def all_names(planner: Planner, first: PlanJob) -> list[str]:
    """Every page followed to its end, as a client does."""
    outcome = planner.run(first)
    found = names_of(answer(outcome)) if outcome.tasks else []
    for page in outcome.pages[outcome.answered :]:
        found += all_names(planner, replace(first, page=page))
    return found


def test_the_first_answer_is_as_long_as_a_page(lake: Lake, store: Counting) -> None:
    append(lake, *"abcdefgh")
    outcome = Planner(lambda _: store).run(job(lake))
    assert names_of(answer(outcome)) == ["a", "b", "c"]
    assert (len(outcome.pages), outcome.answered) == (3, 1)


def test_pages_that_are_empty_or_fit_come_with_the_first_answer(lake: Lake, store: Counting) -> None:
    append(lake, "a")
    append(lake, "b", "c", "d", "e")
    outcome = Planner(lambda _: store).run(job(lake, page_files=5))
    assert (names_of(answer(outcome)), outcome.answered) == (["b", "c", "d", "e", "a"], 1)
    outcome = Planner(lambda _: store).run(job(lake, page_files=4))
    assert (names_of(answer(outcome)), outcome.answered) == (["b", "c", "d", "e"], 1)


@pytest.mark.parametrize("files", [1, 2, 5, 17, 100])
@pytest.mark.parametrize("page_bytes", [1, 300, 700, 2000, 1 << 20])
def test_too_long_a_page_is_cut_until_each_part_fits(
    lake: Lake, store: Counting, files: int, page_bytes: int
) -> None:
    names = [f"f{number:03}" for number in range(files)]
    for start in range(0, files, 7):
        append(lake, *names[start : start + 7])
    planner = Planner(lambda _: store)
    found = all_names(planner, job(lake, page_files=50, page_bytes=page_bytes))
    assert sorted(found) == names


def test_no_answer_is_longer_than_allowed_unless_it_is_of_one_file(lake: Lake, store: Counting) -> None:
    append(lake, *[f"f{number}" for number in range(9)])
    planner = Planner(lambda _: store)
    first = job(lake, page_files=50, page_bytes=700)
    waiting = [first]
    lengths = []
    while waiting:
        outcome = planner.run(waiting.pop())
        lengths.append(len(outcome.tasks))
        waiting += [replace(first, page=page) for page in outcome.pages[outcome.answered :]]
    assert max(lengths) <= 700
    tight = Planner(lambda _: store).run(job(lake, page_bytes=10, page=[0, 4, 0, 5]))
    assert (names_of(answer(tight)), tight.pages, tight.answered) == (["f4"], [[0, 4, 0, 5]], 1)


def test_deletes_are_numbered_anew_in_each_page(lake: Lake, store: Counting) -> None:
    append(lake, *"abcdef")
    lake.row_delta([], [lake.equality_file([{"id": 1}], [1]), lake.equality_file([{"id": 2}], [1])])
    planner = Planner(lambda _: store)
    outcome = planner.run(job(lake))
    for tasks in (outcome, planner.run(job(lake, page=outcome.pages[1]))):
        assert [len(deletes) for deletes in deletes_of(answer(tasks)).values()] == [2, 2, 2]
        assert len(answer(tasks)["delete-files"]) == 2


def test_an_open_scan_is_kept_for_its_next_pages(lake: Lake, store: Counting) -> None:
    append(lake, *"abcdefgh")
    planner = Planner(lambda _: store, keep=1)
    outcome = planner.run(job(lake))
    lists = store.calls["get"]
    planner.run(job(lake, page=outcome.pages[1]))
    assert store.calls["get"] - lists == 1  # the manifest, not its list
    forgetful = Planner(lambda _: store)
    forgetful.run(job(lake, page=outcome.pages[1]))
    assert store.calls["get"] - lists == 3


def test_another_request_is_another_scan(lake: Lake, store: Counting) -> None:
    append(lake, "a")
    head = lake.metadata.current_snapshot_id
    append(lake, "b")
    planner = Planner(lambda _: store, keep=1)
    assert names_of(answer(planner.run(job(lake)))) == ["b", "a"]
    assert names_of(answer(planner.run(job(lake, request={"snapshot-id": head})))) == ["a"]
    assert names_of(answer(planner.run(job(lake)))) == ["b", "a"]
