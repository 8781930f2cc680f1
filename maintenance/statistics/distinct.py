"""Rows read for their distinct values: pieces of work over some data files, each giving a sketch per column.

Rows that deletes took away do not count. Memory holds a batch of rows and a sketch a column, however many rows there
are. A piece writes nothing, so one that is lost leaves nothing behind.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from maintenance.executors.port import GoOn
from maintenance.statistics.theta import Sketch, hashes
from maintenance.statistics.values import spans
from table_format.errors import Internal
from table_format.io.store import ObjectStore
from table_format.manifest.lines import FileLine
from table_format.metadata.document import TableMetadata
from table_format.scan.deletes import DeleteCache, Tally, read_task
from table_format.scan.lines import SnapshotLines
from table_format.scan.plan import FileTask

_HISTORY: Final = ("snapshots", "snapshot-log", "metadata-log", "refs", "statistics", "partition-statistics")
_PIECE_BYTES: Final = 256 << 20
_PIECE_FILES: Final = 256
"""A piece of work has about so much to read: enough to be worth a process's while, little enough to lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What some files came to."""

    sketches: Mapping[int, bytes] = field(repr=False)
    """By column; the bytes of a `Sketch`."""
    rows: int
    """Read, without deleted ones."""
    files: int
    size: int
    """Bytes of the files; what was fetched of them is less where not all their columns are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountWork:
    """Data files whose distinct values are counted in some columns."""

    tasks: tuple[FileTask, ...]
    metadata: TableMetadata
    """As `only_columns` leaves it."""

    @property
    def title(self) -> str:
        """What it is, for messages."""
        return f"distinct values of {len(self.tasks)} files, first {self.tasks[0].entry.data_file.file_path}"

    def run(self, store: ObjectStore, go_on: GoOn) -> Counted:
        """Read the files.

        Raises:
            NoSuchFile, Invalid, Unsupported: one can not be read.
            Internal: there were other rows than the manifests say.
        """
        fields = self.metadata.schema()["fields"]
        sketches = {column["id"]: Sketch() for column in fields}
        cache, tally = DeleteCache(), Tally()
        cache.sweep(store, self.tasks, self.metadata, go_on)
        for task in self.tasks:
            for batch in read_task(store, task, self.metadata, cache=cache, tally=tally):
                go_on()
                for column, values in zip(fields, batch.columns, strict=True):
                    sketches[column["id"]].add(hashes(spans(values)))
        said = sum(task.entry.data_file.record_count for task in self.tasks)
        if tally.rows != said:
            raise Internal(f"{self.title}: the manifests say {said} rows, read {tally.rows}")
        return Counted(
            sketches={column: sketch.to_bytes() for column, sketch in sketches.items()},
            rows=tally.rows - tally.deleted,
            files=len(self.tasks),
            size=sum(task.entry.data_file.file_size_in_bytes for task in self.tasks),
        )


def only_columns(metadata: TableMetadata, columns: Iterable[int]) -> TableMetadata:
    """The metadata without its history, with a current schema of these top-level columns alone.

    What else reading needs stays: the other schemas tell the columns of equality deletes.
    """
    wanted = set(columns)
    current = metadata.schema()
    fresh_id = max(schema.get("schema-id", 0) for schema in metadata.schemas) + 1
    kept = [column for column in current["fields"] if column["id"] in wanted]
    narrow = {"type": "struct", "schema-id": fresh_id, "fields": kept}
    document = {key: value for key, value in metadata.document.items() if key not in _HISTORY}
    older = [
        schema for schema in metadata.schemas if schema.get("schema-id", 0) != metadata.current_schema_id
    ]
    # A column that is not counted is looked up in the newest schema that has it: the last one.
    return TableMetadata({**document, "schemas": [*older, current, narrow], "current-schema-id": fresh_id})


def pieces(lines: Iterable[FileLine], files: SnapshotLines, metadata: TableMetadata) -> Iterator[CountWork]:
    """Some of the files, with the deletes that apply to them, in pieces of work."""
    taken: list[FileTask] = []
    size = 0
    for line in lines:
        taken.append(FileTask(line.data_entry(), files.deletes.get(line.file_path, ())))
        size += line.file_size_in_bytes
        if size >= _PIECE_BYTES or len(taken) >= _PIECE_FILES:
            yield CountWork(tasks=tuple(taken), metadata=metadata)
            taken, size = [], 0
    if taken:
        yield CountWork(tasks=tuple(taken), metadata=metadata)
