"""Tables in the management API: layout, history, drop and restore, protection, registration."""

from typing import Any

from tests.api.iceberg_client import Catalog, Http, segment
from tests.api.test_management import assert_problem, table_path

DROPPED = "/api/v1/buckets/default/dropped-tables"


def dropped(http: Http, levels: tuple[str, ...], **query: str) -> list[dict[str, Any]]:
    answer = http.get(DROPPED, params={"namespace": segment(*levels), **query})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["droppedTables"]
    return found


def append(http: Http, catalog: Catalog, levels: tuple[str, ...], snapshot_id: int, **ref: Any) -> None:
    metadata = http.get(catalog.table(levels, "t")).json()["metadata"]
    parent = metadata.get("current-snapshot-id", -1)
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": metadata["last-updated-ms"],
        "manifest-list": f"{metadata['location']}/metadata/{snapshot_id}.avro",
        "summary": {"operation": "append", "added-records": "3"},
        "schema-id": 0,
        **({} if parent in (-1, None) else {"parent-snapshot-id": parent}),
    }
    head = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    updates = [{"action": "add-snapshot", "snapshot": snapshot}, {**head, **ref}]
    answer = http.post(catalog.table(levels, "t"), json={"requirements": [], "updates": updates})
    assert answer.status_code == 200, answer.text


