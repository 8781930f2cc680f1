"""The head's tree as far as a commit must know it, and which of its delete files are dead in the tree to come.

Of data files only digests of their manifests are held, and those files that were looked up. A delete file is dead
when no live data file is left that it could apply to; a doubt keeps it. Nothing is written here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from table_format.commit.digests import Digest, DigestCache, digest_of, hashes_of, twice
from table_format.commit.summary import FileCounts
from table_format.errors import Invalid, NoSuchFile, Unsupported
from table_format.io.held import Held
from table_format.io.store import ObjectStore
from table_format.manifest.entries import (
    Content,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from table_format.manifest.lines import FileLine, live_entries_of, live_lines
from table_format.manifest.read import iterate_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.index import (
    Scope,
    is_vector,
    may_reference,
    referenced_path,
    scope_of,
    sequence_of,
)
from table_format.scan.partitions import is_unpartitioned
from table_format.scan.plan import ManifestCache, holds_no_live_file, snapshot_manifests
from table_format.scan.positions import referenced_paths

FileKey: TypeAlias = tuple[str, int | None]


def file_key(file: DataFile) -> FileKey:
    """What tells two entries apart: one Puffin file holds the vectors of several data files."""
    return file.file_path, file.content_offset


@dataclass(slots=True)
class TreeCache:
    """What attempts of one commit loop share: delete entries, digests of data manifests, paths that deletes name."""

    manifests: ManifestCache = field(default_factory=ManifestCache)
    """Of deletes."""
    digests: DigestCache = field(default_factory=DigestCache)
    referenced: dict[str, frozenset[str]] = field(default_factory=dict)
    held: Held = field(default_factory=Held)
    """Manifests as they lie in the store: those that a commit writes anew are asked for at each attempt."""

    def referenced_paths(self, store: ObjectStore, file: DataFile) -> frozenset[str]:
        """The data files that a position delete file names."""
        known = self.referenced.get(file.file_path)
        if known is None:
            known = self.referenced[file.file_path] = referenced_paths(store, file)
        return known


class Listed(NamedTuple):
    """A live data file at the head."""

    line: FileLine
    whole: DataFile | None = None
    """With its metrics, where those are needed."""


class HeadTree:
    """All manifests of main's head: its delete files, and what is asked of its data files."""

    def __init__(self, store: ObjectStore, metadata: TableMetadata, cache: TreeCache) -> None:
        """Read the head's manifests, those of data only if the cache does not know them.

        Raises:
            NoSuchFile: a manifest is gone.
        """
        self.store = store
        self.metadata = metadata
        self.cache = cache
        self._reads = cache.held.over(store)
        head = metadata.current_snapshot
        listed = [] if head is None else snapshot_manifests(store, head)
        self.manifests = [manifest for manifest in listed if not holds_no_live_file(manifest)]
        cache.manifests.keep_only(self.manifests)
        cache.digests.keep_only(self.manifests)
        self.deletes: list[ManifestEntry] = []
        self.digests: dict[str, Digest] = {}
        """Of data manifests, by path."""
        for manifest in self.manifests:
            if manifest.content is ManifestContent.DATA:
                self.digests[manifest.path] = cache.digests.of(self._reads, manifest, metadata)
            else:
                self.deletes += self.live(manifest)
        self.delete_keys = {file_key(entry.data_file) for entry in self.deletes}
        self._found: dict[str, list[FileLine]] = {}
        self._unpartitioned = unpartitioned_specs(metadata)

    def live(self, manifest: ManifestFile) -> Iterable[ManifestEntry]:
        """The entries of one manifest that are not marked deleted; those of data files one after the other."""
        if manifest.content is ManifestContent.DATA:
            entries: Iterable[ManifestEntry] = iterate_manifest(self._reads, manifest, self.metadata)
        else:
            entries = self.cache.manifests.read(self._reads, manifest, self.metadata)
        return (entry for entry in entries if entry.status is not Status.DELETED)

    def lines(self, manifest: ManifestFile) -> Iterator[FileLine]:
        """The live data files of one manifest."""
        return live_lines(self._reads, manifest, self.metadata)

    def whole(self, manifest: ManifestFile, paths: AbstractSet[str]) -> Iterator[ManifestEntry]:
        """The live entries of data files with these paths in one manifest."""
        return live_entries_of(self._reads, manifest, self.metadata, paths)

    def look_up(self, paths: Iterable[str]) -> None:
        """Look for data files; to look for many at once opens each manifest that has one once.

        Raises:
            NoSuchFile: a manifest is gone.
        """
        new = sorted({path for path in paths if path not in self._found})
        hashes = hashes_of(new)
        self._found.update((path, []) for path in new)
        for manifest in self.manifests if new else ():
            digest = self.digests.get(manifest.path)
            if digest is None:
                continue
            near = digest.may_hold(new, hashes)
            if any(path not in digest.found for path in near):
                digest.note(near, self.lines(manifest))
            for path in near:
                self._found[path] += digest.found[path]

    def at(self, path: str) -> Sequence[FileLine]:
        """The live data files of that path: none, one, or in a broken table several."""
        self.look_up([path])
        return self._found[path]

    def data_by_path(self, needs_metrics: Callable[[FileLine], bool]) -> Iterator[list[Listed]]:
        """Every live data file, alone with its path unless a broken table has it several times.

        Raises:
            NoSuchFile: a manifest is gone.
        """
        shared = frozenset(twice(self.digests[m.path] for m in self.manifests if m.path in self.digests))
        several: dict[str, list[Listed]] = {}
        for manifest in self.manifests:
            if manifest.content is not ManifestContent.DATA:
                continue
            lines = self.lines(manifest)
            for listed in _with_metrics(self, manifest, lines, needs_metrics):
                if hash(listed.line.file_path) in shared:
                    several.setdefault(listed.line.file_path, []).append(listed)
                else:
                    yield [listed]
        yield from several.values()

    def holds_any(self, manifest: ManifestFile, keys: AbstractSet[FileKey]) -> bool:
        """Whether a manifest has a live file of these, of which those of data were looked up."""
        if manifest.content is ManifestContent.DATA:
            found = self.digests[manifest.path].found
            return any(lines and (path, None) in keys for path, lines in found.items())
        return any(file_key(entry.data_file) in keys for entry in self.live(manifest))

    def hashes(self, manifest: ManifestFile) -> "npt.NDArray[np.int64]":
        """Of a manifest's live files; two manifests with no hash in common have no file in common."""
        if manifest.content is ManifestContent.DATA:
            return self.digests[manifest.path].hashes
        return np.array([hash(file_key(entry.data_file)) for entry in self.live(manifest)], np.int64)

    def new_position_deletes(self, entry: ManifestEntry, base_sequence_number: int) -> bool:
        """Whether a position delete or deletion vector for this data file arrived after the base snapshot."""
        return any(
            self._names(delete.data_file, entry.data_file.file_path)
            for delete in self.deletes
            if delete.data_file.content is Content.POSITION_DELETES
            and (delete.file_sequence_number or 0) > base_sequence_number
        )

    def equality_deletes_reaching(self, file: DataFile, base_sequence_number: int) -> list[ManifestEntry]:
        """The equality deletes for this data file's partition that arrived after the base snapshot."""
        scope = scope_of(file)
        return [
            delete
            for delete in self.deletes
            if delete.data_file.content is Content.EQUALITY_DELETES
            and (delete.file_sequence_number or 0) > base_sequence_number
            and (delete.data_file.spec_id in self._unpartitioned or scope_of(delete.data_file) == scope)
        ]

    def _names(self, file: DataFile, path: str) -> bool:
        """Whether a position delete is about the data file, under whatever partition it is filed."""
        named = referenced_path(file)
        if named is not None:
            return named == path
        # Its bounds only say "perhaps"; a busy writer's deletes would otherwise refuse every rewrite.
        return may_reference(file, path) and path in self.cache.referenced_paths(self.store, file)


