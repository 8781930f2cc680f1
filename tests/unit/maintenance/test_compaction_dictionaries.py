"""Columns that inputs store as dictionaries go through a rewrite as such: same rows, right bounds, small memory."""

import io
from collections import Counter

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maintenance.compaction.job import run
from maintenance.ports import JobKind
from maintenance.report import Outcome
from table_format.errors import Invalid
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import DataFile
from table_format.scan.files import open_file
from table_format.schema.arrow import kinds, to_arrow
from table_format.schema.conform import conform
from table_format.schema.dictionaries import row_bytes, with_dictionaries
from table_format.write.files import FileOptions
from table_format.write.parquet import RollingWriter
from tests.factories.lake import IDENT, Lake
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "n", "required": False, "type": "long"},
        {"id": 2, "name": "word", "required": False, "type": "string"},
        {"id": 3, "name": "must", "required": True, "type": "string"},
        {"id": 4, "name": "raw", "required": False, "type": "binary"},
    ],
}
NUMBER = 600


def lake_of(version=2, **properties):
    clock = ManualClock()
    properties |= {"format-version": str(version)}
    return Lake(MemoryObjectStore(clock), clock=clock, schema=SCHEMA, **properties)


def rows(seed, number=NUMBER, *, words=3):
    return [
        {
            "n": seed * 10_000 + at,
            "word": None if at % 11 == 0 else f"w{seed}-{at % words}",
            "must": f"m{seed % 2}",
            "raw": bytes([seed, at % 2]),
        }
        for at in range(number)
    ]


def stored(lake, content, **options):
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(content, schema=to_arrow(lake.metadata.schema())), buffer, **options)
    return buffer.getvalue()


def add(lake, content, **options):
    return append(lake, stored(lake, content, **options), len(content))


def append(lake, data, number):
    path = lake.path("d")
    lake.store.put(path, data)
    file = DataFile(file_path=path, record_count=number, file_size_in_bytes=len(data))
    lake.append(file)
    return file


def compact(lake, **settings):
    tiers = [{"belowBytes": 1 << 20, "targetBytes": 4 << 20}]
    settings |= {"tiers": tiers, "minInputFiles": 2, "copyRowGroups": False}
    ctx = FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        documents={JobKind.COMPACTION: {"status": "enabled", "settings": settings}},
        ident=IDENT,
    )
    report = run(ctx, job(JobKind.COMPACTION, IDENT, lake.metadata.uuid))
    assert report.outcome is Outcome.DONE
    (output,) = [task.entry.data_file for task in lake.tasks()]
    return output, pq.ParquetFile(io.BytesIO(lake.store.get(output.file_path)))


def dictionaries_in(lake, file):
    with open_file(lake.store, file, None, dictionaries=True) as source:
        return {field.name for field in source.fields if kinds.is_dictionary(field.type)}


def test_only_columns_that_a_file_clearly_stores_as_dictionaries_are_read_so():
    lake = lake_of()
    alike, plain = add(lake, rows(1)), add(lake, rows(1), use_dictionary=False)
    varied = add(lake, rows(2, words=600))
    assert dictionaries_in(lake, alike) == {"word", "must", "raw"}
    assert dictionaries_in(lake, plain) == set()
    assert dictionaries_in(lake, varied) == {"must", "raw"}
    with open_file(lake.store, alike, None) as source:
        assert not any(kinds.is_dictionary(field.type) for field in source.fields), "only if asked for"


