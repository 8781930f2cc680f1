"""Tables of timed rows, written by the project's own writer so that partitions and metrics are honest."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import DataFile
from table_format.write.parquet import TableWriter
from tests.factories.lake import Lake
from tests.fakes.clock import ManualClock

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
DAY_MS = 86_400_000


def schema(kind="timestamptz", *more):
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "at", "required": False, "type": kind},
        *more,
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def by(transform="day", source=2):
    field = {"source-id": source, "field-id": 1000, "name": "at_part", "transform": transform}
    return {"spec-id": 0, "fields": [field]}


def timed_lake(*, kind="timestamptz", spec=None, more=(), **properties):
    clock = ManualClock(int(NOW.timestamp() * 1000))
    return Lake(MemoryObjectStore(clock), clock=clock, schema=schema(kind, *more), spec=spec, **properties)


def write(lake: Lake, times: Sequence[datetime | None], first_id: int = 0) -> list[DataFile]:
    """Append rows with these times, their ids counted on: a file for each partition they fall into."""
    writer = TableWriter(store=lake.store, metadata=lake.metadata, ids=lake.ids, target_bytes=1 << 20)
    column = writer.arrow_schema.field("at").type
    values = [None if time is None else time for time in times]
    if pa.types.is_date32(column):
        values = [None if time is None else time.date() for time in times]
    elif column.tz is None:
        values = [None if time is None else time.replace(tzinfo=None) for time in times]
    arrays = {
        field.name: pa.array(values, column)
        if field.name == "at"
        else pa.array(range(first_id, first_id + len(times)), field.type)
        if field.name == "id"
        else pa.nulls(len(times), field.type)
        for field in writer.arrow_schema
    }
    writer.write(pa.RecordBatch.from_pydict(arrays, schema=writer.arrow_schema))
    files = writer.flush()
    lake.append(*files)
    return files


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)
