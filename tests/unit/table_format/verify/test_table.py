"""Whatever a table lacks is told by name; a table that lacks nothing has no problems."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace

import pytest

from table_format.errors import Unavailable
from table_format.io.faults import Failing, Rule
from table_format.io.memory import MemoryObjectStore
from table_format.scan.plan import snapshot_manifests
from table_format.verify.table import Verdict, verify
from tests.factories.lake import Lake
from tests.fakes.clock import ManualClock


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


@pytest.fixture
def lake() -> Lake:
    """Three appends, and an equality and a position delete with a file of their commit."""
    made = Lake(MemoryObjectStore(ManualClock()))
    first = made.append_rows({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    made.append_rows({"id": 3, "name": "c"})
    made.row_delta(
        [made.data_file([{"id": 4, "name": "d"}])],
        [made.equality_file([{"id": 3}], [1]), made.position_file([(first.file_path, 0)])],
    )
    made.append_rows({"id": 5, "name": "e"})
    return made


@pytest.fixture
def look(lake: Lake, pool: Executor) -> Callable[..., Verdict]:
    def looked(*, deep: bool = True) -> Verdict:
        table = lake.table
        return verify(lake.store, table.metadata_location, table.metadata.uuid, pool, deep=deep)

    return looked


def manifests(lake: Lake) -> list[str]:
    head = lake.metadata.current_snapshot
    assert head is not None
    return [manifest.path for manifest in snapshot_manifests(lake.store, head)]


def test_a_whole_table_has_no_problems(lake: Lake, look: Callable[..., Verdict]) -> None:
    assert look() == Verdict(snapshots=4, files=look().files)
    lake.rewrite(lake.group())
    found = look()
    assert found == Verdict(snapshots=5, files=found.files)
    # metadata, a list a snapshot, manifests, six written files and the compacted one
    assert found.files > 1 + 5 + 7
    assert look(deep=False).files < found.files


def test_a_missing_metadata_file(lake: Lake, pool: Executor) -> None:
    found = verify(lake.store, f"{lake.metadata.location}/metadata/gone.metadata.json", "u", pool, deep=True)
    assert len(found.problems) == 1
    assert re.match(r"metadata file: .*gone\.metadata\.json", found.problems[0])


def test_another_tables_metadata(lake: Lake, pool: Executor) -> None:
    found = verify(lake.store, lake.table.metadata_location, "another", pool, deep=False)
    assert [lake.metadata.uuid in problem for problem in found.problems] == [True]


@pytest.mark.parametrize("deep", [False, True])
def test_a_missing_manifest_list(lake: Lake, look: Callable[..., Verdict], *, deep: bool) -> None:
    gone = lake.metadata.snapshots[1]
    lake.store.delete_many([gone["manifest-list"]])
    (problem,) = look(deep=deep).problems
    assert problem.startswith(f"manifest list of snapshot {gone['snapshot-id']}: ")
    assert gone["manifest-list"] in problem


@pytest.mark.parametrize("deep", [False, True])
def test_a_missing_manifest(lake: Lake, look: Callable[..., Verdict], *, deep: bool) -> None:
    gone = manifests(lake)[0]
    lake.store.delete_many([gone])
    (problem,) = look(deep=deep).problems
    assert problem.startswith("manifest: ")
    assert gone in problem


def test_a_manifest_that_was_cut(lake: Lake, look: Callable[..., Verdict]) -> None:
    cut = manifests(lake)[0]
    lake.store.put(cut, lake.store.get(cut)[:-20])
    (problem,) = look(deep=False).problems
    assert f"manifest {cut} has" in problem


def test_a_manifest_of_the_right_length_that_is_damaged(lake: Lake, look: Callable[..., Verdict]) -> None:
    damaged = manifests(lake)[0]
    data = lake.store.get(damaged)
    lake.store.put(damaged, data[:-40] + bytes(40))
    assert look(deep=False).problems == []
    (problem,) = look().problems
    assert problem.startswith("manifest: ")
    assert damaged in problem


def test_files_that_are_missing_or_of_another_size(lake: Lake, look: Callable[..., Verdict]) -> None:
    tasks = lake.tasks()
    data = sorted(task.entry.data_file.file_path for task in tasks)
    deletes = sorted({entry.data_file.file_path for task in tasks for entry in task.deletes})
    lake.store.delete_many([data[0], deletes[0]])
    lake.store.put(data[1], b"short")
    assert look(deep=False).problems == []
    told = sorted(look().problems)
    assert [problem.split(" ")[0:2] for problem in told] == [
        ["data", "file"],
        ["data", "file:"],
        ["delete", "file:"],
    ]
    assert data[1] in told[0]
    assert "has 5 bytes, not" in told[0]
    assert data[0] in told[1]
    assert deletes[0] in told[2]


def test_a_summary_that_does_not_add_up(lake: Lake, look: Callable[..., Verdict]) -> None:
    head = lake.metadata.current_snapshot
    assert head is not None
    path, right = lake.table.metadata_location, head["summary"]["total-records"]
    before, _, after = lake.store.get(path).rpartition(b'"total-records":"%s"' % right.encode())
    lake.store.put(path, before + b'"total-records":"77"' + after)
    assert look(deep=False).problems == []
    (problem,) = look().problems
    assert problem == f"snapshot {head['snapshot-id']} says total-records 77, its manifests {right}"


def test_a_file_that_is_listed_twice(lake: Lake, look: Callable[..., Verdict]) -> None:
    twice = lake.data_file([{"id": 6, "name": "f"}])
    lake.append(twice)
    lake.append(replace(twice))
    (problem,) = look().problems
    assert problem == f"data file {twice.file_path} is listed 2 times: its rows count as often"


def test_many_problems_are_counted(lake: Lake, look: Callable[..., Verdict]) -> None:
    files = [lake.data_file([{"id": number, "name": "x"}]) for number in range(120)]
    lake.append(*files)
    lake.store.delete_many([file.file_path for file in files])
    found = look()
    assert len(found.problems) == 101
    assert found.problems[-1] == "and 20 more"


def test_commits_that_the_catalog_does_not_know_of_are_noted(lake: Lake, pool: Executor) -> None:
    old = lake.table
    lake.append_rows({"id": 6, "name": "f"})
    found = verify(lake.store, old.metadata_location, old.metadata.uuid, pool, deep=True)
    assert found.problems == []
    (note,) = found.warnings
    assert note.startswith(f"{lake.table.metadata_location} continues from {old.metadata_location}")


def test_a_store_that_is_away_proves_nothing(lake: Lake, pool: Executor) -> None:
    failing = Failing(lake.store, [Rule(methods=frozenset({"head"}), times=None)])
    with pytest.raises(Unavailable):
        verify(failing, lake.table.metadata_location, lake.metadata.uuid, pool, deep=True)
