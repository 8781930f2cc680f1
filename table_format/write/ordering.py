"""Sort orders as byte strings: rows compare as the bytes of their keys do ("Sorting" in the specification).

One key stands for all fields of an order. Every field's part begins with a byte that puts nulls first or last and, in
a `desc` field, has its other bits inverted; it is never the beginning of another part, so that parts may be joined.
Floats are ordered by their bits: -NaN, -infinity, ..., -0.0, 0.0, ..., infinity, NaN.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.errors import Unsupported
from table_format.jsontypes import JsonObject
from table_format.schema.arrow import ArrowArray, compute, kinds
from table_format.schema.types import fields_by_id
from table_format.write.partition import DerivedColumn, derived_column, derived_values

_Bytes: TypeAlias = "npt.NDArray[np.uint8]"

Z_FIELDS: Final = 8
"""Fields of a sort order that a z-order weaves together; more would leave each with too few of the leading bits."""
_Z_BYTES: Final = 8
_EMPTY: Final = pa.scalar(b"", pa.large_binary())
_LONG_DIGITS: Final = 18
"""Digits of a decimal up to which its lowest eight bytes hold all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    column: DerivedColumn
    descending: bool
    nulls_last: bool


class Ordering:
    """A table's sort order, resolved once; gives keys for any number of batches."""

    def __init__(self, order: JsonObject, schema: JsonObject) -> None:
        """Resolve the order's fields in the schema in which batches come.

        Raises:
            Invalid: a source column is not there, in a list or map, or not of a type that the transform takes.
            Unsupported: an unknown transform, one of several columns, or a column whose values have no order.
        """
        known = fields_by_id(schema)
        self._fields: list[_Field] = []
        for raw in order["fields"]:
            if "source-id" not in raw:
                raise Unsupported(f"sort field {raw['transform']!r} has several source columns")
            column = derived_column({**raw, "name": f"of sort order {order.get('order-id')}"}, known)
            if column.source.name == "unknown":
                raise Unsupported(f"column {column.lineage[-1].path!r} of type unknown has no order")
            self._fields.append(
                _Field(
                    column=column,
                    descending=raw["direction"].lower() == "desc",
                    nulls_last=raw["null-order"].lower() == "nulls-last",
                )
            )

    def keys(self, batch: pa.RecordBatch) -> ArrowArray:
        """A key (large_binary, never null) per row: the order of keys is the order of rows."""
        parts: list[ArrowArray] = []
        for field in self._fields:
            parts += _sort_parts(field, derived_values(field.column, batch))
        return compute.binary_join_element_wise(*parts, _EMPTY)

    def z_keys(self, batch: pa.RecordBatch) -> ArrowArray:
        """A key per row in which the bits of the first `Z_FIELDS` fields take turns, the highest first."""
        columns = [
            np.unpackbits(_z_bytes(field, derived_values(field.column, batch)), axis=1)
            for field in self._fields[:Z_FIELDS]
        ]
        woven = np.stack(columns, axis=2).reshape(batch.num_rows, len(columns) * _Z_BYTES * 8)
        return _binary(np.packbits(woven, axis=1))


def _sort_parts(field: _Field, values: ArrowArray) -> list[ArrowArray]:
    valid = _valid(values)
    marker = np.where(valid, 1, 2 if field.nulls_last else 0).astype(np.uint8).reshape(-1, 1)
    if _varies(values):
        return [_binary(marker), _inverted(_escaped(values)) if field.descending else _escaped(values)]
    fixed = _fixed(values)
    if field.descending:
        fixed = ~fixed
    fixed[~valid] = 0
    return [_binary(np.hstack([marker, fixed]))]


def _z_bytes(field: _Field, values: ArrowArray) -> _Bytes:
    valid = _valid(values)
    fixed = _leading(values)
    if field.descending:
        fixed = ~fixed
    fixed[~valid] = 255 if field.nulls_last else 0
    return fixed


def _valid(values: ArrowArray) -> "npt.NDArray[np.bool_]":
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _varies(values: ArrowArray) -> bool:
    return bool(kinds.is_large_string(values.type) or kinds.is_large_binary(values.type))


