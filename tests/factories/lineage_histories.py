"""Random histories of a table that becomes format version 3 on its way, and what its rows and their lineage must be.

The model knows of each row its values, its id and the sequence number of its last change; it knows files only as a
writer does that deletes or updates rows in them.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.parquet as pq
from hypothesis import strategies as st

from maintenance.compaction.job import run
from maintenance.ports import JobKind, JobSettings
from maintenance.report import Outcome, Report
from table_format.catalog import LoadedTable
from table_format.commit.change import Change
from table_format.commit.producer import SnapshotProducer
from table_format.commit.rewrite import kept_manifests
from table_format.commit.summary import Changes, Operation
from table_format.commit.tree import HeadTree, TreeCache, file_key
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, ManifestContent, ManifestEntry, Status
from table_format.scan.deletes import read_task
from table_format.scan.index import is_vector
from table_format.scan.lineage import LAST_UPDATED, ROW_ID, with_lineage
from table_format.scan.plan import FileTask
from tests.factories.delete_histories import NAMES, SCHEMA, SMALL_TIERS
from tests.factories.lake import BY_NAME, IDENT, Lake
from tests.factories.vectors import put_vector
from tests.fakes.jobs import FakeContext, job

WRITES = ("append", "delete", "update", "equality", "upgrade", "evolve")
writes = st.tuples(st.sampled_from(WRITES), st.sampled_from(NAMES), st.integers(0, 7))
compactions = st.tuples(
    st.sampled_from(["compact", "deletes"]), st.lists(writes, max_size=2), st.integers(1, 3)
)
steps = st.lists(writes | compactions, min_size=4, max_size=12)

_deleting = st.tuples(
    st.sampled_from(["delete", "delete", "delete", "update", "append", "upgrade"]),
    st.sampled_from(NAMES),
    st.integers(0, 7),
)
_moved = st.tuples(st.just("deletes"), st.lists(_deleting, max_size=2), st.integers(1, 3))
delete_steps = st.lists(_deleting | _deleting | _moved, min_size=4, max_size=14).map(
    lambda script: [("append", "x", 7), ("append", "y", 7), ("append", "x", 6), *script]
)
"""Files with many rows whose deletes are stored anew again and again."""


@dataclass(frozen=True)
class Row:
    """A live row; its id and last change are None while the table does not know them."""

    id: int
    name: str
    version: int
    """Of no other row."""
    row_id: int | None = None
    changed: int | None = None


def put_vectors(
    lake: Lake, deleted: Sequence[tuple[FileTask, Sequence[int]]], added: Sequence[DataFile] = (), **more: Any
) -> None:
    """One commit: data files, and for each task a deletion vector in place of the one that it has."""

    def build(table: LoadedTable) -> Change:
        changes = Changes()
        tree = HeadTree(lake.store, table.metadata, TreeCache())
        gone = {
            file_key(entry.data_file)
            for task, _ in deleted
            for entry in task.deletes
            if is_vector(entry.data_file)
        }
        with SnapshotProducer(lake.store, table, clock=lake.clock, ids=lake.ids) as producer:
            manifests = producer.write_added((file, None) for file in added)
            by_spec: dict[int, list[ManifestEntry]] = {}
            for task, positions in deleted:
                file = task.entry.data_file
                vector = put_vector(lake.store, lake.path("v"), file, positions, **more)
                vector = replace(vector, spec_id=file.spec_id, partition=file.partition)
                entry = ManifestEntry(
                    status=Status.ADDED,
                    snapshot_id=producer.snapshot_id,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=vector,
                )
                by_spec.setdefault(file.spec_id, []).append(entry)
                changes.add(vector)
            for file in added:
                changes.add(file)
            for spec, entries in by_spec.items():
                manifests.append(producer.write_manifest(entries, spec, ManifestContent.DELETES))
            kept = kept_manifests(producer, tree, gone, changes)
            return producer.finish(Operation.OVERWRITE, [*manifests, *kept], changes, extra={})

    lake.commit(build)


def read_lineage(lake: Lake, snapshot_id: int | None = None) -> list[tuple[int, str, int, Any, Any]]:
    """All rows as our own reader sees them, with id and last change."""
    return sorted(
        (row["id"], row["name"], row["version"], row[ROW_ID], row[LAST_UPDATED])
        for task in lake.tasks(snapshot_id)
        for batch in read_task(lake.store, task, lake.metadata, lineage=True)
        for row in batch.to_pylist()
    )


EVERY_DELETE: JsonObject = {"tiers": SMALL_TIERS, "minInputFiles": 2, "deleteFileThreshold": 1}
"""Small files are merged, and a file with a single delete is rewritten."""
ONLY_DELETES: JsonObject = {
    "tiers": [{"belowBytes": 1024, "targetBytes": 2048}],
    "minInputFiles": 2,
    "deleteRatio": 1,
}
"""Data files are large enough, so that at most their deletes are stored anew."""


def compacted(lake: Lake, asked: JsonObject = EVERY_DELETE, **settings: int) -> Report:
    """One run of the compaction job."""
    ctx = FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(**settings),  # type: ignore[arg-type]
        documents={JobKind.COMPACTION: {"status": "enabled", "settings": asked}},
        ident=IDENT,
    )
    return run(ctx, job(JobKind.COMPACTION, IDENT, str(lake.metadata.uuid)))


@dataclass
class LineageHistory:
    """A lake, its writers, and the rows that it must have."""

    lake: Lake
    partitioned: bool
    rows: dict[int, Row] = field(default_factory=dict)
    """By version."""
    at: dict[int, list[Any]] = field(default_factory=dict)
    """What each snapshot held, with the ids it gave."""
    changes: int = 0

    @classmethod
    def of(cls, make: Callable[..., Lake], *, partitioned: bool, version: int) -> "LineageHistory":
        """A new table by name or without partitions, of that format version."""
        spec = BY_NAME if partitioned else None
        return cls(make(schema=SCHEMA, spec=spec, **{"format-version": str(version)}), partitioned)

    @property
    def is_v3(self) -> bool:
        return self.lake.metadata.format_version > 2

    def play(self, step: Any) -> None:
        """One step: a write, or a compaction (of deletes alone) during which others write."""
        if step[0] in ("compact", "deletes"):
            kind, meanwhile, batch = step
            for write in meanwhile:
                self.lake.catalog.before_commit.append(lambda write=write: self._meanwhile(*write))
            self.compact(ONLY_DELETES if kind == "deletes" else EVERY_DELETE, groups_per_commit=batch)
            while self.lake.catalog.before_commit:
                self.lake.catalog.before_commit.popleft()()
        else:
            self.write(*step)

    def _meanwhile(self, *write: Any) -> None:
        pending = list(self.lake.catalog.before_commit)
        self.lake.catalog.before_commit.clear()
        self.write(*write)
        self.lake.catalog.before_commit.extend(pending)

    def compact(self, asked: JsonObject | None = None, **settings: int) -> Report:
        """One run of the compaction job."""
        report = compacted(self.lake, asked or EVERY_DELETE, **settings)
        if report.outcome is Outcome.DONE:
            self._note()
        return report

    def write(self, kind: str, name: str, which: int) -> None:
        """One commit of a writer, within a partition where there are some."""
        self.changes += 1
        before = self.lake.metadata.current_snapshot_id
        partition = (name,) if self.partitioned else ()
        if kind == "append":
            rows = [Row(n % 4, name, self.changes * 10 + n) for n in range(which + 1)]
            self.lake.append(self._file(rows, partition))
            self._added(rows)
        elif kind == "equality":
            delete = self.lake.equality_file([{"id": which % 4, "name": name}], [1, 2], partition=partition)
            self.lake.row_delta([], [delete])
            reached = self._reached(name) if self.partitioned else self.rows
            gone = {v for v in reached if (self.rows[v].id, self.rows[v].name) == (which % 4, name)}
            self.rows = {version: row for version, row in self.rows.items() if version not in gone}
        elif kind in ("delete", "update"):
            self._delete(which, updated=kind == "update")
        elif kind == "upgrade" and not self.is_v3:
            self._upgrade()
        elif kind == "evolve" and not self.partitioned:
            spec = {"fields": [{"source-id": 2, "name": "by_name", "transform": "identity"}]}
            updates = [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}]
            self.lake.catalog.commit(IDENT, [], updates)
            self.partitioned = True
        if self.lake.metadata.current_snapshot_id != before:
            self._note()

    def _reached(self, name: str) -> set[int]:
        """Versions of the rows in files of the current spec and the partition."""
        spec = self.lake.metadata.default_spec_id
        return {
            row["version"]
            for task in self.lake.tasks()
            if (task.entry.data_file.spec_id, task.entry.data_file.partition) == (spec, (name,))
            for row in self._content(task)
            if row["version"] in self.rows
        }

    def _file(self, rows: Sequence[Row], partition: Any, *, moved: bool = False) -> DataFile:
        content = [
            {"id": row.id, "name": row.name, "version": row.version, ROW_ID: row.row_id, LAST_UPDATED: None}
            for row in rows
        ]
        if moved:
            schema = with_lineage(self.lake.metadata.schema())
            return self.lake.data_file(content, partition=partition, schema=schema)
        plain = [{key: row[key] for key in ("id", "name", "version")} for row in content]
        return self.lake.data_file(plain, partition=partition)

    def _added(self, rows: Sequence[Row]) -> None:
        """New rows of the head's first manifest, which has the commit's first row id."""
        head = self.lake.metadata.current_snapshot
        assert head is not None
        for place, row in enumerate(rows):
            self.rows[row.version] = row
            if self.is_v3:
                row_id = head["first-row-id"] + place if row.row_id is None else row.row_id
                self.rows[row.version] = replace(row, row_id=row_id, changed=head["sequence-number"])

    def _content(self, task: FileTask) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = pq.read_table(
            io.BytesIO(self.lake.store.get(task.entry.data_file.file_path))
        ).to_pylist()
        return found

    def _delete(self, which: int, *, updated: bool) -> None:
        lake = self.lake
        spec = lake.metadata.default_spec_id
        tasks = [task for task in lake.tasks() if task.entry.data_file.spec_id == spec]
        if not tasks:
            return
        task = tasks[which % len(tasks)]
        content = self._content(task)
        place = which % len(content)
        old = self.rows.pop(content[place]["version"], None)
        file = task.entry.data_file
        new = [] if old is None or not updated else [replace(old, version=self.changes * 10)]
        added = [self._file(new, file.partition, moved=self.is_v3)] if new else []
        if self.is_v3:
            # Whoever deletes rows of a file puts all of its deletes into its vector.
            gone = [at for at, row in enumerate(content) if row["version"] not in self.rows]
            put_vectors(lake, [(task, gone)], added)
        else:
            more = {"referenced_data_file": file.file_path} if which % 2 else {}
            delete = lake.position_file([(file.file_path, place)], partition=file.partition, **more)
            lake.row_delta(added, [delete])
        self._added(new)

    def _upgrade(self) -> None:
        self.lake.catalog.commit(IDENT, [], [{"action": "upgrade-format-version", "format-version": 3}])
        self.at.clear()  # no snapshot from before it gives ids
        # Rows are as old as the data sequence number of their file says, whatever happens to them from here.
        for task in self.lake.tasks():
            for row in self._content(task):
                if (known := self.rows.get(row["version"])) is not None:
                    self.rows[known.version] = replace(known, changed=task.entry.sequence_number)

    def _note(self) -> None:
        """After a commit. The first one of format version 3 gives ids to the rows that have none."""
        head = self.lake.metadata.current_snapshot
        if not self.is_v3 or head is None or head.get("first-row-id") is None:
            return
        given = {version: row_id for _, _, version, row_id, _ in read_lineage(self.lake)}
        for version, row in self.rows.items():
            if row.row_id is None and given.get(version) is not None:
                self.rows[version] = replace(row, row_id=given[version])
        self.at.setdefault(head["snapshot-id"], self.expected())

    def expected(self) -> list[tuple[int, str, int, Any, Any]]:
        """What readers must see."""
        return sorted((r.id, r.name, r.version, r.row_id, r.changed) for r in self.rows.values())

    def check(self) -> None:
        """Our reader sees the model's rows; ids are each row's own and below the table's next one."""
        head = self.lake.metadata.current_snapshot
        found = [] if head is None else read_lineage(self.lake)
        if not self.is_v3 or head is None or head.get("first-row-id") is None:
            assert [row[:3] for row in found] == [row[:3] for row in self.expected()]
            return
        assert found == self.expected()
        row_ids = [row[3] for row in found]
        assert len(set(row_ids)) == len(row_ids)
        assert all(0 <= row_id < self.lake.metadata.document["next-row-id"] for row_id in row_ids)
