"""Every command that README and the pages show works as it is written there, or is listed with what runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, TimestamptzType

from catalog_server import cli
from tests.documented import ROOT, Command, blocks, commands
from tests.process.servers import serving
from tests.s3 import S3Server

pytestmark = pytest.mark.process
COLUMNS = (
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "ordered_at", TimestamptzType(), required=False),
)
CLIENT = ("bucket", "namespace", "table", "policy", "maintenance")
SERVER = "http://127.0.0.1:8181"

# Commands that are not run here: what they begin with, and which test runs them, or why none does.
ELSEWHERE = {
    "make demo": "tests/process/test_demo.py",
    "make serve": "tests/process/test_serve.py, on another port",
    "pip install frazil": "tests/process/test_package.py installs the wheel, without an index",
    "frazil ingest ": "tests/process/test_ingest_run.py, beside a broker",
    "frazil serve": "tests/process/test_object_storage.py, on another port",
    "frazil worker": "tests/process/test_worker_killed.py",
    "frazil backup": "tests/process/test_backups.py, as it stops and starts servers",
    "frazil restore": "tests/process/test_backups.py",
    "frazil db copy": "tests/process/test_backups.py",
    "frazil verify": "tests/process/test_backups.py",
    "frazil maintenance hold": "tests/process/test_table_commands.py, for a file that there is",
    "frazil maintenance release": "tests/process/test_table_commands.py, for a file that there is",
    "export FRAZIL_DATABASE__URL=": "tests/process/test_postgres.py, with the address of another PostgreSQL",
    "export FRAZIL_STORAGE__": "tests/process/test_object_storage.py gives a server the same variables",
    "FRAZIL_DATABASE__URL=": "tests/process/test_postgres.py, with the address of another PostgreSQL",
    "createuser": "PostgreSQL's own command, for its superuser: tests/postgres.py is one already",
    "createdb": "PostgreSQL's own command: tests/postgres.py makes its databases so",
    "aws s3tables": "tests/s3tables_clients/test_aws_cli.py",
}


def elsewhere(command: Command) -> str | None:
    return next((where for start, where in ELSEWHERE.items() if command.text.startswith(start)), None)


def here(command: Command) -> bool:
    words = command.words
    if elsewhere(command) is not None:
        return False
    return words[0] == "frazil" and words[1] in CLIENT


def called() -> int:
    """The exit code of the program with the arguments that are set."""
    try:
        cli.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_every_command_shown_is_run_or_listed() -> None:
    shown = commands()
    assert len(shown) >= 60
    for command in shown:
        assert here(command) or elsewhere(command), f"{command.page}: {command.text}"
    for start, where in ELSEWHERE.items():
        assert any(command.text.startswith(start) for command in shown), f"not shown any more: {start}"
        for word in where.replace(",", " ").replace(":", " ").split():
            assert not word.startswith("tests/") or (ROOT / word).exists(), word


@pytest.mark.parametrize("target", [command for command in commands() if command.words[0] == "make"])
def test_shown_targets_of_make_are_there(target: Command) -> None:
    subprocess.run(["make", "--dry-run", *target.words[1:]], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.timeout(300)
def test_documented_commands_work(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [command for command in commands() if here(command)]
    environment = {
        "FRAZIL_STORAGE__PROPERTIES": json.dumps({"s3.path-style-access": "true", "s3.region": "us-east-1"}),
        "FRAZIL_STORAGE__CREDENTIALS__ARCHIVE": json.dumps(s3.credentials),
    }
    (tmp_path / "policy.json").write_text('{"Statement": [{"Effect": "Allow"}]}')
    monkeypatch.chdir(tmp_path)
    lake = s3.bucket()
    with serving(tmp_path, env=environment, maintenance=True) as server:
        monkeypatch.setenv("FRAZIL_URL", server.url)
        catalog = load_catalog("c", type="rest", uri=server.iceberg)
        run_readme(catalog, server.url)
        catalog.create_table("sales.orders", Schema(*COLUMNS))
        for command in shown:
            # In this process: starting as many as there are commands would take minutes. The store is another one.
            words = [
                word.replace("s3://lake/", f"s3://{lake}/").replace("http://minio:9000", s3.endpoint)
                for word in command.words
            ]
            monkeypatch.setattr(sys, "argv", words)
            code = called()
            printed = capsys.readouterr()
            assert code == 0, f"{command.page}: {command.text}\n{printed.out}{printed.err}"


def run_readme(catalog: Catalog, url: str) -> None:
    """What README shows of PyIceberg; the table's name is free again afterwards."""
    (example,) = blocks(ROOT / "README.md", "python")
    assert SERVER in example
    exec(compile(example.replace(SERVER, url), "README.md", "exec"), {})
    assert catalog.load_table("sales.orders").scan().to_arrow().num_rows == 3
    catalog.rename_table("sales.orders", "sales.of_readme")
