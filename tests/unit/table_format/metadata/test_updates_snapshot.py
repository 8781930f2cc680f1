from typing import Any

import pytest

from table_format.errors import CommitFailed, Invalid, Kind
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata
from tests.factories.metadata_documents import (
    LOCATION,
    NOW,
    add_snapshot,
    applied,
    changed,
    ids,
    set_ref,
    snapshot,
    table,
    with_history,
)


def remove(*snapshot_ids: int) -> JsonObject:
    return {"action": "remove-snapshots", "snapshot-ids": list(snapshot_ids)}


def remove_ref(name: str) -> JsonObject:
    return {"action": "remove-snapshot-ref", "ref-name": name}


def child(snapshot_id: int, parent: int | None = None, **more: Any) -> JsonObject:
    parent_id = snapshot_id - 1 if parent is None else parent
    return snapshot(snapshot_id, **{"parent-snapshot-id": parent_id, **more})


def invalid(base: TableMetadata, *found: Any) -> str:
    with pytest.raises(Invalid) as caught:
        applied(base, *found)
    return caught.value.message


def log(metadata: TableMetadata) -> list[int]:
    return ids(metadata.snapshot_log, "snapshot-id")


def test_append() -> None:
    base = with_history(2)
    new = applied(base, add_snapshot(child(3)), set_ref(3), now=NOW + 3001)
    assert new.snapshots == [*base.snapshots, child(3)]
    assert new.current_snapshot_id == 3
    assert new.refs == {"main": {"snapshot-id": 3, "type": "branch"}}
    assert new.last_sequence_number == 3
    assert new.last_updated_ms == NOW + 3001
    assert new.snapshot_log[-1] == {"timestamp-ms": NOW + 3000, "snapshot-id": 3}
    assert changed(base, new) == {
        "snapshots",
        "current-snapshot-id",
        "refs",
        "last-sequence-number",
        "last-updated-ms",
        "snapshot-log",
        "metadata-log",
    }


def test_append_shares_what_it_does_not_change() -> None:
    base = with_history(2)
    new = applied(base, add_snapshot(child(3)), set_ref(3))
    assert new.snapshots[0] is base.snapshots[0]
    assert new.document["schemas"] is base.document["schemas"]


def test_snapshot_alone_moves_nothing() -> None:
    base = with_history(1)
    new = applied(base, add_snapshot(child(2)))
    assert new.current_snapshot_id == 1
    assert log(new) == [1]
    assert changed(base, new) == {"snapshots", "last-sequence-number", "last-updated-ms", "metadata-log"}


@pytest.mark.parametrize("parent", [-1, None])
def test_no_parent_is_stored_as_none(parent: int | None) -> None:
    new = applied(table(), add_snapshot(snapshot(1, **{"parent-snapshot-id": parent})), set_ref(1))
    assert "parent-snapshot-id" not in new.snapshots[0]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_R2_stale_sequence_number_is_a_conflict(number: int) -> None:
    with pytest.raises(CommitFailed) as caught:
        applied(with_history(2), add_snapshot(child(3, number=number)))
    assert caught.value.kind == Kind.CONFLICT
    assert caught.value.message == (
        "Validation failed, please retry: Cannot add snapshot with sequence number "
        f"{number} older than last sequence number 2"
    )


def test_old_sequence_number_without_parent_does_not_lower_the_last() -> None:
    new = applied(with_history(2), add_snapshot(snapshot(9, number=1)), set_ref(9, "other"))
    assert new.last_sequence_number == 2
    again = applied(new, add_snapshot(child(3)), set_ref(3))
    assert again.last_sequence_number == 3


def test_v1_has_no_sequence_numbers() -> None:
    base = with_history(2, version=1)
    assert base.last_sequence_number == 0
    assert "last-sequence-number" not in base.document
    assert invalid(base, add_snapshot(child(3))) == "Sequence number must be 0 in v1: 3"
    new = applied(base, add_snapshot(child(3, **{"sequence-number": ...})), set_ref(3))
    assert new.current_snapshot_id == 3


