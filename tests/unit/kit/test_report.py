"""The driver of the compatibility kit: what counts as passed, and which folders are touched."""

from pathlib import Path

import pytest

from tests.kit import folders, report
from tests.kit.report import Status

CLASS = "org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests"
XML = f"""<testsuite>
  <testcase name="a()" classname="{CLASS}" time="0.5"/>
  <testcase name="b(int)[1]" classname="{CLASS}"><failure message="no&#10;such table"/></testcase>
  <testcase name="c()" classname="{CLASS}"><error>boom</error></testcase>
  <testcase name="createTableInUniqueLocation()" classname="{CLASS}"><skipped>said why</skipped></testcase>
  <testcase name="d()" classname="{CLASS}"><skipped/></testcase>
</testsuite>"""


def test_outcomes_and_closing_line(tmp_path: Path) -> None:
    (tmp_path / "TEST-x.xml").write_text(XML)
    found = report.judged(report.outcomes(tmp_path))
    assert {one.name.partition(".")[2]: one.status for one in found} == {
        "a": Status.PASSED,
        "b(int)[1]": Status.FAILED,
        "c": Status.FAILED,
        "createTableInUniqueLocation": Status.SKIPPED,
        "d": Status.FAILED,  # a skip that nobody announced
    }
    assert found[1].message == "no such table"
    assert report.closing_line(found) == "1 passed, 3 failed, 1 skipped"


def test_a_driver_without_a_list_allows_no_skip(tmp_path: Path) -> None:
    (tmp_path / "TEST-x.xml").write_text(XML)
    found = report.judged(report.outcomes(tmp_path), allowed=())
    assert report.closing_line(found) == "1 passed, 4 failed, 0 skipped"


def test_folders_are_empty_and_gone_again(tmp_path: Path) -> None:
    with folders.owned(tmp_path):
        (tmp_path / "ns" / "table").mkdir()
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    # What a killed run left is taken away by the next one.
    (tmp_path / "ns").mkdir()
    (tmp_path / "ns" / folders._MARKER).touch()
    (tmp_path / "ns" / "left").touch()
    with folders.owned(tmp_path):
        assert [path.name for path in (tmp_path / "ns").iterdir()] == [folders._MARKER]


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "newdb").mkdir()
    (tmp_path / "newdb" / "precious").touch()
    with pytest.raises(folders.Occupied, match="newdb"), folders.owned(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["newdb"]
    assert (tmp_path / "newdb" / "precious").exists()
