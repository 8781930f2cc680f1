"""Policies over HTTP: what holds at each level, who changed what, and versions that protect every change."""

import pytest

from tests.api.iceberg_client import Catalog, Http
from tests.api.test_management import assert_problem

BUCKET = "/api/v1/buckets/default"
KIND = "icebergCompaction"


def levels_of(catalog: Catalog) -> tuple[str, str]:
    """Paths of a new namespace and of a table in it."""
    levels, _ = catalog.new_table()
    namespace = f"{BUCKET}/namespaces/{levels[0]}"
    return namespace, f"{namespace}/tables/t"


def holds(http: Http, path: str) -> dict[str, object]:
    answer = http.get(f"{path}/policies/effective")
    assert answer.status_code == 200, answer.text
    (found,) = [policy for policy in answer.json()["policies"] if policy["type"] == KIND]
    return dict(found)


def test_what_holds_at_every_level(http: Http, catalog: Catalog) -> None:
    namespace, table = levels_of(catalog)
    body = {"status": "disabled", "settings": {"minInputFiles": 3}}
    assert http.put(f"{namespace}/policies/{KIND}", json=body).status_code == 200
    for path in (namespace, table):
        found = holds(http, path)
        assert (found["status"], found["settings"]["minInputFiles"]) == ("disabled", 3)
        assert found["sources"]["minInputFiles"] == f"namespace {namespace.rpartition('/')[2]}"
        assert (found["disabledReason"], found["notes"]) == ("the policy is disabled", [])
    assert holds(http, BUCKET)["sources"]["minInputFiles"] == "default"
    assert holds(http, BUCKET)["disabledReason"] is None
    assert holds(http, table)["settings"]["maxBytesPerRun"] == 8 << 30  # type: ignore[index]
    for missing in (f"{namespace}x", f"{table}x", "/api/v1/buckets/nowhere"):
        assert_problem(http.get(f"{missing}/policies/effective"), 404, "not-found")
        assert_problem(http.get(f"{missing}/policies/history"), 404, "not-found")


def test_what_is_set_is_listed_alike_at_every_level(http: Http, catalog: Catalog) -> None:
    namespace, table = levels_of(catalog)
    for path, number in ((namespace, 3), (table, 4)):
        assert http.get(f"{path}/policies").json() == {"policies": []}
        body = {"settings": {"minInputFiles": number}}
        made = http.put(f"{path}/policies/{KIND}", json=body).json()
        assert http.get(f"{path}/policies").json() == {"policies": [made]}
    bucket = http.get(f"{BUCKET}/policies").json()["policies"]
    assert KIND not in {policy["type"] for policy in bucket}
    for missing in (f"{namespace}x", f"{table}x", "/api/v1/buckets/nowhere"):
        assert_problem(http.get(f"{missing}/policies"), 404, "not-found")


def test_settings_alone_do_not_switch_on_what_is_off_above(http: Http, catalog: Catalog) -> None:
    namespace, table = levels_of(catalog)
    above, own = f"{namespace}/policies/{KIND}", f"{table}/policies/{KIND}"
    name = namespace.rpartition("/")[2]
    assert http.put(above, json={"status": "disabled"}).json()["status"] == "disabled"
    settings = {"minInputFiles": 8}
    put = http.put(own, json={"settings": settings}).json()
    assert (put["status"], put["settings"]) == (None, settings)
    assert http.get(own).json() == put

    def in_force() -> tuple[object, object]:
        found = holds(http, table)
        return found["sources"]["status"], found["status"]  # type: ignore[index]

    assert in_force() == (f"namespace {name}", "disabled")
    http.put(own, json={"status": "enabled", "settings": settings})
    assert in_force() == ("table", "enabled")
    http.put(own, json={"status": None, "settings": settings})
    assert in_force() == (f"namespace {name}", "disabled")
    assert http.delete(above).status_code == 204
    assert in_force() == ("default", "enabled")