def test_v1_allows_manifests_and_no_summary() -> None:
    old = snapshot(1, number=0, **{"manifest-list": ..., "summary": ..., "manifests": ["file:///m.avro"]})
    assert applied(table(version=1), add_snapshot(old), set_ref(1)).snapshots == [old]


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        ({"snapshot-id": "1"}, "'snapshot-id' of snapshot must be an integer, not a string"),
        ({"snapshot-id": 2**63}, f"'snapshot-id' of snapshot must lie between 0 and {2**63 - 1}"),
        ({"snapshot-id": -1}, f"'snapshot-id' of snapshot must lie between 0 and {2**63 - 1}"),
        ({"snapshot-id": 1}, "Snapshot already exists for id: 1"),
        ({"timestamp-ms": ...}, "snapshot lacks the member 'timestamp-ms'"),
        ({"timestamp-ms": True}, "'timestamp-ms' of snapshot must be an integer, not a boolean"),
        ({"sequence-number": ...}, "snapshot lacks the member 'sequence-number'"),
        ({"sequence-number": 2.0}, "'sequence-number' of snapshot must be an integer, not a fraction"),
        ({"parent-snapshot-id": "1"}, "'parent-snapshot-id' of snapshot must be an integer, not a string"),
        ({"schema-id": []}, "'schema-id' of snapshot must be an integer, not an array"),
        ({"manifest-list": ...}, "snapshot lacks the member 'manifest-list'"),
        ({"manifest-list": ""}, "'manifest-list' of snapshot must not be empty"),
        ({"manifest-list": 5}, "'manifest-list' of snapshot must be a string, not an integer"),
        (
            {"manifest-list": ..., "manifests": ["a"]},
            "snapshot lacks the member 'manifest-list'",
        ),
        ({"manifest-list": ..., "manifests": "a"}, "'manifests' of snapshot must be an array, not a string"),
        ({"summary": ...}, "snapshot lacks the member 'summary'"),
        ({"summary": []}, "'summary' of snapshot must be an object, not an array"),
        ({"summary": {}}, "snapshot summary lacks the member 'operation'"),
        (
            {"summary": {"operation": "thaw"}},
            "'operation' of snapshot summary must be append, replace, overwrite or delete",
        ),
        (
            {"summary": {"operation": "append", "added-records": 5}},
            "'added-records' of 'summary' of snapshot must be a string, not an integer",
        ),
        ({"key-id": 5}, "'key-id' of snapshot must be a string, not an integer"),
    ],
)
def test_malformed_snapshot(edit: dict[str, Any], text: str) -> None:
    assert invalid(with_history(1), add_snapshot(child(2, **edit))) == text


def test_add_snapshot_without_snapshot() -> None:
    assert invalid(table(), {"action": "add-snapshot"}) == "add-snapshot lacks the member 'snapshot'"


def v3() -> TableMetadata:
    return applied(table(), {"action": "upgrade-format-version", "format-version": 3})


def test_v3_row_ids() -> None:
    base = v3()
    rows = {"first-row-id": 0, "added-rows": 10}
    one = applied(base, add_snapshot(snapshot(1, **rows)), set_ref(1))
    assert one.document["next-row-id"] == 10
    two = applied(one, add_snapshot(child(2, **{"first-row-id": 15, "added-rows": 5})), set_ref(2))
    assert two.document["next-row-id"] == 20
    with pytest.raises(CommitFailed) as caught:
        applied(two, add_snapshot(child(3, **{"first-row-id": 19, "added-rows": 1})))
    assert caught.value.message == (
        "Validation failed, please retry: Cannot add a snapshot, first-row-id is behind table "
        "next-row-id: 19 < 20"
    )


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        ({}, "Cannot add a snapshot: first-row-id is null"),
        ({"first-row-id": None}, "Cannot add a snapshot: first-row-id is null"),
        ({"first-row-id": 0}, "Cannot add a snapshot: added-rows is required with first-row-id"),
        (
            {"first-row-id": 0, "added-rows": None},
            "Cannot add a snapshot: added-rows is required with first-row-id",
        ),
        ({"first-row-id": 1, "added-rows": 2**63 - 1}, "Cannot add a snapshot: row ids are exhausted"),
    ],
)
def test_v3_needs_row_ids(edit: dict[str, Any], text: str) -> None:
    assert invalid(v3(), add_snapshot(snapshot(1, **edit))) == text


def test_row_ids_and_sequence_numbers_leave_room_for_later_commits() -> None:
    many = {"first-row-id": 0, "added-rows": 2**62 + 1}
    assert invalid(v3(), add_snapshot(snapshot(1, **many))) == "Cannot add a snapshot: row ids are exhausted"
    assert invalid(table(), add_snapshot(snapshot(1, **{"sequence-number": 2**62 + 1}))) == (
        f"Cannot add snapshot with sequence number {2**62 + 1}: above {2**62} no commit could follow it"
    )


