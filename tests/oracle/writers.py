"""Those who write to a table in a history: Java, DuckDB, PyIceberg and our own writer. A method is one commit.

Each writer draws what it does from the history's randomness. What a writer is known to be unable to do is named in
`REFUSALS`: such a step changes nothing, and is counted as refused. Anything else that fails is a fault.
"""

import io
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo, IsNull

from table_format.catalog import LoadedTable
from table_format.clock import SystemClock, SystemIds
from table_format.commit.append import append
from table_format.commit.change import Change
from table_format.commit.producer import SnapshotProducer
from table_format.commit.retry import commit_with_retry
from table_format.commit.rewrite import kept_manifests
from table_format.commit.row_delta import row_delta
from table_format.commit.summary import Changes, Operation
from table_format.commit.tree import HeadTree, TreeCache, file_key
from table_format.ident import TableIdent, join
from table_format.io.resolve import store_for
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, ManifestContent
from table_format.metadata.document import TableMetadata
from table_format.rest import RestCatalog
from table_format.scan.index import is_vector
from table_format.scan.plan import snapshot_files
from table_format.schema.arrow import to_arrow
from table_format.write.deletes import EqualityDeleteWriter
from table_format.write.parquet import TableWriter
from table_format.write.positions import write_positions
from table_format.write.vectors import write_vectors
from tests.oracle import readers, values
from tests.oracle.lab import BUCKET, NAMESPACE, Lab

REFUSALS: tuple[tuple[str, str, str], ...] = (
    ("flink", "Cannot determine history between", "Flink's row deltas look for snapshots that have expired"),
    (
        "flink",
        "must be included in equality fields",
        "Flink upserts only within partitions of the identifier",
    ),
    ("duckdb", "INSERT into a sorted iceberg table is not supported", "DuckDB writes no sorted tables"),
    ("duckdb", "Update on a sorted iceberg table is not supported", "DuckDB writes no sorted tables"),
    ("duckdb", "required field 'sequence_number' is NULL", "DuckDB carries no manifests of format version 1"),
    ("pyiceberg", "does not yet support equality deletes", "PyIceberg reads no equality deletes"),
    ("pyiceberg", "Target table has duplicate rows", "PyIceberg upserts only where keys are unique"),
    ("pyiceberg", "Unsupported file format", "PyIceberg reads no Avro"),
    (
        "ours",
        "deletes by this key may miss rows in other partitions",
        "a key under which rows could be missed",
    ),
)
"""(writer, pattern of its message, why that is no fault of ours)."""


TIME_ID = 2
"""Of the column by which rows grow old."""


class Refused(Exception):
    """The writer can not do that; the table is as it was."""


@dataclass
class Target:
    """The table that is written to, as it is now."""

    lab: Lab
    rng: random.Random
    table: str
    metadata: TableMetadata
    key: str
    """The name of the key's column."""
    formats: tuple[str, ...] = ("parquet",)
    """Of files that Java writes."""
    null_keys: bool = False

    @property
    def fields(self) -> list[JsonObject]:
        found: list[JsonObject] = self.metadata.schema()["fields"]
        return found

    def rows(self, most: int = 30) -> list[values.Row]:
        """New rows; now and then all of them old."""
        found = [self.row() for _ in range(self.rng.randint(1, most))]
        if self.rng.random() < 0.2:
            column = next(field for field in self.fields if field["id"] == TIME_ID)
            for row in found:
                row[column["name"]] = values.old(self.rng, str(column["type"]))
        return found

    def row(self) -> values.Row:
        row = {
            field["name"]: values.value(self.rng, field["type"])
            for field in self.fields
            if field["name"] != self.key
        }
        return {**row, self.key: self.key_value()}

    def key_value(self) -> Any:
        if self.null_keys and self.rng.random() < 0.05:
            return None
        return values.value(self.rng, self.key_type, key=True)

    @property
    def key_type(self) -> str:
        return next(str(field["type"]) for field in self.fields if field["name"] == self.key)

    def arrow(self, rows: Sequence[values.Row], schema: pa.Schema | None = None) -> pa.Table:
        content = [
            {
                field["name"]: values.native(field["type"], row[field["name"]])
                for field in self.fields
                if field["name"] in row
            }
            for row in rows
        ]
        return pa.Table.from_pylist(content, schema=schema or to_arrow(self.metadata.schema()))


