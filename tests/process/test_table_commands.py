"""`frazil table …` against a real server: what is asked, refused and told."""

import io
import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from catalog_server import cli
from tests.process.servers import Server, serving

pytestmark = pytest.mark.process
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory: Path = tmp_path_factory.mktemp("tables")
    with serving(directory, maintenance=False) as running:
        yield running


@pytest.fixture(scope="module")
def catalog(server: Server) -> Catalog:
    found = load_catalog("c", type="rest", uri=server.iceberg)
    found.create_namespace("sales")
    return found


@pytest.fixture
def call(server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command of `frazil table` (or of another group) in this process: exit code, output, errors."""
    monkeypatch.setenv("FRAZIL_URL", server.url)

    def run(*arguments: str, group: str = "table") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["frazil", group, *arguments])
        code: Any = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code or 0
        printed = capsys.readouterr()
        return int(code), printed.out, printed.err

    return run


def make(catalog: Catalog, name: str) -> None:
    catalog.create_table(f"sales.{name}", Schema(NestedField(1, "id", LongType(), required=False)))


def test_what_destroys_asks_and_refuses_without_a_terminal(catalog: Catalog, call: Call) -> None:
    make(catalog, "asked")
    for command in ("drop", "unregister"):
        code, out, err = call(command, "sales.asked")
        assert (code, out) == (1, "")
        assert "There is no terminal to ask at: say --yes to do it" in err
    assert call("show", "sales.asked")[0] == 0
    assert call("drop", "sales.asked", "--yes")[0] == 0
    for command in ("purge", "forget"):
        assert call(command, "sales.asked")[0] == 1
    assert call("undrop", "sales.asked") == (0, "sales.asked is restored\n", "")


def test_drop_and_undrop_one_of_several(catalog: Catalog, call: Call) -> None:
    for _ in range(2):
        make(catalog, "twice")
        code, out, _ = call("drop", "sales.twice", "--yes")
        assert code == 0
        assert "`frazil table undrop sales.twice` restores it until 20" in out
    code, _, err = call("undrop", "sales.twice")
    assert code == 1
    assert "2 tables sales.twice were dropped: choose one by --id: " in err
    code, out, _ = call("dropped", "sales", "--json")
    found = [row for row in json.loads(out) if row["name"] == "twice"]
    assert len(found) == 2
    chosen = found[1]["id"]
    restored = call("undrop", "sales.twice", "--id", chosen, "--as", "sales.first")
    assert restored == (0, "sales.first is restored\n", "")
    assert json.loads(call("show", "sales.first", "--json")[1])["table"]["resourceId"] == chosen
    code, _, err = call("undrop", "sales.twice", "--id", chosen)
    assert (code, err) == (
        1,
        f"frazil: no dropped table sales.twice with the id {chosen}: see `frazil table dropped`\n",
    )
    assert "can be restored until 20" in call("dropped")[1]
    code, out, _ = call("purge", "sales.twice", "--yes")
    assert code == 0
    assert out.startswith("job ")
    assert "can be restored until it begins" in call("dropped")[1]
    assert call("forget", "sales.twice", "--yes") == (
        0,
        "sales.twice is forgotten; its files stay\n",
        "",
    )


def test_protect_rename_register(catalog: Catalog, call: Call) -> None:
    make(catalog, "guarded")
    assert call("protect", "sales.guarded") == (0, "sales.guarded is protected\n", "")
    code, _, err = call("drop", "sales.guarded", "--purge", "--yes")
    assert code == 1
    assert "Table sales.guarded is protected and can not be dropped" in err
    assert call("unprotect", "sales.guarded")[0] == 0
    assert call("rename", "sales.guarded", "sales.moved") == (0, "sales.guarded is sales.moved now\n", "")
    code, out, _ = call("unregister", "sales.moved", "--yes", "--json")
    at = json.loads(out)["metadataLocation"]
    assert call("register", "sales.guarded", at) == (0, "sales.guarded is registered\n", "")
    assert "file:///" in call("list", "sales", "--prefix", "guar")[1]
    for command in ("files", "snapshots", "refs"):
        assert call(command, "sales.guarded")[0] == 0
        assert json.loads(call(command, "sales.guarded", "--json")[1]) is not None
    code, out, _ = call("drop", "sales.guarded", "--purge", "--yes")
    assert code == 0
    assert "deletes its files" in out


def test_a_setting_leaves_the_status_to_the_levels_above(catalog: Catalog, call: Call) -> None:
    make(catalog, "tuned")

    def policy(*arguments: str) -> str:
        code, out, err = call(*arguments, group="policy")
        assert code == 0, err
        return out

    assert "disabled" in policy("set", "manifests", "--namespace", "sales", "--status", "disabled")
    own = ("--table", "sales.tuned")
    code, out, err = call("set", "manifests", *own, "minManifests=7", group="policy")
    assert (code, out) == (0, "icebergManifests of this table: minManifests=7\n")
    assert err == "icebergManifests does not run: the policy is disabled\n"
    assert "as above it" in policy("get", *own)
    (effective,) = [
        one for one in json.loads(policy("effective", *own, "--json")) if one["type"] == "icebergManifests"
    ]
    assert (effective["status"], effective["sources"]["status"]) == ("disabled", "namespace sales")
    assert "enabled minManifests=7" in policy("set", "manifests", *own, "--status", "enabled")
    assert ": minManifests=7" in policy("set", "manifests", *own, "--status", "inherited")
    assert "enabled minManifests=7" in policy("history", *own)
    policy("unset", "manifests", "--namespace", "sales")
    code, _, err = call("set", "manifests", *own, "--status", "maybe", group="policy")
    assert (code, "--status is 'maybe'" in err) == (2, True)


def test_register_overwrites_what_it_was_asked_about(catalog: Catalog, call: Call) -> None:
    make(catalog, "pointed")
    at = json.loads(call("unregister", "sales.pointed", "--yes", "--json")[1])["metadataLocation"]
    assert call("register", "sales.again", at, "--overwrite", "--yes")[1] == "sales.again is registered\n"
    code, _, err = call("register", "sales.again", at)
    assert (code, "Table already exists: sales.again" in err) == (1, True)
    code, _, err = call("register", "sales.again", at, "--overwrite")
    assert code == 1
    assert f"Point sales.again, whose metadata is {at}, at {at}?" in err
    # Of a table whose metadata is gone nothing can be read but where it was.
    Path(at.removeprefix("file://")).rename(
        moved := Path(at.removeprefix("file://")).with_name("moved.metadata.json")
    )
    code, out, _ = call("register", "sales.again", f"file://{moved}", "--overwrite", "--yes")
    assert (code, out) == (0, f"sales.again is at file://{moved} now; before, its metadata was {at}\n")


def test_reports_of_clients_are_listed_whatever_they_hold(
    catalog: Catalog, call: Call, server: Server
) -> None:
    make(catalog, "reported")
    metrics = f"{server.iceberg}/v1/default/namespaces/sales/tables/reported/metrics"
    odd = {"report-type": "view-report", "anything": [10**30], "metrics": [1], "operation": {}}
    commit = {
        "report-type": "commit-report",
        "table-name": "sales.reported",
        "snapshot-id": 2**63 - 1,
        "sequence-number": 4,
        "operation": "append",
        "metrics": {
            "total-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 1_500_000_000},
            "attempts": {"unit": "count", "value": 2},
            "removed-data-files": {"unit": "count", "value": 0},
        },
    }
    for report in (odd, commit):
        assert requests.post(metrics, json=report, timeout=30).status_code == 204
    deadline = time.monotonic() + 60  # they are answered before they are written
    while '"commit-report"' not in call("reports", "sales.reported", "--json")[1]:
        assert time.monotonic() < deadline
    code, out, err = call("reports", "sales.reported", "--json")
    assert (code, err) == (0, "")
    assert [row["report"] for row in json.loads(out)] == [commit, odd]
    shown = call("reports", "sales.reported")[1]
    assert "9223372036854775807 │ 1.5 s │ append, attempts 2 │" in shown
    assert "removed" not in shown
    only = json.loads(
        call("reports", "sales.reported", "--type", "commit-report", "--limit", "1", "--json")[1]
    )
    assert [row["type"] for row in only] == ["commit-report"]
    assert call("reports", "sales.reported", "--type", "x")[0] == 1


def test_a_table_is_created_with_columns_partitions_and_order(
    catalog: Catalog, call: Call, tmp_path: Path
) -> None:
    code, out, error = call(
        *("create", "sales.made", "id:long!", "at:timestamptz", "price:decimal(10,2)", "a:b:string"),
        *("--partition-by", "day(at)", "--partition-by", "bucket(16, id)", "--partition-by", "a:b"),
        *("--sort-by", "at desc", "--sort-by", "truncate(4, a:b) nulls-last", "--property", "owner=web"),
    )
    assert (code, error) == (0, "")
    table = catalog.load_table("sales.made")
    assert out == f"sales.made is at {table.metadata.location}\n"
    assert [(one.name, str(one.field_type), one.required) for one in table.schema().fields] == [
        ("id", "long", True),
        ("at", "timestamptz", False),
        ("price", "decimal(10, 2)", False),
        ("a:b", "string", False),
    ]
    assert [(one.name, str(one.transform)) for one in table.spec().fields] == [
        ("at_day", "day"),
        ("id_bucket", "bucket[16]"),
        ("a:b", "identity"),
    ]
    assert [
        (one.source_id, str(one.transform), one.direction.value, one.null_order.value)
        for one in table.sort_order().fields
    ] == [(2, "identity", "desc", "nulls-last"), (4, "truncate[4]", "asc", "nulls-last")]
    assert table.properties["owner"] == "web"

    nested = tmp_path / "schema.json"
    inner = {"type": "struct", "fields": [{"id": 7, "name": "x", "required": False, "type": "int"}]}
    fields = [{"id": 5, "name": "s", "required": False, "type": inner}]
    nested.write_text(json.dumps({"type": "struct", "fields": fields}))
    code, out, _ = call("create", "sales.nested", "--schema", str(nested), "--json")
    assert (code, json.loads(out)["name"]) == (0, "nested")
    assert catalog.load_table("sales.nested").schema().find_field("s.x").field_id == 7
    nested.write_text("[]")
    for arguments, status, told in (
        (("sales.x",), 2, "NAME:TYPE, or --schema"),
        (("sales.x", "id"), 2, "is not NAME:TYPE"),
        (("sales.x", "id:long", "--partition-by", "day(no)"), 2, "names no column"),
        (("sales.x", "id:nonsense"), 1, "nonsense"),
        (("sales.x", "id:long", "--partition-by", "weekly(id)"), 1, "weekly"),
        (("sales.x", "--schema", str(nested)), 1, "holds no schema"),
        (("sales.made", "id:long"), 1, "already exists"),
        (("nowhere.x", "id:long"), 1, "nowhere"),
    ):
        code, out, error = call("create", *arguments)
        assert (code, out) == (status, ""), (arguments, error)
        assert told in error
    assert not catalog.table_exists("sales.x")


def test_what_is_kept_for_a_table_is_shown_set_and_taken_away(
    catalog: Catalog, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(catalog, "kept")

    def ok(*arguments: str) -> str:
        code, out, error = call(*arguments)
        assert (code, error) == (0, "")
        return out

    assert ok("tag", "sales.kept", "team=web", "k=") == "tags of table sales.kept: k=, team=web\n"
    assert ok("untag", "sales.kept", "k") == "tags of table sales.kept: team=web\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"Statement": []}'))
    assert "kept, not enforced" in ok("resource-policy", "sales.kept", "--set", "-")
    assert ok("resource-policy", "sales.kept") == '{"Statement": []}\n'
    assert "AES256 (asked for at the table)" in ok("encryption", "sales.kept", "--set", "AES256")
    assert "STANDARD (by default)" in ok("storage-class", "sales.kept")
    assert "at the table" in ok("storage-class", "sales.kept", "--set", "INTELLIGENT_TIERING")
    shown = json.loads(ok("show", "sales.kept", "--json"))
    assert shown["tags"] == {"team": "web"}
    assert shown["resourcePolicy"] == '{"Statement": []}'
    assert shown["encryption"] == {"sseAlgorithm": "AES256", "kmsKeyArn": None, "source": "table"}
    arn = shown["table"]["arn"]
    assert (
        arn == f"arn:aws:s3tables:us-east-1:000000000000:bucket/default/table/{shown['table']['resourceId']}"
    )
    told = ok("show", "sales.kept")
    for text in (arn, "team=web", "AES256", "INTELLIGENT_TIERING", "17 bytes"):
        assert text in told
    for name in ("resource-policy", "encryption", "storage-class"):
        assert "any more" in ok(name, "sales.kept", "--remove")
    code, _, error = call("encryption", "sales.kept")
    assert (code, error) == (1, "frazil: No encryption is asked for of this table\n")
    code, _, error = call("tag", "sales.nowhere", "a=b")
    assert (code, "sales.nowhere" in error) == (1, True)


def test_noncurrent_files_are_listed_held_and_released(catalog: Catalog, call: Call, server: Server) -> None:
    make(catalog, "stray")
    table = catalog.load_table("sales.stray")
    path = f"{table.location()}/data/stray.parquet"
    with closing(sqlite3.connect(server.data_dir / "frazil.db")) as database, database:
        row = (str(table.metadata.table_uuid), path, 123, 1_700_000_000_000)
        database.execute(
            "INSERT INTO unreferenced_objects (table_uuid, path, size, first_seen_ms) VALUES (?, ?, ?, ?)",
            row,
        )

    def listed(*more: str) -> list[Any]:
        found: list[Any] = json.loads(
            call("noncurrent", "sales.stray", "--json", *more, group="maintenance")[1]
        )
        return found

    assert [(one["path"], one["size"], one["hold"]) for one in listed()] == [(path, 123, None)]
    assert listed("--held") == []
    held = call("hold", "sales.stray", path, group="maintenance")
    assert held == (0, f"{path} is held until it is released\n", "")
    assert [one["path"] for one in listed("--held")] == [path]
    code, out, _ = call("hold", "sales.stray", path, "--until", "2999-01-01", group="maintenance")
    assert (code, out) == (0, f"{path} is held until 2999-01-01 00:00:00Z\n")
    assert "until 2999-01-01" in call("noncurrent", "sales.stray", group="maintenance")[1]
    assert call("release", "sales.stray", path, group="maintenance") == (
        0,
        f"{path} is not held any more\n",
        "",
    )
    assert listed("--held") == []
    code, _, error = call("hold", "sales.stray", f"{path}x", group="maintenance")
    assert (code, "No noncurrent file" in error) == (1, True)
    code, _, error = call("hold", "sales.stray", path, "--until", "soon", group="maintenance")
    assert (code, "neither a while" in error) == (2, True)
