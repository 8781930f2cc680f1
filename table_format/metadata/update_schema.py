"""Updates of schemas, partition specs and sort orders: add (or reuse), make current, remove."""

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata import columns, members, specs
from table_format.metadata.draft import Draft

LAST_ADDED = -1


def add_schema(draft: Draft, update: JsonObject) -> None:
    """Add a schema under the next id, or reuse an equal one; ids of its columns stay.

    Raises:
        Invalid: not a valid schema for the table's format version.
    """
    schema = members.nested(update, "schema", "add-schema")
    members.optional_integer(schema, "schema-id", "schema", -1, members.INT_MAX)
    index = columns.check_new(schema, draft.format_version)
    last_column_id = max([draft.document["last-column-id"], *index])
    if last_column_id != draft.document["last-column-id"]:
        draft.put("last-column-id", last_column_id)
    for known in draft.document["schemas"]:
        if columns.covers(known, schema):
            draft.last_schema_id = known["schema-id"]
            return
    known_ids = [known["schema-id"] for known in draft.document["schemas"]]
    draft.last_schema_id = _next_id([*known_ids, draft.document["current-schema-id"]] if known_ids else [], 0)
    draft.rows("schemas").append(columns.rebuilt(schema, draft.last_schema_id, lambda column_id: column_id))


def set_current_schema(draft: Draft, update: JsonObject) -> None:
    """Make a schema current; -1 is the last one added or reused in this commit.

    Raises:
        Invalid: there is no such schema.
    """
    wanted = members.integer(update, "schema-id", "set-current-schema", LAST_ADDED, members.INT_MAX)
    if wanted == LAST_ADDED:
        if draft.last_schema_id is None:
            raise Invalid("Cannot set last added schema: no schema has been added")
        wanted = draft.last_schema_id
    if draft.find("schemas", "schema-id", wanted) is None:
        raise Invalid(f"Cannot set current schema to unknown schema: {wanted}")
    _make_default(draft, "current-schema-id", wanted)


def remove_schemas(draft: Draft, update: JsonObject) -> None:
    """Forget schemas; unknown ids are ignored.

    Raises:
        Invalid: the current one is among them.
    """
    unwanted = set(members.integers(update, "schema-ids", "remove-schemas", high=members.INT_MAX))
    if draft.document["current-schema-id"] in unwanted:
        raise Invalid("Cannot remove the current schema")
    _remove(draft, "schemas", "schema-id", unwanted)


def add_spec(draft: Draft, update: JsonObject) -> None:
    """Add a partition spec for the current schema, or reuse an equal one.

    Raises:
        Invalid: not a valid spec for the current schema.
    """
    spec = members.nested(update, "spec", "add-spec")
    bound = specs.bound_spec(
        spec,
        draft.current_columns(),
        draft.document["partition-specs"],
        draft.document["last-partition-id"],
        draft.format_version,
    )
    for known in draft.document["partition-specs"]:
        if specs.same_spec(known, bound):
            draft.last_spec_id = known["spec-id"]
            return
    draft.last_spec_id = _next_id([known["spec-id"] for known in draft.document["partition-specs"]], 0)
    draft.rows("partition-specs").append({**bound, "spec-id": draft.last_spec_id})
    ids = [field["field-id"] for field in bound["fields"]]
    draft.put("last-partition-id", max([draft.document["last-partition-id"], *ids]))


def set_default_spec(draft: Draft, update: JsonObject) -> None:
    """Make a partition spec the default; -1 is the last one added or reused in this commit.

    Raises:
        Invalid: there is no such spec.
    """
    wanted = members.integer(update, "spec-id", "set-default-spec", LAST_ADDED, members.INT_MAX)
    if wanted == LAST_ADDED:
        if draft.last_spec_id is None:
            raise Invalid("Cannot set last added spec: no spec has been added")
        wanted = draft.last_spec_id
    if draft.find("partition-specs", "spec-id", wanted) is None:
        raise Invalid(f"Cannot set default partition spec to unknown spec: {wanted}")
    _make_default(draft, "default-spec-id", wanted)


def remove_partition_specs(draft: Draft, update: JsonObject) -> None:
    """Forget partition specs; unknown ids are ignored.

    Raises:
        Invalid: the default one is among them.
    """
    unwanted = set(members.integers(update, "spec-ids", "remove-partition-specs", high=members.INT_MAX))
    if draft.document["default-spec-id"] in unwanted:
        raise Invalid("Cannot remove the default partition spec")
    _remove(draft, "partition-specs", "spec-id", unwanted)


def add_sort_order(draft: Draft, update: JsonObject) -> None:
    """Add a sort order for the current schema, or reuse an equal one; without fields it is order 0.

    Raises:
        Invalid: not a valid order for the current schema.
    """
    order = members.nested(update, "sort-order", "add-sort-order")
    bound = specs.bound_order(order, draft.current_columns())
    known_ids = [known["order-id"] for known in draft.document["sort-orders"]]
    for known in draft.document["sort-orders"]:
        if specs.same_order(known, bound) or (not bound["fields"] and known["order-id"] == 0):
            draft.last_order_id = known["order-id"]
            return
    draft.last_order_id = _next_id([0, *known_ids], 1) if bound["fields"] else 0
    draft.rows("sort-orders").append({**bound, "order-id": draft.last_order_id})


def set_default_sort_order(draft: Draft, update: JsonObject) -> None:
    """Make a sort order the default; -1 is the last one added or reused in this commit.

    Raises:
        Invalid: there is no such order.
    """
    what = "set-default-sort-order"
    wanted = members.integer(update, "sort-order-id", what, LAST_ADDED, members.INT_MAX)
    if wanted == LAST_ADDED:
        if draft.last_order_id is None:
            raise Invalid("Cannot set last added sort order: no sort order has been added")
        wanted = draft.last_order_id
    if wanted == 0 and draft.find("sort-orders", "order-id", 0) is None:
        # Order 0 always exists, even where a table that was born sorted does not list it.
        draft.rows("sort-orders").append(specs.UNSORTED)
    if draft.find("sort-orders", "order-id", wanted) is None:
        raise Invalid(f"Cannot set default sort order to unknown sort order: {wanted}")
    _make_default(draft, "default-sort-order-id", wanted)


def _make_default(draft: Draft, key: str, wanted: int) -> None:
    if draft.document[key] != wanted:
        draft.put(key, wanted)
        draft.layout_changed = True


def _remove(draft: Draft, key: str, id_key: str, unwanted: set[int]) -> None:
    kept = [row for row in draft.document[key] if row[id_key] not in unwanted]
    if len(kept) != len(draft.document[key]):
        draft.rows(key)[:] = kept


def _next_id(known: list[int], first: int) -> int:
    return max(known, default=first - 1) + 1
