"""The head's whole tree in memory, and which of its delete files are dead in the tree to come.

A delete file is dead when no live data file is left that it could apply to; a doubt keeps it. Nothing is written
here.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

from table_format.commit.summary import FileCounts
from table_format.errors import Invalid, NoSuchFile, Unsupported
from table_format.io.store import ObjectStore
from table_format.manifest.entries import (
    Content,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
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
    """What attempts of one commit loop share: manifest entries, and paths named by position delete files."""

    manifests: ManifestCache = field(default_factory=ManifestCache)
    referenced: dict[str, frozenset[str]] = field(default_factory=dict)

    def referenced_paths(self, store: ObjectStore, file: DataFile) -> frozenset[str]:
        """The data files that a position delete file names."""
        known = self.referenced.get(file.file_path)
        if known is None:
            known = self.referenced[file.file_path] = referenced_paths(store, file)
        return known


class HeadTree:
    """All manifests and live entries of main's head."""

    def __init__(self, store: ObjectStore, metadata: TableMetadata, cache: TreeCache) -> None:
        """Read the head's manifests.

        Raises:
            NoSuchFile: a manifest is gone.
        """
        self.store = store
        self.metadata = metadata
        self.cache = cache
        head = metadata.current_snapshot
        listed = [] if head is None else snapshot_manifests(store, head)
        self.manifests = [manifest for manifest in listed if not holds_no_live_file(manifest)]
        cache.manifests.keep_only(self.manifests)
        self.data: dict[str, list[ManifestEntry]] = {}
        self.deletes: list[ManifestEntry] = []
        self._unpartitioned = unpartitioned_specs(metadata)
        for manifest in self.manifests:
            for entry in self.live(manifest):
                if manifest.content is ManifestContent.DATA:
                    self.data.setdefault(entry.data_file.file_path, []).append(entry)
                else:
                    self.deletes.append(entry)
        self.delete_keys = {file_key(entry.data_file) for entry in self.deletes}

    def live(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """The entries of one manifest that are not marked deleted."""
        entries = self.cache.manifests.read(self.store, manifest, self.metadata)
        return [entry for entry in entries if entry.status is not Status.DELETED]

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


class NextTree:
    """The live data files after a rewrite, and what the deletes of the head still reach among them."""

    def __init__(
        self,
        tree: HeadTree,
        removed: set[str],
        outputs: Iterable[tuple[DataFile, int]],
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
        self._unpartitioned = unpartitioned_specs(tree.metadata)
        self.counts = FileCounts()
        self._oldest: dict[Scope, int] = {}
        self._oldest_of_all: int | None = None
        self._oldest_unpartitioned: int | None = None
        self._sequences: dict[str, int] = {}
        for path, entries in tree.data.items():
            if path not in removed:
                for entry in entries:
                    self._add(entry.data_file, sequence_of(entry))
        for file, sequence in outputs:
            self._add(file, sequence)
        self._vectored = self._with_vectors(replaced) | {
            file.referenced_data_file or "" for file in deletes if is_vector(file)
        }
        self.dead = {file_key(entry.data_file) for entry in tree.deletes if self._is_dead(entry)} | replaced
        for file in deletes:
            self.counts.add(file)
        for entry in tree.deletes:
            if file_key(entry.data_file) not in self.dead:
                self.counts.add(entry.data_file)

    def _add(self, file: DataFile, sequence: int) -> None:
        self.counts.add(file)
        scope = scope_of(file)
        self._sequences[file.file_path] = _oldest(self._sequences.get(file.file_path), sequence)
        self._oldest[scope] = _oldest(self._oldest.get(scope), sequence)
        self._oldest_of_all = _oldest(self._oldest_of_all, sequence)
        if file.spec_id in self._unpartitioned:
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
        scope = scope_of(file)
        oldest = self._oldest.get(scope)
        looks_dead = oldest is None or oldest > sequence or scope in self._touched
        return looks_dead and self._names_none_alive(file, sequence)

    def _names_none_alive(self, file: DataFile, sequence: int) -> bool:
        """By its content: a writer may have filed it under a spec or partition that is not its data file's."""
        try:
            paths = self._tree.cache.referenced_paths(self._tree.store, file)
        except (Invalid, NoSuchFile, Unsupported):
            return False
        return all(path in self._vectored or self._out_of_reach(path, sequence) for path in paths)

    def _out_of_reach(self, path: str, sequence: int) -> bool:
        known = self._sequences.get(path)
        return known is None or known > sequence


def unpartitioned_specs(metadata: TableMetadata) -> set[int]:
    """The ids of the specs whose equality deletes reach every partition."""
    return {spec["spec-id"] for spec in metadata.partition_specs if is_unpartitioned(spec)}


def _oldest(known: int | None, sequence: int) -> int:
    return sequence if known is None or sequence < known else known


def scopes_of(files: Iterable[DataFile]) -> set[Scope]:
    """The partitions of the files."""
    return {scope_of(file) for file in files}
