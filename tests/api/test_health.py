"""Probes, metrics, start page."""

from pathlib import Path

import pytest

from maintenance.ports import JobKind
from table_format.errors import Unavailable
from tests.api.iceberg_client import Catalog, Http, in_process, segment
from tests.fakes.clock import ManualClock


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


def test_metrics_tell_of_jobs(tmp_path: Path) -> None:
    clock = ManualClock()
    compaction = 'frazil_maintenance_jobs{kind="icebergCompaction",state="%s"}'
    with in_process(tmp_path, clock=clock) as (client, platform):

        def told(name: str) -> float:
            line = next(one for one in client.get("/metrics").text.splitlines() if one.startswith(name))
            return float(line.rpartition(" ")[2])

        levels, _ = Catalog(client).new_table()
        table = f"/api/v1/buckets/default/namespaces/{segment(*levels)}/tables/t"
        client.post(f"{table}/jobs", json={"kind": "icebergCompaction"})
        assert (told(compaction % "queued"), told(compaction % "done")) == (1, 0)
        clock.advance(7)
        assert told('frazil_maintenance_queue_age_seconds{kind="icebergCompaction"}') == 7
        took = 'frazil_maintenance_job_seconds_sum{kind="icebergCompaction",state="done"}'
        count = 'frazil_maintenance_job_seconds_count{kind="icebergCompaction",state="done"}'

        async def run() -> None:
            job = await platform.jobs.claim("w", list(JobKind), 60_000)
            assert job is not None
            clock.advance(20)
            figures = {"filesRewritten": 9, "filesWritten": 1, "bytesRead": 900, "bytesWritten": 700}
            await platform.jobs.finish(job.id, job.lease_token, {"outcome": "done", "figures": figures}, None)

        ended = 'frazil_maintenance_outcomes_total{kind="icebergCompaction",outcome="done"}'
        files = 'frazil_maintenance_files_total{kind="icebergCompaction",part="%s"}'
        size = 'frazil_maintenance_bytes_total{kind="icebergCompaction",part="%s"}'
        overdue = 'frazil_maintenance_jobs_overdue{kind="icebergCompaction"}'
        assert told(overdue) == 0
        clock.advance(3600)
        assert told(overdue) == 1
        client.portal.call(run)
        assert told(overdue) == 0
        assert told(ended) == 1
        assert (told(files % "before"), told(files % "after")) == (9, 1)
        assert (told(size % "before"), told(size % "after")) == (900, 700)
        assert (told(compaction % "queued"), told(compaction % "done")) == (0, 1)
        assert (told(took), told(count)) == (20, 1)
        clock.advance(10)
        assert told(count) == 1  # told once, however often it is asked


@pytest.mark.in_process
def test_start_page_names_the_urls(http: Http) -> None:
    page = http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "http://testserver/iceberg" in page.text
    assert "/api/openapi.json" in page.text
    assert "/s3tables/openapi.json" in page.text


def test_start_page_escapes_the_host_it_was_asked_by(http: Http) -> None:
    page = http.get("/", headers={"Host": "a<script>"})
    assert "<script>" not in page.text


def test_a_probe_that_crashes_is_a_problem_document(tmp_path: Path) -> None:
    with in_process(tmp_path) as (client, platform):
        object.__setattr__(platform, "buckets", None)
        answer = client.get("/health/ready")
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/problem+json"
