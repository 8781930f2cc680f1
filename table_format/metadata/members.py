"""Typed access to members of JSON objects that came from outside: the right type or `Invalid`, nothing between.

A missing member is not a zero value, a boolean is not an integer, and 5 is not "5". Messages name the member and
the JSON type found, never the value (it may be huge, or secret).
"""

import math
from collections.abc import Collection, Sequence
from typing import Any, cast

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject

INT_MAX = 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
COUNTER_MAX = 2**62
"""Sequence numbers and row ids end here, not where their type ends: every later commit needs higher ones."""
# The JSON writer stops at 254 levels, and a document adds a few above an update's own.
MAX_DEPTH = 240

_NAMES: dict[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a fraction",
    type(None): "null",
}


def shown(value: object) -> str:
    """The JSON type of a value, for messages."""
    return _NAMES.get(type(value), "not a JSON value")


def json_object(value: object, what: str) -> JsonObject:
    """The value itself, if it is a JSON object.

    Raises:
        Invalid: it is not.
    """
    if type(value) is not dict:
        raise Invalid(f"{what} must be an object, not {shown(value)}")
    return cast("JsonObject", value)


def without_nulls(container: JsonObject, keys: Collection[str]) -> JsonObject:
    """The object without those of the members that are null, which is how some clients say that there are none.

    Java does not read a null everywhere.
    """
    return {key: value for key, value in container.items() if value is not None or key not in keys}


def check_json(value: object, what: str) -> None:
    """Check that a value is plain JSON throughout: string keys, finite numbers, encodable text, bounded depth.

    Raises:
        Invalid: it is not.
    """
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for item in level:
            if type(item) is dict:
                for key in item:
                    _check_scalar(key if type(key) is str else _NotJson(), what)
                below.extend(item.values())
            elif type(item) is list:
                below.extend(item)
            else:
                _check_scalar(item, what)
        if not below:
            return
        level = below
    raise Invalid(f"{what} is nested too deeply: at most {MAX_DEPTH} levels")


class _NotJson:
    """Stands for a key that is not a string."""


def _check_scalar(value: object, what: str) -> None:
    if type(value) is str:
        # isascii is a flag look-up; only other text has to be tried.
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Invalid(f"{what} holds text that is not valid Unicode") from None
    elif type(value) is float:
        if not math.isfinite(value):
            raise Invalid(f"{what} holds a number that JSON cannot express")
    elif value is not None and type(value) not in (int, bool):
        raise Invalid(f"{what} holds a value that JSON cannot express")


def member(container: JsonObject, key: str, what: str) -> Any:
    """The member, whatever its type.

    Raises:
        Invalid: it is missing.
    """
    try:
        return container[key]
    except KeyError:
        raise Invalid(f"{what} lacks the member {key!r}") from None


def text(container: JsonObject, key: str, what: str) -> str:
    """A required string.

    Raises:
        Invalid: missing, or not a string.
    """
    value = member(container, key, what)
    if type(value) is not str:
        raise Invalid(f"{key!r} of {what} must be a string, not {shown(value)}")
    return value


def filled_text(container: JsonObject, key: str, what: str) -> str:
    """A required string that is not empty.

    Raises:
        Invalid: missing, not a string, or empty.
    """
    value = text(container, key, what)
    if not value:
        raise Invalid(f"{key!r} of {what} must not be empty")
    return value


def integer(container: JsonObject, key: str, what: str, low: int = LONG_MIN, high: int = LONG_MAX) -> int:
    """A required integer in [low, high].

    Raises:
        Invalid: missing, not an integer (booleans and fractions are not), or out of range.
    """
    value = member(container, key, what)
    if type(value) is not int:
        raise Invalid(f"{key!r} of {what} must be an integer, not {shown(value)}")
    if not low <= value <= high:
        raise Invalid(f"{key!r} of {what} must lie between {low} and {high}")
    return value


def optional_integer(
    container: JsonObject, key: str, what: str, low: int = LONG_MIN, high: int = LONG_MAX
) -> int | None:
    """An integer that may be absent or null.

    Raises:
        Invalid: present, but not an integer in range.
    """
    return None if container.get(key) is None else integer(container, key, what, low, high)


def boolean(container: JsonObject, key: str, what: str) -> bool:
    """A required boolean.

    Raises:
        Invalid: missing, or not a boolean.
    """
    value = member(container, key, what)
    if type(value) is not bool:
        raise Invalid(f"{key!r} of {what} must be a boolean, not {shown(value)}")
    return value


def optional_text(container: JsonObject, key: str, what: str) -> str | None:
    """A string that may be absent or null.

    Raises:
        Invalid: present, but not a string.
    """
    return None if container.get(key) is None else text(container, key, what)


def nested(container: JsonObject, key: str, what: str) -> JsonObject:
    """A required object.

    Raises:
        Invalid: missing, or not an object.
    """
    return json_object(member(container, key, what), f"{key!r} of {what}")


def array(container: JsonObject, key: str, what: str) -> Sequence[Any]:
    """A required array.

    Raises:
        Invalid: missing, or not an array.
    """
    value = member(container, key, what)
    if type(value) is not list:
        raise Invalid(f"{key!r} of {what} must be an array, not {shown(value)}")
    return value


def objects(container: JsonObject, key: str, what: str) -> Sequence[JsonObject]:
    """A required array of objects.

    Raises:
        Invalid: missing, not an array, or with another element.
    """
    return [json_object(item, f"an element of {key!r} of {what}") for item in array(container, key, what)]


def integers(
    container: JsonObject, key: str, what: str, low: int = LONG_MIN, high: int = LONG_MAX
) -> Sequence[int]:
    """A required array of integers in [low, high].

    Raises:
        Invalid: missing, not an array, or with another element.
    """
    values = array(container, key, what)
    return [integer({key: value}, key, f"{what} (an element)", low, high) for value in values]


def texts(container: JsonObject, key: str, what: str) -> Sequence[str]:
    """A required array of strings.

    Raises:
        Invalid: missing, not an array, or with another element.
    """
    return [text({key: value}, key, f"{what} (an element)") for value in array(container, key, what)]


def text_map(container: JsonObject, key: str, what: str) -> dict[str, str]:
    """A required object whose values are all strings.

    Raises:
        Invalid: missing, not an object, or with another value.
    """
    found = nested(container, key, what)
    return {name: text(found, name, f"{key!r} of {what}") for name in found}
