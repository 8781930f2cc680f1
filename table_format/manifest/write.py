"""Manifest files written: entries checked, encoded, summed up as the `ManifestFile` that a list will hold.

An entry that another commit made keeps its own snapshot id and sequence numbers, written out: a manifest that let
them be inherited again would make deletes apply to rows they do not concern.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import copysign, isnan
from typing import Any, Self

import orjson

from table_format.errors import Invalid, Unsupported
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest import encode
from table_format.manifest.avro import data_file_columns, entry_schema
from table_format.manifest.container import build_container
from table_format.manifest.entries import (
    UNASSIGNED,
    Content,
    DataFile,
    FieldSummary,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Partition,
    Status,
)
from table_format.manifest.partition import (
    PartitionColumn,
    avro_fields,
    partition_columns,
    partition_writer,
    source_schema,
)
from table_format.manifest.values import to_bytes
from table_format.metadata.document import TableMetadata

BLOCK_BYTES = 256 << 10
"""A block of entries ends beyond this, before it is deflated."""

_write_optional = encode.optional(encode.write_long)


@dataclass(frozen=True, slots=True)
class EntryForm:
    """How entries of one spec and content are written in manifests of a table."""

    version: int
    spec_id: int
    content: ManifestContent
    columns: Sequence[PartitionColumn]
    schema: JsonObject
    header: Mapping[str, str]
    write_file: encode.Writer

    @classmethod
    def of(cls, metadata: TableMetadata, spec_id: int, content: ManifestContent) -> Self:
        """The form of this table's manifests.

        Raises:
            Invalid: the table has no such spec.
            Unsupported: its format version, or a transform of the spec, is not written here.
        """
        version = metadata.format_version
        if version not in (1, 2, 3):
            raise Unsupported(f"manifests of format version {version} are not written; use version 3")
        columns = partition_columns(metadata, spec_id)
        file_columns = data_file_columns(version, avro_fields(columns), partition_writer(columns))
        return cls(
            version=version,
            spec_id=spec_id,
            content=content,
            columns=columns,
            schema=entry_schema(version, file_columns),
            header=_header(metadata, spec_id, content),
            write_file=encode.record([column.writer() for column in file_columns]),
        )

    def fault(self, entry: ManifestEntry, snapshot_id: int | None) -> str | None:
        """Why the entry cannot be in such a manifest of the commit that makes `snapshot_id`; None when it can."""
        return (
            _file_fault(entry.data_file, self.spec_id, self.content)
            or _vector_fault(entry.data_file, self.version)
            or _number_fault(entry, self.version, snapshot_id)
        )

    def encode(self, out: bytearray, entry: ManifestEntry, snapshot_id: int | None) -> None:
        """Append the entry; one without a snapshot id gets `snapshot_id`.

        Raises:
            Invalid: a value is not of its column's type.
        """
        try:
            encode.write_long(out, entry.status)
            own = snapshot_id if entry.snapshot_id is None else entry.snapshot_id
            if self.version == 1 and own is not None:
                encode.write_long(out, own)
            else:
                _write_optional(out, own)
            if self.version > 1:
                _write_optional(out, entry.sequence_number)
                _write_optional(out, entry.file_sequence_number)
            self.write_file(out, entry.data_file)
        except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise Invalid(f"file {entry.data_file.file_path} cannot be an entry: {error}") from None


def write_manifest(
    store: ObjectStore,
    location: str,
    entries: Iterable[ManifestEntry],
    *,
    metadata: TableMetadata,
    spec_id: int,
    content: ManifestContent,
    snapshot_id: int,
) -> ManifestFile:
    """Write one manifest of the commit that makes `snapshot_id`; of its entries one block is held, and all packed.

    The sequence numbers in the result are UNASSIGNED where the commit's will be.

    Raises:
        AlreadyExists: there is a file of that name.
        Invalid: an entry cannot be in this manifest.
        Unsupported: the table's format version is not written here.
    """
    form = EntryForm.of(metadata, spec_id, content)
    if form.version == 1 and form.content is not ManifestContent.DATA:
        raise Invalid("a table of format version 1 has no delete files")
    tally = _Tally(form, location, snapshot_id)
    data = build_container(form.schema, form.header, _blocks(tally.counted(entries), form, snapshot_id))
    files, rows = tally.files, tally.rows
    if not files:
        raise Invalid(f"manifest {location} would be empty")
    store.put(location, data, if_absent=True)
    return ManifestFile(
        path=location,
        length=len(data),
        spec_id=spec_id,
        content=content,
        sequence_number=0 if form.version == 1 else UNASSIGNED,
        min_sequence_number=_lowest(tally, form.version),
        added_snapshot_id=snapshot_id,
        added_files_count=files[Status.ADDED],
        existing_files_count=files[Status.EXISTING],
        deleted_files_count=files[Status.DELETED],
        added_rows_count=rows[Status.ADDED],
        existing_rows_count=rows[Status.EXISTING],
        deleted_rows_count=rows[Status.DELETED],
        partitions=summaries_of(form.columns, list(tally.partitions.values())),
    )


def _lowest(tally: "_Tally", version: int) -> int:
    if version == 1:
        return 0
    return UNASSIGNED if tally.lowest is None else tally.lowest


def _header(metadata: TableMetadata, spec_id: int, content: ManifestContent) -> dict[str, str]:
    schema = source_schema(metadata, spec_id)
    return {
        "schema": orjson.dumps(schema).decode(),
        "schema-id": str(schema.get("schema-id", 0)),
        "partition-spec": orjson.dumps(metadata.spec(spec_id)["fields"]).decode(),
        "partition-spec-id": str(spec_id),
        "format-version": str(metadata.format_version),
        "content": content.name.lower(),
    }


@dataclass(slots=True)
class _Tally:
    """What the manifest list tells of the entries that passed by, each of which was checked."""

    form: EntryForm
    location: str
    snapshot_id: int
    files: Counter[Status] = field(default_factory=Counter)
    rows: Counter[Status] = field(default_factory=Counter)
    partitions: dict[object, Partition] = field(default_factory=dict)
    """Different ones."""
    lowest: int | None = None
    """Data sequence number of live files; those that inherit the commit's are not below any."""
    _live: set[tuple[str, int | None]] = field(default_factory=set)

    def counted(self, entries: Iterable[ManifestEntry]) -> Iterator[ManifestEntry]:
        """The entries.

        Raises:
            Invalid: one cannot be in the manifest.
        """
        for entry in entries:
            file = entry.data_file
            fault = self.form.fault(entry, self.snapshot_id)
            if entry.status is not Status.DELETED:
                # Deletion vectors share a file and differ by their place in it.
                key = (file.file_path, file.content_offset)
                fault = fault or ("stands in it twice" if key in self._live else None)
                self._live.add(key)
                self._lower(entry.sequence_number)
            if fault is not None:
                raise Invalid(f"manifest {self.location}: {entry.status.name} file {file.file_path} {fault}")
            self.files[entry.status] += 1
            self.rows[entry.status] += file.record_count
            # 0.0 and -0.0 are equal, and bounds tell them apart.
            plain = float not in map(type, file.partition)
            self.partitions.setdefault(file.partition if plain else repr(file.partition), file.partition)
            yield entry

    def _lower(self, sequence: int | None) -> None:
        if sequence is not None and (self.lowest is None or sequence < self.lowest):
            self.lowest = sequence