@pytest.mark.parametrize("plain", [(), (0,), (1,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("version", [2, 3])
def test_rows_and_metrics_do_not_depend_on_how_inputs_store_them(version, plain):
    """Every file has its own dictionaries, some have none, the last one has too many values for one to pay."""
    lake, other = lake_of(version), lake_of(version)
    for seed in range(4):
        content = rows(seed, words=600 if seed == 3 else 3)
        add(lake, content, use_dictionary=seed not in plain)
        add(other, content, use_dictionary=False)
    before = lake.rows()
    (output, file), (plainly, _) = compact(lake), compact(other)
    assert lake.rows() == before
    assert len(before) == 4 * NUMBER
    for name in ("record_count", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
        assert getattr(output, name) == getattr(plainly, name), name
    assert output.upper_bounds[2] == b"w3-98"
    assert output.lower_bounds[4] == bytes([0, 0])
    names = ["n", "word", "must", "raw"]
    read = file.read(columns=names)
    assert [field.type for field in read.schema] == [pa.int64(), pa.string(), pa.string(), pa.binary()]
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in file.schema_arrow]
    assert ids[:4] == [1, 2, 3, 4]
    nulls = [file.schema_arrow.field(name).nullable for name in names]
    assert nulls == [True, True, False, True]


def test_many_small_files_are_joined():
    lake = lake_of()
    for seed in range(70):
        add(lake, rows(seed, 40, words=1), row_group_size=20)
    before = lake.rows()
    _, file = compact(lake, minInputFiles=5)
    assert lake.rows() == before
    assert file.metadata.num_row_groups == 1


def test_values_of_deleted_rows_are_in_no_bound():
    lake = lake_of()
    first = add(lake, rows(1))
    add(lake, rows(2))
    lowest = [at for at in range(NUMBER) if at % 3 == 0]
    lake.row_delta([], [lake.position_file([(first.file_path, at) for at in lowest])])
    before = lake.rows()
    output, _ = compact(lake)
    assert lake.rows() == before
    assert output.lower_bounds[2] == b"w1-1"


@pytest.mark.parametrize(
    ("places", "least", "most"), [([0, 1, None], b"a", b"b"), ([None, None], None, None)]
)
def test_a_value_that_no_row_has_is_in_no_bound(places, least, most):
    """A row group may end within one of an input, whose last values are not in its rows."""
    lake = lake_of()
    words = pa.DictionaryArray.from_arrays(
        pa.array(places, pa.int32()), pa.array(["a", "b", "z"] if least else ["z"])
    )
    options = FileOptions.of(lake.metadata.schema(), {})
    must = pa.array(["m"] * len(places))
    batch = pa.record_batch({"word": words, "must": must})
    target = with_dictionaries(options.arrow, batch.schema)
    writer = RollingWriter(
        store=lake.store,
        options=options,
        partition=(),
        spec_id=0,
        target_bytes=1 << 20,
        next_path=lambda: lake.path("w"),
    )
    writer.write(conform(batch, target))
    (file,) = writer.close()
    assert ((file.lower_bounds or {}).get(2), (file.upper_bounds or {}).get(2)) == (least, most)
    read = pq.read_table(io.BytesIO(lake.store.get(file.file_path))).column("word").to_pylist()
    assert read == words.to_pylist()


def test_small_row_groups_stay_as_large_as_they_are_asked_for():
    """A slice of a batch refers to the batch's whole dictionary, which is not what its rows take."""
    properties = {"write.parquet.row-group-size-bytes": "4000"}
    lake = lake_of(**properties)
    long = [{**row, "word": "x" * 1500 + str(row["n"] % 3)} for row in rows(1, 4000)]
    add(lake, long)
    add(lake, long)
    _, file = compact(lake)
    assert lake.rows()[:1]
    assert file.metadata.num_row_groups < 100
    assert file.metadata.num_rows == 8000


def test_the_size_of_rows_counts_no_more_of_a_dictionary_than_they_can_refer_to():
    words = pa.array([f"{n:0100d}" for n in range(1000)])
    column = pa.DictionaryArray.from_arrays(pa.array([n % 1000 for n in range(5000)], pa.int32()), words)
    batch = pa.record_batch({"w": column})
    assert row_bytes(batch) == 5000 * 4 + words.nbytes
    assert row_bytes(batch.slice(10, 10)) == 10 * 4 + words.nbytes // 100
    assert row_bytes(pa.record_batch({"w": column.dictionary_decode()})) > 5000 * 100


@pytest.mark.parametrize("page", ["1.0", "2.0"])
def test_dictionaries_that_were_given_up_amid_a_column_are_read_to_their_end(page):
    """Of columns that are mostly null: whether the dictionary was given up cannot be told from their size."""
    lake = lake_of()
    for seed in range(3):
        content = rows(seed, 4000)
        for row in content:
            row["word"] = f"only-{row['n']}" if row["n"] % 20 == 0 else None
        options = {"dictionary_pagesize_limit": 64, "data_page_size": 256, "data_page_version": page}
        file = add(lake, content, **options, row_group_size=1500)
        assert "word" in dictionaries_in(lake, file)
    before = lake.rows()
    _, file = compact(lake)
    assert lake.rows() == before
    assert len({row["word"] for row in before}) == 3 * 200 + 1
    assert file.metadata.num_rows == 12_000


def doubled(lake, content, writer):
    """A file whose dictionary has "aa" twice, in the place of "ab" too, as that writer may make it."""
    plainly = {"compression": "none", "write_statistics": False}
    data = stored(lake, content, **plainly)
    assert data.count(b"\x02\x00\x00\x00ab") == 1
    data = data.replace(b"\x02\x00\x00\x00ab", b"\x02\x00\x00\x00aa")
    return data.replace(b"parquet-cpp-arrow", writer)


def lettered(number=NUMBER):
    return [{**row, "word": f"a{'abcd'[at % 4]}"} for at, row in enumerate(rows(1, number))]


def test_a_dictionary_that_holds_a_value_twice_makes_no_row_another():
    """Arrow numbers the values of such a dictionary anew, and leaves the rows' numbers as they were."""
    lake = lake_of()
    for _ in range(2):
        file = append(lake, doubled(lake, lettered(), b"another-writer 17"), NUMBER)
        assert dictionaries_in(lake, file) == set()
    before = lake.rows()
    compact(lake)
    assert lake.rows() == before
    words = Counter(row["word"] for row in before)
    assert words == {"aa": NUMBER, "ac": NUMBER // 2, "ad": NUMBER // 2}


def test_a_row_without_a_value_in_its_dictionary_stops_the_rewrite():
    """A damaged file, or a writer under a name that is known for better."""
    lake = lake_of()
    for _ in range(2):
        append(lake, doubled(lake, lettered(), b"parquet-cpp-arrow"), NUMBER)
    before = lake.rows()
    with pytest.raises(Invalid, match=r"column .word. of .* is damaged"):
        compact(lake)
    assert lake.rows() == before


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_dictionaries_of_another_writer_are_kept(tmp_path, version):
    """DuckDB's, beside files of Arrow's in one group."""
    lake = lake_of()
    ids = "FIELD_IDS {n: 1, word: 2, must: 3, raw: 4}"
    for seed in range(2):
        add(lake, rows(seed))
        plain = pa.Table.from_pylist(rows(seed + 2, 5000), schema=to_arrow(lake.metadata.schema()))
        target = tmp_path / f"{seed}.parquet"
        connection = duckdb.connect()
        connection.register("plain", plain)
        connection.execute(
            f"COPY plain TO '{target}' (FORMAT parquet, {ids}, PARQUET_VERSION {version}, ROW_GROUP_SIZE 2048)"
        )
        path = lake.path("duckdb")
        lake.store.put(path, target.read_bytes())
        file = DataFile(file_path=path, record_count=5000, file_size_in_bytes=target.stat().st_size)
        lake.append(file)
        assert dictionaries_in(lake, file) == {"word", "must", "raw"}
    before = lake.rows()
    output, _ = compact(lake)
    assert lake.rows() == before
    assert output.record_count == 2 * (NUMBER + 5000)
    assert (output.lower_bounds[2], output.upper_bounds[2]) == (b"w0-0", b"w3-2")
