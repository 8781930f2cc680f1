"""What other writers leave out, rename or write in their own way, and what a reader inherits."""

import io
import zlib
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from table_format.clock import SystemClock
from table_format.errors import Invalid, NoSuchFile
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.encode import write_bytes, write_long
from table_format.manifest.entries import (
    Content,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from table_format.manifest.lists import ListMemo, read_manifest_list
from table_format.manifest.read import count_entries, describe_manifest, read_manifest
from table_format.manifest.write import write_manifest
from table_format.metadata.document import TableMetadata
from tests.factories.lines import read_both_ways
from tests.factories.manifests import SNAPSHOT, added, full_file, new_metadata

PATH = "memory://t/m.avro"
METADATA = new_metadata()


def field(name: str, kind: Any, field_id: int | None = None) -> dict[str, Any]:
    return (
        {"name": name, "type": kind}
        if field_id is None
        else {"name": name, "type": kind, "field-id": field_id}
    )


def pairs(value: str = "long", name: str = "kv") -> Any:
    items = {"type": "record", "name": name, "fields": [field("key", "int"), field("value", value)]}
    return ["null", {"type": "array", "items": items}]


FILE = [
    field("content", "int", 134),
    field("file_path", "string", 100),
    field("file_format", "string", 101),
    field("partition", {"type": "record", "name": "part", "fields": []}, 102),
    field("record_count", "long", 103),
    field("file_size_in_bytes", "long", 104),
]
NUMBERS = [
    field("status", "int", 0),
    field("snapshot_id", ["null", "long"], 1),
    field("sequence_number", ["null", "long"], 3),
    field("file_sequence_number", ["null", "long"], 4),
]


def schema(
    file: list[dict[str, Any]] = FILE, numbers: list[dict[str, Any]] = NUMBERS, name: str = "manifest_entry"
) -> dict[str, Any]:
    data_file = {"type": "record", "name": "data_file", "fields": file}
    return {"type": "record", "name": name, "fields": [*numbers, field("data_file", data_file, 2)]}


def row(status: int = 1, **values: Any) -> dict[str, Any]:
    numbers = {name: values.pop(name) for name in list(values) if "sequence" in name or name == "snapshot_id"}
    file = {
        "content": 0,
        "file_path": "memory://t/f",
        "file_format": "PARQUET",
        "partition": {},
        "record_count": 5,
        "file_size_in_bytes": 50,
        **values,
    }
    return {"status": status, **numbers, "data_file": file}


def read(
    avro_schema: dict[str, Any],
    rows: list[dict[str, Any]],
    *,
    metadata: TableMetadata = METADATA,
    codec: str = "null",
    **manifest: Any,
) -> list[ManifestEntry]:
    out = io.BytesIO()
    fastavro.writer(out, avro_schema, rows, codec=codec)
    store = MemoryObjectStore(SystemClock())
    store.put(PATH, out.getvalue())
    defaults = {"sequence_number": 7, "min_sequence_number": 2, "added_snapshot_id": 70}
    listed = ManifestFile(path=PATH, length=len(out.getvalue()), spec_id=0, **{**defaults, **manifest})
    return read_both_ways(store, listed, metadata)


def numbers_of(entry: ManifestEntry) -> tuple[int | None, int | None, int | None]:
    return entry.snapshot_id, entry.sequence_number, entry.file_sequence_number


def test_added_entries_inherit_what_is_null() -> None:
    [entry] = read(schema(), [row()])
    assert numbers_of(entry) == (70, 7, 7)
    assert entry.status is Status.ADDED


def test_added_entries_keep_what_is_written() -> None:
    [entry] = read(schema(), [row(snapshot_id=71, sequence_number=3)])
    assert numbers_of(entry) == (71, 3, 7)


def test_existing_entries_keep_their_own_numbers() -> None:
    [entry] = read(schema(), [row(0, snapshot_id=60, sequence_number=3, file_sequence_number=4)])
    assert numbers_of(entry) == (60, 3, 4)


def test_R44_existing_entries_never_inherit_a_sequence_number() -> None:
    with pytest.raises(Invalid, match="entry 2 is EXISTING without a sequence number"):
        read(schema(), [row(), row(0, snapshot_id=60)])


def test_deleted_entries_without_numbers_are_tolerated() -> None:
    [entry] = read(schema(), [row(2, snapshot_id=60)])
    assert entry.status is Status.DELETED
    assert numbers_of(entry) == (60, 7, 7)


def test_existing_entries_from_before_the_file_sequence_number() -> None:
    [entry] = read(schema(numbers=NUMBERS[:3]), [row(0, snapshot_id=60, sequence_number=3)])
    assert numbers_of(entry) == (60, 3, 3)


@pytest.mark.parametrize("status", [0, 1, 2])
def test_v1_manifests_in_a_v2_table_have_number_0(status: int) -> None:
    v1 = schema(file=FILE[1:], numbers=[NUMBERS[0], field("snapshot_id", "long", 1)])
    [entry] = read(v1, [row(status, snapshot_id=60)], sequence_number=0, min_sequence_number=0)
    assert numbers_of(entry) == (60, 0, 0)
    assert entry.data_file.content is Content.DATA


def test_R38_a_format_in_lower_case_is_read_in_capitals() -> None:
    [entry] = read(schema(), [row(file_format="parquet")])
    assert entry.data_file.file_format == "PARQUET"


def test_other_record_names_and_order_and_unknown_fields() -> None:
    file = [field("surprise", ["null", "string", "int"], 9999), *reversed(FILE)]
    [entry] = read(schema(file, list(reversed(NUMBERS)), name="whatever"), [row(surprise=4)])
    assert entry.data_file.record_count == 5
    assert entry.data_file.file_path == "memory://t/f"


def test_other_field_names_are_known_by_their_ids() -> None:
    file = [*FILE[:4], field("rows", "int", 103), field("bytes", "int", 104)]
    [entry] = read(schema(file), [row(rows=8, bytes=80)])
    assert (entry.data_file.record_count, entry.data_file.file_size_in_bytes) == (8, 80)


def test_missing_field_ids_are_known_by_their_names() -> None:
    bare = [{key: value for key, value in one.items() if key != "field-id"} for one in FILE]
    bare_numbers = [{key: value for key, value in one.items() if key != "field-id"} for one in NUMBERS]
    avro_schema = schema(bare, bare_numbers)
    del avro_schema["fields"][-1]["field-id"]
    [entry] = read(avro_schema, [row(snapshot_id=3)])
    assert (entry.snapshot_id, entry.data_file.file_path) == (3, "memory://t/f")


def test_metrics_maps_in_every_form() -> None:
    file = [
        *FILE,
        field("column_sizes", pairs(), 108),
        field("value_counts", pairs("int", "a"), 109),
        field("null_value_counts", pairs("long", "b")[1], 110),
        field("lower_bounds", [pairs("bytes", "c")[1], "null"], 125),
        field("nan_value_counts", "null", 137),
        field("upper_bounds", pairs("bytes", "d"), 128),
    ]
    kv = [{"key": 1, "value": 2}, {"key": 2**31 - 1, "value": 2**31 - 1}]
    [entry] = read(
        schema(file),
        [
            row(
                column_sizes=[{"key": 1, "value": -(2**63)}, {"key": 70, "value": 2**63 - 1}],
                value_counts=kv,
                null_value_counts=[],
                lower_bounds=[{"key": 3, "value": b"low"}],
                nan_value_counts=None,
                upper_bounds=None,
            )
        ],
    )
    assert entry.data_file.column_sizes == {1: -(2**63), 70: 2**63 - 1}
    assert entry.data_file.value_counts == {1: 2, 2**31 - 1: 2**31 - 1}
    assert entry.data_file.null_value_counts == {}
    assert entry.data_file.lower_bounds == {3: b"low"}
    assert entry.data_file.nan_value_counts is None
    assert entry.data_file.upper_bounds is None


def test_arrays_in_several_blocks_with_sizes() -> None:
    """Avro may write an array in pieces, each with a negative count and its size in bytes."""
    out = bytearray()
    entry = bytearray(b"\x02\x00\x00\x00\x00\x02x\x0ePARQUET\x02\x04")
    for number in (1, 2):
        write_long(entry, -1)
        write_long(entry, 2)
        write_long(entry, number)
        write_long(entry, 10 + number)
    entry.append(0)
    avro_schema = schema([*FILE, field("column_sizes", pairs()[1], 108)])
    fastavro.parse_schema(avro_schema)
    header = io.BytesIO()
    fastavro.writer(header, avro_schema, [])
    out += header.getvalue()
    sync = out[-16:]
    write_long(out, 1)
    write_bytes(out, bytes(entry))
    out += sync
    store = MemoryObjectStore(SystemClock())
    store.put(PATH, bytes(out))
    [got] = read_manifest(store, ManifestFile(path=PATH, length=0, spec_id=0), METADATA)
    assert got.data_file.column_sizes == {1: 11, 2: 12}
    assert got.data_file.file_path == "x"


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_codecs(codec: str) -> None:
    rows = [row(file_path=f"memory://t/{n}") for n in range(2000)]
    entries = read(schema(), rows, codec=codec)
    assert [entry.data_file.file_path for entry in entries] == [f"memory://t/{n}" for n in range(2000)]


@pytest.mark.parametrize("damaged", [False, True])
def test_snappy(damaged: bool) -> None:
    plain = io.BytesIO()
    fastavro.writer(plain, schema(), [row()], codec="null", sync_marker=b"S" * 16)
    raw = plain.getvalue()
    start = raw.index(b"S" * 16) + 16
    block = raw[start + 2 : -16] if raw[start + 1] < 0x80 else raw[start + 3 : -16]
    packed = pa.Codec("snappy").compress(block, asbytes=True) + zlib.crc32(block).to_bytes(4, "big")
    if damaged:
        packed = packed[:-1] + bytes([packed[-1] ^ 1])
    out = bytearray(raw[:start].replace(b"\x08null", b"\x0csnappy"))
    write_long(out, 1)
    write_bytes(out, packed)
    out += b"S" * 16
    store = MemoryObjectStore(SystemClock())
    store.put(PATH, bytes(out))
    manifest = ManifestFile(path=PATH, length=0, spec_id=0)
    if damaged:
        with pytest.raises(Invalid, match="checksum"):
            read_manifest(store, manifest, METADATA)
    else:
        [entry] = read_manifest(store, manifest, METADATA)
        assert entry.data_file.file_path == "memory://t/f"


def test_delete_files_say_what_they_are() -> None:
    file = [*FILE, field("equality_ids", ["null", {"type": "array", "items": "long"}], 135)]
    entries = read(
        schema(file),
        [row(content=1), row(content=2, equality_ids=[1, 2])],
        content=ManifestContent.DELETES,
    )
    assert [entry.data_file.content for entry in entries] == [
        Content.POSITION_DELETES,
        Content.EQUALITY_DELETES,
    ]
    assert entries[1].data_file.equality_ids == [1, 2]
    with pytest.raises(Invalid, match="delete file of unknown kind"):
        read(schema(FILE[1:]), [row()], content=ManifestContent.DELETES)
    with pytest.raises(Invalid, match="unknown content 3"):
        read(schema(), [row(content=3)])


def test_v3_fields_and_row_ids() -> None:
    file = [
        *FILE,
        field("first_row_id", ["null", "long"], 142),
        field("referenced_data_file", ["null", "string"], 143),
        field("content_offset", ["null", "long"], 144),
        field("content_size_in_bytes", ["null", "long"], 145),
    ]
    rows = [
        row(record_count=10),
        row(0, record_count=3, first_row_id=40, sequence_number=1),
        row(2, record_count=100, sequence_number=1),
        row(record_count=7),
    ]
    v3 = new_metadata(version=3)
    entries = read(schema(file), rows, metadata=v3, first_row_id=1000)
    assert [entry.data_file.first_row_id for entry in entries] == [1000, 40, None, 1010]
    entries = read(schema(file), rows, metadata=v3)
    assert [entry.data_file.first_row_id for entry in entries] == [None] * 4
    vector = row(
        content=1,
        file_format="puffin",
        referenced_data_file="memory://t/data",
        content_offset=4,
        content_size_in_bytes=50,
    )
    [entry] = read(schema(file), [vector], metadata=v3, content=ManifestContent.DELETES)
    file_read = entry.data_file
    assert (file_read.file_format, file_read.content) == ("PUFFIN", Content.POSITION_DELETES)
    assert (file_read.referenced_data_file, file_read.content_offset, file_read.content_size_in_bytes) == (
        "memory://t/data",
        4,
        50,
    )


def partitioned(*fields: dict[str, Any]) -> dict[str, Any]:
    file = [
        *FILE[:3],
        field("partition", {"type": "record", "name": "p", "fields": list(fields)}, 102),
        *FILE[4:],
    ]
    return schema(file)


def test_partitions_come_in_the_order_of_the_spec() -> None:
    metadata = new_metadata({"a": "long", "b": "string"}, [("a", "identity"), ("b", "identity")])
    avro_schema = partitioned(
        field("x", ["null", "string"], 1001), field("y", "int", 1000), field("z", "int", 5)
    )
    [entry] = read(avro_schema, [row(partition={"x": "text", "y": 3, "z": 4})], metadata=metadata)
    assert entry.data_file.partition == (3, "text")


def test_partitions_without_field_ids_are_known_by_name() -> None:
    metadata = new_metadata(
        {"a b": "long", "status": "string"}, [("a b", "identity"), ("status", "identity")]
    )
    avro_schema = partitioned(field("status", "string"), field("a_x20b", "long"))
    [entry] = read(avro_schema, [row(partition={"status": "s", "a_x20b": 3})], metadata=metadata)
    assert entry.data_file.partition == (3, "s")


def test_uuids_and_decimals_in_other_avro_types() -> None:
    metadata = new_metadata(
        {"u": "uuid", "v": "uuid", "d": "decimal(9, 2)", "e": "decimal(9, 2)"},
        [(name, "identity") for name in "uvde"],
    )
    uid = UUID(int=5)
    avro_schema = partitioned(
        field("u", ["null", {"type": "string", "logicalType": "uuid"}], 1000),
        field("v", ["null", {"type": "fixed", "size": 16, "name": "f16"}], 1001),
        field("d", ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}], 1002),
        field("e", ["null", {"type": "fixed", "size": 4, "name": "f4"}], 1003),
    )
    partition = {"u": uid, "v": uid.bytes, "d": Decimal("-1.25"), "e": (-125).to_bytes(4, "big", signed=True)}
    rows = [row(partition=partition), row(partition=dict.fromkeys("uvde"))]
    entries = read(avro_schema, rows, metadata=metadata)
    assert entries[0].data_file.partition == (uid, uid, Decimal("-1.25"), Decimal("-1.25"))
    assert entries[1].data_file.partition == (None,) * 4


