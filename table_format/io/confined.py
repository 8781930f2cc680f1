"""An object store of which only one place can be reached: for reading what clients have named.

A commit's own files are checked when it comes; the files that those name in turn, a manifest list's manifests, are
only seen when they are read.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO

from table_format.errors import Invalid
from table_format.io.store import DeleteFailure, ObjectInfo, ObjectStore, Piece, Range


class Confined:
    """The store below `within`; every other path is refused alike, whether anything is there or not."""

    def __init__(self, store: ObjectStore, within: str, inside: Callable[[str, str], bool]) -> None:
        """`inside` tells of (place, path) whether the one holds the other."""
        self.inner = store
        self._within = within
        self._is_inside = inside

    def get(self, path: str, byte_range: tuple[int, int] | None = None) -> bytes:
        """As the store."""
        return self.inner.get(self._inside(path), byte_range)

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> None:
        """As the store."""
        self.inner.put(self._inside(path), data, if_absent=if_absent)

    def head(self, path: str) -> ObjectInfo:
        """As the store."""
        return self.inner.head(self._inside(path))

    def exists(self, path: str) -> bool:
        """As the store."""
        return self.inner.exists(self._inside(path))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """As the store."""
        return self.inner.list(self._inside(prefix))

    def delete_many(self, paths: Iterable[str]) -> Sequence[DeleteFailure]:
        """As the store."""
        return self.inner.delete_many([self._inside(path) for path in paths])

    def open_input(self, path: str) -> BinaryIO:
        """As the store."""
        return self.inner.open_input(self._inside(path))

    def open_output(self, path: str) -> BinaryIO:
        """As the store."""
        return self.inner.open_output(self._inside(path))

    def compose(self, path: str, pieces: Sequence[Piece], go_on: Callable[[], None]) -> int:
        """As the store."""
        for piece in pieces:
            if isinstance(piece, Range):
                self._inside(piece.path)
        return self.inner.compose(self._inside(path), pieces, go_on)

    def _inside(self, path: str) -> str:
        if not self._is_inside(self._within, path):
            raise Invalid(f"file {path!r} is not inside the table bucket's location {self._within}")
        return path
