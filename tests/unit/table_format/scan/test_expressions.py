"""Filters as JSON: both wordings, the limits, and the way back."""

from typing import Any

import pytest

from table_format.errors import Invalid, Unsupported
from table_format.scan.expressions import (
    FALSE,
    MAX_DEPTH,
    MAX_LITERALS,
    TRUE,
    And,
    Not,
    Operation,
    Or,
    Predicate,
    Term,
    expression_json,
    parse_expression,
)


def null(name: str) -> dict[str, Any]:
    return {"type": "is-null", "term": name}


A, B, C = (Predicate(Operation.IS_NULL, Term(name)) for name in "abc")


@pytest.mark.parametrize(
    ("json", "expected"),
    [
        (True, TRUE),
        (False, FALSE),
        ({"type": "true"}, TRUE),
        ({"type": "false"}, FALSE),
        ({"type": "literal", "value": False}, FALSE),
        (null("a"), A),
        (
            {"type": "not-null", "child": {"type": "reference", "name": "a"}},
            Predicate(Operation.NOT_NULL, Term("a")),
        ),
        ({"type": "is-nan", "child": {"type": "reference", "id": 7}}, Predicate(Operation.IS_NAN, Term(7))),
        ({"type": "lt", "term": "a", "value": 5}, Predicate(Operation.LT, Term("a"), (5,))),
        (
            {
                "type": "lt",
                "left": {"type": "reference", "name": "a"},
                "right": {"type": "literal", "value": 5},
            },
            Predicate(Operation.LT, Term("a"), (5,)),
        ),
        (
            {"type": "lt", "left": 5, "right": {"type": "reference", "name": "a"}},
            Predicate(Operation.GT, Term("a"), (5,)),
        ),
        ({"type": "in", "term": "a", "values": ["x", "y"]}, Predicate(Operation.IN, Term("a"), ("x", "y"))),
        (
            {
                "type": "not-in",
                "child": {"type": "reference", "name": "a"},
                "values": {"type": "literals", "data-type": "int", "values": [1, 2]},
            },
            Predicate(Operation.NOT_IN, Term("a"), (1, 2)),
        ),
        (
            {"type": "eq", "term": {"type": "transform", "transform": "bucket[16]", "term": "a"}, "value": 3},
            Predicate(Operation.EQ, Term("a", "bucket[16]"), (3,)),
        ),
        (
            {"type": "eq", "term": {"type": "reference", "term": "a"}, "value": 3},
            Predicate(Operation.EQ, Term("a"), (3,)),
        ),
        ({"type": "not", "child": null("a")}, Not(A)),
        ({"type": "not", "child": {"type": "not", "child": null("a")}}, A),
        (
            {
                "type": "and",
                "left": null("a"),
                "right": {"type": "or", "left": null("b"), "right": null("c")},
            },
            And((A, Or((B, C)))),
        ),
        (
            {
                "type": "and",
                "left": {"type": "and", "left": null("a"), "right": null("b")},
                "right": null("c"),
            },
            And((A, B, C)),
        ),
        ({"type": "and", "left": null("a"), "right": True}, A),
        ({"type": "or", "left": null("a"), "right": True}, TRUE),
        ({"type": "eq", "term": "a", "value": 2**63 - 1}, Predicate(Operation.EQ, Term("a"), (2**63 - 1,))),
    ],
    ids=str,
)
def test_what_a_filter_says(json: Any, expected: Any) -> None:
    assert parse_expression(json) == expected


