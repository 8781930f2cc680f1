"""Puffin files written and read back; damaged ones are refused with what is wrong."""

import orjson
import pytest
import zstandard

from table_format.errors import Invalid, NoSuchFile, Unsupported
from table_format.io.memory import MemoryObjectStore
from table_format.scan.puffin import read_footer, read_payload, unpacked
from table_format.write.puffin import Blob, packed, statistics_entry, write_puffin
from tests.fakes.clock import ManualClock

PATH = "memory://warehouse/t/metadata/s.stats"


@pytest.fixture
def store():
    return MemoryObjectStore(ManualClock())


def blob(number, payload=b"payload", codec=None, **properties):
    return Blob(
        type="some-type",
        fields=[number],
        snapshot_id=7,
        sequence_number=3,
        payload=payload,
        codec=codec,
        properties=properties,
    )


def test_blobs_come_back_as_they_were(store):
    data, codec = packed(b"x" * 1000)
    blobs = [blob(1, ndv="5"), blob(2, b""), blob(3, data, codec)]
    file = write_puffin(store, PATH, blobs, created_by="me")
    assert store.head(PATH).size == file.size
    assert store.get(PATH)[-file.footer_size :][:4] == b"PFA1"
    found = read_footer(store, PATH, file.size)
    assert [(b.type, b.fields, b.snapshot_id, b.sequence_number, b.codec, b.properties) for b in found] == [
        ("some-type", (1,), 7, 3, None, {"ndv": "5"}),
        ("some-type", (2,), 7, 3, None, {}),
        ("some-type", (3,), 7, 3, "zstd", {}),
    ]
    payloads = [unpacked(read_payload(store, PATH, b), b.codec, most=1000) for b in found]
    assert payloads == [b"payload", b"", b"x" * 1000]


def test_its_entry_says_of_the_blobs_what_the_footer_does(store):
    blobs = [blob(1, ndv="5")]
    file = write_puffin(store, PATH, blobs, created_by="me")
    assert statistics_entry(PATH, 7, file, blobs) == {
        "snapshot-id": 7,
        "statistics-path": PATH,
        "file-size-in-bytes": file.size,
        "file-footer-size-in-bytes": file.footer_size,
        "blob-metadata": [
            {
                "type": "some-type",
                "snapshot-id": 7,
                "sequence-number": 3,
                "fields": [1],
                "properties": {"ndv": "5"},
            }
        ],
    }


def test_a_file_that_is_not_all_there_is_refused(store):
    file = write_puffin(store, PATH, [blob(1)], created_by="me")
    whole = store.get(PATH)
    for size in (0, 8, 19, file.size - 1):
        with pytest.raises(Invalid, match=r"no Puffin file|does not end as"):
            read_footer(store, PATH, size)
    store.put(PATH, b"PFA1" + b"?" * (len(whole) - 4))
    with pytest.raises(Invalid, match="does not end as a Puffin file"):
        read_footer(store, PATH, file.size)
    with pytest.raises(NoSuchFile):
        read_footer(store, f"{PATH}x", file.size)


def with_blob(**members):
    described = {"type": "t", "fields": [1], "snapshot-id": 1, "sequence-number": 1, **members}
    return orjson.dumps({"blobs": [described]})


def with_footer(store, payload, flags=b"\0\0\0\0"):
    content = b"PFA1" + b"PFA1" + payload + len(payload).to_bytes(4, "little") + flags + b"PFA1"
    store.put(PATH, content)
    return len(content)


@pytest.mark.parametrize(
    "payload",
    [
        b"no json",
        b"[]",
        b"{}",
        b'{"blobs": [1]}',
        b'{"blobs": [{"type": "t"}]}',
        with_blob(offset=4, length=999),
        with_blob(offset=-4, length=1),
        with_blob(offset=4, length=0, fields=["a"]),
        with_blob(offset=4, length=0, properties=[]),
    ],
)
def test_a_damaged_footer_is_refused(store, payload):
    with pytest.raises(Invalid, match=f"the footer of {PATH} cannot be read: "):
        read_footer(store, PATH, with_footer(store, payload))


def test_a_packed_footer_is_not_read(store):
    with pytest.raises(Unsupported, match="is packed"):
        read_footer(store, PATH, with_footer(store, b"{}", b"\1\0\0\0"))


def test_a_blob_that_is_cut_off_is_refused(store):
    file = write_puffin(store, PATH, [blob(1)], created_by="me")
    (found,) = read_footer(store, PATH, file.size)
    store.put(PATH, b"PFA1pay")
    with pytest.raises(Invalid, match="cut off"):
        read_payload(store, PATH, found)


def test_what_cannot_be_unpacked_is_refused():
    with pytest.raises(Unsupported, match="packed by 'lz4'"):
        unpacked(b"", "lz4", most=9)
    with pytest.raises(Invalid, match="damaged"):
        unpacked(b"no frame", "zstd", most=9)
    with pytest.raises(Invalid, match="would have 1000 bytes, more than 999"):
        unpacked(packed(bytes(1000))[0], "zstd", most=999)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"x")
    with pytest.raises(Invalid, match="does not say how many"):
        unpacked(unsized, "zstd", most=9)
    with pytest.raises(Invalid, match="damaged"):
        unpacked(packed(b"x" * 1000)[0][:-1], "zstd", most=1000)
