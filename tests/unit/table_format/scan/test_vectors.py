"""Deletion vectors: read right or refused with a reason."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.errors import Invalid, NoSuchFile
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import Content, DataFile
from table_format.scan.vectors import Vector, read_vector
from tests.factories.vectors import framed, packed, put_vector
from tests.fakes.clock import ManualClock

PATH = "memory://w/v.puffin"
DATA = DataFile(file_path="memory://w/d.parquet", record_count=10, file_size_in_bytes=1)


@pytest.fixture
def store() -> MemoryObjectStore:
    return MemoryObjectStore(ManualClock())


def read_blob(blob: bytes, records: int) -> Vector:
    store = MemoryObjectStore(ManualClock())
    store.put(PATH, blob)
    file = DataFile(
        content=Content.POSITION_DELETES,
        file_path=PATH,
        file_format="PUFFIN",
        record_count=records,
        file_size_in_bytes=len(blob),
        referenced_data_file=DATA.file_path,
        content_offset=0,
        content_size_in_bytes=len(blob),
    )
    return read_vector(store, file)


def all_of(vector: Vector) -> list[int]:
    return [int(position) for part in vector.positions() for position in part]


ranges = st.tuples(
    st.sampled_from([0, 65_530, 131_072, 2**32 - 4, 2**33]), st.integers(0, 9000), st.integers(1, 4)
)


@given(st.lists(ranges, max_size=8), st.booleans(), st.tuples(st.integers(0, 2**34), st.integers(0, 2**17)))
def test_positions_are_those_that_the_library_wrote(
    spans: list[tuple[int, int, int]], runs: bool, window: tuple[int, int]
) -> None:
    wanted = sorted({at for start, length, step in spans for at in range(start, start + length, step)})
    vector = read_blob(framed(packed(wanted, runs=runs)), len(wanted))
    assert all_of(vector) == wanted
    for start, rows in (window, (0, 2**35), (65_530, 20), (2**32 - 2, 4)):
        inside = vector.within(start, start + rows).tolist()
        assert inside == [at for at in wanted if start <= at < start + rows]


def test_every_kind_of_container(store: MemoryObjectStore) -> None:
    spread = range(0, 65_536, 2)
    kinds = [[], [5], list(spread), list(range(65_536)), list(range(70_000, 80_000))]
    for wanted, runs in itertools.product(kinds, (False, True)):
        vector = read_blob(framed(packed(wanted, runs=runs)), len(wanted))
        assert all_of(vector) == list(wanted)
    file = put_vector(store, PATH, DATA, [1, 7])
    assert read_vector(store, file).within(2, 10).tolist() == [7]


def test_any_wrong_byte_is_noticed() -> None:
    blob = framed(packed([3, 70_000, 2**33]))
    for at in range(len(blob)):
        bad = bytearray(blob)
        bad[at] ^= 0x10
        with pytest.raises(
            Invalid, match=r"the deletion vector of memory://w/d\.parquet in memory://w/v\.puffin"
        ):
            read_blob(bytes(bad), 3)


@given(st.data())
def test_no_bitmap_with_a_right_checksum_breaks_the_reader(data: st.DataObject) -> None:
    raw = bytearray(packed([1, 2, 3, 9, 70_000, *range(100_000, 105_000)], runs=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw
    try:
        vector = read_blob(framed(bytes(raw)), 5005)
    except Invalid:
        return
    found = all_of(vector)
    assert found == sorted(set(found))
    assert len(found) == 5005


NUMBERS = [
    ("its bitmaps are not in order", packed([1])[:8] + b"\xff\xff\xff\xff" + packed([1])[12:]),
    ("a bitmap of it begins with", packed([1])[:12] + b"\x00" + packed([1])[13:]),
    ("bytes follow", packed([1]) + b"\x00"),
    ("cut off", packed([1])[:-1]),
    ("another content", packed([1, 2])[:-4] + b"\x02\x00\x01\x00"),
]


@pytest.mark.parametrize(("reason", "bitmap"), NUMBERS)
def test_bitmaps_that_are_none_are_refused(reason: str, bitmap: bytes) -> None:
    with pytest.raises(Invalid, match=reason):
        read_blob(framed(bitmap), 1)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"record_count": 3}, "deletes 2 rows, its manifest says 3"),
        ({"content_offset": None}, "does not say where it is"),
        ({"content_size_in_bytes": None}, "does not say where it is"),
        ({"content_offset": -1}, "cannot be at -1"),
        ({"content_size_in_bytes": 11}, "with 11 bytes"),
        ({"content_offset": 5}, "its length is another"),
        ({"content_size_in_bytes": 2**31}, "cannot be at 4"),
        ({"content_size_in_bytes": 4000}, "bytes of its 4000"),
    ],
)
def test_entries_that_do_not_fit_the_file(
    store: MemoryObjectStore, more: dict[str, Any], reason: str
) -> None:
    file = replace(put_vector(store, PATH, DATA, [1, 2]), **more)
    with pytest.raises(Invalid, match=reason):
        read_vector(store, file)


def test_puffin_file_that_is_gone(store: MemoryObjectStore) -> None:
    file = put_vector(store, PATH, DATA, [1])
    store.delete_many([PATH])
    with pytest.raises(NoSuchFile):
        read_vector(store, file)
