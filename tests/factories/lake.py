"""A table in a fake catalog with real files, and the commits that other writers make to it.

Rows are dictionaries. Data and delete files are written with plain pyarrow, so that what is read back does not rest
on our own writers.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.catalog import LoadedTable, NewTable, TableCatalog
from table_format.clock import Clock, Ids
from table_format.commit.append import append, carried_manifests
from table_format.commit.change import Change
from table_format.commit.producer import SnapshotProducer
from table_format.commit.retry import CommitResult, commit_with_retry
from table_format.commit.rewrite import RewriteGroup, rewrite
from table_format.commit.summary import Changes, Operation
from table_format.ident import TableIdent, join
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import (
    FILE_PATH_FIELD_ID,
    POSITION_FIELD_ID,
    Content,
    DataFile,
    ManifestContent,
    ManifestEntry,
    Partition,
    Status,
)
from table_format.metadata.document import TableMetadata
from table_format.scan.deletes import read_task
from table_format.scan.plan import FileTask, snapshot_files
from table_format.schema.arrow import to_arrow
from tests.fakes.catalog import FakeCatalog
from tests.fakes.clock import CountingIds, ManualClock

IDENT = TableIdent.of("db", "t")
SCHEMA: JsonObject = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
    ],
}
BY_NAME: JsonObject = {
    "spec-id": 0,
    "fields": [{"source-id": 2, "field-id": 1000, "name": "name", "transform": "identity"}],
}
_POSITIONS: JsonObject = {
    "type": "struct",
    "fields": [
        {"id": FILE_PATH_FIELD_ID, "name": "file_path", "required": True, "type": "string"},
        {"id": POSITION_FIELD_ID, "name": "pos", "required": True, "type": "long"},
    ],
}
Row = dict[str, Any]


class Lake:
    """One table."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        location: str = "memory://warehouse",
        spec: JsonObject | None = None,
        schema: JsonObject = SCHEMA,
        order: JsonObject | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        catalog: TableCatalog | None = None,
        ident: TableIdent = IDENT,
        first_file: int = 0,
        **properties: str,
    ) -> None:
        self.store = store
        self.clock = clock or ManualClock()
        self.ids = ids or CountingIds()
        self.catalog = catalog or FakeCatalog(store, self.clock, self.ids, location=location)
        self.ident = ident
        new = NewTable(schema=schema, partition_spec=spec, write_order=order, properties=properties)
        self.catalog.create(ident, new)
        self._files = first_file  # another number for a table at the same place

    @property
    def table(self) -> LoadedTable:
        return self.catalog.load(self.ident)

    @property
    def metadata(self) -> TableMetadata:
        return self.table.metadata

    @property
    def summary(self) -> Mapping[str, str]:
        head = self.metadata.current_snapshot
        assert head is not None
        summary: Mapping[str, str] = head["summary"]
        return summary

    def path(self, name: str) -> str:
        self._files += 1
        return join(self.metadata.location, "data", f"{self._files:05d}-{name}.parquet")

    def parquet(self, schema: JsonObject, rows: Sequence[Row], path: str) -> int:
        """Write a Parquet file; its size."""
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(list(rows), schema=to_arrow(schema)), buffer)
        self.store.put(path, buffer.getvalue(), if_absent=True)
        return len(buffer.getvalue())

    def data_file(
        self, rows: Sequence[Row], *, partition: Partition = (), schema: JsonObject | None = None
    ) -> DataFile:
        path = self.path("d")
        size = self.parquet(schema or self.metadata.schema(), rows, path)
        return DataFile(
            file_path=path,
            record_count=len(rows),
            file_size_in_bytes=size,
            column_sizes={},  # PyIceberg's inspect stumbles where they are missing
            partition=partition,
            spec_id=self.metadata.default_spec_id,
        )

    def equality_file(
        self,
        rows: Sequence[Row],
        ids: list[int],
        *,
        partition: Partition = (),
        schema: JsonObject | None = None,
    ) -> DataFile:
        """An equality delete file with the columns `ids` of the (current) schema."""
        whole = schema or self.metadata.schema()
        keys = {"type": "struct", "fields": [f for f in whole["fields"] if f["id"] in ids]}
        path = self.path("e")
        return DataFile(
            content=Content.EQUALITY_DELETES,
            file_path=path,
            record_count=len(rows),
            file_size_in_bytes=self.parquet(keys, rows, path),
            partition=partition,
            spec_id=self.metadata.default_spec_id,
            equality_ids=ids,
        )

    def position_file(
        self, positions: Sequence[tuple[str, int]], *, partition: Partition = (), **more: Any
    ) -> DataFile:
        path = self.path("p")
        rows = [{"file_path": target, "pos": pos} for target, pos in sorted(positions)]
        return DataFile(
            content=Content.POSITION_DELETES,
            file_path=path,
            record_count=len(rows),
            file_size_in_bytes=self.parquet(_POSITIONS, rows, path),
            partition=partition,
            spec_id=self.metadata.default_spec_id,
            **more,
        )

    def commit(self, build: Callable[[LoadedTable], Change | None]) -> CommitResult:
        return commit_with_retry(
            self.catalog, self.ident, build, store=self.store, clock=self.clock, ids=self.ids
        )

    def append(self, *files: DataFile, merge_min: int | None = None, **summary: str) -> CommitResult:
        return self.commit(
            lambda table: append(
                self.store,
                table,
                files,
                summary=summary,
                clock=self.clock,
                ids=self.ids,
                merge_min=merge_min,
            )
        )

    def append_rows(self, *rows: Row, partition: Partition = ()) -> DataFile:
        file = self.data_file(rows, partition=partition)
        self.append(file)
        return file

    def row_delta(self, data: Sequence[DataFile], deletes: Sequence[DataFile]) -> CommitResult:
        """What an upserting writer commits: data and delete files in one snapshot."""

        def build(table: LoadedTable) -> Change:
            changes = Changes()
            for file in (*data, *deletes):
                changes.add(file)
            with SnapshotProducer(self.store, table, clock=self.clock, ids=self.ids) as producer:
                new = producer.write_added((file, None) for file in data)
                entries = [
                    ManifestEntry(
                        status=Status.ADDED,
                        snapshot_id=producer.snapshot_id,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                    for file in deletes
                ]
                specs = sorted({file.spec_id for file in deletes})
                new += [
                    producer.write_manifest(
                        [e for e in entries if e.data_file.spec_id == spec], spec, ManifestContent.DELETES
                    )
                    for spec in specs
                ]
                old = carried_manifests(self.store, table.metadata)
                return producer.finish(Operation.OVERWRITE, [*new, *old], changes, extra={})

        return self.commit(build)

    def tasks(self, snapshot_id: int | None = None) -> list[FileTask]:
        return snapshot_files(self.store, self.metadata, snapshot_id).tasks

    def rows(self, snapshot_id: int | None = None) -> list[Row]:
        """What our own reader sees, in any order made one."""
        found = [
            row
            for task in self.tasks(snapshot_id)
            for batch in read_task(self.store, task, self.metadata)
            for row in batch.to_pylist()
        ]
        return sorted(found, key=lambda row: tuple((value is None, str(value)) for value in row.values()))

    def group(self, tasks: Sequence[FileTask] | None = None) -> RewriteGroup:
        """A group of these tasks (all by default), rewritten as one file, at the current head."""
        chosen = self.tasks() if tasks is None else tasks
        rows = [
            row
            for task in chosen
            for batch in read_task(self.store, task, self.metadata)
            for row in batch.to_pylist()
        ]
        head = self.metadata.current_snapshot
        assert head is not None
        partition = chosen[0].entry.data_file.partition
        return RewriteGroup(
            inputs=[task.entry for task in chosen],
            outputs=[self.data_file(rows, partition=partition)] if rows else [],
            base_snapshot_id=head["snapshot-id"],
            base_sequence_number=head.get("sequence-number", 0),
        )

    def rewrite(self, *groups: RewriteGroup, **summary: str) -> tuple[CommitResult, list[RewriteGroup]]:
        dropped: list[RewriteGroup] = []

        def build(table: LoadedTable) -> Change | None:
            change, lost = rewrite(self.store, table, groups, summary=summary, clock=self.clock, ids=self.ids)
            dropped[:] = lost
            return change

        return self.commit(build), dropped
