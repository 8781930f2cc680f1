"""Files that we write, read by others: PyIceberg with pruning by our metrics and partitions, DuckDB by path."""

import datetime
import uuid

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFile as TheirDataFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record

from table_format.io.local import LocalObjectStore
from table_format.metadata.document import TableMetadata
from table_format.write.parquet import TableWriter
from tests.fakes.clock import CountingIds

INNER = {"type": "struct", "fields": [{"id": 8, "name": "x", "required": True, "type": "double"}]}
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "when", "required": False, "type": "timestamptz"},
        {"id": 3, "name": "a name/with.odd%letters é", "required": False, "type": "string"},
        {"id": 4, "name": "price", "required": False, "type": "decimal(9, 2)"},
        {"id": 5, "name": "key", "required": False, "type": "uuid"},
        {
            "id": 6,
            "name": "points",
            "required": False,
            "type": {
                "type": "list",
                "element-id": 7,
                "element": INNER,
                "element-required": False,
            },
        },
    ],
}
POINTS = pa.list_(pa.struct({"x": pa.float64()}))
PARTITIONED = [
    (2, 1000, "month(2)", "month"),
    (3, 1001, "cut", "truncate[1]"),
    (1, 1002, "bucket", "bucket[2]"),
]


def batch(rows):
    start = datetime.datetime(1969, 12, 1, tzinfo=datetime.UTC)
    when = [None if row % 7 == 0 else start + datetime.timedelta(days=row % 90) for row in rows]
    keys = pa.array([uuid.UUID(int=row).bytes for row in rows], pa.binary(16))
    return pa.record_batch(
        {
            "id": pa.array(rows, pa.int64()),
            "when": pa.array(when, pa.timestamp("us", tz="UTC")),
            "a name/with.odd%letters é": [
                None if row % 5 == 0 else f"{'/é😀 '[row % 4]}{row}" for row in rows
            ],
            "price": pa.array(rows, pa.int64()),
            "key": keys,
            "points": pa.array(
                [[{"x": row / 2}] * (row % 3) for row in rows], pa.list_(pa.struct({"x": pa.float64()}))
            ),
        }
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A PyIceberg table to which our files were appended as they are, and these files."""
    catalog = InMemoryCatalog("test", warehouse=f"file://{tmp_path_factory.mktemp('readers')}/warehouse")
    catalog.create_namespace("db")
    fields = [
        PartitionField(source, field_id, parse_transform(how), name)
        for source, field_id, name, how in PARTITIONED
    ]
    theirs = catalog.create_table(
        "db.t", Schema.model_validate(SCHEMA), partition_spec=PartitionSpec(*fields)
    )
    metadata = TableMetadata.parse(theirs.metadata.model_dump_json().encode())
    writer = TableWriter(store=LocalObjectStore(), metadata=metadata, ids=CountingIds(), target_bytes=10**6)
    for start in range(0, 1000, 250):
        writer.write(batch(list(range(start, start + 250))))
    files = writer.flush()
    with theirs.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in files:
            append.append_data_file(their_data_file(file))
    yield theirs, files
    catalog.close()


def their_data_file(file):
    return TheirDataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.file_path,
        file_format=FileFormat.PARQUET,
        partition=Record(*file.partition),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        column_sizes=file.column_sizes,
        value_counts=file.value_counts,
        null_value_counts=file.null_value_counts,
        nan_value_counts=file.nan_value_counts,
        lower_bounds=file.lower_bounds,
        upper_bounds=file.upper_bounds,
        split_offsets=file.split_offsets,
    )


def test_pyiceberg_reads_every_row_equal(written):
    table, files = written
    found = table.scan().to_arrow().sort_by("id").to_pylist()
    expected = batch(list(range(1000))).to_pylist()
    assert len(files) > 20
    for row in expected:
        row["key"] = uuid.UUID(bytes=row["key"])
    assert found == expected


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ("id = 17", lambda row: row == 17),
        ("when is null", lambda row: row % 7 == 0),
        ("when < '1970-01-01T00:00:00+00:00'", lambda row: row % 7 and row % 90 < 31),
        ("price >= 990", lambda row: row >= 990),
    ],
)
def test_pruning_by_our_partitions_and_bounds_loses_no_row(written, condition, matches):
    table, files = written
    scan = table.scan(row_filter=condition)
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [row for row in range(1000) if matches(row)]
    assert len(list(scan.plan_files())) < len(files), "something was pruned"


def test_duckdb_reads_every_row(written):
    _, files = written
    paths = [file.file_path.removeprefix("file://") for file in files]
    with duckdb.connect() as connection:
        relation = connection.read_parquet(paths)
        question = 'count(*), sum(id), sum(price), count("when"), count("a name/with.odd%letters é"), sum(len(points))'
        answer = relation.aggregate(question).fetchone()
        types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    rows = range(1000)
    assert answer == (
        1000,
        sum(rows),
        sum(rows),
        sum(1 for row in rows if row % 7),
        sum(1 for row in rows if row % 5),
        sum(row % 3 for row in rows),
    )
    assert (types["price"], types["key"], types["when"]) == (
        "DECIMAL(9,2)",
        "UUID",
        "TIMESTAMP WITH TIME ZONE",
    )