@pytest.mark.parametrize("logical", [{}, {"logicalType": "decimal", "precision": 9, "scale": 2}])
def test_a_decimal_of_too_many_bytes_is_invalid(logical: dict[str, Any]) -> None:
    metadata = new_metadata({"d": "decimal(9, 2)"}, [("d", "identity")])
    wide = {"type": "fixed", "size": 40, "name": "f40", **logical}
    with pytest.raises(Invalid, match="38 digits"):
        read(
            partitioned(field("d", wide, 1000)),
            [row(partition={"d": b"\x00" * 39 + b"\x01"})],
            metadata=metadata,
        )


def test_ingest_case_29_a_missing_partition_field_is_not_null() -> None:
    metadata = new_metadata({"a": "long"}, [("a", "identity")])
    with pytest.raises(Invalid, match="no values of partition field 'a'"):
        read(partitioned(), [row()], metadata=metadata)


def test_a_partition_field_of_another_type_is_invalid() -> None:
    metadata = new_metadata({"a": "long"}, [("a", "identity")])
    with pytest.raises(Invalid, match="partition field 'a' is string and not long"):
        read(partitioned(field("a", "string", 1000)), [row(partition={"a": "1"})], metadata=metadata)


def test_a_void_partition_of_a_dropped_column_may_be_missing() -> None:
    metadata = new_metadata({"a": "long", "b": "long"}, [("a", "identity"), ("b", "void")])
    [entry] = read(partitioned(field("a", "int", 1000)), [row(partition={"a": 1})], metadata=metadata)
    assert entry.data_file.partition == (1, None)


