"""Random logs of changes for a topic with a key, and the rows that replaying them one by one leaves.

The model is a dictionary by key: it knows nothing of files, commits or deletes.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson
from hypothesis import strategies as st

from maintenance.compaction.job import run as compact
from maintenance.ports import JobKind
from table_format.errors import NoSuchTable
from tests.factories.delete_histories import SMALL_TIERS
from tests.factories.ingest_lab import Lab
from tests.fakes.catalog import fault, unknown
from tests.fakes.jobs import FakeContext, job

KEYS = 5
PARTITIONS = 2
KEYED: dict[str, Any] = {
    "upsert.enable": True,
    "id.columns": "[id]",
    "schema": {"columns": {"id": "long", "place": "string", "version": "long"}},
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "by key": {"partition.by": "[bucket(id, 2)]"},
    "by place": {"partition.by": "[place]"},
    "by both": {"partition.by": "[bucket(id, 2), truncate(place, 1)]"},
}

_key = st.integers(0, KEYS - 1)
_change = st.one_of(
    st.tuples(st.just("put"), _key, st.sampled_from(["a", "b"])),
    st.tuples(st.just("put"), _key, st.sampled_from(["a", "b"])),
    st.tuples(st.just("delete"), _key),
    st.tuples(st.just("rekey"), _key, _key),
    st.tuples(st.just("again")),
    st.tuples(st.just("column"), _key, st.integers(0, 2)),
    st.tuples(st.just("bad"), _key),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("log"), st.lists(_change, min_size=1, max_size=8)),
        st.tuples(st.just("log"), st.lists(_change, min_size=1, max_size=8)),
        st.tuples(
            st.just("run"),
            st.one_of(st.none(), st.integers(1, 9)),
            st.lists(st.sampled_from(["conflict", "away", "lost", "applied", "late", "compact"]), max_size=3),
        ),
        st.tuples(st.just("compact")),
        st.tuples(st.just("deliver")),
    ),
    min_size=2,
    max_size=12,
)


class Killed(BaseException):
    """The process is gone."""


@dataclass
class ChangeLog:
    """A lab, and the rows by key."""

    lab: Lab
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    count: int = 0

    def play(self, step: Any) -> None:
        """One step: records, a run of ingest, a compaction, late requests."""
        match step:
            case ("log", changes):
                for change in changes:
                    self._log(change)
            case ("run", polls, troubles):
                self.run(polls, troubles)
            case ("compact",):
                self.compact()
            case ("deliver",):
                self.lab.catalog.deliver_late()

    def _log(self, change: Any) -> None:
        match change:
            case ("put", key, place):
                self._put({"id": key, "place": place})
            case ("delete", key):
                self._delete(key)
            case ("rekey", old, new):
                # As Debezium sends it: the old key's row deleted, then the same row created under the new key.
                row = self.rows.get(old)
                if row is not None and old % PARTITIONS == new % PARTITIONS:
                    self._delete(old)
                    self._put({**row, "id": new})
            case ("again",):
                for row in list(self.rows.values()):
                    self._put(row)
            case ("column", key, number):
                self._put({"id": key, "place": "a", f"more{number}": self.count})
            case ("bad", key):
                self._produce(key, b"{")

    def _put(self, row: dict[str, Any]) -> None:
        self.count += 1
        row = {**row, "version": self.count}
        self._produce(row["id"], orjson.dumps(row))
        self.rows[row["id"]] = row

    def _delete(self, key: int) -> None:
        self._produce(key, None)
        self.rows.pop(key, None)

    def _produce(self, key: int, value: bytes | None) -> None:
        self.lab.cluster.produce(
            self.lab.topic, value, partition=key % PARTITIONS, key=orjson.dumps({"id": key}), timestamp_ms=1
        )

    def run(self, polls: int | None = None, troubles: list[str] | None = None) -> None:
        """Ingest to the end, or until it dies after so many polls."""
        catalog = self.lab.catalog
        faults = {
            "conflict": fault("conflict"),
            "away": fault("unavailable"),
            "lost": unknown(),
            "applied": unknown(applied=True),
            "late": unknown(late=True),
        }
        for trouble in troubles or []:
            catalog.faults.append(faults.get(trouble))
            catalog.before_commit.append(self._compact_meanwhile if trouble == "compact" else _nothing)
        left = None if polls is None else iter(range(polls))

        def should_stop() -> bool:
            if left is not None and next(left, None) is None:
                raise Killed
            return False

        try:
            worker = self.lab.run(exit_at_end=polls is None, should_stop=should_stop)
            assert worker.stopped == {}
        except Killed:
            pass
        finally:
            catalog.faults.clear()
            catalog.before_commit.clear()

    def _compact_meanwhile(self) -> None:
        catalog = self.lab.catalog
        faults, hooks = list(catalog.faults), list(catalog.before_commit)
        catalog.faults.clear()
        catalog.before_commit.clear()
        self.compact()
        catalog.faults.extend(faults)
        catalog.before_commit.extend(hooks)

    def compact(self) -> None:
        """One run of the compaction job, by which every delete counts."""
        lab = self.lab
        try:
            uuid = str(lab.table().metadata.uuid)
        except NoSuchTable:
            return
        settings = {"tiers": SMALL_TIERS, "minInputFiles": 2, "deleteFileThreshold": 1}
        ctx = FakeContext(
            catalog=lab.catalog,
            clock=lab.clock,
            ids=lab.ids,
            store=lab.store,
            documents={JobKind.COMPACTION: {"status": "enabled", "settings": settings}},
            ident=lab.ident,
        )
        compact(ctx, job(JobKind.COMPACTION, lab.ident, uuid))

    def expected(self) -> list[tuple[int, str, int]]:
        """Key, place and version of every row."""
        return sorted((row["id"], row["place"], row["version"]) for row in self.rows.values())

    def finish(self) -> bool:
        """Ingest what is left; whether there is a table."""
        self.run()
        self.lab.catalog.deliver_late()
        self.run()
        return self.count > 0


def _nothing() -> None:
    return None