@pytest.mark.parametrize(
    ("json", "complaint"),
    [
        (None, "None where an expression"),
        (3, "3 where an expression"),
        ([], r"\[\] where an expression"),
        ({}, "where an expression"),
        ({"type": 5}, "where an expression"),
        ({"type": "like", "term": "a", "value": "x"}, "unknown type 'like'"),
        ({"type": "and", "left": True}, "'and' of the filter has no 'right'"),
        ({"type": "not"}, "'not' of the filter has no 'child'"),
        ({"type": "eq", "term": "a"}, "needs exactly one of `right` or `value`"),
        ({"type": "eq", "term": "a", "left": "b", "value": 1}, "needs exactly one of `left` or `term`"),
        ({"type": "eq", "value": 1}, "needs exactly one of `left` or `term`"),
        ({"type": "eq", "term": "a", "value": 1, "values": [1]}, "has `values`"),
        ({"type": "in", "term": "a", "value": 1, "values": [1]}, "has `value`"),
        ({"type": "in", "term": "a", "values": 1}, "has no list `values`"),
        ({"type": "is-null", "term": "a", "value": 1}, "has `value`"),
        ({"type": "eq", "term": "a", "value": None}, "None cannot be a literal"),
        ({"type": "eq", "term": "a", "value": [1]}, "cannot be a literal"),
        ({"type": "eq", "term": "a", "value": {"type": "list"}}, "literal of the unknown type 'list'"),
        ({"type": "eq", "term": "a", "value": 2**63}, "does not fit 64 bits"),
        ({"type": "eq", "term": {"type": "transform", "term": "a"}, "value": 1}, "needs the texts"),
        ({"type": "eq", "term": {"type": "reference"}, "value": 1}, "neither a `name` nor an `id`"),
        ({"type": "eq", "term": {"type": "x"}, "value": 1}, "term of the unknown type 'x'"),
        ({"type": "eq", "term": 4, "value": 1}, "4 where an expression"),
        ({"type": "starts-with", "left": "x", "right": {"type": "reference", "name": "a"}}, None),
    ],
    ids=str,
)
def test_what_is_no_filter(json: Any, complaint: str | None) -> None:
    with pytest.raises((Invalid, Unsupported), match=complaint):
        parse_expression(json)


@pytest.mark.parametrize(
    "json",
    [
        {
            "type": "eq",
            "left": {"type": "reference", "name": "a"},
            "right": {"type": "reference", "name": "b"},
        },
        {"type": "eq", "left": {"type": "apply", "function": "f", "arguments": []}, "right": 1},
        {"type": "apply", "function": "f", "arguments": []},
    ],
    ids=["columns", "applied", "function"],
)
def test_forms_that_nobody_defines_are_named(json: Any) -> None:
    with pytest.raises(Unsupported):
        parse_expression(json)


def nested(kind: str, depth: int) -> Any:
    json: Any = null("a")
    for _ in range(depth):
        json = (
            {"type": "not", "child": json}
            if kind == "not"
            else {"type": kind, "left": json, "right": null("b")}
        )
    return json


@pytest.mark.parametrize("kind", ["not", "and", "or"])
def test_ten_thousand_levels_are_refused_and_not_recursed_into(kind: str) -> None:
    with pytest.raises(Invalid, match="nested more than 1000 levels"):
        parse_expression(nested(kind, 10_000))


@pytest.mark.parametrize("kind", ["and", "or"])
def test_a_chain_of_900_is_no_depth(kind: str) -> None:
    chain = parse_expression(nested(kind, 900))
    assert isinstance(chain, And | Or)
    assert len(chain.children) == 901
    assert parse_expression(expression_json(chain)) == chain


def test_alternation_has_its_own_limit() -> None:
    json: Any = null("a")
    for level in range(MAX_DEPTH + 1):
        json = {"type": "and" if level % 2 else "or", "left": json, "right": null("b")}
    with pytest.raises(Invalid, match="more than 100 levels"):
        parse_expression(json)


def test_more_literals_than_allowed_are_refused() -> None:
    json = {"type": "in", "term": "a", "values": list(range(MAX_LITERALS))}
    parsed = parse_expression(json)
    assert isinstance(parsed, Predicate)
    assert len(parsed.values) == MAX_LITERALS
    with pytest.raises(Invalid, match="more than 100000 literals"):
        parse_expression({"type": "in", "term": "a", "values": list(range(MAX_LITERALS + 1))})


def test_many_predicates_are_refused() -> None:
    level: list[Any] = [null("a")] * 32_768
    while len(level) > 1:
        level = [{"type": "or", "left": a, "right": b} for a, b in zip(level[::2], level[1::2], strict=True)]
    with pytest.raises(Invalid, match="more than 20000 predicates"):
        parse_expression(level[0])


@pytest.mark.parametrize(
    "json",
    [
        True,
        False,
        null("a.b"),
        {"type": "not", "child": null("a")},
        {"type": "in", "term": "a", "values": [1, 2]},
        {"type": "not-in", "term": "a", "values": []},
        {"type": "gt-eq", "term": "a", "value": 9007199254740993},
        {"type": "eq", "term": {"type": "transform", "transform": "day", "term": "a"}, "value": "2020-01-01"},
        {"type": "and", "left": null("a"), "right": {"type": "or", "left": null("b"), "right": null("c")}},
    ],
    ids=str,
)
def test_what_is_read_is_written_as_it_was(json: Any) -> None:
    assert expression_json(parse_expression(json)) == json
