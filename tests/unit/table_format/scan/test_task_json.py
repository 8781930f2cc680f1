"""Planned files as the JSON of the REST catalog, member by member, and as PyIceberg reads them."""

from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import pytest
from pyiceberg.catalog.rest.scan_planning import ScanTasks
from pyiceberg.table import FileScanTask

from table_format.manifest.entries import Content, DataFile, ManifestEntry
from table_format.metadata.document import TableMetadata
from table_format.scan.expressions import TRUE, parse_expression
from table_format.scan.planning import PlannedFile
from table_format.scan.single_values import civil, days_of, single_value_json
from table_format.scan.task_json import TaskWriter
from table_format.schema.types import parse_primitive
from tests.factories.manifests import full_file, kept, new_file, new_metadata

RESIDUAL = {"type": "eq", "term": "a", "value": 5}


def planned(file: DataFile, *deletes: DataFile, residual: Any = True) -> PlannedFile:
    entries: tuple[ManifestEntry, ...] = tuple(kept(delete) for delete in deletes)
    return PlannedFile(entry=kept(file), deletes=entries, residual=parse_expression(residual))


def delete(content: Content, path: str, **more: Any) -> DataFile:
    return new_file(path, content=content, **more)


def test_a_data_file_with_all_its_members() -> None:
    metadata = new_metadata({"a": "long", "b": "string"}, [("b", "identity")])
    file = full_file(partition=("x",), first_row_id=17, sort_order_id=3)
    json = TaskWriter(metadata, frozenset({1})).task(planned(file, residual=RESIDUAL))
    assert json == {
        "data-file": {
            "spec-id": 0,
            "content": "data",
            "file-path": "memory://t/data/full.parquet",
            "file-format": "parquet",
            "partition": ["x"],
            "file-size-in-bytes": 2**33,
            "record-count": 2**40,
            "key-metadata": "6B6579",
            "split-offsets": [4, 2**32],
            "sort-order-id": 3,
            "first-row-id": 17,
            "column-sizes": {"keys": [1], "values": [10]},
            "value-counts": {"keys": [1], "values": [3]},
            "null-value-counts": {"keys": [1], "values": [0]},
            "lower-bounds": {"keys": [1], "values": ["0001"]},
            "upper-bounds": {"keys": [1], "values": ["FF" * 16]},
        },
        "residual-filter": RESIDUAL,
    }


def test_without_being_asked_for_there_are_no_statistics() -> None:
    [task] = TaskWriter(new_metadata()).scan_tasks([planned(full_file())])["file-scan-tasks"]
    assert not [name for name in task["data-file"] if name.endswith(("counts", "bounds", "sizes"))]
    assert task["residual-filter"] is True


def test_delete_files_stand_once_and_are_pointed_at() -> None:
    equality = delete(Content.EQUALITY_DELETES, "memory://t/e.parquet", equality_ids=[1])
    positions = delete(Content.POSITION_DELETES, "memory://t/p.parquet", referenced_data_file="memory://t/1")
    vectors = [
        delete(
            Content.POSITION_DELETES,
            "memory://t/v.puffin",
            file_format="PUFFIN",
            referenced_data_file=f"memory://t/{number}",
            content_offset=offset,
            content_size_in_bytes=40,
        )
        for number, offset in ((2, 4), (3, 44))
    ]
    files = [new_file(f"memory://t/{number}") for number in range(4)]
    writer = TaskWriter(new_metadata())
    answer = writer.scan_tasks(
        [
            planned(files[0]),
            planned(files[1], positions, equality),
            planned(files[2], vectors[0], equality),
            planned(files[3], vectors[1]),
        ]
    )
    assert [task.get("delete-file-references") for task in answer["file-scan-tasks"]] == [
        None,
        [0, 1],
        [1, 2],
        [3],
    ]
    common = {"spec-id": 0, "partition": [], "file-size-in-bytes": 1000, "record-count": 3}
    puffin = {**common, "content": "position-deletes", "file-path": "memory://t/v.puffin"}
    puffin |= {"file-format": "puffin", "content-size-in-bytes": 40}
    assert answer["delete-files"] == [
        {
            **common,
            "content": "position-deletes",
            "file-path": "memory://t/p.parquet",
            "file-format": "parquet",
            "referenced-data-file": "memory://t/1",
        },
        {
            **common,
            "content": "equality-deletes",
            "file-path": "memory://t/e.parquet",
            "file-format": "parquet",
            "equality-ids": [1],
        },
        {**puffin, "referenced-data-file": "memory://t/2", "content-offset": 4},
        {**puffin, "referenced-data-file": "memory://t/3", "content-offset": 44},
    ]


