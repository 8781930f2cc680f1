"""Tables over HTTP: create, stage, load, list, drop, register, rename, metrics, credentials."""

import gzip
import json
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import zstandard

from catalog_server.bootstrap import Platform
from tests.api.iceberg_client import (
    SCHEMA,
    Catalog,
    Http,
    append_requirements,
    append_updates,
    assert_error,
    segment,
)


def test_create_answers_the_stored_metadata(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table(properties={"a": "b"})
    location = created["metadata-location"]
    assert location.startswith("file:///")
    stored = json.loads(Path(urlsplit(location).path).read_bytes())
    assert created["metadata"] == stored
    assert created["config"] == {}
    assert stored["properties"]["a"] == "b"
    loaded = http.get(catalog.table(levels, "t"))
    assert loaded.json() == created


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_location_is_answered_as_given_in_either_slash_form(
    http: Http, catalog: Catalog, platform: Platform, slash: str
) -> None:
    levels = catalog.new_namespace()
    bucket = http.portal.call(platform.commits.bucket, "default").location.removeprefix("file://")
    place = f"{bucket}/{levels[0]}/given"
    staged = catalog.create(levels, "t", **{"location": f"file:{place}{slash}", "stage-create": True})
    assert staged.json()["metadata"]["location"] == f"file:{place}{slash}"

    created = catalog.create(levels, "t", location=f"file:{place}{slash}").json()
    assert created["metadata"]["location"] == f"file:{place}{slash}"
    assert created["metadata-location"].startswith(f"file:{place}/metadata/00000-")
    assert http.get(catalog.table(levels, "t")).json() == created
    answer = catalog.commit(
        levels, "t", append_updates(created["metadata"], 1), append_requirements(created["metadata"])
    )
    assert answer.status_code == 200, answer.text
    assert Path(answer.json()["metadata-location"].removeprefix("file:")).is_file()
    # The other form is the same place.
    for other in (f"file://{place}", f"file://{place}/below"):
        assert_error(catalog.create(levels, "u", location=other), 409, "AlreadyExistsException")


def test_a_metadata_file_that_is_gone_is_told_though_it_is_in_memory(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    path = catalog.table(levels, "t")
    tag = http.get(path).headers["etag"]
    file = Path(urlsplit(created["metadata-location"]).path)
    away = file.rename(file.with_name("away"))
    for headers in ({}, {"If-None-Match": tag}):
        message = assert_error(http.get(path, headers=headers), 404, "NotFoundException")
        assert message == f"Failed to open input stream for file: {created['metadata-location']}"
    assert http.head(path).status_code == 204
    away.rename(file)
    assert http.get(path).json() == created
    file.unlink()
    assert http.delete(path).status_code == 204


def test_R35_an_empty_table_has_consistent_members(catalog: Catalog) -> None:
    _, created = catalog.new_table()
    metadata = created["metadata"]
    assert metadata.get("current-snapshot-id", -1) in {-1, None}
    assert metadata["snapshots"] == []
    assert metadata["refs"] == {}
    assert metadata["snapshot-log"] == []
    assert metadata["metadata-log"] == []


def test_second_create_is_409(catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    message = assert_error(catalog.create(levels, "t"), 409, "AlreadyExistsException")
    assert message == f"Table already exists: {levels[0]}.t"
    assert_error(catalog.create(levels, "t", **{"stage-create": True}), 409, "AlreadyExistsException")


def test_create_in_a_missing_namespace_is_404(catalog: Catalog) -> None:
    message = assert_error(catalog.create(("missing",), "t"), 404, "NoSuchNamespaceException")
    assert message == "Namespace does not exist: missing"


def test_a_staged_create_stores_nothing_until_its_commit(http: Http, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    staged = catalog.create(levels, "t", **{"stage-create": True})
    assert staged.status_code == 200
    assert staged.json().get("metadata-location") is None
    assert http.head(catalog.table(levels, "t")).status_code == 404
    metadata = staged.json()["metadata"]
    assert Path(urlsplit(metadata["location"]).path, "metadata").is_dir()
    updates: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {
            "action": "add-schema",
            "schema": metadata["schemas"][0],
            "last-column-id": metadata["last-column-id"],
        },
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
        {"action": "set-properties", "updates": {"a": "b"}},
    ]
    made = catalog.commit(levels, "t", updates, [{"type": "assert-create"}])
    assert made.status_code == 200, made.text
    loaded = http.get(catalog.table(levels, "t")).json()
    assert loaded["metadata"]["table-uuid"] == metadata["table-uuid"]
    assert loaded["metadata"]["location"] == metadata["location"]
    again = catalog.commit(levels, "t", updates, [{"type": "assert-create"}])
    message = assert_error(again, 409, "CommitFailedException")
    assert "table already exists" in message


def test_missing_table(http: Http, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    path = catalog.table(levels, "missing")
    named = f"Table does not exist: {levels[0]}.missing"
    assert assert_error(http.get(path), 404, "NoSuchTableException") == named
    assert assert_error(http.delete(path), 404, "NoSuchTableException") == named
    commit = catalog.commit(levels, "missing", [], [])
    assert assert_error(commit, 404, "NoSuchTableException") == named
    assert_error(http.get(f"{path}/credentials"), 404, "NoSuchTableException")
    assert_error(
        http.post(f"{path}/metrics", json={"report-type": "scan-report", "metrics": {}}),
        404,
        "NoSuchTableException",
    )


def test_R23_tags_agree_between_create_commit_and_load_but_not_between_shapes(
    http: Http, catalog: Catalog
) -> None:
    levels = catalog.new_namespace()
    created = catalog.create(levels, "t")
    path = catalog.table(levels, "t")
    tag = created.headers["etag"]
    assert tag.startswith('"')
    assert tag.endswith('"')
    assert http.get(path).headers["etag"] == tag
    refs_tag = http.get(f"{path}?snapshots=refs").headers["etag"]
    assert refs_tag != tag

    unchanged = http.get(path, headers={"If-None-Match": tag})
    assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)
    assert http.get(f"{path}?snapshots=refs", headers={"If-None-Match": refs_tag}).status_code == 304
    other_shape = http.get(f"{path}?snapshots=refs", headers={"If-None-Match": tag})
    assert other_shape.status_code == 200
    assert other_shape.json()["metadata"]

    metadata = created.json()["metadata"]
    commit = catalog.commit(levels, "t", append_updates(metadata, 1), append_requirements(metadata))
    assert commit.status_code == 200, commit.text
    assert commit.headers["etag"] != tag
    assert http.get(path, headers={"If-None-Match": tag}).status_code == 200
    assert http.get(path, headers={"If-None-Match": commit.headers["etag"]}).status_code == 304
    assert http.get(path, headers={"If-None-Match": f'"x", W/{commit.headers["etag"]}'}).status_code == 304
    assert http.get(path, headers={"If-None-Match": "*"}).status_code == 304
    assert http.get(path, headers={"If-None-Match": "nonsense"}).status_code == 200


def test_refs_are_the_snapshots_that_something_names(http: Http, catalog: Catalog) -> None:
    levels, loaded = catalog.new_table()
    for snapshot_id in (1, 2, 3):
        metadata = loaded["metadata"]
        answer = catalog.commit(
            levels, "t", append_updates(metadata, snapshot_id), append_requirements(metadata)
        )
        assert answer.status_code == 200, answer.text
        loaded = answer.json()
    tag = {"action": "set-snapshot-ref", "ref-name": "kept", "type": "tag", "snapshot-id": 1}
    assert catalog.commit(levels, "t", [tag], []).status_code == 200
    path = catalog.table(levels, "t")
    whole, refs = http.get(path).json(), http.get(f"{path}?snapshots=refs").json()
    assert [entry["snapshot-id"] for entry in whole["metadata"]["snapshots"]] == [1, 2, 3]
    assert [entry["snapshot-id"] for entry in refs["metadata"]["snapshots"]] == [1, 3]
    assert refs["metadata-location"] == whole["metadata-location"]
    assert {**refs["metadata"], "snapshots": []} == {**whole["metadata"], "snapshots": []}
    assert http.get(f"{path}?snapshots=ALL").json() == whole
    assert_error(http.get(f"{path}?snapshots=some"), 400, "BadRequestException")


@pytest.mark.parametrize(
    ("encoding", "count"), [("gzip", 1000), ("zstd", 1000), ("gzip", 4000), ("zstd", 4000)]
)
def test_large_metadata_is_compressed_for_those_who_accept_it(
    http: Http, catalog: Catalog, encoding: str, count: int
) -> None:
    levels, created = catalog.new_table(properties={f"key-{number}": "x" * 100 for number in range(count)})
    path = catalog.table(levels, "t")
    for query in ("", "?snapshots=refs"):
        answer, raw = http.raw(path + query, headers={"Accept-Encoding": encoding})
        assert answer.headers["content-encoding"] == encoding
        assert "Accept-Encoding" in answer.headers["vary"]
        unpack = gzip.decompress if encoding == "gzip" else zstandard.ZstdDecompressor().decompress
        assert json.loads(unpack(raw)) == created
        assert len(raw) < len(json.dumps(created)) / 5
    plain = http.get(path, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == created


def test_list_tables_and_pages(http: Http, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    child = catalog.new_namespace(*levels, "child")
    catalog.create(child, "inside")
    for name in ("c", "a", "b"):
        catalog.create(levels, name)
    listed = http.get(catalog.tables(levels)).json()
    assert listed["identifiers"] == [{"namespace": list(levels), "name": name} for name in ("a", "b", "c")]
    assert listed.get("next-page-token") is None
    first = http.get(f"{catalog.tables(levels)}?pageSize=2").json()
    assert [entry["name"] for entry in first["identifiers"]] == ["a", "b"]
    rest = http.get(
        catalog.tables(levels), params={"pageSize": "2", "pageToken": first["next-page-token"]}
    ).json()
    assert [entry["name"] for entry in rest["identifiers"]] == ["c"]
    assert rest["next-page-token"] is None


@pytest.mark.parametrize("flag", ["", "?purgeRequested=false", "?purgeRequested=False"])
def test_drop_without_purge_keeps_every_file(http: Http, catalog: Catalog, flag: str) -> None:
    levels, created = catalog.new_table()
    file = Path(urlsplit(created["metadata-location"]).path)
    assert http.delete(catalog.table(levels, "t") + flag).status_code == 204
    assert http.head(catalog.table(levels, "t")).status_code == 404
    assert file.exists()


@pytest.mark.parametrize("flag", ["purgeRequested=true", "purgeRequested=True"])
def test_purge_is_left_to_maintenance(http: Http, catalog: Catalog, flag: str) -> None:
    levels, created = catalog.new_table()
    assert http.delete(f"{catalog.table(levels, 't')}?{flag}").status_code == 204
    assert http.head(catalog.table(levels, "t")).status_code == 404
    jobs = http.get("/api/v1/jobs?kind=tablePurge&state=queued&pageSize=1000").json()["jobs"]
    assert [job["table"] for job in jobs if job["namespace"] == list(levels)] == ["t"]
    assert created["metadata"]["table-uuid"]
    assert_error(
        http.delete(f"{catalog.table(levels, 't')}?purgeRequested=maybe"), 400, "BadRequestException"
    )


def test_register_adopts_metadata_and_does_not_own_the_first_table(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    assert http.delete(catalog.table(levels, "t")).status_code == 204
    path = f"{catalog.base}/namespaces/{levels[0]}/register"
    body = {"name": "again", "metadata-location": created["metadata-location"]}
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json() == created
    assert answer.headers["etag"] == http.get(catalog.table(levels, "again")).headers["etag"]
    assert_error(http.post(path, json=body), 409, "AlreadyExistsException")


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:1/x.metadata.json",
        "file:///etc/passwd",
        "nonsense",
        "",
        "s3://elsewhere/x.metadata.json",
    ],
)
def test_register_reads_nothing_outside_the_bucket(http: Http, catalog: Catalog, location: str) -> None:
    levels = catalog.new_namespace()
    body = {"name": "t", "metadata-location": location}
    answer = http.post(f"{catalog.base}/namespaces/{levels[0]}/register", json=body)
    assert answer.status_code in {400, 403, 404, 406}
    assert "root:" not in answer.text


def test_rename(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    other = catalog.new_namespace()

    def rename(source: tuple[str, ...], name: str, target: tuple[str, ...], new: str) -> Any:
        return http.post(
            f"{catalog.base}/tables/rename",
            json={
                "source": {"namespace": list(source), "name": name},
                "destination": {"namespace": list(target), "name": new},
            },
        )

    assert rename(levels, "t", other, "u").status_code == 204
    assert http.head(catalog.table(levels, "t")).status_code == 404
    assert http.get(catalog.table(other, "u")).json() == created
    assert_error(rename(levels, "t", other, "v"), 404, "NoSuchTableException")
    assert_error(rename(other, "u", ("missing",), "u"), 404, "NoSuchNamespaceException")
    catalog.create(other, "taken")
    assert_error(rename(other, "u", other, "taken"), 409, "AlreadyExistsException")
    # A new table under the old name must not lie where the renamed one does.
    fresh = catalog.create(levels, "t").json()
    assert fresh["metadata"]["location"] != created["metadata"]["location"]


def test_credentials_are_an_empty_list(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    path = catalog.table(levels, "t")
    for query in ("", "?planId=x", "?referenced-by=a,b"):
        assert http.get(f"{path}/credentials{query}").json() == {"storage-credentials": []}


@pytest.mark.parametrize(
    "header",
    [
        "vended-credentials",
        "vended-credentials, remote-signing",
        "nonsense",
        "",
        ",,",
        "vended-credentials\xfc",
    ],
)
def test_R26_odd_access_delegation_is_ignored(http: Http, catalog: Catalog, header: str) -> None:
    levels, created = catalog.new_table()
    headers = [(b"X-Iceberg-Access-Delegation", header.encode("latin-1"))] * 2
    answer = http.get(catalog.table(levels, "t"), headers=headers)
    assert answer.json() == created


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "t"},
        {"schema": SCHEMA},
        {"name": 5, "schema": SCHEMA},
        {"name": "", "schema": SCHEMA},
        {"name": "a\u0000", "schema": SCHEMA},
        {"name": "t", "schema": []},
        {"name": "t", "schema": {}},
        {"name": "t", "schema": {"type": "struct", "fields": [{"id": 1}]}},
        {"name": "t", "schema": {"type": "struct", "fields": "x"}},
        {"name": "t", "schema": SCHEMA, "properties": {"a": 1}},
        {"name": "t", "schema": SCHEMA, "stage-create": "true"},
        {"name": "t", "schema": SCHEMA, "location": 5},
        {"name": "t", "schema": SCHEMA, "partition-spec": []},
        {"name": "t", "schema": SCHEMA, "write-order": "x"},
        {
            "name": "t",
            "schema": SCHEMA,
            "partition-spec": {"fields": [{"source-id": 99, "transform": "identity"}]},
        },
        {"name": "t", "schema": SCHEMA, "properties": {"format-version": "9"}},
    ],
)
def test_malformed_creates_are_400(http: Http, catalog: Catalog, body: object) -> None:
    levels = catalog.new_namespace()
    assert_error(http.post(catalog.tables(levels), json=body), 400, "BadRequestException")
    assert http.get(catalog.tables(levels)).json()["identifiers"] == []


def test_a_namespace_location_of_one_slash_gives_tables_of_three(http: Http, catalog: Catalog) -> None:
    _, created = catalog.new_table()
    location = created["metadata"]["location"] + "-namespace"
    body = {"namespace": ["one_slash"], "properties": {"location": location.replace("file:///", "file:/")}}
    assert http.post(f"{catalog.base}/namespaces", json=body).status_code == 200
    made = catalog.create(("one_slash",), "t").json()
    assert made["metadata"]["location"].startswith(location + "/t-")
    assert made["metadata-location"].startswith(location + "/t-")


def test_refs_of_metadata_with_integers_beyond_64_bits(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    metadata = created["metadata"]
    for number in (1, 2):
        metadata = catalog.commit(levels, "t", append_updates(metadata, number), []).json()["metadata"]
    path = Path(f"{metadata['location'].removeprefix('file://')}/metadata/odd.metadata.json")
    path.write_text(json.dumps({**metadata, "unknown": 10**30}), encoding="utf-8")
    register = f"{catalog.base}/namespaces/{segment(*levels)}/register"
    adopted = {"name": "t", "metadata-location": f"file://{path}", "overwrite": True}
    assert http.post(register, json=adopted).status_code == 200
    answer = http.get(catalog.table(levels, "t") + "?snapshots=refs")
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"]["unknown"] == 10**30
    assert [kept["snapshot-id"] for kept in answer.json()["metadata"]["snapshots"]] == [2]


def test_a_tag_of_a_dropped_table_is_no_tag_of_the_next_at_the_same_file(
    http: Http, catalog: Catalog
) -> None:
    levels, created = catalog.new_table()
    at = created["metadata-location"]
    tag = http.get(catalog.table(levels, "t")).headers["ETag"]
    assert http.delete(catalog.table(levels, "t")).status_code == 204
    second = {**created["metadata"], "table-uuid": str(uuid.uuid4())}
    Path(at.removeprefix("file://")).write_text(json.dumps(second), encoding="utf-8")
    register = f"{catalog.base}/namespaces/{segment(*levels)}/register"
    assert http.post(register, json={"name": "t", "metadata-location": at}).status_code == 200
    answer = http.get(catalog.table(levels, "t"), headers={"If-None-Match": tag})
    assert answer.status_code == 200
    assert answer.json()["metadata"] == second
