"""Every known fault of other maintenance has a test that is named after its row, or is told as work to come.

A test carries its row in its name: `test_maint_A1_…`, or `test_A1_…` inside a longer name after another row's.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ROWS = {
    "A1": "no file of a commit in flight is an orphan; ages under a day need an unsafe server",
    "A2": "paths in another spelling stop the removal",
    "A4": "odd characters in keys",
    "A5": "statistics files are kept while referenced",
    "A7": "two tables in one place",
    "A8": "the base is dropped, the new table takes its name",
    "A10": "gc.enabled=false is respected, and told",
    "A11": "a file of unknown age stays",
    "A13": "the catalog's pointer is the root",
    "A14": "a drop with purge beside commits",
    "B1": "files of main survive the expiry of a tag or branch",
    "B2": "a path removed and added again",
    "B4": "heads of old branches and tags stay",
    "B5": "the only ref is not main",
    "B7": "a retained manifest that can not be read",
    "B8": "expiration frees the storage",
    "B10": "an interrupted deletion is carried on",
    "B11": "only the policy decides, however quiet the writers are",
    "B13": "a cherry-picked snapshot",
    "B14": "statistics go with their snapshot",
    "C2": "outputs keep the sequence number of what was read",
    "C3": "an upserted row of the same commit survives",
    "C5": "an equality delete stays while it reaches something",
    "C6": "rows out are rows in",
    "C8": "compaction on transformed partitions",
    "C9": "dictionaries that differ",
    "C11": "file formats in any case",
    "C12": "totals in the summary",
    "C14": "row lineage of format v3",
    "C15": "an upgrade to format v3 after compaction",
    "C17": "inputs stay for the snapshots that need them",
    "C18": "counts after a merge of format v3",
    "C20": "two workers at once",
    "D1": "appends never make compaction fail",
    "D3": "last run, next run, and why",
    "D4": "the fixed point",
    "D6": "a worker that dies",
    "D7": "position delete files get fewer",
    "E1": "dead equality deletes go",
    "E2": "which deletes reach which data",
    "E4": "thousands of commits without clean-up",
    "E5": "compaction that falls behind",
    "E7": "absolute paths",
    "E8": "deleted rows and delete files are not compared",
}

WITH_THE_ENGINES_TO_COME: dict[str, str] = {}
"""Rows that wait for parts of maintenance that are not built yet."""

_NAME = re.compile(r"def test_(\w+)")


@pytest.fixture(scope="module")
def named() -> set[str]:
    """The rows that tests are named after."""
    files = (ROOT / "tests").rglob("test_*.py")
    names = [name for path in files for name in _NAME.findall(path.read_text(encoding="utf-8"))]
    return {
        row for name in names if "maint_" in name for row in re.findall(r"(?:^|_)([A-E]\d+)(?=_|$)", name)
    }


@pytest.mark.parametrize("row", [row for row in ROWS if row not in WITH_THE_ENGINES_TO_COME])
def test_a_row_has_a_test_of_its_name(row: str, named: set[str]) -> None:
    assert row in named, f"no test is named after {row}: {ROWS[row]}"


def test_what_has_no_test_is_a_row_and_has_none(named: set[str]) -> None:
    assert set(WITH_THE_ENGINES_TO_COME) <= set(ROWS)
    assert named.intersection(WITH_THE_ENGINES_TO_COME) == set(), "take these off the list"


def test_no_test_is_named_after_a_row_that_does_not_exist(named: set[str]) -> None:
    assert named - set(ROWS) == set()
