"""Whether a metadata file that somebody else wrote follows from the table's current one.

A client that moves the pointer by itself computed the new metadata alone. What it may not do is what no update of
ours could have done: start from another version, lose the head, or give an id that is in use to something else.
"""

from collections.abc import Mapping

from table_format.errors import CommitFailed, Invalid
from table_format.ident import canonical
from table_format.jsontypes import JsonObject
from table_format.metadata import columns, members
from table_format.metadata.document import TableMetadata


def check_successor(base: TableMetadata, base_location: str, new: TableMetadata) -> None:
    """Check that `new` was made from `base`, which is stored at `base_location`.

    Snapshots may be gone as expiration removes them: any but the head of `main`, and none that a ref names.

    Raises:
        CommitFailed: it was made from another version: reload and try again.
        Invalid: it is another table's, goes back, or is not what updates of `base` can give.
    """
    # Metadata of format version 1 may have been without one until now.
    if base.uuid is not None and (new.uuid or "").lower() != base.uuid.lower():
        raise Invalid(f"its table-uuid is {new.uuid}, that of the table is {base.uuid}")
    _check_log(base_location, new)
    for what, before, after in (
        ("format-version", base.format_version, new.format_version),
        ("last-column-id", base.last_column_id, new.last_column_id),
        ("last-partition-id", base.last_partition_id, new.last_partition_id),
        ("last-sequence-number", base.last_sequence_number, new.last_sequence_number),
        ("next-row-id", base.next_row_id, new.next_row_id),
    ):
        if after < before:
            raise Invalid(
                f"its {what} is {after}, and that of the current metadata is {before}: it goes back"
            )
    _check_schemas(base, new)
    _check_specs(base, new)
    _check_snapshots(base, new)
    check_counters(new, base)


def check_counters(new: TableMetadata, base: TableMetadata | None = None) -> None:
    """Check that ids which are given out next were not given out already, and that there are some left.

    Raises:
        Invalid: a column, partition field or row has a higher one, or a counter went so high that no commit can follow.
    """
    for what, before, after in (
        ("last-sequence-number", 0 if base is None else base.last_sequence_number, new.last_sequence_number),
        ("next-row-id", 0 if base is None else base.next_row_id, new.next_row_id),
    ):
        if after > members.COUNTER_MAX >= before:
            raise Invalid(
                f"its {what} is {after}: above {members.COUNTER_MAX} no commit could follow, and the table would "
                "be stuck"
            )
    highest = max((column.id for schema in new.schemas for column in columns.columns(schema)), default=0)
    if highest > new.last_column_id:
        raise Invalid(f"its last-column-id is {new.last_column_id}, and a column has the id {highest}")
    fields = [field["field-id"] for spec in new.partition_specs for field in spec["fields"]]
    if max(fields, default=0) > new.last_partition_id:
        raise Invalid(
            f"its last-partition-id is {new.last_partition_id}, and a partition field has the id {max(fields)}"
        )
    if new.format_version < 3:
        return
    for row in new.snapshots:
        end = (row.get("first-row-id") or 0) + (row.get("added-rows") or 0)
        if row.get("first-row-id") is not None and end > new.next_row_id:
            raise Invalid(
                f"its next-row-id is {new.next_row_id}, and rows of its snapshot {row['snapshot-id']} "
                f"have ids up to {end - 1}"
            )


def _check_log(base_location: str, new: TableMetadata) -> None:
    wanted = canonical(base_location)
    # Read from the end: the current file is nearly always the last one named.
    for entry in reversed(new.metadata_log):
        named = entry["metadata-file"]
        if named == base_location or (":" in named and canonical(named) == wanted):
            return
    raise CommitFailed(
        f"its metadata-log does not name the current metadata {base_location}: it was made from another version"
    )


def _check_schemas(base: TableMetadata, new: TableMetadata) -> None:
    """Snapshots, and readers of old files, name schemas by id; writers of format version 1 did not always know ids."""
    if base.format_version < 2:
        return
    after = {schema["schema-id"]: schema for schema in new.schemas}
    for schema in base.schemas:
        same = after.get(schema["schema-id"])
        if same is not None and same != schema and _columns(same) != _columns(schema):
            raise Invalid(f"it gives the schema id {schema['schema-id']} to other columns")


def _columns(schema: JsonObject) -> list[tuple[int, str, object]]:
    """A nested column's parts are columns of their own."""
    return [
        (column.id, column.path, column.type if isinstance(column.type, str) else column.type["type"])
        for column in columns.columns(schema)
    ]


def _check_specs(base: TableMetadata, new: TableMetadata) -> None:
    """Manifests name specs by id: one id means one spec for ever."""
    after = {spec["spec-id"]: spec for spec in new.partition_specs}
    for spec in base.partition_specs:
        same = after.get(spec["spec-id"])
        if same is not None and _meaning(same) != _meaning(spec):
            raise Invalid(f"it gives the partition spec id {spec['spec-id']} to other fields")


def _meaning(spec: JsonObject) -> list[tuple[object, ...]]:
    return [
        (field.get("field-id"), field.get("source-id"), field.get("source-ids"), field["transform"])
        for field in spec["fields"]
    ]


def _check_snapshots(base: TableMetadata, new: TableMetadata) -> None:
    before = {row["snapshot-id"]: row for row in base.snapshots}
    after = {row["snapshot-id"]: row for row in new.snapshots}
    head = base.current_snapshot_id
    if head is not None and head not in after:
        raise Invalid(f"it has lost the current snapshot {head}: expire only snapshots that main has left")
    for snapshot_id, row in after.items():
        known = before.get(snapshot_id)
        if known is None:
            _check_new(row, base)
        elif row is not known and _differ(row, known):
            raise Invalid(f"it gives the snapshot id {snapshot_id} to another snapshot")


def _differ(row: JsonObject, known: JsonObject) -> bool:
    """By what a snapshot is; writers leave out or add other members as they rewrite a file."""
    if (row.get("sequence-number") or 0) != (known.get("sequence-number") or 0):
        return True
    return row.get("manifest-list") != known.get("manifest-list")


def _check_new(row: Mapping[str, int | None], base: TableMetadata) -> None:
    """As for an added snapshot of a commit: its rows and deletes must count as newer than all that is there."""
    if base.format_version > 1 and (row.get("sequence-number") or 0) <= base.last_sequence_number:
        raise Invalid(
            f"the sequence number of its new snapshot {row['snapshot-id']} is not above "
            f"{base.last_sequence_number}, the last one of the current metadata"
        )
    first = row.get("first-row-id")
    if base.format_version > 2 and (first is None or row.get("added-rows") is None):
        raise Invalid(f"its new snapshot {row['snapshot-id']} lacks first-row-id or added-rows")
    if base.format_version > 2 and first is not None and first < base.next_row_id:
        raise Invalid(
            f"the first-row-id of its new snapshot {row['snapshot-id']} is below {base.next_row_id}, "
            "which rows of the table may have"
        )
