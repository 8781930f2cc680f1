"""Reading the wire: members and query parameters with their types checked, and nothing coerced.

`"5"` is not 5, a missing member is not a default, a JSON `null` counts as missing. Requirements and updates stay
JSON objects here; the metadata rules check their insides.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import parse_qsl

from catalog_server.api.rawpath import SEPARATOR, decode, split_namespace
from table_format.errors import Invalid
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject

_T = TypeVar("_T")
_NAMES: dict[type, str] = {
    str: "a string",
    bool: "true or false",
    dict: "an object",
    list: "an array",
    int: "a number",
}
_MOST_VIEWS = 100
_DIGITS = re.compile(r"^[0-9]{1,9}$")


def optional(body: JsonObject, member: str, kind: type[_T]) -> _T | None:
    """A member of exactly this type, or None when it is missing or null.

    Raises:
        Invalid: another type.
    """
    value = body.get(member)
    if value is None:
        return None
    if type(value) is not kind:
        raise Invalid(f"Malformed request: {member!r} must be {_NAMES[kind]}")
    return value


def required(body: JsonObject, member: str, kind: type[_T]) -> _T:
    """A member of exactly this type.

    Raises:
        Invalid: missing, or another type.
    """
    value = optional(body, member, kind)
    if value is None:
        raise Invalid(f"Malformed request: {member!r} is missing; it must be {_NAMES[kind]}")
    return value


def strings(body: JsonObject, member: str) -> dict[str, str]:
    """A member that maps strings to strings; empty when missing.

    Raises:
        Invalid: another type.
    """
    value = optional(body, member, dict) or {}
    for key, text in value.items():
        if not isinstance(text, str):
            raise Invalid(f"Malformed request: {member!r} must map strings to strings, but {key!r} does not")
    return value


def string_list(body: JsonObject, member: str) -> list[str]:
    """A member that is an array of strings; empty when missing.

    Raises:
        Invalid: another type.
    """
    value = optional(body, member, list) or []
    if not all(isinstance(text, str) for text in value):
        raise Invalid(f"Malformed request: {member!r} must be an array of strings")
    return value


def objects(body: JsonObject, member: str) -> list[JsonObject]:
    """A required member that is an array of objects.

    Raises:
        Invalid: missing, or another type.
    """
    value = required(body, member, list)
    if not all(isinstance(entry, dict) for entry in value):
        raise Invalid(f"Malformed request: {member!r} must be an array of objects")
    return value


def namespace_member(body: JsonObject, member: str = "namespace") -> Namespace:
    """A required member that is a namespace: a non-empty array of non-empty strings.

    Raises:
        Invalid: anything else.
    """
    levels = required(body, member, list)
    if not levels:
        raise Invalid(f"Malformed request: {member!r} must have at least one level")
    return Namespace(tuple(checked_name(level, f"every level of {member!r}") for level in levels))


def checked_name(value: object, what: str) -> str:
    """A name that the API can also take back in a path.

    Raises:
        Invalid: not a string, empty, or holding a character that no path can carry.
    """
    if not isinstance(value, str) or not value:
        raise Invalid(f"Malformed request: {what} must be a non-empty string")
    if "\0" in value or SEPARATOR in value:
        raise Invalid(f"Malformed request: {what} must not hold a zero byte or the namespace separator 0x1F")
    return value


def table_ident(body: JsonObject, member: str) -> TableIdent:
    """A required member `{"namespace": [...], "name": "..."}`.

    Raises:
        Invalid: anything else.
    """
    value = required(body, member, dict)
    return TableIdent(namespace_member(value), checked_name(value.get("name"), f"the name in {member!r}"))


def properties_update(body: JsonObject) -> tuple[dict[str, str], list[str]]:
    """The `updates` and `removals` of a namespace property change."""
    return strings(body, "updates"), string_list(body, "removals")


@dataclass(frozen=True, slots=True)
class Query:
    """The query parameters of one request; of a repeated parameter the last counts."""

    values: Mapping[str, str]
    separator: str = SEPARATOR

    @classmethod
    def parse(cls, query_string: bytes, separator: str = SEPARATOR) -> "Query":
        """Read a raw query string.

        Raises:
            Invalid: not percent-encoded UTF-8, or too many parameters.
        """
        if not query_string:
            return _NO_QUERY
        try:
            pairs = parse_qsl(
                query_string.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=64
            )
        except ValueError:  # UnicodeDecodeError is one
            raise Invalid(
                "Malformed query: it must be percent-encoded UTF-8 with at most 64 parameters"
            ) from None
        if any("\0" in value for _, value in pairs):
            raise Invalid("Malformed query: values must not hold a zero byte")
        return cls(dict(pairs), separator)

    def text(self, name: str) -> str | None:
        """A parameter, or None when it is missing or empty."""
        return self.values.get(name) or None

    def flag(self, name: str) -> bool:
        """A boolean parameter in any case (Python clients send `True`); False when missing.

        Raises:
            Invalid: neither true nor false.
        """
        value = self.values.get(name, "").strip().lower()
        if value not in {"", "true", "false"}:
            raise Invalid(f"Malformed query: {name!r} must be true or false")
        return value == "true"

    def choice(self, name: str, *choices: str) -> str:
        """A parameter that is one of the choices (in any case); the first when missing or empty.

        Raises:
            Invalid: none of them.
        """
        value = self.values.get(name, "").strip().lower() or choices[0]
        if value not in choices:
            raise Invalid(f"Malformed query: {name!r} must be one of {', '.join(choices)}")
        return value

    def namespace(self, name: str) -> Namespace | None:
        """A parameter as a namespace, or None when it is missing or empty.

        Raises:
            Invalid: a level is empty.
        """
        value = self.text(name)
        return None if value is None else split_namespace(value, self.separator)

    def namespace_encoded_twice(self, name: str) -> Namespace | None:
        """A parameter that is still percent-encoded after decoding; None when it is not."""
        value = self.text(name)
        if value is None or "%" not in value or not value.isascii():
            return None
        try:
            return split_namespace(decode(value, plus_is_space=False), self.separator)
        except Invalid:
            return None

    def check_chain(self) -> None:
        """Check `referenced-by`, the views through which a table or view is read: nothing else is made of it.

        Raises:
            Invalid: more views than any person nests.
        """
        views = (self.text("referenced-by") or "").count(",") + 1
        if views > _MOST_VIEWS:
            raise Invalid(
                f"Malformed query: 'referenced-by' names {views} views, at most {_MOST_VIEWS} can be"
            )

    def page_size(self) -> int | None:
        """`pageSize`: None for everything at once.

        Raises:
            Invalid: not a whole number above zero.
        """
        value = self.text("pageSize")
        if value is None:
            return None
        if not _DIGITS.match(value) or int(value) == 0:
            raise Invalid("Malformed query: 'pageSize' must be a whole number from 1 to 999999999")
        return int(value)


_NO_QUERY = Query({})
