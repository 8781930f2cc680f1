"""Schema evolution: settled after one round, and the same whichever of two observations comes first."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from table_format.schema.evolve import changes, evolve, incompatible
from table_format.schema.types import max_field_id, with_fresh_ids

NAMES = ["a", "b", "c", "d"]
PRIMITIVES = [
    "int",
    "long",
    "float",
    "double",
    "string",
    "decimal(9, 2)",
    "decimal(20, 2)",
    "decimal(9, 3)",
    "date",
]


def types(leaves, depth=2):
    primitive = st.sampled_from(leaves)
    if depth == 0:
        return primitive
    inner = types(leaves, depth - 1)
    listed = st.builds(
        lambda element, required: {"type": "list", "element": element, "element-required": required},
        inner,
        st.booleans(),
    )
    mapped = st.builds(
        lambda value, required: {"type": "map", "key": "string", "value": value, "value-required": required},
        inner,
        st.booleans(),
    )
    return st.one_of(primitive, primitive, structs(leaves, depth - 1, 1), listed, mapped)


def structs(leaves, depth=2, smallest=0):
    member = st.builds(
        lambda name, json_type, required: {"name": name, "type": json_type, "required": required},
        st.sampled_from(NAMES),
        types(leaves, depth),
        st.booleans(),
    )
    fields = st.lists(member, min_size=smallest, max_size=4, unique_by=lambda field: field["name"])
    return fields.map(lambda members: {"type": "struct", "fields": members})


def as_table(observed):
    ids = itertools.count(1)
    return with_fresh_ids(observed, lambda: next(ids))


def apply(table, observed):
    found = changes(table, observed)
    evolved, last = evolve(
        table, [change for change in found if change not in incompatible(found)], max_field_id(table)
    )
    return evolved, last, incompatible(found)


def normal(json_type):
    """The type without ids and without the order of fields."""
    if isinstance(json_type, str):
        return json_type
    if json_type["type"] == "struct":
        return {
            member["name"]: (member["required"], normal(member["type"])) for member in json_type["fields"]
        }
    kept = ("type", "element-required", "value-required")
    inner = {slot: normal(json_type[slot]) for slot in ("element", "key", "value") if slot in json_type}
    return inner | {key: json_type[key] for key in kept if key in json_type}


@settings(max_examples=60, deadline=None)
@given(structs([*PRIMITIVES, "unknown"]), structs([*PRIMITIVES, "unknown"]))
def test_evolving_twice_changes_nothing_and_the_result_accepts_both(first, second):
    table = as_table(first)
    evolved, last, hopeless = apply(table, second)
    assert changes(evolved, second) == hopeless, "only what cannot be reconciled is left"
    assert apply(evolved, second)[0] is evolved or hopeless
    assert last == max(max_field_id(evolved), max_field_id(table))
    if not hopeless:
        again = changes(evolved, first)
        assert not incompatible(again), "data of the old schema can still be written"
        assert {field["id"] for field in table["fields"]} <= {field["id"] for field in evolved["fields"]}


@settings(max_examples=60, deadline=None)
@given(structs(PRIMITIVES), structs(PRIMITIVES), structs(PRIMITIVES))
def test_the_order_of_two_observations_does_not_matter(first, second, third):
    table = as_table(first)
    one, _, wrong_one = apply(table, second)
    one, _, more_one = apply(one, third)
    other, _, wrong_other = apply(table, third)
    other, _, more_other = apply(other, second)
    assert bool(wrong_one or more_one) == bool(wrong_other or more_other)
    if not (wrong_one or more_one):
        assert normal(one) == normal(other)


@settings(max_examples=40, deadline=None)
@given(structs(PRIMITIVES), structs(PRIMITIVES), st.randoms(use_true_random=False))
def test_the_order_of_columns_in_the_data_does_not_matter(first, second, random):
    shuffled = list(second["fields"])
    random.shuffle(shuffled)
    table = as_table(first)
    one, _, wrong = apply(table, second)
    other, _, also_wrong = apply(table, {"type": "struct", "fields": shuffled})
    assert sorted(map(str, wrong)) == sorted(map(str, also_wrong))
    assert normal(one) == normal(other)
