from typing import Any

import pytest

from table_format.commit.change import Change
from table_format.commit.expire import expire
from table_format.errors import CommitFailed, Invalid, NoSuchFile, RequirementFailed, Unavailable
from table_format.io.faults import Counting, Failing, Rule
from table_format.io.memory import MemoryObjectStore
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import snapshot_manifests
from tests.factories.lake import IDENT, Lake
from tests.factories.reach import files_reachable
from tests.fakes.clock import ManualClock


def row(number: int, name: str = "a") -> dict[str, Any]:
    return {"id": number, "name": name}


@pytest.fixture
def lake() -> Lake:
    return Lake(MemoryObjectStore(ManualClock()))


def ids_of(lake: Lake) -> list[int]:
    return [snapshot["snapshot-id"] for snapshot in lake.metadata.snapshots]


def tag(lake: Lake, name: str, snapshot_id: int, kind: str = "tag") -> None:
    update = {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": snapshot_id}
    lake.catalog.commit(IDENT, [], [update])


def send(lake: Lake, change: Change) -> None:
    lake.catalog.commit(IDENT, change.requirements, change.updates)


def test_snapshots_refs_and_statistics_go_in_one_change(lake: Lake) -> None:
    for number in range(3):
        lake.append_rows(row(number))
    first, second, head = ids_of(lake)
    tag(lake, "old", first)
    tag(lake, "kept", second)
    statistics = {
        "snapshot-id": first,
        "statistics-path": "memory://warehouse/x.stats",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    partition = {
        "snapshot-id": first,
        "statistics-path": "memory://warehouse/y.stats",
        "file-size-in-bytes": 1,
    }
    lake.catalog.commit(
        IDENT,
        [],
        [
            {"action": "set-statistics", "statistics": statistics},
            {"action": "set-partition-statistics", "partition-statistics": partition},
        ],
    )
    change = expire(lake.table, [first], ["old"])
    assert change == Change(
        updates=[
            {"action": "remove-snapshot-ref", "ref-name": "old"},
            {"action": "remove-statistics", "snapshot-id": first},
            {"action": "remove-partition-statistics", "snapshot-id": first},
            {"action": "remove-snapshots", "snapshot-ids": [first]},
        ],
        requirements=[
            {"type": "assert-table-uuid", "uuid": lake.metadata.uuid},
            {"type": "assert-ref-snapshot-id", "ref": "kept", "snapshot-id": second},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": head},
            {"type": "assert-ref-snapshot-id", "ref": "old", "snapshot-id": first},
            {"type": "assert-refs", "refs": ["kept", "main", "old"]},
        ],
        written=[],
    )
    send(lake, change)
    assert ids_of(lake) == [second, head]
    assert set(lake.metadata.refs) == {"kept", "main"}
    assert lake.metadata.statistics == lake.metadata.partition_statistics == []
    assert lake.rows() == [row(0), row(1), row(2)]


def test_maint_B14_statistics_leave_the_metadata_with_their_snapshot(lake: Lake) -> None:
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    assert "remove-statistics" not in {u["action"] for u in expire(lake.table, ids_of(lake)[:1], []).updates}


@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_snapshot_that_a_remaining_ref_holds_is_refused(lake: Lake, kind: str) -> None:
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    first, head = ids_of(lake)
    tag(lake, "r", first, kind)
    for snapshot_id in (first, head):
        with pytest.raises(Invalid, match="is held by"):
            expire(lake.table, [snapshot_id], [])
    expire(lake.table, [first], ["r"])


def test_main_cannot_be_removed(lake: Lake) -> None:
    lake.append_rows(row(1))
    with pytest.raises(Invalid, match="main"):
        expire(lake.table, [], ["main"])


def test_what_is_gone_already_is_left_out(lake: Lake) -> None:
    lake.append_rows(row(1))
    assert expire(lake.table, [5, 5], ["nothing"]).updates == []


def test_tag_set_meanwhile_on_another_branch_head_does_not_stop_it_but_a_moved_ref_does(lake: Lake) -> None:
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    first, head = ids_of(lake)
    tag(lake, "t", head)
    change = expire(lake.table, [first], [])
    tag(lake, "t", first)
    with pytest.raises(CommitFailed):
        send(lake, change)
    assert ids_of(lake) == [first, head]


@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_a_ref_made_meanwhile_on_a_snapshot_that_goes_stops_it(lake: Lake, kind: str) -> None:
    """`remove-snapshots` would silently take the new tag or branch along."""
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    first, head = ids_of(lake)
    change = expire(lake.table, [first], [])
    tag(lake, "release", first, kind)
    with pytest.raises(RequirementFailed, match="created or removed concurrently: release"):
        send(lake, change)
    assert ids_of(lake) == [first, head]
    assert set(lake.metadata.refs) == {"main", "release"}


def test_commit_meanwhile_stops_it(lake: Lake) -> None:
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    change = expire(lake.table, ids_of(lake)[:1], [])
    lake.append_rows(row(3))
    with pytest.raises(CommitFailed):
        send(lake, change)


def test_reachable_files_of_every_kind(lake: Lake) -> None:
    data = lake.append_rows(row(1), row(2))
    delete = lake.position_file([(data.file_path, 0)])
    lake.row_delta([], [delete])
    head = lake.metadata.current_snapshot
    assert head is not None
    manifests = snapshot_manifests(lake.store, head)
    reachable = files_reachable(lake.store, lake.metadata, ids_of(lake))
    assert reachable.data_files == {data.file_path}
    assert reachable.delete_files == {delete.file_path}
    assert reachable.manifests == {manifest.path for manifest in manifests}
    assert reachable.manifest_lists == {snapshot["manifest-list"] for snapshot in lake.metadata.snapshots}
    assert reachable.statistics == frozenset()
    assert len(reachable.all) == 6


def test_what_a_rewrite_frees_is_the_difference_of_two_sets(lake: Lake) -> None:
    inputs = {lake.append_rows(row(1)).file_path, lake.append_rows(row(2)).file_path}
    group = lake.group()
    lake.rewrite(group)
    *old, head = ids_of(lake)
    removed = files_reachable(lake.store, lake.metadata, old)
    retained = files_reachable(lake.store, lake.metadata, [head])
    assert removed.data_files - retained.data_files == inputs
    assert retained.data_files == {group.outputs[0].file_path}
    assert removed.manifest_lists.isdisjoint(retained.manifest_lists)


def test_maint_B2_file_removed_and_added_again_is_still_reachable(lake: Lake) -> None:
    file = lake.append_rows(row(1))
    group = lake.group()
    lake.rewrite(group)
    lake.append(file)
    lake.rewrite(lake.group([t for t in lake.tasks() if t.entry.data_file == group.outputs[0]]))
    *old, head = ids_of(lake)
    removed = files_reachable(lake.store, lake.metadata, old)
    retained = files_reachable(lake.store, lake.metadata, [head])
    assert file.file_path in removed.data_files
    assert file.file_path in retained.data_files


def test_maint_B1_files_of_main_survive_the_expiry_of_a_tag_and_a_branch(lake: Lake) -> None:
    lake.append_rows(row(1))
    first = ids_of(lake)[0]
    tag(lake, "b", first, "branch")
    tag(lake, "t", first)
    lake.append_rows(row(2))
    lake.append_rows(row(3))
    *old, head = ids_of(lake)
    removed = files_reachable(lake.store, lake.metadata, old)
    send(lake, expire(lake.table, old, ["b", "t"]))
    retained = files_reachable(lake.store, lake.metadata, ids_of(lake))
    lake.store.delete_many(removed.all - retained.all)
    assert ids_of(lake) == [head]
    assert lake.rows() == [row(1), row(2), row(3)]


@pytest.mark.parametrize("gone", ["-m0.avro", "snap-"])
def test_maint_B7_manifest_that_cannot_be_read_raises(lake: Lake, gone: str) -> None:
    lake.append_rows(row(1))
    away = Failing(lake.store, [Rule(pattern=gone)])
    with pytest.raises(Unavailable):
        files_reachable(away, lake.metadata, ids_of(lake))
    lake.store.delete_many(
        [info.path for info in lake.store.list(lake.metadata.location) if gone in info.path]
    )
    with pytest.raises(NoSuchFile):
        files_reachable(lake.store, lake.metadata, ids_of(lake))


def test_maint_B7_manifest_that_was_cut_off_raises(lake: Lake) -> None:
    lake.append_rows(row(1))
    head = lake.metadata.current_snapshot
    assert head is not None
    (manifest,) = snapshot_manifests(lake.store, head)
    lake.store.put(manifest.path, lake.store.get(manifest.path)[:-20])
    with pytest.raises(Invalid):
        files_reachable(lake.store, lake.metadata, ids_of(lake))


def test_each_manifest_is_read_once(lake: Lake) -> None:
    for number in range(5):
        lake.append_rows(row(number))
    counting = Counting(lake.store)
    files_reachable(counting, lake.metadata, ids_of(lake))
    assert counting.calls["get"] == 10  # five lists, five manifests


def test_unknown_snapshot_is_refused(lake: Lake) -> None:
    with pytest.raises(Invalid, match="no snapshot 5"):
        files_reachable(lake.store, lake.metadata, [5])


def test_v1_snapshot_with_embedded_manifests_has_no_list_to_delete() -> None:
    lake = Lake(MemoryObjectStore(ManualClock()), **{"format-version": "1"})
    file = lake.append_rows(row(1))
    document = lake.metadata.document
    (head,) = document["snapshots"]
    (manifest,) = snapshot_manifests(lake.store, head)
    embedded = {key: value for key, value in head.items() if key != "manifest-list"}
    old = TableMetadata({**document, "snapshots": [{**embedded, "manifests": [manifest.path]}]})
    reachable = files_reachable(lake.store, old, [head["snapshot-id"]])
    assert reachable.all == {file.file_path, manifest.path}
    assert reachable.manifest_lists == frozenset()
