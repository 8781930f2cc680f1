"""Scan planning on the server, as clients meet it: answers, pages, tokens, ends of plans, and bad requests."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.store import plans as plan_rows
from table_format.ident import TableIdent
from table_format.io.local import local_path
from tests.api.iceberg_client import Catalog, Http, assert_error, in_process
from tests.factories.scans import PlannedLake, deletes_of, follow, names_of
from tests.fakes.clock import ManualClock

PAGE = 3
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, clock: ManualClock) -> Iterator[tuple[Http, Platform]]:
    settings = {
        "planning.processes": 0,
        "planning.page_files": PAGE,
        "planning.page_mb": 1,
        "planning.lifetime_minutes": 10,
    }
    with in_process(tmp_path_factory.mktemp("plans"), clock=clock, **settings) as both:
        yield both


class Table:
    """A table and the four operations on its plans."""

    def __init__(self, http: Http, platform: Platform, name: str = "t") -> None:
        self.http = http
        self.levels = (f"ns_{uuid.uuid4().hex[:12]}",)
        ident = TableIdent.of(*self.levels, name)
        catalog = http.portal.call(platform.catalog, "default")
        self.lake = PlannedLake(catalog, ident, clock=platform.clock)
        self.url = Catalog(http).table(self.levels, name)

    def submit(self, **body: Any) -> Any:
        return self.http.post(f"{self.url}/plan", json=body)

    def plan(self, **body: Any) -> dict[str, Any]:
        answer = self.submit(**body)
        assert answer.status_code == 200, answer.text
        plan: dict[str, Any] = answer.json()
        return plan

    def fetch(self, token: str) -> Any:
        return self.http.post(f"{self.url}/tasks", json={"plan-task": token})

    def page(self, token: str) -> dict[str, Any]:
        answer = self.fetch(token)
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        return page

    def result(self, plan_id: str) -> Any:
        return self.http.get(f"{self.url}/plan/{plan_id}")

    def cancel(self, plan_id: str) -> Any:
        return self.http.delete(f"{self.url}/plan/{plan_id}")


@pytest.fixture
def table(http: Http, platform: Platform) -> Table:
    return Table(http, platform)


def test_all_four_operations_are_advertised(http: Http) -> None:
    table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    offered = http.get("/iceberg/v1/config").json()["endpoints"]
    assert {
        f"POST {table}/plan",
        f"GET {table}/plan/{{plan-id}}",
        f"DELETE {table}/plan/{{plan-id}}",
        f"POST {table}/tasks",
    } <= set(offered)


def test_planning_in_the_client_stays_the_default(table: Table) -> None:
    assert "scan-planning-mode" not in table.http.get(table.url).json()["config"]


def test_a_table_without_snapshots_has_nothing_to_scan(table: Table) -> None:
    plan = table.plan()
    assert (plan["status"], plan["plan-tasks"], plan["file-scan-tasks"]) == ("completed", [], [])
    assert table.result(plan["plan-id"]).json() == {"status": "completed", "plan-tasks": []}


def test_a_small_table_is_answered_at_once(table: Table) -> None:
    table.lake.append_named("a", "b")
    plan = table.plan()
    assert plan["status"] == "completed"
    assert plan["plan-tasks"] == []
    assert names_of(plan) == ["a", "b"]
    assert "delete-files" not in plan


def test_a_completed_plan_can_be_asked_for_again(table: Table) -> None:
    table.lake.append_named("a", "b")
    again = table.result(table.plan()["plan-id"]).json()
    assert again["status"] == "completed"
    assert follow(again, table.page) == ["a", "b"]


def test_a_large_table_comes_in_pages_each_file_once(table: Table) -> None:
    names = [f"f{number:02}" for number in range(20)]
    table.lake.append_named(*names[:7])
    table.lake.append_named(*names[7:])
    plan = table.plan()
    assert len(plan["file-scan-tasks"]) == PAGE
    assert len(plan["plan-tasks"]) == 6
    pages = [table.page(token) for token in plan["plan-tasks"]]
    assert all(len(page["file-scan-tasks"]) <= PAGE for page in pages)
    assert sorted(names_of(plan) + [name for page in pages for name in names_of(page)]) == names
    # A page is the same however often and in whatever order it is fetched.
    assert [table.page(token) for token in reversed(plan["plan-tasks"])] == pages[::-1]


def test_the_result_of_a_large_plan_has_all_its_pages(table: Table) -> None:
    names = [f"f{number}" for number in range(8)]
    table.lake.append_named(*names)
    plan = table.plan()
    again = table.result(plan["plan-id"]).json()
    assert "file-scan-tasks" not in again
    assert set(plan["plan-tasks"]) < set(again["plan-tasks"])
    assert sorted(follow(again, table.page)) == names


def test_the_result_has_a_page_once_also_after_it_fell_into_parts(table: Table) -> None:
    names = [f"f{number}" for number in range(8)]
    table.lake.append_named(*names, upper_bounds={1: b"x" * 400_000})
    plan = table.plan(**{"stats-fields": [table.lake.metadata.schema()["fields"][0]["name"]]})
    first = table.result(plan["plan-id"]).json()
    parts = table.page(first["plan-tasks"][1])
    assert "file-scan-tasks" not in parts
    assert len(parts["plan-tasks"]) == 2
    again = table.result(plan["plan-id"]).json()
    assert again == first
    assert sorted(follow(again, table.page)) == names
    assert table.result(plan["plan-id"]).json() == first


def test_deletes_come_with_the_files_they_apply_to(table: Table) -> None:
    old, older = table.lake.named("old"), table.lake.named("older")
    table.lake.append(*older)
    equality = table.lake.equality_file([{"id": 1}], [1])
    table.lake.row_delta(old, [equality])
    position = table.lake.position_file([(old[0].file_path, 0)], referenced_data_file=old[0].file_path)
    table.lake.row_delta([], [position])
    deletes = deletes_of(table.plan())
    assert {name: [one.split("-")[1] for one in found] for name, found in deletes.items()} == {
        "old": ["p.parquet"],
        "older": ["e.parquet"],
    }


def test_a_plan_stays_of_its_snapshot_when_the_table_moves_on(table: Table) -> None:
    names = [f"f{number}" for number in range(7)]
    table.lake.append_named(*names)
    plan = table.plan()
    table.lake.append_named("late")
    table.lake.row_delta([], [table.lake.equality_file([{"id": 1}], [1])])
    assert sorted(follow(plan, table.page)) == names
    assert "delete-files" not in table.page(plan["plan-tasks"][0])


def test_a_plan_survives_a_rename_and_the_loss_of_old_metadata_files(table: Table) -> None:
    names = [f"f{number}" for number in range(7)]
    table.lake.append_named(*names)
    plan = table.plan()
    old_files = list(Path(local_path(table.lake.table.metadata_location)).parent.glob("*.metadata.json"))
    table.lake.append_named("late")
    for file in old_files:
        file.unlink()
    target = {"namespace": list(table.levels), "name": "renamed"}
    renamed = table.http.post(
        "/iceberg/v1/default/tables/rename",
        json={"source": {"namespace": list(table.levels), "name": "t"}, "destination": target},
    )
    assert renamed.status_code == 204
    token = plan["plan-tasks"][0]
    assert_error(table.fetch(token), 404, "NoSuchTableException")
    table.url = Catalog(table.http).table(table.levels, "renamed")
    assert sorted(follow(plan, table.page)) == names


def test_snapshots_are_named_or_ranged_over(table: Table) -> None:
    heads = []
    for name in ("a", "b", "c"):
        table.lake.append_named(name)
        heads.append(table.lake.metadata.current_snapshot_id)
    assert names_of(table.plan(**{"snapshot-id": heads[1]})) == ["b", "a"]
    assert names_of(table.plan(**{"start-snapshot-id": heads[0], "end-snapshot-id": heads[2]})) == ["c", "b"]


def test_an_expired_start_of_a_range_is_no_hindrance(table: Table) -> None:
    heads = []
    for name in ("a", "b", "c"):
        table.lake.append_named(name)
        heads.append(table.lake.metadata.current_snapshot_id)
    removal = [{"action": "remove-snapshots", "snapshot-ids": [heads[0]]}]
    assert Catalog(table.http).commit(table.levels, "t", removal, []).status_code == 200
    assert names_of(table.plan(**{"start-snapshot-id": heads[0], "end-snapshot-id": heads[2]})) == ["c", "b"]


def test_a_cancelled_plan_is_told_as_cancelled_and_has_no_pages(table: Table) -> None:
    table.lake.append_named(*"abcdefg")
    plan = table.plan()
    assert table.cancel(plan["plan-id"]).status_code == 204
    assert table.cancel(plan["plan-id"]).status_code == 204
    answer = table.result(plan["plan-id"])
    assert (answer.status_code, answer.json()) == (200, {"status": "cancelled"})
    assert_error(table.fetch(plan["plan-tasks"][0]), 404, "NoSuchPlanTaskException")


def test_an_expired_plan_is_unknown_and_its_row_goes(
    table: Table, platform: Platform, clock: ManualClock
) -> None:
    table.lake.append_named(*"abcdefg")
    plan = table.plan()
    clock.advance(10 * 60 - 1)
    assert table.fetch(plan["plan-tasks"][0]).status_code == 200
    clock.advance(1)
    assert_error(table.fetch(plan["plan-tasks"][0]), 404, "NoSuchPlanTaskException")
    assert_error(table.result(plan["plan-id"]), 404, "NoSuchPlanIdException")
    assert_error(table.cancel(plan["plan-id"]), 404, "NoSuchPlanIdException")
    assert table.http.portal.call(platform.plans.forget_expired) >= 1
    assert platform.database.read_now(plan_rows.find, plan["plan-id"], 0) is None


@pytest.mark.parametrize("plan_id", ["nonsense", UNKNOWN, "a%2Fb", "%F0%9F%A7%8A"])
def test_a_plan_that_never_was_is_unknown(table: Table, plan_id: str) -> None:
    assert_error(table.result(plan_id), 404, "NoSuchPlanIdException")
    assert_error(table.cancel(plan_id), 404, "NoSuchPlanIdException")


@pytest.mark.parametrize(
    "change",
    [
        lambda token: "",
        lambda token: "file:///etc/passwd",
        lambda token: f"{UNKNOWN}-0",
        lambda token: token.rpartition("-")[0],
        lambda token: f"{token}0000",
        lambda token: f"{token.rpartition('-')[0]}--1",
        lambda token: token.upper(),
        lambda token: f" {token}",
        lambda token: f"{token}\n",
        lambda token: token.rpartition("-")[0] + "-٣",
    ],
)
def test_a_token_that_was_never_handed_out_is_unknown(table: Table, change: Any) -> None:
    table.lake.append_named(*"abcdefg")
    token = table.plan()["plan-tasks"][-1]
    assert_error(table.fetch(change(token)), 404, "NoSuchPlanTaskException")


def test_a_token_of_another_table_is_unknown(table: Table, http: Http, platform: Platform) -> None:
    table.lake.append_named(*"abcdefg")
    plan = table.plan()
    other = Table(http, platform)
    assert_error(other.fetch(plan["plan-tasks"][0]), 404, "NoSuchPlanTaskException")
    assert_error(other.result(plan["plan-id"]), 404, "NoSuchPlanIdException")
    assert_error(other.cancel(plan["plan-id"]), 404, "NoSuchPlanIdException")
    assert table.fetch(plan["plan-tasks"][0]).status_code == 200


def test_a_dropped_table_is_missing_and_one_made_anew_has_no_old_plans(table: Table, http: Http) -> None:
    table.lake.append_named(*"abcdefg")
    plan = table.plan()
    assert http.delete(table.url).status_code == 204
    for answer in (
        table.submit(),
        table.fetch(plan["plan-tasks"][0]),
        table.result(plan["plan-id"]),
        table.cancel(plan["plan-id"]),
    ):
        assert_error(answer, 404, "NoSuchTableException")
    assert Catalog(http).create(table.levels, "t").status_code == 200
    assert_error(table.fetch(plan["plan-tasks"][0]), 404, "NoSuchPlanTaskException")
    assert_error(table.result(plan["plan-id"]), 404, "NoSuchPlanIdException")


def test_a_missing_namespace_or_bucket_is_told(http: Http) -> None:
    url = Catalog(http).table(("nowhere",), "t")
    assert_error(http.post(f"{url}/plan", json={}), 404, "NoSuchTableException")
    url = Catalog(http, "nowhere").table(("nowhere",), "t")
    assert_error(http.post(f"{url}/plan", json={}), 404, "NoSuchWarehouseException")


def test_manifests_that_are_gone_are_told_by_name(table: Table) -> None:
    table.lake.append_named(*"abcdefg")
    plan = table.plan()
    folder = Path(local_path(table.lake.table.metadata_location)).parent
    manifest = next(path for path in folder.glob("*.avro") if not path.name.startswith("snap-"))
    manifest.unlink()
    message = assert_error(table.fetch(plan["plan-tasks"][0]), 404, "NoSuchPlanTaskException")
    assert "expired" in message
    assert manifest.name in message
    assert manifest.name in assert_error(table.submit(), 404, "NotFoundException")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"select": ["nope"]}, "nope"),
        ({"select": "id"}, "select"),
        ({"select": [1]}, "select"),
        ({"stats-fields": ["nope"]}, "nope"),
        ({"stats-fields": {}}, "stats-fields"),
        ({"filter": []}, "filter"),
        ({"filter": {"type": "eq", "term": "nope", "value": 1}}, "nope"),
        ({"filter": {"type": "eq", "term": "ID", "value": 1}}, "ID"),
        ({"filter": {"type": "eq", "term": "id", "value": "x"}}, "id"),
        ({"filter": {"type": "frobnicate", "term": "id", "value": 1}}, "frobnicate"),
        ({"filter": {"type": "eq", "term": "id"}}, "eq"),
        ({"snapshot-id": 12345}, "12345"),
        ({"snapshot-id": "1"}, "snapshot-id"),
        ({"snapshot-id": True}, "snapshot-id"),
        ({"snapshot-id": 1, "start-snapshot-id": 1, "end-snapshot-id": 2}, "snapshot-id"),
        ({"start-snapshot-id": 1}, "end-snapshot-id"),
        ({"end-snapshot-id": 1}, "start-snapshot-id"),
        ({"start-snapshot-id": 1, "end-snapshot-id": 12345}, "12345"),
        ({"case-sensitive": "true"}, "case-sensitive"),
        ({"case-sensitive": 1}, "case-sensitive"),
        ({"use-snapshot-schema": "no"}, "use-snapshot-schema"),
        ({"min-rows-requested": "5"}, "min-rows-requested"),
        ({"min-rows-requested": 1.5}, "min-rows-requested"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_wrong_request_is_told_what_is_wrong(table: Table, body: dict[str, Any], named: str) -> None:
    table.lake.append_named("a")
    assert named in assert_error(table.submit(**body), 400, "BadRequestException")


def test_a_range_whose_start_is_no_ancestor_is_refused(table: Table) -> None:
    table.lake.append_named("a")
    head = table.lake.metadata.current_snapshot_id
    message = assert_error(
        table.submit(**{"start-snapshot-id": 7, "end-snapshot-id": head}), 400, "BadRequestException"
    )
    assert "7 is not an ancestor" in message


@pytest.mark.parametrize("depth", [2000, 10_000, 100_000])
def test_a_filter_of_any_depth_is_refused_not_fatal(table: Table, depth: int) -> None:
    table.lake.append_named("a")
    deep = '{"type":"not","child":' * depth + "true" + "}" * depth
    answer = table.http.post(f"{table.url}/plan", content=f'{{"filter":{deep}}}')
    assert_error(answer, 400, "BadRequestException")


def test_a_request_too_long_to_be_kept_is_refused(table: Table) -> None:
    table.lake.append_named("a")
    long = {"type": "eq", "term": "name", "value": "x" * (5 << 20)}
    assert_error(table.submit(filter=long), 413, "PayloadTooLargeException")


@pytest.mark.parametrize(
    "body",
    [
        {"min-rows-requested": 5},
        {"case-sensitive": False, "filter": {"type": "eq", "term": "ID", "value": 1}, "select": ["NAME"]},
        {"use-snapshot-schema": True, "select": ["id"]},
        {"stats-fields": ["id"]},
        {"snapshot-id": None, "select": None, "filter": None, "case-sensitive": None},
        {"filter": True, "unheard-of": [1]},
    ],
    ids=str,
)
def test_every_member_is_understood(table: Table, body: dict[str, Any]) -> None:
    table.lake.append_named("a")
    assert names_of(table.plan(**body)) == ["a"]


def test_an_idempotency_key_is_accepted(table: Table) -> None:
    table.lake.append_named(*"abcdefg")
    headers = {"Idempotency-Key": "0190b0d8-5a5e-7c31-8f5e-0d3c2b1a0f9e"}
    answer = table.http.post(f"{table.url}/plan", json={}, headers=headers)
    token = answer.json()["plan-tasks"][0]
    headers = {"Idempotency-Key": "0190b0d8-5a5e-7c31-8f5e-0d3c2b1a0f9f"}
    page = table.http.post(f"{table.url}/tasks", json={"plan-task": token}, headers=headers)
    assert page.status_code == 200


def test_answers_are_compressed_for_those_who_ask(table: Table) -> None:
    table.lake.append_named(*[f"{letter * 12000}" for letter in "abc"])
    answer = table.http.post(f"{table.url}/plan", json={}, headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert len(names_of(answer.json())) == 3


def test_names_with_a_plus_or_a_slash_have_plans(http: Http, platform: Platform) -> None:
    for name in ("a+b", "sla/sh", "wa ter"):
        table = Table(http, platform, name)
        table.lake.append_named(*"abcdefg")
        plan = table.plan()
        assert sorted(follow(plan, table.page)) == list("abcdefg")
        assert table.cancel(plan["plan-id"]).status_code == 204


def test_plans_are_counted(table: Table, http: Http) -> None:
    table.plan()
    text = http.get("/metrics").text
    assert 'frazil_plans_total{outcome="completed"}' in text
    assert 'frazil_plan_seconds_count{place="thread"}' in text
    assert "frazil_planning_processes " in text
