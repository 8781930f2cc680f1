"""The Parquet file of partition statistics: its schema by the table's format version, and its bytes."""

import io
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from maintenance.statistics.partitions import PartitionRow, Partitions
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import PartitionValue
from table_format.manifest.partition import PartitionColumn
from table_format.schema.arrow import ArrowArray, to_arrow

_ROW_GROUP_ROWS: Final = 65_536
_VECTORS_FROM: Final = 3
"""Format version from which there are deletion vectors, and counts of deletes are required."""

_Get = Callable[[PartitionRow], int | None]
_COUNTS: Final[Sequence[tuple[int, str, str, _Get]]] = (
    (2, "spec_id", "int", lambda row: row.spec_id),
    (3, "data_record_count", "long", lambda row: row.data_records),
    (4, "data_file_count", "int", lambda row: row.data_files),
    (5, "total_data_file_size_in_bytes", "long", lambda row: row.data_bytes),
    (6, "position_delete_record_count", "long", lambda row: row.position_records),
    (7, "position_delete_file_count", "int", lambda row: row.position_files),
    (8, "equality_delete_record_count", "long", lambda row: row.equality_records),
    (9, "equality_delete_file_count", "int", lambda row: row.equality_files),
    (10, "total_record_count", "long", lambda row: row.data_records - row.vectored_records),
    (11, "last_updated_at", "long", lambda row: row.updated_ms),
    (12, "last_updated_snapshot_id", "long", lambda row: row.updated_by),
    (13, "dv_count", "int", lambda row: row.vectors),
)
_TOTAL: Final = 10
_VECTORS: Final = 13
_ALWAYS: Final = (2, 3, 4, 5)
_SINCE_VECTORS: Final = (6, 7, 8, 9, 13)


def schema_of(columns: Sequence[PartitionColumn], format_version: int) -> JsonObject:
    """The schema of the file (table spec, "Partition Statistics File")."""
    required = {*_ALWAYS, *(_SINCE_VECTORS if format_version >= _VECTORS_FROM else ())}
    tuple_fields = [
        {"id": column.field_id, "name": column.name, "required": False, "type": str(column.type)}
        for column in columns
    ]
    partition = {"type": "struct", "fields": tuple_fields}
    fields: list[JsonObject] = [{"id": 1, "name": "partition", "required": True, "type": partition}]
    fields += [
        {"id": number, "name": name, "required": number in required, "type": kind}
        for number, name, kind, _ in _COUNTS
        if number != _VECTORS or format_version >= _VECTORS_FROM
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def content(partitions: Partitions, format_version: int) -> bytes:
    """The file."""
    arrow = to_arrow(schema_of(partitions.columns, format_version))
    rows = partitions.rows
    inner: Any = arrow.field(0).type
    values = [
        _column([row.values[place] for row in rows], inner.field(place).type)
        for place in range(len(partitions.columns))
    ]
    tuples: Any = pa.StructArray
    columns: list[ArrowArray] = [tuples.from_arrays(values, fields=list(inner))]
    getters = {name: (number, get) for number, name, _, get in _COUNTS}
    for column in list(arrow)[1:]:
        number, get = getters[column.name]
        unknown = number == _TOTAL and not partitions.exact
        columns.append(pa.array([None if unknown else get(row) for row in rows], column.type))
    buffer = io.BytesIO()
    table = pa.Table.from_arrays(columns, schema=arrow)
    pq.write_table(table, buffer, compression="zstd", row_group_size=_ROW_GROUP_ROWS)
    return buffer.getvalue()


def _column(values: Sequence[PartitionValue], kind: Any) -> ArrowArray:
    if isinstance(kind, pa.BaseExtensionType):
        raw = [value.bytes if isinstance(value, UUID) else value for value in values]
        extension: Any = pa.ExtensionArray
        return extension.from_storage(kind, pa.array(raw, kind.storage_type))
    return pa.array(values, kind)