def _file_fault(file: DataFile, spec_id: int, content: ManifestContent) -> str | None:
    if file.spec_id != spec_id:
        return f"belongs to partition spec {file.spec_id}, the manifest to {spec_id}"
    if (file.content is Content.DATA) != (content is ManifestContent.DATA):
        return f"holds {file.content.name}, the manifest {content.name}"
    if file.content is Content.EQUALITY_DELETES and not file.equality_ids:
        return "has equality deletes without equality ids"
    if not file.file_path or file.record_count < 0 or file.file_size_in_bytes < 0:
        return "has no path, or a size below nought"
    return None


def _vector_fault(file: DataFile, version: int) -> str | None:
    place = (file.content_offset, file.content_size_in_bytes)
    if place == (None, None):
        return None
    if version < 3:
        return "is a deletion vector, which needs format version 3"
    if None in place or file.content is not Content.POSITION_DELETES or not file.referenced_data_file:
        return "is a deletion vector without its place in the file, or without its data file"
    return None


def _number_fault(entry: ManifestEntry, version: int, snapshot_id: int | None) -> str | None:
    if entry.status is not Status.EXISTING and entry.snapshot_id not in (None, snapshot_id):
        return f"is of snapshot {entry.snapshot_id}, the manifest of {snapshot_id}"
    if entry.status is Status.EXISTING and entry.snapshot_id is None:
        return "has no snapshot id"
    if version == 1:
        numbers = (entry.sequence_number, entry.file_sequence_number)
        return "has a sequence number, which format version 1 cannot hold" if any(numbers) else None
    if entry.status is Status.ADDED:
        # Which commit adds it is decided by the commit, even when its rows count as older.
        return (
            "has a file sequence number before its commit" if entry.file_sequence_number is not None else None
        )
    if entry.sequence_number is None or entry.file_sequence_number is None:
        return "has no explicit sequence numbers"
    return None


def _blocks(
    entries: Iterable[ManifestEntry], form: EntryForm, snapshot_id: int
) -> Iterator[tuple[int, bytes]]:
    block, count = bytearray(), 0
    for entry in entries:
        form.encode(block, entry, snapshot_id)
        count += 1
        if len(block) >= BLOCK_BYTES:
            yield count, bytes(block)
            block, count = bytearray(), 0
    if count:
        yield count, bytes(block)


def summaries_of(columns: Sequence[PartitionColumn], partitions: Sequence[Partition]) -> list[FieldSummary]:
    """The partition field summaries of a manifest with entries of these partitions."""
    return [
        _summary(column, values)
        for column, values in zip(columns, zip(*partitions, strict=True), strict=True)
    ]


def _summary(column: PartitionColumn, values: Sequence[Any]) -> FieldSummary:
    present = [value for value in values if value is not None]
    numbers = [value for value in present if not (isinstance(value, float) and isnan(value))]
    bounds = (
        (min(numbers, key=_order), max(numbers, key=_order)) if numbers and column.type is not None else None
    )
    return FieldSummary(
        contains_null=len(present) < len(values),
        contains_nan=len(numbers) < len(present),
        lower_bound=to_bytes(column.type, bounds[0]) if bounds and column.type else None,
        upper_bound=to_bytes(column.type, bounds[1]) if bounds and column.type else None,
    )


def _order(value: Any) -> Any:
    # -0.0 equals 0.0, but lies before it.
    return (value, copysign(1, value)) if isinstance(value, float) else value