def test_row_ids_before_v3_are_whole_or_not_there() -> None:
    """Java does not read a snapshot that has one without the other."""
    assert invalid(table(), add_snapshot(snapshot(1, **{"first-row-id": 0}))) == (
        "Cannot add a snapshot: added-rows is required with first-row-id"
    )
    kept = applied(table(), add_snapshot(snapshot(1, **{"first-row-id": 0, "added-rows": 5})))
    assert kept.snapshots[0]["added-rows"] == 5


@pytest.mark.parametrize("version", [1, 2])
def test_nulls_that_java_does_not_read_are_not_kept(version: int) -> None:
    nulls: dict[str, Any] = {"first-row-id": None, "added-rows": None, "schema-id": None, "key-id": None}
    if version == 1:
        nulls |= {"sequence-number": None, "summary": None}
    new = applied(table(version=version), add_snapshot(snapshot(1, **nulls)))
    assert not nulls.keys() & new.snapshots[0].keys()
    blob = {"type": "t", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "properties": None}
    file = {"snapshot-id": 1, "statistics-path": "file:///s", "file-size-in-bytes": 1}
    whole = {**file, "file-footer-size-in-bytes": 1, "blob-metadata": [blob]}
    key = {"key-id": "k", "encrypted-key-metadata": "eA==", "encrypted-by-id": None, "properties": None}
    new = applied(
        new,
        {"action": "set-statistics", "statistics": whole},
        {"action": "add-encryption-key", "encryption-key": key},
    )
    assert "properties" not in new.statistics[0]["blob-metadata"][0]
    assert new.document["encryption-keys"] == [{"key-id": "k", "encrypted-key-metadata": "eA=="}]


def test_only_the_last_of_several_snapshots_enters_the_log() -> None:
    new = applied(with_history(1), add_snapshot(child(2)), set_ref(2), add_snapshot(child(3)), set_ref(3))
    assert ids(new.snapshots, "snapshot-id") == [1, 2, 3]
    assert log(new) == [1, 3]


def test_rollback_happens_now() -> None:
    new = applied(with_history(3), set_ref(1), now=NOW + 9000)
    assert new.current_snapshot_id == 1
    assert new.snapshot_log[-1] == {"timestamp-ms": NOW + 9000, "snapshot-id": 1}
    assert log(new) == [1, 2, 3, 1]


def test_added_and_rolled_back_in_one_commit() -> None:
    new = applied(with_history(1), add_snapshot(child(2)), set_ref(2), set_ref(1))
    assert log(new) == [1, 1]


def test_refs_with_retention() -> None:
    base = with_history(2)
    retention = {"min-snapshots-to-keep": 3, "max-snapshot-age-ms": 5, "max-ref-age-ms": 7}
    new = applied(
        base,
        set_ref(1, "audit", **retention),
        set_ref(2, "v2", "TAG", **{"max-ref-age-ms": 9, "min-snapshots-to-keep": None}),
    )
    assert new.refs == {
        "main": {"snapshot-id": 2, "type": "branch"},
        "audit": {"snapshot-id": 1, "type": "branch", **retention},
        "v2": {"snapshot-id": 2, "type": "tag", "max-ref-age-ms": 9},
    }
    assert applied(new, set_ref(1, "audit", **retention)) is new
    moved = applied(new, set_ref(2, "audit"))
    assert moved.refs["audit"] == {"snapshot-id": 2, "type": "branch"}
    assert log(moved) == [1, 2]


def test_refs_keep_keys_that_we_do_not_know() -> None:
    base = applied(with_history(1), set_ref(1, **{"x-note": {"a": 1}}))
    new = applied(base, add_snapshot(child(2)), set_ref(2))
    assert new.refs["main"] == {"snapshot-id": 2, "type": "branch", "x-note": {"a": 1}}


