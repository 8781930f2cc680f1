"""Thousands of malformed requests to the management API: no 5xx, every error a problem document, nothing changed."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog_server.api.management.router import describe_api
from tests.api import fuzzing
from tests.api.direct import Answer, Sent
from tests.api.iceberg_client import Catalog
from tests.api.mutations import ODD_NAMES, mangle, mutate, odd_headers, odd_query, odd_target, odd_verb

OPERATIONS = [
    (verb.upper(), path, [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"])
    for path, item in describe_api().openapi()["paths"].items()
    for verb, operation in item.items()
]
COMPACTION = {
    "status": "enabled",
    "settings": {
        "targetFileSizeMB": 64,
        "tiers": [{"belowBytes": 1000, "targetBytes": 2000}],
        "minInputFiles": 5,
    },
}
SNAPSHOTS = {"status": "enabled", "settings": {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 5}}
KEY = "arn:aws:kms:us-east-1:000000000000:key/one"
NEW_TABLE = {
    "name": "made",
    "schema": {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "a", "required": True, "type": "long"},
            {
                "id": 2,
                "name": "b",
                "required": False,
                "type": {"type": "list", "element-id": 3, "element": "int"},
            },
        ],
    },
    "partitionSpec": {"fields": [{"source-id": 1, "transform": "bucket[4]", "name": "a_bucket"}]},
    "writeOrder": {
        "order-id": 1,
        "fields": [
            {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
        ],
    },
    "properties": {"a": "b"},
}
UNREFERENCED = {"settings": {"unreferencedDays": 3}}


def check(answer: Answer, sent: Sent) -> None:
    assert 0 < answer.status < 500, (answer, sent)
    if answer.status >= 400:
        assert answer.headers["content-type"] == "application/problem+json", (answer, sent)
        problem = json.loads(answer.body)
        assert set(problem) == {"type", "title", "status", "detail"}, sent
        assert problem["status"] == answer.status, sent


def bodies(table: str) -> list[tuple[str, str, Any]]:
    """One good request of every kind that takes a body."""
    found = []
    for scope in ("/v1/buckets/default", table.partition("/tables/")[0], table):
        found += [
            ("PUT", f"{scope}/policies/icebergCompaction", COMPACTION),
            ("PUT", f"{scope}/policies/icebergSnapshotManagement", SNAPSHOTS),
        ]
    for scope in ("/v1/buckets/default", table):
        found += [
            ("PUT", f"{scope}/tags", {"tags": {"team": "a"}}),
            ("PUT", f"{scope}/resource-policy", {"resourcePolicy": '{"Statement": [{"Effect": "Deny"}]}'}),
            ("PUT", f"{scope}/encryption", {"sseAlgorithm": "aws:kms", "kmsKeyArn": KEY}),
            ("PUT", f"{scope}/storage-class", {"storageClass": "STANDARD"}),
        ]
    return [
        *found,
        ("PUT", "/v1/buckets/default/metrics-configuration", {"enabled": True}),
        ("PUT", "/v1/buckets/default/policies/icebergUnreferencedFileRemoval", UNREFERENCED),
        ("POST", "/v1/buckets", {"name": "fuzzed", "properties": {"a": "b"}, "tags": {"a": "b"}}),
        (
            "PUT",
            "/v1/buckets/default",
            {"properties": {"a": "b"}, "storage": {}, "credentials": None, "protected": False},
        ),
        ("PUT", "/v1/buckets/default/ingest/topics/clicks", {"settings": {"namespace": "web"}}),
        ("POST", "/v1/buckets/default/namespaces", {"namespace": ["f"], "properties": {"a": "b"}}),
        ("PUT", f"{table.partition('/tables/')[0]}/properties", {"properties": {"a": "b"}}),
        ("POST", f"{table}/jobs", {"kind": "icebergCompaction", "dryRun": False}),
        ("POST", f"{table}/maintenance/plan", {"kind": "icebergCompaction"}),
        ("POST", table.rpartition("/")[0], {"name": "r", "metadataLocation": "file:///x", "overwrite": True}),
        ("POST", table.rpartition("/")[0], NEW_TABLE),
        ("POST", f"{table}/rename", {"namespace": ["a"], "name": "b"}),
        ("PUT", f"{table}/protection", {"protected": False}),
        ("PUT", f"{table}/noncurrent-files/hold?path=file:///x", {"untilMs": 1}),
        ("POST", "/v1/buckets/default/dropped-tables/x/undrop", {"namespace": ["a"], "name": "b"}),
    ]


def requests(catalog: Catalog, rng: random.Random) -> Iterator[Sent]:
    """Without end."""
    levels, _ = catalog.new_table()
    names = {"bucket": "default", "namespace": levels[0], "table": "t", "policy_type": "icebergCompaction"}
    good = bodies(f"/v1/buckets/default/namespaces/{levels[0]}/tables/t")
    while True:
        if rng.random() < 0.5:
            method, path, body = rng.choice(good)
            content = fuzzing.packed(mutate(body, rng))
            content = mangle(content, rng) if rng.random() < 0.2 else content
            yield Sent(method, f"/api{path}".encode(), content, _headers(rng))
            continue
        method, path, parameters = rng.choice(OPERATIONS)
        parts = [b"/api"]
        for part in path.removeprefix("/api").split("/")[1:]:
            known = names.get(part.strip("{}"), "1").encode() if part.startswith("{") else part.encode()
            parts.append(rng.choice(ODD_NAMES) if part.startswith("{") and rng.random() < 0.3 else known)
        target = b"/".join(parts)
        target = odd_target(target, rng) if rng.random() < 0.3 else target
        target += b"?" + odd_query(parameters, rng) if rng.random() < 0.5 else b""
        yield Sent(odd_verb(rng) if rng.random() < 0.2 else method, target, b"{}", _headers(rng))


def _headers(rng: random.Random) -> Any:
    json_body = (b"content-type", b"application/json")
    return (json_body, *odd_headers(rng)) if rng.random() < 0.3 else (json_body,)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", fuzzing.chunks(fuzzing.REQUESTS // 5))
def test_malformed_requests(tmp_path: Path, chunk: int) -> None:
    fuzzing.run(tmp_path, chunk, requests, check)


def test_every_operation_that_takes_a_body_is_fuzzed() -> None:
    """A new one needs a good request above."""
    sent = {
        (method, path.partition("?")[0])
        for method, path, _ in bodies("/v1/buckets/default/namespaces/a/tables/t")
    }
    for path, item in describe_api().openapi()["paths"].items():
        pattern = re.compile(re.sub(r"{[^}]+}", "[^/]+", path))
        for verb, operation in item.items():
            if "requestBody" in operation:
                assert any(pattern.fullmatch(one) for method, one in sent if method == verb.upper()), path
