"""Hypothesis: commits as any client might send them, right and wrong, drawn against the state of a table.

Every update and requirement of the specification, for format versions 1 to 3. Most draws fit the table; some name
what is not there, repeat what is, or say what the format version forbids.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata
from tests.factories.metadata_documents import (
    LOCATION,
    NOW,
    UUID,
    add_snapshot,
    applied,
    field,
    set_ref,
    snapshot,
    struct,
    table,
    with_history,
)

Draw = Callable[..., Any]

_PRIMITIVES = (
    "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string", "uuid",
    "binary", "fixed[4]", "decimal(9, 2)", "decimal(38,10)",
)  # fmt: skip
_NEW_PRIMITIVES = (
    "timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geometry(srid:3857)", "geography",
    "geography(srid:4326, karney)", "GEOMETRY( ogc:crs84 )", "geography(OGC:CRS84)",
)  # fmt: skip
# A default for a column of the type, as the specification writes single values.
_DEFAULTS: dict[str, Any] = {
    "boolean": True,
    "int": -5,
    "long": 2**63 - 1,
    "double": 1.5,
    "date": "2024-02-29",
    "timestamptz": "2024-02-29T12:00:00.000001+00:00",
    "timestamp_ns": "2024-02-29T12:00:00.000000001",
    "string": "ü",
    "uuid": UUID,
    "fixed[4]": "0a0b0c0d",
    "binary": "00ff",
    "decimal(9, 2)": "14.20",
    "decimal(38,10)": "1234567890123456789012345678.0123456789",
}
# What is no default of the type, or of any.
_WRONG_DEFAULTS: dict[str, Any] = {
    "boolean": "true",
    "int": 2**31,
    "long": 1.0,
    "double": 1,
    "date": "2023-02-29",
    "time": "24:00:00",
    "timestamptz": "2024-02-29T12:00:00",
    "timestamptz_ns": "2024-02-29T12:00:00+01:00",
    "string": 5,
    "uuid": "0b1f",
    "fixed[4]": "0a0b0c",
    "binary": "0",
    "decimal(9, 2)": "14.2",
    "decimal(38,10)": "1e5",
    "variant": "x",
    "geometry": "POINT(1 1)",
    "unknown": "x",
}
_WRONG_TYPES = ("geometry()", "geography(srid:4326, flat)", "decimal(39, 2)", "decimal(3, 4)", "text")
_TRANSFORMS = (
    "identity", "bucket[4]", "bucket[16]", "truncate[2]", "year", "month", "day", "hour", "void",
)  # fmt: skip


def rarely(draw: Draw) -> bool:
    """True in about one of eight draws; shrinks to False."""
    return bool(draw(st.integers(0, 7)) == 7)


def _one(draw: Draw, values: Any) -> Any:
    return draw(st.sampled_from(list(values)))


def _type(draw: Draw, ids: Callable[[], int], version: int, depth: int = 0) -> Any:
    kind = _one(draw, ["primitive"] * 5 + (["struct", "list", "map"] if depth < 2 else []))
    if kind == "struct":
        return struct(
            *(_field(draw, ids, version, f"s{i}", depth + 1) for i in range(draw(st.integers(1, 2))))
        )
    if kind == "list":
        inner = ids()
        element = _type(draw, ids, version, depth + 1)
        return {
            "type": "list",
            "element-id": inner,
            "element": element,
            "element-required": draw(st.booleans()),
        }
    if kind == "map":
        key, value = ids(), ids()
        inside = _type(draw, ids, version, depth + 1)
        return {
            "type": "map",
            "key-id": key,
            "key": _one(draw, ["string", "int"]),
            "value-id": value,
            "value": inside,
            "value-required": draw(st.booleans()),
        }
    if rarely(draw) and rarely(draw):
        return _one(draw, _WRONG_TYPES)
    return _one(draw, _PRIMITIVES + _NEW_PRIMITIVES if version >= 3 or rarely(draw) else _PRIMITIVES)


def _field(draw: Draw, ids: Callable[[], int], version: int, name: str, depth: int = 0) -> JsonObject:
    number = ids()
    type_ = _type(draw, ids, version, depth)
    # Columns of nothing are always null.
    required = draw(st.booleans()) and type_ != "unknown"
    found = field(number, name, type_, required=required)
    if draw(st.booleans()):
        found["doc"] = _one(draw, ["text", "Ⅷ"])
    if (
        isinstance(type_, str)
        and type_ in _DEFAULTS
        and (version >= 3 or rarely(draw))
        and draw(st.booleans())
    ):
        found["initial-default"] = _DEFAULTS[type_]
        found["write-default"] = _DEFAULTS[type_]
    elif isinstance(type_, str) and type_ in _WRONG_DEFAULTS and version >= 3 and rarely(draw):
        found[_one(draw, ["initial-default", "write-default"])] = _WRONG_DEFAULTS[type_]
    return found


def _counter(start: int) -> Callable[[], int]:
    last = [start]

    def following() -> int:
        last[0] += 1
        return last[0]

    return following


def add_schema(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """A schema that adds, drops, reorders, promotes or repeats columns, perhaps made current."""
    fields = [dict(one) for one in metadata.schema()["fields"]]
    ids = _counter(metadata.last_column_id)
    change = _one(draw, ["add", "add", "drop", "promote", "same", "older", "order", "default"])
    if change == "add":
        for _ in range(draw(st.integers(1, 2))):
            added = _field(draw, ids, metadata.format_version, f"c{ids()}")
            fields.insert(draw(st.integers(0, len(fields))), added)
    elif change == "drop" and len(fields) > 1:
        fields.pop(draw(st.integers(0, len(fields) - 1)))
    elif change == "promote":
        fields = [{**one, "type": "long"} if one["type"] == "int" else one for one in fields]
    elif change == "older":
        fields = [dict(one) for one in _one(draw, metadata.schemas)["fields"]]
    elif change == "order":
        fields.reverse()
    elif change == "default":
        fields = [
            {**one, ("initial-default" if rarely(draw) else "write-default"): _DEFAULTS[one["type"]]}
            if isinstance(one["type"], str) and one["type"] in _DEFAULTS and draw(st.booleans())
            else one
            for one in fields
        ]
    if rarely(draw):
        fields.append(field(fields[0]["id"], _one(draw, ["again", fields[0]["name"]]), "int"))
    schema = struct(*fields)
    if draw(st.booleans()):
        schema["schema-id"] = draw(st.integers(0, 3))
    candidates = [one["id"] for one in fields if one["required"] or rarely(draw)]
    if candidates and draw(st.booleans()):
        schema["identifier-field-ids"] = [_one(draw, candidates)]
    updates: list[JsonObject] = [{"action": "add-schema", "schema": schema}]
    if draw(st.booleans()):
        updates.append({"action": "set-current-schema", "schema-id": -1})
    return updates


def use_schema(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """Another schema made current, perhaps one that is not there."""
    ids = [row["schema-id"] for row in metadata.schemas]
    return [{"action": "set-current-schema", "schema-id": _one(draw, [*ids, *ids, -1, 77])}]


def _source(draw: Draw, metadata: TableMetadata) -> int:
    fields = metadata.schema()["fields"]
    found = 999 if rarely(draw) else _one(draw, fields)["id"]
    return int(found)


def add_spec(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """A partition spec with or without ids, new, equal to an older one, or unfit."""
    last = metadata.last_partition_id
    if draw(st.integers(0, 3)) == 0:
        old = _one(draw, metadata.partition_specs)
        fields = [dict(one) for one in old["fields"]]
        if draw(st.booleans()):
            fields = [{key: value for key, value in one.items() if key != "field-id"} for one in fields]
    else:
        fields = []
        if metadata.format_version == 1 and draw(st.booleans()):
            fields = [dict(one) for one in metadata.spec()["fields"]]
        for number in range(draw(st.integers(0, 2))):
            transform = _one(draw, _TRANSFORMS)
            name = _one(draw, [f"p{last + number}", "p", "id", "id_bucket"])
            fields.append({"source-id": _source(draw, metadata), "name": name, "transform": transform})
            if metadata.format_version == 1 or draw(st.booleans()):
                fields[-1]["field-id"] = last + 1 + number
    spec: JsonObject = {"fields": fields}
    if draw(st.booleans()):
        spec["spec-id"] = draw(st.integers(0, 3))
    updates: list[JsonObject] = [{"action": "add-spec", "spec": spec}]
    if draw(st.booleans()):
        updates.append({"action": "set-default-spec", "spec-id": -1})
    return updates


def use_spec(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """Another partition spec made the default, perhaps one that is not there."""
    ids = [row["spec-id"] for row in metadata.partition_specs]
    return [{"action": "set-default-spec", "spec-id": _one(draw, [*ids, *ids, -1, 77])}]


def add_order(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """A sort order, new, equal to an older one, without fields, or unfit."""
    if draw(st.integers(0, 3)) == 0:
        fields = [dict(one) for one in _one(draw, metadata.sort_orders)["fields"]]
    else:
        fields = [
            {
                "source-id": _source(draw, metadata),
                "transform": _one(draw, _TRANSFORMS),
                "direction": _one(draw, ["asc", "desc", "DESC"]),
                "null-order": _one(draw, ["nulls-first", "nulls-last"]),
            }
            for _ in range(draw(st.integers(0, 2)))
        ]
    order = {"order-id": draw(st.integers(1, 3)) if fields else 0, "fields": fields}
    updates: list[JsonObject] = [{"action": "add-sort-order", "sort-order": order}]
    if draw(st.booleans()):
        updates.append({"action": "set-default-sort-order", "sort-order-id": -1})
    return updates


def use_order(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """Another sort order made the default, perhaps one that is not there."""
    ids = [row["order-id"] for row in metadata.sort_orders]
    return [{"action": "set-default-sort-order", "sort-order-id": _one(draw, [*ids, *ids, -1, 77])}]


def append(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """A snapshot on a branch: fresh or stale numbers, with or without a parent, a minute or more off, or unfit."""
    branch = _one(draw, ["main", "main", "main", "audit"])
    ref = metadata.refs.get(branch)
    number = 1 + max([row["snapshot-id"] for row in metadata.snapshots], default=0)
    if rarely(draw) and metadata.snapshots:
        number = _one(draw, metadata.snapshots)["snapshot-id"]
    parent = None if ref is None else ref["snapshot-id"]
    more: dict[str, Any] = {} if parent is None else {"parent-snapshot-id": parent}
    sequence = metadata.last_sequence_number + _one(draw, [1, 1, 1, 1, 2, 0])
    if metadata.format_version == 1:
        sequence = 0
    if metadata.format_version >= 3 or rarely(draw):
        following = metadata.document.get("next-row-id") or 0
        more["first-row-id"] = max(0, following + _one(draw, [0, 0, 0, 0, -1]))
        more["added-rows"] = _one(draw, [0, 1, 10, 2**40])
        if rarely(draw):
            del more["first-row-id"]
    if metadata.format_version >= 3 and rarely(draw):
        more["key-id"] = "k1"
    operation = _one(draw, ["append", "overwrite", "delete", "replace"])
    at = metadata.last_updated_ms + _one(draw, [1, 1, 1, 0, -30_000, -90_000])
    found = snapshot(number, number=sequence, at=at, **more, summary={"operation": operation, "k": "v"})
    if draw(st.integers(0, 3)) == 0:
        return [add_snapshot(found)]
    return [add_snapshot(found), set_ref(number, branch)]


def two_appends(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """A transaction of two snapshots on main, of which the first never was the table's."""
    first = 1 + max([row["snapshot-id"] for row in metadata.snapshots], default=0)
    parent, updates = metadata.current_snapshot_id, []
    rows = metadata.document.get("next-row-id") or 0
    for step in range(2):
        more: dict[str, Any] = {} if parent is None else {"parent-snapshot-id": parent}
        if metadata.format_version >= 3:
            more |= {"first-row-id": rows, "added-rows": 5}
            rows += 5
        sequence = 0 if metadata.format_version == 1 else metadata.last_sequence_number + 1 + step
        at = metadata.last_updated_ms + 1
        updates += [
            add_snapshot(snapshot(first + step, number=sequence, at=at, **more)),
            set_ref(first + step),
        ]
        parent = first + step
    return updates


