"""What is known of the head's data files: by digests of their manifests, and exactly where it is asked for."""

from collections import Counter

import pytest

from table_format.commit import digests, tree
from table_format.commit.tree import HeadTree, NextTree, TreeCache
from table_format.errors import NoSuchFile
from table_format.io.held import Held
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.lines import FileLine
from tests.factories.lake import Lake
from tests.fakes.clock import ManualClock


@pytest.fixture
def lake() -> Lake:
    clock = ManualClock()
    made = Lake(MemoryObjectStore(clock), clock=clock)
    for number in range(4):
        made.append(*(made.data_file([{"id": 2 * number + n, "name": "x"}]) for n in range(2)))
    return made


def live(lake: Lake) -> list[FileLine]:
    return [FileLine.of(task.entry) for task in lake.tasks()]


@pytest.fixture(params=[False, True], ids=["hashes", "one hash for all"])
def _hashes(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if request.param:
        for module in (digests, tree):
            monkeypatch.setattr(module, "hash", lambda _: 7, raising=False)


@pytest.mark.usefixtures("_hashes")
def test_files_are_found_by_their_paths_alone(lake: Lake) -> None:
    head = HeadTree(lake.store, lake.metadata, TreeCache())
    first, *_, last = live(lake)
    head.look_up([first.file_path, last.file_path, "memory://nowhere"])
    assert list(head.at(first.file_path)) == [first]
    assert list(head.at(last.file_path)) == [last]
    assert list(head.at("memory://nowhere")) == []
    assert list(head.at("memory://elsewhere")) == []
    found = [head.holds_any(manifest, {(first.file_path, None)}) for manifest in head.manifests]
    assert sum(found) == 1


@pytest.mark.usefixtures("_hashes")
def test_a_file_that_is_live_twice_is_found_twice_and_listed_once(lake: Lake) -> None:
    twice = lake.tasks()[0].entry.data_file
    lake.append(twice)
    head = HeadTree(lake.store, lake.metadata, TreeCache())
    assert len(head.at(twice.file_path)) == 2
    by_path = list(head.data_by_path(lambda line: line.file_path == twice.file_path))
    counts = Counter(one.line.file_path for same in by_path for one in same)
    assert counts == Counter(line.file_path for line in live(lake))
    assert sorted(len(same) for same in by_path) == [1] * 7 + [2]
    assert all((one.whole is not None) == (len(same) == 2) for same in by_path for one in same)


@pytest.mark.usefixtures("_hashes")
def test_the_counts_after_are_those_of_all_files_less_the_removed(lake: Lake) -> None:
    head = HeadTree(lake.store, lake.metadata, TreeCache())
    gone, *left = live(lake)
    after = NextTree(head, {gone.file_path}, [], set())
    assert (after.counts.data_files, after.counts.records, after.counts.size) == (
        len(left),
        sum(line.record_count for line in left),
        sum(line.file_size_in_bytes for line in left),
    )


def test_a_manifest_that_came_meanwhile_is_read_and_no_other(lake: Lake) -> None:
    cache = TreeCache(held=Held(max_bytes=0))
    before = HeadTree(lake.store, lake.metadata, cache)
    lake.append_rows({"id": 100, "name": "x"})
    for manifest in before.manifests:
        lake.store.delete_many([manifest.path])
    new = HeadTree(lake.store, lake.metadata, cache)
    assert sum(len(digest.hashes) for digest in new.digests.values()) == 9
    with pytest.raises(NoSuchFile):
        list(new.lines(before.manifests[0]))


def test_what_is_held_is_not_asked_for_again_and_has_a_bound() -> None:
    store = MemoryObjectStore(ManualClock())
    for name, size in (("a", 4), ("b", 4), ("c", 4), ("d", 40)):
        store.put(f"memory://{name}", name.encode() * size)
    held = Held(max_bytes=10)
    reads = held.over(store)
    for name in ("a", "b", "d"):
        assert reads.get(f"memory://{name}") == store.get(f"memory://{name}")
    reads.get("memory://a")
    reads.get("memory://c")  # in the place of b
    assert [held.get(f"memory://{name}") is not None for name in "abcd"] == [True, False, True, False]
    assert reads.get("memory://d", (0, 2)) == b"dd"
    assert reads.head("memory://a").size == 4