Step = Callable[[Target], object]


def attempt(writer: str, step: Step, target: Target) -> None:
    """One commit.

    Raises:
        Refused: the writer is known not to do that.
    """
    try:
        step(target)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        for who, pattern, why in REFUSALS:
            if who == writer and re.search(pattern, told):
                raise Refused(why) from error
        raise


def unfit(writer: str, name: str, target: Target) -> str | None:
    """Why a writer is not asked for that: what it would do to the table is wrong, or read differently by others."""
    metadata = target.metadata
    if metadata.format_version < 2 and (writer, name) not in PLAIN_WRITES:
        return "format version 1 has no deletes"
    if writer == "duckdb" and metadata.format_version < 2:
        return "DuckDB writes sequence numbers into format version 1"
    if writer == "duckdb" and any(str(field["type"]).startswith("fixed") for field in target.fields):
        return "DuckDB writes fixed values as binary ones, which Java does not read"
    if writer == "duckdb" and name != "append" and (head := metadata.current_snapshot_id) is not None:
        version = target.lab.version(target.table)
        if (reason := readers.why_not_duckdb(version, head)) is not None:
            return f"DuckDB reads what it deletes from: {reason}"
        specs = {task.entry.data_file.spec_id for task in readers.tasks_of(version, head)}
        if specs - {metadata.default_spec_id}:
            return "DuckDB files deletes under the current spec, where they do not reach data of others"
    if writer == "pyiceberg" and metadata.format_version > 2:
        return "PyIceberg writes no format version 3"
    return None


PLAIN_WRITES = {
    ("java", "append"),
    ("java", "replace"),
    ("java", "overwrite"),
    ("duckdb", "append"),
    ("pyiceberg", "append"),
    ("pyiceberg", "delete"),
    ("pyiceberg", "upsert"),
    ("ours", "append"),
    ("arrow", "append"),
}


# Java


def _java(target: Target, command: str, **members: Any) -> None:
    target.lab.ask(target.table, command, format=target.rng.choice(target.formats), **members)


def java_append(target: Target) -> None:
    _java(target, "write", rows=target.rows(), how=target.rng.choice(("append", "fast")))


def java_replace(target: Target) -> None:
    _java(target, "write", rows=target.rows(4), how="replace")


def java_upsert(target: Target) -> None:
    _java(target, "upsert", rows=target.rows(12), key=[target.key])


def java_delete_equal(target: Target) -> None:
    keys = [target.key]
    if target.rng.random() < 0.3:
        keys.append(target.rng.choice([f["name"] for f in target.fields if isinstance(f["type"], str)]))
    _java(target, "deleteEqual", rows=target.rows(4), key=sorted(set(keys)))


def java_delete_positions(target: Target) -> None:
    rng = target.rng
    share, per = rng.choice((0.05, 0.3, 1.0)), rng.choice(("file", "partition"))
    rows = target.rows(3) if rng.random() < 0.4 else []
    _java(target, "deletePositions", rows=rows, seed=rng.randrange(10**6), share=share, per=per)


def java_overwrite(target: Target) -> None:
    _java(target, "overwrite", rows=target.rows(6), seed=target.rng.randrange(10**6), share=0.3)


# DuckDB


def _duck(target: Target, statement: str) -> None:
    connection = target.lab.attached()
    try:
        connection.execute(statement.replace("TABLE", f"lake.{NAMESPACE}.{target.table}"))
    finally:
        connection.close()


def _where(target: Target) -> str:
    given = target.key_value()
    name = f'"{target.key}"'
    return f"{name} IS NULL" if given is None else f"{name} = {values.literal(target.key_type, given)}"


