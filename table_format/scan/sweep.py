"""Large delete files, applied to several data files at once: each delete file is read once, and a bit a row is left.

What memory holds follows from the data files, not from the deletes: of equality deletes nothing stays but the bits,
of position deletes neither. Small delete files are none of this module's business; see `deletes`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from table_format.errors import Invalid
from table_format.io.store import ObjectStore
from table_format.manifest.entries import Content, DataFile
from table_format.metadata.document import TableMetadata
from table_format.scan.equality import KeyColumns, key_fields
from table_format.scan.equality_join import Bits, KeySource, RowSource, bits_within, joined, set_bits
from table_format.scan.files import open_file, read_name_mapping
from table_format.scan.index import is_vector
from table_format.scan.plan import FileTask
from table_format.scan.positions import position_batches
from table_format.scan.read import BATCH_ROWS

MOST_KEYS_HELD: Final = 262_144
"""Keys of one set of columns that are held in memory and looked up for each batch of rows."""
MOST_POSITIONS_HELD: Final = 2_000_000
_MOST_BYTES_HELD: Final = 8 << 20
"""Bytes of delete files; long keys are as bad as many."""

Ids: TypeAlias = tuple[int, ...]


def equality_ids(file: DataFile) -> Ids:
    """The columns of an equality delete file, in no order of its own.

    Raises:
        Invalid: it names none.
    """
    if not file.equality_ids:
        raise Invalid(f"equality delete file {file.file_path} names no columns")
    return tuple(sorted(set(file.equality_ids)))


@dataclass(frozen=True, slots=True)
class Sorted:
    """The delete files of one task, by how they are applied."""

    held_keys: Mapping[Ids, list[DataFile]]
    swept_keys: Mapping[Ids, list[DataFile]]
    held_positions: list[DataFile]
    swept_positions: list[DataFile]
    vectors: list[DataFile]


def sorted_deletes(task: FileTask) -> Sorted:
    """Which delete files of a task are held in memory, and which are swept.

    Raises:
        Invalid: an equality delete file names no columns.
    """
    by_ids: dict[Ids, list[DataFile]] = {}
    positions: list[DataFile] = []
    vectors: list[DataFile] = []
    for entry in task.deletes:
        file = entry.data_file
        if file.content is Content.EQUALITY_DELETES:
            by_ids.setdefault(equality_ids(file), []).append(file)
        elif is_vector(file):
            vectors.append(file)
        else:
            positions.append(file)
    large = {ids for ids, files in by_ids.items() if _too_large(files, MOST_KEYS_HELD)}
    many = _too_large(positions, MOST_POSITIONS_HELD)
    return Sorted(
        held_keys={ids: files for ids, files in sorted(by_ids.items()) if ids not in large},
        swept_keys={ids: files for ids, files in sorted(by_ids.items()) if ids in large},
        held_positions=[] if many else positions,
        swept_positions=positions if many else [],
        vectors=vectors,
    )


def _too_large(files: Sequence[DataFile], most: int) -> bool:
    return (
        sum(file.record_count for file in files) > most
        or sum(file.file_size_in_bytes for file in files) > _MOST_BYTES_HELD
    )


@dataclass(slots=True)
class Swept:
    """Which rows large delete files take away, by data file."""

    tasks: Sequence[FileTask]
    _bits: dict[str, list[Bits]] = field(default_factory=dict)

    def has(self, task: FileTask) -> bool:
        """Whether it was made for that task too."""
        return any(task is each for each in self.tasks)

    def add(self, path: str, bits: Bits) -> None:
        """Rows of that data file."""
        self._bits.setdefault(path, []).append(bits)

    def clear_of(self, path: str, keep: Any, start: int) -> None:
        """Take the rows away from `keep`, a bool a row that begins at row `start` of that data file."""
        for bits in self._bits.get(path, ()):
            keep &= ~bits_within(bits, start, start + len(keep))


def sweep(
    store: ObjectStore,
    tasks: Sequence[FileTask],
    metadata: TableMetadata,
    go_on: Callable[[], None] = lambda: None,
) -> Swept:
    """Apply the large delete files of these tasks. `go_on` is asked between batches, and may raise.

    Raises:
        Invalid: a file cannot be read, or has more rows than its manifest says.
        Unavailable: there is no room on the disk for temporary files.
        Unsupported: a file of a format that cannot be read, or an encrypted file.
    """
    swept = Swept(tasks)
    broom = _Broom(store, metadata, go_on)
    by_ids: dict[Ids, list[tuple[DataFile, list[DataFile]]]] = {}
    by_positions: list[tuple[DataFile, list[DataFile]]] = []
    for task in tasks:
        data, found = task.entry.data_file, sorted_deletes(task)
        for ids, files in found.swept_keys.items():
            by_ids.setdefault(ids, []).append((data, files))
        if found.swept_positions:
            by_positions.append((data, found.swept_positions))
    for ids, burdened in by_ids.items():
        for chain in _chains(burdened):
            for path, bits in broom.keys(ids, chain):
                swept.add(path, bits)
    for path, bits in broom.positions(by_positions):
        swept.add(path, bits)
    return swept


_Chain: TypeAlias = list[tuple[DataFile, list[DataFile]]]


def _chains(burdened: _Chain) -> list[_Chain]:
    """Data files put together so that each has no delete file that the one before it has not.

    That is one chain, the oldest data first, unless partitions or specs differ.
    """
    chains: list[tuple[_Chain, set[str]]] = []
    for data, files in sorted(burdened, key=lambda each: -len(each[1])):
        mine = {file.file_path for file in files}
        for number, (chain, narrowest) in enumerate(chains):
            if mine <= narrowest:
                chain.append((data, files))
                chains[number] = (chain, mine)
                break
        else:
            chains.append(([(data, files)], mine))
    return [chain for chain, _ in chains]


class _Broom:
    """Reads the files of one table."""

    def __init__(self, store: ObjectStore, metadata: TableMetadata, go_on: Callable[[], None]) -> None:
        self._store = store
        self._metadata = metadata
        self._mapping = read_name_mapping(metadata)
        self._go_on = go_on

    def keys(self, ids: Ids, chain: _Chain) -> Iterator[tuple[str, Bits]]:
        """The rows of each data file that have one of the keys."""
        fields = key_fields(self._metadata, ids)

        def batches(file: DataFile, *, spec_id: int | None = None) -> Iterator[list[Any]]:
            spec = None if spec_id is None else self._metadata.spec(spec_id)
            with open_file(self._store, file, self._mapping) as source:
                columns = KeyColumns(source, fields, spec)
                for batch in source.batches(columns.positions, BATCH_ROWS):
                    yield columns.of(batch)

        def rows_of(data: DataFile) -> RowSource:
            return RowSource(
                name=data.file_path,
                rows=data.record_count,
                batches=lambda: batches(data, spec_id=data.spec_id),
            )

        reach: dict[str, int] = {}
        for _, files in chain:
            for file in files:
                reach[file.file_path] = reach.get(file.file_path, 0) + 1

        def keys_of(file: DataFile) -> KeySource:
            return KeySource(
                reach=reach[file.file_path], keys=file.record_count, batches=lambda: batches(file)
            )

        rows = [rows_of(data) for data, _ in chain]
        keys = [keys_of(file) for file in {file.file_path: file for file in chain[0][1]}.values()]
        found = joined(fields, rows, keys, self._go_on)
        yield from zip((data.file_path for data, _ in chain), found, strict=True)

    def positions(self, burdened: _Chain) -> Iterator[tuple[str, Bits]]:
        """The rows of each data file whose positions its delete files name."""
        found = {
            data.file_path: (np.zeros((data.record_count + 7) // 8, dtype=np.uint8), data.record_count)
            for data, _ in burdened
        }
        wanted: dict[str, set[str]] = {}
        files: dict[str, DataFile] = {}
        for data, deletes in burdened:
            for file in deletes:
                files[file.file_path] = file
                wanted.setdefault(file.file_path, set()).add(data.file_path)
        for file in files.values():
            for path, positions in position_batches(self._store, file, wanted[file.file_path]):
                self._go_on()
                bits, rows = found[path]
                set_bits(bits, positions[(positions >= 0) & (positions < rows)])
        yield from ((path, bits) for path, (bits, _) in found.items())
