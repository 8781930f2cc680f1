"""Which metadata files may follow a table's current one."""

import copy
from typing import Any

import pytest

from table_format.errors import CommitFailed, Invalid
from table_format.metadata import updates
from table_format.metadata.document import TableMetadata
from table_format.metadata.succession import check_successor
from tests.factories.metadata_documents import NOW, PREVIOUS, add_snapshot, set_ref, snapshot, with_history

HERE = "file:///data/t/metadata/00003-here.metadata.json"


def following(base: TableMetadata, *found: Any) -> TableMetadata:
    return updates.apply(base, found, now_ms=NOW + 100_000, previous_location=HERE)


def changed(metadata: TableMetadata, **members: Any) -> TableMetadata:
    return TableMetadata({**copy.deepcopy(metadata.document), **members})


def appended(base: TableMetadata, snapshot_id: int, **more: Any) -> TableMetadata:
    new = snapshot(snapshot_id, **{"parent-snapshot-id": base.current_snapshot_id, **more})
    return following(base, add_snapshot(new), set_ref(snapshot_id))


def version3(next_row_id: int) -> TableMetadata:
    return changed(with_history(2), **{"format-version": 3, "next-row-id": next_row_id})


@pytest.mark.parametrize(
    ("base", "more"),
    [
        (with_history(3, version=1), {"number": ...}),
        (with_history(3), {}),
        (version3(100), {"first-row-id": 100, "added-rows": 4}),
    ],
    ids=["v1", "v2", "v3"],
)
def test_an_append_follows(base: TableMetadata, more: dict[str, Any]) -> None:
    check_successor(base, HERE, appended(base, 4, **more))


def test_metadata_that_had_no_uuid_may_get_one() -> None:
    base = changed(with_history(2, version=1), **{"table-uuid": None})
    new = appended(base, 3, number=...)
    check_successor(base, HERE, new)
    check_successor(base, HERE, changed(new, **{"table-uuid": "11111111-8b0e-4bb5-a4b9-3ef7c7e0d9a1"}))


def test_expiration_of_snapshots_behind_the_head_follows() -> None:
    base = with_history(5)
    check_successor(base, HERE, following(base, {"action": "remove-snapshots", "snapshot-ids": [1, 2, 4]}))


def test_a_rollback_follows_when_it_keeps_what_it_leaves() -> None:
    base = with_history(3)
    check_successor(base, HERE, following(base, set_ref(1)))


def test_what_the_log_names_may_be_spelt_otherwise_or_stand_further_up() -> None:
    base = with_history(2)
    log = [
        {"timestamp-ms": NOW, "metadata-file": "file:/data/t/metadata/00003-here.metadata.json"},
        {"timestamp-ms": NOW, "metadata-file": "file:///data/t/metadata/00004-between.metadata.json"},
    ]
    check_successor(base, HERE, changed(base, **{"metadata-log": log}))


def test_made_from_another_version_is_a_conflict() -> None:
    base = with_history(3)
    new = updates.apply(base, [set_ref(1)], now_ms=NOW + 100_000, previous_location=PREVIOUS)
    with pytest.raises(CommitFailed, match="does not name the current metadata"):
        check_successor(base, HERE, new)


def test_a_log_without_any_file_is_a_conflict() -> None:
    base = with_history(3)
    with pytest.raises(CommitFailed):
        check_successor(base, HERE, changed(appended(base, 4), **{"metadata-log": []}))


@pytest.mark.parametrize("uuid", ["11111111-8b0e-4bb5-a4b9-3ef7c7e0d9a1", None])
def test_another_uuid_is_another_table(uuid: str | None) -> None:
    base = with_history(3)
    with pytest.raises(Invalid, match="table-uuid"):
        check_successor(base, HERE, changed(appended(base, 4), **{"table-uuid": uuid}))


@pytest.mark.parametrize(
    ("member", "value"),
    [("last-sequence-number", 3), ("last-column-id", 2), ("format-version", 1), ("last-partition-id", 998)],
)
def test_nothing_that_only_grows_may_go_back(member: str, value: int) -> None:
    base = changed(with_history(4), **{"last-column-id": 3})
    new = changed(following(base, set_ref(1)), **{member: value})
    with pytest.raises(Invalid, match=f"its {member} is {value}"):
        check_successor(base, HERE, new)


def test_row_ids_do_not_go_back() -> None:
    base = version3(100)
    new = following(base, {"action": "set-properties", "updates": {"a": "b"}})
    with pytest.raises(Invalid, match="next-row-id is 99"):
        check_successor(base, HERE, changed(new, **{"next-row-id": 99}))


