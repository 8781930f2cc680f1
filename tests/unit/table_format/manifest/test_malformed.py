"""Damaged and hostile files: Invalid with the file's name, quickly; never a hang, never another error."""

import bz2
import random
import time
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
import zstandard

from table_format.clock import SystemClock
from table_format.errors import Invalid
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.container import build_container
from table_format.manifest.encode import write_bytes, write_long
from table_format.manifest.entries import ManifestContent, ManifestFile
from table_format.manifest.lists import read_manifest_list, write_manifest_list
from table_format.manifest.write import write_manifest
from tests.factories.lines import read_both_ways
from tests.factories.manifests import SNAPSHOT, added, every_type, full_file, new_metadata

PATH, LIST = "memory://t/m.avro", "memory://t/l.avro"


@pytest.fixture(scope="module")
def whole() -> tuple[ManifestFile, bytes, bytes]:
    """A manifest with two entries and a list, as they should be."""
    store = MemoryObjectStore(SystemClock())
    entries = [added(full_file(f"memory://t/f{n}", partition=(None,) * 15)) for n in range(2)]
    manifest = write_manifest(
        store,
        PATH,
        entries,
        metadata=every_type(),
        spec_id=0,
        content=ManifestContent.DATA,
        snapshot_id=SNAPSHOT,
    )
    write_manifest_list(
        store,
        LIST,
        [manifest],
        format_version=2,
        snapshot_id=SNAPSHOT,
        parent_snapshot_id=None,
        sequence_number=1,
    )
    return replace(manifest, sequence_number=1), store.get(PATH), store.get(LIST)


def read_bytes(data: bytes, *, length: int = 0) -> list[Any]:
    store = MemoryObjectStore(SystemClock())
    store.put(PATH, data)
    return read_both_ways(
        store, ManifestFile(path=PATH, length=length, spec_id=0, sequence_number=1), every_type()
    )


def read_list_bytes(data: bytes) -> list[Any]:
    store = MemoryObjectStore(SystemClock())
    store.put(LIST, data)
    return read_manifest_list(store, LIST)


def test_a_file_cut_off_anywhere_is_invalid(whole: tuple[ManifestFile, bytes, bytes]) -> None:
    manifest, data, listed = whole
    for size in [*range(40), *range(40, len(data), 37), *range(len(data) - 30, len(data))]:
        with pytest.raises(Invalid, match=r"m\.avro"):
            read_bytes(data[:size], length=manifest.length)
    header = listed.rindex(listed[-16:], 0, len(listed) - 16) + 16
    for size in [s for s in range(len(listed)) if s != header]:
        with pytest.raises(Invalid, match=r"l\.avro"):
            read_list_bytes(listed[:size])


def test_a_manifest_cut_off_between_two_blocks_is_noticed_by_its_length(
    whole: tuple[ManifestFile, bytes, bytes],
) -> None:
    manifest, data, _ = whole
    sync = data[-16:]
    header_only = data[: data.index(sync) + 16]
    assert read_bytes(header_only) == []
    with pytest.raises(Invalid, match="cut off"):
        read_bytes(header_only, length=manifest.length)


def test_damage_is_invalid_or_harmless(whole: tuple[ManifestFile, bytes, bytes]) -> None:
    _, data, listed = whole
    dice = random.Random(4)
    for source, read in ((data, read_bytes), (listed, read_list_bytes)):
        reader: Callable[[bytes], list[Any]] = read
        for _ in range(600):
            broken = bytearray(source)
            for _ in range(dice.randint(1, 6)):
                broken[dice.randrange(len(broken))] = dice.randrange(256)
            try:
                reader(bytes(broken))
            except Invalid as error:
                assert ".avro" in error.message  # noqa: PT017
    for size in (0, 1, 4, 20, 300):
        for _ in range(50):
            with pytest.raises(Invalid):
                read_bytes(b"Obj\x01" + dice.randbytes(size))


def test_damaged_blocks_are_invalid_or_harmless() -> None:
    """The same with the bytes inside the compression, which a flipped bit outside seldom reaches."""
    payload, schema = uncompressed_manifest()
    dice = random.Random(5)
    for _ in range(600):
        broken = bytearray(payload)
        for _ in range(dice.randint(1, 4)):
            broken[dice.randrange(len(broken))] = dice.randrange(256)
        try:
            read_bytes(build_container(schema, {}, [(2, bytes(broken))]))
        except Invalid as error:
            assert PATH in error.message  # noqa: PT017


