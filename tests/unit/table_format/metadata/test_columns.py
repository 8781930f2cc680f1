from typing import Any

import pytest

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata import columns
from tests.factories.metadata_documents import field, struct

LIST = {"type": "list", "element-id": 11, "element": "int", "element-required": True}
MAP = {
    "type": "map",
    "key-id": 21,
    "key": "string",
    "value-id": 22,
    "value": {"type": "struct", "fields": [field(23, "x")]},
    "value-required": False,
}


def message(schema: Any, version: int = 2) -> str:
    with pytest.raises(Invalid) as caught:
        columns.check_new(schema, version)
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("long", "long"),
        ("STRING", "string"),
        ("decimal(9,2)", "decimal(9, 2)"),
        ("decimal( 38 , 38 )", "decimal(38, 38)"),
        ("decimal(39, 2)", None),
        ("decimal(0, 0)", None),
        ("decimal(3, 4)", None),
        ("fixed[ 016 ]", "fixed[16]"),
        ("fixed[0]", None),
        ("fixed[99999999999]", None),
        ("variant", "variant"),
        ("geometry", "geometry"),
        ("Geometry(EPSG:3857)", "geometry(EPSG:3857)"),
        ("geography(OGC:CRS84, karney)", "geography(OGC:CRS84, karney)"),
        ("geography(OGC:CRS84, KARNEY)", "geography(OGC:CRS84, KARNEY)"),
        ("GEOGRAPHY", "geography"),
        ("geography(OGC:CRS84, flat)", None),
        ("geometry()", None),
        ("geography()", None),
        ("timestamp_ns", "timestamp_ns"),
        ("struct", None),
        ("bigint", None),
        ("", None),
    ],
)
def test_canonical_primitive(text: str, canonical: str | None) -> None:
    assert columns.canonical_primitive(text) == canonical


def test_columns_of_every_nesting() -> None:
    schema = struct(
        field(1, "id", "LONG", required=True),
        field(2, "list", LIST),
        field(3, "map", MAP),
        field(4, "s", struct(field(5, "y", "date"))),
    )
    found = columns.columns(schema)
    assert [(column.id, column.path, column.required) for column in found] == [
        (1, "id", True),
        (2, "list", False),
        (3, "map", False),
        (4, "s", False),
        (11, "list.element", True),
        (21, "map.key", True),
        (22, "map.value", False),
        (5, "s.y", False),
        (23, "map.value.x", False),
    ]
    assert found[0].type == "long"
    assert [outer.path for outer in found[-1].parents()] == ["map.value", "map"]
    assert [column.path for column in found if column.is_struct] == ["s", "map.value"]
    assert columns.by_id(schema)[22].path == "map.value"


def nested(levels: int, kind: str) -> JsonObject:
    value: Any = "int"
    for level in range(levels):
        if kind == "struct":
            value = struct(field(level + 1, "a", value))
        else:
            value = {**LIST, "element-id": level + 1, "element": value}
    return struct(field(0, "top", value))


