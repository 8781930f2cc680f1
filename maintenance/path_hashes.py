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
        self._runs: list[npt.NDArray[np.int64]] = []
        """Sorted; each is more than twice as long as the next, so that a hash is merged a few times only."""
        self._few: set[int] = set()

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
        self._runs.append(np.unique(np.frombuffer(hashes, np.int64)))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = np.union1d(self._runs[-1], last)

    def holds(self, text: str) -> bool:
        """Whether the text is there."""
        wanted = hash(text)
        if wanted in self._few:
            return True
        for run in self._runs:
            at = int(np.searchsorted(run, wanted))
            if at < len(run) and int(run[at]) == wanted:
                return True
        return False

    def held(self, texts: Sequence[str]) -> "npt.NDArray[np.bool_]":
        """Whether each of the texts is there."""
        wanted = np.fromiter(map(hash, texts), np.int64, len(texts))
        found = np.isin(wanted, np.fromiter(self._few, np.int64, len(self._few)))
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, wanted), len(run) - 1)
            found |= run[at] == wanted
        return found
