"""Scans opened, cut into pages and planned."""

from collections.abc import Callable
from typing import Any

import pytest

from table_format.errors import Invalid
from table_format.io.memory import MemoryObjectStore
from table_format.metadata.document import TableMetadata
from table_format.scan.expressions import parse_expression
from table_format.scan.plan import snapshot_files
from table_format.scan.planning import PlannedFile, Scan, ScanPage, open_scan, plan_page, plan_scan
from table_format.scan.request import ScanRequest
from tests.factories.lake import BY_NAME, Lake
from tests.fakes.clock import ManualClock


def paths(planned: list[PlannedFile]) -> list[str]:
    return [each.entry.data_file.file_path for each in planned]


def opened(lake: Lake, **request: Any) -> Scan:
    return open_scan(lake.store, lake.metadata, ScanRequest(**request))


def planned(lake: Lake, **request: Any) -> list[str]:
    return paths(list(plan_scan(lake.store, opened(lake, **request))))


@pytest.fixture
def lake() -> Lake:
    """Nine files in five manifests of 4, 1, 1, 2 and 1 entries."""
    lake = Lake(MemoryObjectStore(ManualClock()), spec=BY_NAME)
    number = 0
    for size in (4, 1, 1, 2, 1):
        rows = [[{"id": number + k, "name": f"n{(number + k) % 3}"}] for k in range(size)]
        number += size
        lake.append(*(lake.data_file(row, partition=(row[0]["name"],)) for row in rows))
    return lake


