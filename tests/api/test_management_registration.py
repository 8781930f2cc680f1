"""Registering a bucket: the place is tried out; what fails is told exactly, and then nothing is stored or left."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.iceberg_client import Http, in_process
from tests.api.test_management import assert_problem
from tests.api.test_management_buckets import whole
from tests.s3 import READER_KEY, READER_SECRET, S3Server, s3

__all__ = ["s3"]

BUCKETS = "/api/v1/buckets"
SCHEMA: dict[str, Any] = {"type": "struct", "fields": []}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, s3: S3Server) -> Iterator[Http]:
    reader = {"s3.access-key-id": READER_KEY, "s3.secret-access-key": READER_SECRET}
    settings = {"storage.credentials": {"lake": s3.credentials, "reader": reader}}
    with in_process(tmp_path_factory.mktemp("registration"), **settings) as (http, _):
        yield http


def register(server: Http, name: str, location: str, **more: Any) -> Any:
    return server.post(BUCKETS, json={"name": name, "location": location, **more})


def test_a_place_on_the_disk_is_tried_out_and_left_as_it_was(server: Http, tmp_path: Path) -> None:
    answer = register(server, "on-disk", f"file://{tmp_path}/deep/inside")
    assert answer.status_code == 201, answer.text
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_can_not_be_written_to_is_refused(server: Http, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    refused = assert_problem(register(server, "in-the-way", f"file://{tmp_path}/file/inner"), 400, "invalid")
    assert "write failed" in refused
    assert "not tried: conditional-write, read, list, delete" in refused
    assert_problem(server.get(f"{BUCKETS}/in-the-way"), 404, "not-found")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_nothing_is_written_to_the_place_of_another_bucket(server: Http, tmp_path: Path) -> None:
    assert register(server, "holder", f"file://{tmp_path}/place").status_code == 201
    assert_problem(register(server, "intruder", f"file://{tmp_path}/place/in"), 409, "already-exists")
    assert_problem(register(server, "holder", f"file://{tmp_path}/elsewhere"), 409, "already-exists")
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_on_s3_by_the_name_of_its_credentials(server: Http, s3: S3Server) -> None:
    at = f"s3://{s3.bucket()}/warehouse"
    answer = register(server, "on-s3", at, storage=s3.storage, credentials="lake")
    assert answer.status_code == 201, answer.text
    document = answer.json()
    assert (document["location"], document["storage"], document["credentials"]) == (at, s3.storage, "lake")
    texts = [answer.text, server.get(f"{BUCKETS}/on-s3").text, server.get(BUCKETS).text]
    assert not [text for text in texts for secret in s3.credentials.values() if secret in text]
    path = f"{BUCKETS}/on-s3/namespaces"
    assert server.post(path, json={"namespace": ["n"]}).status_code == 201
    made = server.post("/iceberg/v1/on-s3/namespaces/n/tables", json={"name": "t", "schema": SCHEMA})
    assert made.status_code == 200, made.text
    assert made.json()["metadata"]["location"].startswith(at + "/n/t-")
    assert server.get(f"{BUCKETS}/on-s3").json()["figures"]["currentTables"] == 1

    elsewhere = register(
        server, "beside", at.replace("s3://", "s3a://") + "/n", storage=s3.storage, credentials="lake"
    )
    assert "overlaps that of table bucket on-s3" in assert_problem(elsewhere, 409, "already-exists")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"credentials": "lale"}, "(storage.credentials.lale); did you mean 'lake'?"),
        ({"credentials": None}, "needs credentials of its own"),
        ({"credentials": "reader"}, "write failed"),
        ({"storage": {"s3.secret-access-key": "hush-hush"}}, "s3.secret-access-key"),
        ({"storage": {"s3.endpoynt": "x"}}, "s3.endpoynt"),
        ({"storage": {"s3.endpoint": "http://127.0.0.1:1", "s3.retry.num-retries": "0"}}, "127.0.0.1:1"),
        ({"location": "s3://there-is-no-such-bucket/x"}, "there-is-no-such-bucket"),
        ({"location": "nowhere://x/y"}, "nowhere"),
    ],
    ids=["unknown", "none", "reader", "secret", "misspelt", "nobody", "no-bucket", "no-store"],
)
def test_what_does_not_work_on_s3_is_told_and_not_stored(
    server: Http, s3: S3Server, change: dict[str, Any], told: str
) -> None:
    wanted = {"location": f"s3://{s3.bucket()}/w", "storage": s3.storage, "credentials": "lake", **change}
    answer = server.post(BUCKETS, json={"name": "refused", **wanted})
    detail = assert_problem(answer, 400, "invalid")
    assert told in detail
    assert "hush-hush" not in answer.text
    assert_problem(server.get(f"{BUCKETS}/refused"), 404, "not-found")


def test_other_storage_settings_are_tried_out_and_must_lead_to_the_same_tables(
    server: Http, s3: S3Server
) -> None:
    at = f"s3://{s3.bucket()}/w"
    assert register(server, "changing", at, storage=s3.storage, credentials="lake").status_code == 201
    path = f"{BUCKETS}/changing"
    settings = whole(storage={**s3.storage, "s3.request-timeout": "60"}, credentials="lake")
    assert server.put(path, json=settings).status_code == 200
    assert "write failed" in assert_problem(
        server.put(path, json={**settings, "credentials": "reader"}), 400, "invalid"
    )
    assert server.put(path, json={**settings, "properties": {"a": "b"}}).json()["version"] == 3
    assert server.post(f"{path}/namespaces", json={"namespace": ["n"]}).status_code == 201
    made = server.post(
        "/iceberg/v1/changing/namespaces/n/tables", json={"name": "t", "schema": SCHEMA}
    ).json()
    bucket, _, key = made["metadata-location"].removeprefix("s3://").partition("/")
    assert server.put(path, json=whole(storage=s3.storage, credentials="lake")).status_code == 200
    s3.client().delete_object(Bucket=bucket, Key=key)
    lost = assert_problem(server.put(path, json=settings), 400, "invalid")
    assert made["metadata-location"] in lost
    assert json.loads(server.get(path).text)["storage"] == s3.storage
