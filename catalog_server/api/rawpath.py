"""Names in request paths, decoded per segment from the raw path.

Servers decode a path before routing, which turns an encoded slash into a separator. Here routing happens on the
undecoded path and each segment is decoded once, strictly: a name is either exactly what the client meant, or a 400.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from table_format.errors import Invalid
from table_format.ident import Namespace

SEPARATOR = "\x1f"
_MALFORMED_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def take_raw_path(scope: Scope) -> None:
    """Make `scope["path"]` the undecoded path, so that routes match on encoded segments."""
    if scope.get("raw_path") is not None:
        scope["path"] = scope["raw_path"].decode("latin-1")


def decode(segment: str, *, plus_is_space: bool = True) -> str:
    """The text that one raw path segment stands for.

    Java's client writes a space as `+` (and a plus as `%2B`), others leave a plus as it is: so a raw plus is
    ambiguous, and `plus_is_space` chooses.

    Raises:
        Invalid: a broken escape, not UTF-8, or a zero byte.
    """
    if segment.isascii() and "%" not in segment and "+" not in segment:
        return segment
    if _MALFORMED_ESCAPE.search(segment):
        raise Invalid(
            f"Malformed path: {segment!r} holds a '%' that starts no escape; write '%25' for a percent sign"
        )
    if plus_is_space:
        segment = segment.replace("+", " ")
    try:
        text = unquote_to_bytes(segment.encode("latin-1")).decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid(f"Malformed path: {segment!r} is not percent-encoded UTF-8") from None
    if "\0" in text:
        raise Invalid("Malformed path: names must not hold a zero byte")
    return text


def split_namespace(text: str, separator: str = SEPARATOR) -> Namespace:
    """The namespace whose levels are joined by the 0x1F character in (decoded) text, or else by the separator.

    Raises:
        Invalid: a level is empty.
    """
    levels = tuple(text.split(SEPARATOR if SEPARATOR in text else separator))
    if not all(levels):
        raise Invalid("Malformed namespace: no level may be empty; join levels by %1F")
    return Namespace(levels)


@dataclass(frozen=True, slots=True)
class RawNames:
    """The raw path parameters of one request and one reading of them."""

    raw: dict[str, str]
    plus_is_space: bool = True
    separator: str = SEPARATOR

    @property
    def ambiguous(self) -> bool:
        """Whether reading a plus literally gives other names."""
        return any("+" in segment for segment in self.raw.values())

    def literal(self) -> "RawNames":
        """The same parameters with a plus read as a plus."""
        return RawNames(self.raw, plus_is_space=False, separator=self.separator)

    def text(self, parameter: str) -> str:
        """One decoded parameter.

        Raises:
            Invalid: it cannot be decoded.
        """
        return decode(self.raw[parameter], plus_is_space=self.plus_is_space)

    def namespace(self, parameter: str = "namespace") -> Namespace:
        """One parameter as a namespace.

        Raises:
            Invalid: it cannot be decoded, or a level is empty.
        """
        return split_namespace(self.text(parameter), self.separator)