def duckdb_append(target: Target) -> None:
    rows = [
        f"({', '.join(values.literal(field['type'], row[field['name']]) for field in target.fields)})"
        for row in target.rows(12)
    ]
    _duck(target, f"INSERT INTO TABLE VALUES {', '.join(rows)}")


def duckdb_delete(target: Target) -> None:
    _duck(target, f"DELETE FROM TABLE WHERE {_where(target)}")


def duckdb_update(target: Target) -> None:
    field = target.rng.choice([f for f in target.fields if f["name"] != target.key])
    new = values.literal(field["type"], values.value(target.rng, field["type"]))
    _duck(target, f'UPDATE TABLE SET "{field["name"]}" = {new} WHERE {_where(target)}')


# PyIceberg


def _theirs(target: Target) -> Any:
    catalog = load_catalog("frazil", type="rest", uri=target.lab.iceberg, warehouse=BUCKET)
    return catalog.load_table(f"{NAMESPACE}.{target.table}")


def _pyarrow(target: Target, table: Any, rows: Sequence[values.Row]) -> pa.Table:
    return target.arrow(rows, table.schema().as_arrow())


def pyiceberg_append(target: Target) -> None:
    table = _theirs(target)
    table.append(_pyarrow(target, table, target.rows()))


def pyiceberg_delete(target: Target) -> None:
    given = target.key_value()
    _theirs(target).delete(IsNull(target.key) if given is None else EqualTo(target.key, given))


def pyiceberg_upsert(target: Target) -> None:
    table = _theirs(target)
    by_key = {row[target.key]: row for row in target.rows(6) if row[target.key] is not None}
    table.upsert(_pyarrow(target, table, list(by_key.values())), join_cols=[target.key])


# Ours


def _ours(target: Target, build: Callable[[LoadedTable], Change | None]) -> None:
    catalog = RestCatalog(target.lab.iceberg, BUCKET)
    store = store_for(target.metadata.location)
    ident = TableIdent.of(NAMESPACE, target.table)
    commit_with_retry(catalog, ident, build, store=store, clock=SystemClock(), ids=SystemIds())


def _written(target: Target, table: LoadedTable, rows: Sequence[values.Row]) -> list[DataFile]:
    store = store_for(table.metadata.location)
    writer = TableWriter(store=store, metadata=table.metadata, ids=SystemIds(), target_bytes=2**20)
    for batch in target.arrow(rows).to_batches():
        writer.write(batch)
    return writer.flush()


def ours_append(target: Target) -> None:
    rows, merge = target.rows(), target.rng.choice((None, 2))

    def build(table: LoadedTable) -> Change:
        store, files = store_for(table.metadata.location), _written(target, table, rows)
        return append(store, table, files, summary={}, clock=SystemClock(), ids=SystemIds(), merge_min=merge)

    _ours(target, build)


def ours_upsert(target: Target) -> None:
    """As ingest does: the newest rows of some keys, and equality deletes of the older ones."""
    by_key = {row[target.key]: row for row in target.rows(12)}
    key_id = next(field["id"] for field in target.fields if field["name"] == target.key)

    def build(table: LoadedTable) -> Change:
        store = store_for(table.metadata.location)
        files = _written(target, table, list(by_key.values()))
        deletes = EqualityDeleteWriter(
            store=store, metadata=table.metadata, ids=SystemIds(), target_bytes=2**20, key_ids=[key_id]
        )
        keys = target.arrow([{target.key: key} for key in by_key], deletes.arrow_schema)
        for batch in keys.to_batches():
            deletes.write(batch)
        gone = deletes.flush()
        return row_delta(store, table, files, gone, summary={}, clock=SystemClock(), ids=SystemIds())

    _ours(target, build)