def test_the_head_is_not_lost() -> None:
    base = with_history(3)
    new = changed(
        following(base, set_ref(2)),
        snapshots=[row for row in base.snapshots if row["snapshot-id"] != 3],
    )
    with pytest.raises(Invalid, match="lost the current snapshot 3"):
        check_successor(base, HERE, new)


@pytest.mark.parametrize(
    "change", [{"manifest-list": "file:///data/t/metadata/other.avro"}, {"sequence-number": 1}]
)
def test_a_snapshot_id_keeps_its_snapshot(change: dict[str, Any]) -> None:
    base = with_history(3)
    new = following(base, set_ref(1))
    rows = [{**row, **change} if row["snapshot-id"] == 2 else row for row in new.snapshots]
    with pytest.raises(Invalid, match="snapshot id 2 to another"):
        check_successor(base, HERE, changed(new, snapshots=rows))


def test_a_new_snapshot_is_newer_than_all_before() -> None:
    base = with_history(3)
    new = following(base, set_ref(1))
    rows = [*new.snapshots, snapshot(9, number=3)]
    with pytest.raises(Invalid, match="sequence number of its new snapshot 9"):
        check_successor(base, HERE, changed(new, snapshots=rows))


def test_rows_of_a_new_snapshot_have_new_ids() -> None:
    base = version3(100)
    new = following(base, {"action": "set-properties", "updates": {"a": "b"}})
    rows = [*new.snapshots, snapshot(9, **{"first-row-id": 99, "added-rows": 1})]
    with pytest.raises(Invalid, match="first-row-id of its new snapshot 9"):
        check_successor(base, HERE, changed(new, snapshots=rows, **{"last-sequence-number": 9}))


def test_a_spec_id_keeps_its_fields() -> None:
    base = following(
        with_history(1),
        {
            "action": "add-spec",
            "spec": {"fields": [{"name": "day", "source-id": 3, "transform": "day"}]},
        },
    )
    specs = [
        {**spec, "fields": [{**field, "transform": "hour"} for field in spec["fields"]]}
        for spec in base.partition_specs
    ]
    new = changed(following(base, set_ref(1, "other")), **{"partition-specs": specs})
    with pytest.raises(Invalid, match="partition spec id 1"):
        check_successor(base, HERE, new)


def test_a_schema_id_keeps_its_columns() -> None:
    base = with_history(1)
    new = following(base, set_ref(1, "other"))
    schema = base.schemas[0]
    for change in ({"type": "binary"}, {"name": "other"}, {"id": 99}):
        fields = [{**schema["fields"][0], **change}, *schema["fields"][1:]]
        members = {"schemas": [{**schema, "fields": fields}, *base.schemas[1:]], "last-column-id": 99}
        with pytest.raises(Invalid, match="schema id 0 to other columns"):
            check_successor(base, HERE, changed(new, **members))
    fields = [{**schema["fields"][0], "doc": "as some writers add it"}, *schema["fields"][1:]]
    check_successor(
        base, HERE, changed(new, schemas=[{**schema, "extra": 1, "fields": fields}, *base.schemas[1:]])
    )


def test_ids_that_are_given_out_next_are_new() -> None:
    base = with_history(1)
    new = following(base, set_ref(1, "other"))
    column = {"id": 500, "name": "more", "required": False, "type": "int"}
    schema = {**base.schemas[0], "schema-id": 9, "fields": [*base.schemas[0]["fields"], column]}
    with pytest.raises(Invalid, match="and a column has the id 500"):
        check_successor(base, HERE, changed(new, schemas=[*base.schemas, schema]))
    spec = {
        "spec-id": 9,
        "fields": [{"name": "d", "source-id": 3, "transform": "day", "field-id": base.last_partition_id + 1}],
    }
    with pytest.raises(Invalid, match="and a partition field has the id"):
        check_successor(base, HERE, changed(new, **{"partition-specs": [*base.partition_specs, spec]}))


def test_rows_of_a_new_snapshot_are_counted() -> None:
    base = version3(100)
    new = appended(base, 4, **{"first-row-id": 100, "added-rows": 4})
    with pytest.raises(Invalid, match="rows of its snapshot 4 have ids up to 103"):
        check_successor(base, HERE, changed(new, **{"next-row-id": 103}))
    for name in ("first-row-id", "added-rows"):
        rows = [{key: value for key, value in row.items() if key != name} for row in new.snapshots]
        with pytest.raises(Invalid, match="snapshot 4 lacks first-row-id or added-rows"):
            check_successor(base, HERE, changed(new, snapshots=rows))
