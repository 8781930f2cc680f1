import pytest

from table_format.errors import Invalid
from table_format.schema.evolve import (
    AddField,
    Incompatible,
    MakeOptional,
    Promote,
    changes,
    evolve,
    incompatible,
)
from table_format.schema.types import fields_by_path


def struct(*fields, **more):
    return {"type": "struct", **more, "fields": list(fields)}


def field(field_id, name, json_type, *, required=False, **more):
    return {"id": field_id, "name": name, "required": required, "type": json_type, **more}


def seen(name, json_type, *, required=False, **more):
    return {"name": name, "required": required, "type": json_type, **more}


def listed(element_id, element, *, required=False):
    return {"type": "list", "element-id": element_id, "element": element, "element-required": required}


def mapped(key_id, key, value, *, required=False):
    ids = {"type": "map", "key-id": key_id, "value-id": key_id + 1}
    return {**ids, "key": key, "value": value, "value-required": required}


def array(element, *, required=False):
    return {"type": "list", "element": element, "element-required": required}


def by_string(value):
    return {"type": "map", "key": "string", "value": value, "value-required": False}


TABLE = struct(
    field(1, "id", "long", required=True),
    field(2, "amount", "decimal(9,2)"),
    field(3, "points", listed(4, struct(field(5, "x", "int", required=True)), required=True)),
    field(6, "by_name", mapped(7, "string", struct(field(9, "f", "float")))),
    **{"schema-id": 3, "invented-key": {"kept": True}},
)


def observed(**changed):
    members = {
        "id": seen("id", "long", required=True),
        "amount": seen("amount", "decimal(9, 2)"),
        "points": seen(
            "points",
            {"type": "list", "element": struct(seen("x", "int", required=True)), "element-required": True},
        ),
        "by_name": seen(
            "by_name",
            {"type": "map", "key": "string", "value": struct(seen("f", "float")), "value-required": False},
        ),
    }
    return struct(*(member for member in {**members, **changed}.values() if member is not None))


def apply(table, other, last=9, **options):
    found = changes(table, other, **options)
    evolved, last = evolve(table, found, last)
    assert changes(evolved, other, **options) == []
    return evolved, last


def test_nothing_to_do_gives_back_the_same_document():
    assert changes(TABLE, observed()) == []
    assert evolve(TABLE, [], 9) == (TABLE, 9)
    assert evolve(TABLE, [], 9)[0] is TABLE


def test_a_new_column_is_appended_optional_with_fresh_ids():
    new = seen(
        "new",
        struct(
            seen("a", "int", required=True),
            seen("b", {"type": "list", "element": "int", "element-required": True}),
        ),
        required=True,
        doc="why",
    )
    found = changes(TABLE, observed(new=new))
    assert [type(change) for change in found] == [AddField]
    evolved, last = evolve(TABLE, found, 20)
    assert last == 24
    assert evolved["fields"][:-1] == TABLE["fields"]
    assert evolved["fields"][-1] == {
        "id": 21,
        "name": "new",
        "required": False,
        "doc": "why",
        "type": {
            "type": "struct",
            "fields": [
                {"id": 22, "name": "a", "required": False, "type": "int"},
                {
                    "id": 23,
                    "name": "b",
                    "required": False,
                    "type": {"type": "list", "element-id": 24, "element": "int", "element-required": False},
                },
            ],
        },
    }
    assert evolved["invented-key"] == {"kept": True}
    assert "schema-id" not in evolved
    assert TABLE["schema-id"] == 3


def test_ingest_case_13_new_fields_inside_list_elements_and_map_values():
    points = seen(
        "points",
        {
            "type": "list",
            "element-required": True,
            "element": struct(seen("x", "int", required=True), seen("y", "int")),
        },
    )
    by_name = seen(
        "by_name", {"type": "map", "key": "string", "value": struct(seen("f", "float"), seen("g", "string"))}
    )
    evolved, last = apply(TABLE, observed(points=points, by_name=by_name))
    paths = fields_by_path(evolved)
    assert (paths["points.element.y"].id, paths["by_name.value.g"].id, last) == (10, 11, 11)


def test_ingest_case_14_required_is_relaxed_at_every_level():
    points = seen("points", {"type": "list", "element-required": False, "element": struct(seen("x", "int"))})
    evolved, _ = apply(TABLE, observed(points=points, id=seen("id", "long")))
    paths = fields_by_path(evolved)
    assert not any(paths[path].required for path in ("id", "points.element", "points.element.x"))
    assert paths["by_name.key"].required


def test_a_column_missing_from_the_data_becomes_optional_and_stays():
    found = changes(TABLE, observed(id=None, points=None))
    assert found == [MakeOptional(path="id", field_id=1)]
    inside = seen("points", array(struct(seen("z", "int")), required=True))
    evolved, _ = apply(TABLE, observed(points=inside))
    assert fields_by_path(evolved)["points.element.x"].required is False


@pytest.mark.parametrize(
    ("have", "want"),
    [("int", "long"), ("float", "double"), ("decimal(9, 2)", "decimal(12, 2)"), ("unknown", "string")],
)
def test_promotions(have, want):
    table = struct(field(1, "c", have))
    assert changes(table, struct(seen("c", want))) == [Promote(path="c", field_id=1, have=have, want=want)]
    evolved, _ = apply(table, struct(seen("c", want)))
    assert evolved["fields"][0]["type"] == want
    assert changes(evolved, struct(seen("c", have))) == [], "the narrower data still fits"


def test_promotion_inside_list_and_map():
    table = struct(field(1, "l", listed(2, "int")), field(3, "m", mapped(4, "string", "float")))
    other = struct(
        seen("l", {"type": "list", "element": "long"}),
        seen("m", {"type": "map", "key": "string", "value": "double"}),
    )
    evolved, _ = apply(table, other)
    assert fields_by_path(evolved)["l.element"].type == "long"
    assert fields_by_path(evolved)["m.value"].type == "double"