def _binary(matrix: _Bytes) -> ArrowArray:
    """The rows of a matrix as values."""
    rows, width = matrix.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    content = pa.py_buffer(np.ascontiguousarray(matrix).tobytes())
    return pa.Array.from_buffers(pa.large_binary(), rows, [None, pa.py_buffer(offsets.tobytes()), content])


def _escaped(values: ArrowArray) -> ArrowArray:
    """Bytes with an end that sorts before every continuation: 00 00, where a 00 inside became 00 FF."""
    plain = values.cast(pa.large_binary())
    marked = compute.replace_substring(plain, pattern=b"\x00", replacement=b"\x00\xff")
    ended = compute.binary_join_element_wise(marked, pa.scalar(b"\x00\x00", pa.large_binary()), _EMPTY)
    return ended.fill_null(b"")


def _inverted(values: ArrowArray) -> ArrowArray:
    _, offsets, content = values.buffers()
    flipped = ~np.frombuffer(b"" if content is None else content, np.uint8)
    return pa.Array.from_buffers(
        values.type, len(values), [None, offsets, pa.py_buffer(flipped.tobytes())], offset=values.offset
    )


def _fixed(values: ArrowArray) -> _Bytes:
    """Values of a type of fixed width as big-endian bytes in their order; what nulls give means nothing."""
    arrow: Any = values.type
    if arrow == pa.uuid():
        values = values.storage
        arrow = values.type
    if kinds.is_null(arrow):
        return np.zeros((len(values), 0), np.uint8)
    if kinds.is_fixed_size_binary(arrow):
        return _raw(values, arrow.byte_width).copy()
    if kinds.is_decimal(arrow):
        turned = _raw(values, arrow.bit_width // 8)[:, ::-1].copy()
        turned[:, 0] ^= 0x80
        return turned
    if kinds.is_floating(arrow):
        return _float_bytes(values.fill_null(0.0).to_numpy(zero_copy_only=False))
    if kinds.is_boolean(arrow):
        values = values.cast(pa.int32())
    elif kinds.is_temporal(arrow):
        values = values.cast(pa.int32() if kinds.is_date32(arrow) else pa.int64())
    if not kinds.is_integer(values.type):
        raise Unsupported(f"values of type {arrow} have no order")
    whole = values.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return _big_endian(whole.view(np.uint64) ^ np.uint64(1 << 63))


def _float_bytes(numbers: Any) -> _Bytes:
    unsigned: Any = np.uint32 if numbers.dtype == np.float32 else np.uint64
    top = unsigned(1 << (numbers.dtype.itemsize * 8 - 1))
    bits: Any = np.ascontiguousarray(numbers).view(unsigned)
    return _big_endian(np.where(bits & top, ~bits, bits | top))


def _big_endian(numbers: Any) -> _Bytes:
    width = numbers.dtype.itemsize
    ordered: _Bytes = numbers.byteswap().view(np.uint8).reshape(-1, width)
    return ordered


def _raw(values: ArrowArray, width: int) -> _Bytes:
    content = np.frombuffer(values.buffers()[1], np.uint8)
    start = values.offset * width
    return content[start : start + len(values) * width].reshape(-1, width)


def _leading(values: ArrowArray) -> _Bytes:
    """Eight bytes per value in the order of the values, as far as eight bytes can tell them apart."""
    if _varies(values):
        zeros = pa.scalar(bytes(_Z_BYTES), pa.large_binary())
        padded = compute.binary_join_element_wise(
            values.cast(pa.large_binary()).fill_null(b""), zeros, _EMPTY
        )
        return _raw(compute.binary_slice(padded, 0, _Z_BYTES).cast(pa.binary(_Z_BYTES)), _Z_BYTES).copy()
    if kinds.is_decimal(values.type):
        if values.type.precision > _LONG_DIGITS:
            # Its leading bytes are the same for all but the greatest numbers.
            return _float_bytes(values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False))
        whole = _raw(values, values.type.bit_width // 8)[:, _Z_BYTES - 1 :: -1].copy()
        whole[:, 0] ^= 0x80
        return whole
    fixed = _fixed(values)
    wide = np.zeros((len(fixed), _Z_BYTES), np.uint8)
    kept = fixed[:, :_Z_BYTES]
    wide[:, : kept.shape[1]] = kept
    return wide
