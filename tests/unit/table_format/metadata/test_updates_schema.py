from typing import Any

import pytest

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata
from tests.factories.metadata_documents import SCHEMA, applied, changed, field, ids, struct, table

WIDER = struct(*SCHEMA["fields"], field(4, "more", "double"))
SET_LAST = {"action": "set-current-schema", "schema-id": -1}


def add(schema: JsonObject, **more: Any) -> JsonObject:
    return {"action": "add-schema", "schema": schema, **more}


def invalid(base: TableMetadata, *found: Any) -> str:
    with pytest.raises(Invalid) as caught:
        applied(base, *found)
    return caught.value.message


def test_R10_add_schema_without_last_column_id() -> None:
    base = table()
    new = applied(base, add(WIDER), SET_LAST)
    assert new.schemas == [{**SCHEMA, "schema-id": 0}, {**WIDER, "schema-id": 1}]
    assert new.current_schema_id == 1
    assert new.last_column_id == 4
    assert changed(base, new) == {
        "schemas",
        "current-schema-id",
        "last-column-id",
        "last-updated-ms",
        "metadata-log",
    }


@pytest.mark.parametrize("sent", [0, 5, -1])
def test_the_id_sent_is_not_kept(sent: int) -> None:
    new = applied(table(), add({**WIDER, "schema-id": sent}, **{"last-column-id": 99}), SET_LAST)
    assert ids(new.schemas, "schema-id") == [0, 1]
    assert new.current_schema_id == 1
    assert new.last_column_id == 4


def test_equal_schema_is_reused_and_counts_as_last_added() -> None:
    base = applied(table(), add(WIDER), SET_LAST)
    new = applied(base, add({**SCHEMA, "schema-id": 7}), SET_LAST)
    assert ids(new.schemas, "schema-id") == [0, 1]
    assert new.current_schema_id == 0
    assert new.last_column_id == 4


def test_equal_schema_alone_changes_nothing() -> None:
    base = table()
    assert applied(base, add(SCHEMA)) is base
    assert applied(base, add(SCHEMA), SET_LAST) is base


def test_equal_schema_with_a_key_of_its_own_is_another() -> None:
    new = applied(table(), add({**SCHEMA, "x-note": "kept"}), SET_LAST)
    assert new.schema()["x-note"] == "kept"
    assert new.current_schema_id == 1


def test_ids_follow_the_highest() -> None:
    base = applied(table(), add(WIDER), SET_LAST)
    base = applied(base, {"action": "remove-schemas", "schema-ids": [0, 99]})
    assert ids(base.schemas, "schema-id") == [1]
    base = applied(base, add(SCHEMA))
    assert ids(base.schemas, "schema-id") == [1, 2]


def test_last_column_id_does_not_fall() -> None:
    new = applied(table(), add(struct(SCHEMA["fields"][0])))
    assert new.last_column_id == 3


def test_type_names_become_canonical() -> None:
    new = applied(table(), add(struct(*SCHEMA["fields"], field(4, "d", "DECIMAL(9,2)"))))
    assert new.schemas[1]["fields"][3]["type"] == "decimal(9, 2)"


def test_largest_64_bit_default_stays_exact() -> None:
    base = applied(table(), {"action": "upgrade-format-version", "format-version": 3})
    default = {"initial-default": 2**63 - 1, "write-default": 2**63 - 1}
    new = applied(base, add(struct(*SCHEMA["fields"], field(4, "n", **default))))
    assert TableMetadata.parse(new.to_bytes()).schemas[1]["fields"][3]["initial-default"] == 2**63 - 1


@pytest.mark.parametrize(
    ("updates", "text"),
    [
        ([{"action": "add-schema"}], "add-schema lacks the member 'schema'"),
        ([add([])], "'schema' of add-schema must be an object, not an array"),  # type: ignore[arg-type]
        (
            [add(struct(field(1, "a"), field(2, "a")))],
            "Invalid schema: multiple fields for name a: 1 and 2",
        ),
        ([add({**WIDER, "schema-id": "1"})], "'schema-id' of schema must be an integer, not a string"),
        ([SET_LAST], "Cannot set last added schema: no schema has been added"),
        ([{"action": "set-current-schema"}], "set-current-schema lacks the member 'schema-id'"),
        (
            [{"action": "set-current-schema", "schema-id": True}],
            "'schema-id' of set-current-schema must be an integer, not a boolean",
        ),
        (
            [{"action": "set-current-schema", "schema-id": 7}],
            "Cannot set current schema to unknown schema: 7",
        ),
        ([{"action": "remove-schemas", "schema-ids": [0]}], "Cannot remove the current schema"),
        (
            [{"action": "remove-schemas", "schema-ids": ["0"]}],
            "'schema-ids' of remove-schemas (an element) must be an integer, not a string",
        ),
        (
            [add(WIDER), {"action": "remove-schemas", "schema-ids": [1]}, SET_LAST],
            "Cannot set current schema to unknown schema: 1",
        ),
    ],
)
def test_refused(updates: list[Any], text: str) -> None:
    assert invalid(table(), *updates) == text


def test_recursive_schema_is_refused_not_a_crash() -> None:
    value: Any = "int"
    for level in range(500):
        value = struct(field(level, "a", value))
    assert invalid(table(), add(struct(field(900, "top", value)))) == (
        "add-schema is nested too deeply: at most 240 levels"
    )
    many: Any = "int"
    for level in range(150):
        many = {"type": "list", "element-id": level, "element": many, "element-required": True}
    assert invalid(table(), add(struct(field(900, "top", many)))) == (
        "schema is nested too deeply: at most 100 levels"
    )


DAY = {"spec-id": 0, "fields": [{"source-id": 3, "field-id": 1000, "name": "day", "transform": "day"}]}


def test_dropping_a_partition_source_column_is_refused() -> None:
    base = table(spec=DAY)
    without = struct(*SCHEMA["fields"][:2])
    assert invalid(base, add(without), SET_LAST) == (
        "Cannot find source column for partition field: day (source-id 3)"
    )
    unpartitioned = [
        {"action": "add-spec", "spec": {"fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
    ]
    new = applied(base, *unpartitioned, add(without), SET_LAST)
    assert new.current_schema_id == 1


def test_changing_a_partition_source_column_to_an_unfit_type_is_refused() -> None:
    changed_type = struct(*SCHEMA["fields"][:2], field(3, "at", "string"))
    assert invalid(table(spec=DAY), add(changed_type), SET_LAST) == (
        "Invalid source type string for transform: day (partition field day)"
    )


def test_dropping_a_sort_column_is_refused() -> None:
    order = {
        "order-id": 1,
        "fields": [
            {"source-id": 2, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
        ],
    }
    base = applied(
        table(),
        {"action": "add-sort-order", "sort-order": order},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    )
    text = invalid(base, add(struct(SCHEMA["fields"][0], SCHEMA["fields"][2])), SET_LAST)
    assert text == "Cannot find source column for sort field: 2 (source-id 2)"


def test_v1_keeps_the_single_schema_in_step() -> None:
    new = applied(table(version=1), add(WIDER), SET_LAST)
    assert new.document["schema"] == {**WIDER, "schema-id": 1}
    assert ids(new.document["schemas"], "schema-id") == [0, 1]