def test_a_table_without_snapshots_has_no_pages() -> None:
    scan = opened(Lake(MemoryObjectStore(ManualClock())))
    assert (scan.snapshot_id, scan.live_files, scan.pages(10)) == (None, 0, ())


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 10, 1000])
def test_pages_hold_every_file_once_and_none_too_many(lake: Lake, size: int) -> None:
    scan = opened(lake)
    pages = [
        paths(list(plan_page(lake.store, scan, ScanPage.from_json(page.to_json()))))
        for page in scan.pages(size)
    ]
    everything = [task.entry.data_file.file_path for task in snapshot_files(lake.store, lake.metadata).tasks]
    assert [path for page in pages for path in page] == everything
    assert max(map(len, pages)) == min(size, 9)
    assert len(pages) == -(-9 // size)
    assert scan.live_files == 9


def test_pages_leave_out_removed_files(lake: Lake) -> None:
    gone = planned(lake)[2]
    lake.rewrite(lake.group([task for task in lake.tasks() if task.entry.data_file.file_path == gone]))
    for size in (1, 2, 100):
        scan = opened(lake)
        found = [path for page in scan.pages(size) for path in paths(list(plan_page(lake.store, scan, page)))]
        assert len(found) == 9
        assert gone not in found


@pytest.mark.parametrize(
    "json",
    [None, [], [0, 0, 0], [0, 0, 0, 0, 0], [1, 0, 0, 1], [0, -1, 0, 1], [0, 0, True, 1], ["0", 0, 0, 1]],
)
def test_what_is_no_page(json: Any) -> None:
    with pytest.raises(Invalid, match="not a page"):
        ScanPage.from_json(json)


def test_a_page_of_another_scan_is_refused(lake: Lake) -> None:
    page = ScanPage(first_manifest=0, first_entry=0, last_manifest=5, end_entry=None)
    with pytest.raises(Invalid, match="not one of this scan"):
        list(plan_page(lake.store, opened(lake), page))


def test_an_empty_page_size_is_refused(lake: Lake) -> None:
    with pytest.raises(Invalid, match="at least one file"):
        opened(lake).pages(0)


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"snapshot_id": 5}, "no snapshot 5"),
        ({"snapshot_id": 5, "end_snapshot_id": 6}, "of one snapshot"),
        ({"start_snapshot_id": 5}, "needs both"),
        ({"end_snapshot_id": 5}, "needs both"),
        ({"start_snapshot_id": 5, "end_snapshot_id": 6}, "no snapshot 6"),
        ({"select": ("id", "nix")}, "select: the table has no column 'nix'"),
        ({"select": ("ID",)}, "select: the table has no column 'ID'"),
        ({"stats_fields": ("nix",)}, "stats-fields: the table has no column 'nix'"),
    ],
    ids=str,
)
def test_requests_that_do_not_fit(lake: Lake, request_: dict[str, Any], complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        opened(lake, **request_)


def test_names_may_differ_in_case_when_case_does_not_count(lake: Lake) -> None:
    scan = opened(lake, select=("ID",), stats_fields=("NAME",), case_sensitive=False)
    assert scan.stats_field_ids == {2}


def history(lake: Lake) -> list[int]:
    return [snapshot["snapshot-id"] for snapshot in lake.metadata.snapshots]


def test_a_range_has_what_was_appended_after_its_start(lake: Lake) -> None:
    ids = history(lake)
    everything = planned(lake)
    assert set(planned(lake, start_snapshot_id=ids[0], end_snapshot_id=ids[3])) == set(
        planned(lake, snapshot_id=ids[3])
    ) - set(planned(lake, snapshot_id=ids[0]))
    assert planned(lake, start_snapshot_id=ids[4], end_snapshot_id=ids[4]) == []
    assert len(everything) == 9


def test_a_range_must_lead_from_its_start_to_its_end(lake: Lake) -> None:
    ids = history(lake)
    with pytest.raises(Invalid, match="not an ancestor"):
        opened(lake, start_snapshot_id=ids[3], end_snapshot_id=ids[1])


def test_a_range_passes_over_what_did_not_append(lake: Lake) -> None:
    before = history(lake)[-1]
    lake.rewrite(lake.group(lake.tasks()[:1]))
    lake.row_delta([lake.data_file([{"id": 99, "name": "n1"}], partition=("n1",))], [])
    new = lake.append_rows({"id": 100, "name": "n0"}, partition=("n0",))
    scan = opened(lake, start_snapshot_id=before, end_snapshot_id=history(lake)[-1])
    assert paths(list(plan_scan(lake.store, scan))) == [new.file_path]
    assert scan.live_files == 1


def test_a_range_has_no_deletes(lake: Lake) -> None:
    start = history(lake)[-2]
    lake.row_delta([], [lake.equality_file([{"id": 8, "name": "n2"}], [1], partition=("n2",))])
    [file] = plan_scan(lake.store, opened(lake, start_snapshot_id=start, end_snapshot_id=history(lake)[-1]))
    assert file.deletes == ()


DELETES: dict[str, Callable[[Lake, str], Any]] = {
    "equality": lambda lake, _: lake.equality_file([{"id": 0, "name": "n0"}], [1], partition=("n0",)),
    "equality of another partition": lambda lake, _: lake.equality_file(
        [{"id": 0, "name": "x"}], [1], partition=("x",)
    ),
    "positions": lambda lake, path: lake.position_file([(path, 0)], partition=("n0",)),
    "positions of one file": lambda lake, path: lake.position_file(
        [(path, 0)], partition=("n0",), referenced_data_file=path
    ),
}


@pytest.mark.parametrize("most", [0, 10_000], ids=["page by page", "once"])
@pytest.mark.parametrize("kind", DELETES)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_each_page_has_the_deletes_that_the_whole_snapshot_has(
    lake: Lake, kind: str, size: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("table_format.scan.page_deletes.KEPT_DELETES", most)
    lake.row_delta([], [DELETES[kind](lake, planned(lake)[0])])
    lake.append_rows({"id": 50, "name": "n0"}, partition=("n0",))
    expected = {
        task.entry.data_file.file_path: [each.data_file.file_path for each in task.deletes]
        for task in snapshot_files(lake.store, lake.metadata).tasks
    }
    scan = opened(lake)
    found = {
        each.entry.data_file.file_path: [delete.data_file.file_path for delete in each.deletes]
        for page in scan.pages(size)
        for each in plan_page(lake.store, scan, page)
    }
    assert found == expected
    assert any(expected.values()) == (kind != "equality of another partition")


@pytest.mark.parametrize("most", [0, 10_000], ids=["page by page", "once"])
@pytest.mark.parametrize("size", [1, 2, 100])
def test_vectors_and_row_ids_of_format_3(size: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("table_format.scan.page_deletes.KEPT_DELETES", most)
    lake = Lake(MemoryObjectStore(ManualClock()), **{"format-version": "3"})
    files = [
        [lake.data_file([{"id": n, "name": "x"}] * (n + 1)) for n in range(start, start + 3)]
        for start in (0, 3)
    ]
    lake.append(*files[0])
    lake.append(*files[1])
    targets = [files[0][1].file_path, files[1][2].file_path]
    vectors = [
        lake.position_file(
            [(target, 0)],
            file_format="PUFFIN",
            referenced_data_file=target,
            content_offset=4,
            content_size_in_bytes=40,
        )
        for target in targets
    ]
    lake.row_delta([], vectors)
    scan = opened(lake)
    found = {
        each.entry.data_file.file_path: each
        for page in scan.pages(size)
        for each in plan_page(lake.store, scan, page)
    }
    with_vectors = {path: [each.data_file.file_path for each in file.deletes] for path, file in found.items()}
    assert with_vectors == {
        file.file_path: [vectors[targets.index(file.file_path)].file_path]
        if file.file_path in targets
        else []
        for file in files[0] + files[1]
    }
    ids = [found[file.file_path].entry.data_file.first_row_id for file in files[0] + files[1]]
    assert ids == [0, 1, 3, 6, 10, 15]


def renamed(lake: Lake) -> TableMetadata:
    """The table after `name` was renamed to `title`, with no snapshot since."""
    schema = lake.metadata.schema()
    fields = [{**field, "name": field["name"].replace("name", "title")} for field in schema["fields"]]
    new = {**schema, "schema-id": 1, "fields": fields}
    document = {**lake.metadata.document, "schemas": [schema, new], "current-schema-id": 1}
    return TableMetadata(document)


def test_names_are_those_of_the_table_unless_the_snapshots_are_asked_for(lake: Lake) -> None:
    metadata, head = renamed(lake), history(lake)[-1]
    by_name, by_title = (
        parse_expression({"type": "eq", "term": term, "value": "n0"}) for term in ("name", "title")
    )

    def files(**request: Any) -> int:
        scan = open_scan(lake.store, metadata, ScanRequest(**request))
        return len(list(plan_scan(lake.store, scan)))

    assert files(filter=by_title) == 3
    assert files(filter=by_title, snapshot_id=head) == 3
    assert files(filter=by_name, snapshot_id=head, use_snapshot_schema=True) == 3
    assert files(filter=by_title, snapshot_id=head, select=("name", "title")) == 3
    with pytest.raises(Invalid, match="'name'"):
        files(filter=by_name)
    with pytest.raises(Invalid, match="'title'"):
        files(filter=by_title, snapshot_id=head, use_snapshot_schema=True)


def test_manifests_that_a_filter_excludes_are_not_counted(lake: Lake) -> None:
    by_name = parse_expression({"type": "eq", "term": "name", "value": "nothing"})
    scan = opened(lake, filter=by_name)
    assert (scan.live_files, scan.pages(10)) == (0, ())
    nothing = opened(lake, filter=parse_expression(False))
    assert (nothing.live_files, nothing.pages(10)) == (0, ())
