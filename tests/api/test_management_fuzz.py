"""Mutated requests to the management API: no 5xx, and every error is a problem document."""

import json
import random

import pytest

from tests.api.iceberg_client import Catalog, Http, segment
from tests.api.mutations import mangle, mutate

REQUESTS = 1500


@pytest.mark.slow
def test_mutated_requests_never_give_a_5xx(http: Http, catalog: Catalog) -> None:
    rng = random.Random(4)
    levels, _ = catalog.new_table()
    table = f"/api/v1/buckets/default/namespaces/{segment(*levels)}/tables/t"
    policy = {
        "status": "enabled",
        "settings": {
            "targetFileSizeMB": 64,
            "tiers": [{"belowBytes": 1000, "targetBytes": 2000}],
            "minInputFiles": 5,
        },
    }
    snapshots = {"status": "enabled", "settings": {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 5}}
    seeds = [
        ("PUT", f"{table}/policies/icebergCompaction", policy),
        ("PUT", f"{table}/policies/icebergSnapshotManagement", snapshots),
        (
            "PUT",
            "/api/v1/buckets/default/policies/icebergUnreferencedFileRemoval",
            {"settings": {"unreferencedDays": 3}},
        ),
        ("POST", f"{table}/jobs", {"kind": "icebergCompaction", "dryRun": False}),
        ("GET", f"{table}/policies", None),
        ("GET", f"{table}?x=1", None),
        ("GET", "/api/v1/jobs?bucket=default&namespace=a%1Fb&state=queued&pageSize=3&pageToken=x", None),
        ("GET", "/api/v1/jobs/1", None),
        ("DELETE", f"{table}/policies/icebergCompaction", None),
    ]
    alphabet = b"abc/%.?&=+0129-x"
    for _ in range(REQUESTS):
        method, path, body = rng.choice(seeds)
        raw = bytearray(path.encode())
        if body is None or rng.random() < 0.2:
            position = rng.randrange(len("/api/v1/"), len(raw))
            raw[position : position + rng.randint(0, 2)] = bytes(rng.choice(alphabet) for _ in range(2))
        content = b""
        if body is not None:
            content = json.dumps(mutate(body, rng)).encode("utf-8", "surrogatepass")
            content = mangle(content, rng) if rng.random() < 0.2 else content
        headers = (
            {"If-Match": rng.choice(['"1"', "*", "x", '"' + "9" * 30 + '"'])} if rng.random() < 0.2 else {}
        )
        answer = http.request(
            method, http.base_url.copy_with(raw_path=bytes(raw)), content=content, headers=headers
        )
        sent = (method, bytes(raw), content)
        assert answer.status_code < 500, (answer.text, sent)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json", sent
            assert answer.json()["status"] == answer.status_code, sent
