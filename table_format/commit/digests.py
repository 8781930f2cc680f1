"""What a commit has to know of manifests that it leaves alone: a few bytes for each of their data files.

Paths are known by their hashes alone. Files are never told apart by those: where a hash is found, the manifest is read
again and the path compared.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress

import numpy as np
import numpy.typing as npt

from table_format.io.store import Gets
from table_format.manifest.entries import ManifestFile, Partition
from table_format.manifest.lines import FileLine, live_lines
from table_format.metadata.document import TableMetadata
from table_format.scan.index import Scope, scope_of


@dataclass(frozen=True, slots=True)
class Digest:
    """The live data files of one manifest."""

    hashes: "npt.NDArray[np.int64]"
    """Of their paths, sorted; good within this process."""
    records: int
    size: int
    oldest: dict[Scope, int]
    """The lowest data sequence number in each partition."""
    found: dict[str, tuple[FileLine, ...]] = field(default_factory=dict)
    """Of paths that were looked for here, the files that have them: none, or one, or more in a broken table."""

    def may_hold(self, paths: Collection[str], hashes: "npt.NDArray[np.int64]") -> list[str]:
        """Those of the paths, given with their hashes, that are perhaps here."""
        if not len(self.hashes):
            return []
        at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        near = self.hashes[at] == hashes
        return list(compress(paths, near)) if near.any() else []

    def note(self, paths: Iterable[str], lines: Iterable[FileLine]) -> None:
        """Remember what was found of the paths among all lines of the manifest."""
        found: dict[str, list[FileLine]] = {path: [] for path in paths}
        for line in lines:
            if line.file_path in found:
                found[line.file_path].append(line)
        self.found.update((path, tuple(same)) for path, same in found.items())


def digest_of(lines: Iterable[FileLine]) -> Digest:
    """The digest of a manifest with these live data files."""
    hashes, records, size = array("q"), 0, 0
    oldest: dict[Scope, int] = {}
    # Most partitions of a manifest are one object; held here, so that its id is not given to another.
    scopes: dict[int, tuple[Partition, Scope]] = {}
    for line in lines:
        hashes.append(hash(line.file_path))
        records += line.record_count
        size += line.file_size_in_bytes
        known = scopes.get(id(line.partition))
        if known is None:
            known = scopes[id(line.partition)] = (line.partition, scope_of(line))
        sequence = oldest.get(known[1])
        if sequence is None or line.sequence_number < sequence:
            oldest[known[1]] = line.sequence_number
    return Digest(np.sort(np.frombuffer(hashes, np.int64)), records, size, oldest)


def hashes_of(paths: Collection[str]) -> "npt.NDArray[np.int64]":
    """Their hashes, in their order."""
    return np.fromiter(map(hash, paths), np.int64, len(paths))


@dataclass(slots=True)
class DigestCache:
    """Digests of manifests, which never change; what their list lets them inherit is part of the key."""

    _known: dict[tuple[object, ...], Digest] = field(default_factory=dict)

    def learn(self, manifest: ManifestFile, lines: Iterable[FileLine]) -> None:
        """Take over a manifest that was read: all its live lines."""
        self._known[_key(manifest)] = digest_of(lines)

    def of(self, store: Gets, manifest: ManifestFile, metadata: TableMetadata) -> Digest:
        """The digest of a data manifest.

        Raises:
            NoSuchFile, Invalid: it cannot be read.
        """
        known = self._known.get(_key(manifest))
        if known is None:
            known = self._known[_key(manifest)] = digest_of(live_lines(store, manifest, metadata))
        return known

    def keep_only(self, manifests: Iterable[ManifestFile]) -> None:
        """Forget every manifest but these."""
        kept = {_key(manifest) for manifest in manifests}
        self._known = {key: digest for key, digest in self._known.items() if key in kept}


def _key(manifest: ManifestFile) -> tuple[object, ...]:
    return (manifest.path, manifest.first_row_id, manifest.sequence_number, manifest.added_snapshot_id)


def twice(digests: Iterable[Digest]) -> Iterator[int]:
    """Hashes that several files have: perhaps one file that is listed more than once."""
    arrays = [digest.hashes for digest in digests]
    if arrays:
        found, counts = np.unique(np.concatenate(arrays), return_counts=True)
        yield from found[counts > 1].tolist()
