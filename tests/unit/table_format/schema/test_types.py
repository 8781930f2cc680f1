import itertools

import pytest

from table_format.errors import Invalid, Unsupported
from table_format.schema import types

NESTED = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long", "doc": "the key"},
        {
            "id": 2,
            "name": "points",
            "required": False,
            "type": {
                "type": "list",
                "element-id": 3,
                "element-required": True,
                "element": {
                    "type": "struct",
                    "fields": [{"id": 4, "name": "x", "required": False, "type": "decimal(9, 2)"}],
                },
            },
        },
        {
            "id": 5,
            "name": "tags",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 6,
                "key": "string",
                "value-id": 7,
                "value": "int",
                "value-required": False,
            },
        },
    ],
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", types.Primitive(name="int")),
        (" Timestamptz_NS ", types.Primitive(name="timestamptz_ns")),
        ("decimal(9,2)", types.Primitive(name="decimal", precision=9, scale=2)),
        ("decimal( 38 ,  0 )", types.Primitive(name="decimal", precision=38, scale=0)),
        ("DECIMAL(9, 9)", types.Primitive(name="decimal", precision=9, scale=9)),
        ("fixed[16]", types.Primitive(name="fixed", length=16)),
        ("fixed[ 3 ]", types.Primitive(name="fixed", length=3)),
    ],
)
def test_parse_primitive(text, expected):
    assert types.parse_primitive(text) == expected


@pytest.mark.parametrize("name", sorted(set(types._PLAIN)))
def test_every_plain_name_parses_and_prints_itself(name):
    assert str(types.parse_primitive(name)) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "integer",
        "decimal",
        "decimal(39,0)",
        "decimal(0,0)",
        "decimal(3,4)",
        "decimal(-1,2)",
        "decimal(9)",
        "fixed[0]",
        "fixed[99999999999]",
        "fixed(16)",
        "struct",
        "decimal(٩,٢)",
        None,
        {"type": "struct"},
    ],
)
def test_parse_primitive_refuses(text):
    with pytest.raises(Invalid):
        types.parse_primitive(text)


@pytest.mark.parametrize(
    "text", ["variant", "geometry", "geometry(OGC:CRS84)", "geography(EPSG:4326, karney)"]
)
def test_types_not_offered_are_named_as_such(text):
    with pytest.raises(Unsupported, match="not supported"):
        types.parse_primitive(text)


def test_printed_types_parse_back():
    for text in ("decimal(9, 2)", "fixed[3]"):
        assert str(types.parse_primitive(text)) == text


def test_fields_by_id_reaches_every_level():
    fields = types.fields_by_id(NESTED)
    assert {
        key: (view.path, view.required, view.parent_id, view.slot.value) for key, view in fields.items()
    } == {
        1: ("id", True, None, "struct"),
        2: ("points", False, None, "struct"),
        3: ("points.element", True, 2, "element"),
        4: ("points.element.x", False, 3, "struct"),
        5: ("tags", False, None, "struct"),
        6: ("tags.key", True, 5, "key"),
        7: ("tags.value", False, 5, "value"),
    }
    assert fields[1].doc == "the key"
    assert fields[4].primitive
    assert not fields[2].primitive


def test_fields_by_path_and_max_field_id():
    assert {path: view.id for path, view in types.fields_by_path(NESTED).items()}["tags.value"] == 7
    assert types.max_field_id(NESTED) == 7
    assert types.max_field_id({"type": "struct", "fields": []}) == 0


def test_an_id_or_a_name_used_twice_is_refused():
    fields = [{"id": 1, "name": "a", "type": "int"}, {"id": 1, "name": "b", "type": "int"}]
    with pytest.raises(Invalid, match="field id 1 is used twice: a and b"):
        types.fields_by_id({"type": "struct", "fields": fields})
    fields = [{"id": 1, "name": "a", "type": "int"}, {"id": 2, "name": "a", "type": "int"}]
    with pytest.raises(Invalid, match="two fields are named 'a'"):
        types.fields_by_path({"type": "struct", "fields": fields})


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "list"},
        {"type": "struct"},
        {"type": "struct", "fields": [1]},
        {"type": "struct", "fields": [{"id": 1, "type": "int"}]},
        {"type": "struct", "fields": [{"id": "1", "name": "a", "type": "int"}]},
        {"type": "struct", "fields": [{"id": True, "name": "a", "type": "int"}]},
        {"type": "struct", "fields": [{"id": 1, "name": "a"}]},
        {"type": "struct", "fields": [{"id": 1, "name": "a", "type": "int", "required": "yes"}]},
        {"type": "struct", "fields": [{"id": 1, "name": "a", "type": {"type": "set"}}]},
        {"type": "struct", "fields": [{"id": 1, "name": "a", "type": {"type": "list", "element": "int"}}]},
        {
            "type": "struct",
            "fields": [{"id": 1, "name": "a", "type": {"type": "map", "key-id": 2, "key": "int"}}],
        },
    ],
)
def test_malformed_schemas_are_invalid_not_a_crash(schema):
    with pytest.raises(Invalid):
        types.fields_by_id(schema)


def test_a_schema_nested_too_deep_is_invalid():
    json_type = "int"
    for level in range(500):
        json_type = {"type": "list", "element-id": level + 2, "element": json_type, "element-required": False}
    with pytest.raises(Invalid, match="nested deeper"):
        types.fields_by_id({"type": "struct", "fields": [{"id": 1, "name": "deep", "type": json_type}]})


def test_fresh_ids_number_a_level_before_what_is_inside_it():
    ids = itertools.count(1)
    fresh = types.with_fresh_ids(NESTED, lambda: next(ids))
    assert {view.path: view.id for view in types.walk(fresh)} == {
        "id": 1,
        "points": 2,
        "tags": 3,
        "points.element": 4,
        "points.element.x": 5,
        "tags.key": 6,
        "tags.value": 7,
    }
    assert fresh["schema-id"] == 0
    assert types.max_field_id(NESTED) == 7, "the given document is not touched"