def test_a_dropped_source_column_is_looked_up_in_older_schemas() -> None:
    before = new_metadata({"a": "long", "gone": "decimal(9, 2)"}, [("gone", "identity")])
    after = TableMetadata(
        {
            **before.document,
            "current-schema-id": 1,
            "schemas": [
                *before.schemas,
                {"type": "struct", "schema-id": 1, "fields": before.schema()["fields"][:1]},
            ],
        }
    )
    store = MemoryObjectStore(SystemClock())
    manifest = write_manifest(
        store,
        PATH,
        [added(full_file(partition=(Decimal("1.25"),)))],
        metadata=after,
        spec_id=0,
        content=ManifestContent.DATA,
        snapshot_id=SNAPSHOT,
    )
    [entry] = read_manifest(store, manifest, after)
    assert entry.data_file.partition == (Decimal("1.25"),)
    reader = fastavro.reader(io.BytesIO(store.get(PATH)))
    assert reader.metadata is not None
    assert reader.metadata["schema-id"] == "0"


def test_a_missing_manifest() -> None:
    with pytest.raises(NoSuchFile):
        read_manifest(
            MemoryObjectStore(SystemClock()), ManifestFile(path=PATH, length=1, spec_id=0), METADATA
        )


def test_counts_are_read_from_the_file() -> None:
    out = io.BytesIO()
    rows = [row(0, sequence_number=1), row(1, record_count=7), row(1), row(2)]
    fastavro.writer(out, schema(), rows)
    store = MemoryObjectStore(SystemClock())
    store.put(PATH, out.getvalue())
    bare = ManifestFile(path=PATH, length=0, spec_id=0)
    assert count_entries(store, bare) == replace(
        bare,
        added_files_count=2,
        existing_files_count=1,
        deleted_files_count=1,
        added_rows_count=12,
        existing_rows_count=5,
        deleted_rows_count=5,
    )


