from typing import Any

import pytest

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata
from tests.factories.metadata_documents import SCHEMA, applied, changed, field, ids, struct, table

SET_LAST = {"action": "set-default-spec", "spec-id": -1}
SET_LAST_ORDER = {"action": "set-default-sort-order", "sort-order-id": -1}


def part(source_id: int, transform: str, name: str, field_id: int | None = None, **more: Any) -> JsonObject:
    ids_ = {} if field_id is None else {"field-id": field_id}
    return {"source-id": source_id, "name": name, "transform": transform, **ids_, **more}


def spec(*fields: JsonObject, **more: Any) -> JsonObject:
    return {"action": "add-spec", "spec": {"fields": list(fields), **more}}


def sort(source_id: int, transform: str = "identity", direction: str = "asc", **more: Any) -> JsonObject:
    return {
        "source-id": source_id,
        "transform": transform,
        "direction": direction,
        "null-order": "nulls-first",
        **more,
    }


def order(*fields: JsonObject, **more: Any) -> JsonObject:
    return {"action": "add-sort-order", "sort-order": {"fields": list(fields), **more}}


def invalid(base: TableMetadata, *found: Any) -> str:
    with pytest.raises(Invalid) as caught:
        applied(base, *found)
    return caught.value.message


def test_spec_without_any_id() -> None:
    base = table()
    new = applied(base, spec(part(3, "DAY", "day"), part(1, "Bucket[016]", "b")), SET_LAST)
    assert new.spec(1) == {
        "spec-id": 1,
        "fields": [part(3, "day", "day", 1000), part(1, "bucket[16]", "b", 1001)],
    }
    assert new.default_spec_id == 1
    assert new.last_partition_id == 1001
    assert changed(base, new) == {
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "last-updated-ms",
        "metadata-log",
    }


def test_ids_go_on_after_the_last_and_one_source_and_transform_keeps_its_id() -> None:
    base = applied(table(), spec(part(3, "day", "day")), SET_LAST)
    base = applied(base, spec(part(1, "bucket[4]", "b")), SET_LAST)
    new = applied(base, spec(part(2, "identity", "name"), part(3, "day", "again")), SET_LAST)
    assert [[f["field-id"] for f in s["fields"]] for s in new.partition_specs] == [
        [],
        [1000],
        [1001],
        [1002, 1000],
    ]
    assert new.last_partition_id == 1002


def test_given_ids_are_kept_and_raise_the_last() -> None:
    new = applied(table(), spec(part(3, "day", "day", 1005), part(1, "identity", "id")))
    assert [f["field-id"] for f in new.spec(1)["fields"]] == [1005, 1006]
    assert new.last_partition_id == 1006


def test_a_given_id_that_means_another_field_is_not_used_twice() -> None:
    base = applied(table(), spec(part(3, "day", "day", 1000)))
    new = applied(base, spec(part(1, "bucket[4]", "b", 1000)))
    assert new.spec(2)["fields"] == [part(1, "bucket[4]", "b", 1001)]
    same = applied(base, spec(part(3, "day", "other", 1000)))
    assert same.spec(2)["fields"] == [part(3, "day", "other", 1000)]


def test_missing_id_when_the_known_one_is_taken() -> None:
    base = applied(table(), spec(part(3, "day", "day", 1000)), spec(part(3, "void", "day", 1000)))
    new = applied(base, spec(part(3, "void", "gone", 1000), part(3, "day", "day")))
    assert [f["field-id"] for f in new.spec(3)["fields"]] == [1000, 1001]


def test_spec_id_sent_is_not_kept() -> None:
    new = applied(table(), spec(part(3, "day", "day"), **{"spec-id": 0, "x": {"y": 1}}))
    assert new.partition_specs[1]["spec-id"] == 1
    assert new.partition_specs[1]["x"] == {"y": 1}


def test_equal_spec_is_reused_and_counts_as_last_added() -> None:
    base = applied(table(), spec(part(3, "day", "day")), SET_LAST)
    assert applied(base, spec(part(3, "day", "day"))) is base
    back = applied(base, spec(), SET_LAST)
    assert ids(back.partition_specs, "spec-id") == [0, 1]
    assert back.default_spec_id == 0
    renamed = applied(base, spec(part(3, "day", "tag")))
    assert ids(renamed.partition_specs, "spec-id") == [0, 1, 2]


def test_spec_with_a_key_of_its_own_is_another() -> None:
    base = applied(table(), spec(part(3, "day", "day")))
    new = applied(base, spec(part(3, "day", "day", x=1)), spec(part(3, "day", "day"), y=2))
    assert ids(new.partition_specs, "spec-id") == [0, 1, 2, 3]


def test_source_id_0_as_spark_numbers_columns() -> None:
    base = table()
    base = applied(
        base,
        {"action": "add-schema", "schema": struct(field(0, "zero"), field(9, "nine"))},
        {"action": "set-current-schema", "schema-id": -1},
    )
    new = applied(base, spec(part(0, "identity", "zero")), SET_LAST)
    assert new.spec()["fields"] == [part(0, "identity", "zero", 1000)]


