"""Checks a whole metadata document where it enters: the types of every member we use, and that ids point somewhere.

After it, read views and updates meet no missing member and no wrong type. What we do not know is not looked at.
"""

from collections.abc import Iterable, Sequence

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata import columns, members, snapshots, specs

_WHAT = "table metadata"
_REQUIRED = ("snapshot-id", "timestamp-ms")
_OPTIONAL = ("parent-snapshot-id", "sequence-number", "schema-id", "first-row-id", "added-rows")


def check_document(document: object) -> JsonObject:
    """The document itself, if it is valid table metadata.

    Raises:
        Invalid: it is not; the message says where.
    """
    if type(document) is not dict or document.get("format-version") not in (1, 2, 3):
        raise Invalid("table metadata is not a JSON object with format-version 1, 2 or 3")
    version = members.integer(document, "format-version", _WHAT)
    members.filled_text(document, "location", _WHAT)
    if version > 1:
        members.filled_text(document, "table-uuid", _WHAT)
        members.integer(document, "last-sequence-number", _WHAT, 0)
    members.optional_text(document, "table-uuid", _WHAT)
    members.integer(document, "last-updated-ms", _WHAT)
    members.integer(document, "last-column-id", _WHAT, 0, members.INT_MAX)
    if document.get("properties") is not None:
        members.text_map(document, "properties", _WHAT)
    _check_schemas(document, version)
    _check_specs(document, version)
    _check_orders(document)
    _check_snapshots(document)
    _check_logs(document)
    _check_files(document)
    if version >= 3:
        members.integer(document, "next-row-id", _WHAT, 0)
    return document


def _check_schemas(document: JsonObject, version: int) -> None:
    if document.get("schemas") is None and version == 1:
        schema = members.nested(document, "schema", _WHAT)
        members.optional_integer(schema, "schema-id", "schema", 0, members.INT_MAX)
        known: Sequence[JsonObject] = [{"schema-id": 0, **schema}]
        current = members.optional_integer(document, "current-schema-id", _WHAT, 0, members.INT_MAX)
        wanted = known[0]["schema-id"] if current is None else current
    else:
        known = members.objects(document, "schemas", _WHAT)
        wanted = members.integer(document, "current-schema-id", _WHAT, 0, members.INT_MAX)
    for schema in known:
        columns.columns(schema)
        columns.identifier_ids(schema)
    _check_ids(known, "schema-id", "schema", wanted)


def _check_specs(document: JsonObject, version: int) -> None:
    members.optional_integer(document, "last-partition-id", _WHAT, 0, members.INT_MAX)
    if document.get("partition-specs") is None and version == 1:
        specs.check_spec_shape({"fields": members.array(document, "partition-spec", _WHAT)})
        if members.optional_integer(document, "default-spec-id", _WHAT):
            raise Invalid("table metadata has a default-spec-id but no partition-specs")
        return
    known = members.objects(document, "partition-specs", _WHAT)
    for spec in known:
        for field in specs.check_spec_shape(spec):
            members.integer(field, "field-id", "partition field")
    wanted = members.integer(document, "default-spec-id", _WHAT, 0, members.INT_MAX)
    _check_ids(known, "spec-id", "partition spec", wanted)


def _check_orders(document: JsonObject) -> None:
    if document.get("sort-orders") is None:
        known: Sequence[JsonObject] = [specs.UNSORTED]
    else:
        known = members.objects(document, "sort-orders", _WHAT)
    for order in known:
        specs.check_order_shape(order)
    wanted = members.optional_integer(document, "default-sort-order-id", _WHAT, 0, members.INT_MAX)
    # Order 0 needs no entry.
    _check_ids(known, "order-id", "sort order", wanted or None)


def _check_ids(rows: Iterable[JsonObject], id_key: str, what: str, wanted: int | None) -> None:
    ids = [members.integer(row, id_key, what, 0, members.INT_MAX) for row in rows]
    if len(set(ids)) != len(ids):
        raise Invalid(f"table metadata has two of the same {id_key}")
    if wanted is not None and wanted not in ids:
        raise Invalid(f"table metadata has no {what} with id {wanted}")


def _check_snapshots(document: JsonObject) -> None:
    rows = members.array(document, "snapshots", _WHAT) if document.get("snapshots") is not None else []
    last = document.get("last-sequence-number") or 0
    for row in rows:
        # Tables have thousands of snapshots: only one that fails the quick look is examined for a message.
        if not _looks_right(row):
            snapshots.check_snapshot(members.json_object(row, "snapshot"))
        if (row.get("sequence-number") or 0) > last and document["format-version"] > 1:
            raise Invalid(
                f"Invalid snapshot with sequence number {row['sequence-number']} greater than last sequence "
                f"number {last}"
            )
    known = {row["snapshot-id"] for row in rows}
    if len(known) != len(rows):
        raise Invalid("table metadata has two snapshots of the same id")
    current = members.optional_integer(document, "current-snapshot-id", _WHAT, -1)
    if current is not None and current >= 0 and current not in known:
        raise Invalid("Invalid table metadata: Cannot find current version")
    if document.get("refs") is not None:
        _check_refs(members.nested(document, "refs", _WHAT), known, -1 if current is None else current)


def _looks_right(row: object) -> bool:
    if type(row) is not dict:
        return False
    get = row.get
    numbers = [get(key, -1) for key in _REQUIRED]
    numbers += [get(key, 0) for key in _OPTIONAL]
    summary = get("summary")
    return (
        set(map(type, numbers)) == {int}
        and min(numbers) >= 0
        and max(numbers) <= members.LONG_MAX
        and type(get("manifest-list")) is str
        and type(summary) is dict
        and set(map(type, summary.values())) <= {str}
    )


def _check_refs(refs: JsonObject, known: set[int], current: int) -> None:
    for name in refs:
        ref = members.nested(refs, name, "refs")
        snapshots.check_ref(ref, f"ref {name!r}")
        if ref["snapshot-id"] not in known:
            raise Invalid(f"Snapshot for reference {name} does not exist in the existing snapshots list")
    main = refs.get(snapshots.MAIN)
    if main is None:
        return
    if current < 0:
        raise Invalid("Current snapshot is not set, but main branch exists")
    if main["snapshot-id"] != current:
        raise Invalid(f"Current snapshot ID does not match main branch ({current} != {main['snapshot-id']})")


def _check_logs(document: JsonObject) -> None:
    for key, member in (("snapshot-log", "snapshot-id"), ("metadata-log", "metadata-file")):
        if document.get(key) is None:
            continue
        for row in members.objects(document, key, _WHAT):
            members.integer(row, "timestamp-ms", key)
            if member == "snapshot-id":
                members.integer(row, member, key)
            else:
                members.text(row, member, key)


def _check_files(document: JsonObject) -> None:
    for key, check in (
        ("statistics", snapshots.check_statistics),
        ("partition-statistics", snapshots.check_partition_statistics),
        ("encryption-keys", snapshots.check_encryption_key),
    ):
        if document.get(key) is not None:
            for row in members.objects(document, key, _WHAT):
                check(row)
