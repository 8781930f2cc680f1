"""A rewrite leaves the table's content alone, whatever happened between its plan and its commit."""

from dataclasses import replace
from typing import Any

import pytest

from table_format.catalog import LoadedTable
from table_format.commit.change import MAIN, Change
from table_format.commit.producer import SnapshotProducer
from table_format.commit.rewrite import RewriteGroup, rewrite
from table_format.commit.summary import Changes, Operation, count, totals_of
from table_format.commit.tree import HeadTree, TreeCache
from table_format.errors import Invalid
from table_format.io.faults import Counting
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import (
    FILE_PATH_FIELD_ID,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from table_format.manifest.read import read_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import snapshot_files, snapshot_manifests
from tests.factories.lake import BY_NAME, IDENT, Lake
from tests.fakes.clock import ManualClock


def row(number: int, name: str = "a") -> dict[str, Any]:
    return {"id": number, "name": name}


def new_lake(**options: Any) -> Lake:
    return Lake(MemoryObjectStore(ManualClock()), **options)


@pytest.fixture
def lake() -> Lake:
    return new_lake()


def manifests_of(lake: Lake) -> list[ManifestFile]:
    head = lake.metadata.current_snapshot
    assert head is not None
    return snapshot_manifests(lake.store, head)


def recounted(lake: Lake) -> dict[str, str]:
    files = snapshot_files(lake.store, lake.metadata)
    entries = [task.entry for task in files.tasks] + files.delete_entries
    return totals_of(count(entry.data_file for entry in entries))


def totals(lake: Lake) -> dict[str, str]:
    return {key: value for key, value in lake.summary.items() if key.startswith("total-")}


def attempt(lake: Lake, *groups: RewriteGroup) -> tuple[bool, int]:
    """Whether a change came of it, and how many groups were dropped; nothing is committed."""
    change, dropped = rewrite(lake.store, lake.table, groups, summary={}, clock=lake.clock, ids=lake.ids)
    return change is not None, len(dropped)


def test_two_files_become_one(lake: Lake) -> None:
    first, second = lake.append_rows(row(1)), lake.append_rows(row(2), row(3))
    group = lake.group()
    result, dropped = lake.rewrite(group, **{"rewrite.job": "7"})
    assert (result.applied, dropped) == (True, [])
    assert lake.rows() == [row(1), row(2), row(3)]
    output = group.outputs[0]
    (task,) = lake.tasks()
    assert task.entry.data_file == output
    assert (task.entry.sequence_number, task.entry.file_sequence_number) == (2, 3)
    assert lake.metadata.last_sequence_number == 3
    removed = first.file_size_in_bytes + second.file_size_in_bytes
    assert lake.summary == {
        "operation": "replace",
        "rewrite.job": "7",
        "engine-name": "frazil",
        "added-data-files": "1",
        "deleted-data-files": "2",
        "added-records": "3",
        "deleted-records": "3",
        "added-files-size": str(output.file_size_in_bytes),
        "removed-files-size": str(removed),
        "changed-partition-count": "1",
        "total-records": "3",
        "total-files-size": str(output.file_size_in_bytes),
        "total-data-files": "1",
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


def test_R44_removed_and_kept_entries_carry_explicit_numbers(lake: Lake) -> None:
    for number in range(3):
        lake.append_rows(row(number))
    lake.append(merge_min=1)
    (merged,) = manifests_of(lake)
    before = {e.data_file.file_path: e for e in read_manifest(lake.store, merged, lake.metadata)}
    group = lake.group(lake.tasks()[:2])
    lake.rewrite(group)
    added, rewritten = manifests_of(lake)
    snapshot_id = lake.metadata.current_snapshot_id
    (new,) = read_manifest(lake.store, added, lake.metadata)
    assert (new.status, new.snapshot_id, new.sequence_number, new.file_sequence_number) == (
        Status.ADDED,
        snapshot_id,
        4,
        5,
    )
    assert (added.sequence_number, added.min_sequence_number) == (5, 4)
    inputs = {entry.data_file.file_path for entry in group.inputs}
    for entry in read_manifest(lake.store, rewritten, lake.metadata):
        known = before[entry.data_file.file_path]
        gone = entry.data_file.file_path in inputs
        assert entry.status is (Status.DELETED if gone else Status.EXISTING)
        assert entry.snapshot_id == (snapshot_id if gone else known.snapshot_id)
        assert entry.sequence_number == known.sequence_number
        assert entry.file_sequence_number == known.file_sequence_number
    assert (rewritten.deleted_files_count, rewritten.existing_files_count) == (2, 1)


def test_untouched_manifests_are_carried_over_as_they_are(lake: Lake) -> None:
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    lake.append_rows(row(3))
    keep = manifests_of(lake)[0]
    lake.rewrite(lake.group(lake.tasks()[1:]))
    assert keep in manifests_of(lake)


def test_manifests_with_nothing_live_are_left_behind_by_the_next_commit(lake: Lake) -> None:
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    lake.rewrite(lake.group())
    assert [m.deleted_files_count for m in manifests_of(lake)] == [0, 2]
    lake.append_rows(row(3))
    assert [m.deleted_files_count for m in manifests_of(lake)] == [0, 0]
    assert lake.rows() == [row(1), row(2), row(3)]


def test_manifests_in_which_something_goes_are_packed_into_few(lake: Lake) -> None:
    """A stream leaves a manifest a commit: readers of the compacted table open two, not all of them."""
    stays = lake.data_file([row(100)])
    lake.append(stays, lake.data_file([row(101)]))
    for number in range(12):
        lake.append_rows(row(number))
    before = {task.entry.data_file.file_path: task.entry for task in lake.tasks()}
    lake.rewrite(lake.group([t for t in lake.tasks() if t.entry.data_file.file_path != stays.file_path]))
    counts = [
        (m.added_files_count, m.existing_files_count, m.deleted_files_count) for m in manifests_of(lake)
    ]
    assert counts == [(1, 0, 0), (0, 1, 13)]
    after = {task.entry.data_file.file_path: task.entry for task in lake.tasks()}
    assert after[stays.file_path].sequence_number == before[stays.file_path].sequence_number == 1
    assert sorted(r["id"] for r in lake.rows()) == [*range(12), 100, 101]
    assert totals(lake) == recounted(lake)


def test_packing_keeps_the_files_of_a_broken_table_apart(lake: Lake) -> None:
    """The same live file in two manifests: a manifest holds it once, so these two are not packed together."""
    twice, first, second = (lake.data_file([row(number)]) for number in (1, 2, 3))
    lake.append(first, twice)
    lake.append(second, twice)
    inputs = [task for task in lake.tasks() if task.entry.data_file.file_path != twice.file_path]
    result, dropped = lake.rewrite(lake.group(inputs))
    assert (result.applied, dropped) == (True, [])
    assert lake.rows() == [row(1), row(1), row(2), row(3)]


def test_maint_D1_concurrent_append_is_no_conflict(lake: Lake) -> None:
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    group = lake.group()
    lake.catalog.before_commit.append(lambda: lake.append_rows(row(3)))
    result, dropped = lake.rewrite(group)
    assert (result.applied, dropped) == (True, [])
    assert lake.rows() == [row(1), row(2), row(3)]
    assert totals(lake) == recounted(lake)


def test_maint_C2_concurrent_equality_upsert_is_no_conflict_and_still_deletes(lake: Lake) -> None:
    lake.append_rows(row(1, "a1"), row(2, "a2"))
    lake.append_rows(row(3, "a3"))
    group = lake.group()
    lake.row_delta([lake.data_file([row(2, "NEW")])], [lake.equality_file([row(2)], [1])])
    expected = [row(1, "a1"), row(2, "NEW"), row(3, "a3")]
    assert lake.rows() == expected
    result, dropped = lake.rewrite(group)
    assert (result.applied, dropped) == (True, [])
    assert lake.rows() == expected
    numbers = {t.entry.data_file.file_path: t.entry.sequence_number for t in lake.tasks()}
    assert numbers[group.outputs[0].file_path] == 2
    assert totals(lake) == recounted(lake)
    assert totals(lake)["total-equality-deletes"] == "1"


@pytest.mark.parametrize("scoped", [False, True])
def test_maint_D1_concurrent_position_delete_of_an_input_drops_that_group_only(scoped: bool) -> None:
    lake = new_lake(spec=BY_NAME)
    a1, _ = lake.append_rows(row(1), partition=("a",)), lake.append_rows(row(2), partition=("a",))
    lake.append_rows(row(3, "b"), partition=("b",))
    lake.append_rows(row(4, "b"), partition=("b",))
    in_a = [t for t in lake.tasks() if t.entry.data_file.partition == ("a",)]
    in_b = [t for t in lake.tasks() if t.entry.data_file.partition == ("b",)]
    group_a, group_b = lake.group(in_a), lake.group(in_b)
    more = {"referenced_data_file": a1.file_path} if scoped else {}
    lake.row_delta([], [lake.position_file([(a1.file_path, 0)], partition=("a",), **more)])
    result, dropped = lake.rewrite(group_a, group_b)
    assert result.applied
    assert dropped == [group_a]
    assert lake.rows() == [row(2), row(3, "b"), row(4, "b")]
    assert lake.summary["deleted-data-files"] == "2"
    assert totals(lake) == recounted(lake)


def test_deletes_under_further_commits_are_still_seen(lake: Lake) -> None:
    """A delete, then appends on top of it: a look at the head alone would miss it and bring the row back."""
    first = lake.append_rows(row(1), row(2), row(3))
    lake.append_rows(row(4))
    group = lake.group()
    lake.row_delta([], [lake.position_file([(first.file_path, 1)])])
    lake.append_rows(row(9))
    lake.append(merge_min=1)
    expected = [row(1), row(3), row(4), row(9)]
    assert lake.rows() == expected
    assert attempt(lake, group) == (False, 1)
    result, dropped = lake.rewrite(group)
    assert (result.applied, dropped) == (False, [group])
    assert lake.rows() == expected


@pytest.mark.parametrize("scoped", [False, True])
def test_position_delete_of_another_file_is_no_conflict(lake: Lake, scoped: bool) -> None:
    """Without a scope the delete file is read rather than feared."""
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    other = lake.append_rows(row(3), row(4))
    group = lake.group(lake.tasks()[1:])
    more = {"referenced_data_file": other.file_path} if scoped else {}
    lake.row_delta([], [lake.position_file([(other.file_path, 0)], **more)])
    result, dropped = lake.rewrite(group)
    assert (result.applied, dropped) == (True, [])
    assert lake.rows() == [row(1), row(2), row(4)]


def test_input_that_is_gone_drops_the_group(lake: Lake) -> None:
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    lake.append_rows(row(3))
    first, second = lake.group(lake.tasks()[:2]), lake.group(lake.tasks()[1:])
    lake.rewrite(first)
    result, dropped = lake.rewrite(second)
    assert (result.applied, dropped) == (False, [second])
    assert lake.rows() == [row(1), row(2), row(3)]


def test_group_that_is_in_already_is_not_doubled(lake: Lake) -> None:
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    group = lake.group()
    lake.rewrite(group)
    assert lake.rewrite(group)[0].applied is False
    assert lake.rows() == [row(1), row(2)]


def test_input_that_is_live_twice_drops_the_group(lake: Lake) -> None:
    """A broken table: removing both entries for one copy of the rows would lose the other's."""
    file = lake.append_rows(row(1))
    lake.append_rows(row(2))
    group = lake.group()
    lake.append(file)
    assert attempt(lake, group) == (False, 1)


def test_input_that_was_removed_and_added_again_drops_the_group(lake: Lake) -> None:
    lake.append_rows(row(1))
    group = lake.group()
    lake.rewrite(lake.group())
    lake.append(group.inputs[0].data_file)
    assert attempt(lake, group) == (False, 1)


def test_nothing_to_do_commits_nothing(lake: Lake) -> None:
    lake.append_rows(row(1))
    assert attempt(lake) == (False, 0)
    before = lake.table
    assert lake.rewrite()[0].applied is False
    assert lake.table == before


def test_all_rows_deleted_removes_the_file_and_its_deletes(lake: Lake) -> None:
    file = lake.append_rows(row(1))
    lake.row_delta([], [lake.position_file([(file.file_path, 0)])])
    group = lake.group()
    assert group.outputs == []
    assert lake.rewrite(group)[0].applied
    assert lake.rows() == []
    assert set(totals(lake).values()) == {"0"}
    assert lake.summary["deleted-data-files"] == "1"
    assert lake.summary["removed-position-delete-files"] == "1"


def test_maint_E1_dead_equality_deletes_go_in_the_same_commit(lake: Lake) -> None:
    lake.append_rows(row(1, "old"), row(2))
    lake.row_delta([lake.data_file([row(1, "new")])], [lake.equality_file([row(1)], [1])])
    lake.rewrite(lake.group())
    assert lake.rows() == [row(1, "new"), row(2)]
    assert lake.summary["removed-equality-delete-files"] == "1"
    assert totals(lake) == recounted(lake)
    assert totals(lake)["total-equality-deletes"] == "0"
    (deletes,) = [m for m in manifests_of(lake) if m.content is ManifestContent.DELETES]
    (gone,) = read_manifest(lake.store, deletes, lake.metadata)
    assert (gone.status, gone.snapshot_id, gone.sequence_number) == (
        Status.DELETED,
        lake.metadata.current_snapshot_id,
        2,
    )


def test_maint_C5_equality_delete_stays_while_an_older_file_is_left(lake: Lake) -> None:
    oldest = lake.append_rows(row(1, "old"))
    lake.append_rows(row(2), row(5))
    lake.row_delta([lake.data_file([row(1, "new")])], [lake.equality_file([row(1)], [1])])
    lake.rewrite(lake.group([t for t in lake.tasks() if t.entry.data_file != oldest]))
    assert totals(lake)["total-equality-deletes"] == "1"
    assert lake.rows() == [row(1, "new"), row(2), row(5)]


def test_maint_C5_equality_delete_newer_than_the_plan_stays_for_the_outputs(lake: Lake) -> None:
    lake.append_rows(row(1, "old"), row(2))
    group = lake.group()
    lake.row_delta([lake.data_file([row(1, "new")])], [lake.equality_file([row(1)], [1])])
    lake.rewrite(group)
    assert totals(lake)["total-equality-deletes"] == "1"
    assert lake.rows() == [row(1, "new"), row(2)]
    lake.rewrite(lake.group())
    assert totals(lake)["total-equality-deletes"] == "0"
    assert lake.rows() == [row(1, "new"), row(2)]


def test_maint_C5_two_rewrites_planned_before_a_delete_keep_it_until_both_are_done() -> None:
    lake = new_lake()
    for number in range(1, 5):
        lake.append_rows(row(number, "old"))
    tasks = lake.tasks()
    first, second = lake.group(tasks[:2]), lake.group(tasks[2:])
    lake.row_delta([lake.data_file([row(1, "new")])], [lake.equality_file([row(1), row(4)], [1])])
    expected = [row(1, "new"), row(2, "old"), row(3, "old")]
    lake.rewrite(first)
    assert lake.rows() == expected
    lake.rewrite(second)
    assert lake.rows() == expected
    assert totals(lake)["total-equality-deletes"] == "2"


def test_global_equality_delete_lives_on_for_other_specs(lake: Lake) -> None:
    lake.append_rows(row(1, "old"), row(2, "old"))
    lake.catalog.commit(
        IDENT,
        [],
        [
            {"action": "add-spec", "spec": {"fields": BY_NAME["fields"]}},
            {"action": "set-default-spec", "spec-id": -1},
        ],
    )
    lake.append(lake.data_file([row(1, "b"), row(3, "b")], partition=("b",)))
    delete = replace(lake.equality_file([row(1)], [1], partition=("b",)), spec_id=0, partition=())
    lake.row_delta([], [delete])
    expected = [row(2, "old"), row(3, "b")]
    assert lake.rows() == expected
    spec_0 = [t for t in lake.tasks() if t.entry.data_file.spec_id == 0]
    group = lake.group(spec_0)
    lake.rewrite(replace(group, outputs=[replace(f, spec_id=0) for f in group.outputs]))
    assert lake.rows() == expected
    assert totals(lake)["total-equality-deletes"] == "1"
    lake.rewrite(lake.group([t for t in lake.tasks() if t.entry.data_file.spec_id == 1]))
    assert lake.rows() == expected
    assert totals(lake)["total-equality-deletes"] == "0"


@pytest.mark.parametrize("scoped", [False, True])
def test_position_delete_goes_when_every_file_it_names_is_gone(lake: Lake, scoped: bool) -> None:
    file = lake.append_rows(row(1), row(2))
    lake.append_rows(row(3))
    more: dict[str, Any] = {}
    if scoped:
        path = file.file_path.encode()
        more = {"lower_bounds": {FILE_PATH_FIELD_ID: path}, "upper_bounds": {FILE_PATH_FIELD_ID: path}}
    lake.row_delta([], [lake.position_file([(file.file_path, 0)], **more)])
    lake.rewrite(lake.group())
    assert totals(lake)["total-position-deletes"] == "0"
    assert lake.rows() == [row(2), row(3)]


def test_position_delete_stays_while_one_of_its_files_is_left(lake: Lake) -> None:
    first, second = lake.append_rows(row(1), row(2)), lake.append_rows(row(3), row(4))
    lake.row_delta([], [lake.position_file([(first.file_path, 0), (second.file_path, 0)])])
    lake.rewrite(lake.group([t for t in lake.tasks() if t.entry.data_file.file_path == first.file_path]))
    assert totals(lake)["total-position-deletes"] == "2"
    assert lake.rows() == [row(2), row(4)]
    lake.rewrite(lake.group())
    assert totals(lake)["total-position-deletes"] == "0"
    assert lake.rows() == [row(2), row(4)]


def test_rollback_below_the_plan_drops_a_group_that_applied_deletes(lake: Lake) -> None:
    """The rows that the plan saw deleted are back: the outputs do not have them."""
    file = lake.append_rows(row(1), row(2))
    before = lake.metadata.current_snapshot_id
    lake.row_delta([], [lake.position_file([(file.file_path, 0)])])
    group = lake.group()
    lake.catalog.commit(
        IDENT,
        [],
        [{"action": "set-snapshot-ref", "ref-name": MAIN, "type": "branch", "snapshot-id": before}],
    )
    assert lake.rows() == [row(1), row(2)]
    assert attempt(lake, group) == (False, 1)


def test_branch_swap_with_an_older_unseen_delete_drops_the_group(lake: Lake) -> None:
    file = lake.append_rows(row(1), row(2))
    root = lake.metadata.current_snapshot_id
    lake.row_delta([], [lake.position_file([(file.file_path, 0)])])
    branch = lake.metadata.current_snapshot_id
    move = {"action": "set-snapshot-ref", "ref-name": MAIN, "type": "branch"}
    lake.catalog.commit(IDENT, [], [{**move, "snapshot-id": root}])
    lake.append_rows(row(3))
    group = lake.group([t for t in lake.tasks() if t.entry.data_file == file])
    lake.catalog.commit(IDENT, [], [{**move, "snapshot-id": branch}])
    assert lake.rows() == [row(2)]
    assert attempt(lake, group) == (False, 1)


def test_base_snapshot_that_expired_meanwhile_is_known_by_its_childs_parent(lake: Lake) -> None:
    file = lake.append_rows(row(1), row(2))
    lake.row_delta([], [lake.position_file([(file.file_path, 0)])])
    group = lake.group()
    lake.append_rows(row(3))
    lake.catalog.commit(IDENT, [], [{"action": "remove-snapshots", "snapshot-ids": [group.base_snapshot_id]}])
    result, dropped = lake.rewrite(group)
    assert (result.applied, dropped) == (True, [])
    assert lake.rows() == [row(2), row(3)]


def test_maint_C12_totals_that_another_writer_let_drift_are_recounted(lake: Lake) -> None:
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    document = lake.metadata.document
    head = document["snapshots"][-1]
    drifted = {**head, "summary": {**head["summary"], "total-records": "999", "total-data-files": "1"}}
    lake.catalog.put(IDENT, TableMetadata({**document, "snapshots": [*document["snapshots"][:-1], drifted]}))
    lake.rewrite(lake.group())
    assert totals(lake) == recounted(lake)


def test_ingest_keys_are_carried_forward(lake: Lake) -> None:
    lake.append(
        lake.data_file([row(1)]), **{"ingest.offsets": '{"t":{"0":5}}', "ingest.commit-id": "x", "other": "y"}
    )
    lake.append_rows(row(2))  # a foreign append without them on top
    lake.rewrite(lake.group())
    assert lake.summary["ingest.offsets"] == '{"t":{"0":5}}'
    assert lake.summary["ingest.commit-id"] == "x"
    assert "other" not in lake.summary


def test_ingest_keys_follow_the_head_of_each_attempt(lake: Lake) -> None:
    lake.append(lake.data_file([row(1)]), **{"ingest.offsets": "5"})
    lake.append(lake.data_file([row(2)]), **{"ingest.offsets": "6"})
    group = lake.group()
    lake.catalog.before_commit.append(
        lambda: lake.append(lake.data_file([row(3)]), **{"ingest.offsets": "7"})
    )
    lake.rewrite(group)
    assert lake.summary["ingest.offsets"] == "7"


def test_v1_table() -> None:
    lake = new_lake(**{"format-version": "1"})
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    lake.rewrite(lake.group())
    assert lake.rows() == [row(1), row(2)]
    assert lake.metadata.last_sequence_number == 0
    assert totals(lake) == recounted(lake)


def test_v2_table_that_was_v1(lake: Lake) -> None:
    lake = new_lake(**{"format-version": "1"})
    lake.append_rows(row(1))
    lake.append_rows(row(2))
    lake.catalog.commit(IDENT, [], [{"action": "upgrade-format-version", "format-version": 2}])
    group = lake.group()
    assert group.base_sequence_number == 0
    lake.row_delta([], [lake.equality_file([row(1)], [1])])
    lake.rewrite(group)
    assert lake.rows() == [row(2)]


def test_outputs_that_store_no_lineage_are_for_rows_without_ids(lake: Lake) -> None:
    lake.append_rows(row(1))
    group = lake.group()
    lake.catalog.commit(IDENT, [], [{"action": "upgrade-format-version", "format-version": 3}])
    lake.append_rows(row(2))
    assert lake.rewrite(group)[1] == [group], "they got ids meanwhile"
    with pytest.raises(Invalid, match="have ids, which its rewrite does not store"):
        lake.rewrite(lake.group())
    lake.rewrite(replace(lake.group(), keeps_lineage=True))
    assert lake.rows() == [row(1), row(2)]


def test_groups_that_contradict_themselves_are_refused() -> None:
    lake = new_lake(spec=BY_NAME)
    lake.append_rows(row(1), partition=("a",))
    lake.append_rows(row(2, "b"), partition=("b",))
    a, b = (lake.group([task]) for task in lake.tasks())
    outside = lake.data_file([row(1), row(2)], partition=a.outputs[0].partition)
    broken = [
        [replace(a, inputs=[])],
        [replace(a, inputs=[*a.inputs, *b.inputs])],
        [replace(a, outputs=b.outputs)],
        [replace(a, outputs=[outside])],
        [replace(a, outputs=[a.inputs[0].data_file])],
        [replace(a, outputs=[a.outputs[0], a.outputs[0]])],
        [a, replace(b, inputs=a.inputs, outputs=[])],
        [replace(a, base_sequence_number=1)],
        [replace(a, inputs=[replace(a.inputs[0], sequence_number=99)])],
    ]
    for groups in broken:
        with pytest.raises(Invalid):
            lake.rewrite(*groups)
    assert len(lake.metadata.snapshots) == 2


def test_lost_attempts_leave_no_files_and_reread_no_manifests(lake: Lake) -> None:
    for number in range(5):
        lake.append_rows(row(number))
    group = lake.group()
    counting = Counting(lake.store)
    cache = TreeCache()
    reads = []
    for number in range(3):
        counting.reset()
        rewrite(counting, lake.table, [group], summary={}, clock=lake.clock, ids=lake.ids, cache=cache)
        reads.append(counting.calls["get"])
        lake.append_rows(row(10 + number))
    assert reads == [6, 2, 2]  # the list and every manifest; then the list and the one that is new


def test_output_that_is_live_already_drops_the_group(lake: Lake) -> None:
    lake.append_rows(row(1))
    group = lake.group()
    lake.append(group.outputs[0])
    assert attempt(lake, group) == (False, 1)


def test_position_deletes_known_at_the_plan_are_no_conflict(lake: Lake) -> None:
    file = lake.append_rows(row(1), row(2))
    lake.row_delta([], [lake.position_file([(file.file_path, 0)])])
    group = lake.group()
    lake.append_rows(row(3))
    assert lake.rewrite(group)[1] == []
    assert lake.rows() == [row(2), row(3)]


def test_table_that_lost_its_head_drops_the_group(lake: Lake) -> None:
    lake.append_rows(row(1))
    group = lake.group()
    head = lake.metadata.current_snapshot_id
    lake.catalog.commit(IDENT, [], [{"action": "remove-snapshots", "snapshot-ids": [head]}])
    assert lake.metadata.current_snapshot_id is None
    assert attempt(lake, group) == (False, 1)


def test_partitioned_equality_delete_dies_with_its_partitions_old_files() -> None:
    lake = new_lake(spec=BY_NAME)
    lake.append_rows(row(1), partition=("a",))
    lake.append_rows(row(2, "b"), partition=("b",))
    lake.row_delta([], [lake.equality_file([row(1)], [1], partition=("a",))])
    lake.rewrite(lake.group([t for t in lake.tasks() if t.entry.data_file.partition == ("b",)]))
    assert totals(lake)["total-equality-deletes"] == "1"
    lake.rewrite(lake.group([t for t in lake.tasks() if t.entry.data_file.partition == ("a",)]))
    assert totals(lake)["total-equality-deletes"] == "0"
    assert lake.rows() == [row(2, "b")]


def test_group_whose_applied_delete_is_gone_is_dropped(lake: Lake) -> None:
    """Whoever removed a delete of a live file wants its row back, or tells it by another file."""
    file = lake.append_rows(row(1), row(2))
    lake.row_delta([], [lake.position_file([(file.file_path, 0)])])
    (task,) = lake.tasks()
    group = replace(lake.group(), deletes=task.deletes)
    assert attempt(lake, group) == (True, 0)
    other = lake.position_file([(file.file_path, 1)])
    lake.row_delta([], [other])
    (delete,) = [d for d in lake.tasks()[0].deletes if d.data_file.file_path == other.file_path]
    assert attempt(lake, replace(lake.group(), deletes=[delete])) == (True, 0)
    absent = replace(delete, data_file=replace(delete.data_file, file_path="memory://warehouse/gone"))
    assert attempt(lake, replace(lake.group(), deletes=[absent])) == (False, 1)


def test_late_equality_delete_by_a_column_that_the_outputs_lack_drops_the_group() -> None:
    lake = new_lake(spec=BY_NAME)
    lake.append_rows(row(1), partition=("a",))
    group = lake.group()
    lake.row_delta([], [lake.equality_file([row(9)], [1], partition=("b",))])
    assert attempt(lake, replace(group, columns=frozenset({2}))) == (True, 0)
    lake.row_delta([], [lake.equality_file([row(9)], [1], partition=("a",))])
    assert attempt(lake, replace(group, columns=frozenset({2}))) == (False, 1)
    assert attempt(lake, replace(group, columns=frozenset({1, 2}))) == (True, 0)
    assert attempt(lake, group) == (True, 0)


def test_late_equality_delete_of_an_old_age_drops_the_group(lake: Lake) -> None:
    """It reaches the inputs, was not applied, and would not reach the outputs."""
    lake.append_rows(row(1), row(2))
    lake.append_rows(row(3))
    group = lake.group()
    old = lake.equality_file([row(1)], [1])

    def build(table: LoadedTable) -> Change:
        with SnapshotProducer(lake.store, table, clock=lake.clock, ids=lake.ids) as producer:
            entry = ManifestEntry(
                status=Status.ADDED,
                snapshot_id=producer.snapshot_id,
                sequence_number=2,
                file_sequence_number=None,
                data_file=old,
            )
            new = producer.write_manifest([entry], 0, ManifestContent.DELETES)
            changes = Changes()
            changes.add(old)
            listed = [new, *manifests_of(lake)]
            return producer.finish(Operation.OVERWRITE, listed, changes, extra={})

    lake.commit(build)
    assert lake.rows() == [row(2), row(3)]
    assert attempt(lake, group) == (False, 1)
    assert attempt(lake, lake.group()) == (True, 0)


def test_maint_C15_attempts_of_one_commit_see_the_ids_that_another_commit_gave(lake: Lake) -> None:
    """The manifest is the same as before; that its rows have ids now stands in the manifest list."""
    first, second = lake.data_file([row(1)]), lake.data_file([row(2)])
    lake.append(first, second)
    lake.catalog.commit(IDENT, [], [{"action": "upgrade-format-version", "format-version": 3}])
    cache = TreeCache()

    def ids() -> list[int | None]:
        tree = HeadTree(lake.store, lake.metadata, cache)
        return [tree.at(file.file_path)[0].first_row_id for file in (first, second)]

    assert ids() == [None, None]
    lake.append_rows(row(3))
    assert ids() == [1, 2]