def uncompressed_manifest() -> tuple[bytes, dict[str, Any]]:
    store = MemoryObjectStore(SystemClock())
    entries = [added(full_file(f"memory://t/f{n}", partition=(None,) * 15)) for n in range(2)]
    write_manifest(
        store,
        PATH,
        entries,
        metadata=every_type(),
        spec_id=0,
        content=ManifestContent.DATA,
        snapshot_id=SNAPSHOT,
    )
    from table_format.manifest.container import open_container

    container = open_container(store.get(PATH), PATH)
    [whole] = container.blocks()
    count, block = whole.count, whole.data
    assert count == 2
    schema = container.schema
    assert isinstance(schema, dict)
    return block, schema


def raw_container(schema: Any, blocks: list[tuple[int, bytes]], codec: str = "null") -> bytes:
    out = bytearray(b"Obj\x01")
    write_long(out, 2)
    write_bytes(out, b"avro.schema")
    write_bytes(out, schema if isinstance(schema, bytes) else orjson.dumps(schema))
    write_bytes(out, b"avro.codec")
    write_bytes(out, codec.encode())
    out.append(0)
    out += b"S" * 16
    for count, block in blocks:
        write_long(out, count)
        write_bytes(out, block)
        out += b"S" * 16
    return bytes(out)


