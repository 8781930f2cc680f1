"""Metrics reports: taken from clients, kept within bounds, read through the management API."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services import reports as service
from catalog_server.services.principals import ANONYMOUS
from catalog_server.store import schema
from catalog_server.telemetry import METRICS_REPORTS
from table_format.errors import Unavailable
from table_format.ident import TableIdent
from tests.api.iceberg_client import Catalog, Http, assert_error, in_process, segment
from tests.factories.requests import scan_report

COMMIT = {
    "report-type": "commit-report",
    "table-name": "default.n.t",
    "snapshot-id": 2**63 - 1,
    "sequence-number": 4,
    "operation": "append",
    "metrics": {
        "attempts": {"unit": "count", "value": 1},
        "total-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 5},
    },
    "metadata": {"engine-name": "spark"},
}


@pytest.fixture(autouse=True)
def nothing_is_written_meanwhile(monkeypatch: pytest.MonkeyPatch, http: Http, platform: Platform) -> None:
    """Reports are written when a test says so, and none of another test's are left."""
    monkeypatch.setattr(service, "_PAUSE_SECONDS", 600.0)
    http.portal.call(platform.reports.flush)


def stored(levels: tuple[str, ...], name: str = "t", bucket: str = "default") -> str:
    return f"/api/v1/buckets/{bucket}/namespaces/{segment(*levels)}/tables/{segment(name)}/metrics-reports"


def outcome(name: str) -> float:
    value: float = METRICS_REPORTS.labels(name)._value.get()
    return value


