"""Tables, files and entries for tests of manifests: every primitive type as a partition, small defaults elsewhere."""

from typing import Any

from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, ManifestEntry, Partition, Status
from table_format.metadata.document import TableMetadata

SNAPSHOT = 4_611_686_018_427_387_905

PARTITION_TYPES = {
    "bool": "boolean",
    "num": "int",
    "big": "long",
    "single": "float",
    "double": "double",
    "day": "date",
    "clock": "time",
    "local": "timestamp",
    "instant": "timestamptz",
    "text": "string",
    "uid": "uuid",
    "code": "fixed[3]",
    "blob": "binary",
    "price": "decimal(9, 2)",
    "total": "decimal(38, 10)",
}


def new_metadata(
    columns: dict[str, str] | None = None, spec: list[tuple[str, str]] | None = None, *, version: int = 2
) -> TableMetadata:
    """A table with these columns (ids from 1), partitioned by these (column, transform) pairs (ids from 1000)."""
    names = list(columns or {"a": "long"})
    fields = [
        {"id": number, "name": name, "type": kind, "required": False}
        for number, (name, kind) in enumerate((columns or {"a": "long"}).items(), 1)
    ]
    parts: list[JsonObject] = [
        {
            "source-id": names.index(name) + 1,
            "field-id": 1000 + number,
            "name": name if transform == "identity" else f"{name}_{transform.partition('[')[0]}",
            "transform": transform,
        }
        for number, (name, transform) in enumerate(spec or [])
    ]
    return TableMetadata(
        {
            "format-version": version,
            "location": "memory://t",
            "last-column-id": len(fields),
            "current-schema-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": parts}],
        }
    )


def every_type(version: int = 2) -> TableMetadata:
    """A table partitioned by the identity of every primitive type."""
    return new_metadata(PARTITION_TYPES, [(name, "identity") for name in PARTITION_TYPES], version=version)


def new_file(path: str = "memory://t/data/f.parquet", partition: Partition = (), **fields: Any) -> DataFile:
    """A small data file."""
    return DataFile(
        **{"file_path": path, "partition": partition, "record_count": 3, "file_size_in_bytes": 1000, **fields}
    )


def full_file(path: str = "memory://t/data/full.parquet", **fields: Any) -> DataFile:
    """A data file with every metric."""
    return new_file(
        path,
        **{
            "record_count": 2**40,
            "file_size_in_bytes": 2**33,
            "column_sizes": {1: 10, 2: 2**35},
            "value_counts": {1: 3, 2: 3},
            "null_value_counts": {1: 0, 2: 1},
            "nan_value_counts": {},
            "lower_bounds": {1: b"\x00\x01", 2: b""},
            "upper_bounds": {1: b"\xff" * 16, 300: b"z"},
            "key_metadata": b"key",
            "split_offsets": [4, 2**32],
            "sort_order_id": 0,
            **fields,
        },
    )


def added(
    file: DataFile, sequence_number: int | None = None, snapshot_id: int | None = SNAPSHOT
) -> ManifestEntry:
    """The file as this commit adds it."""
    return ManifestEntry(
        status=Status.ADDED,
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        file_sequence_number=None,
        data_file=file,
    )


def kept(
    file: DataFile,
    *,
    snapshot_id: int | None = 11,
    sequence_number: int | None = 5,
    file_sequence_number: int | None = 6,
) -> ManifestEntry:
    """The file as an earlier commit added it."""
    return ManifestEntry(
        status=Status.EXISTING,
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        file_sequence_number=file_sequence_number,
        data_file=file,
    )


def removed(file: DataFile, snapshot_id: int | None = SNAPSHOT) -> ManifestEntry:
    """The file as this commit deletes it."""
    return ManifestEntry(
        status=Status.DELETED,
        snapshot_id=snapshot_id,
        sequence_number=5,
        file_sequence_number=6,
        data_file=file,
    )