def test_main_implied_by_old_metadata_becomes_a_ref() -> None:
    base = with_history(2)
    del base.document["refs"]
    new = applied(base, set_ref(1, "old", "tag"))
    assert new.document["refs"] == {
        "main": {"snapshot-id": 2, "type": "branch"},
        "old": {"snapshot-id": 1, "type": "tag"},
    }


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (set_ref(1, ""), "'ref-name' of set-snapshot-ref must not be empty"),
        (set_ref(1, 5), "'ref-name' of set-snapshot-ref must be a string, not an integer"),  # type: ignore[arg-type]
        (set_ref(9), "Cannot set main to unknown snapshot: 9"),
        (set_ref(9, "x"), "Cannot set x to unknown snapshot: 9"),
        (set_ref(1, "main", "tag"), "Cannot set main to a tag, it must be a branch"),
        (set_ref(1, "x", "twig"), "'type' of set-snapshot-ref must be 'branch' or 'tag'"),
        (
            {"action": "set-snapshot-ref", "ref-name": "x", "snapshot-id": 1},
            "set-snapshot-ref lacks the member 'type'",
        ),
        (
            set_ref(1, "x", "tag", **{"min-snapshots-to-keep": 1}),
            "set-snapshot-ref: tags do not support min-snapshots-to-keep and max-snapshot-age-ms",
        ),
        (
            set_ref(1, "x", "tag", **{"max-snapshot-age-ms": 1}),
            "set-snapshot-ref: tags do not support min-snapshots-to-keep and max-snapshot-age-ms",
        ),
        (
            set_ref(1, "x", **{"min-snapshots-to-keep": 0}),
            "'min-snapshots-to-keep' of set-snapshot-ref must lie between 1 and 2147483647",
        ),
        (
            set_ref(1, "x", **{"max-ref-age-ms": "1"}),
            "'max-ref-age-ms' of set-snapshot-ref must be an integer, not a string",
        ),
        (remove_ref(5), "'ref-name' of remove-snapshot-ref must be a string, not an integer"),  # type: ignore[arg-type]
        (
            {"action": "remove-snapshots", "snapshot-ids": [1.5]},
            "'snapshot-ids' of remove-snapshots (an element) must be an integer, not a fraction",
        ),
    ],
)
def test_ref_refused(update: JsonObject, text: str) -> None:
    assert invalid(with_history(1), update) == text


def test_removing_main_leaves_no_current_snapshot() -> None:
    new = applied(with_history(2), remove_ref("main"))
    assert new.document["current-snapshot-id"] == -1
    assert new.refs == {}
    assert log(new) == [1, 2]


def test_replace_table_starts_main_anew() -> None:
    new = applied(with_history(2), remove_ref("main"), add_snapshot(snapshot(3)), set_ref(3))
    assert new.current_snapshot_id == 3
    assert log(new) == [1, 2, 3]


def test_removing_the_current_snapshot_drops_main() -> None:
    new = applied(applied(with_history(3), set_ref(2, "other")), remove(3))
    assert new.document["current-snapshot-id"] == -1
    assert set(new.refs) == {"other"}
    assert ids(new.snapshots, "snapshot-id") == [1, 2]
    assert log(new) == []


def test_the_log_is_cut_at_a_removed_snapshot() -> None:
    base = with_history(4)
    assert log(applied(base, remove(1))) == [2, 3, 4]
    assert log(applied(base, remove(2, 99))) == [3, 4]
    assert ids(applied(base, remove(2)).snapshots, "snapshot-id") == [1, 3, 4]


def test_removal_keeps_the_log_of_an_intermediate_snapshot_out_without_cutting() -> None:
    new = applied(
        with_history(1), add_snapshot(child(2)), set_ref(2), add_snapshot(child(3, 1)), set_ref(3), remove(2)
    )
    assert log(new) == [1, 3]


def statistics(snapshot_id: int, path: str = "s") -> JsonObject:
    return {
        "snapshot-id": snapshot_id,
        "statistics-path": f"{LOCATION}/metadata/{path}.puffin",
        "file-size-in-bytes": 100,
        "file-footer-size-in-bytes": 10,
        "blob-metadata": [
            {
                "type": "apache-datasketches-theta-v1",
                "snapshot-id": snapshot_id,
                "sequence-number": 1,
                "fields": [1],
                "properties": {"ndv": "5"},
                "x-blob": 1,
            },
            {"type": "other", "snapshot-id": snapshot_id, "sequence-number": 1, "fields": []},
        ],
    }


def partition_statistics(snapshot_id: int, path: str = "p") -> JsonObject:
    return {
        "snapshot-id": snapshot_id,
        "statistics-path": f"{LOCATION}/metadata/{path}.parquet",
        "file-size-in-bytes": 100,
    }


def set_stats(file: JsonObject, **more: Any) -> JsonObject:
    return {"action": "set-statistics", "statistics": file, **more}


def set_part_stats(file: JsonObject) -> JsonObject:
    return {"action": "set-partition-statistics", "partition-statistics": file}


def test_statistics() -> None:
    base = with_history(2)
    one = applied(base, set_stats(statistics(1)), set_stats(statistics(2), **{"snapshot-id": 2}))
    assert one.statistics == [statistics(1), statistics(2)]
    assert applied(one, set_stats(statistics(1))) is one
    two = applied(one, set_stats(statistics(1, "new")))
    assert two.statistics == [statistics(2), statistics(1, "new")]
    three = applied(two, {"action": "remove-statistics", "snapshot-id": 1})
    assert three.statistics == [statistics(2)]
    assert changed(two, three) == {"statistics", "last-updated-ms", "metadata-log"}


