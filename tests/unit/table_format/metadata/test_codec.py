import gzip
import zlib

import pytest

from table_format.clock import SystemClock
from table_format.errors import AlreadyExists, Invalid, NoSuchFile, TooLarge
from table_format.io.faults import Counting
from table_format.io.memory import MemoryObjectStore
from table_format.metadata import codec
from tests.factories.metadata_documents import table

PLAIN = "memory://b/t/metadata/00000-a.metadata.json"
GZIPPED = "memory://b/t/metadata/00000-a.gz.metadata.json"


class CountedIds:
    """Ids that count."""

    def __init__(self) -> None:
        self.number = 0

    def uuid(self) -> str:
        self.number += 1
        return f"00000000-0000-4000-8000-{self.number:012d}"

    def snapshot_id(self) -> int:
        self.number += 1
        return self.number

    def jitter(self, low: float, high: float) -> float:
        return low


def store() -> MemoryObjectStore:
    return MemoryObjectStore(SystemClock())


def named(previous: str | None, **properties: str) -> str:
    return codec.new_location(table(**properties), previous, CountedIds())


UUID = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("previous", "number"),
    [
        (None, "00000"),
        ("file:///data/t/metadata/00000-a.metadata.json", "00001"),
        ("file:///data/t/metadata/00041-a-b.gz.metadata.json", "00042"),
        ("file:///data/t/metadata/7-a.metadata.json.gz", "00008"),
        ("file:///data/t/metadata/99999-a.metadata.json", "100000"),
        ("s3://b/5-x/metadata/00009-a.metadata.json", "00010"),
        ("file:///data/t/metadata/v3.metadata.json", "00000"),
        ("file:///data/t/metadata/v3-a.metadata.json", "00000"),
        ("file:///data/t/metadata/00003-a.json", "00000"),
        ("file:///data/t/metadata/-a.metadata.json", "00000"),
        ("file:///data/t/metadata/٣-a.metadata.json", "00000"),
        ("file:///data/t/metadata/" + "9" * 5000 + "-a.metadata.json", "00000"),
        ("", "00000"),
    ],
)
def test_version_number_follows_the_previous_file(previous: str | None, number: str) -> None:
    assert named(previous) == f"file:///data/t/metadata/{number}-{UUID}.metadata.json"


def test_names_are_unique_per_attempt() -> None:
    ids = CountedIds()
    assert codec.new_location(table(), None, ids) != codec.new_location(table(), None, ids)


def test_metadata_path_and_compression() -> None:
    assert (
        named(None, **{"write.metadata.path": "file:///elsewhere/"})
        == f"file:///elsewhere/00000-{UUID}.metadata.json"
    )
    gzipped = f"file:///data/t/metadata/00000-{UUID}.gz.metadata.json"
    assert named(None, **{"write.metadata.compression-codec": "GZIP"}) == gzipped
    plain = f"file:///data/t/metadata/00000-{UUID}.metadata.json"
    for name in ("none", "", "brotli"):
        assert named(None, **{"write.metadata.compression-codec": name}) == plain


@pytest.mark.parametrize("location", [PLAIN, GZIPPED])
def test_write_and_read_back(location: str) -> None:
    files, metadata = store(), table()
    raw = codec.write(files, location, metadata)
    assert raw == metadata.to_bytes()
    assert files.get(location) == codec.encode(metadata, location)
    assert (files.get(location) == raw) == (location == PLAIN)
    assert codec.read(files, location) == metadata
    with pytest.raises(AlreadyExists):
        codec.write(files, location, metadata)


def test_encoding_is_repeatable() -> None:
    assert codec.encode(table(), GZIPPED) == codec.encode(table(), GZIPPED)


def test_gzip_is_known_by_its_first_bytes_and_by_old_names() -> None:
    files, metadata = store(), table()
    files.put(PLAIN, gzip.compress(metadata.to_bytes()))
    assert codec.read(files, PLAIN) == metadata
    old = "memory://b/t/metadata/v1.metadata.json.gz"
    files.put(old, codec.encode(metadata, old))
    assert codec.read(files, old) == metadata


def test_gzip_of_countless_members_is_refused_early() -> None:
    files = store()
    files.put(GZIPPED, gzip.compress(b"") * 1000)
    with pytest.raises(Invalid, match="more than 64 members"):
        codec.read(files, GZIPPED)


