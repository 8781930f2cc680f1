"""Programs that write to tables of the race, one a second each, as long as they are let; what they did, they remember.

PyIceberg appends; the upserter writes equality deletes and rows in one commit, as Flink and ingest do, by the kernel
over HTTP. A write that does not happen is the failure that the race is about.
"""

import io
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog

from table_format.catalog import LoadedTable
from table_format.clock import SystemClock, SystemIds
from table_format.commit.change import Change
from table_format.commit.retry import commit_with_retry
from table_format.commit.row_delta import row_delta
from table_format.errors import TableFormatError
from table_format.ident import TableIdent, join
from table_format.io.local import LocalObjectStore
from table_format.manifest.entries import Content, DataFile
from table_format.rest import RestCatalog
from table_format.schema.arrow import to_arrow

NAMESPACE = "race"
ROWS = 10
INTERVAL = 1.0
COLUMNS = pa.schema([("id", pa.int64()), ("value", pa.int64())])


@dataclass
class Writer:
    """One program; `write` does its next write and says what is true after it."""

    name: str
    write: Callable[[int], None]
    rows: dict[int, int] = field(default_factory=dict)
    """The rows that must be there: id and value."""
    writes: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        """Write every second until told to stop."""
        number = 0
        due = time.monotonic()
        while not stop.wait(max(0.0, due - time.monotonic())):
            begun = time.monotonic()
            due = max(due + INTERVAL, begun)
            try:
                self.write(number)
                self.writes += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what the race counts
                self.failures.append(f"write {number}: {type(error).__name__}: {error}")
            self.seconds.append(time.monotonic() - begun)
            number += 1


def appender(uri: str, table: str, first_id: int) -> Writer:
    """Appends by PyIceberg, tried again by it while they lose races."""
    rows: dict[int, int] = {}
    handle = load_catalog(table, type="rest", uri=uri).load_table(f"{NAMESPACE}.{table}")

    def write(number: int) -> None:
        ids = range(first_id + number * ROWS, first_id + (number + 1) * ROWS)
        handle.append(pa.table({"id": list(ids), "value": [number] * ROWS}, schema=COLUMNS))
        rows.update(dict.fromkeys(ids, number))

    return Writer(f"{table} (PyIceberg appends from {first_id})", write, rows)


def upserter(uri: str, table: str, first_id: int, keys: int) -> Writer:
    """Upserts of some of its own keys, in one commit each."""
    kept: dict[int, int] = {}
    catalog, store, ids = RestCatalog(uri, None), LocalObjectStore(), SystemIds()
    ident = TableIdent.of(NAMESPACE, table)

    def put(loaded: LoadedTable, rows: pa.Table, **members: object) -> DataFile:
        buffer = io.BytesIO()
        pq.write_table(rows, buffer)
        path = join(loaded.metadata.location, "data", f"{ids.uuid()}.parquet")
        store.put(path, buffer.getvalue())
        return DataFile(
            file_path=path,
            record_count=rows.num_rows,
            file_size_in_bytes=len(buffer.getvalue()),
            **members,  # type: ignore[arg-type]
        )

    def write(number: int) -> None:
        wanted = [first_id + (number * ROWS + n) % keys for n in range(ROWS)]
        loaded = catalog.load(ident)
        schema = to_arrow(loaded.metadata.schema())
        new = pa.table([wanted, [number] * ROWS], schema=schema)
        data = put(loaded, new)
        gone = put(loaded, new.select([0]), content=Content.EQUALITY_DELETES, equality_ids=[1])

        def build(current: LoadedTable) -> Change:
            return row_delta(store, current, [data], [gone], summary={}, clock=SystemClock(), ids=ids)

        result = commit_with_retry(catalog, ident, build, store=store, clock=SystemClock(), ids=ids)
        if not result.applied:
            raise TableFormatError("the upsert was not applied")
        kept.update(dict.fromkeys(wanted, number))

    return Writer(f"{table} (upserts from {first_id})", write, kept)
