"""Decorators over any object store: `Failing` raises by rules, `Counting` counts; for tests and benchmarks."""

import io
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeAlias, TypeVar, cast

from table_format.errors import Unavailable
from table_format.io.store import DeleteFailure, ObjectInfo, ObjectStore, Piece

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Method: TypeAlias = Literal[
    "get",
    "put",
    "head",
    "exists",
    "list",
    "delete_many",
    "open_input",
    "open_output",
    "close_output",
    "compose",
]


T = TypeVar("T")


def _unavailable() -> BaseException:
    return Unavailable("the store is away (injected)")


@dataclass(slots=True, kw_only=True)
class Rule:
    """When to fail: on calls of `methods` whose path matches `pattern`, from the `nth` such call, `times` times.

    `after` lets the operation happen first (the answer is lost). `close_output` is the publishing of an
    `open_output` writer. A `list` that fails `after` yields everything first.
    """

    methods: frozenset[Method] | None = None
    pattern: str = ""
    nth: int = 1
    times: int | None = 1
    after: bool = False
    error: Callable[[], BaseException] = _unavailable
    seen: int = field(default=0, init=False)

    def due(self, method: Method, paths: Sequence[str]) -> bool:
        """Count the call if it is meant, and say whether it shall fail."""
        if self.methods is not None and method not in self.methods:
            return False
        if not any(re.search(self.pattern, path) for path in paths):
            return False
        self.seen += 1
        return self.seen >= self.nth and (self.times is None or self.seen < self.nth + self.times)


class _DelegatedOutput(io.BufferedIOBase):
    """Passes writes on to an inner writer; subclasses change what happens at the ends."""

    def __init__(self, inner: BinaryIO) -> None:
        self._inner = inner

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._inner.tell()

    def write(self, data: "ReadableBuffer", /) -> int:
        return self._inner.write(data)

    def close(self) -> None:
        if not self.closed:
            try:
                self._inner.close()
            finally:
                super().close()

    def abort(self) -> None:
        """Discard the object."""
        if not self.closed:
            try:
                self._inner.__exit__(Unavailable, Unavailable("aborted"), None)
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
        if hasattr(self, "_inner"):
            self.abort()


class _FailingOutput(_DelegatedOutput):
    def __init__(self, inner: BinaryIO, store: "Failing", path: str) -> None:
        super().__init__(inner)
        self._store, self._path = store, path

    def close(self) -> None:
        if self.closed:
            return
        late = self._guarded()
        super().close()
        if late is not None:
            raise late

    def _guarded(self) -> BaseException | None:
        try:
            return self._store.check("close_output", self._path)
        except BaseException:
            self.abort()
            raise


class Failing:
    """A store that fails where its rules say so, and works otherwise."""

    def __init__(self, store: ObjectStore, rules: Iterable[Rule] = ()) -> None:
        self._store = store
        self.rules = list(rules)
        self._lock = threading.Lock()

    def check(self, method: Method, *paths: str) -> BaseException | None:
        """Raise what a rule wants raised before; give what is to be raised after the operation."""
        late: BaseException | None = None
        with self._lock:
            due = [rule for rule in self.rules if rule.due(method, paths)]
        for rule in due:
            if not rule.after:
                raise rule.error()
            late = late or rule.error()
        return late

    def get(self, path: str, byte_range: tuple[int, int] | None = None) -> bytes:
        """As the store."""
        late = self.check("get", path)
        data = self._store.get(path, byte_range)
        return _unless(late, data)

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> None:
        """As the store."""
        late = self.check("put", path)
        self._store.put(path, data, if_absent=if_absent)
        _unless(late, None)

    def head(self, path: str) -> ObjectInfo:
        """As the store."""
        late = self.check("head", path)
        return _unless(late, self._store.head(path))

    def exists(self, path: str) -> bool:
        """As the store."""
        late = self.check("exists", path)
        return _unless(late, self._store.exists(path))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """As the store."""
        late = self.check("list", prefix)
        yield from self._store.list(prefix)
        _unless(late, None)

    def delete_many(self, paths: Iterable[str]) -> Sequence[DeleteFailure]:
        """As the store; a rule is due when it matches any of the paths."""
        wanted = list(paths)
        late = self.check("delete_many", *wanted)
        return _unless(late, self._store.delete_many(wanted))

    def open_input(self, path: str) -> BinaryIO:
        """As the store."""
        late = self.check("open_input", path)
        reader = self._store.open_input(path)
        if late is not None:
            reader.close()
        return _unless(late, reader)

    def open_output(self, path: str) -> BinaryIO:
        """As the store."""
        late = self.check("open_output", path)
        if late is not None:
            raise late
        return cast("BinaryIO", _FailingOutput(self._store.open_output(path), self, path))

    def compose(self, path: str, pieces: Sequence[Piece], go_on: Callable[[], None]) -> int:
        """As the store; a rule is due when it matches the path that is written."""
        late = self.check("compose", path)
        return _unless(late, self._store.compose(path, pieces, go_on))


