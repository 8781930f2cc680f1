"""Partition specs and sort orders as JSON: their shape, binding new ones to a schema, ids, equality.

The shape is checked wherever a spec or order comes from; the rest only where one is added or becomes the default.
Source: Iceberg spec, "Partitioning" and "Sorting"; ids are given as Java's TableMetadata.Builder gives them,
except where it would give one id to two fields.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata import members, transforms
from table_format.metadata.columns import MAX_FIELD_ID, Column

FIRST_PARTITION_ID = 1000
UNPARTITIONED: JsonObject = {"spec-id": 0, "fields": []}
UNSORTED: JsonObject = {"order-id": 0, "fields": []}

_DIRECTIONS = ("asc", "desc")
_NULL_ORDERS = ("nulls-first", "nulls-last")


def check_spec_shape(spec: JsonObject, what: str = "partition spec") -> Sequence[JsonObject]:
    """Check types of all members that we know, and give the fields; ids may be absent.

    Raises:
        Invalid: a member is missing or of the wrong type.
    """
    members.optional_integer(spec, "spec-id", what, -1, members.INT_MAX)
    fields = members.objects(spec, "fields", what)
    for field in fields:
        members.text(field, "name", "partition field")
        _check_source(field, "partition field")
        members.optional_integer(field, "field-id", "partition field", 0, members.INT_MAX)
    return fields


def check_order_shape(order: JsonObject) -> Sequence[JsonObject]:
    """Check types of all members that we know, and give the fields; the id may be absent.

    Raises:
        Invalid: a member is missing or of the wrong type.
    """
    members.optional_integer(order, "order-id", "sort order", -1, members.INT_MAX)
    fields = members.objects(order, "fields", "sort order")
    for field in fields:
        _check_source(field, "sort field")
        if members.text(field, "direction", "sort field").lower() not in _DIRECTIONS:
            raise Invalid("'direction' of sort field must be 'asc' or 'desc'")
        if members.text(field, "null-order", "sort field").lower() not in _NULL_ORDERS:
            raise Invalid("'null-order' of sort field must be 'nulls-first' or 'nulls-last'")
    return fields


def _check_source(field: JsonObject, what: str) -> None:
    members.text(field, "transform", what)
    if "source-id" not in field and type(field.get("source-ids")) is list:
        # Transforms of several columns exist in v3; nobody writes them yet, but a table may carry them.
        members.integers(field, "source-ids", what, 0, MAX_FIELD_ID)
    else:
        members.integer(field, "source-id", what, 0, MAX_FIELD_ID)


def canonical_transform(field: JsonObject) -> str:
    """The field's transform as the specification writes it; text that we do not know as it is."""
    return transforms.canonical(field["transform"]) or cast("str", field["transform"])


def check_compatible(fields: Iterable[JsonObject], columns: Mapping[int, Column], what: str) -> None:
    """Check that each field's source column exists and takes its transform.

    Raises:
        Invalid: it does not.
    """
    for field in fields:
        transform = canonical_transform(field)
        # A void partition field stands for one that v1 dropped; sort orders have none to keep.
        dropped = transform == transforms.VOID and what == "partition field"
        if dropped or "source-id" not in field:
            continue
        column = columns.get(field["source-id"])
        name = field.get("name", field["source-id"])
        if column is None:
            raise Invalid(f"Cannot find source column for {what}: {name} (source-id {field['source-id']})")
        if not isinstance(column.type, str):
            raise Invalid(f"Cannot use non-primitive source column for {what}: {name} from {column.path}")
        if transforms.canonical(transform) is not None and not transforms.takes(transform, column.type):
            raise Invalid(f"Invalid source type {column.type} for transform: {transform} ({what} {name})")
        for outer in column.parents():
            if what == "partition field" and not outer.is_struct:
                raise Invalid(f"Invalid partition field parent: {outer.path} of {column.path} is no struct")


def bound_spec(
    spec: JsonObject,
    columns: Mapping[int, Column],
    others: Sequence[JsonObject],
    last_partition_id: int,
    format_version: int,
) -> JsonObject:
    """A new spec checked against the schema, with canonical transforms and every field id set.

    A field without an id, or with one that another spec uses for something else, takes the id of the same source
    and transform in `others`, else the next free one.

    Raises:
        Invalid: unknown transform, name clash, source column missing or unfit, ids unfit for v1.
    """
    fields = [_known_transform(field, "partition field") for field in check_spec_shape(spec)]
    _check_names(fields, columns)
    check_compatible(fields, columns, "partition field")
    fields = _numbered(fields, others, last_partition_id)
    if format_version == 1 and any(
        field["field-id"] != FIRST_PARTITION_ID + position for position, field in enumerate(fields)
    ):
        raise Invalid("Spec does not use sequential IDs that are required in v1: keep dropped fields as void")
    return {**spec, "fields": fields}