def test_a_v1_manifest_without_a_list_describes_itself() -> None:
    store, v1 = MemoryObjectStore(SystemClock()), new_metadata(version=1)
    written = write_manifest(
        store,
        PATH,
        [added(full_file())],
        metadata=v1,
        spec_id=0,
        content=ManifestContent.DATA,
        snapshot_id=SNAPSHOT,
    )
    described = describe_manifest(store, PATH, added_snapshot_id=SNAPSHOT)
    assert described == replace(written, partitions=None)
    store.delete_many([PATH])
    write_manifest(
        store,
        PATH,
        [added(full_file())],
        metadata=METADATA,
        spec_id=0,
        content=ManifestContent.DATA,
        snapshot_id=SNAPSHOT,
    )
    with pytest.raises(Invalid, match="not a manifest of format version 1"):
        describe_manifest(store, PATH, added_snapshot_id=SNAPSHOT)


# Manifest lists


def read_list(fields: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[ManifestFile]:
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "anything", "fields": fields}, rows)
    store = MemoryObjectStore(SystemClock())
    store.put("memory://t/l.avro", out.getvalue())
    found, memo = read_manifest_list(store, "memory://t/l.avro"), ListMemo()
    # With what earlier lists said, too.
    assert [read_manifest_list(store, "memory://t/l.avro", memo) for _ in range(2)] == [found, found]
    return found


