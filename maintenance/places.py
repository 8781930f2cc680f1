"""Comparison of file paths for deletion: raw text, never through a URL parser.

s3, s3a and s3n name the same objects; nothing else is taken for equal. What cannot be compared for certain counts
as referenced: a path whose part after the authority is that of a referenced one is never deleted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice
from typing import Final, TypeVar

from maintenance.path_hashes import PathHashes
from table_format.errors import Invalid
from table_format.ident import canonical, contains, strip_slash
from table_format.io.store import ObjectInfo

Item = TypeVar("Item")

_AT_ONCE: Final = 10_000
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
    """A set of referenced paths that answers by comparable text, and by what follows the authority.

    Millions are held by hash: it may take a path for a referenced one, never a referenced one for another.
    """

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._exact = PathHashes()
        self._tails = PathHashes()
        self.add(paths)

    def add(self, paths: Iterable[str]) -> None:
        """Add referenced paths."""
        for some in batched(paths, _AT_ONCE):
            texts = [comparable(path) for path in some]
            self._exact.add(texts)
            self._tails.add(map(after_authority, texts))

    def holds(self, path: str) -> bool:
        """Whether the path is referenced."""
        return self._exact.holds(comparable(path))

    def unheld(self, infos: Sequence[ObjectInfo]) -> list[ObjectInfo]:
        """The objects whose paths are not referenced."""
        left: list[ObjectInfo] = []
        for some in batched(infos, _AT_ONCE):
            missing = set(self.missing_of([info.path for info in some]))
            left += [info for info in some if info.path in missing]
        return left

    def missing_of(self, paths: Sequence[str]) -> list[str]:
        """The paths that are not referenced."""
        return list(compress(paths, ~self._exact.held([comparable(path) for path in paths])))

    def may_hold(self, path: str) -> bool:
        """Whether the path is referenced, or differs from a referenced one in nothing but scheme and authority."""
        text = comparable(path)
        return self._exact.holds(text) or self._tails.holds(after_authority(text))


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of so many; `itertools` has it from Python 3.12 on."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


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
