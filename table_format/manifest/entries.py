"""What manifests hold, as values: `DataFile`, `ManifestEntry`, `ManifestFile` (Iceberg spec, "Manifests").

Partition values are the spec's internal values in field order: int for date/month/day/hour/bucket, int
microseconds for time and timestamps, `bytes` for binary and fixed, `uuid.UUID` for uuid, `decimal.Decimal`,
str, bool, float, int, None.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from typing import TypeAlias
from uuid import UUID

PartitionValue: TypeAlias = "bool | int | float | str | bytes | Decimal | UUID | None"
Partition: TypeAlias = tuple[PartitionValue, ...]

FILE_PATH_FIELD_ID = 2147483546
POSITION_FIELD_ID = 2147483545
"""The columns of position delete files: a data file's path, and a row's place in it."""

UNASSIGNED = -1
"""Sequence number of a manifest whose commit is not made yet; the manifest list puts the commit's in its place."""


class Content(IntEnum):
    """Content of a file entry (field 134)."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class ManifestContent(IntEnum):
    """Content of a manifest (field 517)."""

    DATA = 0
    DELETES = 1


class Status(IntEnum):
    """Status of a manifest entry (field 0)."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One data or delete file (spec "Data File Fields"); absent metrics are None."""

    content: Content = Content.DATA
    file_path: str
    file_format: str = "PARQUET"
    spec_id: int = 0
    partition: Partition = ()
    record_count: int
    file_size_in_bytes: int
    column_sizes: dict[int, int] | None = None
    value_counts: dict[int, int] | None = None
    null_value_counts: dict[int, int] | None = None
    nan_value_counts: dict[int, int] | None = None
    lower_bounds: dict[int, bytes] | None = None
    upper_bounds: dict[int, bytes] | None = None
    key_metadata: bytes | None = None
    split_offsets: list[int] | None = None
    equality_ids: list[int] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One entry.

    After reading, both sequence numbers are set (inheritance applied). An ADDED entry to be written may leave
    `sequence_number` None to inherit the commit's, or give an older one explicitly (a rewrite).
    """

    status: Status
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    data_file: DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSummary:
    """Partition field summary of a manifest (spec "Field Summary")."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One line of a manifest list (spec "Manifest Lists"). v1 lists give 0 for both sequence numbers."""

    path: str
    length: int
    spec_id: int
    content: ManifestContent = ManifestContent.DATA
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: list[FieldSummary] | None = field(default=None)
    key_metadata: bytes | None = None
    first_row_id: int | None = None