def test_partition_statistics() -> None:
    base = with_history(2)
    one = applied(base, set_part_stats(partition_statistics(1)), set_part_stats(partition_statistics(2)))
    assert one.partition_statistics == [partition_statistics(1), partition_statistics(2)]
    assert applied(one, set_part_stats(partition_statistics(2))) is one
    two = applied(one, {"action": "remove-partition-statistics", "snapshot-id": 2})
    assert two.partition_statistics == [partition_statistics(1)]


def test_a_removed_snapshot_takes_its_statistics_with_it() -> None:
    base = applied(
        with_history(3),
        *(set_stats(statistics(number)) for number in (1, 2, 77)),
        *(set_part_stats(partition_statistics(number)) for number in (1, 2, 77)),
    )
    new = applied(base, remove(1, 77))
    assert ids(new.statistics, "snapshot-id") == [2, 77]
    assert ids(new.partition_statistics, "snapshot-id") == [2, 77]


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (
            set_stats(statistics(1), **{"snapshot-id": 2}),
            "set-statistics names another snapshot-id than its statistics file",
        ),
        (set_stats({"snapshot-id": 1}), "statistics file lacks the member 'statistics-path'"),
        (
            set_stats({**statistics(1), "blob-metadata": [{"type": "x"}]}),
            "blob metadata lacks the member 'snapshot-id'",
        ),
        (
            set_stats(
                {
                    **statistics(1),
                    "blob-metadata": [{**statistics(1)["blob-metadata"][0], "properties": {"a": 1}}],
                }
            ),
            "'a' of 'properties' of blob metadata must be a string, not an integer",
        ),
        ({"action": "set-statistics"}, "set-statistics lacks the member 'statistics'"),
        ({"action": "remove-statistics"}, "remove-statistics lacks the member 'snapshot-id'"),
        (
            set_part_stats({**partition_statistics(1), "file-size-in-bytes": -1}),
            f"'file-size-in-bytes' of partition statistics file must lie between 0 and {2**63 - 1}",
        ),
        (
            {"action": "set-partition-statistics"},
            "set-partition-statistics lacks the member 'partition-statistics'",
        ),
        (
            {"action": "remove-partition-statistics", "snapshot-id": "1"},
            "'snapshot-id' of remove-partition-statistics must be an integer, not a string",
        ),
    ],
)
def test_statistics_refused(update: JsonObject, text: str) -> None:
    assert invalid(with_history(2), update) == text


def test_clock_skew_of_a_minute_is_tolerated() -> None:
    base = with_history(2)
    head = NOW + 2000
    behind = applied(base, add_snapshot(child(3, at=head - 60_000)), set_ref(3), now=head)
    assert behind.snapshot_log[-1]["timestamp-ms"] == head - 60_000
    ahead = applied(base, add_snapshot(child(3, at=head + 60_000)), set_ref(3), now=head)
    assert ahead.last_updated_ms == head


def test_clock_skew_beyond_a_minute_is_refused_with_a_reason() -> None:
    base = with_history(2)
    head = NOW + 2000
    old, new = head - 60_001, head + 60_001
    assert invalid(base, add_snapshot(child(3, at=old)), set_ref(3)) == (
        f"Invalid snapshot timestamp {old}: more than a minute before the last snapshot log entry at {head}"
    )
    with pytest.raises(Invalid) as caught:
        applied(base, add_snapshot(child(3, at=new)), set_ref(3), now=head)
    assert caught.value.message == (
        f"Invalid snapshot timestamp {new}: more than a minute after this server's time {head}"
    )
    # Off main there is no order to break, and the table goes on.
    side = applied(base, add_snapshot(child(3, at=new)), set_ref(3, "side"), now=head)
    assert applied(side, add_snapshot(child(4, 2)), set_ref(4)).current_snapshot_id == 4


def test_main_can_be_taken_away_after_moving_it() -> None:
    base = table()
    new = applied(base, add_snapshot(snapshot(1)), set_ref(1), remove_ref("main"))
    assert log(new) == []
    assert new.current_snapshot_id is None


def test_log_entries_of_another_writer_without_a_snapshot() -> None:
    base = with_history(1)
    base.document["snapshot-log"] = [{"timestamp-ms": NOW, "snapshot-id": 77}, *base.snapshot_log]
    assert log(applied(base, add_snapshot(child(2)), set_ref(2))) == [77, 1, 2]
    two = applied(base, add_snapshot(child(2)), set_ref(2), add_snapshot(child(3)), set_ref(3))
    assert log(two) == [1, 3]