def record(*fields: dict[str, Any], name: str = "manifest_entry") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def manifest_schema(extra: Any = None) -> dict[str, Any]:
    file = record(
        {"name": "file_path", "type": "string", "field-id": 100},
        {"name": "file_format", "type": "string", "field-id": 101},
        {"name": "partition", "type": record(name="r102"), "field-id": 102},
        {"name": "record_count", "type": "long", "field-id": 103},
        {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
        *([] if extra is None else [{"name": "extra", "type": extra}]),
        name="r2",
    )
    return record(
        {"name": "status", "type": "int", "field-id": 0}, {"name": "data_file", "type": file, "field-id": 2}
    )


ENTRY = b"\x02" + b"\x02x" + b"\x0ePARQUET" + b"\x02\x04"


def read_plain(data: bytes) -> list[Any]:
    store = MemoryObjectStore(SystemClock())
    store.put(PATH, data)
    return read_both_ways(
        store, ManifestFile(path=PATH, length=0, spec_id=0, sequence_number=1), new_metadata()
    )


def test_the_smallest_manifest_is_read() -> None:
    [entry] = read_plain(raw_container(manifest_schema(), [(1, ENTRY)]))
    assert (entry.data_file.file_path, entry.data_file.record_count) == ("x", 1)


HUGE = bytearray()
write_long(HUGE, 2**62)
HUGE_COUNT = bytes(HUGE)

BOMBS: dict[str, Callable[[], bytes]] = {
    "block count": lambda: raw_container(manifest_schema(), [(2**62, ENTRY)]),
    "negative block count": lambda: raw_container(manifest_schema(), [(-5, ENTRY)]),
    "trailing bytes": lambda: raw_container(manifest_schema(), [(1, ENTRY + b"\x00")]),
    "too few bytes": lambda: raw_container(manifest_schema(), [(1, ENTRY[:-1])]),
    "array count": lambda: raw_container(
        manifest_schema({"type": "array", "items": "long"}), [(1, ENTRY + HUGE_COUNT)]
    ),
    "array of nothing": lambda: raw_container(
        manifest_schema({"type": "array", "items": "null"}), [(1, ENTRY + HUGE_COUNT)]
    ),
    "array of empty records": lambda: raw_container(
        manifest_schema({"type": "array", "items": record(name="e")}), [(1, ENTRY + b"\x04\x00")]
    ),
    "string length": lambda: raw_container(manifest_schema("string"), [(1, ENTRY + HUGE_COUNT)]),
    "negative length": lambda: raw_container(manifest_schema("bytes"), [(1, ENTRY + b"\x01")]),
    "endless number": lambda: raw_container(manifest_schema("long"), [(1, ENTRY + b"\xff" * 100_000)]),
    "fixed size": lambda: raw_container(
        manifest_schema({"type": "fixed", "name": "f", "size": 2**31 - 1}), [(1, ENTRY)]
    ),
    "recursive record": lambda: raw_container(
        manifest_schema(record({"name": "next", "type": ["null", "again"]}, name="again")),
        [(1, ENTRY + b"\x02" * 100_000)],
    ),
    "deep schema": lambda: raw_container(manifest_schema(nested(60)), [(1, ENTRY)]),
    "deep JSON": lambda: raw_container(b"[" * 100_000, [(1, ENTRY)]),
    "unfolding schema": lambda: raw_container(manifest_schema(unfolding(20)), [(1, ENTRY)]),
    "no schema": lambda: raw_container(b"", []),
    "schema is no record": lambda: raw_container("string", [(1, b"\x00")]),
    "unknown codec": lambda: raw_container(manifest_schema(), [(1, ENTRY)], "lz77"),
    "union branch": lambda: raw_container(manifest_schema(["null", "string"]), [(1, ENTRY + b"\x08")]),
    "header count": lambda: b"Obj\x01" + HUGE_COUNT,
    "not UTF-8": lambda: raw_container(manifest_schema(), [(1, b"\x02\x02\xff\x0ePARQUET\x02\x04")]),
    "no path": lambda: raw_container(manifest_schema(), [(1, b"\x02\x00\x0ePARQUET\x02\x04")]),
    "negative rows": lambda: raw_container(manifest_schema(), [(1, b"\x02\x02x\x0ePARQUET\x01\x04")]),
    "status 3": lambda: raw_container(manifest_schema(), [(1, b"\x06" + ENTRY[1:])]),
}


def nested(levels: int) -> Any:
    schema: Any = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def unfolding(levels: int) -> Any:
    """Records of the record before, twice each: 2^levels values of no size."""
    schema: Any = record(name="r_0")
    for level in range(levels):
        schema = record(
            {"name": "a", "type": schema}, {"name": "b", "type": f"r_{level}"}, name=f"r_{level + 1}"
        )
    return schema


@pytest.mark.parametrize("name", list(BOMBS))
def test_nonsense_is_invalid_at_once(name: str) -> None:
    data = BOMBS[name]()
    started = time.monotonic()
    with pytest.raises(Invalid, match=r"m\.avro"):
        read_plain(data)
    assert time.monotonic() - started < 2


ZEROS = b"\x00" * (64 << 20)


@pytest.mark.parametrize(
    ("codec", "pack"),
    [
        ("zstandard", zstandard.compress),
        ("bzip2", bz2.compress),
        ("deflate", lambda data: zlib.compress(data, wbits=-15)),
        ("snappy", lambda data: b"\xff\xff\xff\xff\x0f" + b"\x00" * 8),
    ],
)
def test_a_small_file_cannot_expand_into_memory(codec: str, pack: Callable[[bytes], bytes]) -> None:
    data = raw_container(manifest_schema(), [(1, pack(ZEROS))] * (1 if codec != "deflate" else 2), codec)
    assert len(data) < 200_000
    tracemalloc.start()
    try:
        with pytest.raises(Invalid, match=r"m\.avro"):
            read_plain(data)
        assert tracemalloc.get_traced_memory()[1] < 260 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("missing", "name"),
    [("status", 0), ("file_path", 100), ("partition", 102), ("record_count", 103)],
)
def test_a_schema_without_a_necessary_field_is_invalid(missing: str, name: int) -> None:
    schema = manifest_schema()
    for level in (schema, schema["fields"][1]["type"]):
        level["fields"] = [field for field in level["fields"] if field["field-id"] != name]
    with pytest.raises(Invalid, match=missing):
        read_plain(raw_container(schema, [(1, ENTRY)]))


def test_a_schema_with_another_type_is_invalid() -> None:
    schema = manifest_schema()
    schema["fields"][1]["type"]["fields"][3]["type"] = "string"
    with pytest.raises(Invalid, match="string for 'record_count'"):
        read_plain(raw_container(schema, [(1, ENTRY)]))


def test_a_list_without_paths_is_invalid() -> None:
    with pytest.raises(Invalid, match="not a manifest list"):
        read_list_bytes(raw_container(manifest_schema(), [(1, ENTRY)]))
