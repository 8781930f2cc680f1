"""JSON values in a table's columns: what is inferred, what fits, and what is refused rather than changed."""

import datetime
import decimal
import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ingest_plugin.bind.columns import MAX_COLUMNS, MAX_DEPTH, MAX_FIELDS, columns_of, is_blank
from ingest_plugin.bind.compile import Binder
from ingest_plugin.bind.observe import observe_rows, without_clashes
from ingest_plugin.bind.typetext import parse_type
from ingest_plugin.keys import ConfigError
from table_format.schema.types import with_fresh_ids


def struct_of(types: dict[str, str], required: tuple[str, ...] = ()) -> dict[str, Any]:
    ids = itertools.count(1)
    fields = [
        {"name": name, "required": name in required, "type": parse_type(text, name)}
        for name, text in types.items()
    ]
    struct = with_fresh_ids({"type": "struct", "fields": fields}, lambda: next(ids))
    assert isinstance(struct, dict)
    return struct


def observed(*rows: dict[str, Any], known: dict[str, Any] | None = None, grow: bool = True) -> dict[str, Any]:
    struct = observe_rows(columns_of(list(rows)), known, grow=grow)
    return {field["name"]: field["type"] for field in struct["fields"]}


def bind(types: dict[str, str], *rows: dict[str, Any], required: tuple[str, ...] = ()) -> Any:
    return Binder(struct_of(types, required), trusted=False, reserved=frozenset({"_ours"})).bind(list(rows))


def taken(kind: str, value: Any) -> Any:
    """The value as it comes out of a column of that type, beside one that surely fits nowhere."""
    result = bind({"c": kind}, {"c": value}, {"c": None})
    assert result.errors == {}
    return result.arrays["c"].to_pylist()[0]


def refusal(kind: str, value: Any) -> str:
    result = bind({"c": kind}, {"c": None}, {"c": value}, {"c": None})
    assert list(result.errors) == [1], result
    assert result.arrays["c"].to_pylist() == [None, None]
    assert list(result.kept) == [0, 2]
    return str(result.errors[1])


def test_inferred_types() -> None:
    assert observed({"i": 1, "f": 1.5, "s": "2020-01-01T00:00:00Z", "b": True, "n": None}) == {
        "i": "long",
        "f": "double",
        "s": "string",
        "b": "boolean",
        "n": "unknown",
    }


def test_columns_come_in_order_of_first_appearance() -> None:
    assert list(observed({"b": 1}, {"a": 1, "b": 2}, {"c": 1, "a": 2})) == ["b", "a", "c"]


def test_whole_numbers_and_fractions_together_are_double() -> None:
    assert observed({"a": 1}, {"a": 1.5}) == observed({"a": 1.5}, {"a": 1}) == {"a": "double"}


def test_ingest_case_31_the_first_value_decides_where_values_disagree() -> None:
    assert observed({"a": [1]}, {"a": 2})["a"]["type"] == "list"
    assert observed({"a": 2}, {"a": [1]}) == {"a": "long"}
    result = bind(
        {"a": "list<long>", "b": "long"}, {"a": [1], "b": 1}, {"a": 2, "b": 2}, {"a": [3], "b": 1.5}
    )
    assert result.arrays["a"].to_pylist() == [[1]]
    assert result.errors == {
        1: "column 'a': expected an array, got number 2",
        2: "column 'b': expected a whole number, got number 1.5",
    }


def test_ingest_case_31_an_int_column_widens_to_long_when_a_number_needs_it() -> None:
    known = struct_of({"a": "int"})
    assert observed({"a": 5}, known=known) == {"a": "int"}
    assert observed({"a": 2**31}, known=known) == {"a": "long"}
    assert observed({"a": 1.5}, known=known) == {"a": "int"}
    assert observed({"a": 2**31}, known=known, grow=False) == {"a": "int"}


