"""Partition statistics: what the manifests of a snapshot say of each partition (table spec, "Partition Statistics").

Reads no data. A partition is a tuple under one spec; its values stand in the unified partition type, which has every
field that any spec of the table ever had.
"""

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from maintenance.executors.port import GoOn
from table_format.errors import Unsupported
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import (
    Content,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Partition,
    PartitionValue,
    Status,
)
from table_format.manifest.lines import live_lines
from table_format.manifest.partition import PartitionColumn, partition_columns
from table_format.manifest.read import iterate_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.index import is_vector
from table_format.scan.partitions import partition_key
from table_format.scan.plan import find_snapshot, snapshot_manifests
from table_format.schema.types import Primitive

MOST_PARTITIONS: Final = 200_000
"""Held at once; of a table with more, no partition statistics are written."""
_ASKED_EVERY: Final = 1000


@dataclass(slots=True)
class PartitionRow:
    """What is told of one partition."""

    spec_id: int
    values: Partition
    """In the unified partition type."""
    data_records: int = 0
    data_files: int = 0
    data_bytes: int = 0
    position_records: int = 0
    position_files: int = 0
    vectors: int = 0
    equality_records: int = 0
    equality_files: int = 0
    vectored_records: int = 0
    """Rows of live data files that their vectors delete."""
    updated_ms: int | None = None
    updated_by: int | None = None

    @property
    def live(self) -> bool:
        """Whether any file is left of it."""
        return bool(self.data_files or self.position_files or self.vectors or self.equality_files)

    def add(self, file: DataFile) -> None:
        """Count a live file."""
        if file.content is Content.DATA:
            self.data_records += file.record_count
            self.data_files += 1
            self.data_bytes += file.file_size_in_bytes
        elif file.content is Content.EQUALITY_DELETES:
            self.equality_records += file.record_count
            self.equality_files += 1
        else:
            self.position_records += file.record_count
            self.vectors += is_vector(file)
            self.position_files += not is_vector(file)

    def updated(self, snapshot: JsonObject | None) -> None:
        """A snapshot added a file, or took one away; None: one that has expired."""
        moment = None if snapshot is None else snapshot["timestamp-ms"]
        if (
            snapshot is not None
            and moment is not None
            and (self.updated_ms is None or self.updated_ms < moment)
        ):
            self.updated_ms, self.updated_by = moment, snapshot["snapshot-id"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The partitions of one snapshot."""

    columns: tuple[PartitionColumn, ...]
    """The unified partition type."""
    rows: list[PartitionRow]
    """In the order of their values, nulls first."""
    exact: bool
    """Whether the rows that deletes leave are known: all deletes are vectors, which delete no row twice."""


def unified(metadata: TableMetadata) -> tuple[PartitionColumn, ...]:
    """The unified partition type: the fields of all specs by their ids, each as the newest spec has it.

    Raises:
        Unsupported: two specs give one id to fields that differ, as old tables may, or a transform is not known.
    """
    found: dict[int, PartitionColumn] = {}
    sources: dict[int, object] = {}
    for spec in sorted(metadata.partition_specs, key=lambda spec: -spec["spec-id"]):
        columns = partition_columns(metadata, spec["spec-id"])
        for raw, column in zip(spec["fields"], columns, strict=True):
            known = found.get(column.field_id)
            both = known is not None and "void" not in (known.transform, column.transform)
            if known is not None and (
                sources[column.field_id] != raw.get("source-id")
                or (both and known.transform != column.transform)
            ):
                raise Unsupported(
                    f"partition field id {column.field_id} is {known.name!r} in one spec and {column.name!r}, "
                    "another field, in an older one"
                )
            if known is None or (known.transform == "void" and column.transform != "void"):
                found[column.field_id] = column
                sources[column.field_id] = raw.get("source-id")
    return tuple(_named_apart([_typed(found[number]) for number in sorted(found)]))


def _typed(column: PartitionColumn) -> PartitionColumn:
    if column.type is None and column.transform != "void":
        raise Unsupported(
            f"partition field {column.name!r}: type of transform {column.transform!r} is not known"
        )
    # Always null, and nobody knows the type any more.
    kind = column.type if column.type is not None else Primitive(name="string")
    return PartitionColumn(field_id=column.field_id, name=column.name, transform=column.transform, type=kind)


def _named_apart(columns: Sequence[PartitionColumn]) -> Iterator[PartitionColumn]:
    """Fields of different specs may share a name, which the columns of a file may not."""
    last = {column.name: column.field_id for column in columns}
    for column in columns:
        apart = column.name if last[column.name] == column.field_id else f"{column.name}_{column.field_id}"
        yield PartitionColumn(
            field_id=column.field_id, name=apart, transform=column.transform, type=column.type
        )


def read_partitions(
    store: ObjectStore, metadata: TableMetadata, snapshot_id: int, go_on: GoOn, *, most: int = MOST_PARTITIONS
) -> Partitions:
    """The partitions of a snapshot, with the files that are theirs.

    Raises:
        NoSuchFile, Invalid: a manifest can not be read.
        Unsupported: the partition type can not be unified, or there are more than `most` partitions.
    """
    reading = _Reading(metadata, unified(metadata), most)
    manifests = snapshot_manifests(store, find_snapshot(metadata, snapshot_id))
    # Deletes first: a vector counts when its data file is found.
    for manifest in sorted(manifests, key=lambda one: one.content is ManifestContent.DATA):
        for number, entry in enumerate(_entries(store, manifest, metadata)):
            if number % _ASKED_EVERY == 0:
                go_on()
            reading.take(entry)
    rows = sorted((row for row in reading.rows.values() if row.live), key=_order)
    return Partitions(columns=reading.columns, rows=rows, exact=reading.exact)


def _entries(store: ObjectStore, manifest: ManifestFile, metadata: TableMetadata) -> Iterator[ManifestEntry]:
    """All entries, as metrics are not wanted: of a manifest of data where nothing was taken away, line by line."""
    if manifest.content is ManifestContent.DATA and manifest.deleted_files_count == 0:
        return (line.data_entry() for line in live_lines(store, manifest, metadata))
    return iterate_manifest(store, manifest, metadata)


@dataclass(slots=True)
class _Reading:
    metadata: TableMetadata
    columns: tuple[PartitionColumn, ...]
    most: int
    rows: dict[tuple[int, tuple[Hashable, ...]], PartitionRow] = field(default_factory=dict)
    exact: bool = True
    _vectors: dict[str, int] = field(default_factory=dict)
    """Rows that the vector of a data file deletes, by its path."""
    _places: dict[int, tuple[int | None, ...]] = field(default_factory=dict)
    _snapshots: dict[int, JsonObject] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in self.metadata.snapshots}

    def take(self, entry: ManifestEntry) -> None:
        """Count an entry, live or not."""
        file = entry.data_file
        row = self._row(file)
        row.updated(None if entry.snapshot_id is None else self._snapshots.get(entry.snapshot_id))
        if entry.status is Status.DELETED:
            return
        row.add(file)
        if file.content is Content.DATA:
            row.vectored_records += self._vectors.get(file.file_path, 0)
        elif is_vector(file):
            self._vectors[file.referenced_data_file or ""] = file.record_count
        else:
            self.exact = False

    def _row(self, file: DataFile) -> PartitionRow:
        key = file.spec_id, partition_key(file.partition)
        row = self.rows.get(key)
        if row is None:
            if len(self.rows) >= self.most:
                raise Unsupported(f"the table has more than {self.most} partitions")
            row = self.rows[key] = PartitionRow(file.spec_id, self._unified(file))
        return row

    def _unified(self, file: DataFile) -> Partition:
        places = self._places.get(file.spec_id)
        if places is None:
            held = {
                column.field_id: place
                for place, column in enumerate(partition_columns(self.metadata, file.spec_id))
            }
            places = self._places[file.spec_id] = tuple(held.get(column.field_id) for column in self.columns)
        return tuple(None if place is None else file.partition[place] for place in places)


def _order(row: PartitionRow) -> tuple[Any, ...]:
    """Values in ascending order with nulls first; partitions of several specs may have the same ones."""
    return (*(_comparable(value) for value in row.values), row.spec_id)


def _comparable(value: PartitionValue) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, float):
        # As Java orders them: the negative zero before the other, NaN after everything.
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1.0, value))
    return (1, value)