def test_remove_specs() -> None:
    base = applied(table(), spec(part(3, "day", "day")), SET_LAST)
    new = applied(base, {"action": "remove-partition-specs", "spec-ids": [0, 9]})
    assert ids(new.partition_specs, "spec-id") == [1]
    assert invalid(base, {"action": "remove-partition-specs", "spec-ids": [1]}) == (
        "Cannot remove the default partition spec"
    )


NESTED = struct(
    *SCHEMA["fields"],
    field(4, "s", struct(field(5, "x"))),
    field(6, "l", {"type": "list", "element-id": 7, "element": "int", "element-required": True}),
)
USE_NESTED = (
    {"action": "add-schema", "schema": NESTED},
    {"action": "set-current-schema", "schema-id": -1},
)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ([part(9, "day", "day")], "Cannot find source column for partition field: day (source-id 9)"),
        ([part(2, "day", "day")], "Invalid source type string for transform: day (partition field day)"),
        ([part(3, "zorder", "z")], "Unknown transform of partition field: 'zorder'"),
        ([part(3, "bucket[0]", "z")], "Unknown transform of partition field: 'bucket[0]'"),
        (
            [part(4, "identity", "p")],
            "Cannot use non-primitive source column for partition field: p from s",
        ),
        (
            [part(7, "identity", "p")],
            "Invalid partition field parent: l of l.element is no struct",
        ),
        ([part(3, "day", "")], "Cannot use empty partition name"),
        (
            [part(3, "day", "p"), part(1, "identity", "p")],
            "Cannot use partition name more than once: p",
        ),
        (
            [part(3, "day", "id")],
            "Cannot create identity partition sourced from different field in schema: id",
        ),
        (
            [part(3, "day", "p"), part(3, "DAY", "q")],
            "Cannot add redundant partition: q repeats the source and transform of another",
        ),
        (
            [part(3, "day", "p", 1000), part(1, "identity", "q", 1000)],
            "partition spec uses one field-id more than once",
        ),
        ([part(3, "day", "p", 2**31)], "'field-id' of partition field must lie between 0 and 2147483647"),
        ([part(3, "day", "p", 2**31 - 1), part(1, "identity", "q")], "partition field ids are exhausted"),
        ([part("3", "day", "p")], "'source-id' of partition field must be an integer, not a string"),  # type: ignore[arg-type]
        ([{"name": "p", "transform": "day"}], "partition field lacks the member 'source-id'"),
        ([part(3, 5, "p")], "'transform' of partition field must be a string, not an integer"),  # type: ignore[arg-type]
        (
            [{"name": "p", "transform": "bucket[4]", "source-ids": [1, 2]}],
            "'source-ids' of partition field is not supported: transforms take one source column",
        ),
        (
            [{"name": "p", "transform": "bucket[4]", "source-ids": ["1"]}],
            "'source-ids' of partition field (an element) must be an integer, not a string",
        ),
        (["p"], "an element of 'fields' of partition spec must be an object, not a string"),
    ],
)
def test_spec_refused(fields: list[Any], text: str) -> None:
    assert invalid(applied(table(), *USE_NESTED), spec(*fields)) == text


def test_nested_source_and_name_of_its_own_source() -> None:
    base = applied(table(), *USE_NESTED)
    new = applied(base, spec(part(5, "identity", "s.x"), part(1, "bucket[4]", "id")))
    assert [f["name"] for f in new.spec(1)["fields"]] == ["s.x", "id"]


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (SET_LAST, "Cannot set last added spec: no spec has been added"),
        (
            {"action": "set-default-spec", "spec-id": 9},
            "Cannot set default partition spec to unknown spec: 9",
        ),
        ({"action": "set-default-spec"}, "set-default-spec lacks the member 'spec-id'"),
        ({"action": "add-spec"}, "add-spec lacks the member 'spec'"),
        ({"action": "add-spec", "spec": {}}, "partition spec lacks the member 'fields'"),
        (SET_LAST_ORDER, "Cannot set last added sort order: no sort order has been added"),
        (
            {"action": "set-default-sort-order", "sort-order-id": 9},
            "Cannot set default sort order to unknown sort order: 9",
        ),
        ({"action": "add-sort-order"}, "add-sort-order lacks the member 'sort-order'"),
        (order(sort(9)), "Cannot find source column for sort field: 9 (source-id 9)"),
        # Unlike a partition field, which v1 keeps as void when its column is dropped.
        (order(sort(9, "void")), "Cannot find source column for sort field: 9 (source-id 9)"),
        (order(sort(1, "hour")), "Invalid source type long for transform: hour (sort field 1)"),
        (order(sort(1, "zorder")), "Unknown transform of sort field: 'zorder'"),
        (order(sort(1, direction="up")), "'direction' of sort field must be 'asc' or 'desc'"),
        (
            order({**sort(1), "null-order": "first"}),
            "'null-order' of sort field must be 'nulls-first' or 'nulls-last'",
        ),
        (order({"source-id": 1, "transform": "identity"}), "sort field lacks the member 'direction'"),
        (order(**{"order-id": "1"}), "'order-id' of sort order must be an integer, not a string"),
    ],
)
def test_default_or_order_refused(update: JsonObject, text: str) -> None:
    assert invalid(table(), update) == text