def test_ingest_case_13_new_fields_inside_structs_lists_and_maps() -> None:
    known = struct_of(
        {"s": "struct<a: long>", "l": "list<struct<a: long>>", "m": "map<string, struct<a: long>>"}
    )
    found = observed(
        {"s": {"a": 1, "b": "x"}, "l": [{"a": 1}, {"c": True}], "m": {"k": {"d": [1.5]}}}, known=known
    )
    assert [field["name"] for field in found["s"]["fields"]] == ["a", "b"]
    assert [field["name"] for field in found["l"]["element"]["fields"]] == ["a", "c"]
    value = found["m"]["value"]
    assert value["fields"][1]["type"] == {"type": "list", "element": "double", "element-required": False}


def test_empty_and_null_say_nothing_yet() -> None:
    rows = observed({"a": [], "b": {}, "c": [[]], "d": None})
    assert rows["b"] == {"type": "struct", "fields": []}
    assert rows["a"]["element"] == "unknown"
    assert all(is_blank(value) for value in ([], {}, [[]], None, {"a": [None]}))
    assert not any(is_blank(value) for value in (0, False, "", [0], {"a": ""}))
    assert bind({"x": "long"}, {"x": 1, "a": [], "b": {}, "c": [None]}).errors == {}


def test_ingest_case_17_a_name_in_other_case_is_the_same_column() -> None:
    known = struct_of({"Name": "string", "s": "struct<Deep: long>"})
    assert list(observed({"name": "x", "s": {"deep": 1}}, known=known)) == ["Name", "s"]
    assert list(observed({"Foo": 1}, {"foo": 2})) == ["Foo"]
    result = bind(
        {"Name": "string", "s": "struct<Deep: long>"},
        {"name": "a", "s": {"deep": 1}},
        {"NAME": "b", "s": {"Deep": 2}},
        {"Name": "c", "name": None},
        {"Name": "d", "name": "e"},
    )
    assert result.arrays["Name"].to_pylist() == ["a", "b", "c"]
    assert result.arrays["s"].to_pylist() == [{"Deep": 1}, {"Deep": 2}, None]
    assert result.errors == {3: "two fields are named 'name' but for upper and lower case"}


def test_limits_on_width_and_depth() -> None:
    wide = {f"k{number}": 1 for number in range(MAX_COLUMNS + 5)}
    assert len(observed(wide)) == MAX_COLUMNS
    deep: Any = 1
    for _ in range(200):
        deep = {"d": deep}
    found = observed({"top": deep})
    assert json.dumps(found).count('"name"') <= MAX_DEPTH + 1
    assert "is no column of the table" in bind({"x": "long"}, {"x": 1, "top": deep}).errors[0]
    nested: Any = []
    for _ in range(500):
        nested = [nested]
    observed({"a": nested})


def test_unknown_fields_are_refused_not_dropped() -> None:
    result = bind(
        {"a": "long", "s": "struct<x: long>"}, {"a": 1, "b": 2}, {"a": 1, "s": {"y": 1}}, {"a": 3, "b": None}
    )
    assert result.arrays["a"].to_pylist() == [3]
    assert result.errors == {
        0: "field 'b' is no column of the table",
        1: "column 's': field 'y' is no column of the table",
    }


def test_our_own_column_cannot_be_sent() -> None:
    assert "ingest fills itself" in bind({"a": "long"}, {"a": 1, "_ours": 2}).errors[0]


