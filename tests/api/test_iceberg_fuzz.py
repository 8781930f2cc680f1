"""Thousands of mutated requests: whatever is sent, the answer is no 5xx, no HTML, and always the envelope."""

import copy
import json
import random
from typing import Any

import pytest

from tests.api.iceberg_client import SCHEMA, Catalog, Http, append_requirements, append_updates, segment
from tests.factories.views import replacing, setting, version

REQUESTS = 3000
ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    -2,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63) - 1,
    1e308,
    0.5,
    "",
    "x",
    "0",
    "-1",
    "\u0000",
    "ü" * 50,
    "main",
    "a/../../b",
    "file:///etc/passwd",
    [],
    [[]],
    [None],
    [1, "x"],
    {},
    {"a": None},
    {"type": "struct", "fields": []},
    {"id": 1, "name": "x", "type": "long", "required": "yes"},
]


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += paths_in(inner, (*path, key))
    if isinstance(value, list):
        for index, inner in enumerate(value):
            found += paths_in(inner, (*path, index))
    return found


def mutate(body: Any, rng: random.Random) -> Any:
    """The body with one to three members replaced, removed, renamed, doubled."""
    body = copy.deepcopy(body)
    for _ in range(rng.randint(1, 3)):
        places = [place for place in paths_in(body) if place]
        if not places:
            return rng.choice(ODD_VALUES)
        *way, last = rng.choice(places)
        holder = body
        for step in way:
            holder = holder[step]
        action = rng.choice(["replace", "replace", "remove", "rename", "copy"])
        if action == "replace":
            holder[last] = copy.deepcopy(rng.choice(ODD_VALUES))
        elif action == "remove":
            del holder[last]
        elif action == "rename" and isinstance(holder, dict):
            holder[rng.choice([last.upper(), last + "x", "unknown"])] = holder.pop(last)
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[last]))
    return body


def mangle(content: bytes, rng: random.Random) -> bytes:
    """The bytes with a few of them changed, cut or doubled."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        if not changed:
            break
        position = rng.randrange(len(changed))
        action = rng.choice(["flip", "cut", "insert"])
        if action == "flip":
            changed[position] = rng.randrange(256)
        elif action == "cut":
            del changed[position : position + rng.randint(1, 20)]
        else:
            changed[position:position] = bytes(rng.randrange(256) for _ in range(3))
    return bytes(changed)


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


def view_seeds(catalog: Catalog) -> list[tuple[str, str, Any]]:
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


def seeds(catalog: Catalog) -> list[tuple[str, str, Any]]:
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
        ("POST", f"{catalog.table(levels, 't')}/metrics", {"report-type": "scan-report", "metrics": {}}),
    ]


def check(answer: Any, sent: object) -> None:
    assert answer.status_code < 500, (answer.status_code, answer.text, sent)
    assert "html" not in answer.headers.get("content-type", ""), sent
    if answer.status_code >= 400 and answer.content:
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "code"}, sent
        assert error["code"] == answer.status_code, sent


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_bodies_never_give_a_5xx(http: Http, catalog: Catalog, seed: int) -> None:
    rng = random.Random(seed)
    good = seeds(catalog)
    for number in range(REQUESTS):
        if number % 300 == 0:
            good = seeds(catalog)  # a fresh table: earlier requests may have changed or dropped the last one
        method, path, body = rng.choice(good)
        if rng.random() < 0.85:
            content = json.dumps(mutate(body, rng)).encode("utf-8", "surrogatepass")
        else:
            content = mangle(json.dumps(body).encode(), rng)
        check(http.request(method, path, content=content), (method, path, content))


@pytest.mark.slow
def test_mutated_paths_and_queries_never_give_a_5xx(http: Http, catalog: Catalog) -> None:
    rng = random.Random(3)
    levels, _ = catalog.new_table()
    paths = [
        catalog.table(levels, "t"),
        f"{catalog.table(levels, 't')}?snapshots=refs",
        f"{catalog.tables(levels)}?pageSize=1&pageToken=",
        f"{catalog.base}/namespaces?parent=a%1Fb&pageSize=1",
        f"{catalog.base}/namespaces/{segment(*levels)}",
        f"{catalog.table(levels, 't')}/credentials",
        "/iceberg/v1/config?warehouse=default",
        f"{catalog.base}/namespaces/a%20b/views/v",
        f"{catalog.base}/namespaces/{segment(*levels)}/views?pageToken=&pageSize=1",
    ]
    alphabet = b"abc/%.?&=+0129AFx-~!$'()*,;:@[]{}|^`\"<>\\"
    for _ in range(1500):
        mangled = bytearray(rng.choice(paths).encode())
        for _ in range(rng.randint(1, 4)):
            position = rng.randrange(len("/iceberg/"), len(mangled))
            mangled[position : position + rng.randint(0, 2)] = bytes(
                rng.choice(alphabet) for _ in range(rng.randint(1, 3))
            )
        url = http.base_url.copy_with(raw_path=bytes(mangled))
        method = rng.choice(["GET", "GET", "HEAD", "DELETE"])
        check(http.request(method, url), (method, bytes(mangled)))