def test_changes_come_in_pages_newest_first(http: Http, catalog: Catalog) -> None:
    namespace, table = levels_of(catalog)
    for path in (namespace, table):
        for number in (3, 4, 5):
            body = {"settings": {"minInputFiles": number}}
            assert http.put(f"{path}/policies/{KIND}", json=body).status_code == 200
        assert http.delete(f"{path}/policies/{KIND}").status_code == 204
        seen, token = [], ""
        while token is not None:
            query = {"pageSize": "3", "pageToken": token, "policyType": KIND}
            page = http.get(f"{path}/policies/history", params=query).json()
            seen += page["changes"]
            token = page["nextPageToken"]
        told = [(change["before"] or {}).get("settings", {}).get("minInputFiles") for change in seen]
        assert told == [5, 4, 3, None]
        assert seen[0]["after"] is None
        assert {change["by"] for change in seen} == {"anonymous"}
        assert {change["type"] for change in seen} == {KIND}
    assert_problem(http.get(f"{table}/policies/history?policyType=nope"), 400, "invalid")
    assert_problem(http.get(f"{table}/policies/history?pageToken=nope"), 400, "invalid")
    assert_problem(http.get(f"{table}/policies/history?pageSize=0"), 400, "invalid")


@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_change_can_be_bound_to_a_version(http: Http, catalog: Catalog, level: int) -> None:
    namespace, table = levels_of(catalog)
    path = f"{(BUCKET, namespace, table)[level]}/policies/icebergSnapshotManagement"
    body = {"settings": {"minSnapshotsToKeep": 2}}
    stale = {"If-Match": '"77"'}
    assert_problem(http.put(path, json=body, headers=stale), 412, "conflict")
    made = http.put(path, json=body, headers={"If-Match": '"0"'})
    assert made.status_code == 200
    assert_problem(http.put(path, json=body, headers={"If-Match": '"0"'}), 412, "conflict")
    tag = http.get(path).headers["etag"]
    assert tag == made.headers["etag"]
    assert_problem(http.delete(path, headers=stale), 412, "conflict")
    assert http.delete(path, headers={"If-Match": tag}).status_code == 204
    assert_problem(http.put(path, json=body, headers={"If-Match": tag}), 412, "conflict")


def test_dangerous_and_impossible_values_are_refused_with_what_to_do(http: Http, catalog: Catalog) -> None:
    _, table = levels_of(catalog)
    refused = {
        "icebergSnapshotManagement": ({"minSnapshotsToKeep": 0}, "maintenance.allow_unsafe"),
        "icebergUnreferencedFileRemoval": ({"nonCurrentSeconds": 60}, "maintenance.allow_unsafe"),
        "icebergCompaction": (
            {"strategy": "z-order"},
            "the table has no sort order; give the table a sort order first",
        ),
        "icebergRecordExpiration": ({"days": 3}, "name the column that tells the age of rows"),
    }
    for kind, (settings, told) in refused.items():
        answer = http.put(f"{table}/policies/{kind}", json={"settings": settings})
        assert_problem(answer, 400, "invalid")
        assert told in answer.json()["detail"]


def test_strategies_that_sort_need_a_sort_order_at_the_table_and_are_taken_above_it(
    http: Http, catalog: Catalog
) -> None:
    namespace, table = levels_of(catalog)
    order = {
        "order-id": 1,
        "fields": [
            {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
        ],
    }
    levels, _ = catalog.new_table(**{"write-order": order})
    with_order = f"{BUCKET}/namespaces/{levels[0]}/tables/t"
    for strategy in ("sort", "z-order"):
        body = {"settings": {"strategy": strategy}}
        refused = http.put(f"{table}/policies/{KIND}", json=body)
        assert_problem(refused, 400, "invalid")
        assert f"strategy {strategy} sorts by the table's sort order" in refused.json()["detail"]
        assert http.put(f"{table}/policies/{KIND}", json={**body, "status": "disabled"}).status_code == 200
        for path in (with_order, namespace):
            assert http.put(f"{path}/policies/{KIND}", json=body).status_code == 200
            settings = holds(http, path)["settings"]
            assert isinstance(settings, dict)
            assert settings["strategy"] == strategy
    for sorted_by, status in (([{"column": "id"}], 200), ([{"column": "gone"}], 400)):
        body = {"settings": {"strategy": "sort", "sortOrder": sorted_by}}
        assert http.put(f"{table}/policies/{KIND}", json=body).status_code == status
    refused = http.put(f"{table}/policies/{KIND}", json={"settings": {"sortOrder": [{"column": "gone"}]}})
    assert "names a column 'gone' that the table does not have" in assert_problem(refused, 400, "invalid")
    for strategy in ("auto", "binpack"):
        body = {"settings": {"strategy": strategy}}
        assert http.put(f"{table}/policies/{KIND}", json=body).status_code == 200