def test_reports_are_given_back_newest_first_as_they_were_sent(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    path = f"{catalog.table(levels, 't')}/metrics"
    foreign = {"report-type": "view-report", "anything": [10**30, None]}
    for report in (scan_report(), COMMIT, foreign):
        answer = http.post(path, json=report)
        assert (answer.status_code, answer.content) == (204, b"")
    body = http.get(stored(levels)).json()
    assert body["nextPageToken"] is None
    assert [row["report"] for row in body["reports"]] == [foreign, COMMIT, scan_report()]
    assert [row["type"] for row in body["reports"]] == ["view-report", "commit-report", "scan-report"]
    assert all(row["receivedAtMs"] > 0 for row in body["reports"])
    ids = [row["id"] for row in body["reports"]]
    assert ids == sorted(ids, reverse=True)
    only = http.get(stored(levels), params={"type": "commit-report"}).json()["reports"]
    assert [row["report"] for row in only] == [COMMIT]


def test_a_list_of_reports_of_an_unknown_type_is_refused_and_names_the_known(
    http: Http, catalog: Catalog
) -> None:
    levels, _ = catalog.new_table()
    answer = http.get(stored(levels), params={"type": "zzz"})
    assert answer.status_code == 400
    assert answer.json()["detail"] == "unknown report type 'zzz': use one of scan-report, commit-report"


def test_a_report_of_a_type_that_nobody_knows_is_taken_as_javas_catalog_takes_it(
    http: Http, catalog: Catalog
) -> None:
    levels, _ = catalog.new_table()
    assert http.post(f"{catalog.table(levels, 't')}/metrics", json={"report-type": "x"}).status_code == 204
    assert [row["type"] for row in http.get(stored(levels)).json()["reports"]] == ["x"]


def test_pages_of_reports_neither_repeat_nor_skip_while_more_come(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    path = f"{catalog.table(levels, 't')}/metrics"
    for number in range(7):
        http.post(path, json={**COMMIT, "snapshot-id": number})
    seen: list[int] = []
    params: dict[str, Any] = {"pageSize": 3}
    while True:
        page = http.get(stored(levels), params=params).json()
        seen += [row["report"]["snapshot-id"] for row in page["reports"]]
        http.post(path, json={**COMMIT, "snapshot-id": 100})
        if page["nextPageToken"] is None:
            break
        params["pageToken"] = page["nextPageToken"]
    assert seen == [6, 5, 4, 3, 2, 1, 0]
    other = http.get(stored(levels), params={**params, "type": "commit-report"})
    assert other.status_code == 400


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"report-type": None}, "report-type"),
        ({"report-type": 5}, "report-type"),
        ({"report-type": "a b"}, "report-type"),
        ({"metrics": None}, "metrics"),
        ({"metrics": []}, "metrics"),
        ({"snapshot-id": "1"}, "snapshot-id"),
        ({"snapshot-id": 2**63}, "snapshot-id"),
        ({"sequence-number": 1.5}, "sequence-number"),
        ({"operation": {}}, "operation"),
        ({"metadata": {"a": 1}}, "metadata"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_malformed_report_is_refused(
    http: Http, catalog: Catalog, change: dict[str, Any], named: str
) -> None:
    levels, _ = catalog.new_table()
    answer = http.post(f"{catalog.table(levels, 't')}/metrics", json={**COMMIT, **change})
    assert named in assert_error(answer, 400, "BadRequestException")
    assert http.get(stored(levels)).json()["reports"] == []


def test_scan_reports_name_their_columns_by_strings(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    path = f"{catalog.table(levels, 't')}/metrics"
    wrong = {**scan_report(), "projected-field-names": [1]}
    assert_error(http.post(path, json=wrong), 400, "BadRequestException")
    assert http.post(path, json={**scan_report(), "filter": True, "schema-id": None}).status_code == 204


def test_a_report_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with in_process(tmp_path, **{"reports.max_kb": 1}) as (http, _):
        catalog = Catalog(http)
        levels, _ = catalog.new_table()
        path = f"{catalog.table(levels, 't')}/metrics"
        report = {**COMMIT, "metadata": {"a": "x" * 1024}}
        assert "reports.max_kb" in assert_error(http.post(path, json=report), 413, "PayloadTooLargeException")
        assert http.post(path, json=COMMIT).status_code == 204


def test_only_the_newest_of_a_table_are_kept(tmp_path: Path) -> None:
    with in_process(tmp_path, **{"reports.per_table": 3}) as (http, _):
        catalog = Catalog(http)
        (one, _), (two, _) = catalog.new_table(), catalog.new_table()
        http.post(f"{catalog.table(two, 't')}/metrics", json=COMMIT)
        for number in range(8):
            http.post(f"{catalog.table(one, 't')}/metrics", json={**COMMIT, "snapshot-id": number})
            if number == 4:
                assert len(http.get(stored(one)).json()["reports"]) == 3
        rows = http.get(stored(one)).json()["reports"]
        assert [row["report"]["snapshot-id"] for row in rows] == [7, 6, 5]
        assert len(http.get(stored(two)).json()["reports"]) == 1


def test_none_are_kept_where_the_setting_says_so(tmp_path: Path) -> None:
    with in_process(tmp_path, **{"reports.per_table": 0}) as (http, _):
        catalog = Catalog(http)
        levels, _ = catalog.new_table()
        assert http.post(f"{catalog.table(levels, 't')}/metrics", json=COMMIT).status_code == 204
        assert http.get(stored(levels)).json()["reports"] == []


def test_old_ones_are_swept_away(http: Http, catalog: Catalog, platform: Platform) -> None:
    levels, _ = catalog.new_table()
    path = f"{catalog.table(levels, 't')}/metrics"
    http.post(path, json=scan_report())
    assert len(http.get(stored(levels)).json()["reports"]) == 1
    week_ago = platform.clock.now_ms() - 7 * 86_400_000 - 1
    http.portal.call(
        platform.database.write,
        lambda connection: (
            connection.execute(schema.metrics_reports.update().values(received_at_ms=week_ago)) and None
        ),
    )
    http.post(path, json=COMMIT)
    http.portal.call(platform.reports.flush)
    http.portal.call(platform.reports.forget_expired)
    assert [row["type"] for row in http.get(stored(levels)).json()["reports"]] == ["commit-report"]


@pytest.mark.parametrize("way", ["drop", "purge", "unregister"])
def test_reports_go_with_their_table(http: Http, catalog: Catalog, platform: Platform, way: str) -> None:
    levels, _ = catalog.new_table()
    path = catalog.table(levels, "t")
    http.post(f"{path}/metrics", json=COMMIT)
    http.portal.call(platform.reports.flush)
    http.post(f"{path}/metrics", json=COMMIT)  # this one waits while the table goes
    dropped = outcome("dropped")
    if way == "unregister":
        assert http.post(f"{path}/unregister").status_code == 200
    else:
        query = "?purgeRequested=true" if way == "purge" else ""
        assert http.delete(path + query).status_code == 204
    http.portal.call(platform.reports.flush)
    assert outcome("dropped") == dropped + 1
    assert http.get(stored(levels)).status_code == 404
    assert catalog.create(levels, "t").status_code == 200
    assert http.get(stored(levels)).json()["reports"] == []


def test_reports_stay_with_a_renamed_table(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    http.post(f"{catalog.table(levels, 't')}/metrics", json=COMMIT)
    names = [{"namespace": levels, "name": name} for name in ("t", "u")]
    http.post(f"{catalog.base}/tables/rename", json={"source": names[0], "destination": names[1]})
    assert http.get(stored(levels)).status_code == 404
    assert len(http.get(stored(levels, "u")).json()["reports"]) == 1


@pytest.mark.in_process
def test_too_many_at_once_are_dropped_and_counted(
    http: Http, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels, _ = catalog.new_table()
    path = f"{catalog.table(levels, 't')}/metrics"
    monkeypatch.setattr(service, "_MOST_WAITING_BYTES", 3 * len(orjson.dumps(COMMIT)))
    dropped = outcome("dropped")
    for _ in range(5):
        assert http.post(path, json=COMMIT).status_code == 204
    assert outcome("dropped") == dropped + 2
    assert len(http.get(stored(levels)).json()["reports"]) == 3
    assert http.post(path, json=COMMIT).status_code == 204
    assert len(http.get(stored(levels)).json()["reports"]) == 4


def test_reports_that_can_not_be_written_are_dropped_and_the_server_goes_on(
    http: Http, catalog: Catalog, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels, _ = catalog.new_table()
    path = f"{catalog.table(levels, 't')}/metrics"

    def fail(*_: object) -> int:
        raise Unavailable("no")

    dropped = outcome("dropped")
    with monkeypatch.context() as patched:
        patched.setattr(service.rows, "add", fail)
        assert http.post(path, json=COMMIT).status_code == 204
        http.portal.call(platform.reports.flush)
    assert outcome("dropped") == dropped + 1
    http.post(path, json=COMMIT)
    assert len(http.get(stored(levels)).json()["reports"]) == 1


def test_what_waits_is_written_when_the_server_stops(tmp_path: Path) -> None:
    with in_process(tmp_path) as (http, _):
        levels, _ = Catalog(http).new_table()
        http.post(f"{Catalog(http).table(levels, 't')}/metrics", json=COMMIT)
    with in_process(tmp_path) as (http, _):
        assert [row["report"] for row in http.get(stored(levels)).json()["reports"]] == [COMMIT]


def test_reports_on_what_is_not_there_are_404(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    missing = catalog.table(levels, "missing")
    assert_error(http.post(f"{missing}/metrics", json=COMMIT), 404, "NoSuchTableException")
    assert http.get(stored(levels, "missing")).status_code == 404
    assert http.get(stored(levels, bucket="nowhere")).status_code == 404


def test_reports_are_written_without_anybody_asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_PAUSE_SECONDS", 0.0)
    with in_process(tmp_path) as (http, platform):
        levels, _ = Catalog(http).new_table()
        kept = outcome("kept")

        async def report_and_wait() -> None:
            ident = TableIdent.of(*levels, "t")
            await platform.reports.accept(ANONYMOUS, "default", ident, ("scan-report", 1, "{}"))
            while outcome("kept") == kept:
                await asyncio.sleep(0)

        http.portal.call(asyncio.wait_for, report_and_wait(), 30)
        assert outcome("kept") == kept + 1
