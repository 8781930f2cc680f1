"""Registered topics over HTTP: checked as a file is, protected by versions, with a history."""

from typing import Any

import pytest

from ingest_plugin.keys import ConfigError
from tests.api.iceberg_client import Http
from tests.api.test_management import assert_problem
from tests.factories.ingest_lab import settings_of

TOPICS = "/api/v1/buckets/default/ingest/topics"
HISTORY = "/api/v1/buckets/default/ingest/history"


def put(http: Http, topic: str, etag: str | None = None, group: str = "frazil", **settings: Any) -> Any:
    headers = {} if etag is None else {"If-Match": etag}
    body = {"group": group, "settings": {"namespace": "web", **settings}}
    return http.put(f"{TOPICS}/{topic}", json=body, headers=headers)


def refused(http: Http, topic: str, **settings: Any) -> str:
    answer = put(http, topic, **settings)
    assert_problem(answer, 400, "invalid")
    detail: str = answer.json()["detail"]
    return detail


def test_a_topic_is_registered_read_changed_and_removed(http: Http) -> None:
    made = put(http, "life", **{"convert.value.type": "json"})
    assert made.status_code == 200, made.text
    assert made.json()["settings"] == {"namespace": "web", "convert.value.type": "json"}
    assert (made.json()["group"], made.json()["version"], made.headers["ETag"]) == ("frazil", 1, '"1"')
    got = http.get(f"{TOPICS}/life")
    assert (got.json(), got.headers["ETag"]) == (made.json(), '"1"')
    assert made.json() in http.get(TOPICS).json()["topics"]
    changed = put(http, "life", etag='"1"', **{"commit.interval.ms": 500})
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"2"')
    assert http.delete(f"{TOPICS}/life", headers={"If-Match": '"2"'}).status_code == 204
    assert_problem(http.get(f"{TOPICS}/life"), 404, "not-found")
    assert_problem(http.delete(f"{TOPICS}/life"), 404, "not-found")
    # A version never names two contents, and the same content again is no change.
    assert put(http, "life").headers["ETag"] == '"4"'
    assert put(http, "life").headers["ETag"] == '"4"'


def test_a_change_of_what_somebody_else_changed_is_refused(http: Http) -> None:
    assert put(http, "versions", etag='"0"').status_code == 200
    assert_problem(put(http, "versions", etag='"0"', table="other"), 412, "conflict")
    assert_problem(put(http, "versions", etag='"7"', table="other"), 412, "conflict")
    assert_problem(http.delete(f"{TOPICS}/versions", headers={"If-Match": '"7"'}), 412, "conflict")
    assert_problem(put(http, "versions", etag="x"), 400, "invalid")


@pytest.mark.parametrize(
    "settings",
    [
        {"comit.interval.ms": 5},
        {"commit.interval.ms": 5},
        {"convert.value.type": "protobuf"},
        {"namespace": ""},
        {"upsert.enable": True},
        {"automq.table.topic.expire.snapshot.enabled": True},
        {"automq.table.topic.table": "a", "table": "b"},
        {"partition.by": "day(ts"},
        {"schema": {"columns": {"a": "intt"}}, "convert.value.type": "json"},
        {"fields.cast": {"a": "dates"}},
        {"password": "hunter2"},
        {"table": 5},
        {"table.dot.replacement": 10**30},
        {"table.dot.replacement": ["_"]},
        {"namespace": [5]},
        {"partition.by": [5]},
        {"fields.include": [5]},
        {"commit.interval.ms": 10**30},
        {"enable": 10**30},
    ],
)
def test_what_a_file_refuses_is_refused_in_the_same_words(http: Http, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as of_the_file:
        settings_of({"topics": {"same": {"namespace": "web", **settings}}})
    detail = refused(http, "same", **settings)
    assert detail == str(of_the_file.value)
    assert "hunter2" not in detail


@pytest.mark.parametrize(
    "settings",
    [
        '{"namespace": "we\\ud800b"}',
        '{"namespace": "web", "table": "\\ud800"}',
        '{"namespace": "web", "\\ud800": 1}',
        '{"namespace": "web", "fields.rename": {"a": "\\udfff"}}',
    ],
)
def test_half_a_character_is_refused(http: Http, settings: str) -> None:
    answer = http.put(
        f"{TOPICS}/halves",
        content=f'{{"group": "g", "settings": {settings}}}',
        headers={"Content-Type": "application/json"},
    )
    assert_problem(answer, 400, "invalid")
    assert_problem(http.get(f"{TOPICS}/halves"), 404, "not-found")


def test_a_topic_configuration_of_automq_is_taken_as_it_is(http: Http) -> None:
    keys = {
        "automq.table.topic.enable": "true",
        "automq.table.topic.commit.interval.ms": "60000",
        "automq.table.topic.convert.value.type": "by_schema_id",
        "automq.table.topic.transform.value.type": "flatten",
        "automq.table.topic.id.columns": "[id]",
        "automq.table.topic.partition.by": "[bucket(id, 16)]",
        "automq.table.topic.upsert.enable": "true",
        "automq.table.topic.errors.tolerance": "all",
    }
    made = put(http, "automq.orders", **keys)
    assert made.status_code == 200, made.text
    assert made.json()["settings"] == {"namespace": "web", **keys}


@pytest.mark.parametrize("topic", ["a b", "a%2Fb", "%C3%A4", "x" * 250, "%2E%2E", "a%1F"])
def test_names_that_kafka_does_not_have(http: Http, topic: str) -> None:
    assert "is no name of a topic" in refused(http, topic)


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"settings": []},
        {"settings": {"namespace": "web"}, "group": ""},
        {"settings": {"namespace": "web"}, "group": 5},
        {"settings": {"namespace": "web"}, "extra": 1},
    ],
)
def test_bodies_that_are_none(http: Http, body: Any) -> None:
    assert_problem(http.put(f"{TOPICS}/bodies", json=body), 400, "invalid")


