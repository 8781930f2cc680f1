"""Any history of appends, upserts, deletes, rewrites, merges and expirations keeps exactly the rows it should.

Rewrites are planned at one moment and committed at another, so that every kind of change can fall in between. The
model is a plain list of rows; after each step the table must read as the model, its summary as a recount.
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from table_format.commit.expire import expire
from table_format.commit.rewrite import RewriteGroup
from table_format.commit.summary import count, totals_of
from table_format.io.memory import MemoryObjectStore
from table_format.scan.plan import snapshot_files, snapshot_manifests
from tests.factories.lake import BY_NAME, Lake
from tests.factories.reach import files_reachable
from tests.fakes.catalog import fault, unknown
from tests.fakes.clock import ManualClock

NAMES = ("a", "b")
KEYS = st.integers(0, 4)
STEPS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(NAMES), st.lists(KEYS, min_size=1, max_size=3)),
    st.tuples(st.just("upsert"), st.sampled_from(NAMES), KEYS),
    st.tuples(st.just("delete"), st.integers(0, 5), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("plan"), st.sampled_from(NAMES), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("rewrite")),
    st.tuples(st.just("merge")),
    st.tuples(st.just("expire"), st.integers(1, 3)),
    st.tuples(st.just("trouble"), st.sampled_from(["conflict", "lost", "landed", "lied", "late"])),
)


@dataclass
class World:
    lake: Lake
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Live rows by a serial number that each row carries."""
    planned: list[RewriteGroup] = field(default_factory=list)
    serial: int = 0

    def new_rows(self, name: str, keys: list[int]) -> list[dict[str, Any]]:
        made = []
        for key in keys:
            self.serial += 1
            made.append({"id": key, "name": name, "serial": self.serial})
        return made

    def append(self, name: str, keys: list[int]) -> None:
        rows = self.new_rows(name, keys)
        self.lake.append(self.lake.data_file(rows, partition=(name,)), **{"ingest.offsets": str(self.serial)})
        self.rows |= {row["serial"]: row for row in rows}

    def upsert(self, name: str, key: int) -> None:
        rows = self.new_rows(name, [key])
        delete = self.lake.equality_file([{"id": key}], [1], partition=(name,))
        self.lake.row_delta([self.lake.data_file(rows, partition=(name,))], [delete])
        self.rows = {
            serial: row for serial, row in self.rows.items() if (row["id"], row["name"]) != (key, name)
        }
        self.rows |= {row["serial"]: row for row in rows}

    def delete(self, which: int, position: int, scoped: bool) -> None:
        tasks = self.lake.tasks()
        if not tasks:
            return
        file = tasks[which % len(tasks)].entry.data_file
        at = position % file.record_count
        more: dict[str, Any] = {"referenced_data_file": file.file_path} if scoped else {}
        gone = self.lake.serials[file.file_path][at]
        self.lake.row_delta(
            [], [self.lake.position_file([(file.file_path, at)], partition=file.partition, **more)]
        )
        self.rows.pop(gone, None)

    def plan(self, name: str, files: int, oldest: bool) -> None:
        tasks = [task for task in self.lake.tasks() if task.entry.data_file.partition == (name,)]
        tasks.sort(key=lambda task: task.entry.data_file.file_path, reverse=not oldest)
        if tasks:
            self.planned.append(self.lake.group(tasks[:files]))

    def rewrite(self) -> None:
        taken: set[str] = set()
        groups = []
        for group in self.planned:
            paths = {entry.data_file.file_path for entry in group.inputs}
            if taken.isdisjoint(paths):
                taken |= paths
                groups.append(group)
        self.planned = [group for group in self.planned if group not in groups]
        result, dropped = self.lake.rewrite(*groups)
        event(f"rewrite applied={result.applied} dropped={bool(dropped)}")
        assert result.applied == (len(dropped) < len(groups))

    def merge(self) -> None:
        self.lake.append(merge_min=1)

    def expire(self, keep: int) -> None:
        snapshots = [snapshot["snapshot-id"] for snapshot in self.lake.metadata.snapshots]
        old = snapshots[:-keep]
        if not old:
            return
        removed = files_reachable(self.lake.store, self.lake.metadata, old)
        self.lake.commit(lambda table: expire(table, old, []))
        kept = [snapshot["snapshot-id"] for snapshot in self.lake.metadata.snapshots]
        retained = files_reachable(self.lake.store, self.lake.metadata, kept)
        # Files of rewrites that are planned but not committed are in neither set.
        assert not self.lake.store.delete_many(removed.all - retained.all)
        self.planned = []

    def trouble(self, kind: str) -> None:
        faults = {
            "conflict": fault("conflict"),
            "lost": unknown(),
            "landed": unknown(applied=True),
            "lied": fault("unavailable", applied=True),
            "late": unknown(late=True),
        }
        self.lake.catalog.faults.append(faults[kind])

    def check(self) -> None:
        assert self.lake.rows() == sorted(
            self.rows.values(), key=lambda row: tuple((value is None, str(value)) for value in row.values())
        )
        metadata = self.lake.metadata
        numbers = [snapshot["sequence-number"] for snapshot in metadata.snapshots]
        assert numbers == sorted(set(numbers))
        times = [snapshot["timestamp-ms"] for snapshot in metadata.snapshots]
        assert times == sorted(times)
        if metadata.current_snapshot is None:
            return
        files = snapshot_files(self.lake.store, metadata)
        entries = [task.entry for task in files.tasks] + files.delete_entries
        paths = [entry.data_file.file_path for entry in entries]
        assert len(set(paths)) == len(paths)
        summary = metadata.current_snapshot["summary"]
        recount = totals_of(count(entry.data_file for entry in entries))
        assert {key: value for key, value in summary.items() if key.startswith("total-")} == recount
        for manifest in snapshot_manifests(self.lake.store, metadata.current_snapshot):
            assert manifest.min_sequence_number <= manifest.sequence_number <= metadata.last_sequence_number


class SerialLake(Lake):
    """Remembers which rows each data file holds."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.serials: dict[str, list[int]] = {}
        super().__init__(*args, **options)

    def data_file(self, rows: Any, **options: Any) -> Any:
        file = super().data_file(rows, **options)
        self.serials[file.file_path] = [row["serial"] for row in rows]
        return file


SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
        {"id": 3, "name": "serial", "required": False, "type": "long"},
    ],
}


def offsets_of(world: World) -> str | None:
    head = world.lake.metadata.current_snapshot
    return None if head is None else head["summary"].get("ingest.offsets")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=3, max_size=14))
def test_rows_numbers_and_totals_hold_in_any_history(steps: list[tuple[Any, ...]]) -> None:
    world = World(SerialLake(MemoryObjectStore(ManualClock()), spec=BY_NAME, schema=SCHEMA))
    for name, *arguments in [*steps, ("rewrite",)]:
        before = offsets_of(world)
        getattr(world, name)(*arguments)
        world.check()
        if name == "rewrite" and before is not None:
            assert offsets_of(world) == before
    # What was under way all the time arrives last: refused, or (an expiration) without any effect left.
    head = world.lake.metadata.current_snapshot_id
    world.lake.catalog.deliver_late()
    assert world.lake.metadata.current_snapshot_id == head
    world.check()
