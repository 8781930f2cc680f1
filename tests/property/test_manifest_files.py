"""Manifests and lists written by us: read back equal by us, by PyIceberg and by fastavro; and written by PyIceberg."""

import io
from collections.abc import Callable
from ctypes import c_float
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile as TheirFile
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntryStatus
from pyiceberg.manifest import ManifestEntry as TheirEntry
from pyiceberg.manifest import ManifestFile as TheirManifest
from pyiceberg.manifest import read_manifest_list as their_read_manifest_list
from pyiceberg.manifest import write_manifest as their_write_manifest
from pyiceberg.manifest import write_manifest_list as their_write_manifest_list
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from table_format.clock import SystemClock
from table_format.io.local import LocalObjectStore
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import (
    Content,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Partition,
    Status,
)
from table_format.manifest.lists import ListMemo, read_manifest_list, write_manifest_list
from table_format.manifest.read import read_manifest
from table_format.manifest.write import write_manifest
from table_format.metadata.document import TableMetadata
from tests.factories.lines import read_both_ways
from tests.factories.manifests import (
    PARTITION_TYPES,
    SNAPSHOT,
    added,
    every_type,
    full_file,
    kept,
    new_file,
    new_metadata,
    removed,
)

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 2**63 - 1)
IDS = st.integers(0, 2**31 - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
    )


OF_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "date": INTS,
    "time": LONGS,
    "timestamp": LONGS,
    "timestamptz": LONGS,
    "string": st.text(max_size=8),
    "uuid": st.uuids(),
    "fixed[3]": st.binary(min_size=3, max_size=3),
    "binary": st.binary(max_size=8),
    "decimal(9, 2)": decimals(9, 2),
    "decimal(38, 10)": decimals(38, 10),
}
PARTITIONS: st.SearchStrategy[Partition] = st.tuples(
    *(st.none() | OF_TYPE[name] for name in PARTITION_TYPES.values())
)


def maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.dictionaries(IDS, values, max_size=3)


def files(content: Content) -> st.SearchStrategy[DataFile]:
    equality, data = content is Content.EQUALITY_DELETES, content is Content.DATA
    return st.builds(
        DataFile,
        content=st.just(content),
        file_path=st.text(min_size=1, max_size=20),
        file_format=st.sampled_from(("PARQUET", "AVRO", "ORC")),
        partition=PARTITIONS,
        record_count=st.integers(0, 2**60),
        file_size_in_bytes=COUNTS,
        column_sizes=maps(COUNTS),
        value_counts=maps(COUNTS),
        null_value_counts=maps(COUNTS),
        nan_value_counts=maps(COUNTS),
        lower_bounds=maps(st.binary(max_size=6)),
        upper_bounds=maps(st.binary(max_size=200)),
        key_metadata=st.none() | st.binary(max_size=6),
        split_offsets=st.none() | st.lists(COUNTS, max_size=3),
        equality_ids=st.lists(IDS, min_size=1, max_size=3) if equality else st.none(),
        sort_order_id=st.none() | IDS,
        referenced_data_file=st.none() if equality or data else st.none() | st.text(max_size=9),
    )


DATA_FILES = files(Content.DATA)
DELETE_FILES = files(Content.POSITION_DELETES) | files(Content.EQUALITY_DELETES)


def entries_of(file: st.SearchStrategy[DataFile]) -> st.SearchStrategy[list[ManifestEntry]]:
    some = (
        st.builds(added, file, st.none() | st.integers(0, 8), st.sampled_from((None, SNAPSHOT)))
        | st.builds(kept, file, snapshot_id=COUNTS, sequence_number=COUNTS, file_sequence_number=COUNTS)
        | st.builds(removed, file)
    )
    return st.lists(some, min_size=1, max_size=3, unique_by=lambda entry: entry.data_file.file_path)


DATA_ENTRIES, DELETE_ENTRIES = entries_of(DATA_FILES), entries_of(DELETE_FILES)


def assigned(manifest: ManifestFile, sequence_number: int) -> ManifestFile:
    lowest = manifest.min_sequence_number
    return replace(
        manifest,
        sequence_number=sequence_number,
        min_sequence_number=sequence_number if lowest == -1 else lowest,
    )


def inherited(entry: ManifestEntry, sequence_number: int) -> ManifestEntry:
    """What a reader must see of an entry that was written."""
    if entry.status is not Status.ADDED:
        return entry
    return replace(
        entry,
        snapshot_id=SNAPSHOT,
        sequence_number=sequence_number if entry.sequence_number is None else entry.sequence_number,
        file_sequence_number=sequence_number,
    )


