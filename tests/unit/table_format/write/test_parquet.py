import datetime
import gc
import uuid
from decimal import Decimal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from table_format.errors import Internal, Invalid, Unavailable
from table_format.io.faults import Failing, Rule
from table_format.io.memory import MemoryObjectStore
from table_format.metadata.document import TableMetadata
from table_format.write import parquet
from table_format.write.files import FileOptions
from table_format.write.parquet import TableWriter
from tests.fakes.clock import CountingIds, ManualClock

LOCATION = "memory://test/t"
TARGET = 512 * 1024


def schema(**columns):
    fields = [
        {"id": place, "name": name, "required": name.endswith("!"), "type": json_type}
        for place, (name, json_type) in enumerate(columns.items(), 1)
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def table(json_schema, *fields, **properties):
    made = [
        {"source-id": source, "field-id": 1000 + place, "name": f"p{place}", "transform": transform}
        for place, (source, transform) in enumerate(fields)
    ]
    return TableMetadata(
        {
            "format-version": 2,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": LOCATION,
            "last-updated-ms": 0,
            "last-column-id": 100,
            "schemas": [json_schema],
            "current-schema-id": 0,
            "partition-specs": [{"spec-id": 3, "fields": made}],
            "default-spec-id": 3,
            "properties": {
                key.replace("_", "-").replace("--", "."): value for key, value in properties.items()
            },
        }
    )


@pytest.fixture
def store():
    return MemoryObjectStore(ManualClock())


def writer(store, metadata, **options):
    return TableWriter(
        **{"store": store, "metadata": metadata, "ids": CountingIds(), "target_bytes": TARGET, **options}
    )


def read(store, file):
    return pq.ParquetFile(pa.BufferReader(store.get(file.file_path)))


def rows_of(store, files):
    return [row for file in files for row in read(store, file).read().to_pylist()]


def noise(rows, seed=1):
    """Text that does not compress much, the same every time."""
    return [uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}-{row}").hex for row in range(rows)]


EVERYTHING = schema(
    **{
        "bool": "boolean",
        "int!": "int",
        "long": "long",
        "float": "float",
        "double": "double",
        "date": "date",
        "time": "time",
        "ts": "timestamp",
        "tstz": "timestamptz",
        "name with space/slash.dot%é": "string",
        "uuid": "uuid",
        "bytes": "binary",
        "fixed": "fixed[3]",
        "d9": "decimal(9, 2)",
        "d38": "decimal(38, 10)",
        "list": {
            "type": "list",
            "element-id": 101,
            "element-required": True,
            "element": {
                "type": "struct",
                "fields": [{"id": 102, "name": "x", "required": False, "type": "long"}],
            },
        },
        "map": {
            "type": "map",
            "key-id": 103,
            "key": "string",
            "value-id": 104,
            "value": "double",
            "value-required": False,
        },
    }
)
NOON = datetime.datetime(1969, 12, 31, 12, 0, 0, 1)  # noqa: DTZ001 - no zone is the point
ROW = {
    "bool": True,
    "int!": -1,
    "long": 2**63 - 1,
    "float": 0.5,
    "double": 1e300,
    "date": datetime.date(1582, 10, 15),
    "time": datetime.time(23, 59, 59, 999999),
    "ts": NOON,
    "tstz": NOON.replace(tzinfo=datetime.UTC),
    "name with space/slash.dot%é": "😀",
    "uuid": uuid.UUID(int=3),
    "bytes": b"",
    "fixed": b"abc",
    "d9": Decimal("-1.50"),
    "d38": Decimal("1234567890123456789012345678.0123456789"),
    "list": [{"x": 1}, {"x": None}],
    "map": [("k", 1.0), ("l", None)],
}
BARE = {**dict.fromkeys(ROW), "int!": 2}


def everything(rows, target):
    uuids = pa.array([row["uuid"] and row["uuid"].bytes for row in rows], pa.binary(16))
    columns = [
        pa.ExtensionArray.from_storage(pa.uuid(), uuids)
        if field.name == "uuid"
        else pa.array([row[field.name] for row in rows], field.type)
        for field in target
    ]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def test_what_is_written_is_read_back_equal_with_types_and_ids(store):
    write = writer(store, table(EVERYTHING))
    write.write(everything([ROW, BARE], write.arrow_schema))
    (file,) = write.flush()
    parquet_file = read(store, file)
    assert parquet_file.read().to_pylist() == [ROW, BARE]
    assert file.record_count == 2
    assert file.file_size_in_bytes == len(store.get(file.file_path))
    assert (file.spec_id, file.partition, file.file_format, file.sort_order_id) == (3, (), "PARQUET", None)
    sink = pa.BufferOutputStream()
    theirs = schema_to_pyarrow(Schema.model_validate(EVERYTHING))
    with pq.ParquetWriter(sink, theirs, store_schema=False, store_decimal_as_integer=True) as other:
        other.write_table(theirs.empty_table())
    assert parquet_file.schema.equals(pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema)
    assert orjson.loads(parquet_file.metadata.metadata[b"iceberg.schema"]) == EVERYTHING
    assert b"ARROW:schema" not in parquet_file.metadata.metadata


def test_codec_page_index_and_statistics(store):
    batch = pa.record_batch({"a": [1, 2, 3]})
    for options, codec in (
        ({}, "ZSTD"),
        ({"write__parquet__compression_codec": "GZIP"}, "GZIP"),
        ({"write__parquet__compression_codec": "snappy"}, "SNAPPY"),
        ({"write__parquet__compression_codec": "uncompressed"}, "UNCOMPRESSED"),
        ({"write__parquet__compression_level": "9"}, "ZSTD"),
    ):
        write = writer(store, table(schema(a="long"), **options))
        write.write(batch)
        (file,) = write.flush()
        column = read(store, file).metadata.row_group(0).column(0)
        assert column.compression == codec
        assert column.is_stats_set
        assert column.has_column_index
        assert column.has_offset_index


@pytest.mark.parametrize(
    "properties",
    [
        {"write__parquet__compression_codec": "lzo"},
        {"write__parquet__compression_level": "high"},
        {"write__parquet__row_group_size_bytes": "0"},
    ],
)
def test_a_property_without_sense_is_named(store, properties):
    with pytest.raises(Invalid, match=r"write\.parquet\."):
        writer(store, table(schema(a="long"), **properties))


@pytest.mark.parametrize(("level", "given"), [("-1", 3), ("null", 3), ("19", 19), ("-5", -5)])
def test_compression_levels_as_other_writers_take_them(level, given):
    properties = {"write.parquet.compression-level": level}
    options = FileOptions.of({"type": "struct", "fields": []}, properties)
    assert options.parquet["compression_level"] == given


@pytest.mark.parametrize("level", ["23", "-8", "x", "", "1.5", "²"])
def test_compression_levels_without_sense_are_named(level):
    properties = {"write.parquet.compression-level": level}
    with pytest.raises(Invalid, match="zstd takes -7 to 22"):
        FileOptions.of({"type": "struct", "fields": []}, properties)


def test_arguments_without_sense_are_refused(store):
    with pytest.raises(Invalid, match="target size"):
        writer(store, table(schema(a="long")), target_bytes=0)
    with pytest.raises(Invalid, match="prefix"):
        writer(store, table(schema(a="long")), name_prefix="a/b")


def test_files_roll_near_the_target_and_hold_every_row_once(store):
    write = writer(store, table(schema(n="long", s="string")))
    for start in range(0, 60_000, 1000):
        batch = {"n": range(start, start + 1000), "s": noise(1000, start)}
        write.write(pa.record_batch(batch))
    files = write.flush()
    assert len(files) > 2
    assert all(TARGET * 0.85 < file.file_size_in_bytes < TARGET * 1.15 for file in files[:-1])
    assert files[-1].file_size_in_bytes < TARGET * 1.15
    assert [row["n"] for row in rows_of(store, files)] == list(range(60_000))
    assert [file.record_count for file in files] == [read(store, file).metadata.num_rows for file in files]
    assert len({file.file_path for file in files}) == len(files)
    assert write.paths == [file.file_path for file in files]


def test_one_batch_far_larger_than_the_target_is_cut(store):
    write = writer(store, table(schema(n="long", s="string")))
    write.write(pa.record_batch({"n": range(60_000), "s": noise(60_000)}))
    files = write.flush()
    assert max(file.file_size_in_bytes for file in files) < TARGET * 1.15
    assert [row["n"] for row in rows_of(store, files)] == list(range(60_000))


def test_data_that_compresses_well_still_fills_its_files(store):
    write = writer(store, table(schema(n="long", s="string")), target_bytes=100_000)
    for start in range(0, 400_000, 50_000):
        batch = {
            "n": [row * row % 1009 for row in range(start, start + 50_000)],
            "s": ["the same text"] * 50_000,
        }
        write.write(pa.record_batch(batch))
    files = write.flush()
    assert len(files) > 2
    assert all(70_000 < file.file_size_in_bytes < 130_000 for file in files[:-1])
    assert sum(file.record_count for file in files) == 400_000


def test_row_groups_are_bounded_and_found_by_split_offsets(store):
    properties = {"write__parquet__row_group_size_bytes": "100000"}
    write = writer(store, table(schema(s="string"), **properties), target_bytes=10_000_000)
    write.write(pa.record_batch({"s": noise(30_000)}))
    (file,) = write.flush()
    footer = read(store, file).metadata
    sizes = [
        sum(group.column(place).total_compressed_size for place in range(group.num_columns))
        for group in map(footer.row_group, range(footer.num_row_groups))
    ]
    assert len(sizes) > 5
    assert max(sizes) < 115_000
    assert len(file.split_offsets) == footer.num_row_groups
    assert file.split_offsets == sorted(file.split_offsets)
    assert file.split_offsets[0] == 4


def test_partitions_go_to_their_own_directories_with_unique_names(store):
    metadata = table(schema(**{"day!": "date", "s": "string"}), (1, "month"), (2, "identity"))
    write = writer(store, metadata, name_prefix="ingest-")
    days = pa.array([0, 31, 0, 0], pa.int32()).cast(pa.date32())
    write.write(pa.record_batch({"day!": days, "s": ["a/b", "x", None, "a/b"]}))
    files = write.flush()
    assert [(file.partition, file.record_count) for file in files] == [
        ((0, "a/b"), 2),
        ((1, "x"), 1),
        ((0, None), 1),
    ]
    stem = CountingIds().uuid()
    assert [file.file_path for file in files] == [
        f"{LOCATION}/data/p0=1970-01/p1=a%2Fb/ingest-{stem}-00000.parquet",
        f"{LOCATION}/data/p0=1970-02/p1=x/ingest-{stem}-00001.parquet",
        f"{LOCATION}/data/p0=1970-01/p1=null/ingest-{stem}-00002.parquet",
    ]
    assert rows_of(store, files[:1]) == [{"day!": datetime.date(1970, 1, 1), "s": "a/b"}] * 2


def test_write_data_path_replaces_the_data_directory(store):
    write = writer(store, table(schema(a="long"), write__data__path="memory://other/place/"))
    write.write(pa.record_batch({"a": [1]}))
    (file,) = write.flush()
    assert file.file_path.startswith("memory://other/place/")
    assert file.file_path.count("/") == 4


def test_an_older_spec_and_another_schema_may_be_asked_for(store):
    document = table(schema(a="long"), (1, "bucket[4]")).document
    older = {
        "spec-id": 1,
        "fields": [{"source-id": 1, "field-id": 1000, "name": "a", "transform": "identity"}],
    }
    metadata = TableMetadata({**document, "partition-specs": [*document["partition-specs"], older]})
    write = writer(store, metadata, spec_id=1, schema=schema(a="long", b="string"))
    write.write(pa.record_batch({"a": [7], "b": ["x"]}))
    (file,) = write.flush()
    assert (file.spec_id, file.partition) == (1, (7,))
    assert rows_of(store, [file]) == [{"a": 7, "b": "x"}]


def test_no_rows_no_files(store):
    write = writer(store, table(schema(a="long")))
    write.write(pa.record_batch({"a": pa.array([], pa.int64())}))
    assert write.flush() == []
    assert write.paths == []
    assert list(store.list("memory://test")) == []


def test_the_writer_goes_on_after_a_flush(store):
    write = writer(store, table(schema(a="long")))
    found = []
    for number in range(3):
        write.write(pa.record_batch({"a": [number]}))
        found.append(rows_of(store, write.flush()))
    assert found == [[{"a": 0}], [{"a": 1}], [{"a": 2}]]
    assert len(set(write.paths)) == 3


def test_a_batch_with_a_missing_required_value_is_refused_whole_and_named(store):
    write = writer(store, table(schema(**{"id!": "long", "s": "string"})))
    write.write(pa.record_batch({"id!": [1], "s": ["a"]}))
    with pytest.raises(Invalid, match="column 'id!' is required, but null in 1 of 2 rows"):
        write.write(pa.record_batch({"id!": [2, None], "s": ["b", "c"]}))
    with pytest.raises(Invalid, match="column 'id!' is required"):
        write.write(pa.record_batch({"s": ["d"]}))
    write.write(pa.record_batch({"id!": [3], "s": ["e"]}))
    assert [row["id!"] for row in rows_of(store, write.flush())] == [1, 3]


@pytest.mark.parametrize("method", ["open_output", "close_output"])
def test_a_failing_store_gives_no_files_and_leaves_none_half_written(store, method):
    failing = Failing(store, [Rule(methods=frozenset({method}), nth=2)])
    write = writer(failing, table(schema(a="long"), (1, "identity")))
    write.write(pa.record_batch({"a": [1, 2, 3]}))
    with pytest.raises(Unavailable):
        write.flush()
    with pytest.raises(Internal, match="abort this writer"):
        write.flush()
    with pytest.raises(Internal, match="abort this writer"):
        write.write(pa.record_batch({"a": [4]}))
    begun = write.abort()
    there = {info.path for info in store.list("memory://test")}
    assert there == {begun[0]}, "only the file that was finished before"
    assert len(begun) == 2


def test_a_failure_between_row_groups_leaves_nothing(store, monkeypatch):
    write = writer(store, table(schema(s="string")))

    def broken(*_):
        raise Unavailable("gone")

    write.write(pa.record_batch({"s": noise(5000)}))
    monkeypatch.setattr(parquet.DataFileWriter, "write_group", broken)
    with pytest.raises(Unavailable, match="gone"):
        write.write(pa.record_batch({"s": noise(60_000, 2)}))
    assert len(write.abort()) == 1
    assert list(store.list("memory://test")) == []


def test_abort_discards_open_files_and_tells_what_was_begun(store):
    properties = {"write__parquet__row_group_size_bytes": "50000"}
    write = writer(store, table(schema(n="long", s="string"), **properties))
    write.write(pa.record_batch({"n": range(60_000), "s": noise(60_000)}))
    begun = write.abort()
    assert len(begun) > 1
    there = {info.path for info in store.list("memory://test")}
    assert there == set(begun[:-1]), "finished files stay for the caller to decide"
    assert write.abort() == begun
    with pytest.raises(Internal):
        write.write(pa.record_batch({"n": [1], "s": ["x"]}))


def test_memory_is_bounded_over_many_partitions(store, monkeypatch):
    monkeypatch.setattr(parquet, "TOTAL_MEMORY", 200_000)
    monkeypatch.setattr(parquet, "OPEN_FILES", 3)
    write = writer(store, table(schema(p="long", s="string"), (1, "identity")))
    for seed in range(20):
        write.write(pa.record_batch({"p": [row % 10 for row in range(1000)], "s": noise(1000, seed)}))
        held = [roller.buffered for roller in write._writers.values()]
        assert sum(held) <= 200_000
        assert sum(roller.open for roller in write._writers.values()) <= 4
    files = write.flush()
    assert sum(file.record_count for file in files) == 20_000
    assert {file.partition for file in files} == {(place,) for place in range(10)}
    for file in files:
        assert {row["p"] for row in rows_of(store, [file])} == {file.partition[0]}


def test_many_single_rows_are_gathered(store):
    write = writer(store, table(schema(n="long", s="string")))
    for number in range(1000):
        write.write(pa.record_batch({"n": [number], "s": [str(number)]}))
    (roller,) = write._writers.values()
    assert len(roller._batches) < 100
    (file,) = write.flush()
    assert read(store, file).metadata.num_row_groups == 1
    assert [row["n"] for row in rows_of(store, [file])] == list(range(1000))


def test_a_writer_that_is_dropped_publishes_nothing(store):
    properties = {"write__parquet__row_group_size_bytes": "50000"}
    write = writer(store, table(schema(n="long", s="string"), **properties))
    write.write(pa.record_batch({"n": range(5000), "s": noise(5000)}))
    (begun,) = write.paths
    del write
    gc.collect()
    assert not store.exists(begun)


@pytest.mark.parametrize(("length", "rows"), [(10, None), (2048, None), (1 << 20, 3), (5 << 20, 1)])
def test_pages_of_long_values_are_closed_after_few_rows(length, rows):
    """The writer looks at a page's size after so many rows; readers must hold a page whole."""
    schema = {"type": "struct", "fields": [{"id": 1, "name": "t", "required": False, "type": "string"}]}
    options = FileOptions.of(schema, {})
    suited = options.suited_to(pa.table({"t": pa.array(["x" * length] * 3, pa.large_string())}))
    assert suited.parquet.get("write_batch_size") == rows
    assert options.suited_to(options.arrow.empty_table()).parquet.get("write_batch_size") is None
