"""Live entries of many manifests written anew into few: in the order of their partitions, up to a target size.

Entries are held as encoded, which takes a tenth of what they take as values. Each keeps what it says: snapshot id, both
sequence numbers, row id; its status becomes EXISTING.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import copysign, isnan
from typing import Any, Final, NamedTuple, TypeAlias

from table_format.errors import Invalid
from table_format.io.store import ObjectStore
from table_format.manifest.container import BLOCK_FRAME, assembled, deflated
from table_format.manifest.entries import (
    UNASSIGNED,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Partition,
    Status,
)
from table_format.manifest.write import BLOCK_BYTES, EntryForm, summaries_of
from table_format.metadata.document import TableMetadata

COUNTS_DO_NOT_FIT: Final = "with other entries than the manifest list says"

_BLOCKS_IN_TARGET: Final = 8
"""At least so many blocks fill a manifest, so that it ends near its target."""

Order: TypeAlias = tuple[Any, ...]


def order_of(partition: Partition) -> Order:
    """By which partitions of one spec are sorted: field by field, nulls first, NaN last."""
    return tuple(_order_of(value) for value in partition)


def _order_of(value: Any) -> Order:
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2,) if isnan(value) else (1, value, copysign(1, value))
    return (1, value)


class _Held(NamedTuple):
    """One encoded entry and what the manifest list must know of it, without its path, which stands in it."""

    sequence_number: int
    path_at: int
    path_end: int
    rows: int
    data: bytes

    @property
    def order(self) -> tuple[int, bytes]:
        """By which entries of one partition are sorted."""
        return self.sequence_number, self.data[self.path_at : self.path_end]


@dataclass(frozen=True, slots=True)
class _Part:
    """The entries of one partition."""

    partition: Partition
    held: list[_Held]


@dataclass(slots=True)
class ClusteredEntries:
    """Entries of one spec and content, on their way into new manifests."""

    form: EntryForm
    files: int = 0
    rows: int = 0
    _parts: dict[Order, _Part] = field(default_factory=dict)
    _keys: set[int] = field(default_factory=set)
    """Hashes of what tells files apart: should two have the same, then a manifest is left alone."""

    @classmethod
    def of(cls, metadata: TableMetadata, spec_id: int, content: ManifestContent) -> "ClusteredEntries":
        """None yet.

        Raises:
            Invalid, Unsupported: such manifests cannot be written, see `EntryForm.of`.
        """
        return cls(EntryForm.of(metadata, spec_id, content))

    def add(self, entries: Iterable[ManifestEntry], told: int | None = None) -> str | None:
        """Take all live entries of one manifest, or none and tell why: the manifest then has to stay as it is.

        `told` is how many its list says there are. One entry is held as a value at a time.
        """
        held: list[tuple[Partition, _Held]] = []
        keys: set[int] = set()
        for read in entries:
            if read.status is Status.DELETED:
                continue
            entry = replace(read, status=Status.EXISTING)
            file = entry.data_file
            key = hash((file.file_path, file.content_offset))
            if key in self._keys or key in keys:
                # In one manifest it would be refused; and which of the two is meant is not for us to say.
                return "with a file that is listed twice"
            if self.form.fault(entry, None) is not None:
                return "with an entry that cannot be written"
            data = bytearray()
            try:
                self.form.encode(data, entry, None)
            except Invalid:
                return "with an entry that cannot be written"
            keys.add(key)
            path = file.file_path.encode()
            at = data.index(path)
            kept = _Held(entry.sequence_number or 0, at, at + len(path), file.record_count, bytes(data))
            held.append((file.partition, kept))
        if told is not None and told != len(held):
            return COUNTS_DO_NOT_FIT
        self._keys |= keys
        for partition, one in held:
            order = order_of(partition)
            part = self._parts.get(order)
            if part is None:
                part = self._parts[order] = _Part(partition, [])
            part.held.append(one)
            self.rows += one.rows
        self.files += len(held)
        return None

    def write(self, store: ObjectStore, target: int, path: Callable[[], str]) -> Iterator[ManifestFile]:
        """Write them out, manifest by manifest; each is smaller than `target`, unless one block alone is not.

        The snapshot that adds them is not known yet: it has to be set before they are listed.

        Raises:
            AlreadyExists: there is a file of a name that `path` gave.
        """
        empty = len(assembled(self.form.schema, self.form.header, []))
        chunk: list[_Part] = []
        packed: list[tuple[int, bytes]] = []
        size = empty
        for block in self._blocks(min(BLOCK_BYTES, max(target // _BLOCKS_IN_TARGET, 1))):
            data = deflated(b"".join(one.data for part in block for one in part.held))
            count = sum(len(part.held) for part in block)
            if packed and size + len(data) + BLOCK_FRAME > target:
                yield self._put(store, path(), chunk, packed)
                chunk, packed, size = [], [], empty
            chunk += block
            packed.append((count, data))
            size += len(data) + BLOCK_FRAME
        if packed:
            yield self._put(store, path(), chunk, packed)

    def _blocks(self, block_bytes: int) -> Iterator[list[_Part]]:
        """Entries in their order, as many as make a block; those of one partition may be in several."""
        block: list[_Part] = []
        size = 0
        for order in sorted(self._parts):
            whole = self._parts[order]
            whole.held.sort(key=lambda one: one.order)
            block.append(_Part(whole.partition, []))
            for one in whole.held:
                block[-1].held.append(one)
                size += len(one.data)
                if size >= block_bytes:
                    yield block
                    block, size = [_Part(whole.partition, [])], 0
            if not block[-1].held:
                block.pop()
        if block:
            yield block

    def _put(
        self, store: ObjectStore, path: str, parts: Sequence[_Part], packed: Sequence[tuple[int, bytes]]
    ) -> ManifestFile:
        form = self.form
        data = assembled(form.schema, form.header, packed)
        store.put(path, data, if_absent=True)
        numbered = form.version > 1
        held = [one for part in parts for one in part.held]
        return ManifestFile(
            path=path,
            length=len(data),
            spec_id=form.spec_id,
            content=form.content,
            sequence_number=UNASSIGNED if numbered else 0,
            min_sequence_number=min(one.sequence_number for one in held) if numbered else 0,
            added_files_count=0,
            existing_files_count=len(held),
            deleted_files_count=0,
            added_rows_count=0,
            existing_rows_count=sum(one.rows for one in held),
            deleted_rows_count=0,
            partitions=summaries_of(form.columns, [part.partition for part in parts]),
        )
