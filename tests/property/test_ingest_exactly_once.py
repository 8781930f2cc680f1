"""Whatever fails, whoever else writes, wherever a process dies: rows are the log, each record once."""

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import orjson
import pyarrow as pa
import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from table_format.catalog import LoadedTable
from table_format.commit.append import append
from table_format.commit.retry import commit_with_retry
from table_format.errors import NoSuchTable
from table_format.manifest.entries import DataFile
from table_format.write.parquet import TableWriter
from tests.factories.ingest_lab import Lab
from tests.fakes.catalog import fault, unknown

PARTITIONS = 3


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()


Trouble = Literal["none", "conflict", "away", "lost", "lost_applied", "late", "race", "foreign"]


@dataclass(frozen=True)
class Produce:
    partition: int
    kinds: list[Literal["good", "bad", "gap"]]


@dataclass(frozen=True)
class Run:
    """A process works; `polls` None: to the end, else it dies after so many polls."""

    polls: int | None
    troubles: list[Trouble]


@dataclass(frozen=True)
class Deliver:
    """Requests that were under way arrive."""


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


steps = st.lists(
    st.one_of(
        st.builds(
            Produce,
            st.integers(0, PARTITIONS - 1),
            st.lists(st.sampled_from(["good", "good", "good", "bad", "gap"]), min_size=1, max_size=6),
        ),
        st.builds(
            Run,
            st.one_of(st.none(), st.integers(1, 12)),
            st.lists(
                st.sampled_from(
                    ["none", "conflict", "away", "lost", "lost_applied", "late", "race", "foreign"]
                ),
                max_size=4,
            ),
        ),
        st.just(Deliver()),
    ),
    min_size=1,
    max_size=12,
)


class World:
    def __init__(self) -> None:
        self.lab = Lab(partitions=PARTITIONS, topic="t")
        self.good: set[tuple[int, int]] = set()
        self.bad: set[tuple[int, int]] = set()
        self.foreign_rows = 0

    def produce(self, step: Produce) -> None:
        for kind in step.kinds:
            end = len(self.lab.cluster.topics["t"].logs[step.partition])
            if kind == "gap":
                self.lab.cluster.skip("t", step.partition)
                continue
            value = orjson.dumps({"at": [step.partition, end]}) if kind == "good" else b"{"
            self.lab.cluster.produce("t", value, partition=step.partition, timestamp_ms=1)
            (self.good if kind == "good" else self.bad).add((step.partition, end))

    def run(self, step: Run) -> None:
        catalog = self.lab.catalog
        for trouble in step.troubles:
            self.arm(trouble)
        polls = itertools.count()

        def should_stop() -> bool:
            if step.polls is not None and next(polls) >= step.polls:
                raise Killed
            return False

        try:
            self.lab.run(exit_at_end=step.polls is None, should_stop=should_stop)
        except Killed:
            pass
        finally:
            catalog.faults.clear()
            catalog.before_commit.clear()

    def arm(self, trouble: Trouble) -> None:
        catalog = self.lab.catalog
        faults = {
            "none": None,
            "conflict": fault("conflict"),
            "away": fault("unavailable"),
            "lost": unknown(),
            "lost_applied": unknown(applied=True),
            "late": unknown(late=True),
        }
        if trouble in faults:
            catalog.faults.append(faults[trouble])
            catalog.before_commit.append(lambda: None)
            return
        catalog.faults.append(None)
        catalog.before_commit.append(self.other_process if trouble == "race" else self.other_writer)

    def other_process(self) -> None:
        """Takes over all partitions and commits, while the first one is in the middle of its commit."""
        catalog = self.lab.catalog
        kept, hooks = list(catalog.faults), list(catalog.before_commit)
        catalog.faults.clear()
        catalog.before_commit.clear()
        self.lab.run()
        catalog.faults.extend(kept)
        catalog.before_commit.extend(hooks)

    def other_writer(self) -> None:
        """Another engine's snapshot, without our keys."""
        lab = self.lab
        hooks = list(lab.catalog.before_commit)
        kept = list(lab.catalog.faults)
        lab.catalog.before_commit.clear()
        lab.catalog.faults.clear()
        with contextlib.suppress(NoSuchTable):
            commit_with_retry(
                lab.catalog,
                lab.ident,
                lambda table: append(
                    lab.store, table, [self.foreign_file(table)], summary={}, clock=lab.clock, ids=lab.ids
                ),
                store=lab.store,
                clock=lab.clock,
                ids=lab.ids,
            )
        lab.catalog.before_commit.extend(hooks)
        lab.catalog.faults.extend(kept)

    def foreign_file(self, table: LoadedTable) -> DataFile:
        writer = TableWriter(
            store=self.lab.store, metadata=table.metadata, ids=self.lab.ids, target_bytes=10**6
        )
        writer.write(pa.RecordBatch.from_pylist([{}], schema=writer.arrow_schema))
        self.foreign_rows += 1
        (file,) = writer.flush()
        return file


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(history=steps, together=st.booleans())
def test_rows_equal_the_log_exactly_once(history: list[Produce | Run | Deliver], together: bool) -> None:
    """Dead letters, too, where the catalog commits to two tables at once; else at least once."""
    world = World()
    world.lab.catalog.together = together
    for step in history:
        match step:
            case Produce():
                world.produce(step)
            case Run():
                world.run(step)
            case Deliver():
                world.lab.catalog.deliver_late()
    world.run(Run(None, []))
    world.lab.catalog.deliver_late()
    last = world.lab.run()
    assert last.stopped == {}
    if not world.good | world.bad:
        return
    rows = [row for row in world.lab.rows() if row["_kafka_metadata"] is not None]
    places = Counter((row["_kafka_metadata"]["partition"], row["_kafka_metadata"]["offset"]) for row in rows)
    assert places == Counter(world.good)
    assert all(
        row["at"] == [row["_kafka_metadata"]["partition"], row["_kafka_metadata"]["offset"]] for row in rows
    )
    if world.bad:
        letters = Counter((row["partition"], row["offset"]) for row in world.lab.dead_letters())
        assert (letters == Counter(world.bad)) if together else (set(letters) == world.bad)
    recorded = (
        orjson.loads(world.lab.summary()["ingest.offsets"])
        if "ingest.offsets" in world.lab.summary()
        else None
    )
    if recorded is not None:
        ends = {
            str(p): max(o for q, o in world.good | world.bad if q == p) + 1 for p, _ in world.good | world.bad
        }
        assert recorded == {"t": ends}
