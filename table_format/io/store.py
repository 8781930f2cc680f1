"""The storage port: whole objects and listings only.

Paths are URIs as table metadata writes them (`file:///…`, `s3://…`, `memory://…`). An adapter
never rewrites a path it is given. `put(if_absent=True)` protects against bugs, not races: races are decided by
the database swap.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol


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