def test_required_values() -> None:
    result = bind(
        {"a": "long", "s": "struct<x: long>"},
        {"a": 1},
        {"s": {"x": 1}},
        {"a": None},
        {"a": 2},
        required=("a",),
    )
    assert result.arrays["a"].to_pylist() == [1, 2]
    assert sorted(result.errors) == [1, 2]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("boolean", True, True),
        ("int", -(2**31), -(2**31)),
        ("long", 2**63 - 1, 2**63 - 1),
        ("long", 5.0, 5),
        ("double", 1, 1.0),
        ("double", 0.1, 0.1),
        ("float", 0.5, 0.5),
        ("float", 2**24, 2.0**24),
        ("string", "ü", "ü"),
        ("date", "2024-02-29", datetime.date(2024, 2, 29)),
        ("time", "23:59:59.000001", datetime.time(23, 59, 59, 1)),
        ("timestamp", "1969-12-31T23:59:59.999999", datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001
        ("timestamptz", "2013-01-01T05:00:00-05:00", datetime.datetime(2013, 1, 1, 10, tzinfo=datetime.UTC)),
        (
            "timestamptz",
            "2013-01-01T10:00:00.123456789Z",
            datetime.datetime(2013, 1, 1, 10, 0, 0, 123456, tzinfo=datetime.UTC),
        ),
        ("decimal(9,2)", 1.25, decimal.Decimal("1.25")),
        ("decimal(9,2)", "-1234567.89", decimal.Decimal("-1234567.89")),
        ("decimal(9,2)", 7, decimal.Decimal("7.00")),
        ("decimal(38,0)", 10**25 + 1, decimal.Decimal(10**25 + 1)),
        ("uuid", "00000000-0000-0000-0000-000000000007", b"\0" * 15 + b"\7"),
        ("binary", "AP8=", b"\x00\xff"),
        ("fixed[2]", "AP8=", b"\x00\xff"),
        ("list<long>", [1, None, 3], [1, None, 3]),
        ("map<string, double>", {"a": 1, "b": None}, [("a", 1.0), ("b", None)]),
        ("struct<a: list<date>>", {"a": ["2024-01-01"]}, {"a": [datetime.date(2024, 1, 1)]}),
        ("list<struct<t: timestamptz>>", [{"t": "1970-01-01T00:00:01Z"}], None),
    ],
)
def test_what_fits(kind: str, value: Any, expected: Any) -> None:
    found = taken(kind, value)
    if expected is None:
        assert found == [{"t": datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)}]
    else:
        assert found == expected
        assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", 1),
        ("boolean", "true"),
        ("int", 2**31),
        ("int", True),
        ("long", 1.5),
        ("long", 2**63),
        ("long", 1e300),
        ("long", 2.0**53),
        ("long", "1"),
        ("long", True),
        ("double", True),
        ("double", "1.0"),
        ("double", 2**53 + 1),
        ("double", 10**30),
        ("double", 10**400),
        ("float", 1e300),
        ("float", 2**24 + 1),
        ("float", True),
        ("string", 1),
        ("string", {"a": 1}),
        ("date", 5),
        ("date", "2024-02-30"),
        ("date", "2024-01-01T00:00:00"),
        ("time", "25:00"),
        ("time", "10:00:00Z"),
        ("timestamp", 1_700_000_000_000),
        ("timestamp", "2013-01-01T10:00:00Z"),
        ("timestamptz", "2013-01-01T10:00:00"),
        ("timestamptz", "yesterday"),
        ("decimal(4,2)", "123.45"),
        ("decimal(4,2)", "1.234"),
        ("decimal(4,2)", True),
        ("decimal(4,2)", "NaN"),
        ("decimal(30,20)", 0.12345678901234567),
        ("decimal(38,2)", 1e17),
        ("uuid", "7"),
        ("binary", "%%%"),
        ("binary", "é"),
        ("fixed[2]", "AA=="),
        ("list<string>", "ab"),
        ("list<long>", {"a": 1}),
        ("list<long>", [1.5]),
        ("struct<a: long>", [["a", 1]]),
        ("struct<a: long>", {"a": "x"}),
        ("map<string, long>", [1]),
        ("map<string, long>", {"a": "x"}),
    ],
)
def test_what_is_refused_and_never_silently_null(kind: str, value: Any) -> None:
    assert refusal(kind, value).startswith("column 'c': ")


