"""Which delete files apply to which data file (spec, "Scan Planning").

Equality deletes reach strictly older data of their partition, or all partitions when written under an
unpartitioned spec. Position deletes reach data as old as themselves or older, of their partition and by path. A
deletion vector replaces all position deletes of its data file.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeAlias

from table_format.errors import Internal, Invalid
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import FILE_PATH_FIELD_ID, Content, DataFile, ManifestEntry
from table_format.manifest.lines import FileLine
from table_format.scan.partitions import is_unpartitioned, partition_key

Scope: TypeAlias = tuple[int, tuple[Hashable, ...]]


def scope_of(file: DataFile | FileLine) -> Scope:
    """The spec and partition of a file, comparable."""
    return file.spec_id, partition_key(file.partition)


def sequence_of(entry: ManifestEntry) -> int:
    """The data sequence number of an entry that was read.

    Raises:
        Internal: the entry was never read from a manifest (inheritance not applied).
    """
    if entry.sequence_number is None:
        raise Internal(f"entry of {entry.data_file.file_path} has no sequence number")
    return entry.sequence_number


def is_vector(file: DataFile) -> bool:
    """Whether a delete file is a v3 deletion vector (a blob in a Puffin file)."""
    return file.content is Content.POSITION_DELETES and file.file_format.upper() == "PUFFIN"


def referenced_path(file: DataFile) -> str | None:
    """The one data file that a position delete file is about, if it is about one."""
    if file.referenced_data_file is not None:
        return file.referenced_data_file
    lower, upper = _path_bounds(file)
    return lower.decode(errors="surrogateescape") if lower is not None and lower == upper else None


def _path_bounds(file: DataFile) -> tuple[bytes | None, bytes | None]:
    return (
        (file.lower_bounds or {}).get(FILE_PATH_FIELD_ID),
        (file.upper_bounds or {}).get(FILE_PATH_FIELD_ID),
    )


def may_reference(file: DataFile, path: str) -> bool:
    """Whether a position delete file can hold positions of that data file, by what its metadata says."""
    if file.referenced_data_file is not None:
        return file.referenced_data_file == path
    lower, upper = _path_bounds(file)
    raw = path.encode()
    # A bound may be a cut-off prefix; an upper one that was cut and not raised must not exclude longer paths.
    above = lower is None or raw >= lower
    return above and (upper is None or raw <= upper or raw.startswith(upper))


class _BySequence:
    """Delete entries in order of their sequence numbers."""

    __slots__ = ("entries", "sequences")

    def __init__(self, entries: Iterable[ManifestEntry]) -> None:
        ordered = sorted(entries, key=lambda entry: (sequence_of(entry), entry.data_file.file_path))
        self.entries = tuple(ordered)
        self.sequences = [sequence_of(entry) for entry in ordered]

    def after(self, sequence: int) -> tuple[ManifestEntry, ...]:
        return self.entries[bisect_right(self.sequences, sequence) :]

    def since(self, sequence: int) -> tuple[ManifestEntry, ...]:
        return self.entries[bisect_left(self.sequences, sequence) :]


_NONE = _BySequence(())


class DeleteIndex:
    """The live delete files of one snapshot, ready to be asked for each data file."""

    def __init__(self, deletes: Iterable[ManifestEntry], specs: Sequence[JsonObject]) -> None:
        """Index the deletes.

        Raises:
            Invalid: a deletion vector names no data file, or a data file has two.
        """
        unpartitioned = {spec["spec-id"] for spec in specs if is_unpartitioned(spec)}
        everywhere: list[ManifestEntry] = []
        equality: dict[Scope, list[ManifestEntry]] = {}
        by_path: dict[str, list[ManifestEntry]] = {}
        by_scope: dict[Scope, list[ManifestEntry]] = {}
        self._vectors: dict[str, ManifestEntry] = {}
        self._empty = True
        for entry in deletes:
            self._empty = False
            file = entry.data_file
            if is_vector(file):
                self._add_vector(entry)
            elif file.content is Content.POSITION_DELETES:
                path = referenced_path(file)
                if path is not None:
                    by_path.setdefault(path, []).append(entry)
                else:
                    by_scope.setdefault(scope_of(file), []).append(entry)
            elif file.spec_id in unpartitioned:
                everywhere.append(entry)
            else:
                equality.setdefault(scope_of(file), []).append(entry)
        self._everywhere = _BySequence(everywhere)
        self._equality = {scope: _BySequence(entries) for scope, entries in equality.items()}
        self._positions_by_path = {path: _BySequence(entries) for path, entries in by_path.items()}
        self._positions_by_scope = {scope: _BySequence(entries) for scope, entries in by_scope.items()}
        # Thousands of files of one age and partition share one tuple instead of holding a copy each.
        self._equality_of: dict[tuple[Scope, int], tuple[ManifestEntry, ...]] = {}

    def _add_vector(self, entry: ManifestEntry) -> None:
        path = entry.data_file.referenced_data_file
        if path is None:
            raise Invalid(
                f"deletion vector in {entry.data_file.file_path} does not say which data file it is for"
            )
        if path in self._vectors:
            raise Invalid(f"data file {path} has two deletion vectors")
        self._vectors[path] = entry

    def applying_to(self, data: ManifestEntry) -> tuple[ManifestEntry, ...]:
        """The deletes that apply to a data file: its vector or position deletes first, then equality deletes."""
        return self.applying(data.data_file.file_path, scope_of(data.data_file), sequence_of(data))

    def applying(self, path: str, scope: Scope, sequence: int) -> tuple[ManifestEntry, ...]:
        """As `applying_to`, by path, partition and data sequence number of the data file."""
        if self._empty:
            return ()
        return self._positional(path, scope, sequence) + self._equality_after(scope, sequence)

    def _positional(self, path: str, scope: Scope, sequence: int) -> tuple[ManifestEntry, ...]:
        """The deletion vector of a data file, or its position delete files."""
        vector = self._vectors.get(path)
        if vector is not None and sequence_of(vector) >= sequence:
            return (vector,)
        own = self._positions_by_path.get(path, _NONE).since(sequence)
        shared = self._positions_by_scope.get(scope, _NONE).since(sequence)
        return own + tuple(entry for entry in shared if may_reference(entry.data_file, path))

    def _equality_after(self, scope: Scope, sequence: int) -> tuple[ManifestEntry, ...]:
        known = self._equality_of.get((scope, sequence))
        if known is None:
            known = self._everywhere.after(sequence) + self._equality.get(scope, _NONE).after(sequence)
            self._equality_of[scope, sequence] = known
        return known
