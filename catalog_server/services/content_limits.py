"""How much one table, view or namespace may hold: columns, properties, and the length of a text.

Without such bounds a single request makes metadata that every later load pays for. They are asked before anything
is computed; what is there already stays, however much it is.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject

_HALVES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentLimits:
    """The bounds; a text's length is in bytes of UTF-8."""

    columns: int
    properties: int
    text_bytes: int

    def check_schema(self, schema: JsonObject) -> None:
        """Check a schema before anything walks it field by field.

        Raises:
            Invalid: it has too many columns, or one has too long a comment.
        """
        columns = 0
        waiting: list[Any] = [schema]
        while waiting:
            node = waiting.pop()
            if isinstance(node, dict):
                fields = node.get("fields")
                columns += len(fields) if isinstance(fields, list) else 0
                if columns > self.columns:
                    raise Invalid(
                        f"a schema has at most {self.columns} columns, those inside of others counted"
                    )
                self._check_text(node.get("doc"), "a column comment")
                waiting.extend(
                    node[name] for name in ("fields", "type", "element", "key", "value") if name in node
                )
            elif isinstance(node, list):
                waiting.extend(node)

    def check_properties(self, properties: Mapping[str, str], held: int = 0) -> None:
        """Check properties that are given, beside so many that are there and stay.

        Raises:
            Invalid: there are too many, or one is too long.
        """
        if held + len(properties) > self.properties:
            raise Invalid(f"at most {self.properties} properties can be set, not {held + len(properties)}")
        for name, value in properties.items():
            self._check_text(name, "the name of a property")
            self._check_text(value, f"the property {name[:100]!r}")

    def check_version(self, version: JsonObject) -> None:
        """Check the texts of a view's version.

        Raises:
            Invalid: one is too long.
        """
        for representation in _list(version.get("representations")):
            if isinstance(representation, dict):
                self._check_text(representation.get("sql"), "the text of a view")

    def check_updates(self, updates: Sequence[JsonObject], held: Mapping[str, str]) -> None:
        """Check what the updates add to a table or view with these properties.

        Raises:
            Invalid: they add too much.
        """
        names = set(held)
        for update in updates:
            match update.get("action"):
                case "add-schema":
                    self.check_schema(_object(update.get("schema")))
                case "add-view-version":
                    self.check_version(_object(update.get("view-version")))
                case "set-properties":
                    given = _object(update.get("updates"))
                    names.update(given)
                    self.check_properties(given)
                case "remove-properties":
                    names.difference_update(
                        name for name in _list(update.get("removals")) if isinstance(name, str)
                    )
        if len(names) > max(self.properties, len(held)):
            raise Invalid(f"at most {self.properties} properties can be set, not {len(names)}")

    def _check_text(self, text: object, what: str) -> None:
        if not isinstance(text, str):
            return
        if not text.isascii() and _HALVES.search(text):
            raise Invalid(f"{what} holds half a character (U+D800 to U+DFFF), which can not be stored")
        # A character has one byte at least and four at most: most texts need not be encoded to be measured.
        if len(text) * 4 <= self.text_bytes:
            return
        if len(text) > self.text_bytes or len(text.encode("utf-8", "surrogatepass")) > self.text_bytes:
            raise Invalid(f"{what} has at most {self.text_bytes} bytes")


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}  # what is no object is refused where updates are read


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
