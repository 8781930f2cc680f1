"""Commits over HTTP: requirements, races, unknown keys, several tables at once, bodies in every form."""

import gzip
import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.iceberg_client import (
    Catalog,
    Http,
    append_requirements,
    append_updates,
    assert_error,
    in_process,
    snapshot,
)


def test_a_commit_answers_what_the_next_load_does(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    metadata = created["metadata"]
    answer = catalog.commit(levels, "t", append_updates(metadata, 7), append_requirements(metadata))
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["metadata"]["current-snapshot-id"] == 7
    assert body["metadata-location"] != created["metadata-location"]
    assert http.get(catalog.table(levels, "t")).json() == body
    assert body["metadata"]["metadata-log"][-1]["metadata-file"] == created["metadata-location"]


def test_R1_parallel_stale_commits_give_one_200_and_409s(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    metadata = created["metadata"]
    barrier = threading.Barrier(8)

    def attempt(number: int) -> Any:
        barrier.wait()
        return catalog.commit(levels, "t", append_updates(metadata, number), append_requirements(metadata))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(attempt, range(1, 9)))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 7}
    for answer in answers:
        if answer.status_code == 409:
            assert_error(answer, 409, "CommitFailedException")
    winner = next(answer for answer in answers if answer.status_code == 200).json()
    assert http.get(catalog.table(levels, "t")).json() == winner


