"""Shapes of snapshots, refs, statistics files and encryption keys (Iceberg spec, "Table Metadata Fields").

Each check gives Invalid or nothing; what a table allows beyond the shape is decided by the updates.
"""

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata import members

OPERATIONS = frozenset({"append", "replace", "overwrite", "delete"})
REF_RETENTION = ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")
MAIN = "main"


def check_snapshot(snapshot: JsonObject) -> None:
    """Check what every format version asks of a snapshot.

    Raises:
        Invalid: a member is missing or of the wrong type.
    """
    members.integer(snapshot, "snapshot-id", "snapshot", 0)
    members.integer(snapshot, "timestamp-ms", "snapshot", 0)
    members.optional_integer(snapshot, "parent-snapshot-id", "snapshot", -1)
    members.optional_integer(snapshot, "sequence-number", "snapshot", 0)
    members.optional_integer(snapshot, "schema-id", "snapshot", -1, members.INT_MAX)
    members.optional_integer(snapshot, "first-row-id", "snapshot", 0)
    members.optional_integer(snapshot, "added-rows", "snapshot", 0)
    members.optional_text(snapshot, "key-id", "snapshot")
    if "manifest-list" in snapshot or "manifests" not in snapshot:
        members.filled_text(snapshot, "manifest-list", "snapshot")
    else:
        members.texts(snapshot, "manifests", "snapshot")
    if snapshot.get("summary") is not None:
        members.text_map(snapshot, "summary", "snapshot")


def check_ref(ref: JsonObject, what: str) -> None:
    """Check a snapshot reference.

    Raises:
        Invalid: a member is missing, of the wrong type, or a branch's setting on a tag.
    """
    members.integer(ref, "snapshot-id", what, 0)
    kind = members.text(ref, "type", what).lower()
    if kind not in ("branch", "tag"):
        raise Invalid(f"'type' of {what} must be 'branch' or 'tag'")
    keep, snapshot_age, _ = (
        members.optional_integer(ref, key, what, 1, high)
        for key, high in zip(
            REF_RETENTION, (members.INT_MAX, members.LONG_MAX, members.LONG_MAX), strict=True
        )
    )
    if kind == "tag" and (keep is not None or snapshot_age is not None):
        raise Invalid(f"{what}: tags do not support min-snapshots-to-keep and max-snapshot-age-ms")


def check_statistics(file: JsonObject) -> None:
    """Check a statistics file entry.

    Raises:
        Invalid: a member is missing or of the wrong type.
    """
    what = "statistics file"
    check_partition_statistics(file, what)
    members.integer(file, "file-footer-size-in-bytes", what, 0)
    for blob in members.objects(file, "blob-metadata", what):
        members.text(blob, "type", "blob metadata")
        members.integer(blob, "snapshot-id", "blob metadata")
        members.integer(blob, "sequence-number", "blob metadata")
        members.integers(blob, "fields", "blob metadata", 0, members.INT_MAX)
        if blob.get("properties") is not None:
            members.text_map(blob, "properties", "blob metadata")


def check_partition_statistics(file: JsonObject, what: str = "partition statistics file") -> None:
    """Check a partition statistics file entry.

    Raises:
        Invalid: a member is missing or of the wrong type.
    """
    members.integer(file, "snapshot-id", what, 0)
    members.filled_text(file, "statistics-path", what)
    members.integer(file, "file-size-in-bytes", what, 0)


def check_encryption_key(key: JsonObject) -> None:
    """Check an encryption key entry.

    Raises:
        Invalid: a member is missing or of the wrong type.
    """
    members.filled_text(key, "key-id", "encryption key")
    members.text(key, "encrypted-key-metadata", "encryption key")
    members.optional_text(key, "encrypted-by-id", "encryption key")
    if key.get("properties") is not None:
        members.text_map(key, "properties", "encryption key")
