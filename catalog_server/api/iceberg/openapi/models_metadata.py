"""Models of a table's and a view's metadata, as the metadata files hold them."""

from catalog_server.api.iceberg.openapi.shapes import (
    array,
    integer,
    long,
    mapping,
    nullable,
    record,
    ref,
    text,
    texts,
    word,
)
from table_format.jsontypes import JsonObject

_TIME = "Milliseconds since 1970-01-01 UTC."
_KEEP = {
    "min-snapshots-to-keep": integer("Branches only: how many snapshots expiration leaves.", low=1),
    "max-snapshot-age-ms": long("Branches only: how old a snapshot may get.", low=1),
    "max-ref-age-ms": long("How old the newest snapshot may get before the reference itself goes.", low=1),
}
REFERENCE = {"type": word("branch", "tag"), "snapshot-id": long()}

_SNAPSHOT: dict[str, JsonObject] = {
    "Snapshot": record(
        "One state of the table's rows.",
        {"snapshot-id": long(), "timestamp-ms": long(_TIME)},
        {
            "parent-snapshot-id": nullable(long("The snapshot that this one was made from.", low=-1)),
            "sequence-number": long("Grows with every snapshot from format version 2 on."),
            "manifest-list": text(
                "Location of the list of manifests; version 1 may have `manifests` instead."
            ),
            "manifests": array(text(), "Locations of the manifests (format version 1 only)."),
            "summary": {
                **record(
                    "What the snapshot did, and figures about it.",
                    {"operation": word("append", "replace", "overwrite", "delete")},
                ),
                "additionalProperties": text(),
            },
            "schema-id": integer("The schema that was current when it was made.", low=-1),
            "first-row-id": nullable(long("Id of the first row that it added (format version 3).")),
            "added-rows": nullable(long("How many row ids it took (format version 3).")),
            "key-id": nullable(text("Key that the manifest list is encrypted with.")),
        },
    ),
    "SnapshotReference": record("A branch or a tag.", REFERENCE, _KEEP),
    "SnapshotLogEntry": record(
        "When a snapshot became the current one.", {"snapshot-id": long(), "timestamp-ms": long(_TIME)}
    ),
    "MetadataLogEntry": record(
        "An earlier metadata file.",
        {"metadata-file": text(), "timestamp-ms": long(_TIME)},
    ),
}

_FILES: dict[str, JsonObject] = {
    "BlobMetadata": record(
        "One blob in a statistics file.",
        {
            "type": text(),
            "snapshot-id": {"type": "integer", "format": "int64"},
            "sequence-number": {"type": "integer", "format": "int64"},
            "fields": array(integer(), "Ids of the columns it is about."),
        },
        {"properties": texts()},
    ),
    "StatisticsFile": record(
        "A Puffin file with statistics of one snapshot.",
        {
            "snapshot-id": long(),
            "statistics-path": text(minLength=1),
            "file-size-in-bytes": long(),
            "file-footer-size-in-bytes": long(),
            "blob-metadata": array(ref("BlobMetadata")),
        },
        {"key-metadata": nullable(text("Base64 of the key that the file is encrypted with."))},
    ),
    "PartitionStatisticsFile": record(
        "A file with statistics per partition of one snapshot.",
        {"snapshot-id": long(), "statistics-path": text(minLength=1), "file-size-in-bytes": long()},
    ),
    "EncryptedKey": record(
        "A key of an encrypted table, itself encrypted.",
        {"key-id": text(minLength=1), "encrypted-key-metadata": text("Base64.")},
        {"encrypted-by-id": nullable(text("Key that this one is encrypted with.")), "properties": texts()},
    ),
}

_TABLE: dict[str, JsonObject] = {
    "TableMetadata": record(
        "A table's metadata. Members that the server does not know are kept and answered as they came.",
        {"format-version": {"type": "integer", "minimum": 1, "maximum": 3}, "table-uuid": nullable(text())},
        {
            "location": text("Where the table's files are."),
            "last-updated-ms": long(_TIME),
            "last-column-id": integer("The highest column id ever given."),
            "schemas": array(ref("Schema")),
            "current-schema-id": integer(),
            "partition-specs": array(ref("PartitionSpec")),
            "default-spec-id": integer("The spec that new files are written by."),
            "last-partition-id": integer("The highest partition field id ever given."),
            "sort-orders": array(ref("SortOrder")),
            "default-sort-order-id": integer(),
            "properties": nullable(texts("Settings that engines go by.")),
            "current-snapshot-id": nullable(
                long("The snapshot of branch `main`; -1, null or absent for an empty table.", low=-1)
            ),
            "last-sequence-number": long(),
            "snapshots": nullable(array(ref("Snapshot"))),
            "snapshot-log": nullable(array(ref("SnapshotLogEntry"))),
            "metadata-log": nullable(array(ref("MetadataLogEntry"))),
            "refs": nullable(mapping(ref("SnapshotReference"), "Branches and tags by name.")),
            "statistics": nullable(array(ref("StatisticsFile"))),
            "partition-statistics": nullable(array(ref("PartitionStatisticsFile"))),
            "next-row-id": nullable(
                long("The row id that the next snapshot begins with (format version 3).")
            ),
            "encryption-keys": nullable(array(ref("EncryptedKey"))),
        },
    ),
}

_VIEW: dict[str, JsonObject] = {
    "SQLViewRepresentation": record(
        "A query in one dialect.",
        {
            "type": word("sql"),
            "sql": text("The query."),
            "dialect": text("For example `spark`.", minLength=1),
        },
    ),
    "ViewVersion": record(
        "One definition of a view.",
        {
            "version-id": integer("Given by the server when the version is added."),
            "timestamp-ms": long(_TIME),
            "schema-id": integer("The columns it gives; -1 is the schema added in the same request.", low=-1),
            "summary": texts("Who made it."),
            "representations": array(ref("SQLViewRepresentation"), "At most one per dialect."),
            "default-namespace": array(text(), "Where names without a namespace are looked up."),
        },
        {"default-catalog": nullable(text("Where names without a catalog are looked up."))},
    ),
    "ViewHistoryEntry": record(
        "When a version became the current one.", {"version-id": integer(), "timestamp-ms": long(_TIME)}
    ),
    "ViewMetadata": record(
        "A view's metadata. Members that the server does not know are kept and answered as they came.",
        {
            "view-uuid": text(),
            "format-version": {"type": "integer", "const": 1},
            "location": text("Where the view's metadata files are."),
            "schemas": array(ref("Schema")),
            "current-version-id": integer(),
            "versions": array(ref("ViewVersion")),
            "version-log": array(ref("ViewHistoryEntry")),
        },
        {"properties": nullable(texts())},
    ),
}

MODELS: dict[str, JsonObject] = {**_SNAPSHOT, **_FILES, **_TABLE, **_VIEW}
RETENTION = _KEEP
