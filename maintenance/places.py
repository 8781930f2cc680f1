"""Comparison of file paths for deletion: raw text, never through a URL parser.

s3, s3a and s3n name the same objects; nothing else is taken for equal. What cannot be compared for certain counts
as referenced: a path whose part after the authority is that of a referenced one is never deleted.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from table_format.errors import Invalid
from table_format.ident import canonical, contains, strip_slash

_ROOT_PROPERTIES: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path")


def comparable(path: str) -> str:
    """The text by which two paths are equal; a path without a scheme is only equal to itself."""
    try:
        return canonical(path)
    except Invalid:
        return path


def after_authority(path: str) -> str:
    """What follows the scheme and the authority: "/k" of "s3://b/k" and of "hdfs:/k"."""
    head, sep, rest = path.partition("://")
    if sep:
        return "/" + rest.partition("/")[2]
    scheme, colon, tail = head.partition(":")
    return tail if colon and "/" not in scheme else path


class References:
    """A set of referenced paths that answers by comparable text, and by what follows the authority."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._exact: set[str] = set()
        self._tails: set[str] = set()
        self.add(paths)

    def add(self, paths: Iterable[str]) -> None:
        """Add referenced paths."""
        for path in paths:
            text = comparable(path)
            self._exact.add(text)
            self._tails.add(after_authority(text))

    def holds(self, path: str) -> bool:
        """Whether the path is referenced."""
        return comparable(path) in self._exact

    def may_hold(self, path: str) -> bool:
        """Whether the path is referenced, or differs from a referenced one in nothing but scheme and authority."""
        text = comparable(path)
        return text in self._exact or after_authority(text) in self._tails


def inside(location: str, path: str) -> bool:
    """Whether the path lies below the location; False for a path without a scheme or with a `..` segment."""
    try:
        within = contains(location, path) and comparable(path) != comparable(strip_slash(location))
    except Invalid:
        return False
    return within and not any(part in (".", "..") for part in path.split("/"))


def holds(place: str, path: str) -> bool:
    """Whether the path is the place or lies below it, as text; below it not with a segment `.` or `..`."""
    return comparable(strip_slash(path)) == comparable(strip_slash(place)) or inside(place, path)


def may_contain(outer: str, inner: str) -> bool:
    """Whether `inner` is `outer` or lies below it; True when a location cannot be understood."""
    try:
        return contains(outer, inner)
    except Invalid:
        return True


def overlapping(location: str, others: Sequence[str]) -> str | None:
    """The first of the other locations that is this one, lies inside it, or has it inside; None if there is none."""
    return next(
        (other for other in others if may_contain(location, other) or may_contain(other, location)), None
    )


def own_roots(location: str, properties: Mapping[str, str]) -> list[str]:
    """Where a table's files lie: its location, and the places its properties name."""
    named = [properties[name] for name in _ROOT_PROPERTIES if properties.get(name)]
    return [location, *named]
