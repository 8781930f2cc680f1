import pytest

from table_format.commit.summary import (
    Changes,
    FileCounts,
    Operation,
    carried_ingest_keys,
    count,
    summarise,
    totals_of,
)
from table_format.errors import Invalid
from table_format.manifest.entries import Content, DataFile

DATA = DataFile(file_path="memory://w/a", record_count=10, file_size_in_bytes=100, partition=("x",))
POSITION = DataFile(
    content=Content.POSITION_DELETES,
    file_path="memory://w/p",
    record_count=3,
    file_size_in_bytes=30,
    partition=("x",),
)
EQUALITY = DataFile(
    content=Content.EQUALITY_DELETES,
    file_path="memory://w/e",
    record_count=2,
    file_size_in_bytes=20,
    equality_ids=[1],
)
VECTOR = DataFile(
    content=Content.POSITION_DELETES,
    file_path="memory://w/v.puffin",
    file_format="puffin",
    record_count=5,
    file_size_in_bytes=1000,
    content_offset=4,
    content_size_in_bytes=50,
)


def changes(added: list[DataFile], removed: list[DataFile]) -> Changes:
    made = Changes()
    for file in added:
        made.add(file)
    for file in removed:
        made.remove(file)
    return made


def test_first_append() -> None:
    assert summarise(Operation.APPEND, changes([DATA], []), None, extra={"k": "v"}) == {
        "operation": "append",
        "k": "v",
        "engine-name": "frazil",
        "added-data-files": "1",
        "added-records": "10",
        "added-files-size": "100",
        "changed-partition-count": "1",
        "total-records": "10",
        "total-files-size": "100",
        "total-data-files": "1",
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


def test_every_kind_of_file_added_and_removed() -> None:
    parent = {
        "total-records": "100",
        "total-files-size": "2000",
        "total-data-files": "9",
        "total-delete-files": "4",
        "total-position-deletes": "8",
        "total-equality-deletes": "7",
    }
    summary = summarise(
        Operation.OVERWRITE, changes([DATA, EQUALITY, VECTOR], [DATA, POSITION]), parent, extra={}
    )
    assert summary == {
        "operation": "overwrite",
        "engine-name": "frazil",
        "added-data-files": "1",
        "deleted-data-files": "1",
        "added-records": "10",
        "deleted-records": "10",
        "added-files-size": "170",
        "removed-files-size": "130",
        "added-delete-files": "2",
        "removed-delete-files": "1",
        "removed-position-delete-files": "1",
        "added-dvs": "1",
        "added-position-deletes": "5",
        "removed-position-deletes": "3",
        "added-equality-delete-files": "1",
        "added-equality-deletes": "2",
        "changed-partition-count": "2",
        "total-records": "100",
        "total-files-size": "2040",
        "total-data-files": "9",
        "total-delete-files": "5",
        "total-position-deletes": "10",
        "total-equality-deletes": "9",
    }


@pytest.mark.parametrize(
    "before", [{}, {"total-records": "many"}, {"total-records": "-1"}, {"total-records": "²"}]
)
def test_total_that_the_parent_does_not_know_stays_unknown(before: dict[str, str]) -> None:
    assert "total-records" not in summarise(Operation.APPEND, changes([DATA], []), before, extra={})


def test_total_below_zero_is_not_written() -> None:
    summary = summarise(
        Operation.DELETE, changes([], [DATA]), {"total-records": "5", "total-data-files": "1"}, extra={}
    )
    assert "total-records" not in summary
    assert summary["total-data-files"] == "0"


def test_maint_C12_recount_overrules_totals_that_drifted() -> None:
    drifted = {"total-records": "999", "total-data-files": "3"}
    recount = count([DATA, POSITION, EQUALITY])
    summary = summarise(Operation.REPLACE, changes([DATA], [DATA]), drifted, extra={}, recount=recount)
    assert {key: value for key, value in summary.items() if key.startswith("total-")} == {
        "total-records": "10",
        "total-files-size": "150",
        "total-data-files": "1",
        "total-delete-files": "2",
        "total-position-deletes": "3",
        "total-equality-deletes": "2",
    }


@pytest.mark.parametrize("key", ["operation", "total-records", "added-records", "changed-partition-count"])
def test_caller_cannot_set_computed_keys(key: str) -> None:
    with pytest.raises(Invalid, match=key):
        summarise(Operation.APPEND, changes([DATA], []), None, extra={key: "1"})


def test_empty_tree() -> None:
    assert set(totals_of(FileCounts()).values()) == {"0"}


def test_ingest_keys_come_from_the_nearest_bearer_alone() -> None:
    summaries = [
        {"operation": "append"},
        {"ingest.offsets": "{b}", "other": "x"},
        {"ingest.offsets": "{a}", "ingest.commit-id": "1"},
    ]
    assert carried_ingest_keys(summaries) == {"ingest.offsets": "{b}"}
    assert carried_ingest_keys([{"operation": "append"}]) == {}