def test_a_failed_requirement_names_what_changed(catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    uuid = created["metadata"]["table-uuid"]
    other = "00000000-0000-4000-8000-000000000000"
    answer = catalog.commit(levels, "t", [], [{"type": "assert-table-uuid", "uuid": other}])
    message = assert_error(answer, 409, "CommitFailedException")
    assert message == f"Requirement failed: UUID does not match: expected {uuid} != {other}"
    answer = catalog.commit(levels, "t", [], [{"type": "assert-current-schema-id", "current-schema-id": 9}])
    assert assert_error(answer, 409, "CommitFailedException").startswith(
        "Requirement failed: current schema changed: expected id 9 != 0"
    )


def test_requirements_without_a_snapshot_id_and_parent_minus_one(catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    updates = append_updates(created["metadata"], 3, **{"parent-snapshot-id": -1})
    answer = catalog.commit(levels, "t", updates, [{"type": "assert-ref-snapshot-id", "ref": "main"}])
    assert answer.status_code == 200, answer.text
    assert "parent-snapshot-id" not in answer.json()["metadata"]["snapshots"][0]


def test_a_commit_that_changes_nothing_keeps_the_version(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table(properties={"a": "b"})
    same = [{"action": "set-properties", "updates": {"a": "b"}}]
    answer = catalog.commit(levels, "t", same, [])
    assert answer.status_code == 200
    assert answer.json() == {key: created[key] for key in answer.json()}
    assert http.get(catalog.table(levels, "t")).json() == created


MALFORMED = [
    {},
    {"requirements": []},
    {"updates": []},
    {"requirements": None, "updates": []},
    {"requirements": {}, "updates": []},
    {"requirements": [], "updates": [1]},
    {"requirements": [], "updates": [None]},
    {"requirements": [], "updates": [{}]},
    {"requirements": [{}], "updates": []},
    {"requirements": [{"type": "assert-nonsense"}], "updates": []},
    {"requirements": [{"type": 5}], "updates": []},
    {"requirements": [], "updates": [{"action": "make-coffee"}]},
    {"requirements": [], "updates": [{"action": "set-properties"}]},
    {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": 1}}]},
    {"requirements": [], "updates": [{"action": "set-current-schema", "schema-id": "0"}]},
    {"requirements": [], "updates": [{"action": "set-default-spec", "spec-id": 77}]},
    {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": {}}]},
    {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": {"snapshot-id": 2**64}}]},
    {
        "requirements": [],
        "updates": [{"action": "set-snapshot-ref", "ref-name": "x", "type": "tag", "snapshot-id": 9}],
    },
    {"requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": "x"}], "updates": []},
    {"requirements": [], "updates": [], "identifier": "x"},
]


@pytest.mark.parametrize("body", MALFORMED)
def test_malformed_commits_are_400_and_change_nothing(http: Http, catalog: Catalog, body: object) -> None:
    levels, created = catalog.new_table()
    path = catalog.table(levels, "t")
    assert_error(http.post(path, json=body), 400, "BadRequestException")
    assert http.get(path).json() == created


@pytest.mark.parametrize(
    ("content", "headers", "status", "error_type"),
    [
        (b"", {}, 400, "BadRequestException"),
        (b"{", {}, 400, "BadRequestException"),
        (b"[]", {}, 400, "BadRequestException"),
        (b'{"requirements": [], "updates": NaN}', {}, 400, "BadRequestException"),
        (b"<html></html>", {"Content-Type": "text/html"}, 400, "BadRequestException"),
        (b"\xff\xfe", {}, 400, "BadRequestException"),
        (b"plain", {"Content-Encoding": "gzip"}, 400, "BadRequestException"),
        (gzip.compress(b"{}", mtime=0)[:-3], {"Content-Encoding": "gzip"}, 400, "BadRequestException"),
        (b"{}", {"Content-Encoding": "br"}, 415, "UnsupportedMediaTypeException"),
        (b"{}", {"Content-Encoding": "nonsense"}, 415, "UnsupportedMediaTypeException"),
        (b'{"requirements": ' + b"[" * 50_000, {}, 400, "BadRequestException"),
    ],
)
def test_bodies_that_are_no_json_object(
    http: Http, catalog: Catalog, content: bytes, headers: dict[str, str], status: int, error_type: str
) -> None:
    levels, _ = catalog.new_table()
    assert_error(http.post(catalog.table(levels, "t"), content=content, headers=headers), status, error_type)


def test_a_body_of_40_mb_is_413_plain_or_compressed(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    path = catalog.table(levels, "t")
    big = b'{"requirements": [], "updates": [], "padding": "' + b"x" * (40 << 20) + b'"}'
    assert_error(http.post(path, content=big), 413, "PayloadTooLargeException")
    packed = gzip.compress(big, 1)
    assert_error(
        http.post(path, content=packed, headers={"Content-Encoding": "gzip"}), 413, "PayloadTooLargeException"
    )
    assert http.get(path).json() == created


def test_a_gzip_body_is_read(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    body = json.dumps({"requirements": [], "updates": [{"action": "set-properties", "updates": {"z": "1"}}]})
    answer = http.post(
        catalog.table(levels, "t"), content=gzip.compress(body.encode()), headers={"Content-Encoding": "gzip"}
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"]["properties"]["z"] == "1"


def test_several_tables_commit_together_or_not_at_all(http: Http, catalog: Catalog) -> None:
    levels, first = catalog.new_table("a")
    second = catalog.create(levels, "b").json()

    def change(name: str, loaded: dict[str, Any], snapshot_id: int) -> dict[str, Any]:
        return {
            "identifier": {"namespace": list(levels), "name": name},
            "requirements": append_requirements(loaded["metadata"]),
            "updates": append_updates(loaded["metadata"], snapshot_id),
        }

    path = f"{catalog.base}/transactions/commit"
    answer = http.post(path, json={"table-changes": [change("a", first, 1), change("b", second, 2)]})
    assert (answer.status_code, answer.content) == (204, b"")
    now = http.get(catalog.table(levels, "a")).json()
    assert now["metadata"]["current-snapshot-id"] == 1
    # The second change is stale: the first must not be applied.
    stale = http.post(path, json={"table-changes": [change("a", now, 3), change("b", second, 4)]})
    assert_error(stale, 409, "CommitFailedException")
    assert http.get(catalog.table(levels, "a")).json() == now
    missing = http.post(path, json={"table-changes": [change("a", now, 3), change("missing", second, 4)]})
    assert_error(missing, 404, "NoSuchTableException")
    assert http.get(catalog.table(levels, "a")).json() == now
    twice = http.post(path, json={"table-changes": [change("a", now, 3), change("a", now, 4)]})
    assert_error(twice, 400, "BadRequestException")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"table-changes": []},
        {"table-changes": {}},
        {"table-changes": [{}]},
        {"table-changes": [{"identifier": {"namespace": ["a"], "name": "t"}}]},
        {
            "table-changes": [
                {"identifier": {"namespace": [], "name": "t"}, "requirements": [], "updates": []}
            ]
        },
        {"table-changes": [{"requirements": [], "updates": []}]},
    ],
)
def test_malformed_transactions_are_400(http: Http, catalog: Catalog, body: object) -> None:
    assert_error(http.post(f"{catalog.base}/transactions/commit", json=body), 400, "BadRequestException")


def test_a_deeply_nested_body_with_an_idempotency_key_is_as_without(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    body = '{"requirements": [], "updates": [], "unknown": ' + "[" * 300 + "]" * 300 + "}"
    answer = http.post(
        catalog.table(levels, "t"),
        content=body,
        headers={"Idempotency-Key": "01931f2e-0000-7000-8000-00000000000d"},
    )
    assert answer.status_code == 200


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "01931f2e-0000-7000-8000-00000000000e"}])
def test_integers_beyond_64_bits_under_unknown_keys_stay_exact(
    http: Http, catalog: Catalog, headers: dict[str, str]
) -> None:
    levels, created = catalog.new_table()
    large = 2**80 + 1
    made = {**snapshot(created["metadata"], 1), "x-large": large}
    body = {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": made}]}
    answer = http.post(catalog.table(levels, "t"), content=json.dumps(body), headers=headers)
    assert answer.status_code == 200, answer.text
    (kept,) = http.get(catalog.table(levels, "t")).json()["metadata"]["snapshots"]
    assert kept["x-large"] == large


def test_a_gzip_body_of_countless_members_is_refused_early(http: Http, catalog: Catalog) -> None:
    started = time.monotonic()
    body = gzip.compress(b"") * 400_000
    answer = http.post(f"{catalog.base}/namespaces", content=body, headers={"Content-Encoding": "gzip"})
    assert_error(answer, 400, "BadRequestException")
    assert time.monotonic() - started < 10  # each member used to cost a copy of all that follow: a minute


def test_manifests_that_a_v1_snapshot_lists_lie_inside_the_bucket(catalog: Catalog) -> None:
    levels, created = catalog.new_table(properties={"format-version": "1"})
    metadata = created["metadata"]
    for manifest, status in (("file:///etc/passwd", 400), (f"{metadata['location']}/metadata/m.avro", 200)):
        made = snapshot({"last-sequence-number": 0, **metadata}, 1, manifests=[manifest])
        del made["manifest-list"], made["sequence-number"]
        answer = catalog.commit(levels, "t", [{"action": "add-snapshot", "snapshot": made}], [])
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize("word", [None, 5, True, [], ["x"], {}, {"a": None}], ids=str)
def test_an_action_or_type_that_is_no_text_is_a_400(catalog: Catalog, word: Any) -> None:
    levels, _ = catalog.new_table()
    assert_error(catalog.commit(levels, "t", [{"action": word}], []), 400, "BadRequestException")
    assert_error(catalog.commit(levels, "t", [], [{"type": word}]), 400, "BadRequestException")
    change = {"identifier": {"namespace": list(levels), "name": "t"}, "requirements": []}
    body = {"table-changes": [{**change, "updates": [{"action": word}]}]}
    answer = catalog.http.post(f"{catalog.base}/transactions/commit", json=body)
    assert_error(answer, 400, "BadRequestException")


def test_set_location_is_stored_as_given(catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    location = created["metadata"]["location"] + "-moved"
    location = location.replace("file:///", "file:/")
    update = {"action": "set-location", "location": location}
    body = catalog.commit(levels, "t", [update], []).json()
    assert body["metadata"]["location"] == location
    assert body["metadata-location"].startswith(location + "/")


def test_an_unexpected_exception_is_an_envelope_with_the_request_id(tmp_path: Any) -> None:
    with in_process(tmp_path) as (client, platform):
        catalog = Catalog(client)
        levels, _ = catalog.new_table()

        async def crash(*_: object, **__: object) -> None:
            raise RuntimeError("secret detail")

        object.__setattr__(platform.tables, "load", crash)
        answer = client.get(catalog.table(levels, "t"), headers={"X-Request-Id": "find-me"})
        message = assert_error(answer, 500, "InternalServerError")
        assert "find-me" in message
        assert "secret" not in answer.text
        managed = client.get(f"/api/v1/buckets/default/namespaces/{levels[0]}/tables/t")
        assert managed.status_code == 500
        assert managed.headers["content-type"] == "application/problem+json"
        assert "secret" not in managed.text