def ours_delete(target: Target) -> None:
    """Rows by position: delete files, or vectors in format version 3."""
    rng = target.rng
    seed, share = rng.randrange(10**6), rng.choice((0.1, 0.5))

    def build(table: LoadedTable) -> Change | None:
        draw = random.Random(seed)
        store, metadata = store_for(table.metadata.location), table.metadata
        vectors = metadata.format_version >= 3
        tree = HeadTree(store, metadata, TreeCache())
        changes, replaced = Changes(), set()
        deletes: list[DataFile] = []
        for number, task in enumerate(snapshot_files(store, metadata).tasks):
            file = task.entry.data_file
            drawn = np.array([at for at in range(file.record_count) if draw.random() < share], np.int64)
            if not len(drawn) or (vectors and task.deletes):
                continue  # a vector would have to hold what the other deletes say
            path = join(metadata.location, "data", f"{SystemIds().uuid()}-{number}")
            if vectors:
                deletes += write_vectors(store, f"{path}.puffin", [(file, drawn)], created_by="test")
                replaced |= {file_key(e.data_file) for e in task.deletes if is_vector(e.data_file)}
            else:
                name = f"{path}.parquet"
                deletes.append(
                    write_positions(
                        store,
                        name,
                        {file.file_path: drawn},
                        partition=file.partition,
                        spec_id=file.spec_id,
                        properties=metadata.properties,
                    )
                )
        if not deletes:
            return None
        for file in deletes:
            changes.add(file)
        with SnapshotProducer(store, table, clock=SystemClock(), ids=SystemIds()) as producer:
            new = producer.write_added(((file, None) for file in deletes), ManifestContent.DELETES)
            kept = kept_manifests(producer, tree, replaced, changes)
            return producer.finish(Operation.DELETE, [*new, *kept], changes, extra={})

    _ours(target, build)


ODD_FILES: tuple[dict[str, Any], ...] = (
    {"compression": "gzip", "data_page_version": "2.0"},
    {"compression": "lz4"},
    {"compression": "none", "use_dictionary": False},
    {"compression": "zstd", "row_group_size": 3, "write_page_index": True},
    {"compression": "snappy", "use_dictionary": False, "column_encoding": True},
)


def arrow_append(target: Target) -> None:
    """A file of plain pyarrow in a codec or encoding that is seldom met, added as it is."""
    spec = target.metadata.spec()
    if spec["fields"]:
        return ours_append(target)
    options = dict(target.rng.choice(ODD_FILES))
    content = target.arrow(target.rows())
    if options.pop("column_encoding", False):
        options["column_encoding"] = _encodings(content.schema)
    path = join(target.metadata.location, "data", f"{SystemIds().uuid()}.parquet")
    buffer = io.BytesIO()
    pq.write_table(content, buffer, **options)
    store = store_for(path)
    store.put(path, buffer.getvalue(), if_absent=True)
    file = DataFile(
        file_path=path,
        record_count=content.num_rows,
        file_size_in_bytes=len(buffer.getvalue()),
        column_sizes={},  # PyIceberg stumbles where they are missing
        spec_id=spec["spec-id"],
    )

    def build(table: LoadedTable) -> Change:
        return append(store, table, [file], summary={}, clock=SystemClock(), ids=SystemIds())

    return _ours(target, build)


def _encodings(schema: pa.Schema) -> dict[str, str]:
    found = {}
    for field in schema:
        if pa.types.is_floating(field.type):
            found[field.name] = "BYTE_STREAM_SPLIT"
        elif pa.types.is_integer(field.type):
            found[field.name] = "DELTA_BINARY_PACKED"
        elif pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            found[field.name] = "DELTA_BYTE_ARRAY"
    return found


WRITES: dict[str, dict[str, Step]] = {
    "java": {
        "append": java_append,
        "replace": java_replace,
        "upsert": java_upsert,
        "delete by key": java_delete_equal,
        "delete by position": java_delete_positions,
        "overwrite": java_overwrite,
    },
    "duckdb": {"append": duckdb_append, "delete": duckdb_delete, "update": duckdb_update},
    "pyiceberg": {"append": pyiceberg_append, "delete": pyiceberg_delete, "upsert": pyiceberg_upsert},
    "ours": {"append": ours_append, "upsert": ours_upsert, "delete": ours_delete},
    "arrow": {"append": arrow_append},
}