def move_ref(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """A branch or tag made or moved, with settings, perhaps as the wrong kind or to nothing."""
    ids = [row["snapshot-id"] for row in metadata.snapshots]
    wanted = 12345 if not ids or rarely(draw) else _one(draw, ids)
    name = _one(draw, ["main", "audit", "v1"])
    kind = _one(draw, ["branch", "tag"] if name == "v1" or rarely(draw) else ["branch"])
    more = {
        key: _one(draw, values)
        for key, values in (
            ("max-ref-age-ms", [1, 2**62, 0]),
            ("max-snapshot-age-ms", [1, 2**62]),
            ("min-snapshots-to-keep", [1, 7]),
        )
        if draw(st.integers(0, 3)) == 0
    }
    return [set_ref(wanted, name, kind, **more)]


def remove_ref(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """A branch or tag dropped, perhaps main or an unknown one."""
    return [{"action": "remove-snapshot-ref", "ref-name": _one(draw, ["audit", "v1", "gone", "main"])}]


def remove_snapshots(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """Snapshots forgotten: any, with what points at them, or unknown ones."""
    ids = [*(row["snapshot-id"] for row in metadata.snapshots), 12345]
    count = _one(draw, [1, 1, 2])
    return [{"action": "remove-snapshots", "snapshot-ids": [_one(draw, ids) for _ in range(count)]}]


def properties(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """Properties set or removed."""
    if draw(st.booleans()):
        return [
            {"action": "remove-properties", "removals": draw(st.lists(st.sampled_from("abc"), max_size=2))}
        ]
    values = draw(st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "", "ü"]), max_size=2))
    if rarely(draw):
        values["write.metadata.previous-versions-max"] = _one(draw, ["1", "2", "0"])
    return [{"action": "set-properties", "updates": values}]


def location(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """The base location moved."""
    return [{"action": "set-location", "location": _one(draw, [LOCATION, "file:///a", "s3://b/c"])}]


def identity(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """The table's own UUID assigned again."""
    return [{"action": "assign-uuid", "uuid": UUID}]


def upgrade(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """A format version: the next, the same, an earlier, or one that nobody knows."""
    wanted = 77 if rarely(draw) else _one(draw, [1, 2, 3])
    return [{"action": "upgrade-format-version", "format-version": wanted}]


def statistics(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """A statistics file attached to a snapshot, known or not, or detached."""
    ids = [*(row["snapshot-id"] for row in metadata.snapshots), 12345]
    wanted = _one(draw, ids)
    kind = _one(draw, ["statistics", "partition-statistics"])
    if draw(st.integers(0, 2)) == 0:
        return [{"action": f"remove-{kind}", "snapshot-id": wanted}]
    file: JsonObject = {
        "snapshot-id": wanted,
        "statistics-path": f"{LOCATION}/metadata/{draw(st.integers(0, 2))}.puffin",
        "file-size-in-bytes": 2**40,
    }
    if kind == "statistics":
        blob = {
            "type": "t",
            "snapshot-id": wanted,
            "sequence-number": 1,
            "fields": [1],
            "properties": {"n": "1"},
        }
        file |= {"file-footer-size-in-bytes": 10, "blob-metadata": [blob]}
    return [{"action": f"set-{kind}", kind: file}]


def encryption(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """An encryption key added, with and without its optional members, or removed."""
    key_id = _one(draw, ["k1", "k2", "k3"])
    if draw(st.integers(0, 2)) == 0:
        return [{"action": "remove-encryption-key", "key-id": key_id}]
    key: JsonObject = {"key-id": key_id, "encrypted-key-metadata": _one(draw, ["eA==", "AAECAwQF"])}
    if draw(st.booleans()):
        key |= {"encrypted-by-id": "k1", "properties": {"a": "b"}}
    return [{"action": "add-encryption-key", "encryption-key": key}]


def remove_layout(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """Schemas or partition specs forgotten, perhaps the one in use."""
    if draw(st.booleans()):
        current, ids = metadata.current_schema_id, [row["schema-id"] for row in metadata.schemas]
        action, key = "remove-schemas", "schema-ids"
    else:
        current, ids = metadata.default_spec_id, [row["spec-id"] for row in metadata.partition_specs]
        action, key = "remove-partition-specs", "spec-ids"
    others = [one for one in ids if one != current]
    return [{"action": action, key: [current if rarely(draw) else _one(draw, [*others, 77])]}]


STEPS: tuple[Callable[[Draw, TableMetadata], list[JsonObject]], ...] = (
    append, append, append, two_appends, add_schema, add_schema, add_spec, add_order, move_ref, use_schema, use_spec,
    use_order, remove_ref, remove_snapshots, properties, location, identity, upgrade, statistics, encryption,
    remove_layout,
)  # fmt: skip


def commit(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """The updates of one commit: one or two steps, each drawn against the table as it is before the commit."""
    steps = draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=2))
    return [update for step in steps for update in step(draw, metadata)]


def requirements(draw: Draw, metadata: TableMetadata) -> list[JsonObject]:
    """Up to two requirements, most of which hold."""
    name = _one(draw, ["main", "audit", "v1", "gone"])
    ref = metadata.refs.get(name)
    off = 1 if rarely(draw) else 0
    possible: list[JsonObject] = [
        {"type": "assert-table-uuid", "uuid": UUID if not off else UUID.replace("0", "1")},
        {
            "type": "assert-ref-snapshot-id",
            "ref": name,
            "snapshot-id": None if ref is None or off else ref["snapshot-id"],
        },
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": metadata.last_column_id + off},
        {"type": "assert-current-schema-id", "current-schema-id": metadata.current_schema_id + off},
        {
            "type": "assert-last-assigned-partition-id",
            "last-assigned-partition-id": metadata.last_partition_id + off,
        },
        {"type": "assert-default-spec-id", "default-spec-id": metadata.default_spec_id + off},
        {
            "type": "assert-default-sort-order-id",
            "default-sort-order-id": metadata.default_sort_order_id + off,
        },
    ]
    if rarely(draw):
        possible.append({"type": "assert-create"})
    found: list[JsonObject] = draw(st.lists(st.sampled_from(possible), max_size=2))
    return found


@cache
def lived(version: int) -> TableMetadata:
    """A table that has something of everything: what is to be removed has to be there."""
    base = with_history(4, version=version) if version < 3 else table(version=3)
    for number in range(1, 5) if version == 3 else ():
        more = {} if number == 1 else {"parent-snapshot-id": number - 1}
        rows = {"first-row-id": 10 * (number - 1), "added-rows": 10}
        found = snapshot(number, at=NOW + number * 1000, **more, **rows)
        base = applied(base, add_snapshot(found), set_ref(number), now=NOW + number * 1000)
    file = {"statistics-path": f"{LOCATION}/s", "file-size-in-bytes": 1}
    blobs = {"file-footer-size-in-bytes": 1, "blob-metadata": []}
    part = {"source-id": 1, "field-id": 1000, "name": "b", "transform": "bucket[3]"}
    sort = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-last"}
    wider = struct(*table().schema()["fields"], field(4, "more", "int"))
    return applied(
        base,
        *({"action": "set-statistics", "statistics": {"snapshot-id": n, **file, **blobs}} for n in (2, 3)),
        *(
            {"action": "set-partition-statistics", "partition-statistics": {"snapshot-id": n, **file}}
            for n in (2, 3)
        ),
        set_ref(2, "v1", "tag"),
        set_ref(3, "audit"),
        {"action": "add-schema", "schema": wider},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": [part]}},
        {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [sort]}},
        {
            "action": "add-encryption-key",
            "encryption-key": {"key-id": "k1", "encrypted-key-metadata": "eA=="},
        },
        {"action": "set-properties", "updates": {"a": "0"}},
    )


def birth(draw: Draw, version: int) -> list[JsonObject]:
    """The updates that end a staged create, as Java sends them; now and then one is missing or unfit."""
    ids = _counter(0)
    fields = [
        field(ids(), "id", required=True),
        field(ids(), "name", "string"),
        field(ids(), "at", "timestamptz"),
    ]
    fields += [_field(draw, ids, version, f"c{i}") for i in range(draw(st.integers(0, 3)))]
    schema = struct(*fields, **{"schema-id": 0, "identifier-field-ids": [1] if draw(st.booleans()) else []})
    parts = [
        {"source-id": 3, "field-id": 1000, "name": "day", "transform": "day"},
        {"source-id": 1, "field-id": 1001, "name": "bucket", "transform": "bucket[8]"},
    ][: draw(st.integers(0, 2))]
    sorts = [{"source-id": 2, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]
    order = {"order-id": 1, "fields": sorts} if draw(st.booleans()) else {"order-id": 0, "fields": []}
    updates: list[JsonObject] = [
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": version},
        {"action": "add-schema", "schema": schema, "last-column-id": 99},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": parts}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": order},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": LOCATION},
        {"action": "set-properties", "updates": {"a": "b"}},
    ]
    if draw(st.booleans()):
        rows = {"first-row-id": 0, "added-rows": 3} if version >= 3 else {}
        first = snapshot(1, number=0 if version == 1 else 1, at=NOW, **rows)
        updates += [add_snapshot(first), set_ref(1)]
    return updates


def creation(draw: Draw, version: int) -> JsonObject:
    """What a request to create a table says: columns under odd ids, partitioned and sorted, now and then unfit."""
    ids = _counter(draw(st.integers(-1, 40)))
    fields = [
        field(ids(), "id", required=True),
        field(ids(), "at", "timestamptz"),
        field(ids(), "name", "string"),
    ]
    fields += [_field(draw, ids, version, f"c{i}") for i in range(draw(st.integers(0, 4)))]
    fields = draw(st.permutations(fields))
    columns = {one["name"]: one["id"] for one in fields}
    schema = struct(*fields, **{"schema-id": draw(st.integers(0, 3))})
    candidates = [one["id"] for one in fields if one["required"] or rarely(draw)]
    if draw(st.booleans()):
        schema["identifier-field-ids"] = [_one(draw, candidates)]
    parts = [
        {"source-id": columns["at"], "name": "day", "transform": "day"},
        {"source-id": columns["id"], "name": "bucket", "transform": "bucket[8]"},
        {"source-id": columns["name"], "name": _one(draw, ["name", "name_part"]), "transform": "identity"},
        {"source-id": _one(draw, fields)["id"], "name": "any", "transform": _one(draw, _TRANSFORMS)},
    ]
    chosen = draw(st.lists(st.sampled_from(parts), max_size=3, unique_by=lambda part: str(part["name"])))
    numbered = [{**part, "field-id": 1000 + 3 * number} for number, part in enumerate(chosen)]
    sorts = [
        {
            "source-id": _one(draw, fields)["id"],
            "transform": _one(draw, _TRANSFORMS),
            "direction": "asc",
            "null-order": "nulls-last",
        }
        for _ in range(draw(st.integers(0, 2)))
    ]
    return {
        "schema": schema,
        "spec": {"spec-id": draw(st.integers(0, 2)), "fields": numbered},
        "order": {"order-id": 1 if sorts else 0, "fields": sorts},
        "properties": {"format-version": str(version), "a": "b"},
    }
