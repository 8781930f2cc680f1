"""Which path template a request's path follows: found by its number of segments and the words among them.

A table of routes tries its templates one after the other, as patterns; here a path costs one split. A segment that
stands for a name is any text but none, as it came: undecoded.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Template(Generic[T]):
    words: tuple[tuple[int, str], ...]
    names: tuple[tuple[int, str], ...]
    target: T

    def names_in(self, segments: list[str]) -> dict[str, str] | None:
        for position, word in self.words:
            if segments[position] != word:
                return None
        found = {name: segments[position] for position, name in self.names}
        return found if all(found.values()) else None


class Paths(Generic[T]):
    """Templates such as `/v1/{prefix}/namespaces` and what each leads to; of two that fit, the first counts."""

    def __init__(self, templates: Iterable[tuple[str, T]]) -> None:
        self._by_length: dict[int, list[_Template[T]]] = {}
        for path, target in templates:
            segments = path.split("/")
            named = {at: text[1:-1] for at, text in enumerate(segments) if text.startswith("{")}
            words = tuple((at, text) for at, text in enumerate(segments) if at not in named)
            # What tells paths of one length apart stands at their ends.
            template = _Template(words[::-1], tuple(named.items()), target)
            self._by_length.setdefault(len(segments), []).append(template)

    def find(self, path: str) -> tuple[T, dict[str, str]] | None:
        """What the path leads to and the names in it, or None."""
        segments = path.split("/")
        for template in self._by_length.get(len(segments), ()):
            names = template.names_in(segments)
            if names is not None:
                return template.target, names
        return None