def test_tables_are_listed_by_the_beginning_of_their_name(http: Http, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    for name in ("orders", "orders_old", "Orders", "other", "ähre", "ähren"):
        catalog.create(levels, name)

    def names(**query: str) -> list[str]:
        found: list[str] = []
        token = ""
        while True:
            page = http.get(
                "/api/v1/buckets/default/tables", params={**query, "pageSize": "1", "pageToken": token}
            ).json()
            found += [table["name"] for table in page["tables"]]
            token = page["nextPageToken"]
            if not token:
                return found

    assert names(namespace=levels[0], prefix="orders") == ["orders", "orders_old"]
    assert names(namespace=levels[0], prefix="o") == ["orders", "orders_old", "other"]
    assert names(prefix="orders_o") == ["orders_old"]
    assert names(namespace=levels[0], prefix="%") == []
    assert names(namespace=levels[0], prefix="ä") == ["ähre", "ähren"]


def test_a_blank_table_is_listed_and_shown_and_what_needs_metadata_says_that_there_is_none(
    http: Http, catalog: Catalog
) -> None:
    levels, _ = catalog.new_table()
    bucket = "arn%3Aaws%3As3tables%3Aus-east-1%3A000000000000%3Abucket%2Fdefault"
    made = http.put(f"/s3tables/tables/{bucket}/{levels[0]}", json={"name": "blank", "format": "ICEBERG"})
    assert made.status_code == 200, made.text
    query = {"namespace": levels[0]}
    listed = http.get("/api/v1/buckets/default/tables", params=query).json()["tables"]
    assert [(one["name"], one["metadataLocation"] is None) for one in listed] == [
        ("blank", True),
        ("t", False),
    ]
    assert listed[0]["arn"] == made.json()["tableARN"]
    path = table_path(levels, "blank")
    shown = http.get(path).json()
    assert shown["table"] == listed[0]
    assert (shown["formatVersion"], shown["figures"]["dataFiles"]) == (None, 0)
    for request in (
        http.get(f"{path}/files"),
        http.get(f"{path}/snapshots"),
        http.get(f"{path}/refs"),
        http.post(f"{path}/unregister"),
        http.post(f"{path}/jobs", json={"kind": "icebergCompaction"}),
    ):
        assert "it has no metadata yet" in assert_problem(request, 404, "not-found")
    policy = {"settings": {"minInputFiles": 3}}
    assert http.put(f"{path}/policies/icebergCompaction", json=policy).status_code == 200
    (found,) = [
        one
        for one in http.get(f"{path}/policies/effective").json()["policies"]
        if one["type"] == "icebergCompaction"
    ]
    assert (found["settings"]["minInputFiles"], found["sources"]["minInputFiles"]) == (3, "table")
    assert http.delete(path).json() == {"droppedTable": None}
    assert [
        one["name"] for one in http.get("/api/v1/buckets/default/tables", params=query).json()["tables"]
    ] == ["t"]


def test_a_blank_table_is_protected_and_renamed_like_any_other(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    bucket = "arn%3Aaws%3As3tables%3Aus-east-1%3A000000000000%3Abucket%2Fdefault"
    made = http.put(f"/s3tables/tables/{bucket}/{levels[0]}", json={"name": "blank", "format": "ICEBERG"})
    assert made.status_code == 200, made.text
    path = table_path(levels, "blank")
    before = http.get(f"{path}/protection")
    assert before.json() == {"protected": False}
    guarded = {"If-Match": before.headers["etag"]}
    assert http.put(f"{path}/protection", json={"protected": True}, headers=guarded).status_code == 200
    stale = http.put(f"{path}/protection", json={"protected": False}, headers=guarded)
    assert_problem(stale, 412, "conflict")
    for request in (
        http.delete(path),
        http.delete(path, params={"purge": "true"}),
        http.delete(catalog.table(levels, "blank")),
        http.delete(f"/s3tables/tables/{bucket}/{levels[0]}/blank"),
    ):
        assert request.status_code == 403, request.text
    assert_problem(http.post(f"{path}/rename", json={"name": "t"}), 409, "already-exists")
    assert_problem(http.post(f"{path}/rename", json={"namespace": ["none"]}), 404, "not-found")
    renamed = http.post(f"{path}/rename", json={"name": "other"})
    assert (renamed.status_code, renamed.json()["name"], renamed.json()["protected"]) == (200, "other", True)
    assert renamed.json()["arn"] == made.json()["tableARN"]
    assert_problem(http.get(path), 404, "not-found")
    other = table_path(levels, "other")
    assert http.put(f"{other}/protection", json={"protected": False}).json() == {"protected": False}
    assert http.delete(other).json() == {"droppedTable": None}


def test_a_table_is_overwritten_only_as_it_was_read(http: Http, catalog: Catalog) -> None:
    levels, made = catalog.new_table()
    path = f"/api/v1/buckets/default/namespaces/{levels[0]}/tables"
    first = made["metadata-location"]
    append(http, catalog, levels, 1)
    second = http.get(catalog.table(levels, "t")).json()["metadata-location"]

    def overwrite(location: str, expected: str, name: str = "t") -> Any:
        body = {"name": name, "metadataLocation": location, "overwrite": True}
        return http.post(path, json=body | {"expectedMetadataLocation": expected})

    told = assert_problem(overwrite(first, first + "x"), 412, "conflict")
    assert f"its metadata is {second} now" in told
    assert http.get(catalog.table(levels, "t")).json()["metadata-location"] == second
    assert_problem(overwrite(first, second, "none"), 404, "not-found")
    assert_problem(http.get(table_path(levels, "none")), 404, "not-found")
    assert overwrite(first, second).json()["metadataLocation"] == first
    # Asked for again, as its answer was lost.
    assert overwrite(first, second).json()["metadataLocation"] == first
    body = {"name": "t", "metadataLocation": first, "expectedMetadataLocation": first}
    assert "goes with overwrite" in assert_problem(http.post(path, json=body), 400, "invalid")
    empty = {"name": "n", "schema": {"type": "struct", "fields": []}, "expectedMetadataLocation": first}
    assert "goes with metadataLocation" in assert_problem(http.post(path, json=empty), 400, "invalid")


def test_a_table_is_made_of_a_schema_or_of_metadata_and_not_of_both(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    path = f"/api/v1/buckets/default/namespaces/{levels[0]}/tables"
    schema = {"type": "struct", "fields": [{"id": 3, "name": "x", "required": True, "type": "long"}]}
    body = {"name": "made", "schema": schema, "properties": {"a": "b"}}
    made = http.post(path, json=body)
    assert made.status_code == 201, made.text
    loaded = http.get(catalog.table(levels, "made")).json()["metadata"]
    assert loaded["schemas"][0]["fields"] == schema["fields"]
    assert (loaded["properties"]["a"], loaded["last-column-id"]) == ("b", 3)
    assert_problem(http.post(path, json=body), 409, "already-exists")
    for wrong, told in (
        ({"name": "n"}, "give schema, or the metadataLocation"),
        ({"name": "n", "schema": schema, "overwrite": True}, "overwrite goes with metadataLocation"),
        ({"name": "n", "schema": {"type": "struct"}}, "fields"),
        ({"name": "n", "schema": schema, "location": "file:///elsewhere"}, "elsewhere"),
        (
            {"name": "n", "schema": schema, "metadataLocation": created["metadata-location"]},
            "give nothing else of it",
        ),
    ):
        assert told in assert_problem(http.post(path, json=wrong), 400, "invalid")
    assert_problem(http.get(table_path(levels, "n")), 404, "not-found")


def test_snapshots_and_refs(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    path = table_path(levels, "t")
    assert http.get(f"{path}/snapshots").json() == {"snapshots": [], "nextPageToken": None}
    for snapshot_id in (10, 11, 12):
        append(http, catalog, levels, snapshot_id)
    tag = {
        "action": "set-snapshot-ref",
        "ref-name": "kept",
        "type": "tag",
        "snapshot-id": 10,
        "max-ref-age-ms": 5,
    }
    assert (
        http.post(catalog.table(levels, "t"), json={"requirements": [], "updates": [tag]}).status_code == 200
    )

    first = http.get(f"{path}/snapshots", params={"pageSize": 2}).json()
    rest = http.get(f"{path}/snapshots", params={"pageSize": 2, "pageToken": first["nextPageToken"]}).json()
    assert [one["snapshotId"] for one in (*first["snapshots"], *rest["snapshots"])] == [12, 11, 10]
    assert rest["nextPageToken"] is None
    newest, oldest = first["snapshots"][0], rest["snapshots"][0]
    assert (newest["operation"], newest["summary"]["added-records"]) == ("append", "3")
    assert (newest["parentSnapshotId"], newest["sequenceNumber"], newest["refs"]) == (11, 3, ["main"])
    assert (oldest["parentSnapshotId"], oldest["refs"]) == (None, ["kept"])
    assert_problem(http.get(f"{path}/snapshots?pageToken=x"), 400, "invalid")

    assert http.get(f"{path}/refs").json()["refs"] == [
        {
            "name": "kept",
            "type": "tag",
            "snapshotId": 10,
            "minSnapshotsToKeep": None,
            "maxSnapshotAgeMs": None,
            "maxRefAgeMs": 5,
        },
        {
            "name": "main",
            "type": "branch",
            "snapshotId": 12,
            "minSnapshotsToKeep": None,
            "maxSnapshotAgeMs": None,
            "maxRefAgeMs": None,
        },
    ]
    for below in ("snapshots", "refs", "files", "protection"):
        assert_problem(http.get(f"{table_path(levels, 'missing')}/{below}"), 404, "not-found")


def test_files_of_an_empty_table(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    found = http.get(f"{table_path(levels, 't')}/files").json()
    assert (found["snapshotId"], found["complete"]) == (None, True)
    assert sum(one["files"] for one in found["dataFiles"] + found["deleteFiles"]) == 0


def test_drop_and_undrop(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    path = table_path(levels, "t")
    gone = http.delete(path).json()["droppedTable"]
    assert (gone["name"], gone["namespace"], gone["uuid"]) == (
        "t",
        list(levels),
        created["metadata"]["table-uuid"],
    )
    assert (gone["recoverable"], gone["purgeJob"], gone["droppedBy"]) == (True, None, "anonymous")
    assert gone["recoverableUntilMs"] - gone["droppedAtMs"] == 7 * 86_400_000
    assert dropped(http, levels) == [gone] == dropped(http, levels, name="t")
    assert dropped(http, levels, name="u") == []
    assert http.get(f"{DROPPED}/{gone['id']}").json() == gone
    assert_problem(http.get(path), 404, "not-found")
    assert_problem(http.delete(path), 404, "not-found")

    catalog.create(levels, "t")
    undrop = f"{DROPPED}/{gone['id']}/undrop"
    assert "under another name" in assert_problem(http.post(undrop, json={}), 409, "already-exists")
    back = http.post(undrop, json={"name": "u"})
    assert back.status_code == 200, back.text
    assert back.json() == {
        "bucket": "default",
        "namespace": list(levels),
        "name": "u",
        "metadataLocation": created["metadata-location"],
    }
    assert http.post(undrop, json={"name": "u"}).json() == back.json()
    assert http.get(catalog.table(levels, "u")).json()["metadata"] == created["metadata"]
    assert http.get(table_path(levels, "u")).json()["table"]["resourceId"] == gone["id"]
    assert dropped(http, levels) == []
    assert_problem(http.get(f"{DROPPED}/{gone['id']}"), 404, "not-found")


def test_what_rest_clients_drop_is_listed_and_restored(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    assert http.delete(catalog.table(levels, "t")).status_code == 204
    (gone,) = dropped(http, levels)
    other = catalog.new_namespace()
    moved = http.post(f"{DROPPED}/{gone['id']}/undrop", json={"namespace": list(other)}).json()
    assert (moved["namespace"], moved["name"]) == (list(other), "t")
    assert http.delete(catalog.table(other, "t"), params={"purgeRequested": "true"}).status_code == 204
    (purged,) = dropped(http, other)
    assert (purged["purgeState"], purged["recoverable"], purged["recoverableUntilMs"]) == (
        "queued",
        True,
        None,
    )
    back = http.post(f"{DROPPED}/{purged['id']}/undrop", json={}).json()
    assert back["metadataLocation"] == created["metadata-location"]
    assert http.get(f"/api/v1/jobs/{purged['purgeJob']}").json()["state"] == "cancelled"


def test_purge_and_forget(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    gone = http.delete(table_path(levels, "t")).json()["droppedTable"]
    asked = http.post(f"{DROPPED}/{gone['id']}/purge")
    assert asked.status_code == 202
    assert http.post(f"{DROPPED}/{gone['id']}/purge").json() == asked.json()
    job = http.get(f"/api/v1/jobs/{asked.json()['purgeJob']}").json()
    assert (job["kind"], job["state"], job["table"]) == ("tablePurge", "queued", "t")
    assert http.delete(f"{DROPPED}/{gone['id']}").status_code == 204
    assert dropped(http, levels) == []
    assert_problem(http.delete(f"{DROPPED}/{gone['id']}"), 404, "not-found")
    catalog.create(levels, "t")
    at_once = http.delete(table_path(levels, "t"), params={"purge": "true"}).json()["droppedTable"]
    assert at_once["purgeJob"] is not None


def test_protection(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    path = table_path(levels, "t")
    first = http.get(f"{path}/protection")
    assert first.json() == {"protected": False}
    put = http.put(
        f"{path}/protection", json={"protected": True}, headers={"If-Match": first.headers["etag"]}
    )
    assert (put.status_code, put.json()) == (200, {"protected": True})
    assert put.headers["etag"] != first.headers["etag"]
    stale = http.put(
        f"{path}/protection", json={"protected": False}, headers={"If-Match": first.headers["etag"]}
    )
    assert_problem(stale, 412, "conflict")
    odd = http.put(f"{path}/protection", json={"protected": False}, headers={"If-Match": "x"})
    assert_problem(odd, 400, "invalid")
    assert http.get(path).json()["table"]["protected"] is True
    for refused in (
        http.delete(path),
        http.delete(path, params={"purge": "true"}),
        http.post(f"{path}/unregister"),
        http.post(
            f"{path.rpartition('/')[0]}",
            json={"name": "t", "metadataLocation": created["metadata-location"], "overwrite": True},
        ),
    ):
        assert "is protected" in assert_problem(refused, 403, "forbidden")
    for refused in (
        http.delete(catalog.table(levels, "t")),
        http.delete(catalog.table(levels, "t"), params={"purgeRequested": "true"}),
        http.post(f"{catalog.table(levels, 't')}/unregister"),
    ):
        assert (refused.status_code, refused.json()["error"]["type"]) == (403, "ForbiddenException")
    assert http.put(f"{path}/protection", json={"protected": False}).status_code == 200
    assert http.delete(path).status_code == 200


def test_rename_unregister_and_register(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    other = catalog.new_namespace()
    renamed = http.post(f"{table_path(levels, 't')}/rename", json={"namespace": list(other), "name": "u"})
    assert renamed.status_code == 200, renamed.text
    assert (renamed.json()["namespace"], renamed.json()["name"]) == (list(other), "u")
    bad = http.post(f"{table_path(other, 'u')}/rename", json={"namespace": []})
    assert_problem(bad, 400, "invalid")
    path = table_path(other, "u")
    gone = http.post(f"{path}/unregister").json()
    assert gone["metadataLocation"] == created["metadata-location"]
    assert dropped(http, other) == []
    tables = path.rpartition("/")[0]
    body = {"name": "v", "metadataLocation": gone["metadataLocation"]}
    back = http.post(tables, json=body)
    assert back.status_code == 201, back.text
    assert back.json()["uuid"] == created["metadata"]["table-uuid"]
    assert_problem(http.post(tables, json=body), 409, "already-exists")
    outside = {"name": "w", "metadataLocation": "file:///etc/passwd"}
    assert_problem(http.post(tables, json=outside), 400, "invalid")
