"""The reference pages name everything there is: settings, metrics, commands, policies, ingest keys."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup

from catalog_server import settings, telemetry
from catalog_server.cli import build_app, reference
from ingest_plugin import metrics as ingest_metrics
from ingest_plugin.keys import OFFERED
from maintenance import setting_rules
from maintenance.policies import PolicyType

DOCS = Path(__file__).resolve().parents[2] / "docs"
README = DOCS.parent / "README.md"


@pytest.mark.parametrize(
    ("name", "default", "description"), list(settings.documented()), ids=lambda text: str(text)[:30]
)
def test_setting_is_documented(name: str, default: str, description: str) -> None:
    page = (DOCS / "settings.md").read_text()
    variable = f"FRAZIL_{name.replace('.', '__').upper()}"
    shown = f"`{default}`" if default not in ("", "{}") else "(none)"
    assert f"| `{name}` | `{variable}` | {shown} | {description} |" in page


def test_no_setting_is_documented_that_does_not_exist() -> None:
    page = (DOCS / "settings.md").read_text()
    known = {name for name, _, _ in settings.documented()}
    assert set(re.findall(r"^\| `([a-z0-9_.]+)` \|", page, re.MULTILINE)) == known


@pytest.mark.parametrize("metric", ingest_metrics.METRICS)
def test_ingest_metric_is_documented(metric: Any) -> None:
    (family,) = metric.describe()
    total = "_total" if family.type == "counter" else ""
    assert f"| `{family.name}{total}` |" in (DOCS / "ingest.md").read_text()


@pytest.mark.parametrize("metric", telemetry.METRICS, ids=lambda metric: metric.name)
def test_metric_is_documented(metric: telemetry.Metric) -> None:
    assert f"| `{metric.name}` |" in (DOCS / "operations.md").read_text()


@pytest.mark.parametrize("kind", list(PolicyType))
def test_policy_settings_are_documented(kind: PolicyType) -> None:
    page = (DOCS / "maintenance.md").read_text()
    section = page.split(f"## `{kind}`")[1].split("\n## ")[0]
    for name in setting_rules.SETTINGS[kind]:
        assert f"`{name}`" in section


@pytest.mark.parametrize("key", sorted(OFFERED))
def test_ingest_key_is_documented(key: str) -> None:
    assert f"| `{key}` |" in (DOCS / "ingest.md").read_text()


def _commands(group: TyperGroup, path: str = "frazil") -> list[tuple[str, TyperCommand]]:
    found: list[tuple[str, TyperCommand]] = []
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if isinstance(command, TyperGroup):
            found += _commands(command, f"{path} {name}")
        else:
            assert isinstance(command, TyperCommand)
            found.append((f"{path} {name}", command))
    return found


COMMANDS = _commands(typer.main.get_group(build_app()))


@pytest.mark.parametrize(("line", "command"), COMMANDS, ids=[line for line, _ in COMMANDS])
def test_command_is_documented_and_explains_itself(line: str, command: TyperCommand) -> None:
    pages = "\n".join(path.read_text() for path in [README, *DOCS.glob("*.md")])
    assert line in pages
    assert command.help


def test_the_page_of_all_commands_is_up_to_date() -> None:
    """Renew it with: make openapi"""
    assert (DOCS / "cli.md").read_text() == reference.page()


def test_links_between_pages_lead_somewhere() -> None:
    for page in [README, *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
