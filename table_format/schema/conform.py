"""Record batches brought into a table's Arrow schema, exactly or not at all.

Columns are matched by field id where the batch carries ids, else by name. Only lossless casts are made: a number
never becomes a timestamp, a zone is never dropped, nothing overflows. A row that misses a required value, or a
column that the table does not have, is refused by name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from table_format.errors import Invalid
from table_format.schema.arrow import (
    ArrowArray,
    ArrowField,
    ArrowType,
    compute,
    field_id,
    is_binary,
    is_list,
    is_string,
    kinds,
)

_UUID_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows at one level: how many, and which do not exist because a struct above them is null."""

    count: int
    absent: ArrowArray | None = None

    @property
    def present_count(self) -> int:
        return self.count - (0 if self.absent is None else self.absent.true_count)


def conform(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns, order, types and nullability of `target`; missing optional columns are null.

    Columns at the top level may be dictionaries in `target`, as `dictionaries.with_dictionaries` makes them.

    Raises:
        Invalid: a required value is missing, a column is unknown to the table, or a value does not fit its type.
    """
    arrays = _columns(list(target), list(batch.schema), batch.columns, _Rows(batch.num_rows), "")
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def conform_array(array: ArrowArray, target: ArrowType, path: str) -> ArrowArray:
    """One column in the target type; null may stay null.

    Raises:
        Invalid: a value does not fit.
    """
    return _cast(_decoded(array), target, _Rows(len(array)), path)


def _columns(
    wanted: Sequence[ArrowField],
    have: Sequence[ArrowField],
    columns: Sequence[ArrowArray],
    rows: _Rows,
    prefix: str,
) -> list[ArrowArray]:
    by_id = bool(have) and all(field_id(field) is not None for field in have)
    keys = [field_id(field) if by_id else field.name for field in have]
    if len(set(keys)) != len(keys):
        raise Invalid(f"columns {[prefix + field.name for field in have]} are not all different")
    place = {key: position for position, key in enumerate(keys)}
    result = []
    for field in wanted:
        position = place.pop(field_id(field) if by_id else field.name, None)
        path = prefix + field.name
        if position is not None:
            result.append(_column(columns[position], field, rows, path))
        elif field.nullable or rows.present_count == 0:
            nulls = pa.nulls(rows.count, field.type)
            result.append(nulls if field.nullable else _solid(nulls))
        else:
            raise Invalid(f"column {path!r} is required, but the rows do not have it")
    if place:
        unknown = sorted(prefix + have[position].name for position in place.values())
        raise Invalid(f"the table has no column {', '.join(map(repr, unknown))}; add it to the schema first")
    return result


def _column(array: ArrowArray, field: ArrowField, rows: _Rows, path: str) -> ArrowArray:
    if kinds.is_dictionary(field.type):
        return _dictionary(array, field, rows, path)
    array = _decoded(array)
    if field.nullable:
        return _cast(array, field.type, rows, path)
    if missing := array.null_count - (rows.count - rows.present_count):
        raise Invalid(f"column {path!r} is required, but null in {missing} of {rows.present_count} rows")
    # A file cannot say null in a required column, not even below a null struct: any value stands there unread.
    result = _cast(array, field.type, rows, path)
    return _solid(result) if result.null_count else result


def _dictionary(array: ArrowArray, field: ArrowField, rows: _Rows, path: str) -> ArrowArray:
    """A column at the top level that stays a dictionary of its values, or becomes one."""
    if array.type != field.type or array.dictionary.null_count:
        plain = field.with_type(field.type.value_type)
        return _column(array, plain, rows, path).dictionary_encode()
    if array.null_count and not field.nullable:
        raise Invalid(f"column {path!r} is required, but null in {array.null_count} of {rows.count} rows")
    return array


def _decoded(array: ArrowArray) -> ArrowArray:
    # Arrow hides nulls inside a dictionary's values and behind run ends: decode before counting.
    if kinds.is_dictionary(array.type):
        return array.dictionary_decode()
    return compute.run_end_decode(array) if kinds.is_run_end_encoded(array.type) else array


def _cast(array: ArrowArray, target: ArrowType, rows: _Rows, path: str) -> ArrowArray:
    have = array.type
    if kinds.is_null(have):
        return pa.nulls(len(array), target)
    if kinds.is_struct(target) and kinds.is_struct(have):
        return _struct(array, target, rows, path)
    if kinds.is_map(target) and kinds.is_map(have):
        return _map(array, target, path)
    if is_list(target) and is_list(have):
        return _list(array, target, path)
    if have == target:
        return array
    if not _lossless(have, target):
        raise Invalid(f"column {path!r} is {target}, the rows have {have}")
    return _cast_primitive(array, target, path)


def _struct(array: ArrowArray, target: ArrowType, rows: _Rows, path: str) -> ArrowArray:
    fields = list(target)
    if not fields:
        raise Invalid(f"column {path!r} is a struct without fields, which no data file can hold")
    absent = compute.is_null(array) if array.null_count else None
    inside = _Rows(rows.count, absent)
    flat = array.flatten()  # pushes the struct's own nulls down into its children
    arrays = _columns(fields, list(array.type), flat, inside, f"{path}.")
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=absent)


def _list(array: ArrowArray, target: ArrowType, path: str) -> ArrowArray:
    element = target.value_field
    values = array.flatten()  # leaves out what null lists may still hold
    values = _column(values, element, _Rows(len(values)), f"{path}.element")
    return pa.LargeListArray.from_arrays(_offsets(array), values, type=target, mask=_mask(array))


def _map(array: ArrowArray, target: ArrowType, path: str) -> ArrowArray:
    have, wanted = array.type, target
    entries = pa.list_(pa.struct([have.key_field.with_name("key"), have.item_field.with_name("value")]))
    listed = array.cast(entries)
    keys, values = listed.flatten().flatten()
    rows = _Rows(len(keys))
    keys = _column(keys, wanted.key_field, rows, f"{path}.key")
    values = _column(values, wanted.item_field, rows, f"{path}.value")
    offsets = _offsets(listed).cast(pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, values, type=target, mask=_mask(array))


def _offsets(array: ArrowArray) -> Any:
    """Where each list begins among the values of all lists that are not null."""
    lengths = compute.fill_null(compute.list_value_length(array).cast(pa.int64()), 0)
    return pa.concat_arrays([pa.array([0], pa.int64()), compute.cumulative_sum(lengths)])


def _mask(array: ArrowArray) -> Any:
    return compute.is_null(array) if array.null_count else None


def _solid(array: ArrowArray) -> ArrowArray:
    """The array with some value in place of each null; what it holds inside is solid already."""
    arrow, inner = array.type, array
    if kinds.is_struct(arrow):
        fields = list(arrow)
        parts = [inner.field(place) for place in range(len(fields))]
        solid = [part if field.nullable else _solid(part) for part, field in zip(parts, fields, strict=True)]
        return pa.StructArray.from_arrays(solid, fields=fields)
    if kinds.is_large_list(arrow):
        return pa.LargeListArray.from_arrays(_offsets(array), inner.flatten(), type=arrow)
    if kinds.is_map(arrow):
        return pa.MapArray.from_arrays(inner.offsets, inner.keys, inner.items, type=arrow)
    if arrow == pa.uuid():
        filled = compute.fill_null(inner.storage, bytes(_UUID_BYTES))
        return pa.ExtensionArray.from_storage(pa.uuid(), filled)
    return compute.fill_null(inner, _zero(arrow))


def _zero(arrow: ArrowType) -> Any:
    if is_string(arrow):
        return pa.scalar("", arrow)
    if is_binary(arrow):
        return pa.scalar(b"", arrow)
    if kinds.is_fixed_size_binary(arrow):
        return pa.scalar(bytes(arrow.byte_width), arrow)
    number = pa.int32() if kinds.is_date32(arrow) or kinds.is_boolean(arrow) else pa.int64()
    return pa.array([0], number).cast(arrow)[0]


def _lossless(have: ArrowType, target: ArrowType) -> bool:
    """Whether values of `have` may be cast at all; the cast itself still refuses what does not fit."""
    if kinds.is_floating(target) and kinds.is_floating(have):
        return bool(have.bit_width <= target.bit_width)
    if kinds.is_timestamp(target) and kinds.is_timestamp(have):
        return (have.tz is None) == (target.tz is None)
    return any(to(target) and any(source(have) for source in sources) for to, sources in _CASTS)


_IS_BYTES = (is_binary, kinds.is_fixed_size_binary)
_CASTS: tuple[tuple[Callable[[ArrowType], bool], tuple[Callable[[ArrowType], bool], ...]], ...] = (
    (kinds.is_integer, (kinds.is_integer,)),
    (kinds.is_floating, (kinds.is_integer,)),
    (kinds.is_decimal, (kinds.is_integer, kinds.is_decimal)),
    (is_string, (is_string,)),
    (is_binary, _IS_BYTES),
    (kinds.is_fixed_size_binary, _IS_BYTES),
    (lambda target: bool(target == pa.uuid()), _IS_BYTES),
    (kinds.is_date, (kinds.is_date,)),
    (kinds.is_time, (kinds.is_time,)),
)


def _cast_primitive(array: ArrowArray, target: ArrowType, path: str) -> ArrowArray:
    try:
        if target == pa.uuid():
            stored = array.cast(pa.binary(_UUID_BYTES))
            return pa.ExtensionArray.from_storage(pa.uuid(), stored)
        if kinds.is_decimal(target) and kinds.is_integer(array.type):
            # Arrow wants room for any integer of that width, then looks at the values.
            array = array.cast(pa.decimal256(76, target.scale))
        return array.cast(target)
    except pa.ArrowException as error:
        if isinstance(error, MemoryError):
            raise
        raise Invalid(f"column {path!r} is {target}: a value does not fit ({error})") from None
