"""Rows sorted into the partitions of a spec, and the directory names of partitions.

Rows of one partition keep their order. Null, NaN, 0.0 and -0.0 are partitions of their own. Values come from the
data alone: a row never gets a partition it does not belong to.
"""

import base64
import datetime
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote_plus

import pyarrow as pa

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import Partition, PartitionValue
from table_format.schema.arrow import ArrowArray, arrow_primitive, compute, field_id, kinds
from table_format.schema.conform import conform_array
from table_format.schema.types import FieldView, Primitive, Slot, fields_by_id, parse_primitive
from table_format.write.transforms import Transform, parse_transform, partition_values, transformed

_CUT_ESCAPE = re.compile(r"%[0-9A-F]?$")
_LONGEST_VALUE = 100
"""Characters of a partition value in a directory name; beyond, a digest stands for the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedColumn:
    """A partition or sort field: from which source column, by ids from the top, and how."""

    name: str
    transform: Transform
    source: Primitive
    lineage: tuple[FieldView, ...]
    """Empty when the source column is gone, which only `void` survives."""


class Partitioner:
    """Splits batches by one spec; made once, used for many batches."""

    def __init__(self, spec: JsonObject, schema: JsonObject) -> None:
        """Prepare.

        Raises:
            Invalid: the spec does not fit the schema.
            Unsupported: an unknown transform.
        """
        known = fields_by_id(schema)
        self._columns = [derived_column(raw, known) for raw in spec["fields"]]

    def split(self, batch: pa.RecordBatch) -> list[tuple[Partition, pa.RecordBatch]]:
        """The batch's rows by partition, partitions in the order in which they first occur.

        Raises:
            Invalid: a source column does not have the table's type.
        """
        if not batch.num_rows:
            return []
        if not self._columns:
            return [((), batch)]
        values = [derived_values(column, batch) for column in self._columns]
        groups, count = _grouped(values)
        order = compute.sort_indices(groups)  # stable: rows of one group stay in order
        sizes = (
            compute.value_counts(groups).field("counts").to_pylist()
        )  # by first occurrence, as are the groups
        starts = [0] * count
        for group in range(1, count):
            starts[group] = starts[group - 1] + sizes[group - 1]
        firsts = order.take(pa.array(starts, pa.int64()))
        keys = zip(*(partition_values(column.take(firsts)) for column in values), strict=True)
        if count == 1:
            return [(next(keys), batch)]
        # Each part is a copy, so that a small one does not keep the whole batch in memory.
        parts = (batch.take(order.slice(start, size)) for start, size in zip(starts, sizes, strict=True))
        return list(zip(keys, parts, strict=True))


def partition_batch(
    batch: pa.RecordBatch, spec: JsonObject, schema: JsonObject
) -> list[tuple[Partition, pa.RecordBatch]]:
    """The batch's rows by partition, in order of first occurrence; no rows, no partitions.

    Raises:
        Invalid: the spec does not fit the schema, or the batch not the schema.
        Unsupported: an unknown transform.
    """
    return Partitioner(spec, schema).split(batch)


def derived_column(raw: JsonObject, known: dict[int, FieldView]) -> DerivedColumn:
    """A field of a spec, or of a sort order with a `name` added, as what has to be computed.

    Raises:
        Invalid: the source column is not there, in a list or map, or not of a type that the transform takes.
        Unsupported: an unknown transform.
    """
    transform, name = parse_transform(raw["transform"]), raw["name"]
    view = known.get(raw.get("source-id", -1))
    if view is None:
        if transform.name != "void":
            raise Invalid(f"partition field {name!r}: the schema has no field with id {raw.get('source-id')}")
        return DerivedColumn(name=name, transform=transform, source=Primitive(name="boolean"), lineage=())
    if not isinstance(view.type, str):
        raise Invalid(f"partition field {name!r}: {view.path!r} is not of a primitive type")
    source, lineage = parse_primitive(view.type), [view]
    transform.result(source)
    while lineage[0].parent_id is not None:
        lineage.insert(0, known[lineage[0].parent_id])
    if any(step.slot is not Slot.STRUCT for step in lineage):
        raise Invalid(f"partition field {name!r}: {view.path!r} is inside a list or map")
    return DerivedColumn(name=name, transform=transform, source=source, lineage=tuple(lineage))


def derived_values(column: DerivedColumn, batch: pa.RecordBatch) -> ArrowArray:
    """The field's value for every row, as `transformed` gives it.

    Raises:
        Invalid: the rows do not have the source column's type.
    """
    array: ArrowArray = batch.to_struct_array()
    for step in column.lineage:
        if not kinds.is_struct(array.type):
            raise Invalid(f"column {step.path!r} is not a struct in the rows")
        place = _place(array.type, step)
        array = pa.nulls(len(array)) if place is None else array.flatten()[place]
        if place is None:
            break
    if not column.lineage:
        return pa.nulls(len(array), pa.bool_())
    typed = conform_array(array, arrow_primitive(column.source), column.lineage[-1].path)
    return transformed(column.transform, typed, column.source)


def _place(struct: pa.DataType, step: FieldView) -> int | None:
    fields = [struct.field(place) for place in range(struct.num_fields)]
    carries_ids = any(field_id(field) is not None for field in fields)
    for place, field in enumerate(fields):
        if (field_id(field) == step.id) if carries_ids else (field.name == step.name):
            return place
    return None


def _grouped(columns: Sequence[ArrowArray]) -> tuple[ArrowArray, int]:
    """For each row the number of its group, numbered by first occurrence, and how many there are."""
    groups, count = _numbered(columns[0])
    for column in columns[1:]:
        codes, more = _numbered(column)
        # Numbering again after each column keeps the product below rows squared.
        pairs = compute.add(compute.multiply(groups, more), codes)
        groups, count = _numbered(pairs)
    return groups, count


def _numbered(column: ArrowArray) -> tuple[ArrowArray, int]:
    if column.type == pa.uuid():
        column = column.storage
    elif kinds.is_floating(column.type):
        bits = pa.int32() if kinds.is_float32(column.type) else pa.int64()
        one_nan = compute.if_else(compute.is_nan(column), pa.scalar(float("nan"), column.type), column)
        column = one_nan.view(bits)  # by bits, so that 0.0 and -0.0 differ
    if kinds.is_null(column.type):
        return pa.array([0] * len(column), pa.int64()), 1
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.cast(pa.int64()), len(encoded.dictionary)


def partition_path(partition: Partition, spec: JsonObject, schema: JsonObject) -> str:
    """The directory of a partition, as `name=value/…`; empty for an unpartitioned spec.

    Names and values are escaped to URL-safe characters, and cut (with a digest) before a file system would refuse
    them. The text is for people and for spreading files; nobody may read values back from it.

    Raises:
        Invalid: the spec does not fit the schema.
    """
    known = fields_by_id(schema)
    columns = [derived_column(raw, known) for raw in spec["fields"]]
    parts = zip(columns, partition, strict=True)
    return "/".join(f"{_escaped(column.name)}={_escaped(_human(column, value))}" for column, value in parts)


def _escaped(text: str) -> str:
    escaped = quote_plus(text)
    if len(escaped) <= _LONGEST_VALUE:
        return escaped
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    head = _CUT_ESCAPE.sub("", escaped[: _LONGEST_VALUE - 17])
    return f"{head}-{digest}"


def _human(column: DerivedColumn, value: PartitionValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return str(value).lower()
    shape = _SHAPES.get(column.transform.name) or _SHAPES.get(
        column.source.name if column.transform.name == "identity" else ""
    )
    return shape(value) if shape is not None and isinstance(value, int) else str(value)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _year(years: int) -> str:
    return f"{years + 1970:04d}"


def _month(months: int) -> str:
    return f"{_year(months // 12)}-{months % 12 + 1:02d}"


def _day(days: int) -> str:
    try:
        return (_EPOCH + datetime.timedelta(days=days)).date().isoformat()
    except OverflowError:
        return f"day{days}"


def _hour(hours: int) -> str:
    return f"{_day(hours // 24)}-{hours % 24:02d}"


def _time(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"


def _timestamp(micros: int) -> str:
    return f"{_day(micros // 86_400_000_000)}T{_time(micros % 86_400_000_000)}"


_SHAPES: dict[str, Callable[[int], str]] = {
    "year": _year,
    "month": _month,
    "day": _day,
    "hour": _hour,
    "date": _day,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": lambda micros: f"{_timestamp(micros)}+00:00",
}