def test_gzip_of_several_members() -> None:
    files, metadata = store(), table()
    raw = metadata.to_bytes()
    files.put(GZIPPED, gzip.compress(raw[:50]) + gzip.compress(raw[50:]))
    assert codec.read(files, GZIPPED) == metadata


def test_missing_file() -> None:
    with pytest.raises(NoSuchFile) as caught:
        codec.read(store(), PLAIN)
    assert caught.value.message == f"Failed to open input stream for file: {PLAIN}"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not valid JSON"),
        (b"root:x:0:0", "not valid JSON"),
        (b"[1]", "table metadata is not a JSON object with format-version 1, 2 or 3"),
        (gzip.compress(table().to_bytes())[:-10], "not valid gzip: the file is cut short"),
        (gzip.compress(table().to_bytes()) + b"rest", "not valid gzip"),
        (b"\x1f\x8b" + b"junk" * 9, "not valid gzip"),
    ],
)
def test_what_is_not_metadata(data: bytes, text: str) -> None:
    files = store()
    files.put(PLAIN, data)
    with pytest.raises(Invalid) as caught:
        codec.read(files, PLAIN)
    assert caught.value.message.startswith(f"Cannot read table metadata from {PLAIN}: {text}")


def test_gz_name_without_gzip_inside() -> None:
    files = store()
    files.put(GZIPPED, table().to_bytes())
    with pytest.raises(Invalid, match="not valid gzip"):
        codec.read(files, GZIPPED)


def test_size_is_capped_before_and_while_decompressing() -> None:
    files, raw = store(), table().to_bytes()
    files.put(PLAIN, raw)
    files.put(GZIPPED, gzip.compress(raw))
    for location in (PLAIN, GZIPPED):
        assert codec.read(files, location, max_bytes=len(raw)) == table()
        with pytest.raises(TooLarge) as caught:
            codec.read(files, location, max_bytes=len(raw) - 1)
        assert caught.value.message == (
            f"Cannot read table metadata from {location}: more than {len(raw) - 1} bytes"
        )
    with pytest.raises(TooLarge):
        codec.read(files, GZIPPED, max_bytes=10)


def test_gzip_bomb_is_stopped_early() -> None:
    packer = zlib.compressobj(9, wbits=31)
    chunk = bytes(1 << 20)
    bomb = b"".join([*(packer.compress(chunk) for _ in range(300)), packer.flush()])
    assert len(bomb) < 400_000
    files = store()
    files.put(GZIPPED, bomb)
    with pytest.raises(TooLarge):
        codec.read(files, GZIPPED, max_bytes=1 << 20)
    files.put(PLAIN, bomb * 3)
    with pytest.raises(TooLarge):
        codec.read(files, PLAIN, max_bytes=1 << 20)


def test_values_are_capped_before_they_are_parsed() -> None:
    files = store()
    files.put(PLAIN, b'{"snapshots":[' + b"{}," * 1000 + b"@not JSON@")
    with pytest.raises(TooLarge, match="more than 1000 values"):
        codec.read(files, PLAIN, max_values=1000)
    files.put(GZIPPED, gzip.compress(table().to_bytes()))
    assert codec.read(files, GZIPPED, max_values=1000) == table()


def test_nothing_is_written_that_could_not_be_read_again() -> None:
    files, size = store(), len(table().to_bytes())
    with pytest.raises(TooLarge, match=f"would have {size} bytes; at most {size - 1} are read again"):
        codec.write(files, GZIPPED, table(), max_bytes=size - 1)
    assert not files.exists(GZIPPED)
    codec.write(files, GZIPPED, table(), max_bytes=size)
    assert codec.read(files, GZIPPED, max_bytes=size) == table()


def test_one_request_reads_a_file_and_never_more_than_the_bound() -> None:
    store = Counting(MemoryObjectStore(SystemClock()))
    codec.write(store, PLAIN, table())
    size = len(store.get(PLAIN))
    store.reset()
    codec.read(store, PLAIN)
    assert dict(store.calls) == {"get": 1}
    store.reset()
    with pytest.raises(TooLarge):
        codec.read(store, PLAIN, max_bytes=10)
    assert (store.bytes_read, size > 11) == (11, True)
