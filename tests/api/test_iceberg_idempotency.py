"""Idempotency-Key: whatever an operation answered is answered again, and its effect happens once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.principals import SYSTEM
from catalog_server.store import schema
from table_format.errors import CommitStateUnknown, Unavailable
from table_format.io.local import LocalObjectStore
from tests.api.iceberg_client import (
    SCHEMA,
    Catalog,
    Http,
    append_requirements,
    append_updates,
    assert_error,
    in_process,
    new_key,
    segment,
)
from tests.factories.views import SCHEMA as VIEW_SCHEMA
from tests.factories.views import replacing, version

Request = tuple[str, str, Any]
VIEW = {"name": "v", "schema": VIEW_SCHEMA, "view-version": version(), "properties": {}}


def appending(catalog: Catalog, snapshot_id: int = 1) -> tuple[str, dict[str, Any]]:
    """A new table and the body of an append to it."""
    levels, made = catalog.new_table()
    metadata = made["metadata"]
    body = {
        "requirements": append_requirements(metadata),
        "updates": append_updates(metadata, snapshot_id),
    }
    return catalog.table(levels, "t"), body


def create_namespace(catalog: Catalog) -> Request:
    body = {"namespace": ["made_" + segment(*catalog.new_namespace())], "properties": {"a": "1"}}
    return "POST", f"{catalog.base}/namespaces", body


def drop_namespace(catalog: Catalog) -> Request:
    return "DELETE", f"{catalog.base}/namespaces/{segment(*catalog.new_namespace())}", None


def update_properties(catalog: Catalog) -> Request:
    path = f"{catalog.base}/namespaces/{segment(*catalog.new_namespace())}/properties"
    catalog.http.post(path, json={"updates": {"old": "1"}, "removals": []})
    return "POST", path, {"updates": {"a": "1"}, "removals": ["old", "never"]}


def create_table(catalog: Catalog) -> Request:
    return "POST", catalog.tables(catalog.new_namespace()), {"name": "t", "schema": SCHEMA}


def stage_table(catalog: Catalog) -> Request:
    body = {"name": "t", "schema": SCHEMA, "stage-create": True}
    return "POST", catalog.tables(catalog.new_namespace()), body


def commit_table(catalog: Catalog) -> Request:
    path, body = appending(catalog)
    return "POST", path, body


def commit_nothing(catalog: Catalog) -> Request:
    levels, _ = catalog.new_table()
    return "POST", catalog.table(levels, "t"), {"requirements": [], "updates": []}


def drop_table(catalog: Catalog) -> Request:
    return "DELETE", catalog.table(catalog.new_table()[0], "t"), None


def purge_table(catalog: Catalog) -> Request:
    return "DELETE", catalog.table(catalog.new_table()[0], "t") + "?purgeRequested=True", None


def unregister_table(catalog: Catalog) -> Request:
    return "POST", catalog.table(catalog.new_table()[0], "t") + "/unregister", None


def register_table(catalog: Catalog) -> Request:
    levels, made = catalog.new_table()
    catalog.http.delete(catalog.table(levels, "t"))
    body = {"name": "r", "metadata-location": made["metadata-location"]}
    return "POST", f"{catalog.base}/namespaces/{segment(*levels)}/register", body


def rename_table(catalog: Catalog) -> Request:
    levels, _ = catalog.new_table()
    names = [{"namespace": levels, "name": name} for name in ("t", "u")]
    return "POST", f"{catalog.base}/tables/rename", {"source": names[0], "destination": names[1]}


def commit_transaction(catalog: Catalog) -> Request:
    levels, made = catalog.new_table()
    change = {
        "identifier": {"namespace": levels, "name": "t"},
        "requirements": append_requirements(made["metadata"]),
        "updates": append_updates(made["metadata"], 1),
    }
    return "POST", f"{catalog.base}/transactions/commit", {"table-changes": [change]}


def new_view(catalog: Catalog) -> tuple[tuple[str, ...], dict[str, Any]]:
    levels = catalog.new_namespace()
    answer = catalog.http.post(f"{catalog.base}/namespaces/{segment(*levels)}/views", json=VIEW)
    assert answer.status_code == 200, answer.text
    return levels, answer.json()


def create_view(catalog: Catalog) -> Request:
    return "POST", f"{catalog.base}/namespaces/{segment(*catalog.new_namespace())}/views", VIEW


def replace_view(catalog: Catalog) -> Request:
    levels, made = new_view(catalog)
    needs = [{"type": "assert-view-uuid", "uuid": made["metadata"]["view-uuid"]}]
    body = {"requirements": needs, "updates": replacing()}
    return "POST", f"{catalog.base}/namespaces/{segment(*levels)}/views/v", body


def replace_view_by_itself(catalog: Catalog) -> Request:
    levels, _ = new_view(catalog)
    body = {"requirements": [], "updates": []}
    return "POST", f"{catalog.base}/namespaces/{segment(*levels)}/views/v", body


def drop_view(catalog: Catalog) -> Request:
    levels, _ = new_view(catalog)
    return "DELETE", f"{catalog.base}/namespaces/{segment(*levels)}/views/v", None


def rename_view(catalog: Catalog) -> Request:
    levels, _ = new_view(catalog)
    names = [{"namespace": levels, "name": name} for name in ("v", "w")]
    return "POST", f"{catalog.base}/views/rename", {"source": names[0], "destination": names[1]}


def register_view(catalog: Catalog) -> Request:
    levels, made = new_view(catalog)
    catalog.http.delete(f"{catalog.base}/namespaces/{segment(*levels)}/views/v")
    body = {"name": "r", "metadata-location": made["metadata-location"]}
    return "POST", f"{catalog.base}/namespaces/{segment(*levels)}/register-view", body


ONCE_ONLY: list[Callable[[Catalog], Request]] = [
    create_namespace,
    drop_namespace,
    create_table,
    commit_table,
    drop_table,
    purge_table,
    unregister_table,
    register_table,
    rename_table,
    commit_transaction,
    create_view,
    drop_view,
    rename_view,
    register_view,
]
REPEATABLE = [update_properties, stage_table, commit_nothing, replace_view, replace_view_by_itself]


def send(http: Http, request: Request, headers: dict[str, str]) -> httpx.Response:
    method, url, body = request
    return http.request(method, url, headers=headers, **({} if body is None else {"json": body}))


def told(answer: httpx.Response) -> tuple[Any, ...]:
    kept = {name: answer.headers.get(name) for name in ("etag", "content-type")}
    return answer.status_code, answer.content, kept


@pytest.mark.parametrize("prepare", ONCE_ONLY + REPEATABLE, ids=lambda prepare: prepare.__name__)
def test_R7_every_change_sent_again_with_its_key_is_answered_again(
    http: Http, catalog: Catalog, prepare: Callable[[Catalog], Request]
) -> None:
    request, key = prepare(catalog), new_key()
    first = send(http, request, key)
    assert first.status_code in {200, 204}, first.text
    assert told(send(http, request, key)) == told(first)
    assert told(send(http, request, {"Idempotency-Key": key["Idempotency-Key"].upper()})) == told(first)
    if prepare in ONCE_ONLY:
        assert send(http, request, new_key()).status_code in {404, 409}


@pytest.mark.parametrize("prepare", ONCE_ONLY, ids=lambda prepare: prepare.__name__)
def test_R7_a_change_sent_many_times_at_once_happens_once(
    http: Http, catalog: Catalog, prepare: Callable[[Catalog], Request]
) -> None:
    request, key = prepare(catalog), new_key()
    with ThreadPoolExecutor(6) as threads:
        answers = [told(answer) for answer in threads.map(lambda _: send(http, request, key), range(6))]
    assert answers[0][0] in {200, 204}, answers[0]
    assert all(answer == answers[0] for answer in answers)


def test_properties_changed_with_a_key_tell_again_what_was_missing_then(http: Http, catalog: Catalog) -> None:
    request, key = update_properties(catalog), new_key()
    first = send(http, request, key).json()
    assert first == {"updated": ["a"], "removed": ["old"], "missing": ["never"]}
    assert send(http, request, key).json() == first
    assert send(http, request, new_key()).json()["missing"] == ["old", "never"]


def test_R7_load_10_a_commit_whose_answer_was_lost_is_not_done_twice(http: Http, catalog: Catalog) -> None:
    path, body = appending(catalog, 5)
    key = new_key()
    first = http.post(path, json=body, headers=key)
    metadata = first.json()["metadata"]
    later = {
        "requirements": append_requirements(metadata),
        "updates": append_updates(metadata, 6),
    }
    assert http.post(path, json=later).status_code == 200
    again = http.post(path, json=body, headers=key)
    assert told(again) == told(first)
    without = http.post(path, json=body)
    assert_error(without, 409, "CommitFailedException")
    loaded = http.get(path).json()["metadata"]
    assert [snapshot["snapshot-id"] for snapshot in loaded["snapshots"]] == [5, 6]
    location = Path(first.json()["metadata-location"].removeprefix("file://"))
    assert location.is_file()


@pytest.mark.parametrize(
    ("change", "query"),
    [
        ({"updates": [{"action": "set-properties", "updates": {"b": "2"}}]}, ""),
        ({"requirements": [{"type": "assert-create"}]}, ""),
        ({}, "?x=1"),
    ],
    ids=["updates", "requirements", "query"],
)
def test_R8_a_key_of_another_body_is_refused(
    http: Http, catalog: Catalog, change: dict[str, Any], query: str
) -> None:
    path, body = appending(catalog)
    key = new_key()
    first = http.post(path, json=body, headers=key)
    answer = http.post(path + query, json={**body, **change}, headers=key)
    assert "another request" in assert_error(answer, 400, "BadRequestException")
    assert http.get(path).json()["metadata-location"] == first.json()["metadata-location"]


def test_R8_load_14_a_key_of_another_operation_has_no_effect_and_no_false_success(
    http: Http, catalog: Catalog
) -> None:
    levels, _ = catalog.new_table()
    path = catalog.table(levels, "t")
    key = new_key()
    assert catalog.create(levels, "other").status_code == 200
    assert http.delete(catalog.table(levels, "other"), headers=key).status_code == 204
    for method, url, body in (
        ("DELETE", path, None),
        ("DELETE", path + "?purgeRequested=true", None),
        ("POST", path + "/unregister", None),
        ("POST", path, {"requirements": [], "updates": []}),
        ("POST", catalog.tables(levels), {"name": "other", "schema": SCHEMA}),
    ):
        assert_error(send(http, (method, url, body), key), 400, "BadRequestException")
    assert http.head(path).status_code == 204
    assert http.head(catalog.table(levels, "other")).status_code == 404


def test_the_order_of_members_and_spaces_in_the_body_do_not_make_another_request(
    http: Http, catalog: Catalog
) -> None:
    levels = catalog.new_namespace()
    key = new_key()
    bodies = ('{"updates": {"a": "1"}, "removals": []}', '{ "removals":[],"updates":{"a":"1"} }')
    path = f"{catalog.base}/namespaces/{segment(*levels)}/properties"
    answers = [http.post(path, content=body, headers=key) for body in bodies]
    assert [answer.status_code for answer in answers] == [200, 200]


def test_R7_a_refused_commit_stays_refused_since_its_files_may_be_gone(http: Http, catalog: Catalog) -> None:
    levels, made = catalog.new_table()
    path = catalog.table(levels, "t")
    needs = [{"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3}]
    body = {"requirements": needs, "updates": append_updates(made["metadata"], 1)}
    key = new_key()
    first = http.post(path, json=body, headers=key)
    assert_error(first, 409, "CommitFailedException")
    column = {"id": 3, "name": "more", "required": False, "type": "long"}
    grown = {**SCHEMA, "fields": [*SCHEMA["fields"], column]}  # type: ignore[misc]
    assert catalog.commit(levels, "t", [{"action": "add-schema", "schema": grown}], []).status_code == 200
    assert told(http.post(path, json=body, headers=key)) == told(first)
    assert http.post(path, json=body, headers=new_key()).status_code == 200


@pytest.mark.parametrize(
    ("status", "request_of"),
    [
        (404, lambda c: ("DELETE", c.table(c.new_namespace(), "t"), None)),
        (400, lambda c: ("POST", c.tables(c.new_namespace()), {"name": "t"})),
        (409, lambda c: ("POST", c.tables(c.new_table()[0]), {"name": "t", "schema": SCHEMA})),
        (
            422,
            lambda c: (
                "POST",
                f"{c.base}/namespaces/{segment(*c.new_namespace())}/properties",
                {"updates": {"a": "1"}, "removals": ["a"]},
            ),
        ),
    ],
    ids=["404", "400", "409", "422"],
)
def test_final_refusals_are_told_again(
    http: Http, catalog: Catalog, platform: Platform, status: int, request_of: Callable[[Catalog], Request]
) -> None:
    request, key = request_of(catalog), new_key()
    first = send(http, request, key)
    assert first.status_code == status
    assert told(send(http, request, key)) == told(first)
    assert kept(http, platform, key) == [status]


def test_R7_a_failure_that_may_pass_is_not_kept(
    http: Http, catalog: Catalog, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, body = appending(catalog)
    key = new_key()
    for error, status in ((Unavailable("away"), 503), (CommitStateUnknown("who knows"), 500)):
        with monkeypatch.context() as patched:
            patched.setattr(LocalObjectStore, "put", raising(error))
            assert http.post(path, json=body, headers=key).status_code == status
        assert kept(http, platform, key) == []
    assert http.post(path, json=body, headers=key).status_code == 200


def raising(error: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def kept(http: Http, platform: Platform, key: dict[str, str]) -> list[int | None]:
    """The statuses kept under the key."""
    table = schema.idempotency
    rows = http.portal.call(
        platform.database.read,
        lambda connection: list(
            connection.execute(table.select().where(table.c.key == key["Idempotency-Key"].lower())).mappings()
        ),
    )
    return [row["outcome"].get("status") for row in rows]


@pytest.mark.parametrize(
    "key",
    [
        "x",
        "x" * 500,
        "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
        "017f22e2-79b0-7cc3-18c4-dc0c0c07398f",
        "017f22e279b07cc398c4dc0c0c07398f",
        "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
        b"017f22e2-79b0-7cc3-98c4-dc0c0c0739\xe9f",
    ],
    ids=["short", "long", "version-4", "variant", "bare", "braces", "no-hex", "non-ascii"],
)
def test_a_key_that_is_no_uuid_of_version_7_is_refused(http: Http, catalog: Catalog, key: str) -> None:
    path, body = appending(catalog)
    headers = {"Idempotency-Key": key}
    message = assert_error(http.post(path, json=body, headers=headers), 400, "BadRequestException")
    assert "UUID" in message
    assert http.get(path).json()["metadata"]["snapshots"] == []
    assert http.get(path, headers=headers).status_code == 200


@pytest.mark.in_process
def test_two_keys_are_refused_and_an_empty_one_is_none(http: Http, catalog: Catalog) -> None:
    path, body = appending(catalog)
    two = [("Idempotency-Key", next(iter(new_key().values()))) for _ in range(2)]
    assert_error(http.post(path, json=body, headers=two), 400, "BadRequestException")
    assert http.post(path, json=body, headers={"Idempotency-Key": " "}).status_code == 200


def test_a_key_in_an_unknown_bucket_is_the_404_of_the_bucket(http: Http) -> None:
    answer = http.delete("/iceberg/v1/nowhere/namespaces/n", headers=new_key())
    assert_error(answer, 404, "NoSuchWarehouseException")


def test_a_key_belongs_to_its_bucket(http: Http, catalog: Catalog, platform: Platform) -> None:
    http.portal.call(platform.buckets.create, SYSTEM, "second-bucket")
    key = new_key()
    for bucket in (catalog, Catalog(http, "second-bucket")):
        body = {"namespace": ["n_" + key["Idempotency-Key"]]}
        assert http.post(f"{bucket.base}/namespaces", json=body, headers=key).status_code == 200
        assert http.post(f"{bucket.base}/namespaces", json=body).status_code == 409


def test_R7_two_servers_on_one_database_carry_a_request_out_once(tmp_path: Path) -> None:
    with in_process(tmp_path) as (one, _), in_process(tmp_path) as (two, _):
        catalog = Catalog(one)
        for prepare in (commit_table, create_table, create_namespace, drop_table, rename_table):
            request, key = prepare(catalog), new_key()
            with ThreadPoolExecutor(6) as threads:
                answers = list(threads.map(lambda n: send((one, two)[n % 2], request, key), range(6)))  # noqa: B023
            assert {told(answer)[:2] for answer in answers} == {told(answers[0])[:2]}
            assert answers[0].status_code in {200, 204}


def test_R7_a_server_started_anew_tells_again(tmp_path: Path) -> None:
    key = new_key()
    with in_process(tmp_path) as (http, _):
        path, body = appending(Catalog(http))
        first = http.post(path, json=body, headers=key)
    with in_process(tmp_path) as (http, _):
        assert told(http.post(path, json=body, headers=key)) == told(first)


def test_keys_are_forgotten_after_their_time_and_not_before(tmp_path: Path) -> None:
    with in_process(tmp_path, **{"limits.idempotency_minutes": 2}) as (http, platform):
        catalog = Catalog(http)
        assert http.get("/iceberg/v1/config").json()["idempotency-key-lifetime"] == "PT2M"
        request, key = create_namespace(catalog), new_key()
        assert send(http, request, key).status_code == 200

        def age(milliseconds: int) -> None:
            created = schema.idempotency.c.created_at_ms
            http.portal.call(
                platform.database.write,
                lambda connection: (
                    connection.execute(schema.idempotency.update().values({created: created - milliseconds}))
                    and None
                ),
            )

        age(6 * 60_000)
        assert http.portal.call(platform.idempotency.forget_expired) == 0
        assert send(http, request, key).status_code == 200
        age(2 * 60_000)
        assert http.portal.call(platform.idempotency.forget_expired) == 1
        assert send(http, request, key).status_code == 409


def test_the_answer_to_a_commit_whose_file_is_gone_is_the_table_as_it_is(tmp_path: Path) -> None:
    with in_process(tmp_path, **{"limits.document_cache_mb": 0}) as (http, _):
        path, body = appending(Catalog(http))
        key = new_key()
        first = http.post(path, json=body, headers=key).json()
        more = {"requirements": [], "updates": append_updates(first["metadata"], 2)}
        later = http.post(path, json=more).json()
        Path(first["metadata-location"].removeprefix("file://")).unlink()
        again = http.post(path, json=body, headers=key)
        assert again.status_code == 200
        assert again.json()["metadata-location"] == later["metadata-location"]


@pytest.mark.parametrize("prepare", [create_table, commit_table, create_view, replace_view])
@pytest.mark.parametrize("after", ["nothing", "another", "renamed"])
def test_R7_a_change_whose_file_is_gone_is_never_told_of_another_table_nor_as_refused(
    tmp_path: Path, prepare: Callable[[Catalog], Request], after: str
) -> None:
    with in_process(tmp_path, **{"limits.document_cache_mb": 0}) as (http, _):
        (method, url, body), key = prepare(Catalog(http)), new_key()
        first = send(http, (method, url, body), key).json()
        kind = "view" if "/views" in url else "table"
        base, _, rest = url.partition("/namespaces/")
        levels = rest.split("/")[0]
        path = url if url.endswith(("/t", "/v")) else f"{url}/{body['name']}"
        if after == "renamed":
            source = {"namespace": [levels], "name": path.rpartition("/")[2]}
            names = {"source": source, "destination": {**source, "name": "elsewhere"}}
            assert http.post(f"{base}/{kind}s/rename", json=names).status_code == 204
        else:
            assert http.delete(path).status_code == 204
        if after == "another":
            new = VIEW if kind == "view" else {"schema": SCHEMA}
            made = http.post(path.rpartition("/")[0], json={**new, "name": path.rpartition("/")[2]})
            assert made.status_code == 200, made.text
        Path(first["metadata-location"].removeprefix("file://")).unlink()
        again = send(http, (method, url, body), key)
        assert_error(again, 500, "CommitStateUnknownException")
        assert "was made" in again.json()["error"]["message"]


def test_R7_an_unregistration_is_never_told_again_of_a_table_that_is_registered(tmp_path: Path) -> None:
    with in_process(tmp_path, **{"limits.document_cache_mb": 0}) as (http, _):
        catalog = Catalog(http)
        levels, _ = catalog.new_table()
        path, key = catalog.table(levels, "t"), new_key()
        first = http.post(f"{path}/unregister", headers=key).json()
        back = {"name": "t", "metadata-location": first["metadata-location"]}
        assert (
            http.post(f"{catalog.base}/namespaces/{segment(*levels)}/register", json=back).status_code == 200
        )
        change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        assert http.post(path, json=change).status_code == 200
        assert http.post(f"{path}/unregister", headers=key).json() == first
        Path(first["metadata-location"].removeprefix("file://")).unlink()
        assert_error(http.post(f"{path}/unregister", headers=key), 500, "CommitStateUnknownException")
        assert http.get(path).status_code == 200


def test_R22_the_lifetime_of_keys_is_announced_at_the_top_level(http: Http) -> None:
    body = http.get("/iceberg/v1/config").json()
    assert body["idempotency-key-lifetime"] == "PT30M"


@pytest.mark.parametrize("keyed", [True, False])
def test_load_11_a_creation_whose_answer_was_lost_left_a_readable_table(
    http: Http, catalog: Catalog, keyed: bool
) -> None:
    levels = catalog.new_namespace()
    staged = catalog.create(levels, "t", **{"stage-create": True}).json()["metadata"]
    born = [
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "add-schema", "schema": staged["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "set-location", "location": staged["location"]},
        *append_updates(staged, 7),
    ]
    path = catalog.table(levels, "t")
    body = {"requirements": [{"type": "assert-create"}], "updates": born}
    key = new_key() if keyed else {}
    assert http.post(path, json=body, headers=key).status_code == 200  # and a proxy says 503
    loaded = http.get(path)
    assert loaded.json()["metadata"]["current-snapshot-id"] == 7
    again = http.post(path, json=body, headers=key)
    if keyed:
        assert (again.status_code, again.json()) == (200, loaded.json())
        assert again.headers["etag"] == loaded.headers["etag"]
    else:
        assert_error(again, 409, "CommitFailedException")
    assert http.get(path).content == loaded.content
    assert Path(loaded.json()["metadata-location"].removeprefix("file://")).is_file()