def test_an_answer_without_deletes_has_no_delete_files() -> None:
    assert list(TaskWriter(new_metadata()).scan_tasks([])) == ["file-scan-tasks"]


def test_pyiceberg_reads_the_answer() -> None:
    metadata = new_metadata({"a": "long", "d": "date"}, [("d", "identity"), ("a", "bucket[4]")])
    file = full_file(partition=(18_262, 3))
    positions = delete(Content.POSITION_DELETES, "memory://t/p.parquet", partition=(18_262, 3))
    answer = TaskWriter(metadata, frozenset({1, 2})).scan_tasks(
        [planned(file, positions, residual=RESIDUAL), planned(new_file(partition=(0, 0)))]
    )
    read = ScanTasks.model_validate_json(orjson.dumps(answer))
    first, second = [
        FileScanTask.from_rest_response(task, read.delete_files) for task in read.file_scan_tasks
    ]
    assert first.file.file_path == file.file_path
    assert first.file.record_count == file.record_count
    assert first.file.value_counts == file.value_counts
    assert [each.file_path for each in first.delete_files] == ["memory://t/p.parquet"]
    assert str(first.residual) == "EqualTo(term=Reference(name='a'), literal=LongLiteral(5))"
    assert list(second.file.partition) == ["1970-01-01", 0]


def test_a_null_partition_value_is_null_as_java_wants_it() -> None:
    """PyIceberg 0.12 refuses such an answer, but a list cannot leave a value out, and Java counts them."""
    metadata = new_metadata({"a": "long"}, [("a", "identity")])
    json = TaskWriter(metadata).task(planned(new_file(partition=(None,))))
    assert json["data-file"]["partition"] == [None]


def test_a_partition_whose_column_was_dropped_is_null_for_clients() -> None:
    metadata = new_metadata({"a": "long", "b": "string"}, [("b", "identity"), ("a", "identity")])
    schema = metadata.schema()
    current = {**schema, "schema-id": 1, "fields": schema["fields"][:1]}
    evolved = TableMetadata({**metadata.document, "schemas": [schema, current], "current-schema-id": 1})
    json = TaskWriter(evolved).task(planned(new_file(partition=("x", 5))))
    assert json["data-file"]["partition"] == [None, 5]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("boolean", False, False),
        ("int", -5, -5),
        ("long", 2**62, 2**62),
        ("float", 1.0, 1.0),
        ("double", float("inf"), "Infinity"),
        ("double", float("-inf"), "-Infinity"),
        ("double", float("nan"), "NaN"),
        ("string", "ä", "ä"),
        ("date", 0, "1970-01-01"),
        ("date", -1, "1969-12-31"),
        ("date", 2_932_897, "+10000-01-01"),
        ("date", -719_529, "-0001-12-31"),
        ("time", 3_723_000_004, "01:02:03.000004"),
        ("time", 3_600_000_000, "01:00:00"),
        ("timestamp", -1, "1969-12-31T23:59:59.999999"),
        ("timestamp", 1_500_000, "1970-01-01T00:00:01.5"),
        ("timestamptz", 0, "1970-01-01T00:00:00+00:00"),
        ("timestamp_ns", 1, "1970-01-01T00:00:00.000000001"),
        ("timestamptz_ns", -1, "1969-12-31T23:59:59.999999999+00:00"),
        ("decimal(9, 2)", Decimal("-0.05"), "-0.05"),
        ("decimal(9, 2)", Decimal("1E+1"), "10.00"),
        ("decimal(9, 0)", Decimal(7), "7"),
        ("decimal(38, 10)", Decimal("1e-10"), "0.0000000001"),
        ("uuid", UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        ("fixed[2]", b"a\xff", "61FF"),
        ("binary", b"", ""),
        ("string", None, None),
    ],
)
def test_single_values(kind: str, value: Any, expected: Any) -> None:
    found = single_value_json(parse_primitive(kind), value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("days", [*range(-800_000, 4_000_000, 9_973), -(2**31), 2**31 - 1, 0, 59, 60])
def test_the_calendar_goes_both_ways(days: int) -> None:
    assert days_of(*civil(days)) == days


def test_nothing_left_of_a_filter_is_true() -> None:
    assert planned(new_file()).residual == TRUE
