"""`Output`: the writer that `open_output` gives, whatever the store.

Invariant: an object appears whole, at `close()`, or not at all. Dropping the writer, leaving a `with` block by an
exception, `abort()` and any failed write discard it; only an undisturbed `close()` publishes.
"""

import io
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from table_format.errors import Unavailable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Sink(Protocol):
    """Where an `Output` puts its bytes; exactly one of `publish` and `discard` ends it."""

    def write(self, data: "ReadableBuffer") -> None:
        """Take all of the bytes."""
        ...

    def publish(self) -> None:
        """Make the object visible, durably; on an error leave nothing behind."""
        ...

    def discard(self) -> None:
        """Leave nothing behind."""
        ...


class Output(io.BufferedIOBase):
    """A binary writer over a `Sink`."""

    def __init__(self, sink: Sink, path: str) -> None:
        self._sink = sink
        self._path = path
        self._position = 0
        self._failed = False

    def writable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Bytes written so far."""
        return self._position

    def write(self, data: "ReadableBuffer", /) -> int:
        """Append the bytes.

        Raises:
            Unavailable: the store cannot take them; the object will not appear.
        """
        if self.closed:
            raise ValueError(f"write to closed output {self._path}")
        size = memoryview(data).nbytes
        try:
            self._sink.write(data)
        except BaseException:
            self._failed = True
            raise
        self._position += size
        return size

    def close(self) -> None:
        """Publish the object; a second call does nothing.

        Raises:
            Unavailable: it could not be written (or an earlier write failed); it did not appear.
        """
        if self.closed:
            return
        if self._failed:
            self.abort()
            raise Unavailable(f"{self._path} was not written: an earlier write failed")
        try:
            self._sink.publish()
        finally:
            super().close()

    def abort(self) -> None:
        """Discard the object; after `close()` it does nothing."""
        if not self.closed:
            try:
                self._sink.discard()
            finally:
                super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # The base class would call close(), which publishes.
        if hasattr(self, "_failed"):
            self.abort()
