"""So many bytes a second: a store whose readers and writers wait when they are too fast.

What a piece of work reads and writes is counted as it happens, and paid for by waiting after it. Waiting ends at once
when the work is to end, and never raises: the work itself asks where it may stop.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final, cast

from maintenance.executors.port import GoOn, Stopped
from table_format.clock import Clock
from table_format.errors import TableFormatError
from table_format.io.store import DeleteFailure, ObjectInfo, ObjectStore, Piece

_BURST_SECONDS: Final = 1.0
_SLICE_SECONDS: Final = 0.2
"""So long may pass until waiting notices that the work is to end."""


class Throttle:
    """A bucket of tokens, a second's worth, that fills steadily; for one piece of work, whatever threads it has."""

    def __init__(self, bytes_per_second: float, clock: Clock, go_on: GoOn) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._go_on = go_on
        self._paid_until = clock.monotonic() - _BURST_SECONDS
        self._lock = threading.Lock()
        self._ending = False
        self.waited = 0.0
        """Seconds, of all threads together."""

    def take(self, count: int) -> None:
        """Pay for bytes that were read or written; from the bucket, and else by waiting until it has filled."""
        began = now = self._clock.monotonic()
        with self._lock:
            until = self._paid_until = max(self._paid_until, now - _BURST_SECONDS) + count / self._rate
        while now < until and not self._is_to_end():
            self._clock.sleep(min(until - now, _SLICE_SECONDS))
            now = self._clock.monotonic()
        with self._lock:
            self.waited += now - began

    def _is_to_end(self) -> bool:
        if not self._ending:
            try:
                self._go_on()
            except (Stopped, TableFormatError):
                self._ending = True
        return self._ending


class ThrottledStore:
    """Another store, of which no more is read and written than a throttle lets through."""

    def __init__(self, store: ObjectStore, throttle: Throttle) -> None:
        self.inner = store
        self._throttle = throttle

    def get(self, path: str, byte_range: tuple[int, int] | None = None) -> bytes:
        """As the store."""
        data = self.inner.get(path, byte_range)
        self._throttle.take(len(data))
        return data

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> None:
        """As the store."""
        self.inner.put(path, data, if_absent=if_absent)
        self._throttle.take(len(data))

    def head(self, path: str) -> ObjectInfo:
        """As the store."""
        return self.inner.head(path)

    def exists(self, path: str) -> bool:
        """As the store."""
        return self.inner.exists(path)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """As the store."""
        return self.inner.list(prefix)

    def delete_many(self, paths: Iterable[str]) -> Sequence[DeleteFailure]:
        """As the store."""
        return self.inner.delete_many(paths)

    def open_input(self, path: str) -> BinaryIO:
        """As the store."""
        return cast("BinaryIO", _Paying(self.inner.open_input(path), self._throttle))

    def open_output(self, path: str) -> BinaryIO:
        """As the store."""
        return cast("BinaryIO", _Paying(self.inner.open_output(path), self._throttle))

    def compose(self, path: str, pieces: Sequence[Piece], go_on: Callable[[], None]) -> int:
        """As the store; what it copies itself costs nothing."""
        passed = self.inner.compose(path, pieces, go_on)
        self._throttle.take(passed)
        return passed


class _Paying:
    """A stream of the store whose bytes are paid for. Not one itself: dropped, it neither closes nor publishes."""

    def __init__(self, inner: BinaryIO, throttle: Throttle) -> None:
        self._inner = inner
        self._throttle = throttle

    def read(self, size: int | None = -1, /) -> bytes:
        data = self._inner.read(-1 if size is None else size)
        self._throttle.take(len(data))
        return data

    def write(self, data: Any, /) -> int:
        written = self._inner.write(data)
        self._throttle.take(written)
        return written

    def __enter__(self) -> "_Paying":
        self._inner.__enter__()
        return self

    def __exit__(self, *how: Any) -> Any:
        return self._inner.__exit__(*how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
