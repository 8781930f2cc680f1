"""The management API's buckets and namespaces: every route, every refusal, figures, tags, protection."""

from typing import Any
from uuid import uuid4

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.principals import SYSTEM
from maintenance.ports import JobKind
from table_format.ident import Namespace, TableIdent
from tests.api.iceberg_client import Catalog, Http, segment
from tests.api.test_management import assert_problem

BUCKETS = "/api/v1/buckets"


def fresh(http: Http, **more: Any) -> tuple[str, dict[str, Any]]:
    """A new bucket: its path and document."""
    name = f"b-{uuid4().hex[:12]}"
    made = http.post(BUCKETS, json={"name": name, **more})
    assert made.status_code == 201, made.text
    document: dict[str, Any] = made.json()
    assert made.headers["etag"] == f'"{document["version"]}"'
    return f"{BUCKETS}/{name}", document


def test_a_bucket_is_created_at_a_place_of_its_own_and_described(http: Http) -> None:
    path, made = fresh(http, properties={"owner": "me"}, tags={"team": "a"})
    assert made["location"].startswith("file:///")
    assert made["location"].endswith("/" + made["name"])
    assert made["arn"] == f"arn:aws:s3tables:us-east-1:000000000000:bucket/{made['name']}"
    assert (made["properties"], made["storage"], made["credentials"], made["protected"], made["version"]) == (
        {"owner": "me"},
        {},
        None,
        False,
        1,
    )
    assert set(made["figures"].values()) == {0}
    read = http.get(path)
    assert (read.json(), read.headers["etag"]) == (made, '"1"')
    assert http.get(f"{path}/tags").json() == {"tags": {"team": "a"}}
    config = http.get("/iceberg/v1/config", params={"warehouse": made["arn"]}).json()
    assert config["overrides"]["prefix"] == made["name"]
    assert_problem(http.get(f"{BUCKETS}/nowhere"), 404, "not-found")


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"name": "ab"}, "3 to 63"),
        ({"name": "Upper"}, "3 to 63"),
        ({"name": "a_b"}, "3 to 63"),
        ({"name": "fine", "location": "nowhere"}, "absolute URI"),
        ({"name": "fine", "location": "file:///a/../b"}, "path segment"),
        ({"name": "fine", "location": "file:///a/%2E%2E/b"}, "encoded dot"),
        ({"name": "fine", "tags": {"aws:x": "1"}}, "reserved"),
        ({"name": "fine", "tags": {"": "1"}}, "1 to 128"),
        ({"name": "fine", "tags": {"k": "v" * 257}}, "at most 256"),
        ({"name": "fine", "tags": {str(number): "" for number in range(51)}}, "at most 50"),
        ({"name": "fine", "properties": {"k": 1}}, "properties"),
        ({"name": "fine", "surprise": 1}, "surprise"),
        ({}, "name"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_can_not_be_a_bucket_is_refused_and_not_stored(http: Http, wanted: Any, told: str) -> None:
    assert told in assert_problem(http.post(BUCKETS, json=wanted), 400, "invalid")
    assert_problem(http.get(f"{BUCKETS}/fine"), 404, "not-found")


def test_names_and_places_are_taken_once(http: Http) -> None:
    _, made = fresh(http)
    taken = http.post(BUCKETS, json={"name": made["name"]})
    assert made["name"] in assert_problem(taken, 409, "already-exists")
    for at in (made["location"], made["location"] + "/", made["location"] + "/inner"):
        overlaps = http.post(BUCKETS, json={"name": "overlapping", "location": at})
        assert f"table bucket {made['name']}" in assert_problem(overlaps, 409, "already-exists")


def test_buckets_are_listed_by_prefix_in_pages_with_figures_when_asked(http: Http) -> None:
    family = uuid4().hex[:8]
    for number in range(3):
        fresh_name = f"{family}-{number}"
        assert http.post(BUCKETS, json={"name": fresh_name}).status_code == 201
    first = http.get(BUCKETS, params={"prefix": family, "pageSize": "2"}).json()
    assert [one["name"] for one in first["buckets"]] == [f"{family}-0", f"{family}-1"]
    assert [one["figures"] for one in first["buckets"]] == [None, None]
    rest = {"prefix": family, "pageSize": "2", "pageToken": first["nextPageToken"], "figures": "true"}
    second = http.get(BUCKETS, params=rest).json()
    assert [one["name"] for one in second["buckets"]] == [f"{family}-2"]
    assert second["buckets"][0]["figures"]["tables"] == 0
    assert second["nextPageToken"] is None
    other = {"prefix": "x", "pageToken": first["nextPageToken"]}
    assert_problem(http.get(BUCKETS, params=other), 400, "invalid")
    assert http.get(BUCKETS, params={"prefix": "%"}).json()["buckets"] == []


def whole(**changes: Any) -> dict[str, Any]:
    """All that a PUT replaces."""
    return {"properties": {}, "storage": {}, "credentials": None, "protected": False} | changes


def test_settings_are_replaced_by_the_version_that_was_read(http: Http) -> None:
    path, made = fresh(http)
    changed = http.put(path, json=whole(properties={"a": "b"}, protected=True), headers={"If-Match": '"1"'})
    assert changed.status_code == 200, changed.text
    assert changed.headers["etag"] == '"2"'
    document = changed.json()
    assert (document["properties"], document["protected"]) == ({"a": "b"}, True)
    assert document["resourceId"] == made["resourceId"]
    stale = http.put(path, json=whole(), headers={"If-Match": '"1"'})
    assert "version 2, not 1" in assert_problem(stale, 412, "conflict")
    same = http.put(path, json=whole(properties={"a": "b"}, protected=True))
    assert same.headers["etag"] == '"2"'
    for member in whole():
        part = {name: value for name, value in whole().items() if name != member}
        assert f"body.{member}: Field required" in assert_problem(http.put(path, json=part), 400, "invalid")
    assert http.get(path).json()["properties"] == {"a": "b"}
    assert http.put(path, json=whole()).json()["properties"] == {}
    assert_problem(http.put(f"{BUCKETS}/nowhere", json=whole()), 404, "not-found")


def test_tags_are_replaced_and_their_etag_is_made_of_them(http: Http) -> None:
    path, _ = fresh(http)
    empty = http.get(f"{path}/tags")
    tag = empty.headers["etag"]
    wanted = {"tags": {"k" * 128: "v" * 256, "Ключ": ""}}
    put = http.put(f"{path}/tags", json=wanted, headers={"If-Match": tag})
    assert put.status_code == 200, put.text
    assert put.json() == http.get(f"{path}/tags").json() == {"tags": dict(sorted(wanted["tags"].items()))}
    assert_problem(http.put(f"{path}/tags", json={"tags": {}}, headers={"If-Match": tag}), 412, "conflict")
    assert http.put(f"{path}/tags", json={"tags": {}}).headers["etag"] == tag
    for wrong in ({"k" * 129: ""}, {"AWS:x": ""}, {"a\nb": ""}):
        assert_problem(http.put(f"{path}/tags", json={"tags": wrong}), 400, "invalid")
    fifty = {f"k{number}": "" for number in range(50)}
    assert len(http.put(f"{path}/tags", json={"tags": fifty}).json()["tags"]) == 50
    assert_problem(http.get(f"{BUCKETS}/nowhere/tags"), 404, "not-found")


def test_a_protected_bucket_refuses_to_go_until_it_is_unprotected(http: Http) -> None:
    path, _ = fresh(http, protected=True)
    assert "protected" in assert_problem(http.delete(path), 403, "forbidden")
    assert http.put(path, json=whole()).status_code == 200
    assert_problem(http.delete(path, headers={"If-Match": '"1"'}), 412, "conflict")
    assert http.delete(path, headers={"If-Match": '"2"'}).status_code == 204
    assert_problem(http.delete(path), 404, "not-found")


def test_a_bucket_with_anything_in_it_refuses_to_go_and_says_what(http: Http, platform: Platform) -> None:
    path, made = fresh(http)
    name, base = made["name"], f"/iceberg/v1/{made['name']}"
    assert http.post(f"{path}/namespaces", json={"namespace": ["n"]}).status_code == 201
    assert "contains namespace n" in assert_problem(http.delete(path), 409, "conflict")
    schema = {"type": "struct", "fields": []}
    table = {"name": "t", "schema": schema}
    assert http.post(f"{base}/namespaces/n/tables", json=table).status_code == 200
    assert "contains table n.t" in assert_problem(http.delete(path), 409, "conflict")
    assert http.delete(f"{base}/namespaces/n/tables/t?purgeRequested=true").status_code == 204
    assert http.delete(f"{path}/namespaces/n").status_code == 204
    assert "dropped table n.t" in assert_problem(http.delete(path), 409, "conflict")
    claimed = http.portal.call(platform.jobs.claim, "worker", [JobKind.PURGE], 60_000)
    while claimed.bucket != name:
        claimed = http.portal.call(platform.jobs.claim, "worker", [JobKind.PURGE], 60_000)
    assert "dropped table n.t" in assert_problem(http.delete(path), 409, "conflict")
    http.portal.call(platform.jobs.finish, claimed.id, claimed.lease_token, {"outcome": "done"}, None)
    put = http.put(f"{path}/policies/icebergCompaction", json={"settings": {"targetFileSizeMB": 128}})
    assert put.status_code == 200
    assert http.delete(path).status_code == 204
    assert_problem(http.get(path), 404, "not-found")


def test_the_default_bucket_stays(http: Http) -> None:
    assert "storage.default_bucket" in assert_problem(http.delete(f"{BUCKETS}/default"), 409, "conflict")
    assert http.get("/health/ready").status_code == 200


def test_a_bucket_of_the_same_name_later_is_another_one(http: Http, platform: Platform) -> None:
    path, made = fresh(http, tags={"old": "1"})
    name, base = made["name"], f"/iceberg/v1/{made['name']}"
    assert http.post(f"{base}/namespaces", json={"namespace": ["n"]}).status_code == 200
    schema = {"type": "struct", "fields": []}
    assert http.post(f"{base}/namespaces/n/tables", json={"name": "t", "schema": schema}).status_code == 200
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert http.post(f"{base}/namespaces/n/tables/t", json=commit).status_code == 200
    http.portal.call(platform.tables.purge, SYSTEM, name, TableIdent.of("n", "t"))
    claimed = http.portal.call(platform.jobs.claim, "worker", [JobKind.PURGE], 60_000)
    while claimed.bucket != name:
        claimed = http.portal.call(platform.jobs.claim, "worker", [JobKind.PURGE], 60_000)
    http.portal.call(platform.jobs.finish, claimed.id, claimed.lease_token, {"outcome": "done"}, None)
    http.portal.call(platform.namespaces.drop, SYSTEM, name, Namespace(("n",)))
    assert http.delete(path).status_code == 204

    gone = http.post(f"{base}/namespaces/n/tables/t", json=commit)
    assert (gone.status_code, gone.json()["error"]["type"]) == (404, "NoSuchWarehouseException")
    created = http.post(f"{base}/namespaces/n/tables", json={"name": "t", "schema": schema})
    assert (created.status_code, created.json()["error"]["type"]) == (404, "NoSuchWarehouseException")

    elsewhere = made["location"] + "-elsewhere"
    again = http.post(BUCKETS, json={"name": name, "location": elsewhere})
    assert again.status_code == 201, again.text
    assert again.json()["resourceId"] != made["resourceId"]
    assert http.get(f"{path}/tags").json() == {"tags": {}}
    missing = http.post(f"{base}/namespaces/n/tables/t", json=commit)
    assert (missing.status_code, missing.json()["error"]["type"]) == (404, "NoSuchTableException")
    assert http.post(f"{base}/namespaces", json={"namespace": ["n"]}).status_code == 200
    table = http.post(f"{base}/namespaces/n/tables", json={"name": "t", "schema": schema}).json()
    assert table["metadata"]["location"].startswith(elsewhere + "/")
    outside = {"write.data.path": made["location"] + "/data"}
    wrong = {"requirements": [], "updates": [{"action": "set-properties", "updates": outside}]}
    refused = http.post(f"{base}/namespaces/n/tables/t", json=wrong)
    assert (refused.status_code, elsewhere in refused.text) == (400, True)


def test_figures_are_those_of_the_current_metadata_and_say_so(http: Http, catalog: Catalog) -> None:
    path, made = fresh(http)
    base = f"/iceberg/v1/{made['name']}"
    assert http.post(f"{path}/namespaces", json={"namespace": ["n"]}).status_code == 201
    assert http.post(f"{path}/namespaces", json={"namespace": ["n", "inner"]}).status_code == 201
    schema = {"type": "struct", "fields": []}
    for name in ("full", "empty", "strange"):
        made_table = http.post(f"{base}/namespaces/n/tables", json={"name": name, "schema": schema})
        assert made_table.status_code == 200
    add_snapshot(http, base, "full", {"total-data-files": "3", "total-files-size": str(2**62)})
    add_snapshot(http, base, "strange", {"total-data-files": "x", "total-files-size": "-1"})
    figures = http.get(path).json()["figures"]
    assert figures == http.get(f"{path}/namespaces/n").json()["figures"] | {"namespaces": 2}
    assert (figures["tables"], figures["views"], figures["snapshots"]) == (3, 0, 2)
    assert (figures["dataFiles"], figures["bytes"]) == (3, 2**62)
    assert (figures["currentTables"], figures["staleTables"], figures["unknownTables"]) == (2, 0, 1)

    add_snapshot(http, base, "empty", {"total-data-files": "1", "total-files-size": str(2**63 - 1)})
    listed = http.get(BUCKETS, params={"prefix": made["name"], "figures": "true"}).json()["buckets"][0]
    assert (listed["figures"]["currentTables"], listed["figures"]["staleTables"]) == (1, 1)
    figures = http.get(path).json()["figures"]
    assert (figures["dataFiles"], figures["bytes"], figures["staleTables"]) == (4, 2**62 + 2**63 - 1, 0)


def add_snapshot(http: Http, base: str, table: str, summary: dict[str, str]) -> None:
    metadata = http.get(f"{base}/namespaces/n/tables/{table}").json()["metadata"]
    snapshot = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": metadata["last-updated-ms"],
        "manifest-list": f"{metadata['location']}/metadata/snap.avro",
        "summary": {"operation": "append", **summary},
        "schema-id": 0,
    }
    updates = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1},
    ]
    body = {"requirements": [], "updates": updates}
    answer = http.post(f"{base}/namespaces/n/tables/{table}", json=body)
    assert answer.status_code == 200, answer.text