def test_odd_characters_in_names_are_kept(http: Http) -> None:
    assert put(http, "odd", table="a\u0000b\u001fc").status_code == 200
    assert http.get(f"{TOPICS}/odd").json()["settings"]["table"] == "a\u0000b\u001fc"
    assert put(http, "odd.b", namespace=["web", "a\u0000b"], table="c").status_code == 200


def test_two_topics_of_one_table_are_refused_unless_they_share_it(http: Http) -> None:
    assert put(http, "one.a", table="One", **{"table.shared": True}).status_code == 200
    answer = put(http, "one.b", table="one")
    assert_problem(answer, 409, "already-exists")
    assert "topics 'one.a' and 'one.b' would both write table web.one" in answer.json()["detail"]
    assert_problem(put(http, "one.c", table="one__dead_letters"), 409, "already-exists")
    assert put(http, "one.b", table="One", **{"table.shared": True}).status_code == 200
    # What no longer writes the table is in nobody's way.
    assert put(http, "one.a", table="elsewhere").status_code == 200
    assert put(http, "one.d", table="one__dead_letters", **{"errors.tolerance": "none"}).status_code == 409
    assert http.delete(f"{TOPICS}/one.b").status_code == 204
    assert put(http, "one.c", table="one__dead_letters").status_code == 200


def test_topics_and_changes_come_in_pages(http: Http) -> None:
    names = [f"page.{number}" for number in range(5)]
    for name in names:
        assert put(http, name).status_code == 200
    found: list[str] = []
    token = None
    while True:
        query = {"pageSize": 2} | ({} if token is None else {"pageToken": token})
        page = http.get(TOPICS, params=query).json()
        assert len(page["topics"]) <= 2
        found += [each["topic"] for each in page["topics"]]
        token = page["nextPageToken"]
        if token is None:
            break
    assert [name for name in found if name.startswith("page.")] == names
    assert found == sorted(set(found))
    assert put(http, "page.0", table="t0").status_code == 200
    assert http.delete(f"{TOPICS}/page.0").status_code == 204
    first = http.get(HISTORY, params={"topic": "page.0", "pageSize": 2}).json()
    second = http.get(
        HISTORY, params={"topic": "page.0", "pageSize": 2, "pageToken": first["nextPageToken"]}
    ).json()
    changes = [*first["changes"], *second["changes"]]
    tables = [
        tuple(None if at is None else at["settings"].get("table") for at in (each["before"], each["after"]))
        for each in changes
    ]
    assert tables == [("t0", None), (None, "t0"), (None, None)]
    assert (changes[0]["after"], changes[2]["before"], second["nextPageToken"]) == (None, None, None)
    assert all(each["by"] for each in changes)
    assert_problem(http.get(HISTORY, params={"pageToken": first["nextPageToken"] + "x"}), 400, "invalid")
    assert_problem(http.get(TOPICS, params={"pageToken": first["nextPageToken"]}), 400, "invalid")


def test_registrations_are_of_a_bucket_and_go_with_it(http: Http) -> None:
    assert_problem(http.get("/api/v1/buckets/nowhere/ingest/topics"), 404, "not-found")
    assert_problem(http.get("/api/v1/buckets/nowhere/ingest/history"), 404, "not-found")
    body = {"settings": {"namespace": "web"}}
    assert_problem(http.put("/api/v1/buckets/nowhere/ingest/topics/a", json=body), 404, "not-found")
    assert http.post("/api/v1/buckets", json={"name": "for-topics"}).status_code == 201
    path = "/api/v1/buckets/for-topics/ingest/topics"
    assert http.put(f"{path}/a", json=body).status_code == 200
    assert http.delete("/api/v1/buckets/for-topics").status_code == 204
    assert http.post("/api/v1/buckets", json={"name": "for-topics"}).status_code == 201
    assert http.get(path).json()["topics"] == []
