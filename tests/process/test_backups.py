"""Backups are taken while writers commit, moves only while nobody does; what comes back serves the tables."""

import json
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from tests.postgres import Postgres
from tests.process.servers import Server, environment, frazil, run_frazil, serving

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

Env = dict[str, str]


@pytest.fixture
def databases(tmp_path: Path, postgres: Postgres) -> Iterator[dict[str, Env]]:
    """Settings of an empty database of each kind."""
    with postgres.lent() as name:
        yield {
            "sqlite": {"FRAZIL_DATABASE__URL": f"sqlite:///{tmp_path}/own.db"},
            "postgres": {"FRAZIL_DATABASE__URL": postgres.url(name)},
        }


def table_of(server: Server) -> Any:
    catalog = load_catalog("c", type="rest", uri=server.iceberg)
    if ("db",) not in catalog.list_namespaces():
        catalog.create_namespace("db")
        catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    return catalog.load_table("db.t")


def append(table: Any, number: int) -> None:
    table.append(pa.table({"id": pa.array([number], pa.int64())}))


def ids(server: Server) -> list[int]:
    found: list[int] = table_of(server).scan().to_arrow()["id"].to_pylist()
    return sorted(found)


def succeed(*arguments: str, env: Env) -> str:
    done = run_frazil(*arguments, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("kind", "other"), [("sqlite", "postgres"), ("postgres", "sqlite")])
def test_a_backup_while_serving_comes_back_elsewhere(
    tmp_path: Path, databases: dict[str, Env], kind: str, other: str
) -> None:
    file = tmp_path / "backup.db"
    acknowledged: list[int] = []
    with serving(tmp_path, env=databases[kind]) as server:
        table = table_of(server)
        finished = threading.Event()
        reached = threading.Event()

        def write() -> None:
            while not finished.is_set():
                append(table, len(acknowledged))
                acknowledged.append(len(acknowledged))
                if len(acknowledged) >= 3:
                    reached.set()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            assert reached.wait(60)
            before = len(acknowledged)
            counts = json.loads(succeed("backup", str(file), "--json", env=databases[kind]))["rows"]
            after = len(acknowledged) + 1
        finally:
            finished.set()
            writer.join()
        assert (counts["buckets"], counts["namespaces"], counts["tables"]) == (1, 1, 1)
        again = run_frazil("backup", str(file), env=databases[kind])
        assert (again.returncode, "overwrites nothing" in again.stderr) == (2, True)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    succeed("restore", str(file), env=databases[other])
    filled = run_frazil("restore", str(file), env=databases[other])
    assert (filled.returncode, "only an empty database" in filled.stderr) == (2, True)
    with serving(tmp_path, env=databases[other]) as server:
        there = ids(server)
        assert there == list(range(len(there)))
        assert before <= len(there) <= after
        append(table_of(server), 1000)
        assert ids(server) == [*there, 1000]


@pytest.mark.parametrize(("kind", "other"), [("sqlite", "postgres"), ("postgres", "sqlite")])
def test_a_move_waits_until_nobody_works_on_the_database(
    tmp_path: Path, databases: dict[str, Env], kind: str, other: str
) -> None:
    target = databases[other]["FRAZIL_DATABASE__URL"]
    elsewhere = ("--data-dir", str(tmp_path / "elsewhere"))
    with serving(tmp_path, env=databases[kind]) as server:
        append(table_of(server), 1)
        refused = run_frazil("db", "copy", "--to", target, *elsewhere, env=databases[kind])
        assert (refused.returncode, "is in use" in refused.stderr) == (2, True), refused.stderr
    worker = subprocess.Popen(
        frazil("worker", *elsewhere), env=environment(databases[kind]), stdout=subprocess.PIPE
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"maintenance ready\n"
        refused = run_frazil("db", "copy", "--to", target, *elsewhere, env=databases[kind])
        assert (refused.returncode, "is in use" in refused.stderr) == (2, True), refused.stderr
    finally:
        worker.terminate()
        worker.wait(60)
        worker.stdout.close()
    succeed("db", "copy", "--to", target, *elsewhere, env=databases[kind])
    assert "is whole" in succeed("db", "check", *elsewhere, env=databases[other])
    with serving(tmp_path, env=databases[other]) as server:
        assert ids(server) == [1]
    assert "up to date" in succeed("db", "current", *elsewhere, env=databases[kind])


@pytest.mark.parametrize(
    "command", [("db", "check"), ("backup", "b.db"), ("db", "copy", "--to", "sqlite:////x")]
)
def test_a_database_that_is_not_there_is_told_and_not_made(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = run_frazil(*command, "--data-dir", str(tmp_path / "typo"))
    assert done.returncode in (1, 2)
    assert "is empty or not there" in done.stderr
    assert not (tmp_path / "typo" / "frazil.db").exists()


def test_a_damaged_database_is_told(tmp_path: Path) -> None:
    env = {"FRAZIL_DATABASE__URL": f"sqlite:///{tmp_path}/own.db"}
    succeed("db", "upgrade", env=env)
    with sqlite3.connect(tmp_path / "own.db") as connection:
        connection.execute("DROP TABLE tags")
    done = run_frazil("db", "check", "--json", env=env)
    assert done.returncode == 1
    assert json.loads(done.stdout)["problems"] == ["table tags is missing"]


def test_verify_names_what_a_restored_catalog_lacks_and_does_not_know(tmp_path: Path) -> None:
    old, file = {"FRAZIL_DATABASE__URL": f"sqlite:///{tmp_path}/old.db"}, tmp_path / "backup.db"
    new = {"FRAZIL_DATABASE__URL": f"sqlite:///{tmp_path}/new.db"}
    with serving(tmp_path, env=old) as server:
        table = table_of(server)
        append(table, 1)
        succeed("backup", str(file), env=old)
        append(table, 2)
        deep = json.loads(succeed("verify", "--deep", "--json", env=old))
        assert deep == {"looked": 1, "found": []}
        known, newer = table.metadata.metadata_log[-1].metadata_file, table.metadata_location
    succeed("restore", str(file), env=new)
    (found,) = json.loads(succeed("verify", "--deep", "--json", env=new))["found"]
    assert (found["bucket"], found["name"], found["problems"]) == ("default", "db.t", [])
    assert [note.startswith(f"{newer} continues from {known}") for note in found["warnings"]] == [True]
    data = next(task.file.file_path for task in table.scan().plan_files()).removeprefix("file://")
    Path(data).unlink()
    lost = run_frazil("verify", "--deep", "--table", "db.t", env=old)
    assert lost.returncode == 1
    assert f"table default/db.t: data file: no such file: file://{data}\n" in lost.stdout
    assert run_frazil("verify", env=old).returncode == 0
    unknown = run_frazil("verify", "--table", "db.typo", env=old)
    assert (unknown.returncode, "has no table db.typo" in unknown.stderr) == (1, True)