def test_a_namespace_from_making_to_deleting(http: Http) -> None:
    path, made = fresh(http)
    answer = http.post(
        f"{path}/namespaces", json={"namespace": ["odd/name %"], "properties": {"owner": "me"}}
    )
    assert answer.status_code == 201, answer.text
    document = answer.json()
    assert (document["bucket"], document["namespace"], document["properties"]) == (
        made["name"],
        ["odd/name %"],
        {"owner": "me"},
    )
    assert document["location"] == f"{made['location']}/odd_name"
    own = f"{path}/namespaces/{segment('odd/name %')}"
    assert http.get(own).json() == document
    assert http.get(own).headers["etag"] == '"1"'
    again = http.post(f"{path}/namespaces", json={"namespace": ["odd/name %"]})
    assert_problem(again, 409, "already-exists")
    orphan = http.post(f"{path}/namespaces", json={"namespace": ["no", "parent"]})
    assert_problem(orphan, 404, "not-found")
    assert_problem(http.post(f"{path}/namespaces", json={"namespace": []}), 400, "invalid")
    assert_problem(http.post(f"{BUCKETS}/nowhere/namespaces", json={"namespace": ["n"]}), 404, "not-found")

    put = http.put(f"{own}/properties", json={"properties": {"a": "b"}}, headers={"If-Match": '"1"'})
    assert (put.status_code, put.json()["properties"], put.headers["etag"]) == (200, {"a": "b"}, '"2"')
    stale = http.put(f"{own}/properties", json={"properties": {}}, headers={"If-Match": '"1"'})
    assert_problem(stale, 412, "conflict")
    outside = http.put(f"{own}/properties", json={"properties": {"location": "file:///elsewhere"}})
    assert_problem(outside, 400, "invalid")
    assert http.put(f"{own}/properties", json={"properties": {"a": "b"}}).headers["etag"] == '"2"'

    child = f"{path}/namespaces/{segment('odd/name %', 'child')}"
    assert http.post(f"{path}/namespaces", json={"namespace": ["odd/name %", "child"]}).status_code == 201
    assert "child" in assert_problem(http.delete(own), 409, "conflict")
    assert http.delete(child).status_code == 204
    assert_problem(http.delete(own, headers={"If-Match": '"1"'}), 412, "conflict")
    assert http.delete(own, headers={"If-Match": '"2"'}).status_code == 204
    assert_problem(http.get(own), 404, "not-found")
    assert_problem(http.delete(own), 404, "not-found")
