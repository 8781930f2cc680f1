"""The S3 Tables API asked by several clients at once: nothing lost, no half state, nothing left of what is gone."""

import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.api.iceberg_client import Http

HOME = "arn:aws:s3tables:us-east-1:000000000000:bucket/"
KIND = "icebergUnreferencedFileRemoval"
ROUNDS = 8


def at_once(*requests: Callable[[], httpx.Response]) -> list[int]:
    """The statuses, in order."""
    with ThreadPoolExecutor(len(requests)) as pool:
        return [future.result().status_code for future in [pool.submit(one) for one in requests]]


def new_name() -> str:
    return f"b-{uuid.uuid4().hex[:12]}"


def path_of(name: str, *parts: str) -> str:
    return "/".join(("/s3tables", "buckets", quote(HOME + name, safe=""), *parts))


@pytest.fixture
def bucket(http: Http) -> str:
    name = new_name()
    assert http.put("/s3tables/buckets", json={"name": name}).status_code == 200
    return name


def test_of_many_buckets_of_one_name_one_is_made(http: Http) -> None:
    name = new_name()
    statuses = at_once(*[lambda: http.put("/s3tables/buckets", json={"name": name})] * 8)
    assert Counter(statuses) == {200: 1, 409: 7}
    assert http.get(path_of(name)).json()["name"] == name


def test_parts_of_a_maintenance_configuration_that_are_put_at_once_are_all_there(
    http: Http, bucket: str
) -> None:
    """Each PUT changes what it names; none undoes another's."""

    def put(**value: Any) -> Callable[[], httpx.Response]:
        return lambda: http.put(path_of(bucket, "maintenance", KIND), json={"value": value})

    for turn in range(1, ROUNDS + 1):
        status = "disabled" if turn % 2 else "enabled"
        statuses = at_once(
            put(settings={KIND: {"unreferencedDays": turn}}),
            put(settings={KIND: {"nonCurrentDays": 100 + turn}}),
            put(status=status),
        )
        assert statuses == [204, 204, 204]
        found = http.get(path_of(bucket, "maintenance")).json()["configuration"][KIND]
        wanted = {"unreferencedDays": turn, "nonCurrentDays": 100 + turn}
        assert found == {"status": status, "settings": {KIND: wanted}}


def test_nothing_that_is_set_while_a_bucket_is_deleted_is_left_for_the_next_of_its_name(http: Http) -> None:
    name = new_name()
    policy = {"resourcePolicy": '{"Statement": []}'}
    for _ in range(ROUNDS):
        assert http.put("/s3tables/buckets", json={"name": name}).status_code == 200
        statuses = at_once(
            *[lambda: http.put(path_of(name, "policy"), json=policy)] * 3,
            lambda: http.delete(path_of(name)),
            *[lambda: http.put(path_of(name, "policy"), json=policy)] * 3,
        )
        assert statuses.pop(3) == 204
        assert set(statuses) <= {200, 404}
        assert http.put("/s3tables/buckets", json={"name": name}).status_code == 200
        assert http.get(path_of(name, "policy")).status_code == 404
        assert http.delete(path_of(name)).status_code == 204


def test_a_bucket_is_deleted_or_gets_its_namespace_never_both(http: Http) -> None:
    for _ in range(ROUNDS):
        name = new_name()
        assert http.put("/s3tables/buckets", json={"name": name}).status_code == 200
        arn = quote(HOME + name, safe="")
        made, deleted = at_once(
            lambda arn=arn: http.put(f"/s3tables/namespaces/{arn}", json={"namespace": ["a"]}),  # type: ignore[misc]
            lambda name=name: http.delete(path_of(name)),  # type: ignore[misc]
        )
        assert (made, deleted) in {(200, 409), (404, 204)}
        assert http.get(f"/s3tables/namespaces/{arn}/a").status_code == made
