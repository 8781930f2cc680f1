"""One S3 object read in ranges, and one written in parts.

The reader asks for little where it is read here and there, and for more and more where it is read on; all its ranges
are of the version that it opened. The writer holds a few parts in memory and uploads them beside each other.
"""

import io
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from table_format.errors import TableFormatError, Unavailable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_log = logging.getLogger(__name__)

FIRST_BYTES = 256 << 10
"""Asked for when an object is opened: most manifests and small files are read whole by that."""
_LEAST_AHEAD, _MOST_AHEAD = 256 << 10, 8 << 20
_PARTS_AT_ONCE = 4
# S3 takes 10,000 parts; growing ones reach 5 TiB long before.
_GROW_EVERY = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Bytes of an object from `start` on, with what was told about the whole."""

    start: int
    data: bytes
    size: int
    etag: str


class Reader(io.BufferedIOBase):
    """A seekable reader; `fetch(start, end)` gives at least the bytes of that half-open range."""

    def __init__(self, first: Chunk, fetch: Callable[[int, int], Chunk]) -> None:
        self._fetch = fetch
        self._window = first
        self._size = first.size
        self._position = 0
        self._ahead = _LEAST_AHEAD

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        self._refuse_closed()
        return self._position

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move; costs nothing."""
        self._refuse_closed()
        base = {0: 0, 1: self._position, 2: self._size}[whence]
        if base + offset < 0:
            raise ValueError("seek to before the beginning")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """So many bytes, or all that are left.

        Raises:
            NoSuchFile, Unavailable: as the store; Unavailable too when the object was replaced meanwhile.
        """
        self._refuse_closed()
        left = max(0, self._size - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted == 0:
            return b""
        parts = []
        while wanted:
            part = self._within(wanted) or self._fetched(wanted)
            self._position += len(part)
            wanted -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read1(self, size: int = -1, /) -> bytes:
        """As `read`."""
        return self.read(size)

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill the buffer."""
        room = memoryview(buffer).cast("B")
        data = self.read(len(room))
        room[: len(data)] = data
        return len(data)

    def _within(self, wanted: int) -> bytes:
        window = self._window
        offset = self._position - window.start
        if not 0 <= offset < len(window.data):
            return b""
        return window.data[offset : offset + wanted]

    def _fetched(self, wanted: int) -> bytes:
        reads_on = self._position == self._window.start + len(self._window.data)
        self._ahead = min(self._ahead * 2, _MOST_AHEAD) if reads_on else _LEAST_AHEAD
        end = min(self._size, self._position + max(wanted, self._ahead))
        self._window = self._fetch(self._position, end)
        found = self._within(wanted)
        if not found:
            raise Unavailable("the object store gave none of the bytes that it was asked for")
        return found

    def _refuse_closed(self) -> None:
        if self.closed:
            raise ValueError("read of closed file")


class Upload(Protocol):
    """The requests by which one object is written."""

    def put(self, data: bytes) -> None:
        """Write it in one request."""
        ...

    def begin(self) -> None:
        """Begin an upload in parts."""
        ...

    def part(self, number: int, data: bytes) -> str:
        """Upload a part (the first is 1); its entity tag."""
        ...

    def complete(self, tags: list[str]) -> None:
        """Make the object of its parts."""
        ...

    def abort(self) -> None:
        """Forget the parts."""
        ...


class PartsSink:
    """Where an `Output` puts its bytes: small objects in one request, others in parts."""

    def __init__(self, upload: Upload, threads: Executor, part_size: int) -> None:
        self._upload = upload
        self._threads = threads
        self._part_size = part_size
        self._buffer = bytearray()
        self._begun = False
        self._running: deque[Future[str]] = deque()
        self._tags: list[str] = []

    def write(self, data: "ReadableBuffer") -> None:
        """Take all of the bytes; waits while too many parts are on their way."""
        self._buffer += memoryview(data).cast("B")
        while len(self._buffer) > (size := self._size_of_next()):
            self._send(bytes(memoryview(self._buffer)[:size]))
            del self._buffer[:size]

    def publish(self) -> None:
        """Make the object visible; on an error leave nothing behind."""
        try:
            if not self._begun:
                self._upload.put(bytes(self._buffer))
                return
            if self._buffer:
                self._send(bytes(self._buffer))
            while self._running:
                self._tags.append(self._running.popleft().result())
            self._upload.complete(self._tags)
        except BaseException:
            self.discard()
            raise
        self._begun = False

    def discard(self) -> None:
        """Leave nothing behind: a part that arrives after the others were forgotten would stay, so wait for all."""
        self._buffer = bytearray()
        running, self._running = self._running, deque()
        for part in running:
            if not part.cancel():
                part.exception()
        if self._begun:
            self._begun = False
            try:
                self._upload.abort()
            except TableFormatError as error:
                _log.warning("an unfinished upload could not be aborted: %s", error.message)

    def _size_of_next(self) -> int:
        return self._part_size * (1 + (len(self._tags) + len(self._running)) // _GROW_EVERY)

    def _send(self, data: bytes) -> None:
        if not self._begun:
            self._upload.begin()
            self._begun = True
        if len(self._running) >= _PARTS_AT_ONCE:
            self._tags.append(self._running.popleft().result())
        number = len(self._tags) + len(self._running) + 1
        self._running.append(self._threads.submit(self._upload.part, number, data))