def test_v1_specs_carry_dropped_fields_as_void() -> None:
    base = table(version=1, spec={"fields": [part(3, "day", "day"), part(2, "identity", "name")]})
    assert invalid(base, spec(part(2, "identity", "name"))) == (
        "Spec does not use sequential IDs that are required in v1: keep dropped fields as void"
    )
    void = spec(part(3, "void", "day", 1000), part(2, "identity", "name", 1001), part(1, "identity", "id"))
    new = applied(base, void, SET_LAST)
    assert [f["field-id"] for f in new.spec()["fields"]] == [1000, 1001, 1002]
    assert new.document["partition-spec"] == new.spec()["fields"]
    again = applied(
        new,
        spec(
            part(3, "void", "day", 1000),
            part(2, "void", "name", 1001),
            part(1, "identity", "id", 1002),
            part(3, "day", "day2", 1003),
        ),
    )
    assert [f["field-id"] for f in again.spec(2)["fields"]] == [1000, 1001, 1002, 1003]


def test_void_does_not_take_the_id_of_another_source() -> None:
    base = applied(table(), spec(part(3, "day", "day", 1000)))
    new = applied(base, spec(part(1, "void", "v", 1000)))
    assert new.spec(2)["fields"] == [part(1, "void", "v", 1001)]


def test_void_survives_its_source_column() -> None:
    base = applied(table(), spec(part(3, "void", "day")), SET_LAST)
    without = struct(*SCHEMA["fields"][:2])
    new = applied(
        base,
        {"action": "add-schema", "schema": without},
        {"action": "set-current-schema", "schema-id": -1},
    )
    assert new.current_schema_id == 1


def test_sort_orders() -> None:
    base = table()
    one = applied(base, order(sort(1, direction="DESC", x=1), **{"order-id": 9, "y": 2}), SET_LAST_ORDER)
    assert one.sort_orders == [
        {"order-id": 0, "fields": []},
        {"order-id": 1, "y": 2, "fields": [sort(1, direction="desc", x=1)]},
    ]
    assert one.default_sort_order_id == 1
    assert applied(one, order(sort(1, direction="desc"))) is one
    back = applied(one, order(**{"order-id": 0}), SET_LAST_ORDER)
    assert back.default_sort_order_id == 0
    two = applied(one, order(sort(2)), SET_LAST_ORDER)
    assert ids(two.sort_orders, "order-id") == [0, 1, 2]


def test_order_0_exists_even_where_it_is_not_listed() -> None:
    base = applied(table(), order(sort(1)), SET_LAST_ORDER)
    base.document["sort-orders"] = base.document["sort-orders"][1:]
    new = applied(base, {"action": "set-default-sort-order", "sort-order-id": 0})
    assert ids(new.sort_orders, "order-id") == [1, 0]
    assert new.default_sort_order_id == 0
    added = applied(base, order(), SET_LAST_ORDER)
    assert ids(added.sort_orders, "order-id") == [1, 0]


def test_unknown_transform_of_an_old_spec_does_not_stop_commits() -> None:
    base = table(spec={"fields": [part(3, "day", "day")]})
    base.document["partition-specs"] = [{"spec-id": 0, "fields": [part(3, "zorder[3]", "z", 1000)]}]
    new = applied(
        base,
        {"action": "add-schema", "schema": struct(*SCHEMA["fields"], field(4, "more"))},
        {"action": "set-current-schema", "schema-id": -1},
        spec(part(3, "day", "day")),
    )
    assert new.spec(0)["fields"] == [part(3, "zorder[3]", "z", 1000)]
    assert new.spec(1)["fields"] == [part(3, "day", "day", 1001)]


def test_old_spec_of_several_source_columns_is_kept() -> None:
    base = table()
    several = {"name": "z", "transform": "bucket[4]", "source-ids": [1, 2], "field-id": 1000}
    base.document["partition-specs"] = [{"spec-id": 0, "fields": [several]}]
    base.document["last-partition-id"] = 1000
    new = applied(
        TableMetadata.parse(base.to_bytes()),
        {"action": "add-schema", "schema": struct(*SCHEMA["fields"], field(4, "more"))},
        {"action": "set-current-schema", "schema-id": -1},
        spec(part(3, "day", "day", 1000)),
    )
    assert new.spec(0)["fields"] == [several]
    assert new.spec(1)["fields"] == [part(3, "day", "day", 1001)]
