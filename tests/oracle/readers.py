"""What three readers find in a table's snapshots: Iceberg's Java code, DuckDB, and ours; each row as texts of values.

A row is a tuple in the order of the snapshot's columns. The text of a value is the same whoever reads it, and says all
of it (bits of a float, microseconds of a time), as `Contents.text` of the Java driver does.
"""

import datetime
import decimal
import math
import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from table_format.io.resolve import store_for
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import Content
from table_format.metadata.document import TableMetadata
from table_format.scan.deletes import read_task, with_deletes_that_name_them
from table_format.scan.lines import snapshot_lines, whole_tasks
from table_format.scan.plan import FileTask, snapshot_files
from tests.oracle.lab import Lab, Version, loaded_duckdb

Row: TypeAlias = tuple[str | None, ...]
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LINEAGE = ("_row_id", "_last_updated_sequence_number")


@dataclass(frozen=True)
class Found:
    """The rows of one snapshot."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    """Sorted; with lineage, the row's id and the sequence number of its last change come last."""
    lineage: bool

    @property
    def plain(self) -> tuple[Row, ...]:
        """Without lineage."""
        return tuple(sorted((row[:-2] for row in self.rows), key=_order)) if self.lineage else self.rows


def _order(row: Row) -> tuple[tuple[bool, str], ...]:
    return tuple((value is None, value or "") for value in row)


def ordered(rows: Sequence[Sequence[str | None]]) -> tuple[Row, ...]:
    """In an order that does not depend on who found them."""
    return tuple(sorted((tuple(row) for row in rows), key=_order))


def schema_of(metadata: TableMetadata, snapshot_id: int) -> JsonObject:
    """The schema that a snapshot is read with."""
    snapshot = next(one for one in metadata.document["snapshots"] if one["snapshot-id"] == snapshot_id)
    wanted = snapshot.get("schema-id", metadata.document["current-schema-id"])
    found: JsonObject = next(one for one in metadata.document["schemas"] if one["schema-id"] == wanted)
    return found


def by_java(lab: Lab, version: Version, snapshots: Sequence[int]) -> dict[int, Found]:
    """All those snapshots, read by Java."""
    lineage = version.metadata.format_version >= 3
    answer = lab.java.ask("contents", metadata=version.location, snapshots=list(snapshots), lineage=lineage)
    return {
        one: Found(
            columns_of(schema_of(version.metadata, one)), _known(ordered(answer[str(one)]), lineage), lineage
        )
        for one in snapshots
    }


def _known(rows: Sequence[Row], lineage: bool) -> tuple[Row, ...]:
    """A row without an id has no last change either; Java's reader of Avro tells one, that of Parquet does not."""
    if not lineage:
        return tuple(rows)
    return tuple((*row[:-1], None) if row[-2] is None else row for row in rows)


def by_us(version: Version, snapshot_id: int) -> Found:
    """One snapshot, read by the code that compaction reads with."""
    schema = schema_of(version.metadata, snapshot_id)
    there = {"current-schema-id": schema["schema-id"], "current-snapshot-id": snapshot_id}
    then = TableMetadata({**version.document, **there})
    store = store_for(then.location)
    lineage = then.format_version >= 3
    rows: list[list[str | None]] = []
    files = with_deletes_that_name_them(store, snapshot_lines(store, then))
    for task in whole_tasks(store, then, files, {line.file_path for line in files.lines}):
        for batch in read_task(store, task, then, lineage=lineage):
            rows += _texts(schema, batch, _LINEAGE if lineage else ())
    return Found(columns_of(schema), ordered(rows), lineage)


def by_duckdb(lab: Lab, version: Version, snapshot_id: int) -> Found:
    """One snapshot, read by DuckDB from the metadata file."""
    schema = schema_of(version.metadata, snapshot_id)
    place = version.location.removeprefix("file://")
    scan = f"iceberg_scan('{place}', snapshot_from_id => {snapshot_id}::UBIGINT)"
    try:
        table = lab.duck.execute(f"SELECT * FROM {scan}").to_arrow_table()
    except (duckdb.InternalException, duckdb.FatalException):
        lab.duck = loaded_duckdb()  # it is of no more use to anybody
        raise
    names = columns_of(schema)
    assert tuple(table.column_names) == names, f"DuckDB has the columns {table.column_names}, not {names}"
    return Found(names, ordered(_texts(schema, table, ())), False)


