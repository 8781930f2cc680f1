"""Manifest files read into entries, with everything inherited that the spec lets a writer leave out.

Tolerant of what other writers do (field names, missing header keys, lower-case formats, older versions); strict
where a wrong guess would lose or double rows: a file that is shorter than its manifest list says, an entry without
a sequence number that cannot inherit one.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import orjson

from table_format.errors import Invalid
from table_format.io.store import Gets
from table_format.manifest.avro import ENTRY_FIELDS, FILE_FIELDS, NAMES, Expected
from table_format.manifest.compiler import Compiled, Compiler, attributes, members
from table_format.manifest.container import Container, open_container, open_ranged, read_block, read_records
from table_format.manifest.decode import Malformed, Reader
from table_format.manifest.entries import (
    Content,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from table_format.manifest.partition import PartitionColumn, partition_columns, partition_reader
from table_format.metadata.document import TableMetadata

_STATUSES = tuple(Status)
_CONTENTS = tuple(Content)

_METRICS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)
_WITHOUT_METRICS: Expected = {
    number: found for number, found in FILE_FIELDS.items() if found[0] not in (*_METRICS, "split_offsets")
}
_HELD_BYTES = 16 << 20
"""Manifests up to this size are read in one go."""


def read_manifest(store: Gets, manifest: ManifestFile, metadata: TableMetadata) -> list[ManifestEntry]:
    """Every entry of the manifest, the deleted ones too, in its order.

    Raises:
        NoSuchFile: the manifest is gone.
        Invalid: it is cut off, damaged, or contradicts the manifest list or the table.
    """
    return list(iterate_manifest(store, manifest, metadata))


@dataclass(slots=True)
class Places:
    """Where in manifests their entries stand, as far as they were gone through: to read on later without looking again.

    Manifests never change. By path: entries before a block, where it begins, and the row id that its first entry
    would inherit, for blocks in ascending order.
    """

    known: dict[str, list[tuple[int, int, int | None]]] = field(default_factory=dict)

    def before(self, path: str, entry: int) -> tuple[int, int, int | None] | None:
        """The last known block that does not begin after that entry."""
        places = self.known.get(path, [])
        at = bisect_right(places, entry, key=lambda place: place[0])
        return places[at - 1] if at else None

    def add(self, path: str, entries: int, position: int, row_id: int | None) -> None:
        """A block begins there."""
        places = self.known.setdefault(path, [])
        if not places or places[-1][0] < entries:
            places.append((entries, position, row_id))


def iterate_manifest(
    store: Gets,
    manifest: ManifestFile,
    metadata: TableMetadata,
    *,
    start: int = 0,
    places: Places | None = None,
) -> Iterator[ManifestEntry]:
    """The entries from number `start` (from 0) on, as `read_manifest` gives them, each made when it is asked for.

    Holds one block at a time, and of a large manifest a few MB of its packed bytes. Blocks before `start` are not
    expanded, unless row ids have to be counted through them; what is learnt on the way is kept in `places`.

    Raises:
        NoSuchFile, Invalid: as `read_manifest`; the latter also in the middle.
    """
    opened = open_manifest(store, manifest)
    learnt = Places() if places is None else places
    number, position, row_id = learnt.before(manifest.path, start) or (
        0,
        opened.start,
        manifest.first_row_id if manifest.content is ManifestContent.DATA else None,
    )
    container = replace(opened, start=position)
    if row_id is None:
        for count, end in container.passed_over(start - number):
            number += count
            container = replace(container, start=end)
            learnt.add(manifest.path, number, end, None)
    read = readers(container, partition_columns(metadata, manifest.spec_id)).whole
    for block in container.blocks():
        for number, raw in enumerate(read_block(container, block, read, number), number + 1):  # noqa: B020
            entry = to_entry(raw, manifest, row_id, number)
            if row_id is not None and raw["data_file"].get("first_row_id") is None:
                row_id += 0 if entry.status is Status.DELETED else entry.data_file.record_count
            if number > start:
                yield entry
        learnt.add(manifest.path, number, block.end, row_id)


def count_entries(store: Gets, manifest: ManifestFile) -> ManifestFile:
    """The manifest with its counts of files and rows, read from the file itself (old lists may lack them).

    Raises:
        NoSuchFile: the manifest is gone.
        Invalid: it is cut off or damaged.
    """
    files, rows = [0, 0, 0], [0, 0, 0]
    for raw in _raw_entries(store, manifest):
        status = raw["status"]
        if status is None or not 0 <= status < len(_STATUSES):
            raise Invalid(f"{manifest.path}: an entry has the unknown status {status}")
        files[status] += 1
        rows[status] += raw["data_file"]["record_count"]
    return replace(
        manifest,
        existing_files_count=files[Status.EXISTING],
        added_files_count=files[Status.ADDED],
        deleted_files_count=files[Status.DELETED],
        existing_rows_count=rows[Status.EXISTING],
        added_rows_count=rows[Status.ADDED],
        deleted_rows_count=rows[Status.DELETED],
    )


def describe_manifest(store: Gets, path: str, *, added_snapshot_id: int | None) -> ManifestFile:
    """A manifest that no manifest list describes (v1 snapshots may name their manifests directly).

    Raises:
        NoSuchFile: the manifest is gone.
        Invalid: it is not a v1 manifest.
    """
    bare = ManifestFile(
        path=path, length=store.head(path).size, spec_id=0, added_snapshot_id=added_snapshot_id
    )
    container = open_manifest(store, bare)
    if (container.text("format-version") or "1") != "1":
        raise Invalid(f"{path} is not a manifest of format version 1, but no manifest list describes it")
    spec_id = container.text("partition-spec-id") or "0"
    if not spec_id.isdecimal():
        raise Invalid(f"{path} has the partition spec id {spec_id!r} in its header")
    return count_entries(store, replace(bare, spec_id=int(spec_id)))


def open_manifest(store: Gets, manifest: ManifestFile) -> Container:
    """The manifest's file; one of up to 16 MB is read at once.

    Raises:
        NoSuchFile: it is gone.
        Invalid: it is cut off, or not an Avro file.
    """
    large = manifest.length > _HELD_BYTES
    data = b"" if large else store.get(manifest.path)
    size = store.head(manifest.path).size if large else len(data)
    # Avro has no end mark: a file cut off between two blocks would read as a manifest of fewer files.
    if size < manifest.length:
        raise Invalid(
            f"{manifest.path} is cut off: it has {size} bytes of the {manifest.length} "
            "that its manifest list gives"
        )
    if large:
        return open_ranged(lambda start, end: store.get(manifest.path, (start, end)), size, manifest.path)
    return open_container(data, manifest.path)


def _raw_entries(store: Gets, manifest: ManifestFile) -> Iterator[dict[str, Any]]:
    container = open_manifest(store, manifest)
    yield from read_records(container, readers(container, None).light)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """What reads the entries of a manifest, by its schema."""

    whole: Reader
    light: Reader
    """Passes over metrics and split offsets."""
    partition: Reader
    """Of the partition alone."""


def readers(container: Container, columns: Sequence[PartitionColumn] | None) -> Readers:
    """The readers of a manifest; without `columns` partitions are left as they stand in it.

    Raises:
        Invalid: it is not a manifest of this table.
    """
    schema = container.meta.get("avro.schema", b"")
    try:
        return _readers(schema, None if columns is None else tuple(columns))
    except Malformed as error:
        raise Invalid(f"{container.location} is not a manifest of this table: {error}") from None


@lru_cache(maxsize=32)
def _readers(schema: bytes, columns: tuple[PartitionColumn, ...] | None) -> Readers:
    """The manifests of a table have few schemas; to make readers of one takes as long as to read a hundred entries."""
    partition: list[Reader] = []

    def of_partition(compiled: Compiled) -> Reader:
        read = compiled.read if columns is None else partition_reader(compiled, columns)
        partition.append(read)
        return read

    def entry_reader(wanted: Expected) -> Reader:
        def of_file(compiled: Compiled) -> Reader:
            required = ("file_path", "file_format", "partition", "record_count", "file_size_in_bytes")
            return _checked_file(attributes(members(compiled, wanted, required, {"partition": of_partition})))

        return attributes(members(record, ENTRY_FIELDS, ("status", "data_file"), {"data_file": of_file}))

    record = Compiler(ids=NAMES).compile(orjson.loads(schema))
    whole, light = entry_reader(FILE_FIELDS), entry_reader(_WITHOUT_METRICS)
    return Readers(whole=whole, light=light, partition=partition[0])


def _checked_file(read: Reader) -> Reader:
    def read_file(data: bytes, position: int) -> tuple[dict[str, Any], int]:
        values, position = read(data, position)
        if not values["file_path"] or not values["file_format"]:
            raise Malformed("it has no file path or no file format")
        if (values["record_count"] or 0) < 0 or (values["file_size_in_bytes"] or 0) < 0:
            raise Malformed("it has a size below nought")
        if values["record_count"] is None or values["file_size_in_bytes"] is None:
            raise Malformed("it has no record count or no size")
        return values, position

    return read_file


def to_entry(raw: dict[str, Any], manifest: ManifestFile, row_id: int | None, number: int) -> ManifestEntry:
    """The entry, with what it inherits; it is the manifest's `number`th, and `row_id` the next row's.

    Raises:
        Invalid: it contradicts itself or its manifest.
    """
    try:
        return _entry(raw, manifest, row_id)
    except Malformed as error:
        raise Invalid(f"{manifest.path}: entry {number} {error}") from None


def _entry(raw: dict[str, Any], manifest: ManifestFile, row_id: int | None) -> ManifestEntry:
    status = raw["status"]
    if status is None or not 0 <= status < len(_STATUSES):
        raise Malformed(f"has the unknown status {status}")
    status = _STATUSES[status]
    snapshot_id = raw.get("snapshot_id")
    sequence, file_sequence = inherited(raw, status, manifest)
    return ManifestEntry(
        status=status,
        snapshot_id=manifest.added_snapshot_id if snapshot_id is None else snapshot_id,
        sequence_number=sequence,
        file_sequence_number=file_sequence,
        data_file=_data_file(raw["data_file"], status, manifest, row_id),
    )


def inherited(raw: Mapping[str, Any], status: Status, manifest: ManifestFile) -> tuple[int, int]:
    """Both sequence numbers of an entry.

    Raises:
        Malformed: it has to have one and has none.
    """
    sequence, file_sequence = raw.get("sequence_number"), raw.get("file_sequence_number")
    # Manifests of v1 tables keep number 0 for ever; only added files may take the manifest's number.
    if status is Status.ADDED or manifest.sequence_number == 0:
        return (
            manifest.sequence_number if sequence is None else sequence,
            manifest.sequence_number if file_sequence is None else file_sequence,
        )
    if sequence is None:
        if status is Status.EXISTING:
            raise Malformed("is EXISTING without a sequence number, so which deletes apply to it is unknown")
        sequence = manifest.sequence_number
    # The field is younger than the format; before it, files kept the number of the commit that added them.
    return sequence, sequence if file_sequence is None else file_sequence


def _data_file(
    values: dict[str, Any], status: Status, manifest: ManifestFile, row_id: int | None
) -> DataFile:
    content = values.get("content")
    if content is None:
        if manifest.content is ManifestContent.DELETES:
            raise Malformed("is a delete file of unknown kind: it has no content")
        content = 0
    if not 0 <= content < len(_CONTENTS):
        raise Malformed(f"has the unknown content {content}")
    values = {
        **values,
        "content": _CONTENTS[content],
        "file_format": values["file_format"].upper(),
        "spec_id": manifest.spec_id,
    }
    own_row_id = values.get("first_row_id")
    if manifest.first_row_id is None:
        values["first_row_id"] = None
    elif own_row_id is None and status is not Status.DELETED:
        values["first_row_id"] = row_id
    return DataFile(**values)
