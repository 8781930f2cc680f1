"""Jobs over the management API: plan, cancel, try again, filter, and how maintenance stands on a table."""

from typing import Any

import pytest

from tests.api.iceberg_client import Catalog, segment

pytestmark = pytest.mark.in_process
KINDS = ["icebergCompaction", "icebergSnapshotManagement", "icebergUnreferencedFileRemoval"]


@pytest.fixture
def table(catalog: Catalog) -> str:
    levels, _ = catalog.new_table()
    return f"/api/v1/buckets/default/namespaces/{segment(*levels)}/tables/t"


def ask(http: Any, table: str, kind: str = KINDS[0]) -> dict[str, Any]:
    answer = http.post(f"{table}/jobs", json={"kind": kind})
    assert answer.status_code == 202, answer.text
    job: dict[str, Any] = answer.json()
    return job


def listed(http: Any, **query: Any) -> list[int]:
    answer = http.get("/api/v1/jobs", params=query)
    assert answer.status_code == 200, answer.text
    return [job["id"] for job in answer.json()["jobs"]]


def problem(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["detail"]


def test_a_queued_job_is_cancelled_at_once_and_can_be_tried_again(http: Any, table: str) -> None:
    job = ask(http, table)
    path = f"/api/v1/jobs/{job['id']}"
    assert problem(http.post(f"{path}/retry")) == (
        409,
        f"Job {job['id']} is queued: only a failed or cancelled job can be tried again",
    )
    cancelled = http.post(f"{path}/cancel").json()
    assert (cancelled["state"], cancelled["report"]["outcome"]) == ("cancelled", "cancelled")
    assert cancelled["finishedAtMs"] == cancelled["cancelRequestedAtMs"]
    assert http.post(f"{path}/cancel").json() == cancelled
    assert http.get(path).json()["nextRun"]["why"] == "interval"
    again = http.post(f"{path}/retry")
    assert again.status_code == 202
    assert (again.json()["state"], again.json()["attempts"], again.json()["report"]) == ("queued", 0, None)
    assert again.json()["cancelRequestedAtMs"] is None


def test_trying_again_gives_way_to_a_job_that_waits_already(http: Any, table: str) -> None:
    first = ask(http, table)
    http.post(f"/api/v1/jobs/{first['id']}/cancel")
    second = ask(http, table)
    assert second["id"] != first["id"]
    status, detail = problem(http.post(f"/api/v1/jobs/{first['id']}/retry"))
    assert (status, detail.startswith(f"Job {second['id']} is queued for the same table")) == (409, True)


@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_jobs_that_are_not_there(http: Any, verb: str) -> None:
    assert problem(http.post(f"/api/v1/jobs/987654321/{verb}")) == (404, "Job does not exist: 987654321")
    assert http.post(f"/api/v1/jobs/x/{verb}").status_code == 400


def test_filters(http: Any, table: str) -> None:
    made = [ask(http, table, kind)["id"] for kind in KINDS]
    http.post(f"/api/v1/jobs/{made[0]}/cancel")
    namespace = table.split("/")[6]
    assert listed(http, namespace=namespace) == made[::-1]
    assert listed(http, namespace=namespace, state=["cancelled"]) == made[:1]
    assert listed(http, namespace=namespace, state=["queued", "cancelled"]) == made[::-1]
    assert listed(http, namespace=namespace, kind=KINDS[1]) == [made[1]]
    assert listed(http, namespace=namespace, origin="api") == made[::-1]
    assert listed(http, namespace=namespace, origin="commit") == []
    assert listed(http, namespace=namespace, dryRun=True) == []
    assert listed(http, namespace=namespace, table="t", bucket="default") == made[::-1]
    assert listed(http, namespace=namespace, table="u", bucket="default") == []
    born = [http.get(f"/api/v1/jobs/{one}").json()["createdAtMs"] for one in made]
    assert listed(http, namespace=namespace, sinceMs=born[0], untilMs=born[2] + 1) == made[::-1]
    assert listed(http, namespace=namespace, untilMs=born[0]) == []
    assert listed(http, namespace=namespace, sinceMs=born[2] + 1) == []


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"state": "odd"}, "unknown job state 'odd'"),
        ({"origin": "odd"}, "unknown origin 'odd'"),
        ({"kind": "odd"}, "unknown job kind 'odd'"),
        ({"sinceMs": "-1"}, "query.sinceMs"),
        ({"untilMs": str(2**60)}, "query.untilMs"),
        ({"dryRun": "perhaps"}, "query.dryRun"),
    ],
)
def test_odd_filters(http: Any, query: dict[str, str], told: str) -> None:
    status, detail = problem(http.get("/api/v1/jobs", params=query))
    assert (status, told in detail) == (400, True), detail


def test_how_maintenance_stands_before_anything_ran(http: Any, table: str) -> None:
    job = ask(http, table, KINDS[1])
    http.put(f"{table}/policies/{KINDS[0]}", json={"status": "disabled"})
    kinds = {one["kind"]: one for one in http.get(f"{table}/maintenance").json()["kinds"]}
    assert set(kinds) >= set(KINDS)
    compaction, snapshots, unreferenced = (kinds[kind] for kind in KINDS)
    assert (compaction["enabled"], compaction["nextRun"]["why"]) == (False, "disabled")
    assert compaction["disabledReason"]
    assert (snapshots["openJob"]["id"], snapshots["nextRun"]["why"]) == (job["id"], "queued")
    assert snapshots["nextRun"]["reason"] == f"job {job['id']} waits for a worker"
    assert (unreferenced["result"], unreferenced["lastRun"], unreferenced["openJob"]) == (
        "notYetRun",
        None,
        None,
    )
    assert unreferenced["nextRun"]["why"] == "interval"
    assert unreferenced["nextRun"]["reason"].startswith("86400 s after the table was made")
    assert problem(http.get(table.replace("/tables/t", "/tables/u") + "/maintenance"))[0] == 404


def test_a_plan_that_no_worker_makes_is_pending_and_in_nobodys_way(http: Any, table: str) -> None:
    answer = http.post(f"{table}/maintenance/plan", json={"kind": KINDS[0]})
    assert answer.status_code == 202
    pending = answer.json()
    assert (pending["outcome"], pending["plan"]) == ("pending", None)
    assert pending["reason"] == "no maintenance worker took it yet"
    namespace = table.split("/")[6]
    assert listed(http, namespace=namespace) == []
    assert listed(http, namespace=namespace, origin="plan") == [pending["job"]]
    assert http.post(f"{table}/maintenance/plan", json={"kind": KINDS[0]}).json()["job"] == pending["job"]
    job = ask(http, table)
    assert job["id"] != pending["job"]
    kept = http.post(f"{table}/jobs", json={"kind": KINDS[0], "dryRun": True}).json()
    assert (kept["id"], kept["origin"]) == (
        pending["job"],
        "api",
    )  # who asks for a job's row gets one that stays
    assert problem(http.post(f"{table}/maintenance/plan", json={"kind": "tablePurge"}))[0] == 400
