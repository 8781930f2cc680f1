"""Arrow columns of a data file projected to a table's columns by field id, at every level of nesting.

A projection is compiled once a file and applied to each batch. Columns that the file lacks are null, or constant
where the caller knows better; types are widened only as the spec's type promotion allows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

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

Convert: TypeAlias = Callable[[ArrowArray], ArrowArray]
_UUID_BYTES = 16


@dataclass(frozen=True, slots=True)
class FileField:
    """A field of a data file: its Iceberg id (None: not part of the table) and what is inside."""

    id: int | None
    name: str
    type: ArrowType
    children: "tuple[FileField, ...]" = ()
    meant: ArrowType = None
    """What the file says its values are, where its format has no such type and Arrow reads another."""


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file open for reading: its columns, and batches of those at some positions (a row count for none)."""

    fields: tuple[FileField, ...]
    batches: Callable[[Sequence[int], int], Iterator[Mapping[int, ArrowArray] | int]]


@dataclass(frozen=True, slots=True)
class Gaps:
    """What stands in for columns that the file does not have."""

    constants: Mapping[int, ArrowArray]
    """Identity partition values and initial defaults by field id, as columns of one row."""


NO_GAPS = Gaps({})


def inner_fields(arrow: ArrowType) -> list[ArrowField]:
    """The fields directly inside a struct, list (element) or map (key, value)."""
    if kinds.is_struct(arrow):
        return list(arrow)
    if kinds.is_map(arrow):
        return [arrow.key_field, arrow.item_field]
    return [arrow.value_field] if is_list(arrow) else []


def fields_with_ids(
    fields: Sequence[ArrowField], id_of: Callable[[ArrowField], int | None]
) -> tuple[FileField, ...]:
    """The fields with the ids that the file itself gives."""
    return tuple(
        FileField(id_of(field), field.name, field.type, fields_with_ids(inner_fields(field.type), id_of))
        for field in fields
    )


def has_ids(fields: Sequence[FileField]) -> bool:
    """Whether any field, at any level, has an id."""
    return any(field.id is not None or has_ids(field.children) for field in fields)


def find_leaf(fields: Sequence[FileField], wanted: int) -> tuple[list[int], FileField] | None:
    """The positions that lead, through structs only, to the field of that id."""
    for position, field in enumerate(fields):
        if field.id == wanted:
            return [position], field
        if kinds.is_struct(field.type) and (found := find_leaf(field.children, wanted)) is not None:
            return [position, *found[0]], found[1]
    return None


def missing(target: ArrowField, gaps: Gaps, path: str) -> Callable[[int], ArrowArray]:
    """A maker of columns, by length, for a field that the file does not have.

    Raises:
        Invalid: the field is required.
    """
    wanted = field_id(target)
    constant = gaps.constants.get(wanted) if wanted is not None else None
    if constant is not None:
        return lambda rows: _repeated(constant, target.type, rows)
    if not target.nullable:
        raise Invalid(f"required column {path!r} is not in the file")
    return lambda rows: pa.nulls(rows, target.type)


def _repeated(constant: ArrowArray, target: ArrowType, rows: int) -> ArrowArray:
    column = pa.repeat(constant[0], rows)
    return pa.ExtensionArray.from_storage(target, column) if target == pa.uuid() else column


def converter(source: FileField, target: ArrowField, gaps: Gaps, path: str) -> Convert:
    """The function that turns the file's column into the table's.

    Raises:
        Invalid: the file's type cannot become the table's, or a required field is missing inside.
    """
    have, want = source.type, target.type
    if kinds.is_struct(want) and kinds.is_struct(have):
        return _struct(source, target, gaps, path)
    if kinds.is_map(want) and kinds.is_map(have):
        return _map(source, want, gaps, path)
    if is_list(want) and is_list(have):
        return _list(source, want, gaps, path)
    if source.meant is not None:
        meant, as_meant = source.meant, _primitive(source.meant, want, path)
        return lambda array: as_meant(_cast(array, meant, path, safe=True))
    return _primitive(have, want, path)


