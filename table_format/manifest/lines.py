"""Manifests gone through line by line: of each live file only what maintenance asks of all files, metrics left out.

Most of a manifest is metrics, which `layout` passes over. What it does not match, or what makes no sense (an entry of
another shape, or a damaged one), is read as `read` reads it, which decides.
"""

import struct
from collections.abc import Container, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from table_format.io.store import Gets
from table_format.manifest.container import check_count, check_end, unreadable
from table_format.manifest.decode import Malformed, Reader, read_long, read_string
from table_format.manifest.entries import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Partition,
    Status,
)
from table_format.manifest.layout import layout_of
from table_format.manifest.partition import partition_columns
from table_format.manifest.read import inherited, open_manifest, readers, to_entry
from table_format.metadata.document import TableMetadata


class FileLine(NamedTuple):
    """A live data or delete file; attributes are those of `ManifestEntry` and its `DataFile`."""

    file_path: str
    file_size_in_bytes: int
    record_count: int
    sequence_number: int
    file_sequence_number: int
    snapshot_id: int | None
    spec_id: int
    partition: Partition
    file_format: str = "PARQUET"
    sort_order_id: int | None = None
    first_row_id: int | None = None
    key_metadata: bytes | None = None
    status: Status = Status.EXISTING

    @classmethod
    def of(cls, entry: ManifestEntry) -> "FileLine":
        """The line of an entry that was read."""
        file = entry.data_file
        return cls(
            file.file_path,
            file.file_size_in_bytes,
            file.record_count,
            entry.sequence_number or 0,
            entry.file_sequence_number or 0,
            entry.snapshot_id,
            file.spec_id,
            file.partition,
            file.file_format,
            file.sort_order_id,
            file.first_row_id,
            file.key_metadata,
            entry.status,
        )

    def data_entry(self) -> ManifestEntry:
        """The entry of a data file, without its metrics and split offsets."""
        return ManifestEntry(
            status=self.status,
            snapshot_id=self.snapshot_id,
            sequence_number=self.sequence_number,
            file_sequence_number=self.file_sequence_number,
            data_file=DataFile(
                file_path=self.file_path,
                file_format=self.file_format,
                spec_id=self.spec_id,
                partition=self.partition,
                record_count=self.record_count,
                file_size_in_bytes=self.file_size_in_bytes,
                key_metadata=self.key_metadata,
                sort_order_id=self.sort_order_id,
                first_row_id=self.first_row_id,
            ),
        )


def live_lines(store: Gets, manifest: ManifestFile, metadata: TableMetadata) -> Iterator[FileLine]:
    """The files of a manifest that are not marked deleted, in its order.

    Raises:
        NoSuchFile, Invalid: as `read_manifest`; the latter also in the middle.
    """
    return (line for _, _, line in _Lines(store, manifest, metadata).live())


def live_entries_of(
    store: Gets, manifest: ManifestFile, metadata: TableMetadata, paths: Container[str]
) -> Iterator[ManifestEntry]:
    """The live entries of files with these paths, whole; the others are passed over.

    Raises:
        NoSuchFile, Invalid: as `live_lines`.
    """
    lines = _Lines(store, manifest, metadata)
    for data, start, line in lines.live():
        if line.file_path in paths:
            yield lines.entry(data, start, line)


class _Own(NamedTuple):
    """What entries say of themselves before their path; many say the same."""

    status: Status
    snapshot_id: int | None
    sequence_number: int
    file_sequence_number: int


class _Numbers(dict[bytes | None, Any]):
    """Numbers by the bytes that hold them; most come again and again."""

    def __missing__(self, raw: bytes) -> int:
        value = self[raw] = read_long(raw, 0)[0]
        return value


class _Unclear(Exception):
    """An entry that the reader has to decide on."""


