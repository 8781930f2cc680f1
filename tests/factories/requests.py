"""One good request of every kind that takes a body, as (verb, path, body): to be mutated, or to be recorded."""

import uuid
from typing import Any

from table_format.ident import TableIdent
from tests.api.iceberg_client import SCHEMA, Catalog, append_requirements, append_updates, segment
from tests.factories.lake import BY_NAME
from tests.factories.scans import ClientCatalog, PlannedLake
from tests.factories.views import replacing, setting, version

Request = tuple[str, str, Any]


def every_update(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    location = metadata["location"]
    statistics = {
        "snapshot-id": 1,
        "statistics-path": f"{location}/metadata/s.puffin",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [{"type": "x", "snapshot-id": 1, "sequence-number": 1, "fields": [1]}],
    }
    partition_statistics = {
        "snapshot-id": 1,
        "statistics-path": f"{location}/metadata/p",
        "file-size-in-bytes": 1,
    }
    return [
        *append_updates(metadata, 1),
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": SCHEMA, "last-column-id": 2},
        {"action": "set-current-schema", "schema-id": -1},
        {
            "action": "add-spec",
            "spec": {"spec-id": 1, "fields": [{"source-id": 1, "transform": "bucket[4]", "name": "b"}]},
        },
        {"action": "set-default-spec", "spec-id": -1},
        {
            "action": "add-sort-order",
            "sort-order": {
                "order-id": 1,
                "fields": [
                    {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
                ],
            },
        },
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": {"a": "b"}},
        {"action": "remove-properties", "removals": ["a", "zz"]},
        {"action": "set-statistics", "snapshot-id": 1, "statistics": statistics},
        {"action": "remove-statistics", "snapshot-id": 1},
        {"action": "set-partition-statistics", "partition-statistics": partition_statistics},
        {"action": "remove-partition-statistics", "snapshot-id": 1},
        {"action": "remove-snapshot-ref", "ref-name": "other"},
        {"action": "remove-snapshots", "snapshot-ids": [12345]},
        {"action": "remove-partition-specs", "spec-ids": [7]},
        {"action": "remove-schemas", "schema-ids": [7]},
    ]


def every_requirement(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        *append_requirements(metadata),
        {"type": "assert-current-schema-id", "current-schema-id": 0},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
        {"type": "assert-default-spec-id", "default-spec-id": 0},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
    ]


def view_seeds(catalog: Catalog) -> list[Request]:
    """One good request of every kind on views that takes a body."""
    levels = catalog.new_namespace()
    namespace = f"{catalog.base}/namespaces/{segment(*levels)}"
    create = {"name": "v", "schema": SCHEMA, "view-version": version(), "properties": {"a": "b"}}
    made = catalog.http.post(f"{namespace}/views", json=create).json()
    metadata = made["metadata"]
    updates = [
        {"action": "assign-uuid", "uuid": metadata["view-uuid"]},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "set-location", "location": metadata["location"]},
        setting(a="b", **{"version_history_num-entries": "4"}),
        {"action": "remove-properties", "removals": ["a", "zz"]},
        *replacing(schema=SCHEMA),
    ]
    needs = [{"type": "assert-view-uuid", "uuid": metadata["view-uuid"]}]
    identifier = {"namespace": list(levels), "name": "v"}
    return [
        *(
            ("POST", f"{namespace}/views/v", {"requirements": needs, "updates": [update]})
            for update in updates
        ),
        ("POST", f"{namespace}/views/v", {"requirements": needs, "updates": updates}),
        ("POST", f"{namespace}/views", {**create, "name": "fuzzed"}),
        ("POST", f"{namespace}/register-view", {"name": "r", "metadata-location": made["metadata-location"]}),
        ("POST", f"{catalog.base}/views/rename", {"source": identifier, "destination": identifier}),
    ]


def scan_seeds(catalog: Catalog) -> list[Request]:
    """One good request of every kind that a reader of files sends."""
    levels = (f"scanned_{uuid.uuid4().hex[:12]}",)
    lake = PlannedLake(ClientCatalog(catalog), TableIdent.of(*levels, "t"), schema=SCHEMA, spec=BY_NAME)
    lake.append_named("a", "b", partition=("x",))
    one = catalog.table(levels, "t")
    left, right = ({"type": kind, "term": "id", "value": 5} for kind in ("gt-eq", "not-eq"))
    name = {"type": "is-null", "child": {"type": "reference", "name": "name"}}
    among = {
        "type": "in",
        "term": {"type": "transform", "transform": "bucket[4]", "term": "id"},
        "values": [1, 2],
    }
    both = {"type": "and", "left": left, "right": {"type": "not", "child": right}}
    either = {"type": "or", "left": {"type": "or", "left": name, "right": among}, "right": both}
    plan = {
        "snapshot-id": lake.metadata.current_snapshot_id,
        "select": ["id"],
        "filter": either,
        "case-sensitive": True,
        "use-snapshot-schema": False,
        "stats-fields": ["id", "name"],
        "min-rows-requested": 10,
    }
    made = catalog.http.post(f"{one}/plan", json={"select": ["id"]}).json()
    tokens = catalog.http.get(f"{one}/plan/{made['plan-id']}").json()["plan-tasks"]
    sign = {
        "region": "x",
        "uri": "s3://a/b",
        "method": "GET",
        "headers": {"a": ["b"]},
        "properties": {"c": "d"},
    }
    return [
        *[("POST", f"{one}/plan", plan)] * 4,
        ("POST", f"{one}/tasks", {"plan-task": tokens[0]}),
        ("POST", f"{one}/sign", sign),
    ]


def seeds(catalog: Catalog) -> list[Request]:
    """One good request of every kind that takes a body."""
    levels, loaded = catalog.new_table()
    metadata = loaded["metadata"]
    one_update = [
        (
            "POST",
            catalog.table(levels, "t"),
            {"requirements": every_requirement(metadata)[:2], "updates": [update]},
        )
        for update in every_update(metadata)
    ]
    identifier = {"namespace": list(levels), "name": "t"}
    change = {
        "identifier": identifier,
        "requirements": every_requirement(metadata),
        "updates": every_update(metadata),
    }
    register = {"name": "r", "metadata-location": loaded["metadata-location"], "overwrite": False}
    create = {
        "name": "fuzzed",
        "schema": SCHEMA,
        "partition-spec": {"spec-id": 0, "fields": [{"source-id": 1, "transform": "identity", "name": "id"}]},
        "write-order": {"order-id": 0, "fields": []},
        "properties": {"a": "b"},
        "stage-create": True,
    }
    return [
        *one_update,
        *view_seeds(catalog),
        *scan_seeds(catalog),
        ("POST", catalog.table(levels, "t"), {key: change[key] for key in ("requirements", "updates")}),
        ("POST", f"{catalog.base}/transactions/commit", {"table-changes": [change]}),
        ("POST", catalog.tables(levels), create),
        ("POST", f"{catalog.base}/namespaces", {"namespace": [*levels, "x"], "properties": {"a": "b"}}),
        (
            "POST",
            f"{catalog.base}/namespaces/{segment(*levels)}/properties",
            {"updates": {"a": "b"}, "removals": ["c"]},
        ),
        ("POST", f"{catalog.base}/namespaces/{segment(*levels)}/register", register),
        ("POST", f"{catalog.base}/tables/rename", {"source": identifier, "destination": identifier}),
        ("POST", f"{catalog.table(levels, 't')}/metrics", scan_report()),
    ]


def scan_report() -> dict[str, Any]:
    return {
        "report-type": "scan-report",
        "table-name": "t",
        "snapshot-id": 1,
        "filter": {"type": "eq", "term": "id", "value": 5},
        "schema-id": 0,
        "projected-field-ids": [1],
        "projected-field-names": ["id"],
        "metrics": {"total-planning-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 5}},
    }
