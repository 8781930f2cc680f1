"""Keys of equality deletes: which columns they are, reading them from a file, matching rows against them.

A key column is found by field id, through structs, in the current schema or else the newest that had it. Null
equals null and NaN equals NaN; a column that a file does not have has its initial default there, else null.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata
from table_format.scan.files import SourceFile
from table_format.scan.project import converter, find_leaf, missing
from table_format.scan.read import file_gaps, row_count
from table_format.schema.arrow import ArrowArray, ArrowType, compute, kinds, to_arrow
from table_format.schema.types import FieldView, Slot, fields_by_id

Codes: TypeAlias = "npt.NDArray[np.int64]"
Matches: TypeAlias = "npt.NDArray[np.bool_]"


def key_fields(metadata: TableMetadata, ids: Sequence[int]) -> list[JsonObject]:
    """The fields of these ids as optional top-level fields, in the type of the newest schema that has them.

    Raises:
        Invalid: no schema of the table has such a field, or it is not a plain value outside lists and maps.
    """
    schemas = [metadata.schema(), *reversed(metadata.schemas)]
    known = [fields_by_id(schema) for schema in schemas]
    fields: list[JsonObject] = []
    for wanted in ids:
        views = next((views for views in known if wanted in views), None)
        if views is None:
            raise Invalid(f"an equality delete names column {wanted}, which no schema of the table has")
        view = views[wanted]
        if not view.primitive or not _outside_collections(view, views):
            raise Invalid(f"an equality delete names column {view.path!r}, which is not a plain value")
        named = {"id": view.id, "name": view.path, "required": False, "type": view.type}
        fields.append(named | {"initial-default": view.initial_default, "parent-id": view.parent_id})
    return fields


def _outside_collections(view: FieldView, views: Mapping[int, FieldView]) -> bool:
    while view.slot is Slot.STRUCT and view.parent_id is not None:
        view = views[view.parent_id]
    return view.slot is Slot.STRUCT


class KeyColumns:
    """How to get the key columns out of batches of one file."""

    def __init__(
        self,
        source: SourceFile,
        fields: Sequence[JsonObject],
        spec: JsonObject | None,
    ) -> None:
        """Find the columns.

        Raises:
            Invalid: a column's type cannot be read as the key's.
        """
        schema: JsonObject = {"type": "struct", "fields": list(fields)}
        target = to_arrow(schema)
        gaps = file_gaps(source.data_file, schema, spec)
        self.types: list[ArrowType] = [_plain(field.type) for field in target]
        self._steps: list[tuple[list[int], Any]] = []
        for wanted, field in zip(fields, target, strict=True):
            found = find_leaf(source.fields, wanted["id"])
            if found is None:
                self._steps.append(_missing_key(source, wanted, missing(field, gaps, field.name)))
            else:
                self._steps.append((found[0], converter(found[1], field, gaps, field.name)))
        self.positions = sorted({path[0] for path, _ in self._steps if path})

    def of(self, batch: Mapping[int, ArrowArray] | int) -> list[ArrowArray]:
        """The key columns of a batch."""
        arrays: list[ArrowArray] = []
        for path, step in self._steps:
            if not path or isinstance(batch, int):
                arrays.append(_stored(step(row_count(batch))))
                continue
            column = batch[path[0]]
            # Arrow's own struct_field gives null below a null struct, as the comparison needs it.
            leaf = compute.struct_field(column, path[1:]) if len(path) > 1 else column
            arrays.append(_stored(step(leaf)))
        return arrays


def _missing_key(
    source: SourceFile, wanted: JsonObject, make: Callable[[int], ArrowArray]
) -> tuple[list[int], Any]:
    """How to make a key column that the file does not have: inside a struct, null where the struct is."""
    if wanted.get("parent-id") is None or wanted["initial-default"] is None:
        return [], make
    parent = find_leaf(source.fields, wanted["parent-id"])
    if parent is None:
        return [], lambda rows: pa.nulls(rows, make(0).type)
    nothing = pa.scalar(None, _plain(make(0).type))
    return parent[0], lambda array: compute.if_else(array.is_valid(), _stored(make(len(array))), nothing)


def _plain(arrow: ArrowType) -> ArrowType:
    return arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow


def _stored(array: ArrowArray) -> ArrowArray:
    """The values as they are compared: all NaNs are one."""
    plain = array.storage if isinstance(array.type, pa.BaseExtensionType) else array
    if not kinds.is_floating(plain.type):
        return plain
    return compute.if_else(compute.is_nan(plain), pa.scalar(float("nan"), plain.type), plain)


class KeySet:
    """The distinct keys of some delete files with the same columns."""

    def __init__(self, fields: list[JsonObject], tables: Sequence[pa.Table]) -> None:
        self.fields = fields
        keys: Any = pa.concat_tables(tables).combine_chunks()
        self._values: list[ArrowArray] = []
        """Per column the distinct values; a value is known by its place here."""
        self._known: list[Codes] = []
        """Per column the distinct codes of the prefixes that end there, ascending."""
        codes: Codes = np.zeros(keys.num_rows, dtype=np.int64)
        for column in keys.columns:
            values = compute.unique(column.combine_chunks())
            places = compute.index_in(column, value_set=values, skip_nulls=False)
            combined = codes * max(len(values), 1) + places.to_numpy()
            self._values.append(values)
            known, codes = np.unique(combined, return_inverse=True)
            self._known.append(known)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(sum(array.nbytes for array in (*self._values, *self._known)))

    @property
    def size(self) -> int:
        """How many distinct keys there are."""
        return len(self._known[-1])

    def matches(self, columns: Sequence[ArrowArray]) -> Matches:
        """Which rows have one of the keys."""
        return self.codes(columns)[0]

    def codes(self, columns: Sequence[ArrowArray]) -> tuple[Matches, Codes]:
        """Which rows have one of the keys, and which: a number below `size`, of no meaning for the other rows."""
        rows = len(columns[0])
        codes: Codes = np.zeros(rows, dtype=np.int64)
        found: Matches = np.ones(rows, dtype=np.bool_)
        for column, values, known in zip(columns, self._values, self._known, strict=True):
            if not len(known):
                return np.zeros(rows, dtype=np.bool_), codes
            # index_in says null for "not among the values", also for nulls when null is not among them.
            places = compute.fill_null(compute.index_in(column, value_set=values, skip_nulls=False), -1)
            place = np.asarray(places.to_numpy(zero_copy_only=False), dtype=np.int64)
            found &= place >= 0
            combined = codes * max(len(values), 1) + np.maximum(place, 0)
            at = np.minimum(np.searchsorted(known, combined), len(known) - 1)
            found &= known[at] == combined
            codes = at.astype(np.int64)
        return found, codes
