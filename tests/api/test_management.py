"""The management API: every route's answer and its problem documents."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from catalog_server.api.management.router import describe_api
from tests.api.iceberg_client import Catalog, Http, segment


def assert_problem(answer: Any, status: int, kind: str) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["type"] == f"urn:frazil:problem:{kind}"
    assert body["title"]
    detail: str = body["detail"]
    assert detail
    return detail


def table_path(levels: tuple[str, ...], name: str) -> str:
    return f"/api/v1/buckets/default/namespaces/{segment(*levels)}/tables/{segment(name)}"


def test_namespaces_and_tables(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table("odd/name %")
    child = catalog.new_namespace(*levels, "child")
    catalog.create(child, "inner")
    below = http.get("/api/v1/buckets/default/namespaces", params={"parent": levels[0]}).json()
    assert below["namespaces"] == [list(child)]
    own = http.get("/api/v1/buckets/default/tables", params={"namespace": levels[0]}).json()["tables"]
    assert [(table["namespace"], table["name"]) for table in own] == [(list(levels), "odd/name %")]
    assert own[0]["metadataLocation"] == created["metadata-location"]
    assert own[0]["uuid"] == created["metadata"]["table-uuid"]
    everything = http.get("/api/v1/buckets/default/tables?pageSize=1000").json()["tables"]
    assert {"odd/name %", "inner"} <= {table["name"] for table in everything}
    assert_problem(http.get("/api/v1/buckets/default/tables?namespace=missing"), 404, "not-found")
    assert_problem(http.get("/api/v1/buckets/nowhere/tables"), 404, "not-found")


def test_table_details_of_an_empty_table(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table("a+b c")
    details = http.get(table_path(levels, "a+b c")).json()
    assert details["table"]["name"] == "a+b c"
    assert details["formatVersion"] == 2
    figures = details["figures"]
    assert figures["snapshots"] == figures["dataFiles"] == figures["records"] == figures["bytes"] == 0
    assert figures["currentSnapshotId"] is None
    assert figures["metadataBytes"] > 100
    assert figures["fileSizes"][-1]["belowBytes"] is None
    assert created["metadata"]["table-uuid"] == details["table"]["uuid"]
    assert_problem(http.get(table_path(levels, "missing")), 404, "not-found")


@pytest.mark.parametrize("scope", ["bucket", "namespace", "table"])
def test_policies_at_each_scope(http: Http, catalog: Catalog, scope: str) -> None:
    levels, _ = catalog.new_table()
    path = {
        "bucket": "/api/v1/buckets/default/policies/icebergSnapshotManagement",
        "namespace": f"/api/v1/buckets/default/namespaces/{levels[0]}/policies/icebergSnapshotManagement",
        "table": f"{table_path(levels, 't')}/policies/icebergSnapshotManagement",
    }[scope]
    assert_problem(http.get(path), 404, "not-found")
    body = {"status": "enabled", "settings": {"minSnapshotsToKeep": 3}}
    put = http.put(path, json=body)
    assert put.status_code == 200, put.text
    tag = put.headers["etag"]
    read = http.get(path)
    assert read.headers["etag"] == tag
    assert (read.json()["scope"], read.json()["settings"], read.json()["status"]) == (
        scope,
        {"minSnapshotsToKeep": 3},
        "enabled",
    )
    newer = http.put(path, json={"status": "disabled", "settings": {}}, headers={"If-Match": tag})
    assert newer.status_code == 200
    assert newer.headers["etag"] != tag
    stale = http.put(path, json=body, headers={"If-Match": tag})
    assert_problem(stale, 412, "conflict")
    assert http.get(path).json()["status"] == "disabled"
    assert_problem(http.delete(path, headers={"If-Match": tag}), 412, "conflict")
    assert http.delete(path).status_code == 204
    assert_problem(http.get(path), 404, "not-found")


def test_effective_policies_name_the_source_of_each_value(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    namespace_policy = f"/api/v1/buckets/default/namespaces/{levels[0]}/policies/icebergCompaction"
    body = {"status": "enabled", "settings": {"targetFileSizeMB": 128}}
    assert http.put(namespace_policy, json=body).status_code == 200
    listed = http.get(f"/api/v1/buckets/default/namespaces/{levels[0]}/policies").json()["policies"]
    assert [policy["type"] for policy in listed] == ["icebergCompaction"]
    effective = http.get(f"{table_path(levels, 't')}/policies/effective").json()["policies"]
    by_type = {policy["type"]: policy for policy in effective}
    assert set(by_type) == {
        "icebergCompaction",
        "icebergSnapshotManagement",
        "icebergUnreferencedFileRemoval",
        "icebergRecordExpiration",
        "icebergManifests",
        "icebergStatistics",
    }
    compaction = by_type["icebergCompaction"]
    assert compaction["settings"]["targetFileSizeMB"] == 128
    assert compaction["sources"]["targetFileSizeMB"] == f"namespace {levels[0]}"
    assert by_type["icebergSnapshotManagement"]["sources"]["minSnapshotsToKeep"] == "default"
    assert_problem(http.get(f"{table_path(levels, 'missing')}/policies"), 404, "not-found")


@pytest.mark.parametrize(
    "body",
    [
        {"settings": {"targetFileSizeMB": 1}},
        {"settings": {"targetFileSizeMB": "128"}},
        {"settings": {"nonsense": 1}},
        {"settings": []},
        {"status": "maybe", "settings": {}},
        {"status": 5},
        {"unknown": 1},
        [],
        "x",
        None,
    ],
)
def test_malformed_policies_are_400(http: Http, body: object) -> None:
    answer = http.put("/api/v1/buckets/default/policies/icebergCompaction", json=body)
    assert_problem(answer, 400, "invalid")


def test_odd_policy_requests(http: Http) -> None:
    path = "/api/v1/buckets/default/policies/icebergCompaction"
    assert_problem(http.put(path, content=b"{"), 400, "invalid")
    assert_problem(http.put(path, json={}, headers={"If-Match": "nonsense"}), 400, "invalid")
    assert_problem(http.put(path, json={}, headers={"If-Match": "9" * 5000}), 400, "invalid")
    assert_problem(http.put("/api/v1/buckets/default/policies/nonsense", json={}), 400, "invalid")
    assert_problem(http.put("/api/v1/buckets/nowhere/policies/icebergCompaction", json={}), 404, "not-found")
    assert_problem(http.put(path, content=b"x" * (33 << 20)), 413, "invalid")
    assert_problem(http.put(path, content=b"[" + b"{}," * (1 << 19) + b"{}]"), 413, "invalid")


def test_jobs(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    path = f"{table_path(levels, 't')}/jobs"
    asked = http.post(path, json={"kind": "icebergCompaction", "dryRun": True})
    assert asked.status_code == 202, asked.text
    job = asked.json()
    assert (job["state"], job["kind"], job["dryRun"], job["table"]) == (
        "queued",
        "icebergCompaction",
        True,
        "t",
    )
    assert job["namespace"] == list(levels)
    again = http.post(path, json={"kind": "icebergCompaction", "dryRun": True}).json()
    assert again["id"] == job["id"]
    shown = http.get(f"/api/v1/jobs/{job['id']}").json()
    assert shown.pop("nextRun")["why"] == "interval"  # a dry run puts nothing off
    assert shown == again
    for query, count in (
        ({"namespace": levels[0], "table": "t"}, 1),
        ({"namespace": levels[0], "kind": "icebergCompaction", "bucket": "default", "state": "queued"}, 1),
        ({"namespace": levels[0], "state": "done"}, 0),
        ({"namespace": levels[0], "kind": "icebergSnapshotManagement"}, 0),
    ):
        assert len(http.get("/api/v1/jobs", params=query).json()["jobs"]) == count, query


def test_jobs_come_in_pages_newest_first(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    kinds = ["icebergCompaction", "icebergSnapshotManagement", "icebergUnreferencedFileRemoval"]
    made = [http.post(f"{table_path(levels, 't')}/jobs", json={"kind": kind}).json()["id"] for kind in kinds]
    seen: list[int] = []
    token = ""
    while True:
        query = {"namespace": levels[0], "pageSize": "2", "pageToken": token}
        page = http.get("/api/v1/jobs", params=query).json()
        seen += [job["id"] for job in page["jobs"]]
        token = page["nextPageToken"]
        if token is None:
            break
    assert seen == made[::-1]


def test_odd_job_requests(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    path = f"{table_path(levels, 't')}/jobs"
    assert_problem(http.post(path, json={"kind": "nonsense"}), 400, "invalid")
    assert_problem(http.post(path, json={}), 400, "invalid")
    assert_problem(http.post(path, json={"kind": "icebergCompaction", "dryRun": "yes"}), 400, "invalid")
    missing = f"{table_path(levels, 'missing')}/jobs"
    assert_problem(http.post(missing, json={"kind": "icebergCompaction"}), 404, "not-found")
    assert_problem(http.get("/api/v1/jobs/999999999"), 404, "not-found")
    assert_problem(http.get("/api/v1/jobs/x"), 400, "invalid")
    assert_problem(http.get(f"/api/v1/jobs/{2**64}"), 400, "invalid")
    assert_problem(http.get("/api/v1/jobs?pageSize=0"), 400, "invalid")
    assert_problem(http.get("/api/v1/jobs?pageToken=nonsense"), 400, "invalid")
    beyond = base64.urlsafe_b64encode(json.dumps(["jobs", str(2**64)]).encode()).decode()
    assert_problem(http.get(f"/api/v1/jobs?pageToken={beyond}"), 400, "invalid")


@pytest.mark.parametrize("raw", ["%ff", "%00", "%zz", "%1F"])
def test_path_nonsense_is_400(http: Http, raw: str) -> None:
    url = http.base_url.copy_with(raw_path=f"/api/v1/buckets/default/namespaces/{raw}/tables/t".encode())
    assert_problem(http.get(url), 400, "invalid")


def test_unknown_paths_and_methods_are_problems(http: Http) -> None:
    assert_problem(http.get("/api"), 404, "not-found")
    assert_problem(http.get("/api/v1/nowhere"), 404, "not-found")
    assert_problem(http.get("/nowhere"), 404, "not-found")
    assert_problem(http.put("/api/v1/buckets"), 405, "invalid")
    assert_problem(http.post("/health/live"), 405, "invalid")


def test_the_committed_openapi_document_is_up_to_date() -> None:
    """Renew it with: frazil openapi export openapi/management.json"""
    committed = json.loads((Path(__file__).parents[2] / "openapi/management.json").read_bytes())
    assert describe_api().openapi() == committed


def test_openapi_names_every_route(http: Http) -> None:
    document = http.get("/api/openapi.json").json()
    assert document["info"]["title"] == "Frazil management API"
    table = "/v1/buckets/{bucket}/namespaces/{namespace}/tables/{table}"
    assert set(document["paths"]) == {
        "/v1/buckets",
        "/v1/buckets/{bucket}",
        *(
            f"{resource}/{kept}"
            for resource in ("/v1/buckets/{bucket}", table)
            for kept in ("tags", "resource-policy", "encryption", "storage-class")
        ),
        "/v1/buckets/{bucket}/metrics-configuration",
        "/v1/buckets/{bucket}/namespaces",
        "/v1/buckets/{bucket}/namespaces/{namespace}",
        "/v1/buckets/{bucket}/namespaces/{namespace}/properties",
        "/v1/buckets/{bucket}/tables",
        *(
            f"/v1/buckets/{{bucket}}{scope}/policies{below}"
            for scope in ("", "/namespaces/{namespace}", "/namespaces/{namespace}/tables/{table}")
            for below in ("", "/effective", "/history", "/{policy_type}")
        ),
        "/v1/buckets/{bucket}/namespaces/{namespace}/tables",
        "/v1/buckets/{bucket}/dropped-tables",
        "/v1/buckets/{bucket}/dropped-tables/{dropped}",
        "/v1/buckets/{bucket}/dropped-tables/{dropped}/undrop",
        "/v1/buckets/{bucket}/dropped-tables/{dropped}/purge",
        table,
        f"{table}/files",
        f"{table}/snapshots",
        f"{table}/refs",
        f"{table}/protection",
        f"{table}/rename",
        f"{table}/unregister",
        f"{table}/metrics-reports",
        f"{table}/noncurrent-files",
        f"{table}/noncurrent-files/hold",
        f"{table}/jobs",
        f"{table}/maintenance",
        f"{table}/maintenance/plan",
        f"{table}/ingest",
        "/v1/buckets/{bucket}/ingest/topics",
        "/v1/buckets/{bucket}/ingest/topics/{topic}",
        "/v1/buckets/{bucket}/ingest/history",
        "/v1/jobs",
        "/v1/jobs/{job}",
        "/v1/jobs/{job}/cancel",
        "/v1/jobs/{job}/retry",
    }
    identities = [
        operation["operationId"] for path in document["paths"].values() for operation in path.values()
    ]
    assert len(identities) == len(set(identities))
    put = document["paths"][f"{table}/policies/{{policy_type}}"]["put"]
    assert {parameter["name"] for parameter in put["parameters"]} >= {
        "bucket",
        "namespace",
        "table",
        "policy_type",
    }


def test_a_parameter_that_an_operation_does_not_have_is_refused_and_nothing_is_done(
    http: Http, catalog: Catalog
) -> None:
    """Passed over, `?dryRun=true` where the body says it would be a real run."""
    levels, _ = catalog.new_table()
    path = table_path(levels, "t")
    asked = http.post(f"{path}/jobs", params={"dryRun": "true"}, json={"kind": "icebergCompaction"})
    assert "unknown parameter 'dryRun' of this operation: it has none" in assert_problem(
        asked, 400, "invalid"
    )
    told = assert_problem(http.delete(path, params={"purg": "true"}), 400, "invalid")
    assert "unknown parameter 'purg' of this operation: it has purge" in told
    assert http.get(path).status_code == 200
    listed = http.get("/api/v1/jobs", params={"table": "t", "namespace": levels[0]}).json()["jobs"]
    assert listed == []
    misspelt = http.get("/api/v1/buckets/default/tables", params={"namspace": levels[0]})
    assert "it has namespace, pageSize, pageToken, prefix" in assert_problem(misspelt, 400, "invalid")


def test_jobs_of_a_bucket_that_is_not_there_are_no_empty_list(http: Http) -> None:
    found = http.get("/api/v1/jobs", params={"bucket": "nowhere"})
    assert "Table bucket does not exist: nowhere" in assert_problem(found, 404, "not-found")
