"""Parquet data and delete files as record batches in a table's columns, batch by batch.

Owns opening a file, finding out which of its columns are which (field ids, else the table's name mapping) and the
iteration in bounded memory. Deletes are applied elsewhere; rows come in file order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from table_format.errors import Invalid, Unsupported
from table_format.io.fileio import pyarrow_input
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile
from table_format.metadata.document import TableMetadata
from table_format.scan.initial import initial_defaults, plain_column
from table_format.scan.project import (
    FileField,
    Gaps,
    converter,
    fields_with_ids,
    has_ids,
    inner_fields,
    missing,
)
from table_format.schema.arrow import ArrowArray, ArrowField, field_id, kinds, to_arrow
from table_format.schema.types import fields_by_id

BATCH_ROWS = 65_536
NAME_MAPPING_PROPERTY = "schema.name-mapping.default"


def read_file(
    store: ObjectStore,
    data_file: DataFile,
    table_schema: JsonObject,
    *,
    batch_rows: int = BATCH_ROWS,
    spec: JsonObject | None = None,
    name_mapping: Sequence[JsonObject] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one Parquet file in the table's columns, in file order, without applying any delete.

    `spec` fills identity partition columns that the file leaves out; `name_mapping` names the columns of files
    without field ids.

    Raises:
        Invalid: not a readable Parquet file, columns without ids and mapping, or of a type that cannot be read.
        Unsupported: another format, or an encrypted file.
    """
    with open_file(store, data_file, name_mapping) as source:
        columns = Projection(source, table_schema, spec)
        for batch in source.batches(columns.positions, batch_rows):
            yield columns.apply(batch)


def read_name_mapping(metadata: TableMetadata) -> Sequence[JsonObject] | None:
    """The table's name mapping for files without field ids, or None.

    Raises:
        Invalid: the property is not a name mapping.
    """
    text = metadata.properties.get(NAME_MAPPING_PROPERTY)
    if text is None:
        return None
    try:
        mapping = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Invalid(f"table property {NAME_MAPPING_PROPERTY} is not valid JSON: {error}") from None
    if not isinstance(mapping, list) or not all(isinstance(entry, dict) for entry in mapping):
        raise Invalid(f"table property {NAME_MAPPING_PROPERTY} is not a list of objects")
    return mapping


@dataclass(frozen=True, slots=True)
class SourceFile:
    """An open Parquet file whose columns are identified."""

    data_file: DataFile
    parquet: pq.ParquetFile
    fields: tuple[FileField, ...]

    def batches(self, positions: Sequence[int], batch_rows: int) -> Iterator[Mapping[int, ArrowArray] | int]:
        """Batches of the top-level columns at these positions, by position; a plain row count when there are none.

        Raises:
            Invalid: the file's content is damaged.
        """
        if not positions:
            yield from self._counts(batch_rows)
            return
        names = {self.fields[position].name: position for position in positions}
        try:
            for batch in self.parquet.iter_batches(batch_size=batch_rows, columns=list(names)):
                yield {
                    names[name]: column
                    for name, column in zip(batch.schema.names, batch.columns, strict=True)
                    if name in names
                }
        except (pa.ArrowInvalid, OSError) as error:
            raise Invalid(f"{self.data_file.file_path} cannot be read: {error}") from error

    def _counts(self, batch_rows: int) -> Iterator[int]:
        left = self.parquet.metadata.num_rows
        while left > 0:
            yield min(left, batch_rows)
            left -= batch_rows


@contextmanager
def open_file(
    store: ObjectStore, data_file: DataFile, name_mapping: Sequence[JsonObject] | None
) -> Iterator[SourceFile]:
    """Open a Parquet file and find its columns' ids.

    Raises:
        Invalid: not Parquet, or no column has an id and there is no name mapping.
        Unsupported: another file format, or an encrypted file.
    """
    path = data_file.file_path
    if data_file.file_format.upper() != "PARQUET":
        raise Unsupported(f"{path} is {data_file.file_format}: only Parquet files can be read")
    if data_file.key_metadata is not None:
        raise Unsupported(f"{path} is encrypted")
    with pyarrow_input(store, path) as handle:
        try:
            # INT96 timestamps (old Spark and Hive files) as nanoseconds would silently wrap beyond 1677 and 2262.
            parquet = pq.ParquetFile(handle, coerce_int96_timestamp_unit="us")
            arrow = parquet.schema_arrow
        except (pa.ArrowInvalid, OSError) as error:
            raise Invalid(f"{path} is not a readable Parquet file: {error}") from error
        with parquet:
            fields = fields_with_ids(list(arrow))
            if not has_ids(fields):
                if name_mapping is None:
                    raise Invalid(
                        f"{path} has no field ids and the table has no name mapping: "
                        f"set the table property {NAME_MAPPING_PROPERTY}"
                    )
                fields = _mapped(list(arrow), name_mapping)
            yield SourceFile(data_file, parquet, fields)


def _mapped(fields: Sequence[ArrowField], mapping: Sequence[JsonObject]) -> tuple[FileField, ...]:
    ids = {name: entry for entry in mapping for name in entry.get("names", [])}
    return tuple(_mapped_field(field, field.name, ids) for field in fields)


def _mapped_field(field: ArrowField, name: str, ids: Mapping[str, JsonObject]) -> FileField:
    entry = ids.get(name, {})
    inside = {name: child for child in entry.get("fields", []) for name in child.get("names", [])}
    # Writers name the inner fields of lists and maps as they like; the mapping always says element, key, value.
    fixed = {1: ("element",), 2: ("key", "value")}
    inner = inner_fields(field.type)
    names = [child.name for child in inner] if kinds.is_struct(field.type) else fixed.get(len(inner), ())
    children = tuple(_mapped_field(child, n, inside) for child, n in zip(inner, names, strict=True))
    return FileField(entry.get("field-id"), field.name, field.type, children)


class Projection:
    """A file's columns as the table's, compiled once for the file."""

    def __init__(self, source: SourceFile, table_schema: JsonObject, spec: JsonObject | None) -> None:
        """Match the columns.

        Raises:
            Invalid: a column has a type that cannot be read as the table's, or a required one is missing.
        """
        self._target = to_arrow(table_schema)
        gaps = file_gaps(source.data_file, table_schema, spec)
        place = {field.id: position for position, field in enumerate(source.fields)}
        self._steps: list[tuple[int | None, Callable[..., ArrowArray]]] = []
        for field in self._target:
            wanted = field_id(field)
            position = None if wanted is None else place.get(wanted)
            if position is None:
                self._steps.append((None, missing(field, gaps, field.name)))
            else:
                self._steps.append((position, converter(source.fields[position], field, gaps, field.name)))
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