def memory() -> MemoryObjectStore:
    return MemoryObjectStore(SystemClock())


@pytest.mark.parametrize("deletes", [False, True])
def test_manifests_round_trip(deletes: bool) -> None:
    content = ManifestContent.DELETES if deletes else ManifestContent.DATA

    @settings(max_examples=25, deadline=None)
    @given(DELETE_ENTRIES if deletes else DATA_ENTRIES)
    def check(written: list[ManifestEntry]) -> None:
        store, metadata = memory(), every_type()
        manifest = write_manifest(
            store,
            "memory://t/m.avro",
            written,
            metadata=metadata,
            spec_id=0,
            content=content,
            snapshot_id=SNAPSHOT,
        )
        assert (manifest.sequence_number, manifest.added_snapshot_id) == (-1, SNAPSHOT)
        back = read_both_ways(store, assigned(manifest, 9), metadata)
        assert back == [inherited(entry, 9) for entry in written]

    check()


@settings(max_examples=20, deadline=None)
@given(st.lists(DATA_FILES, min_size=1, max_size=3, unique_by=lambda f: f.file_path))
def test_v1_manifests_round_trip(written: list[DataFile]) -> None:
    store, metadata = memory(), every_type(version=1)
    manifest = write_manifest(
        store,
        "memory://t/m.avro",
        [added(file) for file in written],
        metadata=metadata,
        spec_id=0,
        content=ManifestContent.DATA,
        snapshot_id=SNAPSHOT,
    )
    assert (manifest.sequence_number, manifest.min_sequence_number) == (0, 0)
    for entry, file in zip(read_both_ways(store, manifest, metadata), written, strict=True):
        assert entry.data_file == file
        assert (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number) == (SNAPSHOT, 0, 0)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.builds(
            ManifestFile,
            path=st.text(min_size=1, max_size=20),
            length=COUNTS,
            spec_id=IDS,
            content=st.sampled_from(list(ManifestContent)),
            sequence_number=COUNTS,
            min_sequence_number=COUNTS,
            added_snapshot_id=LONGS,
            added_files_count=IDS,
            existing_files_count=IDS,
            deleted_files_count=IDS,
            added_rows_count=COUNTS,
            existing_rows_count=COUNTS,
            deleted_rows_count=COUNTS,
            key_metadata=st.none() | st.binary(max_size=4),
        ),
        max_size=4,
        unique_by=lambda manifest: manifest.path,
    ),
    st.none() | COUNTS,
)
def test_lists_round_trip(manifests: list[ManifestFile], parent: int | None) -> None:
    store = memory()
    write_manifest_list(
        store,
        "memory://t/l.avro",
        manifests,
        format_version=2,
        snapshot_id=SNAPSHOT,
        parent_snapshot_id=parent,
        sequence_number=4,
    )
    memo = ListMemo()
    for known in (None, memo, memo):
        assert read_manifest_list(store, "memory://t/l.avro", known) == manifests
    reader = fastavro.reader(io.BytesIO(store.get("memory://t/l.avro")))
    assert reader.metadata is not None
    assert reader.metadata["parent-snapshot-id"] == ("null" if parent is None else str(parent))
    assert reader.metadata["snapshot-id"] == str(SNAPSHOT)
    assert reader.metadata["sequence-number"] == "4"
    assert reader.metadata["format-version"] == "2"
    assert len(list(reader)) == len(manifests)


EXAMPLE: Partition = (
    True, -5, 2**40, 1.5, -2.25, 19_000, 5_000_000, 10**15, -(10**15), "ä/b",
    UUID(int=2**127 + 5), b"abc", b"\x00\xff", Decimal("-12345.67"), Decimal("1234567890.0123456789"),
)  # fmt: skip


def test_fastavro_reads_what_we_write() -> None:
    store, metadata = memory(), every_type()
    file = full_file(partition=EXAMPLE)
    manifest = write_manifest(
        store,
        "memory://t/m.avro",
        [added(file)],
        metadata=metadata,
        spec_id=0,
        content=ManifestContent.DATA,
        snapshot_id=SNAPSHOT,
    )
    [row] = fastavro.reader(io.BytesIO(store.get(manifest.path)))
    assert row["data_file"]["partition"]["price"] == Decimal("-12345.67")
    assert row["data_file"]["partition"]["total"] == Decimal("1234567890.0123456789")
    assert row["data_file"]["partition"]["uid"] == UUID(int=2**127 + 5).bytes
    assert row["data_file"]["partition"]["day"] == date(2022, 1, 8)
    assert row["data_file"]["partition"]["local"] == datetime.fromisoformat("2001-09-09T01:46:40Z")
    assert row["data_file"]["column_sizes"] == [{"key": 1, "value": 10}, {"key": 2, "value": 2**35}]
    assert row["data_file"]["upper_bounds"] == [
        {"key": 1, "value": b"\xff" * 16},
        {"key": 300, "value": b"z"},
    ]


