"""The storage port: whole objects and listings only.

Paths are URIs as table metadata writes them (`file:///…`, `s3://…`, `memory://…`). An adapter
never rewrites a path it is given. `put(if_absent=True)` protects against bugs, not races: races are decided by
the database swap.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One listed object."""

    path: str
    size: int
    modified_ms: int | None
    """Milliseconds since the epoch; None when the store does not say (such an object is never deleted)."""
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteFailure:
    """One object that `delete_many` could not remove (a missing object is not a failure)."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The bytes [start, end) of one object, of the version that `etag` names (None: of whichever is there)."""

    path: str
    start: int
    end: int
    etag: str | None = None

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.end - self.start


Piece: TypeAlias = "Range | bytes"


class Gets(Protocol):
    """What reading whole objects and ranges takes of a store."""

    def get(self, path: str, byte_range: tuple[int, int] | None = None) -> bytes:
        """As `ObjectStore.get`."""

    def head(self, path: str) -> ObjectInfo:
        """As `ObjectStore.head`."""


class ObjectStore(Protocol):
    """What the project needs of a store.

    Every method raises `NoSuchFile` for a missing object, `AlreadyExists` for a refused if-absent put,
    `Forbidden` when access is denied, `Invalid` for a path that can not be one or is in no bucket that exists, and
    `Unavailable` for anything that may pass. After `Unavailable` from a write the object may be there all the same:
    over a network the answer can be lost.
    """

    def get(self, path: str, byte_range: tuple[int, int] | None = None) -> bytes:
        """The object's bytes, or those of the half-open range [start, end)."""
        ...

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> None:
        """Write a whole object, durably; with `if_absent` fail when it exists."""
        ...

    def head(self, path: str) -> ObjectInfo:
        """Size and age of one object."""
        ...

    def exists(self, path: str) -> bool:
        """Whether the object is there."""
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """All objects below `prefix` + "/", in any order; complete or an error, never cut short.

        An age that a store tells in whole seconds counts to the second's end: nothing seems older than it is.
        """
        ...

    def delete_many(self, paths: Iterable[str]) -> Sequence[DeleteFailure]:
        """Delete the objects; missing ones count as deleted."""
        ...

    def open_input(self, path: str) -> BinaryIO:
        """A seekable reader of one object."""
        ...

    def open_output(self, path: str) -> BinaryIO:
        """A writer whose object appears, durably and whole, at `close()`.

        It does not appear at all when the writer is dropped or leaves a `with` block by an exception. (When `close`
        itself fails because the store's last answer was lost, it may.)
        """
        ...

    def compose(self, path: str, pieces: Sequence[Piece], go_on: Callable[[], None]) -> int:
        """Write an object of bytes and of ranges of other objects of this store, one after the other.

        The store copies what it can itself. The object appears, durably and whole, at the end or not at all.
        `go_on` is asked now and then; what it raises ends the writing. Gives how many of the object's bytes went
        through this process.

        Raises:
            Invalid: a range is none, or goes beyond the end of its object.
            NoSuchFile: an object to copy from is missing.
            Unavailable: an object to copy from is another version than the one named.
        """
        ...