def _with_metrics(
    tree: HeadTree,
    manifest: ManifestFile,
    lines: Iterable[FileLine],
    needs_metrics: Callable[[FileLine], bool],
) -> Iterator[Listed]:
    wanted: set[str] = set()
    for line in lines:
        if needs_metrics(line):
            wanted.add(line.file_path)
        else:
            yield Listed(line)
    if wanted:
        for entry in tree.whole(manifest, wanted):
            yield Listed(FileLine.of(entry), entry.data_file)


class NextTree:
    """The live data files after a rewrite, and what the deletes of the head still reach among them."""

    def __init__(
        self,
        tree: HeadTree,
        removed: set[str],
        outputs: Sequence[tuple[DataFile, int]],
        touched: set[Scope],
        *,
        replaced: AbstractSet[FileKey] = frozenset(),
        deletes: Sequence[DataFile] = (),
    ) -> None:
        """`outputs` with their data sequence numbers; `touched` are the partitions rewritten.

        `replaced` are delete files of the head that go whatever they reach, as `deletes` are added in their place.
        """
        self._tree = tree
        self._touched = touched
        self._removed = removed
        self._unpartitioned = unpartitioned_specs(tree.metadata)
        self.counts = FileCounts()
        self._oldest: dict[Scope, int] = {}
        self._oldest_of_all: int | None = None
        self._oldest_unpartitioned: int | None = None
        self._outputs = {file.file_path: sequence for file, sequence in outputs}
        tree.look_up(removed)
        for manifest in tree.manifests:
            if (digest := tree.digests.get(manifest.path)) is not None:
                self.counts.add_data(len(digest.hashes), digest.records, digest.size)
        for line in (line for path in removed for line in tree.at(path)):
            self.counts.add_data(-1, -line.record_count, -line.file_size_in_bytes)
        for file, _ in outputs:
            self.counts.add(file)
        if tree.deletes:
            self._measure(outputs)
        self._vectored = self._with_vectors(replaced) | {
            file.referenced_data_file or "" for file in deletes if is_vector(file)
        }
        self.dead = {file_key(entry.data_file) for entry in tree.deletes if self._is_dead(entry)} | replaced
        for file in deletes:
            self.counts.add(file)
        for entry in tree.deletes:
            if file_key(entry.data_file) not in self.dead:
                self.counts.add(entry.data_file)

    def _measure(self, outputs: Sequence[tuple[DataFile, int]]) -> None:
        """How old the data of each partition is, and that of files which deletes name."""
        tree = self._tree
        for manifest in tree.manifests:
            digest = tree.digests.get(manifest.path)
            if digest is None:
                continue
            oldest = digest.oldest
            if any(lines and path in self._removed for path, lines in digest.found.items()):
                left = tree.lines(manifest)
                oldest = digest_of(line for line in left if line.file_path not in self._removed).oldest
            for scope, sequence in oldest.items():
                self._add(scope, sequence)
        for file, sequence in outputs:
            self._add(scope_of(file), sequence)
        files = [entry.data_file for entry in tree.deletes]
        named = {referenced_path(file) for file in files if file.content is Content.POSITION_DELETES}
        tree.look_up(path for path in named if path is not None)
        tree.look_up(
            path for entry in tree.deletes if self._looks_dead(entry) for path in self._named_in(entry)
        )

    def _add(self, scope: Scope, sequence: int) -> None:
        self._oldest[scope] = _oldest(self._oldest.get(scope), sequence)
        self._oldest_of_all = _oldest(self._oldest_of_all, sequence)
        if scope[0] in self._unpartitioned:
            self._oldest_unpartitioned = _oldest(self._oldest_unpartitioned, sequence)

    def _with_vectors(self, replaced: AbstractSet[FileKey]) -> set[str]:
        """The data files that have a vector, so that readers pass over their position delete files."""
        vectors = (
            (delete.data_file.referenced_data_file or "", sequence_of(delete))
            for delete in self._tree.deletes
            if is_vector(delete.data_file) and file_key(delete.data_file) not in replaced
        )
        return {path for path, sequence in vectors if not self._out_of_reach(path, sequence)}

    def _is_dead(self, delete: ManifestEntry) -> bool:
        if delete.data_file.content is Content.EQUALITY_DELETES:
            return self._equality_is_dead(delete)
        return self._positions_are_dead(delete)

    def _equality_is_dead(self, delete: ManifestEntry) -> bool:
        """No data older than the delete is left within its reach (generously drawn)."""
        scope = scope_of(delete.data_file)
        if delete.data_file.spec_id in self._unpartitioned:
            reach = [self._oldest_of_all]
        else:
            reach = [self._oldest.get(scope), self._oldest_unpartitioned]
        return all(oldest is None or oldest >= sequence_of(delete) for oldest in reach)

    def _positions_are_dead(self, delete: ManifestEntry) -> bool:
        """Every data file that the delete names is gone, or younger than it, or has a vector in its place."""
        file, sequence = delete.data_file, sequence_of(delete)
        named = referenced_path(file)
        if named is not None:
            superseded = not is_vector(file) and named in self._vectored
            return superseded or self._out_of_reach(named, sequence)
        return self._looks_dead(delete) and self._names_none_alive(delete)

    def _looks_dead(self, delete: ManifestEntry) -> bool:
        """Whether the content of a position delete file that is about several data files is worth reading."""
        file = delete.data_file
        if file.content is not Content.POSITION_DELETES or referenced_path(file) is not None:
            return False
        scope = scope_of(file)
        oldest = self._oldest.get(scope)
        return oldest is None or oldest > sequence_of(delete) or scope in self._touched

    def _named_in(self, delete: ManifestEntry) -> AbstractSet[str]:
        """The data files that its content names; none when it cannot be read."""
        try:
            return self._tree.cache.referenced_paths(self._tree.store, delete.data_file)
        except (Invalid, NoSuchFile, Unsupported):
            return frozenset()

    def _names_none_alive(self, delete: ManifestEntry) -> bool:
        """By its content: a writer may have filed it under a spec or partition that is not its data file's."""
        try:
            paths = self._tree.cache.referenced_paths(self._tree.store, delete.data_file)
        except (Invalid, NoSuchFile, Unsupported):
            return False
        sequence = sequence_of(delete)
        return all(path in self._vectored or self._out_of_reach(path, sequence) for path in paths)

    def _out_of_reach(self, path: str, sequence: int) -> bool:
        live = () if path in self._removed else self._tree.at(path)
        ages = [line.sequence_number for line in live]
        ages += [self._outputs[path]] if path in self._outputs else []
        return all(age > sequence for age in ages)


def unpartitioned_specs(metadata: TableMetadata) -> set[int]:
    """The ids of the specs whose equality deletes reach every partition."""
    return {spec["spec-id"] for spec in metadata.partition_specs if is_unpartitioned(spec)}


def _oldest(known: int | None, sequence: int) -> int:
    return sequence if known is None or sequence < known else known


def scopes_of(files: Iterable[DataFile | FileLine]) -> set[Scope]:
    """The partitions of the files."""
    return {scope_of(file) for file in files}