# PyIceberg


def their_schema(metadata: TableMetadata) -> Schema:
    return Schema.model_validate(metadata.schema())


def their_spec(metadata: TableMetadata) -> PartitionSpec:
    return PartitionSpec.model_validate(metadata.spec())


def partition_of(record: Record) -> Partition:
    return tuple(record[index] for index in range(len(PARTITION_TYPES)))


def as_they_read_it(kind: str, value: Any) -> Any:
    """PyIceberg's Avro decoder rounds a double to a float."""
    if kind == "double" and value is not None:
        return c_float(value).value
    return value


@settings(max_examples=25, deadline=None)
@given(DATA_ENTRIES)
def test_pyiceberg_reads_what_we_write(tmp_path_factory_dir: Path, written: list[ManifestEntry]) -> None:
    check_read_by_pyiceberg(tmp_path_factory_dir, written)


@pytest.fixture(scope="module")
def tmp_path_factory_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("manifests")


def check_read_by_pyiceberg(directory: Path, written: list[ManifestEntry]) -> None:
    store, metadata = LocalObjectStore(), every_type()
    paths = [f"file://{directory}/m.avro", f"file://{directory}/l.avro"]
    store.delete_many(paths)
    manifest = write_manifest(
        store,
        paths[0],
        written,
        metadata=metadata,
        spec_id=0,
        content=ManifestContent.DATA,
        snapshot_id=SNAPSHOT,
    )
    write_manifest_list(
        store,
        paths[1],
        [manifest],
        format_version=2,
        snapshot_id=SNAPSHOT,
        parent_snapshot_id=3,
        sequence_number=9,
    )
    files_io = PyArrowFileIO()
    [theirs] = their_read_manifest_list(files_io.new_input(paths[1]))
    [ours] = read_manifest_list(store, paths[1])
    assert [
        theirs.manifest_path,
        theirs.manifest_length,
        theirs.partition_spec_id,
        theirs.content,
        theirs.sequence_number,
        theirs.min_sequence_number,
        theirs.added_snapshot_id,
        theirs.added_files_count,
        theirs.existing_files_count,
        theirs.deleted_files_count,
        theirs.added_rows_count,
        theirs.existing_rows_count,
        theirs.deleted_rows_count,
    ] == [
        ours.path,
        ours.length,
        ours.spec_id,
        ours.content,
        ours.sequence_number,
        ours.min_sequence_number,
        ours.added_snapshot_id,
        ours.added_files_count,
        ours.existing_files_count,
        ours.deleted_files_count,
        ours.added_rows_count,
        ours.existing_rows_count,
        ours.deleted_rows_count,
    ]
    assert theirs.partitions is not None
    assert ours.partitions is not None
    for their_summary, summary in zip(theirs.partitions, ours.partitions, strict=True):
        assert their_summary.contains_null == summary.contains_null
        assert their_summary.contains_nan == summary.contains_nan
        assert their_summary.lower_bound == summary.lower_bound
        assert their_summary.upper_bound == summary.upper_bound
    read = theirs.fetch_manifest_entry(files_io, discard_deleted=False)
    for their_entry, entry in zip(read, written, strict=True):
        compare(their_entry, inherited(entry, 9))


