"""Murmur3 (x86, 32 bit, seed 0), as the specification's bucket transform wants it (Appendix B).

Works a column at a time on Arrow kernels, whose unsigned arithmetic wraps around as the algorithm needs it. Nulls
stay null.
"""

import pyarrow as pa

from table_format.schema.arrow import ArrowArray, compute

_C1 = 0xCC9E2D51
_C2 = 0x1B873593
_MASK = 0xFFFFFFFF
_U32 = pa.uint32()
_LONG_VALUE = 256
"""Bytes up to which columns are hashed block by block; beyond, the rounds of kernel calls cost more than a loop."""


def murmur3(data: bytes) -> int:
    """The hash of one value as an unsigned number."""
    hashed = 0
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        hashed ^= _mixed(int.from_bytes(data[start : start + 4], "little"))
        hashed = ((hashed << 13 | hashed >> 19) * 5 + 0xE6546B64) & _MASK
    hashed ^= _mixed(int.from_bytes(data[whole:], "little")) ^ len(data)
    hashed = ((hashed ^ hashed >> 16) * 0x85EBCA6B) & _MASK
    hashed = ((hashed ^ hashed >> 13) * 0xC2B2AE35) & _MASK
    return hashed ^ hashed >> 16


def _mixed(block: int) -> int:
    block = block * _C1 & _MASK
    return (block << 15 | block >> 17) * _C2 & _MASK


def hash_longs(values: ArrowArray) -> ArrowArray:
    """Hashes (uint32) of int64 values, each hashed as eight bytes."""
    raw = values.view(pa.uint64())
    low = compute.bit_wise_and(raw, _u64(_MASK)).cast(_U32)
    high = compute.shift_right(raw, _u64(32)).cast(_U32)
    start = _scalar(0)
    return _finish(_round(_round(start, low), high), _scalar(8))


def hash_bytes(values: ArrowArray) -> ArrowArray:
    """Hashes (uint32) of binary values of any length."""
    values = values.cast(pa.large_binary())
    lengths = compute.fill_null(compute.binary_length(values).cast(pa.int64()), -1)
    rows = pa.array(range(len(values)), pa.int64())
    long = compute.greater(lengths, _LONG_VALUE)
    one_by_one = values.filter(long)
    done = [
        (
            rows.filter(compute.equal(lengths, -1)),
            pa.nulls(compute.sum(compute.equal(lengths, -1)).as_py() or 0, _U32),
        ),
        (rows.filter(long), pa.array([murmur3(value.as_py()) for value in one_by_one], _U32)),
    ]
    blockwise = compute.and_(compute.greater_equal(lengths, 0), compute.invert(long))
    done += _hash_by_blocks(rows.filter(blockwise), values.filter(blockwise), lengths.filter(blockwise))
    order = compute.sort_indices(pa.concat_arrays([part for part, _ in done]))
    return pa.concat_arrays([hashes for _, hashes in done]).take(order)


def _hash_by_blocks(
    rows: ArrowArray, values: ArrowArray, lengths: ArrowArray
) -> list[tuple[ArrowArray, ArrowArray]]:
    """Hashes with the rows they belong to; a row leaves the working set when its last block is reached."""
    done = []
    hashes = pa.array([0] * len(rows), _U32)
    start = 0
    while len(rows):
        ended = compute.less(lengths, start + 4)
        if compute.any(ended).as_py():
            tail = _blocks(values.filter(ended), start)
            total = lengths.filter(ended).cast(_U32)
            last = compute.bit_wise_xor(hashes.filter(ended), _mix(tail))
            done.append((rows.filter(ended), _finish(last, total)))
            going = compute.invert(ended)
            rows, values, lengths, hashes = (
                column.filter(going) for column in (rows, values, lengths, hashes)
            )
        hashes = _round(hashes, _blocks(values, start))
        start += 4
    return done


def _blocks(values: ArrowArray, start: int) -> ArrowArray:
    """Four bytes of each value as a little-endian number, zeros where the value has ended."""
    four = compute.binary_slice(values, start, start + 4)
    empty, zeros = (pa.scalar(text, pa.large_binary()) for text in (b"", bytes(4)))
    padded = compute.binary_slice(compute.binary_join_element_wise(four, zeros, empty), 0, 4)
    return padded.cast(pa.binary(4)).view(_U32)


def _round(hashes: ArrowArray, blocks: ArrowArray) -> ArrowArray:
    mixed = _rotate(compute.bit_wise_xor(hashes, _mix(blocks)), 13)
    return compute.add(compute.multiply(mixed, _scalar(5)), _scalar(0xE6546B64))


def _mix(blocks: ArrowArray) -> ArrowArray:
    return compute.multiply(_rotate(compute.multiply(blocks, _scalar(_C1)), 15), _scalar(_C2))


def _finish(hashes: ArrowArray, lengths: ArrowArray) -> ArrowArray:
    hashes = compute.bit_wise_xor(hashes, lengths)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashes = compute.multiply(_fold(hashes, shift), _scalar(factor))
    return _fold(hashes, 16)


def _fold(hashes: ArrowArray, shift: int) -> ArrowArray:
    return compute.bit_wise_xor(hashes, compute.shift_right(hashes, _scalar(shift)))


def _rotate(values: ArrowArray, by: int) -> ArrowArray:
    left = compute.shift_left(values, _scalar(by))
    return compute.bit_wise_or(left, compute.shift_right(values, _scalar(32 - by)))


def _scalar(number: int) -> ArrowArray:
    return pa.scalar(number, _U32)


def _u64(number: int) -> ArrowArray:
    return pa.scalar(number, pa.uint64())
