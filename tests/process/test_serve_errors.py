"""`frazil serve` that cannot start says why in one line and ends with exit code 2."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema

from tests.process.servers import run_frazil, serving

pytestmark = pytest.mark.process


def assert_refused(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line.startswith("frazil: ")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in lines[0]


def serve(data_dir: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run_frazil("serve", "--port", "0", "--data-dir", str(data_dir), *arguments, env=env)


def test_a_data_directory_in_use_names_the_other_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert_refused(serve(server.data_dir), str(server.data_dir), "in use", f"pid {server.pid}")
        assert server.process.poll() is None
    # It is free again once the first has ended, and after a kill as well.
    with serving(tmp_path) as server:
        server.kill()
    with serving(tmp_path):
        pass


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        result = run_frazil("serve", "--port", port, "--data-dir", str(tmp_path / "data"))
    assert_refused(result, port, "taken", "--port")


def test_a_host_that_is_not_ours(tmp_path: Path) -> None:
    assert_refused(serve(tmp_path, "--host", "192.0.2.1"), "192.0.2.1")
    assert_refused(serve(tmp_path, "--host", "no.such.host.invalid"), "no.such.host.invalid")


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    assert_refused(serve(file / "data"), str(file / "data"))
    assert_refused(serve(file), str(file))
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    # Root may write anywhere but into /proc.
    target = Path("/proc/frazil") if os.geteuid() == 0 else locked / "data"
    assert_refused(serve(target), str(target))


def test_a_database_newer_than_the_program(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        database = server.data_dir / "frazil.db"
    connection = sqlite3.connect(database)
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999_from_the_future'")
    connection.close()
    assert_refused(serve(server.data_dir), "9999_from_the_future", "newer")
    upgrade = run_frazil("db", "upgrade", "--data-dir", str(server.data_dir))
    assert_refused(upgrade, "9999_from_the_future", "newer")


def test_an_unknown_setting_is_named(tmp_path: Path) -> None:
    assert_refused(
        serve(tmp_path, FRAZIL_SERVER__PROT="1"), "server.prot", "FRAZIL_SERVER__PROT", "server.port"
    )
    config = tmp_path / "frazil.toml"
    config.write_text("[limits]\nmax_body = 3\n")
    assert_refused(serve(tmp_path, "--config", str(config)), "limits.max_body", str(config))
    config.write_text("[limits\n")
    assert_refused(serve(tmp_path, "--config", str(config)), str(config))
    assert_refused(serve(tmp_path, "--config", str(tmp_path / "missing.toml")), "missing.toml")
    assert_refused(serve(tmp_path, FRAZIL_LIMITS__MAX_BODY_MB="x"), "limits.max_body_mb")


def test_a_default_bucket_where_no_store_is_known(tmp_path: Path) -> None:
    name = "FRAZIL_STORAGE__DEFAULT_BUCKET_LOCATION"
    for workers in ("1", "2"):
        result = serve(tmp_path, "--workers", workers, **{name: "bogus://b/x"})
        assert_refused(result, "storage.default_bucket_location", "bogus://", "file:///")
    away = {"s3.endpoint": "http://127.0.0.1:9", "s3.anonymous": "true", "s3.retry.num-retries": "0"}
    for properties, told in (
        ({"s3.regoin": "r"}, "setting storage.properties: unknown storage property 's3.regoin'"),
        (
            {"s3.path-style-access": "yes"},
            "setting storage.properties: storage property s3.path-style-access",
        ),
    ):
        variables = {"FRAZIL_STORAGE__PROPERTIES": json.dumps(properties)}
        assert_refused(serve(tmp_path, **variables), told)
    half = {"FRAZIL_STORAGE__CREDENTIALS__OTHER": json.dumps({"s3.access-key-id": "hidden"})}
    refused = serve(tmp_path, **half)
    assert_refused(refused, "setting storage.credentials.other", "given together")
    assert "hidden" not in refused.stderr
    refused = serve(tmp_path, **{name: "s3://b/x", "FRAZIL_STORAGE__PROPERTIES": json.dumps(away)})
    assert_refused(refused, "write failed: the object store at http://127.0.0.1:9 can not be reached")
    # No bucket was made by those; and one that is there already is not asked about again.
    with serving(tmp_path):
        pass
    with serving(tmp_path, env={name: "s3://b/x"}):
        pass


def test_a_data_directory_that_was_moved_is_told(tmp_path: Path) -> None:
    def warnings(directory: Path, *arguments: str) -> list[dict[str, str]]:
        with serving(directory, *arguments) as server:
            lines = server.log_text().splitlines()
        (directory / "serve.log").unlink()
        return [event for event in map(json.loads, lines) if event["event"] == "bucket-directory-missing"]

    assert warnings(tmp_path / "a") == []
    assert warnings(tmp_path / "a") == []  # nothing is in it yet
    (tmp_path / "a").rename(tmp_path / "b")
    for arguments in ((), ("--workers", "2")):
        (warning,) = warnings(tmp_path / "b", *arguments)
        assert (warning["level"], warning["bucket"]) == ("warning", "default")
        assert warning["location"] == f"file://{tmp_path}/a/data/warehouse"
    assert not (tmp_path / "a").exists()
    (tmp_path / "b").rename(tmp_path / "a")
    with serving(tmp_path / "a") as server:
        load_catalog("c", type="rest", uri=server.iceberg).create_namespace("db")
        load_catalog("c", type="rest", uri=server.iceberg).create_table("db.t", Schema())
    (tmp_path / "a" / "serve.log").unlink()
    assert warnings(tmp_path / "a") == []
    (tmp_path / "a" / "data" / "warehouse").rename(tmp_path / "warehouse")
    assert len(warnings(tmp_path / "a")) == 1


@pytest.mark.parametrize(
    "arguments", [("--port", "x"), ("--port", "99999"), ("--nonsense",), ("--workers", "0"), ("extra",)]
)
def test_a_wrong_call_is_a_usage_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = run_frazil("serve", "--data-dir", str(tmp_path), *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_the_variable_of_client_commands_is_no_setting(tmp_path: Path) -> None:
    with serving(tmp_path, env={"FRAZIL_URL": "http://127.0.0.1:1"}) as server:
        assert server.url


def test_python_version_is_the_one_that_runs_the_tests() -> None:
    # The process tests would test another installation otherwise.
    result = subprocess.run(
        [sys.executable, "-c", "import catalog_server; print(catalog_server.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(result.stdout.strip()).is_relative_to(Path(__file__).parents[2])