@pytest.mark.parametrize(
    ("have", "want"),
    [
        ("string", "int"),
        ("long", "double"),
        ("int", "double"),
        ("decimal(9, 2)", "decimal(12, 3)"),
        ("date", "timestamp"),
        ("timestamp", "timestamptz"),
        ("fixed[3]", "fixed[4]"),
        ("fixed[3]", "binary"),
    ],
)
def test_incompatible_types_are_values_naming_column_have_and_want(have, want):
    for first, second in ((have, want), (want, have)):
        found = changes(struct(field(1, "c", first)), struct(seen("c", second)))
        assert found == [Incompatible(path="c", have=first, want=second)]
        assert str(found[0]) == f"column 'c' is {first}, the data has {second}"


def test_ingest_case_31_a_list_that_becomes_a_scalar_is_incompatible():
    table = struct(field(1, "s", struct(field(2, "c", listed(3, "int")))), field(4, "ok", "int"))
    found = changes(table, struct(seen("s", struct(seen("c", "int"))), seen("ok", "long")))
    assert incompatible(found) == [Incompatible(path="s.c", have="list", want="int")]
    assert Promote(path="ok", field_id=4, have="int", want="long") in found, (
        "the other columns are still judged"
    )
    with pytest.raises(Invalid, match=r"column 's\.c' is list, the data has int"):
        evolve(table, found, 4)


def test_map_keys_do_not_evolve():
    table = struct(field(1, "m", mapped(2, "int", "int")))
    found = changes(table, struct(seen("m", {"type": "map", "key": "long", "value": "long"})))
    assert found == [
        Incompatible(path="m.key", have="int", want="long"),
        Promote(path="m.value", field_id=3, have="int", want="long"),
    ]


def test_identifier_fields_and_their_parents_stay_required():
    inner = struct(field(2, "key", "long", required=True), field(3, "n", "long", required=True))
    table = struct(field(1, "s", inner, required=True), **{"identifier-field-ids": [2]})
    assert changes(table, struct()) == [
        Incompatible(path="s", have="required (identifier)", want="optional or missing")
    ]
    found = changes(table, struct(seen("s", struct(seen("key", "long")), required=True)))
    assert found == [
        Incompatible(path="s.key", have="required (identifier)", want="optional or missing"),
        MakeOptional(path="s.n", field_id=3),
    ]


def test_unknown_adds_nothing_and_fits_anything():
    nothing = {
        "a": seen("a", "unknown"),
        "b": seen("b", {"type": "list", "element": "unknown"}),
        "c": seen(
            "c", struct(seen("d", "unknown"), seen("e", {"type": "map", "key": "string", "value": "unknown"}))
        ),
    }
    assert changes(TABLE, observed(amount=seen("amount", "unknown"), **nothing)) == []
    some = seen("f", struct(seen("d", "unknown"), seen("g", "int")))
    (added,) = changes(TABLE, observed(f=some))
    assert [member["name"] for member in added.type["fields"]] == ["g"]


def test_ingest_case_17_other_case_reuses_the_column():
    table = struct(field(1, "UserId", "int"), field(2, "s", struct(field(3, "Inner", "int"))))
    other = struct(seen("userid", "long"), seen("S", struct(seen("inner", "int"))))
    assert changes(table, other, case_sensitive=False) == [
        Promote(path="UserId", field_id=1, have="int", want="long")
    ]
    assert [type(change) for change in changes(table, other)] == [AddField, AddField]


def test_an_exact_name_wins_over_one_in_another_case():
    table = struct(field(1, "a", "int"), field(2, "A", "string"))
    assert changes(table, struct(seen("A", "string")), case_sensitive=False) == []


def test_an_ambiguous_name_is_incompatible_not_guessed():
    table = struct(field(1, "ab", "int", required=True), field(2, "AB", "string"))
    found = changes(table, struct(seen("Ab", "int")), case_sensitive=False)
    assert found == [Incompatible(path="Ab", have="one column", want="ambiguous: 'ab' and 'AB'")]
    table = struct(field(1, "ab", "int", required=True))
    found = changes(table, struct(seen("Ab", "int"), seen("aB", "int")), case_sensitive=False)
    assert found == [Incompatible(path="Ab", have="one column", want="ambiguous: 'Ab' and 'aB'")]


def test_changes_computed_from_another_schema_are_refused():
    stale = [
        AddField(path="id", parent_id=None, name="id", type="int"),
        AddField(path="x.y", parent_id=77, name="y", type="int"),
        AddField(path="id.y", parent_id=1, name="y", type="int"),
        Promote(path="id", field_id=1, have="int", want="long"),
        Promote(path="gone", field_id=77, have="int", want="long"),
        MakeOptional(path="gone", field_id=77),
    ]
    for change in stale:
        with pytest.raises(Invalid, match="compute it again"):
            evolve(TABLE, [change], 9)
    twice = AddField(path="n", parent_id=None, name="n", type="int")
    with pytest.raises(Invalid, match="compute it again"):
        evolve(TABLE, [twice, twice], 9)


def test_malformed_observed_schema_is_invalid():
    with pytest.raises(Invalid):
        changes(TABLE, struct(seen("id", "nonsense")))
    with pytest.raises(Invalid):
        changes(TABLE, {"type": "struct", "fields": [{"name": "a"}]})


def test_ids_never_collide_even_when_the_table_understates_its_last_id():
    evolved, last = evolve(TABLE, changes(TABLE, observed(n=seen("n", "int"))), 1)
    assert evolved["fields"][-1]["id"] == 10 == last
