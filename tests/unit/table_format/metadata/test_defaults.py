from typing import Any

import pytest

from table_format.errors import Invalid
from table_format.metadata import columns, updates
from table_format.metadata.defaults import check_default
from tests.factories.metadata_documents import (
    NOW,
    SCHEMA,
    UUID,
    add_snapshot,
    applied,
    field,
    set_ref,
    snapshot,
    struct,
    table,
)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("boolean", False),
        ("int", -(2**31)),
        ("long", 2**63 - 1),
        ("float", 3.4e38),
        ("double", 1e300),
        ("decimal(9, 2)", "-14.20"),
        ("decimal(38, 10)", "1234567890123456789012345678.0123456789"),
        ("decimal(3, 0)", "100"),
        ("date", "2024-02-29"),
        ("date", "0000-02-29"),
        ("time", "23:59:59.123456789"),
        ("time", "00:00"),
        ("timestamp", "2024-02-29T12:00:00"),
        ("timestamptz", "2024-02-29T12:00:00.000001+00:00"),
        ("timestamptz", "2024-02-29T12:00Z"),
        ("timestamp_ns", "1678-01-01T00:00:00.000000001"),
        ("timestamptz_ns", "2261-12-31T23:59:59-00:00"),
        ("string", ""),
        ("uuid", UUID.upper()),
        ("fixed[2]", "0aFF"),
        ("binary", ""),
        ("binary", "00ff"),
        ("variant", None),
        ({"type": "struct", "fields": []}, None),
    ],
)
def test_values_of_their_type(type_: Any, value: Any) -> None:
    check_default(value, type_, "initial-default of c")


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("boolean", "true"),
        ("boolean", 1),
        ("int", 2**31),
        ("int", True),
        ("int", 1.0),
        ("long", 2**63),
        ("float", 3.5e38),
        ("double", 1),
        ("decimal(9, 2)", "14.2"),
        ("decimal(9, 2)", "1234567890.00"),
        ("decimal(9, 2)", "NaN"),
        ("decimal(9, 2)", 14.2),
        ("decimal(9, 2)", "1" * 50),
        ("date", "2023-02-29"),
        ("date", "2024-13-01"),
        ("date", "2024-1-1"),
        ("date", 5),
        ("time", "24:00:00"),
        ("time", "23:60:00"),
        ("time", "23:59:60"),
        ("timestamp", "2024-02-29T12:00:00Z"),
        ("timestamp", "2024-02-29 12:00:00"),
        ("timestamptz", "2024-02-29T12:00:00+01:00"),
        ("timestamptz", "2024-02-29T12:00:00"),
        ("timestamp_ns", "2263-01-01T00:00:00"),
        ("timestamp_ns", "1600-01-01T00:00:00"),
        ("string", 5),
        ("uuid", "0b1f"),
        ("fixed[2]", "0aFFFF"),
        ("fixed[2]", "0aFg"),
        ("binary", "0"),
        ("binary", "٠٠"),
    ],
)
def test_what_is_no_value_of_the_type_is_refused(type_: str, value: Any) -> None:
    with pytest.raises(Invalid, match="initial-default of c is not a JSON single value of type"):
        check_default(value, type_, "initial-default of c")


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("unknown", "columns of type unknown have no other default"),
        ("variant", "columns of type variant have no other default"),
        ("geometry(EPSG:3857)", "columns of type geometry have no other default"),
        ("geography", "columns of type geography have no other default"),
        ({"type": "struct", "fields": []}, "a nested type takes its defaults from its fields"),
    ],
)
def test_types_without_a_default(type_: Any, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_default({}, type_, "write-default of c")
    assert refused.value.message == f"write-default of c must be null: {text}"


def test_both_defaults_of_a_new_schema_are_checked_at_every_depth() -> None:
    for key in ("initial-default", "write-default"):
        inner = field(2, "x", "int", **{key: "5"})
        with pytest.raises(Invalid, match=f"{key} of s.x is not a JSON single value of type int"):
            columns.check_new(struct(field(1, "s", struct(inner))), 3)


def test_null_for_no_default_is_left_out() -> None:
    found = field(1, "a", "int", doc=None, **{"initial-default": None, "write-default": None})
    rebuilt = columns.rebuilt(struct(found), 0, lambda column_id: column_id)
    assert rebuilt["fields"] == [field(1, "a", "int", doc=None)]


def with_default(value: int | None) -> list[Any]:
    added = field(4, "n", "int", **({} if value is None else {"initial-default": value}))
    return [
        {"action": "add-schema", "schema": struct(*SCHEMA["fields"], added)},
        {"action": "set-current-schema", "schema-id": -1},
    ]


def first_rows(number: int = 1) -> list[Any]:
    rows = {"first-row-id": 0, "added-rows": 5}
    return [add_snapshot(snapshot(number, at=NOW, **rows)), set_ref(number)]


@pytest.mark.parametrize(("before", "after"), [(5, 6), (5, None), (None, 5)])
def test_the_initial_default_of_rows_that_are_there_never_changes(
    before: int | None, after: int | None
) -> None:
    base = applied(applied(table(version=3), *with_default(before)), *first_rows())
    with pytest.raises(Invalid, match="Cannot change the initial-default of column n"):
        updates.apply(base, with_default(after), now_ms=NOW + 9, previous_location=None)


def test_the_initial_default_may_change_where_no_rows_are() -> None:
    base = applied(applied(table(version=3), *with_default(5)), *with_default(6))
    assert base.schema()["fields"][-1]["initial-default"] == 6


def test_a_replaced_table_may_have_other_initial_defaults() -> None:
    base = applied(applied(table(version=3), *with_default(5)), *first_rows())
    away = {"action": "remove-snapshot-ref", "ref-name": "main"}
    new = applied(base, away, *with_default(6))
    assert new.schema()["fields"][-1]["initial-default"] == 6
