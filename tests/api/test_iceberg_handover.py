"""Tables handed over: unregister, register again, and what is not offered at all."""

from pathlib import Path
from typing import Any

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services import tables as service
from tests.api.iceberg_client import (
    Catalog,
    Http,
    append_requirements,
    append_updates,
    assert_error,
    segment,
)


def register(catalog: Catalog, levels: tuple[str, ...], name: str, at: str, **more: Any) -> Any:
    path = f"{catalog.base}/namespaces/{segment(*levels)}/register"
    return catalog.http.post(path, json={"name": name, "metadata-location": at, **more})


def files_below(metadata: dict[str, Any]) -> set[Path]:
    return {path for path in Path(metadata["location"].removeprefix("file://")).rglob("*") if path.is_file()}


def test_unregister_tells_the_last_metadata_and_keeps_every_file(http: Http, catalog: Catalog) -> None:
    levels, made = catalog.new_table()
    path = catalog.table(levels, "t")
    last = catalog.commit(levels, "t", append_updates(made["metadata"], 1), []).json()
    before = files_below(made["metadata"])
    answer = http.post(f"{path}/unregister")
    assert answer.status_code == 200
    assert answer.json() == {"metadata-location": last["metadata-location"], "metadata": last["metadata"]}
    assert files_below(made["metadata"]) == before
    assert http.head(path).status_code == 404
    assert http.get(catalog.tables(levels)).json()["identifiers"] == []
    assert_error(http.post(f"{path}/unregister"), 404, "NoSuchTableException")
    commit = catalog.commit(levels, "t", append_updates(last["metadata"], 2), [])
    assert_error(commit, 404, "NoSuchTableException")
    back = register(catalog, levels, "again", answer.json()["metadata-location"])
    assert back.status_code == 200
    assert back.json() == last
    assert files_below(made["metadata"]) == before


def test_unregister_takes_a_body_and_does_not_look_at_it(http: Http, catalog: Catalog) -> None:
    for body in (b"", b"{}", b"not json"):
        levels, _ = catalog.new_table()
        assert http.post(f"{catalog.table(levels, 't')}/unregister", content=body).status_code == 200


