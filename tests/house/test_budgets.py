"""Modules and functions stay readable: a budget of lines for each."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "table_format",
    "catalog_server",
    "maintenance",
    "ingest_plugin",
    "examples",
    "benchmarks",
    "migrations",
)
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MODULE_LINES = 450
FUNCTION_LINES = 70


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 60


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_fits_its_budget(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) <= MODULE_LINES
    long = {
        node.name: length
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES
    }
    assert long == {}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_says_what_it_owns(path: Path) -> None:
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text))


def test_no_module_has_a_name_without_meaning() -> None:
    banned = {"utils.py", "helpers.py", "common.py", "manager.py", "base.py"}
    assert [str(path) for path in MODULES if path.name in banned] == []
