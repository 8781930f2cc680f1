"""A store that counts what is asked of it, by kind: what a job reports as its calls of the object store.

A stream counts one read for each piece that is asked of it, one write for the object. A store that fetches ahead may
make fewer requests, one that sends large objects in parts more.
"""

import io
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, cast

from table_format.io.store import DeleteFailure, ObjectInfo, ObjectStore, Piece


class CountedStore:
    """Another store, with a count of calls. Safe to share between threads."""

    def __init__(self, store: ObjectStore) -> None:
        self.inner = store
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()

    @property
    def calls(self) -> Mapping[str, int]:
        """Calls so far: "read", "write", "head", "list", "delete" (objects), "compose"."""
        with self._lock:
            return dict(self._calls)

    def count(self, kind: str, number: int = 1) -> None:
        """Add calls, also such as were made elsewhere for the same purpose."""
        with self._lock:
            self._calls[kind] += number

    def get(self, path: str, byte_range: tuple[int, int] | None = None) -> bytes:
        """As the store."""
        self.count("read")
        return self.inner.get(path, byte_range)

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> None:
        """As the store."""
        self.count("write")
        self.inner.put(path, data, if_absent=if_absent)

    def head(self, path: str) -> ObjectInfo:
        """As the store."""
        self.count("head")
        return self.inner.head(path)

    def exists(self, path: str) -> bool:
        """As the store."""
        self.count("head")
        return self.inner.exists(path)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """As the store."""
        self.count("list")
        return self.inner.list(prefix)

    def delete_many(self, paths: Iterable[str]) -> Sequence[DeleteFailure]:
        """As the store."""
        wanted = list(paths)
        self.count("delete", len(wanted))
        return self.inner.delete_many(wanted)

    def open_input(self, path: str) -> BinaryIO:
        """As the store."""
        return cast("BinaryIO", _CountedInput(self.inner.open_input(path), self))

    def open_output(self, path: str) -> BinaryIO:
        """As the store."""
        self.count("write")
        return self.inner.open_output(path)

    def compose(self, path: str, pieces: Sequence[Piece], go_on: Callable[[], None]) -> int:
        """As the store."""
        self.count("compose")
        return self.inner.compose(path, pieces, go_on)


class _CountedInput(io.BufferedIOBase):
    """A reader that counts its reads."""

    def __init__(self, inner: BinaryIO, store: CountedStore) -> None:
        self._inner = inner
        self._store = store

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        self._store.count("read")
        return self._inner.read(-1 if size is None else size)

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()

    def close(self) -> None:
        self._inner.close()
        super().close()
