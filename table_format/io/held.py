"""Objects that never change, held after they were read whole, up to so many bytes: the least used go first."""

from collections import OrderedDict
from dataclasses import dataclass, field

from table_format.io.store import Gets, ObjectInfo


@dataclass(slots=True)
class Held:
    """What is held, by path."""

    max_bytes: int = 64 << 20
    _objects: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def over(self, store: Gets) -> "HeldReads":
        """The store, asked only for what is not held."""
        return HeldReads(store, self)

    def get(self, path: str) -> bytes | None:
        """The object; None when it is not held."""
        found = self._objects.get(path)
        if found is not None:
            self._objects.move_to_end(path)
        return found

    def add(self, path: str, data: bytes) -> None:
        """Hold it, unless it is larger than all that may be held."""
        if len(data) > self.max_bytes:
            return
        self._objects[path] = data
        self._bytes += len(data)
        while self._bytes > self.max_bytes:
            _, gone = self._objects.popitem(last=False)
            self._bytes -= len(gone)


class HeldReads:
    """Reads of a store that ask for nothing that is held; ranges are not held."""

    def __init__(self, store: Gets, held: Held) -> None:
        self._store = store
        self._held = held

    def get(self, path: str, byte_range: tuple[int, int] | None = None) -> bytes:
        """As the store."""
        if byte_range is not None:
            return self._store.get(path, byte_range)
        known = self._held.get(path)
        if known is None:
            known = self._store.get(path)
            self._held.add(path, known)
        return known

    def head(self, path: str) -> ObjectInfo:
        """As the store."""
        return self._store.head(path)