OLD_LIST = [
    field("manifest_path", "string", 500),
    field("manifest_length", "long", 501),
    field("partition_spec_id", "int", 502),
    field("added_snapshot_id", ["null", "long"], 503),
]


def test_an_old_v1_list() -> None:
    [manifest] = read_list(
        OLD_LIST,
        [{"manifest_path": PATH, "manifest_length": 9, "partition_spec_id": 3, "added_snapshot_id": 5}],
    )
    assert manifest == ManifestFile(path=PATH, length=9, spec_id=3, added_snapshot_id=5)


def test_old_names_and_another_summary_record() -> None:
    summary = {
        "type": "record",
        "name": "field_summary",
        "fields": [
            field("lower_bound", ["null", "bytes"], 510),
            field("contains_null", "boolean", 509),
            field("new_thing", "string", 599),
        ],
    }
    fields = [
        *({"name": one["name"], "type": one["type"]} for one in OLD_LIST),
        field("added_data_files_count", ["null", "int"]),
        field("deleted_data_files_count", ["null", "int"], 506),
        field("partitions", ["null", {"type": "array", "items": summary}], 507),
        field("first_row_id", ["null", "long"], 520),
    ]
    base = {"manifest_path": PATH, "manifest_length": 9, "partition_spec_id": 3}
    found = read_list(
        fields,
        [
            {
                **base,
                "added_data_files_count": 4,
                "deleted_data_files_count": 2,
                "partitions": [{"lower_bound": b"l", "contains_null": True, "new_thing": ""}],
                "first_row_id": 77,
            },
            base,
        ],
    )
    assert (found[0].added_files_count, found[0].deleted_files_count, found[0].first_row_id) == (4, 2, 77)
    assert found[0].partitions is not None
    assert [(s.contains_null, s.contains_nan, s.lower_bound) for s in found[0].partitions] == [
        (True, None, b"l")
    ]
    assert found[1].partitions is None


@pytest.mark.parametrize("turned", [False, True])
def test_what_a_list_says_anew_is_believed_over_what_an_earlier_one_said(*, turned: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"manifest_path": path, "manifest_length": length, "partition_spec_id": 3, "added_snapshot_id": added}
        for path, length, added in [("a", 9, 5), ("a", 9, 6), ("b", 9, 5), ("a", 9, None), ("a", 9, 5)]
    ]
    found = read_list(OLD_LIST[::-1] if turned else OLD_LIST, rows)
    assert [(one.path, one.added_snapshot_id) for one in found] == [
        (row["manifest_path"], row["added_snapshot_id"]) for row in rows
    ]


def test_an_empty_list() -> None:
    assert read_list(OLD_LIST, []) == []
