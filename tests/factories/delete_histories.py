"""Random histories of a table with row-level deletes, and what its rows must be after each step.

The model knows rows and their ages only: which files there are, and which deletes lie on them, it never asks.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq
from hypothesis import strategies as st

from maintenance.compaction.job import run
from maintenance.ports import JobKind, JobSettings
from maintenance.report import Report
from table_format.jsontypes import JsonObject
from tests.factories.lake import BY_NAME, IDENT, Lake
from tests.fakes.jobs import FakeContext, job

SCHEMA: JsonObject = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
        {"id": 3, "name": "version", "required": False, "type": "long"},
    ],
}
NAMES = ("x", "y")
WRITES = ("append", "upsert", "equality", "position", "named", "evolve")


def scripts(*kinds: str) -> st.SearchStrategy[list[Any]]:
    """Writes of these kinds, and compactions during which others write."""
    writes = st.tuples(st.sampled_from(kinds), st.sampled_from(NAMES), st.integers(0, 7))
    compaction = st.tuples(st.just("compact"), st.lists(writes, max_size=2), st.integers(1, 3))
    return st.lists(writes | compaction, min_size=3, max_size=12)


steps = scripts(*WRITES)
SMALL_TIERS = [{"belowBytes": 8192, "targetBytes": 16384}, {"belowBytes": 32768, "targetBytes": 65536}]


def shown(row: dict[str, Any]) -> tuple[int, str, int]:
    """A row as a tuple in the order of columns."""
    return row["id"], row["name"], row["version"]


@dataclass
class History:
    """A lake, its writers, and the rows that it must have."""

    lake: Lake
    partitioned: bool
    rows: list[tuple[int, str, int]] = field(default_factory=list)
    at: dict[int, list[tuple[int, str, int]]] = field(default_factory=dict)
    """The rows of each snapshot."""
    changes: int = 0
    """Commits of writers."""
    whole_keys: bool = False
    """Whether equality deletes name the partition's column too, so that their reach by partition does not matter."""

    @classmethod
    def of(cls, make: Callable[..., Lake], *, partitioned: bool, whole_keys: bool = False) -> "History":
        """A new table by name or without partitions."""
        lake = make(schema=SCHEMA, spec=BY_NAME if partitioned else None)
        return cls(lake, partitioned, whole_keys=whole_keys)

    def play(self, step: Any) -> None:
        """One step: a write, or a compaction during which others write."""
        if step[0] == "compact":
            _, meanwhile, batch = step
            for write in meanwhile:
                self.lake.catalog.before_commit.append(lambda write=write: self.write(*write))
            self.compact(groups_per_commit=batch)
            while self.lake.catalog.before_commit:
                self.lake.catalog.before_commit.popleft()()
        else:
            self.write(*step)
        self._note()

    def compact(self, **settings: int) -> Report:
        """One run of the compaction job, by which every delete counts."""
        asked = {"tiers": SMALL_TIERS, "minInputFiles": 2, "deleteFileThreshold": 1}
        ctx = FakeContext(
            catalog=self.lake.catalog,
            clock=self.lake.clock,
            ids=self.lake.ids,
            store=self.lake.store,
            settings=JobSettings(**settings),  # type: ignore[arg-type]
            documents={JobKind.COMPACTION: {"status": "enabled", "settings": asked}},
            ident=IDENT,
        )
        report = run(ctx, job(JobKind.COMPACTION, IDENT, str(self.lake.metadata.uuid)))
        self._note()
        return report

    def write(self, kind: str, name: str, which: int) -> None:
        """One commit of a writer, within a partition where there are some."""
        pending = list(self.lake.catalog.before_commit)
        self.lake.catalog.before_commit.clear()
        self._write(kind, name, which)
        self.lake.catalog.before_commit.extend(pending)
        self._note()

    def _write(self, kind: str, name: str, which: int) -> None:
        self.changes += 1
        lake = self.lake
        partition = (name,) if self.partitioned else ()
        key = which % 4
        if kind == "append":
            new = [(n % 4, name, self.changes * 10 + n) for n in range(which + 1)]
            lake.append(self._file(new, partition))
            self.rows += new
        elif kind in ("upsert", "equality"):
            # Before it began to be partitioned, a table's deletes reach all names; later those of the partition.
            scoped = partition != ()
            keys = [1, 2] if self.whole_keys else [1]
            delete = lake.equality_file([{"id": key, "name": name}], keys, partition=partition)
            new = [(key, name, self.changes * 10)] if kind == "upsert" else []
            lake.row_delta([self._file(new, partition)] if new else [], [delete])
            old = self._reached_by_equality(name, scoped=scoped)
            if self.whole_keys:
                old = [row for row in old if row[1] == name]
            self.rows = [row for row in self.rows if row[0] != key or row not in old] + new
        elif kind in ("position", "named"):
            self._delete_position(kind, which)
        elif not self.partitioned:
            self._evolve()

    def _reached_by_equality(self, name: str, *, scoped: bool) -> list[tuple[int, str, int]]:
        if not scoped:
            return self.rows
        spec = self.lake.metadata.default_spec_id
        return [row for row in self.rows if row[1] == name and self._spec_of.get(row[2]) == spec]

    def _file(self, rows: list[tuple[int, str, int]], partition: tuple[str, ...]) -> Any:
        for row in rows:
            self._spec_of[row[2]] = self.lake.metadata.default_spec_id
        return self.lake.data_file(
            [{"id": i, "name": n, "version": v} for i, n, v in rows], partition=partition
        )

    @property
    def _spec_of(self) -> dict[int, int]:
        return self.__dict__.setdefault("_specs", {})

    def _delete_position(self, kind: str, which: int) -> None:
        lake = self.lake
        spec = lake.metadata.default_spec_id
        files = [task.entry.data_file for task in lake.tasks() if task.entry.data_file.spec_id == spec]
        if not files:
            return
        file = files[which % len(files)]
        content = pq.read_table(io.BytesIO(lake.store.get(file.file_path))).to_pylist()
        place = which % len(content)
        more = {"referenced_data_file": file.file_path} if kind == "named" else {}
        delete = lake.position_file([(file.file_path, place)], partition=file.partition, **more)
        lake.row_delta([], [delete])
        gone = shown(content[place])
        self.rows = [row for row in self.rows if row != gone]

    def _evolve(self) -> None:
        """From here on partitioned by name, under a new spec."""
        spec = {"fields": [{"source-id": 2, "name": "by_name", "transform": "identity"}]}
        updates = [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}]
        self.lake.catalog.commit(IDENT, [], updates)
        self.partitioned = True

    def _note(self) -> None:
        head = self.lake.metadata.current_snapshot_id
        if head is not None:
            self.at.setdefault(head, sorted(self.rows))

    def by_us(self, snapshot_id: int | None = None) -> list[tuple[int, str, int]]:
        """What our own reader sees."""
        return sorted(shown(row) for row in self.lake.rows(snapshot_id))
