"""Probes, metrics, start page."""

from pathlib import Path

import pytest

from table_format.errors import Unavailable
from tests.api.iceberg_client import Http, in_process


def test_probes(http: Http) -> None:
    assert http.get("/health/live").json() == {"status": "live"}
    assert http.get("/health/ready").json() == {"status": "ready"}


class DatabaseAway:
    """Buckets whose database does not answer."""

    default_name = "default"

    async def get(self, *_: object) -> None:
        raise Unavailable("the database does not answer")


def test_not_ready_when_the_database_is_away(tmp_path: Path) -> None:
    with in_process(tmp_path) as (client, platform):
        object.__setattr__(platform, "buckets", DatabaseAway())
        answer = client.get("/health/ready")
        assert answer.status_code == 503
        assert answer.json()["status"] == "not ready"
        assert client.get("/health/live").status_code == 200


def test_metrics_count_requests(http: Http) -> None:
    http.get("/iceberg/v1/config")
    text = http.get("/metrics").text
    assert 'frazil_requests_total{door="iceberg",method="GET",status="200"}' in text


@pytest.mark.in_process
def test_start_page_names_the_urls(http: Http) -> None:
    page = http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "http://testserver/iceberg" in page.text
    assert "/api/openapi.json" in page.text


def test_start_page_escapes_the_host_it_was_asked_by(http: Http) -> None:
    page = http.get("/", headers={"Host": "a<script>"})
    assert "<script>" not in page.text


def test_a_probe_that_crashes_is_a_problem_document(tmp_path: Path) -> None:
    with in_process(tmp_path) as (client, platform):
        object.__setattr__(platform, "buckets", None)
        answer = client.get("/health/ready")
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/problem+json"