def _unless(late: BaseException | None, answer: T) -> T:
    if late is not None:
        raise late
    return answer


class Counting:
    """A store that counts calls by method, and bytes."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.paths: dict[str, list[str]] = {}
        self.bytes_read = 0
        self.bytes_written = 0

    def add(self, *, read: int = 0, written: int = 0) -> None:
        """Count bytes."""
        with self._lock:
            self.bytes_read += read
            self.bytes_written += written

    def reset(self) -> None:
        """Start again at nought."""
        with self._lock:
            self.calls.clear()
            self.paths.clear()
            self.bytes_read = self.bytes_written = 0

    def _call(self, method: Method, *paths: str) -> None:
        with self._lock:
            self.calls[method] += 1
            self.paths.setdefault(method, []).extend(paths)

    def get(self, path: str, byte_range: tuple[int, int] | None = None) -> bytes:
        """As the store."""
        self._call("get", path)
        data = self._store.get(path, byte_range)
        self.add(read=len(data))
        return data

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> None:
        """As the store."""
        self._call("put", path)
        self._store.put(path, data, if_absent=if_absent)
        self.add(written=len(data))

    def head(self, path: str) -> ObjectInfo:
        """As the store."""
        self._call("head", path)
        return self._store.head(path)

    def exists(self, path: str) -> bool:
        """As the store."""
        self._call("exists", path)
        return self._store.exists(path)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """As the store."""
        self._call("list", prefix)
        return self._store.list(prefix)

    def delete_many(self, paths: Iterable[str]) -> Sequence[DeleteFailure]:
        """As the store."""
        wanted = list(paths)
        self._call("delete_many", *wanted)
        return self._store.delete_many(wanted)

    def open_input(self, path: str) -> BinaryIO:
        """As the store."""
        self._call("open_input", path)
        return cast("BinaryIO", _CountingInput(self._store.open_input(path), self))

    def open_output(self, path: str) -> BinaryIO:
        """As the store."""
        self._call("open_output", path)
        return cast("BinaryIO", _CountingOutput(self._store.open_output(path), self))

    def compose(self, path: str, pieces: Sequence[Piece], go_on: Callable[[], None]) -> int:
        """As the store; what went through this process counts as written."""
        self._call("compose", path)
        through = self._store.compose(path, pieces, go_on)
        self.add(written=through)
        return through


class _CountingInput(io.BufferedIOBase):
    def __init__(self, inner: BinaryIO, counter: Counting) -> None:
        self._inner, self._counter = inner, counter

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        data = self._inner.read(-1 if size is None else size)
        self._counter.add(read=len(data))
        return data

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
        super().close()


class _CountingOutput(_DelegatedOutput):
    def __init__(self, inner: BinaryIO, counter: Counting) -> None:
        super().__init__(inner)
        self._counter = counter

    def write(self, data: "ReadableBuffer", /) -> int:
        size = super().write(data)
        self._counter.add(written=size)
        return size