def _struct(source: FileField, target: ArrowField, gaps: Gaps, path: str) -> Convert:
    fields = list(target.type)
    place = {child.id: position for position, child in enumerate(source.children)}
    steps: list[tuple[int | None, Callable[..., ArrowArray]]] = []
    for field in fields:
        position, inside = place.get(field_id(field)), f"{path}.{field.name}"
        if position is None:
            steps.append((None, missing(field, gaps, inside)))
        else:
            steps.append((position, converter(source.children[position], field, gaps, inside)))

    def convert(array: ArrowArray) -> ArrowArray:
        flat = array.flatten()
        arrays = [step(len(array)) if at is None else step(flat[at]) for at, step in steps]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=_mask(array))

    return convert


def _list(source: FileField, want: ArrowType, gaps: Gaps, path: str) -> Convert:
    element = converter(source.children[0], want.value_field, gaps, f"{path}.element")

    def convert(array: ArrowArray) -> ArrowArray:
        values = element(array.flatten())  # leaves out what null lists may still hold
        return pa.LargeListArray.from_arrays(_offsets(array), values, type=want, mask=_mask(array))

    return convert


def _map(source: FileField, want: ArrowType, gaps: Gaps, path: str) -> Convert:
    key = converter(source.children[0], want.key_field, gaps, f"{path}.key")
    value = converter(source.children[1], want.item_field, gaps, f"{path}.value")
    have = source.type
    entries = pa.list_(pa.struct([have.key_field.with_name("key"), have.item_field.with_name("value")]))

    def convert(array: ArrowArray) -> ArrowArray:
        listed = array.cast(entries)
        keys, values = listed.flatten().flatten()
        offsets = _offsets(listed).cast(pa.int32())
        return pa.MapArray.from_arrays(offsets, key(keys), value(values), type=want, mask=_mask(array))

    return convert


def _offsets(array: ArrowArray) -> Any:
    """Where each list begins among the values of all lists that are not null."""
    lengths = compute.fill_null(compute.list_value_length(array).cast(pa.int64()), 0)
    return pa.concat_arrays([pa.array([0], pa.int64()), compute.cumulative_sum(lengths)])


def _mask(array: ArrowArray) -> Any:
    return compute.is_null(array) if array.null_count else None


def _primitive(have: ArrowType, want: ArrowType, path: str) -> Convert:
    if kinds.is_dictionary(have):
        decoded = _primitive(have.value_type, want, path)
        return lambda array: decoded(array.dictionary_decode())
    if have == want:
        return _unchanged
    if kinds.is_null(have):
        return lambda array: pa.nulls(len(array), want)
    if isinstance(have, pa.BaseExtensionType):
        stored = _primitive(have.storage_type, want, path)
        return lambda array: stored(array.storage)
    if want == pa.uuid() and have == pa.binary(_UUID_BYTES):
        return lambda array: pa.ExtensionArray.from_storage(pa.uuid(), array)
    if not _promotes(have, want):
        raise Invalid(f"column {path!r} is {want}, but the file stores {have}, which cannot be read as that")
    # Nanoseconds that old writers left in a microsecond column are cut, as every Iceberg reader cuts them.
    cuts = kinds.is_timestamp(want) and kinds.is_timestamp(have) and have.unit == "ns"
    return lambda array: _cast(array, want, path, safe=not cuts)


def _cast(array: ArrowArray, want: ArrowType, path: str, *, safe: bool) -> ArrowArray:
    try:
        return array.cast(want, safe=safe)
    except pa.ArrowInvalid as error:
        raise Invalid(f"column {path!r} is {want}, and a value of the file is not: {error}") from None


def _unchanged(array: ArrowArray) -> ArrowArray:
    return array


def _promotes(have: ArrowType, want: ArrowType) -> bool:
    if kinds.is_signed_integer(want) and kinds.is_integer(have):
        return bool(have.bit_width < want.bit_width)
    if kinds.is_float64(want):
        return bool(kinds.is_float32(have))
    if kinds.is_decimal(want) and kinds.is_decimal(have):
        return bool(have.scale == want.scale and have.precision <= want.precision)
    if kinds.is_timestamp(want) and want.tz is None and kinds.is_date32(have):
        return True  # from format version 3 on
    return any(
        same(want) and same(have) for same in (is_string, is_binary, kinds.is_timestamp, kinds.is_time)
    )