@pytest.mark.parametrize("kind", ["struct", "list"])
def test_nesting_is_bounded(kind: str) -> None:
    assert len(columns.columns(nested(98, kind))) == 99
    for levels in (99 + 1, 5000):
        with pytest.raises(Invalid) as caught:
            columns.columns(nested(levels, kind))
        assert caught.value.message == "schema is nested too deeply: at most 100 levels"


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "schema must be of type 'struct'"),
        ({"type": "list"}, "schema must be of type 'struct'"),
        ({"type": "struct"}, "struct lacks the member 'fields'"),
        ({"type": "struct", "fields": {}}, "'fields' of struct must be an array, not an object"),
        (struct("x"), "an element of 'fields' of struct must be an object, not a string"),  # type: ignore[arg-type]
        (struct({"id": 1}), "field lacks the member 'name'"),
        (struct(field(1, 5)), "'name' of field must be a string, not an integer"),  # type: ignore[arg-type]
        (struct(field("1", "a")), "'id' of field 'a' must be an integer, not a string"),  # type: ignore[arg-type]
        (struct(field(True, "a")), "'id' of field 'a' must be an integer, not a boolean"),
        (struct(field(-1, "a")), "'id' of field 'a' must lie between 0 and 2147483447"),
        (struct(field(1, "a", doc=5)), "'doc' of field 'a' must be a string, not an integer"),
        (
            struct({"id": 1, "name": "a", "type": "int"}),
            "field 'a' lacks the member 'required'",
        ),
        (struct({"id": 1, "name": "a", "required": True}), "field 'a' lacks the member 'type'"),
        (struct(field(1, "a", 5)), "type of 'a' must be a type name or a struct, list or map"),
        (struct(field(1, "a", {})), "type of 'a' must be a type name or a struct, list or map"),
        (struct(field(1, "a", {"type": ["x"]})), "type of 'a' must be a type name or a struct, list or map"),
        (struct(field(1, "a", {"type": "list"})), "type of 'a.element' lacks the member 'element-id'"),
        (
            struct(field(1, "a", {**MAP, "value-required": None})),
            "'value-required' of type of 'a.value' must be a boolean, not null",
        ),
        (struct(field(1, "a", "bigint")), "Cannot parse type string to primitive: 'bigint' of 'a'"),
        (
            struct(field(1, "a"), field(1, "b")),
            "Invalid schema: multiple fields for id 1: a and b",
        ),
        (
            struct(field(1, "a"), field(2, "a")),
            "Invalid schema: multiple fields for name a: 1 and 2",
        ),
        (
            struct(field(1, "a.b"), field(2, "a", struct(field(3, "b")))),
            "Invalid schema: multiple fields for name a.b: 1 and 3",
        ),
        (
            {**struct(field(1, "a")), "identifier-field-ids": 1},
            "'identifier-field-ids' of schema must be an array, not an integer",
        ),
    ],
)
def test_malformed(schema: Any, text: str) -> None:
    assert message(schema) == text


def test_too_new_types_name_the_version() -> None:
    schema = struct(
        field(1, "v", "variant"),
        field(2, "t", "timestamp_ns"),
        field(3, "g", "geometry(EPSG:3857)"),
        field(4, "d", "long", **{"initial-default": 5}),
    )
    assert message(schema) == (
        "Invalid schema for v2:\n"
        "- Invalid type for v: variant is not supported until v3\n"
        "- Invalid type for t: timestamp_ns is not supported until v3\n"
        "- Invalid type for g: geometry(EPSG:3857) is not supported until v3\n"
        "- Invalid initial default for d: non-null default is not supported until v3"
    )
    assert list(columns.check_new(schema, 3)) == [1, 2, 3, 4]


def test_a_table_may_have_no_columns() -> None:
    assert columns.check_new(struct(), 2) == {}
    assert message(struct(**{"identifier-field-ids": [1]})) == (
        "Cannot add fieldId 1 as an identifier field: field does not exist"
    )


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (9, "Cannot add fieldId 9 as an identifier field: field does not exist"),
        (2, "Cannot add field s as an identifier field: not a primitive type field"),
        (4, "Cannot add field o as an identifier field: not a required field"),
        (5, "Cannot add field f as an identifier field: must not be float or double field"),
        (3, "Cannot add field s.x as an identifier field: must not be nested in an optional field s"),
        (7, "Cannot add field l.element as an identifier field: must not be nested in l"),
    ],
)
def test_identifier_fields(wanted: int, text: str) -> None:
    schema = struct(
        field(1, "id", required=True),
        field(2, "s", struct(field(3, "x", required=True))),
        field(4, "o"),
        field(5, "f", "float", required=True),
        field(6, "l", {**LIST, "element-id": 7}),
        field(8, "r", struct(field(10, "x", required=True)), required=True),
    )
    columns.check_new({**schema, "identifier-field-ids": [1, 10]}, 2)
    columns.check_new({**schema, "identifier-field-ids": None}, 2)
    assert message({**schema, "identifier-field-ids": [wanted]}) == text


def test_variant_is_no_identifier_field() -> None:
    """Java does not read such a schema."""
    schema = struct(field(1, "v", "variant", required=True), **{"identifier-field-ids": [1]})
    assert message(schema, 3) == "Cannot add field v as an identifier field: not a primitive type field"


