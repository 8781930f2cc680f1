"""Hypothesis: valid commits drawn against the current state of a table, as any engine might send them.

They stay where pyiceberg's own engine is right (ids as it wants them, one snapshot a commit, removals only of
what is there), so that both engines can be given the same ones.
"""

from typing import Any

from hypothesis import strategies as st

from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata
from tests.factories.metadata_documents import LOCATION, add_snapshot, field, set_ref, snapshot

_TYPES = ("int", "long", "string", "decimal(9, 2)", "fixed[4]", "uuid", "boolean", "double")


def _long_columns(metadata: TableMetadata) -> list[int]:
    return [f["id"] for f in metadata.schema()["fields"] if f["type"] in ("long", "int")]


def _add_column(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    last = metadata.last_column_id
    type_: Any = draw(st.sampled_from(_TYPES))
    if draw(st.booleans()):
        type_ = {"type": "list", "element-id": last + 2, "element": type_, "element-required": False}
    added = field(last + 1, f"c{last + 1}", type_)
    highest = max(s["schema-id"] for s in metadata.schemas)
    fields = list(metadata.schema()["fields"])
    fields.insert(draw(st.integers(0, len(fields))), added)
    schema = {"type": "struct", "schema-id": highest + 1, "fields": fields, "identifier-field-ids": []}
    updates: list[JsonObject] = [{"action": "add-schema", "schema": schema}]
    if draw(st.booleans()):
        updates.append(
            {"action": "set-current-schema", "schema-id": draw(st.sampled_from([-1, highest + 1]))}
        )
    return updates


def _use_schema(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    wanted = draw(st.sampled_from([s["schema-id"] for s in metadata.schemas]))
    return [{"action": "set-current-schema", "schema-id": wanted}]


def _add_spec(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    last, highest = metadata.last_partition_id, max(s["spec-id"] for s in metadata.partition_specs)
    kinds = (
        ["bucket", "truncate"] if metadata.format_version == 1 else ["bucket", "truncate", "identity", "void"]
    )
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=2, unique=True))
    source = draw(st.sampled_from(_long_columns(metadata)))
    first = metadata.spec()["fields"] if metadata.format_version == 1 else []
    fields = list(first)
    for kind in chosen:
        number = last + 1 + len(fields) - len(first)
        # The width makes each field another one.
        transform = f"{kind}[{number}]" if kind in ("bucket", "truncate") else kind
        fields.append({"source-id": source, "field-id": number, "name": f"p{number}", "transform": transform})
    spec = {"spec-id": highest + 1, "fields": fields}
    updates: list[JsonObject] = [{"action": "add-spec", "spec": spec}]
    # In v1 every later spec has to carry on this one's fields, so it becomes the default.
    if metadata.format_version == 1 or draw(st.booleans()):
        updates.append({"action": "set-default-spec", "spec-id": -1})
    return updates


def _use_spec(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    if metadata.format_version == 1:
        return []
    wanted = draw(st.sampled_from([s["spec-id"] for s in metadata.partition_specs]))
    return [{"action": "set-default-spec", "spec-id": wanted}]


def _add_order(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    highest = max(o["order-id"] for o in metadata.sort_orders)
    source = draw(st.sampled_from(_long_columns(metadata)))
    # The width makes each order another one.
    order = {
        "order-id": highest + 1,
        "fields": [
            {
                "source-id": source,
                "transform": f"bucket[{highest + 2}]",
                "direction": draw(st.sampled_from(["asc", "desc"])),
                "null-order": draw(st.sampled_from(["nulls-first", "nulls-last"])),
            }
        ],
    }
    last = {"action": "set-default-sort-order", "sort-order-id": -1}
    return [{"action": "add-sort-order", "sort-order": order}, *([last] if draw(st.booleans()) else [])]


def _append(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    branch = draw(st.sampled_from(["main", "main", "audit"]))
    ref = metadata.refs.get(branch)
    if ref is not None and ref["type"] == "tag":
        return []
    number = 1 + max([s["snapshot-id"] for s in metadata.snapshots], default=0)
    number += draw(st.integers(0, 2)) * 2**40
    more: dict[str, Any] = {} if ref is None else {"parent-snapshot-id": ref["snapshot-id"]}
    sequence = 0 if metadata.format_version == 1 else metadata.last_sequence_number + 1
    if metadata.format_version == 3:
        following = metadata.document["next-row-id"]
        more |= {"first-row-id": following, "added-rows": draw(st.integers(0, 100))}
    found = snapshot(
        number,
        number=sequence,
        at=metadata.last_updated_ms + 1,
        **more,
        summary={"operation": draw(st.sampled_from(["append", "overwrite", "delete"])), "k": "v"},
    )
    return [add_snapshot(found), set_ref(number, branch)]


def _set_ref(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    if not metadata.snapshots:
        return []
    wanted = draw(st.sampled_from([s["snapshot-id"] for s in metadata.snapshots]))
    name = draw(st.sampled_from(["main", "audit", "v1", "v2"]))
    if name == "main" and wanted == metadata.current_snapshot_id:
        return []
    kind = "tag" if name.startswith("v") else "branch"
    more: dict[str, int] = {}
    if draw(st.booleans()):
        more["max-ref-age-ms"] = draw(st.integers(1, 2**63 - 1))
    if kind == "branch" and draw(st.booleans()):
        more["min-snapshots-to-keep"] = draw(st.integers(1, 2**31 - 1))
    return [set_ref(wanted, name, kind, **more)]


def _remove_ref(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    return [
        {"action": "remove-snapshot-ref", "ref-name": draw(st.sampled_from(["main", "audit", "v1", "gone"]))}
    ]


def _remove_snapshot(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    held = {ref["snapshot-id"] for ref in metadata.refs.values()}
    log = [entry["snapshot-id"] for entry in metadata.snapshot_log]
    files = {file["snapshot-id"] for file in metadata.partition_statistics}
    free = [
        s["snapshot-id"]
        for s in metadata.snapshots
        if s["snapshot-id"] not in held | files and s["snapshot-id"] not in log[1:]
    ]
    wanted = draw(st.sampled_from(free)) if free else None
    return [] if wanted is None else [{"action": "remove-snapshots", "snapshot-ids": [wanted]}]


def _properties(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    updates = draw(st.dictionaries(st.sampled_from("abcd"), st.text(max_size=3), max_size=3))
    found: list[JsonObject] = [{"action": "set-properties", "updates": updates}]
    if metadata.properties and draw(st.booleans()):
        found = [
            {"action": "remove-properties", "removals": [draw(st.sampled_from(sorted(metadata.properties)))]}
        ]
    return found


def _location(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    return [
        {"action": "set-location", "location": draw(st.sampled_from([LOCATION, "file:///a", "file:///b"]))}
    ]


def _statistics(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    if not metadata.snapshots:
        return []
    found = draw(st.sampled_from(metadata.snapshots))
    file = {
        "snapshot-id": found["snapshot-id"],
        "statistics-path": f"{LOCATION}/metadata/{draw(st.integers(0, 9))}.puffin",
        "file-size-in-bytes": draw(st.integers(0, 2**63 - 1)),
    }
    if draw(st.booleans()):
        return [{"action": "set-partition-statistics", "partition-statistics": file}]
    blob = {
        "type": "apache-datasketches-theta-v1",
        "snapshot-id": found["snapshot-id"],
        "sequence-number": 1,
        "fields": [1],
        "properties": {"ndv": "1"},
    }
    whole = {**file, "file-footer-size-in-bytes": 1, "blob-metadata": [blob]}
    return [{"action": "set-statistics", "statistics": whole}]


def _remove_statistics(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    files, action = metadata.statistics, "remove-statistics"
    if draw(st.booleans()):
        files, action = metadata.partition_statistics, "remove-partition-statistics"
    if not files:
        return []
    return [{"action": action, "snapshot-id": draw(st.sampled_from(files))["snapshot-id"]}]


def _remove_layout(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    schemas = [s["schema-id"] for s in metadata.schemas if s["schema-id"] != metadata.current_schema_id]
    specs = [s["spec-id"] for s in metadata.partition_specs if s["spec-id"] != metadata.default_spec_id]
    if schemas and draw(st.booleans()):
        return [{"action": "remove-schemas", "schema-ids": [draw(st.sampled_from(schemas))]}]
    if specs:
        return [{"action": "remove-partition-specs", "spec-ids": [draw(st.sampled_from(specs))]}]
    return []


def _upgrade(draw: Any, metadata: TableMetadata) -> list[JsonObject]:
    return [{"action": "upgrade-format-version", "format-version": max(2, metadata.format_version)}]


ADDING = (_add_column, _use_schema, _add_spec, _use_spec, _add_order, _append, _append, _set_ref, _properties)
OTHER = (_location, _statistics, _upgrade)
REMOVING = (_remove_ref, _remove_snapshot, _remove_statistics, _remove_layout)


def commit(draw: Any, metadata: TableMetadata, steps: Any) -> list[JsonObject]:
    """The updates of one step, possibly none."""
    updates: list[JsonObject] = draw(st.sampled_from(steps))(draw, metadata)
    return updates
