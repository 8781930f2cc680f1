"""Any history of timed rows with row-level deletes and writers in between: rows stay that a filter of DuckDB keeps."""

from dataclasses import replace
from datetime import timedelta

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from maintenance.ports import JobKind
from maintenance.records.job import run
from maintenance.report import Outcome
from table_format.scan.deletes import read_task
from table_format.scan.index import is_vector
from table_format.scan.lineage import LAST_UPDATED, ROW_ID
from table_format.schema.arrow import to_arrow
from tests.factories.lake import IDENT
from tests.factories.lineage_histories import put_vectors
from tests.factories.timed import NOW, by, timed_lake, write
from tests.fakes.jobs import FakeContext, job

DAYS = 30
LIMIT = NOW - timedelta(days=DAYS)

hours = st.one_of(
    st.integers(DAYS * 24 - 50, DAYS * 24 + 50),
    st.integers(-100, 60 * 24),
    st.just(120 * 365 * 24),
    st.none(),
)
batches = st.lists(st.lists(hours, min_size=1, max_size=6), min_size=1, max_size=4)
tables = st.sampled_from(
    [
        ("timestamptz", "2", "month"),
        ("timestamptz", "1", None),
        ("timestamptz", "3", "day"),
        ("timestamp", "2", None),
        ("timestamp_ns", "3", None),
        ("timestamptz_ns", "3", "year"),
        ("date", "2", "month"),
        ("date", "3", None),
    ]
)
numbers = st.integers(0, 40)
acts = st.tuples(
    st.sampled_from(["append", "position", "equality", "replace"]), numbers, st.lists(hours, max_size=3)
)


class History:
    """One table, and the ids of rows that writers deleted."""

    def __init__(self, kind, version, transform):
        spec = None if transform is None else by(transform)
        self.lake = timed_lake(kind=kind, spec=spec, **{"format-version": version})
        self.kind, self.version = kind, version
        self.written, self.deleted = 0, set()
        self.times = []

    def _value(self, time):
        if self.kind == "date":
            return time.date()
        return time if self.kind.startswith("timestamptz") else time.replace(tzinfo=None)

    def append(self, hours_before):
        # Never at the limit itself, which moves on while a commit is tried again.
        times = [None if hour is None else NOW - timedelta(hours=hour, minutes=30) for hour in hours_before]
        if times:
            write(self.lake, times, self.written)
            self.written += len(times)
            self.times += [None if time is None else self._value(time) for time in times]

    def act(self, what, number, hours_before):
        tasks = self.lake.tasks()
        if what == "append" or not tasks or self.version == "1":
            self.append(hours_before)
        elif what == "position":
            self._delete_position(tasks[number % len(tasks)], number)
        elif what == "replace":
            if self.version == "2":
                self.lake.rewrite(self.lake.group([tasks[number % len(tasks)]]))
        elif not self.lake.metadata.spec()["fields"]:
            self.lake.row_delta([], [self.lake.equality_file([{"id": number}], [1])])
            if number < self.written:
                self.deleted.add(number)

    def _delete_position(self, task, number):
        file = task.entry.data_file
        position = number % file.record_count
        bare = [
            row
            for batch in read_task(self.lake.store, replace(task, deletes=()), self.lake.metadata)
            for row in batch.to_pylist()
        ]
        gone = {row["id"] for row in bare} - {row["id"] for row in self._live(task)}
        self.deleted.add(bare[position]["id"])
        if self.version == "3":
            positions = [at for at, row in enumerate(bare) if row["id"] in gone or at == position]
            put_vectors(self.lake, [(task, positions)])
        else:
            path = file.file_path
            self.lake.row_delta(
                [],
                [
                    self.lake.position_file(
                        [(path, position)], partition=file.partition, referenced_data_file=path
                    )
                ],
            )

    def _live(self, task):
        return [
            row for batch in read_task(self.lake.store, task, self.lake.metadata) for row in batch.to_pylist()
        ]

    def expire(self, share):
        ctx = FakeContext(
            catalog=self.lake.catalog,
            clock=self.lake.clock,
            ids=self.lake.ids,
            store=self.lake.store,
            documents={
                JobKind.RECORDS: {
                    "status": "enabled",
                    "settings": {"days": DAYS, "column": "at", "rowDeleteShare": share},
                }
            },
            ident=IDENT,
        )
        return run(ctx, job(JobKind.RECORDS, IDENT, self.lake.metadata.uuid))

    def lineage(self):
        if self.version != "3":
            return {}
        return {
            row["id"]: (row[ROW_ID], row[LAST_UPDATED])
            for task in self.lake.tasks()
            for batch in read_task(self.lake.store, task, self.lake.metadata, lineage=True)
            for row in batch.to_pylist()
        }


def kept_by_duckdb(history):
    """The ids of all rows ever written that a filter of another engine keeps."""
    rows = pa.table(
        {
            "id": range(history.written),
            "moment": pa.array(history.times, to_arrow(history.lake.metadata.schema()).field("at").type),
        }
    )
    literal = {
        "date": f"DATE '{LIMIT:%Y-%m-%d}'",
        "timestamptz": f"TIMESTAMPTZ '{LIMIT:%Y-%m-%d %H:%M:%S}+00'",
    }
    limit = literal.get(history.kind.removesuffix("_ns"), f"TIMESTAMP '{LIMIT:%Y-%m-%d %H:%M:%S}'")
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        found = connection.sql(f"SELECT id FROM rows WHERE moment IS NULL OR moment >= {limit}")
        return {row[0] for row in found.fetchall()}


@settings(max_examples=30, deadline=None)
@given(tables, batches, st.lists(acts, max_size=5), st.lists(acts, max_size=2), st.sampled_from([1e-6, 0.5]))
def test_exactly_the_old_rows_go_whatever_others_do_meanwhile(table, history, before, late, share):
    world = History(*table)
    for batch in history:
        world.append(batch)
    for act in before:
        world.act(*act)
    head, at_head = world.lake.metadata.current_snapshot_id, world.lake.rows()
    lineage = world.lineage()
    for act in late:
        world.lake.catalog.before_commit.append(lambda act=act: world.act(*act))
        world.lake.catalog.before_commit.append(lambda: None)  # that one's own commit
    world.expire(share)
    while world.lake.catalog.before_commit:
        world.lake.catalog.before_commit.popleft()()
    wanted = kept_by_duckdb(world) - world.deleted
    ids = [row["id"] for row in world.lake.rows()]
    assert len(set(ids)) == len(ids)
    assert wanted <= set(ids)
    assert world.deleted.isdisjoint(ids)
    runs = 0
    while world.expire(1e-6).outcome is not Outcome.NOTHING:
        runs += 1
        assert runs < 5
    assert sorted(row["id"] for row in world.lake.rows()) == sorted(wanted)
    assert world.lake.rows(head) == at_head
    after = world.lineage()
    assert {number: after[number] for number in after if number in lineage} == {
        number: told for number, told in lineage.items() if number in after
    }
    vectors = [e.data_file for task in world.lake.tasks() for e in task.deletes if is_vector(e.data_file)]
    assert len({vector.referenced_data_file for vector in vectors}) == len(vectors)
