"""Every client command that the pages show works as it is written there."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, TimestamptzType

from catalog_server import cli
from tests.process.servers import serving

pytestmark = pytest.mark.process
ROOT = Path(__file__).resolve().parents[2]
COLUMNS = (
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "ordered_at", TimestamptzType(), required=False),
)
CLIENT = ("bucket", "namespace", "table", "policy", "maintenance")


def shown_commands() -> list[tuple[str, str]]:
    """(page, command) of every client command in a code block."""
    found = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for block in re.findall(r"```\w*\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                words = line.split()
                if words[:1] == ["frazil"] and words[1] in CLIENT:
                    found.append((page.name, line.split("#")[0].strip()))
    return found


def called() -> int:
    """The exit code of the program with the arguments that are set."""
    try:
        cli.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_documented_commands_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = shown_commands()
    assert len(commands) >= 8
    with serving(tmp_path, maintenance=True) as server:
        monkeypatch.setenv("FRAZIL_URL", server.url)
        catalog = load_catalog("c", type="rest", uri=server.iceberg)
        catalog.create_namespace("sales")
        catalog.create_table("sales.orders", Schema(*COLUMNS))
        for page, command in commands:
            # In this process: starting as many as there are commands would take minutes.
            monkeypatch.setattr(sys, "argv", shlex.split(command))
            code = called()
            printed = capsys.readouterr()
            assert code == 0, f"{page}: {command}\n{printed.out}{printed.err}"
