"""A set of very many texts by their hashes: eight bytes each.

It says of every text in it that it is there. Of another one it says so once in more than a billion billion questions: a
file is then kept that could have gone. Hashes are Python's own, good within this process.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

_FEW: Final = 10_000
_MANY: Final = 1_000_000


class PathHashes:
    """The set."""

    def __init__(self) -> None:
        self._sorted = np.empty(0, np.int64)
        self._few: set[int] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._few)

    def add(self, texts: Iterable[str]) -> None:
        """Add texts."""
        hashes = array("q")
        for text in texts:
            hashes.append(hash(text))
            if len(hashes) >= _MANY:
                self._merge(hashes)
                hashes = array("q")
        self._few.update(hashes)
        if len(self._few) > _FEW:
            self._merge(array("q", self._few))
            self._few.clear()

    def _merge(self, hashes: "array[int]") -> None:
        self._sorted = np.union1d(self._sorted, np.frombuffer(hashes, np.int64))

    def holds(self, text: str) -> bool:
        """Whether the text is there."""
        wanted = hash(text)
        if wanted in self._few:
            return True
        at = int(np.searchsorted(self._sorted, wanted))
        return at < len(self._sorted) and int(self._sorted[at]) == wanted

    def held(self, texts: Sequence[str]) -> "npt.NDArray[np.bool_]":
        """Whether each of the texts is there."""
        wanted = np.fromiter(map(hash, texts), np.int64, len(texts))
        found = np.isin(wanted, np.fromiter(self._few, np.int64, len(self._few)))
        if len(self._sorted):
            at = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
            found |= self._sorted[at] == wanted
        return found
