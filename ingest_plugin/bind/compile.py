"""Rows to record batches of one table schema: the whole batch at once, row by row only to find the guilty.

A row is in the batch or has an error, never both, never neither.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ingest_plugin.bind.coerce import Mismatch
from ingest_plugin.bind.columns import columns_of
from ingest_plugin.bind.nodes import Node, struct_node, target_columns
from ingest_plugin.decode.values import Row
from table_format.errors import Internal
from table_format.jsontypes import JsonObject
from table_format.schema.arrow import ArrowArray

# What Arrow says to a value of the right kind that is out of its type's range.
_REFUSED = (Mismatch, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Arrays by column name for the rows in `kept` (places among the given rows), and why others are not."""

    arrays: dict[str, ArrowArray]
    kept: Sequence[int]
    errors: dict[int, str]


class Binder:
    """Takes rows for one table schema."""

    def __init__(self, schema: JsonObject, *, trusted: bool, reserved: frozenset[str]) -> None:
        """`reserved` columns are filled by ingest itself: a record that has such a field is refused.

        Raises:
            Unsupported: the table has a column of a type that cannot be written.
        """
        fields = [field for field in schema["fields"] if field["name"] not in reserved]
        self._struct = struct_node({"type": "struct", "fields": fields}, trusted=trusted)
        self._reserved = reserved

    def bind(self, rows: Sequence[Row], columns: dict[str, Sequence[Any]] | None = None) -> Bound:
        """The rows as arrays; `columns` saves a second sweep when the caller has them."""
        try:
            arrays = self._arrays(columns if columns is not None else columns_of(rows))
        except _REFUSED:
            return self._without_guilty(rows)
        return Bound(arrays=arrays, kept=range(len(rows)), errors={})

    def _without_guilty(self, rows: Sequence[Row]) -> Bound:
        errors: dict[int, str] = {}
        self._accuse(rows, 0, errors)
        if not errors:
            raise Internal("rows that fit one by one do not fit together")
        kept = [place for place in range(len(rows)) if place not in errors]
        arrays = self._arrays(columns_of([rows[place] for place in kept])) if kept else {}
        return Bound(arrays=arrays, kept=kept, errors=errors)

    def _accuse(self, rows: Sequence[Row], first: int, errors: dict[int, str]) -> None:
        """Find the rows that do not fit by halving: cheap when there are few."""
        try:
            self._arrays(columns_of(rows))
        except _REFUSED as error:
            if len(rows) == 1:
                errors[first] = str(error)
                return
            middle = len(rows) // 2
            self._accuse(rows[:middle], first, errors)
            self._accuse(rows[middle:], first + middle, errors)

    def _arrays(self, columns: dict[str, Sequence[Any]]) -> dict[str, ArrowArray]:
        fields: Mapping[str, Node] = self._struct.fields
        for name in columns:
            if name.lower() in self._reserved:
                raise Mismatch(f"field '{name}' has the name of a column that ingest fills itself")
        targets = target_columns(columns, self._struct.fields)
        for name in self._struct.required:
            if None in targets.get(name, (None,)):
                raise Mismatch(f"required column '{name}' is missing or null")
        arrays: dict[str, ArrowArray] = {}
        for name, values in targets.items():
            try:
                arrays[name] = fields[name].array(values)
            except _REFUSED as error:
                raise Mismatch(f"column '{name}': {error}") from None
        return arrays
