"""Row lineage of format version 3: the columns `_row_id` and `_last_updated_sequence_number` (spec, "Row Lineage").

A value stored in the file counts where it is not null; else the row inherits: its id is the file's first row id
plus its position, its sequence number the entry's data sequence number. A file without a first row id (of a
snapshot from before the table was version 3) has null in both: unknown, as Java reads it, and never made up.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from table_format.jsontypes import JsonObject
from table_format.manifest.entries import ManifestEntry
from table_format.scan.index import sequence_of
from table_format.scan.project import NO_GAPS, Convert, FileField, converter
from table_format.schema.arrow import FIELD_ID, ArrowArray, compute

ROW_ID: Final = "_row_id"
LAST_UPDATED: Final = "_last_updated_sequence_number"
ROW_ID_FIELD_ID: Final = 2147483540
LAST_UPDATED_FIELD_ID: Final = 2147483539

LINEAGE_FIELDS: Final = tuple(
    pa.field(name, pa.int64(), metadata={FIELD_ID: str(number).encode()})
    for name, number in ((ROW_ID, ROW_ID_FIELD_ID), (LAST_UPDATED, LAST_UPDATED_FIELD_ID))
)


def with_lineage(schema: JsonObject) -> JsonObject:
    """The schema with both columns behind its own: what a file has whose rows were moved."""
    columns = [
        {"id": number, "name": name, "required": False, "type": "long"}
        for name, number in ((ROW_ID, ROW_ID_FIELD_ID), (LAST_UPDATED, LAST_UPDATED_FIELD_ID))
    ]
    return {**schema, "fields": [*schema["fields"], *columns]}


def to_carry(batch: pa.RecordBatch, entry: ManifestEntry) -> pa.RecordBatch:
    """Rows of a file, read with lineage, as another file is to store them.

    The ids of rows from before the upgrade stay null: the commit gives them some, as any first commit after it does.
    Their last change is as old as their file, not as the one they go to.
    """
    place = batch.num_columns - 1
    known = compute.coalesce(batch.column(place), pa.scalar(sequence_of(entry), pa.int64()))
    return batch.set_column(place, batch.schema.field(place), known)


class Lineage:
    """The lineage of one data file's rows."""

    def __init__(self, entry: ManifestEntry, fields: Sequence[FileField]) -> None:
        """Find the stored columns.

        Raises:
            Invalid: a stored column is not of integers.
        """
        self._first = entry.data_file.first_row_id
        self._sequence = sequence_of(entry)
        self._stored: list[tuple[int, Convert] | None] = []
        by_id = {field.id: (position, field) for position, field in enumerate(fields)}
        for field, wanted in zip(LINEAGE_FIELDS, (ROW_ID_FIELD_ID, LAST_UPDATED_FIELD_ID), strict=True):
            found = by_id.get(wanted)
            self._stored.append(
                None if found is None else (found[0], converter(found[1], field, NO_GAPS, field.name))
            )
        self.positions = sorted({stored[0] for stored in self._stored if stored is not None})

    def columns(self, start: int, rows: int, batch: Mapping[int, ArrowArray] | int) -> list[ArrowArray]:
        """Both columns of the batch whose first row is row `start` of the file, before any delete."""
        inherited: list[ArrowArray]
        if self._first is None:
            inherited = [pa.nulls(rows, pa.int64()) for _ in LINEAGE_FIELDS]
        else:
            first = self._first + start
            inherited = [
                pa.array(np.arange(first, first + rows, dtype=np.int64)),
                pa.repeat(pa.scalar(self._sequence, pa.int64()), rows),
            ]
        found = []
        for stored, value in zip(self._stored, inherited, strict=True):
            if stored is None or isinstance(batch, int):
                found.append(value)
            else:
                found.append(compute.coalesce(stored[1](batch[stored[0]]), value))
        return found
