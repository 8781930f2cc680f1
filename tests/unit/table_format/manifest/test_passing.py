"""Going past what is not wanted ends where reading ends, whatever was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.manifest.decode import (
    Malformed,
    pass_bytes_map,
    pass_numbers,
    passing_numbers,
    read_bytes,
    read_count,
    read_long,
)

longs = st.integers(-(2**63), 2**63 - 1)


def varint(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def blocks(items: list[bytes], size: int, *, sized: bool) -> bytes:
    parts = []
    for start in range(0, len(items), size):
        some = items[start : start + size]
        body = b"".join(some)
        head = varint(-len(some)) + varint(len(body)) if sized else varint(len(some))
        parts.append(head + body)
    return b"".join(parts) + b"\0"


@given(st.lists(longs, max_size=300), st.integers(1, 200), st.booleans(), st.binary(max_size=3))
def test_arrays_of_numbers(numbers: list[int], size: int, sized: bool, rest: bytes) -> None:
    data = b"x" + blocks([varint(number) for number in numbers], size, sized=sized)
    assert passing_numbers(1)(data + rest, 1) == (None, len(data))
    pairs = b"x" + blocks([varint(number) + varint(~number) for number in numbers], size, sized=sized)
    assert passing_numbers(2)(pairs + rest, 1) == (None, len(pairs))


@given(
    st.lists(st.tuples(longs, st.binary(max_size=200)), max_size=100),
    st.integers(1, 90),
    st.booleans(),
    st.binary(max_size=3),
)
def test_maps_of_bytes(items: list[tuple[int, bytes]], size: int, sized: bool, rest: bytes) -> None:
    written = [varint(key) + varint(len(value)) + value for key, value in items]
    data = b"x" + blocks(written, size, sized=sized)
    assert pass_bytes_map(data + rest, 1) == (None, len(data))


@given(st.binary(max_size=60))
def test_any_bytes_end_as_reading_them_does(data: bytes) -> None:
    """What reading refuses may be passed over, never the other way round; and both end at the same place."""

    def read(position: int) -> int:
        while True:
            count, position = read_count(data, position)
            if count == 0:
                return position
            for _ in range(count):
                _, position = read_long(data, position)
                _, position = read_bytes(data, position)

    try:
        wanted = read(0)
    except (Malformed, IndexError):
        return
    assert pass_bytes_map(data, 0) == (None, wanted)


def test_what_is_cut_off_is_refused() -> None:
    with pytest.raises(Malformed):
        pass_numbers(b"\x80\x80", 0, 1)
    with pytest.raises(Malformed):
        pass_numbers(b"\x80" * 11 + b"\0", 0, 1)
    with pytest.raises((Malformed, IndexError)):
        passing_numbers(1)(b"\x04\x02", 0)
    for broken in (b"\x02\x02\x08ab", b"\x02\x02\x01", b"\x02\x02\xff\x01ab"):
        with pytest.raises((Malformed, IndexError)):
            pass_bytes_map(broken, 0)