def bound_order(order: JsonObject, columns: Mapping[int, Column]) -> JsonObject:
    """A new sort order checked against the schema, with canonical words.

    Raises:
        Invalid: unknown transform, source column missing or unfit.
    """
    fields = [_known_transform(field, "sort field") for field in check_order_shape(order)]
    check_compatible(fields, columns, "sort field")
    lowered = [
        {**field, "direction": field["direction"].lower(), "null-order": field["null-order"].lower()}
        for field in fields
    ]
    return {**order, "fields": lowered}


def _known_transform(field: JsonObject, what: str) -> JsonObject:
    transform = transforms.canonical(field["transform"])
    if transform is None:
        raise Invalid(f"Unknown transform of {what}: {field['transform'][:80]!r}")
    if "source-id" not in field:
        raise Invalid(f"'source-ids' of {what} is not supported: transforms take one source column")
    return {**field, "transform": transform}


def _check_names(fields: Sequence[JsonObject], columns: Mapping[int, Column]) -> None:
    by_path = {column.path: column.id for column in columns.values()}
    names: set[str] = set()
    meanings: set[tuple[int, str]] = set()
    for field in fields:
        name, source_id = field["name"], field["source-id"]
        if not name:
            raise Invalid("Cannot use empty partition name")
        if name in names:
            raise Invalid(f"Cannot use partition name more than once: {name}")
        if source_id in columns and by_path.get(name, source_id) != source_id:
            raise Invalid(f"Cannot create identity partition sourced from different field in schema: {name}")
        meaning = (source_id, field["transform"])
        if meaning in meanings:
            raise Invalid(
                f"Cannot add redundant partition: {name} repeats the source and transform of another"
            )
        names.add(name)
        if field["transform"] != transforms.VOID:
            meanings.add(meaning)


def _numbered(
    fields: Sequence[JsonObject], others: Sequence[JsonObject], last_partition_id: int
) -> list[JsonObject]:
    users: dict[int, set[tuple[object, str]]] = {}
    known: dict[tuple[object, str], int] = {}
    for other in others:
        for field in other["fields"]:
            meaning = (field.get("source-id"), canonical_transform(field))
            users.setdefault(field["field-id"], set()).add(meaning)
            known[meaning] = max(known.get(meaning, 0), field["field-id"])
    ids = [_kept_id(field, users) for field in fields]
    taken = {field_id for field_id in ids if field_id is not None}
    if len(taken) != sum(field_id is not None for field_id in ids):
        raise Invalid("partition spec uses one field-id more than once")
    last = max([last_partition_id, *taken])
    numbered = []
    for field, given in zip(fields, ids, strict=True):
        field_id = given
        if field_id is None:
            field_id = known.get((field["source-id"], field["transform"]))
        if field_id is None or (given is None and field_id in taken):
            last += 1
            field_id = last
        if field_id > members.INT_MAX:
            raise Invalid("partition field ids are exhausted")
        taken.add(field_id)
        numbered.append({**field, "field-id": field_id})
    return numbered


def _kept_id(field: JsonObject, users: Mapping[int, set[tuple[object, str]]]) -> int | None:
    """The id given by the client, unless it already means another field."""
    field_id = cast("int | None", field.get("field-id"))
    if field_id is None:
        return None
    others = users.get(field_id, set())
    if field["transform"] == transforms.VOID:
        # v1 replaces a dropped field by void under the same id.
        fits = not others or any(source == field["source-id"] for source, _ in others)
    else:
        meaning = (field["source-id"], field["transform"])
        fits = others <= {meaning, (field["source-id"], transforms.VOID)}
    return field_id if fits else None


def same_spec(known: JsonObject, added: JsonObject) -> bool:
    """Whether both partition alike (sources, transforms, names, in order) and `known` lacks nothing of `added`."""
    return len(known["fields"]) == len(added["fields"]) and _covers_members(
        known, added, {"spec-id", "fields"}, {"field-id", "transform"}
    )


def same_order(known: JsonObject, added: JsonObject) -> bool:
    """Whether both sort alike and `known` lacks nothing of `added`."""
    return len(known["fields"]) == len(added["fields"]) and _covers_members(
        known, added, {"order-id", "fields"}, {"transform"}
    )


def _covers_members(known: JsonObject, added: JsonObject, own: set[str], ids: set[str]) -> bool:
    return all(known.get(key) == added[key] for key in added if key not in own) and all(
        canonical_transform(old) == canonical_transform(new)
        and all(old.get(key) == new[key] for key in new if key not in ids)
        for old, new in zip(known["fields"], added["fields"], strict=True)
    )
