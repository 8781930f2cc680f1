"""Every known fault of other catalogs has a test that is named after its row, or a reason why it has none yet.

Rows: R1 to R46 are faults of catalogs and their built-in maintenance, `load` 1 to 25 of load, latency and concurrency,
S1 to S19 attacks. A test carries its row in its name: `test_R16_…`, `test_load_13_…`, `test_S8_…`.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ROWS = {
    "R1": "parallel commits on one table: one wins, the others get 409",
    "R2": "a stale sequence number is 409, in transactions too",
    "R4": "a lock timeout before anything happened is 503",
    "R5": "two writers never share a metadata file, and the loser deletes its own only",
    "R7": "a commit whose answer was lost is answered again under its Idempotency-Key",
    "R8": "a key of another request is refused",
    "R10": "add-schema without last-column-id",
    "R11": "a name used again gets a place of its own",
    "R13": "a renamed table inherits from its new namespace",
    "R14": "register reads nothing outside the bucket",
    "R16": "only an empty namespace is dropped",
    "R17": "a namespace answers a location",
    "R19": "HEAD has no body; children of a missing parent are 404",
    "R20": "a missing namespace is named in JSON",
    "R22": "config members are objects, the keys' lifetime is at the top level",
    "R23": "tags agree between create, commit and load, and differ between shapes",
    "R25": "an expired token is 401",
    "R26": "odd access delegation is ignored",
    "R28": "names round trip or are refused",
    "R29": "properties are always an object",
    "R31": "storage credentials are usable or omitted",
    "R32": "the scope of credentials ends at the table's last slash",
    "R34": "only endpoints that work are advertised",
    "R35": "an empty table's members are consistent",
    "R37": "compaction of old dictionary encodings keeps the values",
    "R38": "file formats in any case",
    "R40": "maintenance follows the table's location",
    "R41": "tags and branches hold their snapshots",
    "R43": "no retention overflows",
    "R44": "rewritten manifests keep sequence numbers",
    "R46": "paths elsewhere are created, found and kept; a create beside a drop is no 5xx",
    "load 1": "9,000 snapshots are loaded in milliseconds",
    "load 2": "a load does not depend on the number of snapshots of other tables",
    "load 4": "commits beyond what the database takes are refused early",
    "load 5": "a namespace beside 10,000 others is created in milliseconds",
    "load 7": "parallel loads ask for credentials once",
    "load 8": "credentials carry their end and where to renew them",
    "load 10": "the answer to a commit is dropped, and the client repeats it",
    "load 11": "a 5xx after the commit of a create leaves a readable table",
    "load 13": "a failed transaction deletes no metadata",
    "load 14": "a key of another operation has no effect and no false success",
    "load 16": "every shape of a load tells the metadata location",
    "load 17": "an equality delete during compaction holds",
    "load 19": "removal in a loop beside a long insert deletes nothing of it",
    "load 20": "statistics files survive the removal of unreferenced files",
    "load 22": "a clock 90 s off spoils nothing",
    "load 23": "overload is 429 or 503 with Retry-After",
    "load 25": "S1 to S4 and S13",
    "S1": "a staged create at another's place",
    "S2": "a create whose paths lead elsewhere",
    "S3": "a commit that sends or names files elsewhere",
    "S4": "names that a policy could read as patterns",
    "S5": "ambiguous locations",
    "S7": "overlapping places",
    "S8": "register of foreign files",
    "S9": "bombs in metadata files",
    "S10": "large, endless and slow requests",
    "S11": "deep nesting",
    "S12": "too many columns and properties, too long texts",
    "S15": "across buckets",
    "S17": "odd encodings in URLs",
    "S19": "endless chains and odd pages",
}

_NO_CREDENTIALS = "no credentials are vended yet: tables lie on a local disk, and loads say so (R31)"
_NO_IDENTITY = "every caller is anonymous until principals and tokens come"

NO_TEST_YET = {
    "R25": _NO_IDENTITY,
    "load 7": _NO_CREDENTIALS,
    "load 8": _NO_CREDENTIALS,
    "load 25": f"S1 to S4 have tests; of S13: {_NO_IDENTITY}",
}
"""Rows of what is not built yet."""

_NAME = re.compile(r"def test_(\w+)")


def _named(row: str, tests: list[str]) -> list[str]:
    mark = re.compile(rf"(?:^|_){row.replace(' ', '_')}(?:_|$)")
    return [test for test in tests if mark.search(test)]


@pytest.fixture(scope="module")
def tests() -> list[str]:
    """The names of all tests, without `test_`."""
    files = (ROOT / "tests").rglob("test_*.py")
    return [name for path in files for name in _NAME.findall(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("row", [row for row in ROWS if row not in NO_TEST_YET])
def test_a_row_has_a_test_of_its_name(row: str, tests: list[str]) -> None:
    assert _named(row, tests), f"no test is named after {row}: {ROWS[row]}"


def test_what_has_no_test_is_a_row_and_has_none(tests: list[str]) -> None:
    assert set(NO_TEST_YET) <= set(ROWS)
    assert [row for row in NO_TEST_YET if _named(row, tests)] == [], "take these off the list"


def test_no_test_is_named_after_a_row_that_does_not_exist(tests: list[str]) -> None:
    marks = {mark for test in tests for mark in re.findall(r"(?:^|_)(R\d+|load_\d+)(?=_|$)", test)}
    assert {mark.replace("_", " ") for mark in marks} - set(ROWS) == set()
