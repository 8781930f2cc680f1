from typing import Any

import pytest

from table_format.errors import Invalid
from table_format.metadata import members


def message(call: Any, *arguments: Any) -> str:
    with pytest.raises(Invalid) as caught:
        call(*arguments)
    return caught.value.message


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({}, "an object"),
        ([], "an array"),
        ("", "a string"),
        (True, "a boolean"),
        (1, "an integer"),
        (1.5, "a fraction"),
        (None, "null"),
        (b"", "not a JSON value"),
    ],
)
def test_shown(value: object, shown: str) -> None:
    assert members.shown(value) == shown


@pytest.mark.parametrize("wrong", ["1", True, 1.0, None, [], {}])
def test_integer_is_only_an_integer(wrong: object) -> None:
    expected = f"'n' of it must be an integer, not {members.shown(wrong)}"
    assert message(members.integer, {"n": wrong}, "n", "it") == expected


def test_integer_range() -> None:
    assert members.integer({"n": 2**63 - 1}, "n", "it") == 2**63 - 1
    assert members.integer({"n": -(2**63)}, "n", "it") == -(2**63)
    assert message(members.integer, {"n": 4}, "n", "it", 1, 3) == "'n' of it must lie between 1 and 3"
    assert "must lie between" in message(members.integer, {"n": 2**63}, "n", "it")
    assert message(members.integer, {"N": 4}, "n", "it") == "it lacks the member 'n'"


@pytest.mark.parametrize("read", [members.optional_integer, members.optional_text])
def test_optional(read: Any) -> None:
    assert read({}, "n", "it") is None
    assert read({"n": None}, "n", "it") is None
    assert "must be" in message(read, {"n": []}, "n", "it")


def test_text() -> None:
    assert members.text({"n": ""}, "n", "it") == ""
    assert members.optional_text({"n": "x"}, "n", "it") == "x"
    assert members.filled_text({"n": "x"}, "n", "it") == "x"
    assert message(members.text, {"n": 5}, "n", "it") == "'n' of it must be a string, not an integer"
    assert message(members.filled_text, {"n": ""}, "n", "it") == "'n' of it must not be empty"


def test_boolean() -> None:
    assert members.boolean({"n": False}, "n", "it") is False
    assert message(members.boolean, {"n": 0}, "n", "it") == "'n' of it must be a boolean, not an integer"


def test_containers() -> None:
    assert members.nested({"n": {}}, "n", "it") == {}
    assert message(members.nested, {"n": []}, "n", "it") == "'n' of it must be an object, not an array"
    assert members.array({"n": [1]}, "n", "it") == [1]
    assert message(members.array, {"n": {}}, "n", "it") == "'n' of it must be an array, not an object"
    assert members.objects({"n": [{}]}, "n", "it") == [{}]
    expected = "an element of 'n' of it must be an object, not an integer"
    assert message(members.objects, {"n": [1]}, "n", "it") == expected
    assert members.integers({"n": [1]}, "n", "it") == [1]
    expected = "'n' of it (an element) must be an integer, not a boolean"
    assert message(members.integers, {"n": [True]}, "n", "it") == expected
    assert members.texts({"n": ["a"]}, "n", "it") == ["a"]
    assert message(members.texts, {"n": [1]}, "n", "it").endswith("must be a string, not an integer")
    assert members.text_map({"n": {"a": "b"}}, "n", "it") == {"a": "b"}
    assert message(members.text_map, {"n": {"a": 1}}, "n", "it") == (
        "'a' of 'n' of it must be a string, not an integer"
    )


def nest(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def test_check_json_accepts_json() -> None:
    members.check_json({"a": [1, 2.5, None, True, "é", {"b": 10**30}], "ü": ""}, "it")
    members.check_json(nest(members.MAX_DEPTH - 1), "it")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (nest(members.MAX_DEPTH), "it is nested too deeply: at most 240 levels"),
        (nest(100_000), "it is nested too deeply: at most 240 levels"),
        ({"a": float("nan")}, "it holds a number that JSON cannot express"),
        ([float("inf")], "it holds a number that JSON cannot express"),
        ({"a": "\ud800"}, "it holds text that is not valid Unicode"),
        ({"\ud800": 1}, "it holds text that is not valid Unicode"),
        ({"a": b"x"}, "it holds a value that JSON cannot express"),
        ({1: "x"}, "it holds a value that JSON cannot express"),
        ({"a": (1, 2)}, "it holds a value that JSON cannot express"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_check_json_refuses(value: object, text: str) -> None:
    assert message(members.check_json, value, "it") == text