def test_a_batch_is_the_same_as_its_rows() -> None:
    """A value is judged alike alone and in company, whatever stands beside it."""
    kinds = ["long", "double", "string", "boolean", "timestamptz", "list<long>", "struct<a: long>"]
    values = [
        None,
        1,
        1.0,
        1.5,
        True,
        "x",
        "2020-01-01T00:00:00Z",
        [1],
        [1.5],
        [],
        {},
        {"a": 1},
        {"a": 1.5},
        2**63,
    ]
    for kind in kinds:
        whole = bind({"c": kind}, *({"c": value} for value in values))
        alone = [bind({"c": kind}, {"c": value}) for value in values]
        assert sorted(whole.errors) == [place for place, one in enumerate(alone) if one.errors]
        assert whole.arrays["c"].to_pylist() == [
            one.arrays["c"].to_pylist()[0] for one in alone if not one.errors
        ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lst<long>",
        "list<long",
        "list<>",
        "map<long, long>",
        "map<string>",
        "struct<a>",
        "struct<a: >",
        "decimal(39,2)",
        "timestamp_ns",
        "list<long>>",
        "unknown",
        "variant",
    ],
)
def test_type_texts_that_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="column 'c'"):
        parse_type(text, "c")


def test_names_that_differ_by_case_are_observed_together() -> None:
    assert observed({"A": None}, {"a": 5}) == {"A": "long"}
    assert observed({"A": 1}, {"a": 1.5}) == {"A": "double"}
    (kind,) = observed({"S": {"x": 1}}, {"s": {"y": 2}}).values()
    assert [field["name"] for field in kind["fields"]] == ["x", "y"]
    known = struct_of({"S": "struct<x: long>"})
    kind = observed({"S": {"x": 1, "y": 1}}, {"s": {"z": 2}}, known=known)["S"]
    assert [field["name"] for field in kind["fields"]] == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("known", "row", "kept"),
    [
        ({"a.b": "long"}, {"a": {"b": 1, "c": 1}}, ["a.b", "a", "a.c"]),
        ({"a": "struct<b: long>"}, {"a.b": 1, "c": 1}, ["a", "a.b", "c"]),
        ({}, {"a.b.c": 1, "a": {"b.c": 1, "b": {"c": 1}}}, ["a.b.c", "a", "a.b"]),
        ({}, {"l.element": 1, "l": [1]}, ["l.element"]),
        (
            {"l": "list<struct<x: long>>"},
            {"l.element.y": 1, "l": [{"y": 1}]},
            ["l", "l.element", "l.element.x"],
        ),
    ],
)
def test_new_fields_whose_path_is_taken_are_left_out(
    known: dict[str, str], row: dict[str, Any], kept: list[str]
) -> None:
    before = struct_of(known)
    found = without_clashes(observe_rows(columns_of([row]), before, grow=True), before)
    paths = list(_paths(found, ""))
    assert len(paths) == len(set(paths))
    assert paths[: len(kept)] == kept
    again = without_clashes(observe_rows(columns_of([row]), found, grow=True), found)
    assert again == found


def _paths(kind: Any, prefix: str) -> Iterator[str]:
    if isinstance(kind, dict):
        members = {field["name"]: field["type"] for field in kind.get("fields", ())}
        for name, inner in (members or {"element": kind.get("element")}).items():
            yield prefix + name
            yield from _paths(inner, f"{prefix}{name}.")


def test_a_value_nested_a_thousand_levels_is_refused_with_a_short_reason() -> None:
    deep: Any = 1
    for _ in range(sys.getrecursionlimit()):
        deep = [deep]
    assert len(refusal("long", deep)) < 120


def test_a_table_does_not_grow_without_end_at_any_depth() -> None:
    row = {f"a{i}": {f"b{j}": 1 for j in range(200)} for i in range(200)}
    empty = struct_of({})
    found = without_clashes(observe_rows(columns_of([row]), empty, grow=True), empty)
    assert len(list(_paths(found, ""))) == MAX_FIELDS


def test_a_name_with_a_zero_byte_is_no_new_column() -> None:
    """DuckDB would see two columns `a`."""
    assert observed({"a\0b": 1, "a\0c": 2, "a": 3}) == {"a": "long"}