def test_unregister_tells_a_commit_that_came_in_between(
    http: Http, catalog: Catalog, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels, made = catalog.new_table()
    load = service.TableService.load
    commits = [1]

    async def load_then_commit(self: Any, *arguments: Any) -> Any:
        handle = await load(self, *arguments)
        if commits:
            number = commits.pop()
            updates = append_updates(made["metadata"], number)
            await platform.commits.commit(arguments[0], arguments[1], arguments[2], [], updates)
        return handle

    monkeypatch.setattr(service.TableService, "load", load_then_commit)
    answer = http.post(f"{catalog.table(levels, 't')}/unregister")
    assert answer.status_code == 200
    assert [snapshot["snapshot-id"] for snapshot in answer.json()["metadata"]["snapshots"]] == [1]


def test_unregister_of_a_table_that_is_never_at_rest_changes_nothing(
    http: Http, catalog: Catalog, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels, _ = catalog.new_table()
    load = service.TableService.load
    numbers = iter(range(100))

    async def load_then_commit(self: Any, *arguments: Any) -> Any:
        handle = await load(self, *arguments)
        updates = [{"action": "set-properties", "updates": {"n": str(next(numbers))}}]
        await platform.commits.commit(arguments[0], arguments[1], arguments[2], [], updates)
        return handle

    with monkeypatch.context() as patched:
        patched.setattr(service.TableService, "load", load_then_commit)
        answer = http.post(f"{catalog.table(levels, 't')}/unregister")
    assert_error(answer, 503, "ServiceUnavailableException")
    assert answer.headers["retry-after"]
    assert http.get(catalog.table(levels, "t")).json()["metadata"]["properties"]["n"] == "19"


def test_unregister_of_a_table_without_its_metadata_file_is_refused(http: Http, catalog: Catalog) -> None:
    levels, made = catalog.new_table()
    path = catalog.table(levels, "t")
    Path(made["metadata-location"].removeprefix("file://")).unlink()
    assert_error(http.post(f"{path}/unregister"), 404, "NotFoundException")
    assert http.head(path).status_code == 204
    assert http.delete(path).status_code == 204


def test_the_same_file_is_registered_again_and_again(http: Http, catalog: Catalog) -> None:
    levels, made = catalog.new_table()
    at = made["metadata-location"]
    for _ in range(2):
        assert http.delete(catalog.table(levels, "t")).status_code == 204
        assert register(catalog, levels, "t", at).json() == made
    assert_error(register(catalog, levels, "t", at), 409, "AlreadyExistsException")
    for _ in range(2):
        over = register(catalog, levels, "t", at, overwrite=True)
        assert over.status_code == 200
        assert over.json() == made
    loaded = http.get(catalog.table(levels, "t"))
    assert loaded.headers["etag"] == over.headers["etag"]


def test_overwrite_goes_back_to_an_older_file_and_forward(http: Http, catalog: Catalog) -> None:
    levels, made = catalog.new_table()
    metadata = made["metadata"]
    newer = catalog.commit(levels, "t", append_updates(metadata, 1), append_requirements(metadata)).json()
    for loaded in (made, newer, made):
        over = register(catalog, levels, "t", loaded["metadata-location"], overwrite=True)
        assert over.json() == loaded
        assert http.get(catalog.table(levels, "t")).json() == loaded
    assert_error(
        register(catalog, levels, "t", newer["metadata-location"], overwrite="yes"),
        400,
        "BadRequestException",
    )


def test_signing_is_refused_in_words_and_not_advertised(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    body = {"region": "x", "uri": "https://b.s3.amazonaws.com/k", "method": "GET", "headers": {}}
    answer = http.post(f"{catalog.table(levels, 't')}/sign", json=body)
    assert "not offered" in assert_error(answer, 400, "BadRequestException")
    answer = http.post(f"{catalog.table(levels, 't')}/sign", json={**body, "uri": 5})
    assert "'uri'" in assert_error(answer, 400, "BadRequestException")
    missing = http.post(f"{catalog.table(levels, 'missing')}/sign", json=body)
    assert_error(missing, 404, "NoSuchTableException")
    endpoints = http.get("/iceberg/v1/config").json()["endpoints"]
    assert not any(endpoint.endswith("/sign") for endpoint in endpoints)
    assert not any("/functions" in endpoint for endpoint in endpoints)


def test_functions_are_honest_404s(http: Http, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    path = f"{catalog.base}/namespaces/{segment(*levels)}/functions"
    assert_error(http.get(path), 404, "NotFoundException")
    assert_error(http.get(f"{path}/f"), 404, "NoSuchFunctionException")
    missing = f"{catalog.base}/namespaces/missing/functions"
    assert_error(http.get(missing), 404, "NoSuchNamespaceException")
    assert_error(http.get(f"{missing}/f"), 404, "NoSuchNamespaceException")
    assert_error(http.get("/iceberg/v1/nowhere/namespaces/n/functions"), 404, "NoSuchWarehouseException")


def test_places_of_a_dropped_table_go_along_when_it_is_registered_over_another(
    http: Http, catalog: Catalog
) -> None:
    levels, made = catalog.new_table()
    first = made["metadata"]["location"]
    moved = {"action": "set-location", "location": f"{first}-moved"}
    last = catalog.commit(levels, "t", [moved], []).json()
    assert http.delete(catalog.table(levels, "t")).status_code == 204
    assert catalog.create(levels, "other").status_code == 200
    back = register(catalog, levels, "other", last["metadata-location"], overwrite=True)
    assert back.status_code == 200, back.text
    # Files of before it moved lie there: the clean-up of another table would take them.
    assert_error(catalog.create(levels, "new", location=first), 409, "AlreadyExistsException")
