"""Noncurrent files over the management API and the command line: listed in pages, held, released."""

from typing import Any

import pytest
from typer.testing import CliRunner

from catalog_server.bootstrap import Platform
from catalog_server.cli import build_app
from catalog_server.cli import noncurrent as commands
from catalog_server.services.job_context import DatabaseUnreferencedLog
from maintenance.ports import Unreferenced
from table_format.clock import SystemClock
from tests.api.iceberg_client import Catalog, Http, segment

pytestmark = pytest.mark.in_process

FILES = [f"file:///w/t/data/{name}.parquet" for name in ("a#b", "c d", "e")]
DAY_MS = 86_400_000


class Noted:
    """A table of which three files are noted, and what can be asked of them."""

    def __init__(self, http: Http, platform: Platform, catalog: Catalog) -> None:
        self.http = http
        self.levels, loaded = catalog.new_table()
        self.uuid: str = loaded["metadata"]["table-uuid"]
        self.url = f"/api/v1/buckets/default/namespaces/{segment(*self.levels)}/tables/t/noncurrent-files"
        self.log = DatabaseUnreferencedLog(platform.database, platform.clock)
        self.at_ms = 1_700_000_000_000
        self.log.mark(
            self.uuid, [Unreferenced(path=path, size=7, first_seen_ms=self.at_ms) for path in FILES]
        )

    def list(self, **query: Any) -> Any:
        answer = self.http.get(self.url, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ask(self, method: str, path: str, etag: str | None = None, **more: Any) -> Any:
        headers = {} if etag is None else {"If-Match": etag}
        return self.http.request(method, f"{self.url}/hold", params={"path": path}, headers=headers, **more)


@pytest.fixture
def noted(http: Http, platform: Platform, catalog: Catalog) -> Noted:
    return Noted(http, platform, catalog)


def test_files_are_listed_in_pages_with_size_and_times(noted: Noted) -> None:
    found: list[Any] = []
    token = None
    while True:
        page = noted.list(pageSize=1, **({} if token is None else {"pageToken": token}))
        found += page["files"]
        token = page["nextPageToken"]
        if token is None:
            break
    assert [one["path"] for one in found] == FILES
    assert found[0] == {
        "path": FILES[0],
        "size": 7,
        "notedAtMs": noted.at_ms,
        "deletedAfterMs": noted.at_ms + 10 * DAY_MS,
        "deleting": False,
        "hold": None,
    }
    assert noted.http.get(noted.url, params={"pageToken": "x"}).status_code == 400


def test_a_disabled_policy_deletes_nothing(noted: Noted) -> None:
    policy = noted.url.replace("noncurrent-files", "policies/icebergUnreferencedFileRemoval")
    assert noted.http.put(policy, json={"status": "disabled"}).status_code == 200
    assert [one["deletedAfterMs"] for one in noted.list()["files"]] == [None] * 3


def test_a_hold_has_an_etag_and_ends_with_its_release(noted: Noted) -> None:
    path = FILES[0]
    before = noted.ask("GET", path)
    assert before.headers["ETag"] == '"0"'
    held = noted.ask("PUT", path, '"0"', json={})
    assert held.status_code == 200, held.text
    assert held.json()["hold"]["untilMs"] is None
    assert held.json()["hold"]["heldBy"] == "anonymous"
    assert held.json()["deletedAfterMs"] is None
    assert [one["path"] for one in noted.list(held="true")["files"]] == [path]
    assert noted.log.claim(noted.uuid, [path]) == []
    assert noted.ask("PUT", path, '"0"', json={}).status_code == 412
    until = SystemClock().now_ms() + 50 * DAY_MS
    longer = noted.ask("PUT", path, held.headers["ETag"], json={"untilMs": until})
    assert longer.json()["deletedAfterMs"] == until
    assert longer.headers["ETag"] not in (held.headers["ETag"], '"0"')
    assert noted.ask("DELETE", path, held.headers["ETag"]).status_code == 412
    assert noted.ask("DELETE", path, longer.headers["ETag"]).status_code == 204
    assert noted.ask("DELETE", path).status_code == 404
    assert noted.log.claim(noted.uuid, [path]) == [path]


def test_what_can_not_be_held_is_refused_with_the_reason(noted: Noted) -> None:
    assert noted.ask("PUT", "file:///w/t/data/none.parquet", json={}).status_code == 404
    over = noted.ask("PUT", FILES[0], json={"untilMs": 5})
    assert over.status_code == 400
    assert over.json()["detail"].startswith("untilMs 5 is over already")
    for body in ({"untilMs": "tomorrow"}, {"untilMs": -1}, {"for": 1}):
        assert noted.ask("PUT", FILES[0], json=body).status_code == 400
    assert noted.http.put(f"{noted.url}/hold", json={}).status_code == 400
    assert noted.ask("GET", "x" * 5000).status_code == 400
    noted.log.claim(noted.uuid, FILES[2:])
    gone = noted.ask("PUT", FILES[2], json={})
    assert (gone.status_code, gone.json()["detail"]) == (
        409,
        f"{FILES[2]} is being deleted: it can not be held any more",
    )
    assert noted.list()["files"][2]["deleting"] is True
    missing = noted.url.replace("/t/", "/missing/")
    assert noted.http.get(missing).status_code == 404


def test_a_hold_outlives_a_drop_and_restore(noted: Noted, catalog: Catalog) -> None:
    noted.ask("PUT", FILES[1], json={})
    table = noted.url.removesuffix("/noncurrent-files")
    assert noted.http.delete(table).status_code in (200, 204)
    dropped = noted.http.get("/api/v1/buckets/default/dropped-tables", params={"name": "t"}).json()
    (one,) = [row for row in dropped["droppedTables"] if row["uuid"] == noted.uuid]
    back = noted.http.post(f"/api/v1/buckets/default/dropped-tables/{one['id']}/undrop", json={})
    assert back.status_code == 200, back.text
    # What was noted has to be found anew; what is held stays so.
    assert [(row["path"], row["notedAtMs"]) for row in noted.list()["files"]] == [(FILES[1], None)]


def test_the_commands_list_hold_and_release(noted: Noted, monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def __init__(self, url: str) -> None:
            pass

        def pages(self, path: str, member: str, query: Any) -> Any:
            return iter(noted.http.get(f"/api/v1{path}", params=query).json()[member])

        def send(self, method: str, path: str, *, query: Any, body: Any = None) -> Any:
            answer = noted.http.request(method, f"/api/v1{path}", params=query, json=body)
            assert answer.status_code in (200, 204), answer.text
            return type("Answer", (), {"document": answer.json() if answer.content else {}})

    monkeypatch.setattr(commands, "ManagementClient", Client)
    runner, app = CliRunner(), build_app()
    table = ".".join(f'"{level}"' for level in (*noted.levels, "t"))
    told = runner.invoke(app, ["maintenance", "hold", table, FILES[0], "--until", "7d"])
    assert told.exit_code == 0, told.output
    assert f"{FILES[0]} is held until 20" in told.output
    told = runner.invoke(app, ["maintenance", "noncurrent", table, "--held", "--json"])
    assert FILES[0] in told.output
    assert FILES[1] not in told.output
    told = runner.invoke(app, ["maintenance", "noncurrent", table])
    assert "Noncurrent files" in told.output
    told = runner.invoke(app, ["maintenance", "release", table, FILES[0]])
    assert told.exit_code == 0, told.output
    assert noted.list(held="true")["files"] == []
    told = runner.invoke(app, ["maintenance", "hold", table, FILES[0], "--until", "soon"])
    assert told.exit_code == 2
    assert "neither a while" in told.output
