"""How far ingest has filled a table, over HTTP, as its newest snapshot says it."""

from typing import Any

import orjson
import pytest

from tests.api.iceberg_client import Catalog, Http, append_requirements, append_updates
from tests.api.test_management import assert_problem


def filled(catalog: Catalog, summary: dict[str, str]) -> str:
    """A table whose newest snapshot has these keys; where it is asked about."""
    levels, loaded = catalog.new_table()
    metadata = loaded["metadata"]
    updates = append_updates(metadata, 7, summary={"operation": "append", **summary})
    answer = catalog.commit(levels, "t", updates, append_requirements(metadata))
    assert answer.status_code == 200, answer.text
    return f"/api/v1/buckets/default/namespaces/{levels[0]}/tables/t/ingest"


def test_offsets_and_the_moment_up_to_which_a_table_is_complete(http: Http, catalog: Catalog) -> None:
    summary = {
        "ingest.offsets": '{"a":{"10":7,"2":5},"b":{"0":3}}',
        "ingest.valid-through": '{"a":{"10":1700000000500,"2":1700000000400},"b":{"0":1700000000900}}',
        "ingest.topic-ids": '{"a":"id-a"}',
        "ingest.commit-id": "c",
    }
    found = http.get(filled(catalog, summary)).json()
    assert (found["validThroughMs"], found["paused"]) == (1700000000400, False)
    assert found["lastCommitMs"] is not None
    assert found["topics"] == [
        {
            "topic": "a",
            "topicId": "id-a",
            "partitions": [
                {"partition": 2, "nextOffset": 5, "validThroughMs": 1700000000400},
                {"partition": 10, "nextOffset": 7, "validThroughMs": 1700000000500},
            ],
        },
        {
            "topic": "b",
            "topicId": None,
            "partitions": [{"partition": 0, "nextOffset": 3, "validThroughMs": 1700000000900}],
        },
    ]


def test_a_partition_of_which_nothing_is_known_leaves_the_moment_open(http: Http, catalog: Catalog) -> None:
    summary = {"ingest.offsets": '{"a":{"0":7,"1":5}}', "ingest.valid-through": '{"a":{"0":17}}'}
    assert http.get(filled(catalog, summary)).json()["validThroughMs"] is None


def test_a_table_that_ingest_never_filled(http: Http, catalog: Catalog) -> None:
    found = http.get(filled(catalog, {})).json()
    assert found == {"validThroughMs": None, "lastCommitMs": None, "paused": False, "topics": []}
    assert_problem(http.get("/api/v1/buckets/default/namespaces/nowhere/tables/t/ingest"), 404, "not-found")


@pytest.mark.parametrize(
    ("offsets", "through"),
    [
        ("nonsense", {}),
        (5, {}),
        ({"a": 5}, {}),
        ({"a": {"x": 1}}, {}),
        ({"a": {"0": []}}, {}),
        ({}, {"a": {"0": "x"}}),
    ],
)
def test_keys_that_somebody_else_has_spoilt(http: Http, catalog: Catalog, offsets: Any, through: Any) -> None:
    summary = {
        "ingest.offsets": orjson.dumps(offsets).decode(),
        "ingest.valid-through": orjson.dumps(through).decode(),
    }
    assert_problem(http.get(filled(catalog, summary)), 400, "invalid")