def tasks_of(version: Version, snapshot_id: int) -> list[FileTask]:
    """The files of a snapshot, with their deletes."""
    return snapshot_files(store_for(version.metadata.location), version.metadata, snapshot_id).tasks


def why_not_duckdb(version: Version, snapshot_id: int) -> str | None:
    """Why DuckDB 1.5.5 is not asked for that snapshot: what it is known to read wrong or not at all."""
    snapshot = next(one for one in version.document["snapshots"] if one["snapshot-id"] == snapshot_id)
    if version.metadata.format_version > 1 and not snapshot.get("sequence-number"):
        return "it reads no manifest lists of format version 1 once the table is of a later one"
    tasks = tasks_of(version, snapshot_id)
    deletes = [entry.data_file for task in tasks for entry in task.deletes]
    files = [task.entry.data_file for task in tasks] + deletes
    if odd := {file.file_format.upper() for file in files} - {"PARQUET", "PUFFIN"}:
        return f"it reads no {'/'.join(sorted(odd))} files"
    if not any(file.content is Content.EQUALITY_DELETES for file in deletes):
        return None
    if any(spec["fields"] for spec in version.metadata.partition_specs):
        return "it does not ask to which partition an equality delete belongs, nor under which spec"
    if any(_null_keys(task) for task in tasks):
        return "under equality deletes it loses rows whose key is null, and fails on deletes of such keys"
    return None


def _null_keys(task: FileTask) -> bool:
    """Whether a row or an equality delete of it may have a null in the key."""
    for entry in task.deletes:
        for column in entry.data_file.equality_ids or ():
            for file in (task.entry.data_file, entry.data_file):
                if (file.null_value_counts or {}).get(column) != 0:
                    return True
    return False


def columns_of(schema: JsonObject) -> tuple[str, ...]:
    return tuple(field["name"] for field in schema["fields"])


def _texts(
    schema: JsonObject, table: pa.Table | pa.RecordBatch, more: Sequence[str]
) -> list[list[str | None]]:
    kinds = [field["type"] for field in schema["fields"]] + ["long"] * len(more)
    columns = [table.column(name).to_pylist() for name in [*columns_of(schema), *more]]
    return [
        [text(kind, value) for kind, value in zip(kinds, row, strict=True)]
        for row in zip(*columns, strict=True)
    ]


def text(kind: Any, value: Any) -> str | None:  # noqa: PLR0911 - one for each kind
    """A value of an Iceberg type, from how Arrow gives it to Python."""
    if value is None:
        return None
    if not isinstance(kind, str):
        return _nested(kind, value)
    if kind in ("float", "double"):
        bits = struct.pack(">d", float("nan") if math.isnan(value) else value)
        return bits.hex()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return str((moment - _EPOCH) // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.date):
        return str((value - _EPOCH.date()).days)
    if isinstance(value, datetime.time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return str(seconds * 1_000_000 + value.microsecond)
    if kind == "uuid" and isinstance(value, bytes):
        return str(uuid.UUID(bytes=value))
    return value.hex() if isinstance(value, bytes) else str(value)


def _nested(kind: Mapping[str, Any], value: Any) -> str:
    if kind["type"] == "struct":
        parts = [text(field["type"], value[field["name"]]) for field in kind["fields"]]
        return f"({_joined(parts)})"
    if kind["type"] == "list":
        return f"[{_joined([text(kind['element'], item) for item in value])}]"
    pairs = value.items() if isinstance(value, dict) else value
    entries = sorted(f"{_word(text(kind['key'], k))}={_word(text(kind['value'], v))}" for k, v in pairs)
    return f"{{{', '.join(entries)}}}"


def _joined(parts: Sequence[str | None]) -> str:
    return ", ".join(_word(part) for part in parts)


def _word(part: str | None) -> str:
    return "null" if part is None else part


def restated(lab: Lab, version: Version, snapshot_id: int) -> Found:
    """A snapshot with the current schema, as whoever reads a branch sees it."""
    schema = version.metadata.schema()
    lineage = version.metadata.format_version >= 3
    answer = lab.java.ask(
        "contents", metadata=version.location, snapshots=[snapshot_id], lineage=lineage, current=True
    )
    return Found(columns_of(schema), _known(ordered(answer[str(snapshot_id)]), lineage), lineage)
