"""Objects made of ranges of others: how S3's parts are cut, what fails on the way, what the local system copies."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.errors import NoSuchFile, Unavailable
from table_format.io import kernel_copy, s3_compose
from table_format.io.local import LocalObjectStore
from table_format.io.resolve import store_for
from table_format.io.s3_compose import LEAST_PART, MOST_PART, Sent, parts_of, size_of
from table_format.io.store import Piece, Range
from tests.s3 import S3Server
from tests.s3_faults import Fault, faulty

MIB = 1 << 20
sizes = st.one_of(st.integers(0, 3), st.integers(0, 12 * MIB), st.integers(MOST_PART - 5, 3 * MOST_PART + 5))
ranges = st.builds(
    lambda path, start, size: Range(path=path, start=start, end=start + size),
    st.sampled_from("ab"),
    sizes,
    sizes,
)
pieces = st.lists(st.one_of(ranges, st.binary(max_size=9)), max_size=9)


def spelt(parts: list[Any]) -> list[tuple[str, int, int] | bytes]:
    """The content that pieces stand for, neighbouring ranges joined."""
    told: list[tuple[str, int, int] | bytes] = []
    for piece in parts:
        if isinstance(piece, bytes):
            if told and isinstance(told[-1], bytes):
                told[-1] += piece
            elif piece:
                told.append(piece)
        elif piece.size:
            last = told[-1] if told else None
            if isinstance(last, tuple) and last[0] == piece.path and last[2] == piece.start:
                told[-1] = (last[0], last[1], piece.end)
            else:
                told.append((piece.path, piece.start, piece.end))
    return told


@given(wanted=pieces)
def test_parts_are_the_pieces_and_large_enough(wanted: list[Piece]) -> None:
    parts = parts_of(wanted)
    flat = [piece for part in parts for piece in (part.pieces if isinstance(part, Sent) else [part])]
    assert spelt(flat) == spelt(wanted)
    made = [part.size for part in parts]
    assert all(size >= LEAST_PART for size in made[:-1])
    assert all(size <= MOST_PART for size in made)
    assert all(made)
    sent = sum(part.size for part in parts if isinstance(part, Sent))
    assert sent <= sum(max(LEAST_PART, len(p) if isinstance(p, bytes) else 0) * 2 for p in wanted)


@given(large=st.lists(st.integers(LEAST_PART, 200 * MIB), min_size=1, max_size=9), end=st.binary(max_size=99))
def test_nothing_of_large_ranges_is_fetched(large: list[int], end: bytes) -> None:
    parts = parts_of([*(Range(path="a", start=4, end=4 + size) for size in large), end])
    assert [part.pieces for part in parts if isinstance(part, Sent)] == ([[end]] if end else [])


def test_an_object_of_terabytes_has_no_more_parts_than_s3_takes() -> None:
    parts = parts_of([Range(path="a", start=0, end=1 << 42), b"end"])
    assert len(parts) <= 10_000
    assert sum(map(size_of, parts[:-1])) == 1 << 42  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def bucket(s3: S3Server) -> str:
    return s3.bucket()


def unfinished(s3: S3Server, base: str) -> list[str]:
    bucket, prefix = base.split("/", 3)[2:]
    found = s3.client().list_multipart_uploads(Bucket=bucket, Prefix=prefix)
    return [upload["Key"] for upload in found.get("Uploads", [])]


@pytest.mark.parametrize("fails", ["copy", "send", "complete"])
def test_an_upload_that_fails_leaves_neither_object_nor_parts(s3: S3Server, bucket: str, fails: str) -> None:
    base = f"s3://{bucket}/{fails}"
    with faulty(s3) as proxy:
        store = store_for(base, {**proxy.server.properties, "s3.retry.num-retries": "0"})
        store.put(f"{base}/a", bytes(6 * MIB))
        source = Range(path=f"{base}/a", start=0, end=6 * MIB, etag=store.head(f"{base}/a").etag)
        pattern = {"copy": "PUT .*partNumber=2", "send": "PUT .*partNumber=3", "complete": "POST .*uploadId"}[
            fails
        ]
        proxy.faults.append(Fault(kind="failed", pattern=pattern, times=1000))
        with pytest.raises(Unavailable):
            store.compose(f"{base}/x", [source, source, b"end"], lambda: None)
        assert not store.exists(f"{base}/x")
        assert unfinished(s3, base) == []


def test_every_request_of_a_composition_survives_a_fault(s3: S3Server, bucket: str) -> None:
    base = f"s3://{bucket}/again"
    with faulty(s3) as proxy:
        store = store_for(base, proxy.server.properties)
        data = os.urandom(6 * MIB)
        store.put(f"{base}/a", data)
        source = Range(path=f"{base}/a", start=0, end=6 * MIB, etag=store.head(f"{base}/a").etag)
        for pattern in ("POST .*uploads", "partNumber=1", "partNumber=2", "partNumber=3", "POST .*uploadId"):
            proxy.faults.append(Fault(kind="answer_lost", pattern=pattern))
        store.compose(f"{base}/x", [source, source, b"end"], lambda: None)
        assert [fault.times for fault in proxy.faults] == [0] * 5
        assert store.get(f"{base}/x") == data + data + b"end"


def test_a_large_source_that_is_replaced_or_gone_is_noticed_by_the_store(s3: S3Server, bucket: str) -> None:
    base = f"s3://{bucket}/replaced"
    store = store_for(base, s3.properties)
    store.put(f"{base}/a", bytes(6 * MIB))
    source = Range(path=f"{base}/a", start=0, end=6 * MIB, etag=store.head(f"{base}/a").etag)
    store.put(f"{base}/a", b"1" * (6 * MIB))
    with pytest.raises(Unavailable, match="/a was replaced"):
        store.compose(f"{base}/x", [source, b"end"], lambda: None)
    store.delete_many([f"{base}/a"])
    with pytest.raises(NoSuchFile, match="/a"):
        store.compose(f"{base}/x", [source, b"end"], lambda: None)
    assert [info.path for info in store.list(base)] == []
    assert unfinished(s3, base) == []


# --- the local system ------------------------------------------------------------------------------------------


def joined(tmp_path: Path, data: bytes) -> tuple[bytes, int]:
    store = LocalObjectStore()
    base = f"file://{tmp_path}"
    store.put(f"{base}/a", data)
    piece = Range(path=f"{base}/a", start=1, end=len(data), etag=store.head(f"{base}/a").etag)
    through = store.compose(f"{base}/x", [b"<", piece, b">"], lambda: None)
    return store.get(f"{base}/x"), through


@pytest.mark.parametrize(
    "trouble", ["none", "no-such-call", "refused", "refused-midway", "answers-nought", "short"]
)
def test_bytes_are_copied_whatever_the_system_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    monkeypatch.setattr(kernel_copy, "CHUNK_BYTES", 1000)
    calls: list[int] = []
    real = getattr(os, "copy_file_range", None)

    def system(source: int, target: int, size: int, *, offset_src: int) -> int:
        calls.append(size)
        if trouble == "refused" or (trouble == "refused-midway" and len(calls) == 3):
            raise OSError(errno.EXDEV, "other file system")
        if trouble == "answers-nought":
            return 0
        assert real is not None
        return int(real(source, target, min(size, 7) if trouble == "short" else size, offset_src=offset_src))

    if trouble == "no-such-call":
        monkeypatch.setattr(kernel_copy, "_BY_SYSTEM", False)
    monkeypatch.setattr(os, "copy_file_range", system, raising=False)
    data = os.urandom(9_876)
    found, through = joined(tmp_path, data)
    assert found == b"<" + data[1:] + b">"
    expected = {"none": 2, "short": 2, "refused-midway": 9_877 - 2_000}.get(trouble, 9_877)
    assert through == expected
    assert bool(calls) is (trouble != "no-such-call")


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def system(*_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", system, raising=False)
    with pytest.raises(Unavailable, match="No space"):
        joined(tmp_path, b"0123456789")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


def test_a_local_source_that_is_written_into_while_it_is_copied_is_noticed(tmp_path: Path) -> None:
    store = LocalObjectStore()
    base = f"file://{tmp_path}"
    store.put(f"{base}/a", bytes(1000))
    source = Range(path=f"{base}/a", start=0, end=1000, etag=store.head(f"{base}/a").etag)
    asked: list[int] = []

    def write_into() -> None:
        asked.append(1)
        if len(asked) == 2:  # the source is open by now
            with (tmp_path / "a").open("r+b") as file:
                file.write(b"other")
                os.utime(file.fileno(), ns=(1, 1))

    with pytest.raises(Unavailable, match="/a was replaced"):
        store.compose(f"{base}/x", [source], write_into)
    assert not store.exists(f"{base}/x")


def test_the_parts_of_the_protocol_are_those_of_the_module() -> None:
    assert (s3_compose.LEAST_PART, s3_compose.MOST_PART) == (5 * MIB, 64 * MIB)
