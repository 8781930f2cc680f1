"""Column metrics of a Parquet file in Iceberg's form, out of its footer ("Data File Fields", Appendix D).

Counts and bounds are by field id of leaf columns. Bounds are never tighter than the data: NaN has none, a cut upper
bound is rounded up or left out, repeated columns (inside lists and maps) have counts only.
"""

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.errors import Internal, Unsupported
from table_format.jsontypes import JsonObject
from table_format.schema.arrow import ArrowArray, compute, kinds
from table_format.schema.types import FieldView, Primitive, Slot, fields_by_id, parse_primitive

DEFAULT_TRUNCATION = 16
_DEFAULT = "write.metadata.metrics.default"
_COLUMN = "write.metadata.metrics.column."
_INFERRED_LIMIT = "write.metadata.metrics.max-inferred-column-defaults"
_TRUNCATE = re.compile(r"truncate\((\d{1,9})\)")
_MAX_CODE_POINT = 0x10FFFF
_FLOATS = frozenset({"float", "double"})


@dataclass(frozen=True, slots=True)
class Mode:
    """How much is kept of a column: nothing, counts, or bounds as well (`length` None: in full)."""

    counts: bool
    bounds: bool
    length: int | None = None


NONE = Mode(counts=False, bounds=False)
COUNTS = Mode(counts=True, bounds=False)
FULL = Mode(counts=True, bounds=True)
TRUNCATED = Mode(counts=True, bounds=True, length=DEFAULT_TRUNCATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One Parquet column, in file order."""

    view: FieldView
    primitive: Primitive
    repeated: bool
    mode: Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What a footer says, ready for a `DataFile`."""

    record_count: int
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: list[int]


def leaves(schema: JsonObject, properties: Mapping[str, str]) -> list[Leaf]:
    """The schema's leaf columns in the order in which a Parquet file holds them.

    Raises:
        Unsupported: a column of type unknown, which no file may hold.
    """
    known = fields_by_id(schema)
    views = [view for view in known.values() if view.primitive]
    inferred = _number(properties.get(_INFERRED_LIMIT), 100)
    result = []
    for place, view in enumerate(views):
        primitive = parse_primitive(str(view.type))
        if primitive.name == "unknown":
            raise Unsupported(f"column {view.path!r} is of type unknown; give it a type before writing to it")
        default = TRUNCATED if place < inferred else NONE
        default = _mode(properties.get(_DEFAULT), default)
        result.append(
            Leaf(
                view=view,
                primitive=primitive,
                repeated=_repeated(view, known),
                mode=_mode(properties.get(_COLUMN + view.path), default),
            )
        )
    return result


def _repeated(view: FieldView, known: Mapping[int, FieldView]) -> bool:
    current: FieldView | None = view
    while current is not None:
        if current.slot is not Slot.STRUCT:
            return True
        current = None if current.parent_id is None else known[current.parent_id]
    return False


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else default


def _mode(text: str | None, default: Mode) -> Mode:
    """A mode as table properties spell it; a misspelt one must not stop writers, so it counts as not set."""
    lowered = "" if text is None else text.strip().lower()
    if match := _TRUNCATE.fullmatch(lowered):
        return Mode(counts=True, bounds=True, length=int(match[1])) if int(match[1]) > 0 else default
    return {"none": NONE, "counts": COUNTS, "full": FULL}.get(lowered, default)


def count_nans(batch: pa.RecordBatch, columns: Sequence[Leaf], counts: dict[int, int]) -> None:
    """Add the NaNs of a batch (in the table's own schema) to `counts`, for every float column at any depth."""
    floats = {leaf.view.id for leaf in columns if leaf.primitive.name in _FLOATS and leaf.mode.counts}
    if not floats:
        return
    remaining = iter(columns)
    for column in batch.columns:
        _count_in(column, remaining, floats, counts)


def _count_in(array: ArrowArray, remaining: Any, floats: set[int], counts: dict[int, int]) -> None:
    if kinds.is_struct(array.type):
        for child in array.flatten():
            _count_in(child, remaining, floats, counts)
    elif kinds.is_large_list(array.type):
        _count_in(array.flatten(), remaining, floats, counts)
    elif kinds.is_map(array.type):
        entries = pa.list_(pa.struct([array.type.key_field, array.type.item_field]))
        _count_in(array.cast(entries).flatten(), remaining, floats, counts)
    else:
        leaf = next(remaining)
        if leaf.view.id in floats:
            nans = compute.sum(compute.is_nan(array)).as_py() or 0
            counts[leaf.view.id] = counts.get(leaf.view.id, 0) + nans


@dataclass(slots=True)
class _Column:
    """What the row groups say about one column, summed up."""

    size: int = 0
    values: int = 0
    nulls: int | None = 0
    lower: Any = None
    upper: Any = None
    bounded: bool = True

    def add(self, chunk: Any, leaf: Leaf, *, own: bool) -> None:
        self.size += chunk.total_compressed_size
        self.values += chunk.num_values
        stats = chunk.statistics if chunk.is_stats_set else None
        known_nulls = stats.null_count if stats is not None and stats.has_null_count else None
        self.nulls = None if self.nulls is None or known_nulls is None else self.nulls + known_nulls
        if stats is not None and stats.has_min_max:
            low, high = (_comparable(raw, leaf.primitive) for raw in (stats.min_raw, stats.max_raw))
            if not own and leaf.primitive.name in _FLOATS:
                low, high = low or -0.0, high or 0.0  # either zero may be told where there are both
                self.bounded = self.bounded and not (math.isnan(low) or math.isnan(high))
            self.lower = low if self.lower is None else min(self.lower, low)
            self.upper = high if self.upper is None else max(self.upper, high)
        elif known_nulls != chunk.num_values and not (own and leaf.primitive.name in _FLOATS):
            # Values whose bounds the writer left out (very long ones). Our own writer's floats without bounds are all
            # NaN; others leave out the bounds of what has any NaN.
            self.bounded = False


def metrics(
    footer: pq.FileMetaData, columns: Sequence[Leaf], nans: Mapping[int, int], *, own: bool = True
) -> Metrics:
    """The metrics of a file that was written with exactly these columns: by us, or (not `own`) by whomever.

    Raises:
        Internal: the file has other columns.
    """
    if footer.num_columns != len(columns):
        raise Internal(f"a data file has {footer.num_columns} columns, expected {len(columns)}")
    sums = [_Column() for _ in columns]
    offsets = []
    for place in range(footer.num_row_groups):
        group = footer.row_group(place)
        offsets.append(_start(group.column(0)))
        for position, leaf in enumerate(columns):
            sums[position].add(group.column(position), leaf, own=own)
    counted = [(leaf, total) for leaf, total in zip(columns, sums, strict=True) if leaf.mode.counts]
    bounded = [
        (leaf, total)
        for leaf, total in counted
        if leaf.mode.bounds and not leaf.repeated and total.bounded and total.lower is not None
    ]
    lower = {leaf.view.id: _lower(total.lower, leaf) for leaf, total in bounded}
    upper = {leaf.view.id: _upper(total.upper, leaf) for leaf, total in bounded}
    return Metrics(
        record_count=footer.num_rows,
        column_sizes={leaf.view.id: total.size for leaf, total in counted},
        value_counts={leaf.view.id: total.values for leaf, total in counted},
        null_value_counts={leaf.view.id: total.nulls for leaf, total in counted if total.nulls is not None},
        nan_value_counts=dict(nans),
        lower_bounds={key: bound for key, bound in lower.items() if bound is not None},
        upper_bounds={key: bound for key, bound in upper.items() if bound is not None},
        split_offsets=sorted(offsets),
    )


def _start(chunk: Any) -> int:
    """Where a row group's bytes begin: at its first column's dictionary, if it has one."""
    data, dictionary = chunk.data_page_offset, chunk.dictionary_page_offset
    return cast("int", dictionary if chunk.has_dictionary_page and dictionary < data else data)


def _comparable(raw: Any, primitive: Primitive) -> Any:
    if primitive.name == "decimal" and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    return raw


def _lower(value: Any, leaf: Leaf) -> bytes | None:
    length, name = leaf.mode.length, leaf.primitive.name
    if name == "string" and length is not None:
        text = _text(value)
        return None if text is None else text[:length].encode()
    if name == "binary" and length is not None:
        return bytes(value[:length])
    return _BYTES[name](value)


def _upper(value: Any, leaf: Leaf) -> bytes | None:
    length, name = leaf.mode.length, leaf.primitive.name
    if name == "string" and length is not None:
        text = _text(value)
        return None if text is None else text_upper_bound(text, length)
    if name == "binary" and length is not None:
        return bytes_upper_bound(value, length)
    return _BYTES[name](value)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def text_upper_bound(text: str, length: int) -> bytes | None:
    """The least text of at most `length` code points that is not below `text`; None when there is none."""
    if len(text) <= length:
        return text.encode()
    for end in range(length, 0, -1):
        following = ord(text[end - 1]) + 1
        if 0xD800 <= following <= 0xDFFF:
            following = 0xE000  # surrogates are no characters
        if following <= _MAX_CODE_POINT:
            return (text[: end - 1] + chr(following)).encode()
    return None


def bytes_upper_bound(value: bytes, length: int) -> bytes | None:
    """The least value of at most `length` bytes that is not below `value`; None when there is none."""
    if len(value) <= length:
        return bytes(value)
    head = value[:length].rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def _packed(layout: str) -> Callable[[Any], bytes]:
    return struct.Struct(layout).pack


def _decimal(unscaled: int) -> bytes:
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


_LONG = _packed("<q")
_BYTES: dict[str, Callable[[Any], bytes]] = {
    "boolean": _packed("<?"),
    "int": _packed("<i"),
    "date": _packed("<i"),
    "float": _packed("<f"),
    "double": _packed("<d"),
    "decimal": _decimal,
    **dict.fromkeys(("long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), _LONG),
    **dict.fromkeys(("string", "binary", "fixed", "uuid"), bytes),
}
