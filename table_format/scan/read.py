"""Data and delete files as record batches in a table's columns, batch by batch.

Owns which of a file's columns become which of the table's, and what stands in for those that it lacks. Deletes are
applied elsewhere; rows come in file order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from uuid import UUID

import pyarrow as pa

from table_format.errors import Invalid
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile
from table_format.scan.files import SourceFile, open_file
from table_format.scan.initial import initial_defaults, plain_column
from table_format.scan.project import Gaps, converter, missing
from table_format.schema.arrow import ArrowArray, field_id, to_arrow
from table_format.schema.dictionaries import checked, is_kept
from table_format.schema.types import fields_by_id

BATCH_ROWS = 65_536


def read_file(
    store: ObjectStore,
    data_file: DataFile,
    table_schema: JsonObject,
    *,
    batch_rows: int = BATCH_ROWS,
    spec: JsonObject | None = None,
    name_mapping: Sequence[JsonObject] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one file in the table's columns, in file order, without applying any delete.

    `spec` fills identity partition columns that the file leaves out; `name_mapping` names the columns of files
    without field ids.

    Raises:
        Invalid: not a readable file of its format, columns without ids and mapping, or of a type that cannot be read.
        Unsupported: another format, or an encrypted file.
    """
    with open_file(store, data_file, name_mapping) as source:
        columns = Projection(source, table_schema, spec)
        for batch in source.batches(columns.positions, batch_rows):
            yield columns.apply(batch)


class Projection:
    """A file's columns as the table's, compiled once for the file."""

    def __init__(
        self,
        source: SourceFile,
        table_schema: JsonObject,
        spec: JsonObject | None,
        *,
        dictionaries: bool = False,
    ) -> None:
        """Match the columns; with `dictionaries`, those of text and bytes that the file gives as such stay so.

        Raises:
            Invalid: a column has a type that cannot be read as the table's, or a required one is missing.
        """
        target, path = [], source.data_file.file_path
        gaps = file_gaps(source.data_file, table_schema, spec)
        place = {field.id: position for position, field in enumerate(source.fields)}
        self._steps: list[tuple[int | None, Callable[..., ArrowArray]]] = []
        for field in to_arrow(table_schema):
            wanted = field_id(field)
            position = None if wanted is None else place.get(wanted)
            have = None if position is None else source.fields[position].type
            if position is None:
                self._steps.append((None, missing(field, gaps, field.name)))
            elif dictionaries and is_kept(have, field.type):
                field = field.with_type(have)  # noqa: PLW2901 - the field as it comes
                self._steps.append((position, partial(checked, which=f"column {field.name!r} of {path}")))
            else:
                self._steps.append((position, converter(source.fields[position], field, gaps, field.name)))
            target.append(field)
        self._target = pa.schema(target)
        self.positions = sorted({position for position, _ in self._steps if position is not None})

    def apply(self, batch: Mapping[int, ArrowArray] | int) -> pa.RecordBatch:
        """One batch of the file as the table's."""
        rows = row_count(batch)
        columns = {} if isinstance(batch, int) else batch
        arrays = [step(rows) if at is None else step(columns[at]) for at, step in self._steps]
        if not arrays:
            raise Invalid("the table has no columns")
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)


def row_count(batch: Mapping[int, ArrowArray] | int) -> int:
    """How many rows a batch of `SourceFile.batches` has."""
    return batch if isinstance(batch, int) else len(next(iter(batch.values())))


def file_gaps(data_file: DataFile, table_schema: JsonObject, spec: JsonObject | None) -> Gaps:
    """What fills columns that the file lacks: identity partition values, where `spec` is given, else defaults.

    Raises:
        Invalid: an initial default is not a value of its column's type.
    """
    constants = dict(initial_defaults(table_schema))
    if spec is None:
        return Gaps(constants)
    known = fields_by_id(table_schema)
    for field, value in zip(spec["fields"], data_file.partition, strict=True):
        view = known.get(field["source-id"])
        if field["transform"] == "identity" and view is not None and value is not None:
            named = {"id": view.id, "name": view.name, "type": view.type}
            arrow = to_arrow({"type": "struct", "fields": [named]})
            stored = value.bytes if isinstance(value, UUID) else value
            constants[view.id] = plain_column(stored, arrow.field(0).type)
    return Gaps(constants)
