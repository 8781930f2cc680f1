"""Every known fault of other ingest tools has a test that is named after its row, or is told as work to come.

A test carries its rows in its name: `test_ingest_case_28_…`, or `test_ingest_case_20_22_and_19_…` for several.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ROWS = {
    1: "a rebalance during a commit",
    2: "two coordinators after a slow rebalance",
    4: "the catalog answers 502 or 504, but the commit landed",
    5: "an ambiguous failure, then clean-up",
    7: "snapshots expire while the table is idle",
    8: "many partitions and files in one commit",
    10: "one partition is idle",
    11: "a topic renamed on the way",
    13: "a new field in a struct inside a list or map",
    14: "everything optional, also inside",
    16: "google.protobuf.Struct",
    17: "names that differ by case",
    19: "microseconds are kept",
    20: "Debezium's times under Avro",
    22: "decimals that carry their own scale",
    23: "Avro decimals of 64 digits",
    25: "decimals as partition values",
    26: "unsigned numbers beyond the signed ones",
    28: "a schema change while rows are buffered",
    29: "partition values in manifests",
    31: "JSON fields whose type changes",
    32: "timestamps with and without zone in files and table",
    34: "unions of several types",
    35: "field ids in dead letters' files",
    37: "tombstones in a table with a key",
    38: "an update that moves its row to another partition",
    40: "insert, delete, insert of one key in one batch",
    41: "a snapshot taken again",
    43: "a null key",
    44: "one header without a value",
    46: "one malformed record",
    47: "names of topics that meet",
    49: "events that are no rows",
    50: "PyIceberg's upsert is not used",
}

TO_COME: dict[int, str] = {}
"""Rows that wait for parts that are not built yet."""

_NAME = re.compile(r"def test_\w*ingest_case_(\w+)")
_NUMBERS = re.compile(r"^(\d+(?:_(?:and_)?\d+)*)_")


@pytest.fixture(scope="module")
def named() -> set[int]:
    """The rows that tests are named after."""
    files = (ROOT / "tests").rglob("test_*.py")
    names = [name for path in files for name in _NAME.findall(path.read_text(encoding="utf-8"))]
    return {
        int(number)
        for name in names
        if (numbers := _NUMBERS.match(name))
        for number in re.findall(r"\d+", numbers.group(1))
    }


@pytest.mark.parametrize("row", [row for row in ROWS if row not in TO_COME])
def test_a_row_has_a_test_of_its_name(row: int, named: set[int]) -> None:
    assert row in named, f"no test is named after {row}: {ROWS[row]}"


def test_what_has_no_test_is_a_row_and_has_none(named: set[int]) -> None:
    assert set(TO_COME) <= set(ROWS)
    assert named.intersection(TO_COME) == set(), "take these off the list"


def test_no_test_is_named_after_a_row_that_does_not_exist(named: set[int]) -> None:
    assert named - set(ROWS) == set()
