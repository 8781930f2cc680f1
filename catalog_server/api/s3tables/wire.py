"""Shapes of requests and answers: read strictly, with AWS's texts for what is wrong, and described as JSON Schema.

One definition does both, so that the OpenAPI document can not say anything else than what is checked. Nothing is
coerced: `"5"` is not 5; a JSON `null` counts as a missing member; a member nobody knows is refused, because a
setting that is passed over in silence is worse than an error.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject

_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_SHOWN = 200


class Shape(Protocol):
    """What a value must be."""

    def read(self, value: object, at: str) -> Any:
        """The value, checked; `at` is where it stands.

        Raises:
            Invalid: it is something else, in AWS's words.
        """
        ...

    def from_query(self, texts: Sequence[str], at: str) -> Any:
        """The value of a query parameter, checked.

        Raises:
            Invalid: as `read`.
        """
        ...

    def schema(self) -> JsonObject:
        """The shape as JSON Schema."""
        ...


def refuse(value: object, at: str, constraint: str) -> NoReturn:
    """Refuse a value in the words that AWS's services have for it.

    Raises:
        Invalid: always.
    """
    shown = "null" if value is None else f"'{str(value)[:_SHOWN]}'"
    raise Invalid(
        f"1 validation error detected: Value {shown} at '{at}' failed to satisfy constraint: Member must {constraint}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A string; lengths in characters."""

    least: int = 0
    most: int | None = None
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    doc: str = ""

    def read(self, value: object, at: str) -> str:
        """See `Shape`."""
        if not isinstance(value, str):
            refuse(value, at, "be a string")
        if self.choices and value not in self.choices:
            refuse(value, at, f"satisfy enum value set: [{', '.join(self.choices)}]")
        if len(value) < self.least:
            refuse(value, at, f"have length greater than or equal to {self.least}")
        if self.most is not None and len(value) > self.most:
            refuse(value, at, f"have length less than or equal to {self.most}")
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            refuse(value, at, f"satisfy regular expression pattern: {self.pattern}")
        if _UNWRITABLE.search(value):
            refuse(ascii(value), at, "not hold a zero byte or half a character")
        return value

    def from_query(self, texts: Sequence[str], at: str) -> str:
        """See `Shape`."""
        return self.read(texts[-1], at)

    def schema(self) -> JsonObject:
        """See `Shape`."""
        made: JsonObject = {"type": "string"}
        if self.choices:
            made["enum"] = list(self.choices)
        if self.least:
            made["minLength"] = self.least
        if self.most is not None:
            made["maxLength"] = self.most
        if self.pattern is not None:
            made["pattern"] = f"^{self.pattern}$"
        if self.doc:
            made["description"] = self.doc
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number of 32 bits."""

    least: int = -(2**31)
    most: int = 2**31 - 1
    doc: str = ""

    def read(self, value: object, at: str) -> int:
        """See `Shape`."""
        if not isinstance(value, int) or isinstance(value, bool):
            refuse(value, at, "be a whole number")
        if value < self.least:
            refuse(value, at, f"have value greater than or equal to {self.least}")
        if value > self.most:
            refuse(value, at, f"have value less than or equal to {self.most}")
        return value

    def from_query(self, texts: Sequence[str], at: str) -> int:
        """See `Shape`."""
        if not _INTEGER.fullmatch(texts[-1]):
            refuse(texts[-1], at, "be a whole number")
        return self.read(int(texts[-1]), at)

    def schema(self) -> JsonObject:
        """See `Shape`."""
        made: JsonObject = {"type": "integer", "minimum": self.least, "maximum": self.most}
        return {**made, "description": self.doc} if self.doc else made


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """True or false."""

    doc: str = ""

    def read(self, value: object, at: str) -> bool:
        """See `Shape`."""
        if not isinstance(value, bool):
            refuse(value, at, "be true or false")
        return value

    def from_query(self, texts: Sequence[str], at: str) -> bool:
        """See `Shape`."""
        if texts[-1] not in {"true", "false"}:
            refuse(texts[-1], at, "be true or false")
        return texts[-1] == "true"

    def schema(self) -> JsonObject:
        """See `Shape`."""
        return {"type": "boolean", "description": self.doc} if self.doc else {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """An array; of a query parameter all values that are given."""

    of: Shape
    least: int = 0
    most: int | None = None
    doc: str = ""

    def read(self, value: object, at: str) -> list[Any]:
        """See `Shape`."""
        if not isinstance(value, list):
            refuse(value, at, "be an array")
        self._check_length(value, at)
        return [self.of.read(one, f"{at}.{place}.member") for place, one in enumerate(value, 1)]

    def from_query(self, texts: Sequence[str], at: str) -> list[Any]:
        """See `Shape`."""
        self._check_length(texts, at)
        return [self.of.from_query([one], f"{at}.{place}.member") for place, one in enumerate(texts, 1)]

    def _check_length(self, value: Sequence[object], at: str) -> None:
        if len(value) < self.least:
            refuse(list(value), at, f"have length greater than or equal to {self.least}")
        if self.most is not None and len(value) > self.most:
            refuse(list(value), at, f"have length less than or equal to {self.most}")

    def schema(self) -> JsonObject:
        """See `Shape`."""
        made: JsonObject = {"type": "array", "items": self.of.schema()}
        if self.least:
            made["minItems"] = self.least
        if self.most is not None:
            made["maxItems"] = self.most
        if self.doc:
            made["description"] = self.doc
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """An object whose members are all texts."""

    key: Text = field(default_factory=Text)
    value: Text = field(default_factory=Text)
    most: int | None = None
    doc: str = ""

    def read(self, value: object, at: str) -> dict[str, str]:
        """See `Shape`."""
        if not isinstance(value, dict):
            refuse(value, at, "be an object")
        if self.most is not None and len(value) > self.most:
            refuse(f"{len(value)} entries", at, f"have length less than or equal to {self.most}")
        return {
            self.key.read(key, f"{at}.key"): self.value.read(text, f"{at}.{key[:_SHOWN]}.member")
            for key, text in value.items()
        }

    def from_query(self, texts: Sequence[str], at: str) -> NoReturn:
        """See `Shape`; no operation has one in its query."""
        refuse(texts[-1], at, "be in the body")

    def schema(self) -> JsonObject:
        """See `Shape`."""
        made: JsonObject = {"type": "object", "additionalProperties": self.value.schema()}
        if self.key != Text():
            made["propertyNames"] = self.key.schema()
        if self.most is not None:
            made["maxProperties"] = self.most
        if self.doc:
            made["description"] = self.doc
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Anything:
    """Any JSON value, which the handler looks at itself."""

    doc: str = ""

    def read(self, value: object, at: str) -> object:
        """See `Shape`."""
        return value

    def from_query(self, texts: Sequence[str], at: str) -> str:
        """See `Shape`."""
        return texts[-1]

    def schema(self) -> JsonObject:
        """See `Shape`."""
        return {"description": self.doc} if self.doc else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """An object of known members. A union has exactly one of them."""

    members: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    union: bool = False
    doc: str = ""

    def read(self, value: object, at: str) -> JsonObject:
        """See `Shape`."""
        if not isinstance(value, dict):
            refuse(value, at or "body", "be an object")
        given = {name: one for name, one in value.items() if one is not None}
        unknown = sorted(set(given) - set(self.members))
        if unknown:
            known = ", ".join(self.members) or "none"
            refuse(unknown[0], at or "body", f"be one that this operation has: {known}")
        if self.union and len(given) != 1:
            refuse(", ".join(sorted(given)) or None, at or "body", f"be one of: {', '.join(self.members)}")
        for name in self.required:
            if name not in given:
                refuse(None, _below(at, name), "not be null")
        return {name: self.members[name].read(one, _below(at, name)) for name, one in given.items()}

    def read_query(self, given: Mapping[str, Sequence[str]]) -> JsonObject:
        """The parameters of a query string, checked; those that nobody knows are passed over, as AWS does.

        Raises:
            Invalid: one is missing or something else than it must be.
        """
        for name in self.required:
            if name not in given:
                refuse(None, name, "not be null")
        return {
            name: shape.from_query(given[name], name) for name, shape in self.members.items() if name in given
        }

    def from_query(self, texts: Sequence[str], at: str) -> NoReturn:
        """See `Shape`; no operation has one as a parameter."""
        refuse(texts[-1], at, "be in the body")

    def schema(self) -> JsonObject:
        """See `Shape`."""
        made: JsonObject = {
            "type": "object",
            "properties": {name: shape.schema() for name, shape in self.members.items()},
            "additionalProperties": False,
        }
        if self.required:
            made["required"] = list(self.required)
        if self.union:
            made["minProperties"] = made["maxProperties"] = 1
        if self.doc:
            made["description"] = self.doc
        return made


NOTHING = Struct(members={})
"""An object without members."""


def _below(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name