@pytest.mark.parametrize(
    ("column", "path"),
    [
        (field(1, "u", "unknown", required=True), "u"),
        (
            field(1, "u", {"type": "list", "element-id": 2, "element": "unknown", "element-required": True}),
            "u.element",
        ),
        (field(1, "u", {**MAP, "key": "unknown"}), "u.key"),
    ],
)
def test_columns_of_unknown_type_are_optional(column: JsonObject, path: str) -> None:
    """Java does not read such a schema."""
    assert message(struct(column), 3) == f"Cannot create required field with unknown type: {path}"


@pytest.mark.parametrize(
    ("known", "added", "equal"),
    [
        ("geometry", "geometry(OGC:CRS84)", True),
        ("geometry(ogc:crs84)", "GEOMETRY( OGC:CRS84 )", True),
        ("geometry", "geometry(EPSG:3857)", False),
        ("geography", "geography(OGC:CRS84, spherical)", True),
        ("geography(OGC:CRS84)", "geography(ogc:crs84, SPHERICAL)", True),
        ("geography", "geography(OGC:CRS84, karney)", False),
        ("geography", "geometry", False),
    ],
)
def test_types_that_leave_out_their_parameters(known: str, added: str, equal: bool) -> None:
    assert columns.covers(struct(field(1, "g", known)), struct(field(1, "g", added))) is equal


def test_rebuilt_numbers_in_java_order_and_keeps_unknown_keys() -> None:
    schema = struct(
        field(50, "a", {**MAP, "x-map": 1}),
        field(51, "b", {**LIST, "element": "DECIMAL(9,2)"}, **{"x-field": [1]}),
        **{"x-schema": {"y": 2}},
    )
    numbers = iter(range(1, 100))
    assert columns.rebuilt(schema, 7, lambda _: next(numbers)) == {
        "type": "struct",
        "schema-id": 7,
        "x-schema": {"y": 2},
        "fields": [
            field(
                1,
                "a",
                {
                    **MAP,
                    "x-map": 1,
                    "key-id": 3,
                    "value-id": 4,
                    "value": {"type": "struct", "fields": [field(5, "x")]},
                },
            ),
            field(2, "b", {**LIST, "element-id": 6, "element": "decimal(9, 2)"}, **{"x-field": [1]}),
        ],
    }
    assert schema["fields"][0]["id"] == 50


BASE = struct(field(1, "a", MAP), field(2, "b", LIST, doc="d"), **{"schema-id": 4, "x": 1})


def edit(**changes: Any) -> JsonObject:
    return {**BASE, **changes}


@pytest.mark.parametrize(
    "added",
    [
        BASE,
        edit(**{"schema-id": 9}),
        {key: value for key, value in BASE.items() if key not in ("x", "schema-id")},
        edit(**{"identifier-field-ids": []}),
        edit(**{"identifier-field-ids": None}),
        edit(fields=[{**BASE["fields"][0], "doc": None}, BASE["fields"][1]]),
        edit(fields=[field(1, "a", {**MAP, "key": "STRING"}), BASE["fields"][1]]),
    ],
)
def test_covers(added: JsonObject) -> None:
    assert columns.covers(BASE, added)


@pytest.mark.parametrize(
    "added",
    [
        edit(x=2),
        edit(y=1),
        edit(**{"identifier-field-ids": [1]}),
        edit(fields=BASE["fields"][:1]),
        edit(fields=list(reversed(BASE["fields"]))),
        edit(fields=[{**BASE["fields"][0], "z": 1}, BASE["fields"][1]]),
        edit(fields=[BASE["fields"][0], field(2, "b", LIST, doc="other")]),
        edit(fields=[BASE["fields"][0], field(2, "b", {**LIST, "element": "long"}, doc="d")]),
        edit(fields=[BASE["fields"][0], field(2, "b", {**LIST, "element-required": False}, doc="d")]),
        edit(fields=[BASE["fields"][0], field(2, "b", {**LIST, "q": False}, doc="d")]),
        edit(fields=[BASE["fields"][0], field(2, "b", "int", doc="d")]),
        edit(fields=[BASE["fields"][0], field(2, "b", MAP, doc="d")]),
        edit(fields=[field(1, "a", {**MAP, "value": struct(field(24, "x"))}), BASE["fields"][1]]),
        edit(fields=[field(1, "a", MAP, required=True), BASE["fields"][1]]),
    ],
)
def test_does_not_cover(added: JsonObject) -> None:
    assert not columns.covers(BASE, added)
