"""What our manifests and lists look like, and what is refused before a file is written."""

import io
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import orjson
import pytest

from table_format.clock import SystemClock
from table_format.errors import AlreadyExists, Invalid, Unsupported
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import (
    UNASSIGNED,
    Content,
    FieldSummary,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from table_format.manifest.lists import read_manifest_list, write_manifest_list
from table_format.manifest.read import read_manifest
from table_format.manifest.write import write_manifest
from table_format.metadata.document import TableMetadata
from tests.factories.manifests import (
    SNAPSHOT,
    added,
    every_type,
    full_file,
    kept,
    new_file,
    new_metadata,
    removed,
)

PATH, LIST = "memory://t/m.avro", "memory://t/l.avro"
METADATA = new_metadata()


def new_store() -> MemoryObjectStore:
    return MemoryObjectStore(SystemClock())


def write(
    entries: list[ManifestEntry],
    *,
    store: MemoryObjectStore | None = None,
    metadata: TableMetadata = METADATA,
    content: ManifestContent = ManifestContent.DATA,
    path: str = PATH,
) -> ManifestFile:
    return write_manifest(
        store or new_store(),
        path,
        entries,
        metadata=metadata,
        spec_id=0,
        content=content,
        snapshot_id=SNAPSHOT,
    )


def write_list(
    store: MemoryObjectStore,
    manifests: list[ManifestFile],
    *,
    version: int = 2,
    sequence_number: int = 8,
    first_row_id: int | None = None,
) -> int:
    return write_manifest_list(
        store,
        LIST,
        manifests,
        format_version=version,
        snapshot_id=SNAPSHOT,
        parent_snapshot_id=None,
        sequence_number=sequence_number,
        first_row_id=first_row_id,
    )


def avro(store: MemoryObjectStore, path: str) -> Any:
    return fastavro.reader(io.BytesIO(store.get(path)))


def test_the_header_says_everything_that_readers_ask() -> None:
    store = new_store()
    metadata = new_metadata({"when": "timestamptz"}, [("when", "month")])
    write([added(new_file(partition=(3,)))], store=store, metadata=metadata)
    header = avro(store, PATH).metadata
    assert orjson.loads(header["schema"]) == metadata.schema()
    assert header["schema-id"] == "0"
    assert orjson.loads(header["partition-spec"]) == metadata.spec()["fields"]
    assert header["partition-spec-id"] == "0"
    assert header["format-version"] == "2"
    assert header["content"] == "data"
    assert header["avro.codec"] == "deflate"


@pytest.mark.parametrize("content", list(ManifestContent))
def test_the_header_names_the_content(content: ManifestContent) -> None:
    store = new_store()
    kind = Content.DATA if content is ManifestContent.DATA else Content.POSITION_DELETES
    write([added(new_file(content=kind))], store=store, content=content)
    assert avro(store, PATH).metadata["content"] == content.name.lower()


def test_v1_headers() -> None:
    store = new_store()
    write([added(new_file())], store=store, metadata=new_metadata(version=1))
    assert avro(store, PATH).metadata["format-version"] == "1"
    assert avro(store, PATH).metadata["content"] == "data"
    [row] = avro(store, PATH)
    assert row["data_file"]["block_size_in_bytes"] == 64 << 20
    assert row["snapshot_id"] == SNAPSHOT


def ids_and_names(schema: Any) -> list[tuple[int, str]]:
    return [(field["field-id"], field["name"]) for field in schema["fields"]]


def record_names(schema: Any) -> list[str]:
    match schema:
        case {"type": "record", "name": name, "fields": fields}:
            return [name, *(inner for field in fields for inner in record_names(field["type"]))]
        case {"items": items}:
            return record_names(items)
        case list():
            return [inner for branch in schema for inner in record_names(branch)]
        case _:
            return []


def test_names_ids_and_order_are_java_s() -> None:
    store = new_store()
    manifest = write([added(new_file())], store=store)
    schema = avro(store, PATH).writer_schema
    assert record_names(schema) == [
        "manifest_entry", "r2", "r102", "k117_v118", "k119_v120", "k121_v122", "k138_v139", "k126_v127", "k129_v130",
    ]  # fmt: skip
    assert ids_and_names(schema) == [
        (0, "status"), (1, "snapshot_id"), (3, "sequence_number"), (4, "file_sequence_number"), (2, "data_file"),
    ]  # fmt: skip
    file = schema["fields"][4]["type"]
    assert ids_and_names(file) == [
        (134, "content"), (100, "file_path"), (101, "file_format"), (102, "partition"), (103, "record_count"),
        (104, "file_size_in_bytes"), (108, "column_sizes"), (109, "value_counts"), (110, "null_value_counts"),
        (137, "nan_value_counts"), (125, "lower_bounds"), (128, "upper_bounds"), (131, "key_metadata"),
        (132, "split_offsets"), (135, "equality_ids"), (140, "sort_order_id"), (143, "referenced_data_file"),
    ]  # fmt: skip
    sizes = file["fields"][6]
    assert sizes["default"] is None
    assert sizes["type"][1] == {
        "type": "array",
        "items": {
            "type": "record",
            "name": "k117_v118",
            "fields": [
                {"name": "key", "type": "int", "field-id": 117},
                {"name": "value", "type": "long", "field-id": 118},
            ],
        },
        "logicalType": "map",
    }
    write_list(store, [manifest])
    schema = avro(store, LIST).writer_schema
    assert record_names(schema) == ["manifest_file", "r508"]
    assert ids_and_names(schema) == [
        (500, "manifest_path"), (501, "manifest_length"), (502, "partition_spec_id"), (517, "content"),
        (515, "sequence_number"), (516, "min_sequence_number"), (503, "added_snapshot_id"),
        (504, "added_files_count"), (505, "existing_files_count"), (506, "deleted_files_count"),
        (512, "added_rows_count"), (513, "existing_rows_count"), (514, "deleted_rows_count"), (507, "partitions"),
        (519, "key_metadata"),
    ]  # fmt: skip


def test_R38_the_format_is_written_in_capitals() -> None:
    store = new_store()
    write([added(new_file(file_format="parquet"))], store=store)
    [row] = avro(store, PATH)
    assert row["data_file"]["file_format"] == "PARQUET"


def test_odd_partition_names_are_escaped_and_stay_apart() -> None:
    store = new_store()
    names = ["a b", "a_x20b", "1st", "größe"]
    metadata = new_metadata(dict.fromkeys(names, "uuid"), [(name, "identity") for name in names])
    write([added(new_file(partition=(None,) * 4))], store=store, metadata=metadata)
    partition = avro(store, PATH).writer_schema["fields"][4]["type"]["fields"][3]["type"]
    assert [field["name"] for field in partition["fields"]] == [
        "a_x20b",
        "a_x20b_1001",
        "_1st",
        "gr_xF6_xDFe",
    ]
    assert [field["type"][1]["name"] for field in partition["fields"]] == [
        "uuid_fixed", "uuid_fixed_1001", "uuid_fixed_1002", "uuid_fixed_1003",
    ]  # fmt: skip
    assert len(read_manifest(store, ManifestFile(path=PATH, length=0, spec_id=0), metadata)) == 1


def test_counts_rows_and_lowest_sequence_number() -> None:
    files = [new_file(f"memory://t/{n}", record_count=10**n) for n in range(5)]
    entries = [added(files[0]), added(files[1], 3), kept(files[2], sequence_number=4), removed(files[3])]
    manifest = write(entries)
    assert (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count) == (
        2,
        1,
        1,
    )
    assert (manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count) == (
        11,
        100,
        1000,
    )
    assert (manifest.sequence_number, manifest.min_sequence_number) == (UNASSIGNED, 3)
    assert write([added(files[0])]).min_sequence_number == UNASSIGNED
    assert write([removed(files[0])]).min_sequence_number == UNASSIGNED
    assert write([kept(files[0], sequence_number=0, file_sequence_number=0)]).min_sequence_number == 0


def test_length_is_the_file_s() -> None:
    store = new_store()
    assert write([added(full_file())], store=store).length == store.head(PATH).size


def test_a_truncated_decimal_may_have_a_digit_more_than_its_type() -> None:
    """truncate[100] of -9999999.99 is -10000000.00, which decimal(9, 2) has no digit for but bytes enough."""
    store = new_store()
    metadata = new_metadata({"d": "decimal(9, 2)"}, [("d", "truncate[100]")])
    lowest = Decimal("-10000000.00")
    manifest = write([added(new_file("memory://t/1", partition=(lowest,)))], store=store, metadata=metadata)
    assert manifest.partitions is not None
    assert manifest.partitions[0].lower_bound == (-(10**9)).to_bytes(4, "big", signed=True)
    (entry,) = read_manifest(store, manifest, metadata)
    assert entry.data_file.partition == (lowest,)


def test_partition_summaries() -> None:
    metadata = new_metadata(
        {"n": "int", "f": "double", "s": "string", "d": "decimal(9, 2)", "z": "float"},
        [(name, "identity") for name in "nfsdz"],
    )
    partitions: list[Any] = [
        (5, float("nan"), "b", Decimal("-1.00"), 0.0),
        (-7, 2.5, "ä", Decimal("10.00"), -0.0),
        (None, -2.5, "B", None, 0.0),
    ]
    manifest = write(
        [added(new_file(f"memory://t/{n}", partition=partition)) for n, partition in enumerate(partitions)],
        metadata=metadata,
    )
    assert manifest.partitions == [
        FieldSummary(
            contains_null=True,
            contains_nan=False,
            lower_bound=b"\xf9\xff\xff\xff",
            upper_bound=b"\x05\x00\x00\x00",
        ),
        FieldSummary(
            contains_null=False,
            contains_nan=True,
            lower_bound=bytes.fromhex("00000000000004c0"),
            upper_bound=bytes.fromhex("0000000000000440"),
        ),
        FieldSummary(contains_null=False, contains_nan=False, lower_bound=b"B", upper_bound="ä".encode()),
        FieldSummary(contains_null=True, contains_nan=False, lower_bound=b"\x9c", upper_bound=b"\x03\xe8"),
        FieldSummary(
            contains_null=False,
            contains_nan=False,
            lower_bound=b"\x00\x00\x00\x80",
            upper_bound=b"\x00\x00\x00\x00",
        ),
    ]
    only_null = write([added(new_file(partition=(None,) * 15))], metadata=every_type()).partitions
    assert only_null == [FieldSummary(contains_null=True, contains_nan=False)] * 15


def test_no_partition_columns_no_summaries() -> None:
    assert write([added(new_file())]).partitions == []


REFUSED: dict[str, tuple[Callable[[], list[ManifestEntry]], str]] = {
    "nothing": (list, "empty"),
    "another spec": (lambda: [added(new_file(spec_id=1))], "partition spec 1"),
    "a delete file": (lambda: [added(new_file(content=Content.POSITION_DELETES))], "POSITION_DELETES"),
    "twice added": (lambda: [added(new_file()), added(new_file())], "twice"),
    "added and kept": (lambda: [added(new_file()), kept(new_file())], "twice"),
    "added by another snapshot": (lambda: [added(new_file(), snapshot_id=1)], "of snapshot 1"),
    "added with a file sequence number": (
        lambda: [replace(added(new_file()), file_sequence_number=4)],
        "file sequence number",
    ),
    "R44 kept without sequence number": (lambda: [kept(new_file(), sequence_number=None)], "no explicit"),
    "R44 kept without file sequence number": (
        lambda: [kept(new_file(), file_sequence_number=None)],
        "no explicit",
    ),
    "R44 deleted without sequence number": (
        lambda: [replace(removed(new_file()), sequence_number=None)],
        "no explicit",
    ),
    "kept without snapshot": (lambda: [kept(new_file(), snapshot_id=None)], "no snapshot id"),
    "deleted by another snapshot": (lambda: [removed(new_file(), snapshot_id=5)], "of snapshot 5"),
    "a deletion vector": (lambda: [added(new_file(content_offset=4))], "deletion vector"),
    "no path": (lambda: [added(new_file(""))], "no path"),
    "rows below nought": (lambda: [added(new_file(record_count=-1))], "below nought"),
    "a partition too long": (lambda: [added(new_file(partition=(1,)))], "partition"),
    "a count too large": (lambda: [added(new_file(column_sizes={1: 2**63}))], "64 bits"),
    "a field id below nought": (lambda: [added(new_file(column_sizes={-1: 1}))], "31 bits"),
    "bounds that are text": (lambda: [added(new_file(lower_bounds={1: "x"}))], "cannot be an entry"),
    "a path that is no text": (lambda: [added(new_file(path=b"x"))], "cannot be an entry"),
}  # type: ignore[dict-item]


@pytest.mark.parametrize("name", list(REFUSED))
def test_refused_and_nothing_written(name: str) -> None:
    make, message = REFUSED[name]
    store = new_store()
    with pytest.raises(Invalid, match=message):
        write(make(), store=store)
    assert list(store.list("memory://t")) == []


WRONG_PARTITION: dict[str, list[Any]] = {
    "int": ["1", 1.0, True, 2**31],
    "long": ["1", 2**63],
    "boolean": [1, "true"],
    "string": [1, b"x"],
    "date": ["2020-01-01", 2**40],
    "timestamptz": [1.5],
    "float": ["1", 1e39],
    "double": [None.__class__],
    "uuid": ["x", b"0" * 16],
    "fixed[3]": [b"ab", "abc"],
    "binary": ["x"],
    "decimal(9, 2)": [1, Decimal("0.001"), Decimal("123456789.90"), Decimal("NaN")],
}


@pytest.mark.parametrize("kind", list(WRONG_PARTITION))
def test_a_partition_value_of_another_type_is_refused(kind: str) -> None:
    metadata = new_metadata({"a": kind}, [("a", "identity")])
    for value in WRONG_PARTITION[kind]:
        store = new_store()
        with pytest.raises(Invalid):
            write([added(new_file(partition=(value,)))], store=store, metadata=metadata)
        assert list(store.list("memory://t")) == []


def test_equality_deletes_need_their_ids() -> None:
    with pytest.raises(Invalid, match="without equality ids"):
        write([added(new_file(content=Content.EQUALITY_DELETES))], content=ManifestContent.DELETES)


def test_a_manifest_is_never_overwritten() -> None:
    store = new_store()
    write([added(new_file())], store=store)
    before = store.get(PATH)
    with pytest.raises(AlreadyExists):
        write([added(new_file("memory://t/other"))], store=store)
    assert store.get(PATH) == before


def test_v1_holds_neither_deletes_nor_sequence_numbers() -> None:
    v1 = new_metadata(version=1)
    with pytest.raises(Invalid, match="no delete files"):
        write(
            [added(new_file(content=Content.POSITION_DELETES))], metadata=v1, content=ManifestContent.DELETES
        )
    with pytest.raises(Invalid, match="cannot hold"):
        write([kept(new_file(), sequence_number=3)], metadata=v1)
    assert (
        write([kept(new_file(), sequence_number=0, file_sequence_number=0)], metadata=v1).sequence_number == 0
    )


def test_versions_that_nobody_knows_are_not_written() -> None:
    unknown = TableMetadata({**METADATA.document, "format-version": 4})
    with pytest.raises(Unsupported, match="version 4"):
        write([added(new_file())], metadata=unknown)
    with pytest.raises(Unsupported, match="version 4"):
        write_list(new_store(), [], version=4)


def test_v3_data_manifests_get_row_ids_in_their_order() -> None:
    store, v3 = new_store(), new_metadata(version=3)
    fresh = write(
        [added(new_file("a", record_count=10)), added(new_file("b", record_count=5))],
        store=store,
        metadata=v3,
        path="memory://t/1.avro",
    )
    merged = write(
        [kept(new_file("c", record_count=7, first_row_id=40)), kept(new_file("d", record_count=1))],
        store=store,
        metadata=v3,
        path="memory://t/2.avro",
    )
    old = replace(fresh, path="memory://t/old.avro", first_row_id=3, sequence_number=1, min_sequence_number=1)
    deletes = write(
        [added(new_file("e", content=Content.POSITION_DELETES))],
        store=store,
        metadata=v3,
        content=ManifestContent.DELETES,
        path="memory://t/3.avro",
    )
    assert write_list(store, [fresh, old, deletes, merged], version=3, first_row_id=1000) == 10 + 5 + 7 + 1
    header = avro(store, LIST).metadata
    assert (header["format-version"], header["first-row-id"]) == ("3", "1000")
    listed = read_manifest_list(store, LIST)
    assert [one.first_row_id for one in listed] == [1000, 3, None, 1015]
    entries = [entry for one in (listed[0], listed[3]) for entry in read_manifest(store, one, v3)]
    assert [entry.data_file.first_row_id for entry in entries] == [1000, 1010, 40, 1015]


def test_row_ids_belong_to_v3_and_only_there() -> None:
    for version, first_row_id in ((2, 0), (3, None)):
        with pytest.raises(Invalid, match="first row id"):
            write_list(new_store(), [], version=version, first_row_id=first_row_id)


def test_v3_holds_deletion_vectors() -> None:
    store, v3 = new_store(), new_metadata(version=3)
    place = {"referenced_data_file": "file:///d", "content_offset": 4, "content_size_in_bytes": 40}
    vector = new_file("v.puffin", content=Content.POSITION_DELETES, file_format="PUFFIN", **place)
    manifest = write([added(vector)], store=store, metadata=v3, content=ManifestContent.DELETES)
    [entry] = read_manifest(store, replace(manifest, sequence_number=1), v3)
    assert entry.data_file == vector
    for lacking in place:
        with pytest.raises(Invalid, match="deletion vector without"):
            write([added(replace(vector, **{lacking: None}))], metadata=v3, content=ManifestContent.DELETES)


def test_an_unknown_transform_is_not_written() -> None:
    with pytest.raises(Unsupported, match="zorder"):
        write([added(new_file(partition=(1,)))], metadata=new_metadata({"a": "int"}, [("a", "zorder")]))


def test_the_same_content_gives_the_same_bytes() -> None:
    stores = [new_store(), new_store()]
    for store in stores:
        write([added(full_file())], store=store)
    assert stores[0].get(PATH) == stores[1].get(PATH)


def test_many_entries_make_many_blocks() -> None:
    store = new_store()
    count = 3000
    metadata = new_metadata({"a": "int"}, [("a", "identity")])
    manifest = write(
        [added(full_file(f"memory://t/{n}", partition=(n,))) for n in range(count)],
        store=store,
        metadata=metadata,
    )
    sync = store.get(PATH)[-16:]
    assert store.get(PATH).count(sync) > 2
    entries = read_manifest(store, manifest, metadata)
    assert [entry.data_file.partition for entry in entries] == [(n,) for n in range(count)]


# Manifest lists


def test_R44_a_list_gives_the_commit_s_number_only_to_its_own_manifests() -> None:
    store = new_store()
    own = write([added(new_file())], store=store)
    rewritten = write([added(new_file(), 3)], store=store, path="memory://t/m2.avro")
    older = replace(
        own, path="memory://t/m3.avro", added_snapshot_id=1, sequence_number=4, min_sequence_number=2
    )
    write_list(store, [own, rewritten, older])
    assert [(m.sequence_number, m.min_sequence_number) for m in read_manifest_list(store, LIST)] == [
        (8, 8), (8, 3), (4, 2),
    ]  # fmt: skip


def test_a_manifest_of_another_commit_without_a_number_is_refused() -> None:
    store = new_store()
    manifest = replace(write([added(new_file())], store=store), added_snapshot_id=1)
    with pytest.raises(Invalid, match="has no sequence number"):
        write_list(store, [manifest])
    assert not store.exists(LIST)


def test_a_manifest_twice_in_a_list_is_refused() -> None:
    store = new_store()
    manifest = write([added(new_file())], store=store)
    with pytest.raises(Invalid, match="twice"):
        write_list(store, [manifest, manifest])
    assert not store.exists(LIST)


def test_a_list_is_never_overwritten() -> None:
    store = new_store()
    write_list(store, [])
    with pytest.raises(AlreadyExists):
        write_list(store, [])


def test_v1_lists() -> None:
    store = new_store()
    manifest = write([added(new_file())], store=store, metadata=new_metadata(version=1))
    write_list(store, [manifest], version=1, sequence_number=0)
    assert read_manifest_list(store, LIST) == [manifest]
    assert avro(store, LIST).metadata["format-version"] == "1"
    assert "sequence-number" not in avro(store, LIST).metadata
    deletes = replace(manifest, content=ManifestContent.DELETES)
    store.delete_many([LIST])
    with pytest.raises(Invalid, match="cannot be in a table of format version 1"):
        write_list(store, [deletes], version=1)


def test_counts_that_an_old_list_lacks_are_made_up_for() -> None:
    store = new_store()
    v1 = write([added(new_file(record_count=6))], store=store, metadata=new_metadata(version=1))
    bare = ManifestFile(path=v1.path, length=v1.length, spec_id=0, added_snapshot_id=1)
    write_list(store, [bare])
    [manifest] = read_manifest_list(store, LIST)
    assert (manifest.added_files_count, manifest.added_rows_count, manifest.deleted_files_count) == (1, 6, 0)
    assert (manifest.sequence_number, manifest.min_sequence_number) == (0, 0)


def test_a_manifest_without_a_snapshot_is_refused() -> None:
    store = new_store()
    manifest = replace(write([added(new_file())], store=store), added_snapshot_id=None, sequence_number=1)
    with pytest.raises(Invalid):
        write_list(store, [manifest])


# Speed


def test_statuses_are_written_as_numbers() -> None:
    store = new_store()
    entries = [
        added(new_file("memory://t/a")),
        kept(new_file("memory://t/b")),
        removed(new_file("memory://t/c")),
    ]
    write(entries, store=store)
    assert [row["status"] for row in avro(store, PATH)] == [Status.ADDED, Status.EXISTING, Status.DELETED]
    assert [row["snapshot_id"] for row in avro(store, PATH)] == [SNAPSHOT, 11, SNAPSHOT]
    assert [row["sequence_number"] for row in avro(store, PATH)] == [None, 5, 5]
    assert [row["file_sequence_number"] for row in avro(store, PATH)] == [None, 6, 6]