def compare(theirs: TheirEntry, ours: ManifestEntry) -> None:
    assert theirs.status == ours.status
    assert theirs.snapshot_id == ours.snapshot_id
    assert theirs.sequence_number == ours.sequence_number
    assert theirs.file_sequence_number == ours.file_sequence_number
    file = theirs.data_file
    assert file.file_format == ours.data_file.file_format
    assert partition_of(file.partition) == tuple(
        as_they_read_it(kind, value)
        for kind, value in zip(PARTITION_TYPES.values(), ours.data_file.partition, strict=True)
    )
    for name in (
        "content",
        "file_path",
        "record_count",
        "file_size_in_bytes",
        "column_sizes",
        "value_counts",
        "null_value_counts",
        "nan_value_counts",
        "lower_bounds",
        "upper_bounds",
        "key_metadata",
        "split_offsets",
        "equality_ids",
        "sort_order_id",
    ):
        assert getattr(file, name) == getattr(ours.data_file, name), name


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "bzip2"])
def test_we_read_what_pyiceberg_writes(tmp_path: Path, version: Any, codec: Any) -> None:
    metadata = every_type(version=version)
    partitions = [EXAMPLE, (None,) * len(EXAMPLE)]
    files_io = PyArrowFileIO()
    path = f"file://{tmp_path}/m.avro"
    made = []
    with their_write_manifest(
        version, their_spec(metadata), their_schema(metadata), files_io.new_output(path), SNAPSHOT, codec
    ) as writer:
        for number, partition in enumerate(partitions):
            ours = full_file(f"file:///f{number}", partition=partition)
            made.append(ours)
            stored = [v.bytes if isinstance(v, UUID) else v for v in partition]
            writer.add(
                TheirEntry.from_args(data_file=theirs_of(ours, stored), status=ManifestEntryStatus.ADDED)
            )
    listed = f"file://{tmp_path}/l.avro"
    with their_write_manifest_list(version, files_io.new_output(listed), SNAPSHOT, 3, 9, codec) as lists:
        lists.add_manifests([writer.to_manifest_file()])
    store = LocalObjectStore()
    [manifest] = read_manifest_list(store, listed)
    sequence = 0 if version == 1 else 9
    assert (manifest.sequence_number, manifest.min_sequence_number) == (sequence, sequence)
    assert manifest.added_snapshot_id == SNAPSHOT
    assert manifest.added_files_count == 2
    assert manifest.partitions is not None
    assert all(summary.contains_null for summary in manifest.partitions)
    read = read_manifest(store, manifest, metadata)
    assert [entry.data_file for entry in read] == made
    assert {(e.status, e.snapshot_id, e.sequence_number, e.file_sequence_number) for e in read} == {
        (Status.ADDED, SNAPSHOT, sequence, sequence)
    }


def theirs_of(file: DataFile, partition: list[Any]) -> TheirFile:
    return TheirFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.file_path,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        column_sizes=file.column_sizes,
        value_counts=file.value_counts,
        null_value_counts=file.null_value_counts,
        nan_value_counts=file.nan_value_counts,
        lower_bounds=file.lower_bounds,
        upper_bounds=file.upper_bounds,
        key_metadata=file.key_metadata,
        split_offsets=file.split_offsets,
        equality_ids=None,
        sort_order_id=file.sort_order_id,
    )


SPECS: dict[str, list[tuple[str, str]]] = {
    "none": [],
    "transforms": [
        ("when", "year"),
        ("when", "month"),
        ("when", "day"),
        ("when", "hour"),
        ("name", "bucket[16]"),
    ],
    "void and truncate": [("name", "void"), ("name", "truncate[3]"), ("price", "truncate[10]")],
}
SPEC_VALUES: dict[str, Partition] = {
    "none": (),
    "transforms": (43, 516, 15_706, 376_944, 7),
    "void and truncate": (None, "abc", Decimal("12.30")),
}


@pytest.mark.parametrize("name", list(SPECS))
@pytest.mark.parametrize("read_by", ["us", "pyiceberg"])
def test_transforms_have_the_types_of_their_results(tmp_path: Path, name: str, read_by: str) -> None:
    metadata = new_metadata({"when": "timestamptz", "name": "string", "price": "decimal(9, 2)"}, SPECS[name])
    store, path = LocalObjectStore(), f"file://{tmp_path}/m.avro"
    manifest = write_manifest(
        store,
        path,
        [added(new_file(partition=SPEC_VALUES[name]))],
        metadata=metadata,
        spec_id=0,
        content=ManifestContent.DATA,
        snapshot_id=SNAPSHOT,
    )
    readers: dict[str, Callable[[], Partition]] = {
        "us": lambda: read_manifest(store, manifest, metadata)[0].data_file.partition,
        "pyiceberg": lambda: their_partition(path, manifest, len(SPECS[name])),
    }
    assert readers[read_by]() == SPEC_VALUES[name]
    assert manifest.partitions is not None
    assert len(manifest.partitions) == len(SPECS[name])


def their_partition(path: str, manifest: ManifestFile, width: int) -> Partition:
    theirs = TheirManifest.from_args(
        manifest_path=path,
        manifest_length=manifest.length,
        partition_spec_id=0,
        added_snapshot_id=SNAPSHOT,
        sequence_number=1,
        content=0,
    )
    [entry] = theirs.fetch_manifest_entry(PyArrowFileIO())
    return tuple(entry.data_file.partition[index] for index in range(width))
