"""`MemoryObjectStore`: objects in this process, for tests and for trying things out; gone when the process ends."""

import io
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, cast

from table_format.clock import Clock
from table_format.errors import AlreadyExists, Invalid, NoSuchFile
from table_format.ident import scheme, strip_slash
from table_format.io.output import Output
from table_format.io.ranges import beyond, check_range, replaced
from table_format.io.store import DeleteFailure, ObjectInfo, Piece, Range

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def _checked(path: str) -> str:
    scheme(path)
    if path.endswith("/") or ".." in path.split("/") or "\0" in path:
        raise Invalid(f"{path!r} is not the name of an object")
    return path


class _MemorySink:
    def __init__(self, store: "MemoryObjectStore", path: str) -> None:
        self._store, self._path = store, path
        self._data = io.BytesIO()

    def write(self, data: "ReadableBuffer") -> None:
        self._data.write(data)

    def publish(self) -> None:
        self._store.put(self._path, self._data.getvalue())

    def discard(self) -> None:
        self._data = io.BytesIO()


class MemoryObjectStore:
    """The object store over a dictionary; safe to share between threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, ObjectInfo]] = {}
        self._writes = 0

    def get(self, path: str, byte_range: tuple[int, int] | None = None) -> bytes:
        """The object's bytes, or those of [start, end) that exist."""
        data = self._found(path)[0]
        if byte_range is None:
            return data
        start, end = byte_range
        if not 0 <= start <= end:
            raise Invalid(f"byte range [{start}, {end}) of {path} is not a range")
        return data[start:end]

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> None:
        """Keep a copy of the bytes."""
        _checked(path)
        with self._lock:
            if if_absent and path in self._objects:
                raise AlreadyExists(f"object exists already: {path}")
            self._writes += 1
            info = ObjectInfo(path, len(data), self._clock.now_ms(), etag=str(self._writes))
            self._objects[path] = (bytes(data), info)

    def head(self, path: str) -> ObjectInfo:
        """Size and age of one object."""
        return self._found(path)[1]

    def exists(self, path: str) -> bool:
        """Whether the object is there."""
        with self._lock:
            return _checked(path) in self._objects

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """All objects below the prefix, as they were at the call."""
        below = strip_slash(prefix)
        below = below if below.endswith("/") else below + "/"
        with self._lock:
            found = [info for path, (_, info) in self._objects.items() if path.startswith(below)]
        return iter(found)

    def delete_many(self, paths: Iterable[str]) -> Sequence[DeleteFailure]:
        """Forget the objects."""
        failures = []
        for path in paths:
            try:
                _checked(path)
            except Invalid as error:
                failures.append(DeleteFailure(path, error.message))
                continue
            with self._lock:
                self._objects.pop(path, None)
        return failures

    def open_input(self, path: str) -> BinaryIO:
        """A seekable reader."""
        return io.BytesIO(self.get(path))

    def open_output(self, path: str) -> BinaryIO:
        """A writer whose object appears at `close()`."""
        return cast("BinaryIO", Output(_MemorySink(self, _checked(path)), path))

    def compose(self, path: str, pieces: Sequence[Piece], go_on: Callable[[], None]) -> int:
        """Join the pieces; none of them counts as having gone through this process but what came as bytes."""
        _checked(path)
        parts = []
        for piece in pieces:
            go_on()
            parts.append(self._piece(piece) if isinstance(piece, Range) else piece)
        self.put(path, b"".join(parts))
        return sum(len(piece) for piece in pieces if not isinstance(piece, Range))

    def _piece(self, wanted: Range) -> bytes:
        check_range(wanted)
        data, info = self._found(wanted.path)
        if wanted.etag not in (None, info.etag):
            raise replaced(wanted)
        if wanted.end > len(data):
            raise beyond(wanted)
        return data[wanted.start : wanted.end]

    def _found(self, path: str) -> tuple[bytes, ObjectInfo]:
        with self._lock:
            found = self._objects.get(_checked(path))
        if found is None:
            raise NoSuchFile(f"no such object: {path}")
        return found
