"""Initial defaults of columns (format version 3): what the rows of files without the column have in it.

A field's `initial-default` is a JSON single value; it counts at every level of nesting. Nested types have none of
their own: a struct that a file lacks is null.
"""

from collections.abc import Iterator

import pyarrow as pa

from table_format.errors import Invalid
from table_format.metadata.defaults import check_default
from table_format.scan.literals import Beyond, convert
from table_format.schema.arrow import ArrowArray, ArrowType, arrow_primitive, kinds
from table_format.schema.types import parse_primitive


def initial_defaults(json_type: object, path: str = "") -> Iterator[tuple[int, ArrowArray]]:
    """Id and default, as a column of one row, of every field inside that has a default.

    Raises:
        Invalid: a default is not a value of its field's type.
    """
    if not isinstance(json_type, dict):
        return
    for field in json_type.get("fields", []):
        inside = f"{path}{field['name']}"
        value, type_ = field.get("initial-default"), field["type"]
        if value is not None:
            canonical = str(parse_primitive(type_)) if isinstance(type_, str) else type_
            check_default(value, canonical, f"the initial default of column {inside!r}")
            yield field["id"], _column(value, type_, inside)
        yield from initial_defaults(type_, f"{inside}.")
    for inner in ("element", "key", "value"):
        yield from initial_defaults(json_type.get(inner), f"{path}{inner}.")


def _column(value: bool | int | float | str, type_: str, path: str) -> ArrowArray:
    primitive = parse_primitive(type_)
    arrow = arrow_primitive(primitive)
    internal = convert(value, primitive, f"column {path!r}")
    if isinstance(internal, Beyond):
        raise Invalid(f"the initial default of column {path!r} is beyond what {type_} holds")
    return plain_column(internal.decode() if primitive.name == "string" else internal, arrow)  # type: ignore[union-attr]


def plain_column(value: object, arrow: ArrowType) -> ArrowArray:
    """An internal value (see `manifest.entries`; uuid as bytes) as a column of one row; uuid as its 16 bytes."""
    if arrow == pa.uuid():
        return pa.array([value], pa.binary(16))
    if kinds.is_date32(arrow):
        return pa.array([value], pa.int32()).cast(arrow)
    if kinds.is_temporal(arrow):
        return pa.array([value], pa.int64()).cast(arrow)
    return pa.array([value], arrow)