class _Lines:
    """One manifest being gone through."""

    def __init__(self, store: Gets, manifest: ManifestFile, metadata: TableMetadata) -> None:
        self._manifest = manifest
        self._container = open_manifest(store, manifest)
        self._readers = readers(self._container, partition_columns(metadata, manifest.spec_id))
        self._layout = layout_of(self._container.meta.get("avro.schema", b""), metadata.location)
        self._row_id = manifest.first_row_id if manifest.content is ManifestContent.DATA else None
        self._contents = (0, None) if manifest.content is ManifestContent.DATA else (1, 2)
        self._without_row_ids = manifest.first_row_id is None
        self._numbers = _Numbers({None: None})
        self._owns: dict[bytes, _Own] = {}
        self._partitions: dict[bytes, Partition] = {}

    def live(self) -> Iterator[tuple[bytes, int, FileLine]]:
        """Each live line with the block that holds it and where its entry begins."""
        before = 0
        for block in self._container.blocks():
            data, position = block.data, 0
            check_count(self._container, block)
            for number in range(before, before + block.count):
                start = position
                try:
                    line, position = self._by_layout(data, start)
                except _Unclear:
                    line, position = self._by_reader(data, start, number)
                if line.status is not Status.DELETED:
                    yield data, start, line
            check_end(self._container, block, position)
            before += block.count

    def entry(self, data: bytes, start: int, line: FileLine) -> ManifestEntry:
        """The whole entry of a line."""
        return self._entry(self._readers.whole, data, start, line.first_row_id, 0)[0]

    def _by_layout(self, data: bytes, start: int) -> tuple[FileLine, int]:
        """The line that begins there, and where the next one does.

        Raises:
            _Unclear: it is of another shape, or does not make sense.
        """
        layout, numbers = self._layout, self._numbers
        head = None if layout is None else layout.head.match(data, start)
        if layout is None or head is None:
            raise _Unclear
        try:
            own = self._owns.get(head[1])
            if own is None:
                own = self._owns[head[1]] = self._own(*layout.head_numbers(head))
            begin = head.end()
            end = begin + numbers[head[layout.length_group]]
            tail = layout.tail.match(data, end) if begin < end else None
            if tail is None:
                raise _Unclear
            kind, partition, records, length, order, row_id, key = tail.group(*layout.tail_groups)
            known = self._partitions.get(partition)
            if known is None:
                known = self._partitions[partition] = self._readers.partition(partition, 0)[0]
            records, length = numbers[records], numbers[length]
            if records < 0 or length < 0 or key not in _NO_KEY:
                raise _Unclear
            line = FileLine(
                data[begin:end].decode(),
                length,
                records,
                own.sequence_number,
                own.file_sequence_number,
                own.snapshot_id,
                self._manifest.spec_id,
                known,
                _format(kind),
                numbers[order],
                None if self._without_row_ids else self._row_id_of(own.status, numbers[row_id], records),
                None,
                own.status,
            )
        except _NOT_CLEAR:
            raise _Unclear from None
        return line, tail.end()

    def _own(self, status: int, *told: int | None) -> "_Own":
        """What an entry says of itself before its path."""
        snapshot_id, sequence, file_sequence, content = told
        if content not in self._contents:
            raise _Unclear
        manifest = self._manifest
        raw = {"sequence_number": sequence, "file_sequence_number": file_sequence}
        known = _STATUSES[status] if status >= 0 else None
        if known is None:
            raise _Unclear
        return _Own(
            known,
            manifest.added_snapshot_id if snapshot_id is None else snapshot_id,
            *inherited(raw, known, manifest),
        )

    def _row_id_of(self, status: Status, row_id: int | None, records: int) -> int | None:
        if self._row_id is None or row_id is not None or status is Status.DELETED:
            return row_id
        self._row_id += records
        return self._row_id - records

    def _by_reader(self, data: bytes, start: int, before: int) -> tuple[FileLine, int]:
        entry, end, has_row_id = self._entry(self._readers.light, data, start, self._row_id, before)
        if self._row_id is not None and not has_row_id and entry.status is not Status.DELETED:
            self._row_id += entry.data_file.record_count
        if self._layout is not None:
            self._layout.learn(data, start)
        return FileLine.of(entry), end

    def _entry(
        self, read: Reader, data: bytes, start: int, row_id: int | None, before: int
    ) -> tuple[ManifestEntry, int, bool]:
        """The entry, where it ends, and whether it says its row id itself."""
        try:
            raw, end = read(data, start)
        except (Malformed, IndexError, ValueError, struct.error) as error:
            raise unreadable(self._container.location, before + 1, error) from None
        has_row_id = raw["data_file"].get("first_row_id") is not None
        return to_entry(raw, self._manifest, row_id, before + 1), end, has_row_id


_STATUSES: Final = tuple(Status)
_NO_KEY: Final = (b"\x00", None)
_NOT_CLEAR: Final = (Malformed, ValueError, IndexError, TypeError, struct.error)
"""What odd values raise here; the reader says what is wrong with them, if anything is."""


@lru_cache(maxsize=64)
def _format(raw: bytes) -> str:
    name = read_string(raw, 0)[0]
    if not name:
        raise Malformed("it has no file format")
    return name.upper()
