"""The management API's documents about tables and dropped tables."""

from typing import Any

from pydantic import Field

from catalog_server.api.management.wire import Wire


class Table(Wire):
    """A table's identity."""

    bucket: str
    namespace: list[str]
    name: str
    arn: str = Field(description="As S3 Tables clients name it; stays what it is, as the resource id does.")
    uuid: str
    resource_id: str = Field(description="Stays what it is through renames, drops and restores.")
    location: str
    metadata_location: str | None = Field(
        description="Null of a blank table, made by CreateTable of the S3 Tables API and without metadata yet."
    )
    version: int = Field(description="Grows at each commit.")
    protected: bool
    created_at_ms: int
    updated_at_ms: int


class Tables(Wire):
    """A page of tables."""

    tables: list[Table]
    next_page_token: str | None


class SizeClass(Wire):
    """Files below one size."""

    below_bytes: int | None = Field(description="Upper bound of the class; null for the largest.")
    files: int
    bytes: int


class Figures(Wire):
    """How the table's current snapshot is laid out."""

    snapshots: int
    current_snapshot_id: int | None
    data_files: int
    delete_files: int
    records: int = Field(description="Rows in data files, before deletes are applied.")
    bytes: int = Field(description="Bytes of data files.")
    delete_records: int = Field(description="Rows in delete files.")
    delete_bytes: int
    partitions: int = Field(
        description="Partitions that have data files; no more than 100,000 are told apart."
    )
    manifests: int
    metadata_bytes: int
    file_sizes: list[SizeClass] = Field(description="Data files by size.")
    complete: bool = Field(
        description="Whether every file was looked at; else the totals are the snapshot summary's, and sizes and "
        "partitions those of a part of the files."
    )


class TableDetails(Wire):
    """A table with its figures."""

    table: Table
    format_version: int | None = Field(description="Null of a blank table.")
    properties: dict[str, str]
    figures: Figures


class TableFiles(Wire):
    """The files of a table's current snapshot by size."""

    snapshot_id: int | None
    data_files: list[SizeClass]
    delete_files: list[SizeClass]
    complete: bool = Field(description="Whether every file was looked at.")


class Ref(Wire):
    """A branch or tag."""

    name: str
    type: str = Field(description="branch or tag")
    snapshot_id: int
    min_snapshots_to_keep: int | None
    max_snapshot_age_ms: int | None
    max_ref_age_ms: int | None


class Refs(Wire):
    """A table's branches and tags, by name."""

    refs: list[Ref]


class Snapshot(Wire):
    """A snapshot of a table."""

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str | None = Field(description="append, replace, overwrite or delete")
    summary: dict[str, str]
    schema_id: int | None
    refs: list[str] = Field(description="Branches and tags whose head it is.")


class Snapshots(Wire):
    """A page of snapshots, newest first."""

    snapshots: list[Snapshot]
    next_page_token: str | None


class NewTable(Wire):
    """A table to be made: of metadata that exists already, or an empty one of a schema."""

    name: str
    metadata_location: str | None = Field(
        None, description="Metadata that exists, to become a table. This or `schema` is given."
    )
    overwrite: bool = Field(
        False,
        description="With metadataLocation: also when there is a table of that name, which is pointed there.",
    )
    expected_metadata_location: str | None = Field(
        None,
        description="With overwrite: only if the table is there and this is its metadata; else 404 or 412.",
    )
    table_schema: dict[str, Any] | None = Field(
        None,
        alias="schema",
        description="Of an empty table, as Iceberg writes it; ids of columns stay as they are given.",
    )
    partition_spec: dict[str, Any] | None = None
    write_order: dict[str, Any] | None = None
    properties: dict[str, str] = Field(default_factory=dict)
    location: str | None = Field(None, description="A place of its own when left out.")


class NewName(Wire):
    """Another name for a table; what is left out stays."""

    namespace: list[str] | None = None
    name: str | None = None


class Protection(Wire):
    """Whether a table refuses to be dropped."""

    protected: bool


class HoldRequest(Wire):
    """How long a noncurrent file is held back from deletion."""

    until_ms: int | None = Field(
        None, ge=0, le=2**53 - 1, description="Milliseconds since 1970; null: until it is released."
    )


class Hold(Wire):
    """Why a file stays although nothing refers to it."""

    until_ms: int | None = Field(description="Null: until it is released.")
    held_at_ms: int
    held_by: str


class NoncurrentFile(Wire):
    """A file below the table's places that no metadata refers to."""

    path: str
    size: int | None = Field(description="Bytes; null when it was noted before sizes were.")
    noted_at_ms: int | None = Field(
        description="Since when it is known to be unreferenced; null: it is held, and was not seen so since."
    )
    deleted_after_ms: int | None = Field(
        description="A run after this moment deletes it; null: none does, by the policy or the hold in force."
    )
    deleting: bool = Field(description="Its deletion has begun: it cannot be held any more.")
    hold: Hold | None


class NoncurrentFiles(Wire):
    """A page of noncurrent files, by path."""

    files: list[NoncurrentFile]
    next_page_token: str | None


class DroppedTable(Wire):
    """A table that was dropped, and what will become of it."""

    id: str = Field(description="The resource id that the table had, and has again when it is restored.")
    bucket: str
    namespace: list[str]
    name: str
    uuid: str
    location: str
    metadata_location: str
    dropped_at_ms: int
    dropped_by: str
    recoverable: bool = Field(description="Whether it can be restored: always until its purge begins.")
    recoverable_until_ms: int | None = Field(description="Null while it is to be purged.")
    purge_job: int | None = Field(description="The job that deletes its files.")
    purge_state: str | None = Field(description="Where that job stands.")


class DroppedTables(Wire):
    """A page of dropped tables, the last dropped first."""

    dropped_tables: list[DroppedTable]
    next_page_token: str | None


class RestoredTable(Wire):
    """A table that was dropped and is there again."""

    bucket: str
    namespace: list[str]
    name: str
    metadata_location: str


class Drop(Wire):
    """What came of a drop."""

    dropped_table: DroppedTable | None = Field(
        description="Null when dropped tables are not kept (`drops.keep_days` is 0); its files stay all the same."
    )


class Unregistered(Wire):
    """A table that is not in the catalog any more; every file of it is still there."""

    metadata_location: str
    location: str
