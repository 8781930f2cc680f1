"""The commit loop against every kind of answer: nothing lost, nothing doubled, nothing deleted on doubt."""

import pytest

from table_format.catalog import LoadedTable, NewTable
from table_format.commit.change import Change, assert_ref, assert_same_table
from table_format.commit.retry import GRACE_SECONDS, RELOADS, CommitResult, commit_with_retry
from table_format.errors import (
    CommitFailed,
    CommitStateUnknown,
    Invalid,
    NoSuchFile,
    NoSuchTable,
    TableFormatError,
    Unavailable,
)
from table_format.ident import TableIdent
from table_format.io.memory import MemoryObjectStore
from tests.fakes.catalog import FakeCatalog, Fault, fault, unknown
from tests.fakes.clock import CountingIds, ManualClock

IDENT = TableIdent.of("db", "t")
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "int"}]}


class Bench:
    """One table, and a build function that adds one empty snapshot with one metadata file."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.ids = CountingIds()
        self.store = MemoryObjectStore(self.clock)
        self.catalog = FakeCatalog(self.store, self.clock, self.ids)
        self.catalog.create(IDENT, NewTable(schema=SCHEMA))
        self.built: list[Change] = []

    def change(self, table: LoadedTable) -> Change:
        snapshot_id = self.ids.snapshot_id()
        path = f"{table.metadata.location}/metadata/snap-{snapshot_id}.avro"
        self.store.put(path, b"list")
        snapshot = {
            "snapshot-id": snapshot_id,
            "sequence-number": table.metadata.last_sequence_number + 1,
            "timestamp-ms": max(self.clock.now_ms(), table.metadata.last_updated_ms),
            "manifest-list": path,
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        if table.metadata.current_snapshot_id is not None:
            snapshot["parent-snapshot-id"] = table.metadata.current_snapshot_id
        return Change(
            updates=[
                {"action": "add-snapshot", "snapshot": snapshot},
                {
                    "action": "set-snapshot-ref",
                    "ref-name": "main",
                    "type": "branch",
                    "snapshot-id": snapshot_id,
                },
            ],
            requirements=[
                *assert_same_table(table.metadata),
                assert_ref("main", table.metadata.current_snapshot_id),
            ],
            written=[path],
        )

    def build(self, table: LoadedTable) -> Change:
        change = self.change(table)
        self.built.append(change)
        return change

    def other_writer(self) -> int:
        """A commit by somebody else; its snapshot id."""
        change = self.change(self.catalog.load(IDENT))
        self.catalog._apply(IDENT, change.requirements, change.updates)
        return change.snapshot_id or 0

    def run(self, *, attempts: int = 20) -> CommitResult:
        return commit_with_retry(
            self.catalog,
            IDENT,
            self.build,
            store=self.store,
            clock=self.clock,
            ids=self.ids,
            attempts=attempts,
        )

    def snapshot_ids(self) -> list[int]:
        return [s["snapshot-id"] for s in self.catalog.load(IDENT).metadata.snapshots]

    def kept(self) -> list[bool]:
        """For each attempt, whether its metadata file is still there."""
        return [self.store.exists(change.written[0]) for change in self.built]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_first_attempt_succeeds(bench: Bench) -> None:
    result = bench.run()
    assert (result.applied, result.snapshot_id) == (True, bench.built[0].snapshot_id)
    assert bench.snapshot_ids() == [bench.built[0].snapshot_id]
    assert bench.clock.sleeps == []


def test_lost_race_rebuilds_on_the_new_head_and_deletes_only_the_lost_attempt(bench: Bench) -> None:
    others: list[int] = []
    bench.catalog.before_commit.append(lambda: others.append(bench.other_writer()))
    result = bench.run()
    assert result.applied
    assert bench.snapshot_ids() == [others[0], bench.built[1].snapshot_id]
    assert bench.built[1].requirements[-1] == assert_ref("main", others[0])
    assert bench.kept() == [False, True]


def test_maint_C20_two_committers_at_once_lose_nothing(bench: Bench) -> None:
    second = Bench()
    second.catalog, second.store, second.ids = bench.catalog, bench.store, bench.ids
    bench.catalog.before_commit.append(second.run)
    result = bench.run()
    assert result.applied
    assert bench.snapshot_ids() == [second.built[0].snapshot_id, bench.built[1].snapshot_id]


def test_waits_grow_and_are_bounded(bench: Bench) -> None:
    bench.catalog.faults.extend(fault("conflict") for _ in range(9))
    assert bench.run().applied
    assert bench.clock.sleeps == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_gives_up_after_the_last_attempt_and_leaves_no_file(bench: Bench) -> None:
    bench.catalog.faults.extend(fault("conflict") for _ in range(3))
    with pytest.raises(CommitFailed):
        bench.run(attempts=3)
    assert bench.kept() == [False, False, False]
    assert bench.snapshot_ids() == []


def test_refusal_of_a_commit_that_did_land_is_success(bench: Bench) -> None:
    """Something in between sent the request twice: the second copy got the 409."""
    bench.catalog.faults.append(fault("conflict", applied=True))
    result = bench.run()
    assert (result.applied, result.snapshot_id) == (True, bench.built[0].snapshot_id)
    assert bench.snapshot_ids() == [bench.built[0].snapshot_id]
    assert bench.kept() == [True]


def test_refusal_that_cannot_be_looked_up_deletes_nothing(bench: Bench) -> None:
    bench.catalog.faults.append(fault("conflict"))
    bench.catalog.load_faults.extend([None, *[Unavailable("away") for _ in range(RELOADS)]])
    with pytest.raises(CommitStateUnknown):
        bench.run(attempts=1)
    assert bench.kept() == [True]


def test_unknown_outcome_that_landed_is_found_by_snapshot_id(bench: Bench) -> None:
    bench.catalog.faults.append(unknown(applied=True))
    result = bench.run()
    assert (result.applied, result.snapshot_id) == (True, bench.built[0].snapshot_id)
    assert bench.snapshot_ids() == [bench.built[0].snapshot_id]
    assert len(bench.catalog.commits) == 1


def test_unknown_outcome_under_other_commits_is_found(bench: Bench) -> None:
    bench.catalog.faults.append(unknown(applied=True))
    original = bench.catalog.load
    moved: list[int] = []

    def load(ident: TableIdent) -> LoadedTable:
        if bench.catalog.commits and not moved:
            moved.append(0)
            moved[0] = bench.other_writer()
        return original(ident)

    bench.catalog.load = load  # type: ignore[method-assign]
    assert bench.run().applied
    assert bench.snapshot_ids() == [bench.built[0].snapshot_id, moved[0]]


def test_unknown_outcome_that_is_absent_is_looked_for_again_then_rebuilt(bench: Bench) -> None:
    bench.catalog.faults.append(unknown())
    result = bench.run()
    assert bench.snapshot_ids() == [bench.built[1].snapshot_id]
    assert result.snapshot_id == bench.built[1].snapshot_id
    assert GRACE_SECONDS in bench.clock.sleeps
    assert bench.kept() == [True, True]  # an unanswered attempt's files are never deleted


def test_late_arrival_between_the_looks_is_success(bench: Bench) -> None:
    bench.catalog.faults.append(unknown(late=True))
    arrive = bench.clock.sleep
    outcomes: list[bool] = []

    def sleep(seconds: float) -> None:
        arrive(seconds)
        outcomes.extend(bench.catalog.deliver_late())

    bench.clock.sleep = sleep  # type: ignore[method-assign]
    assert bench.run().snapshot_id == bench.built[0].snapshot_id
    assert outcomes == [True]
    assert len(bench.built) == 1


def test_late_arrival_before_the_second_attempt_is_not_doubled(bench: Bench) -> None:
    """The first request lands just before the second: the second's 409 leads to the first's snapshot."""
    bench.catalog.faults.append(unknown(late=True))
    bench.catalog.before_commit.extend([lambda: None, bench.catalog.deliver_late])
    result = bench.run()
    assert result.snapshot_id == bench.built[0].snapshot_id
    assert bench.snapshot_ids() == [bench.built[0].snapshot_id]
    assert bench.kept() == [True, False]


def test_late_arrival_after_the_second_attempt_is_refused_by_its_requirement(bench: Bench) -> None:
    bench.catalog.faults.append(unknown(late=True))
    result = bench.run()
    assert bench.catalog.deliver_late() == [False]
    assert bench.snapshot_ids() == [bench.built[1].snapshot_id] == [result.snapshot_id]


def test_catalog_that_stays_away_after_an_unknown_outcome_raises_and_deletes_nothing(bench: Bench) -> None:
    bench.catalog.faults.append(unknown(applied=True))
    bench.catalog.load_faults.extend([None, *[Unavailable("away") for _ in range(RELOADS)]])
    with pytest.raises(CommitStateUnknown):
        bench.run()
    assert bench.kept() == [True]
    assert bench.snapshot_ids() == [bench.built[0].snapshot_id]


@pytest.mark.parametrize(
    "later",
    [fault("conflict"), fault("unavailable"), Fault(Invalid("bad request")), Fault(NoSuchTable("gone"))],
)
def test_any_failure_after_an_unknown_outcome_stays_unknown(bench: Bench, later: Fault) -> None:
    """Another error would be leave to delete the data files of the request that is still under way."""
    bench.catalog.faults.extend([unknown(late=True), later])
    with pytest.raises(CommitStateUnknown):
        bench.run(attempts=2)


def test_build_that_fails_after_an_unknown_outcome_stays_unknown(bench: Bench) -> None:
    bench.catalog.faults.append(unknown(late=True))
    real = bench.build

    def build(table: LoadedTable) -> Change:
        if bench.built:
            raise Invalid("planned against another table")
        return real(table)

    bench.build = build  # type: ignore[method-assign]
    with pytest.raises(CommitStateUnknown):
        bench.run()


def test_nothing_to_do_while_a_request_may_still_land_is_unknown(bench: Bench) -> None:
    bench.catalog.faults.append(unknown(late=True))
    real = bench.build
    bench.build = lambda table: None if bench.built else real(table)  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(CommitStateUnknown):
        bench.run()


def test_nothing_to_do_after_the_head_moved_on_is_settled(bench: Bench) -> None:
    bench.catalog.faults.append(unknown(late=True))
    real = bench.build

    def build(table: LoadedTable) -> Change | None:
        if not bench.built:
            return real(table)
        return None

    bench.build = build  # type: ignore[method-assign,assignment]
    grace = bench.clock.sleep

    def sleep(seconds: float) -> None:
        grace(seconds)
        if seconds == GRACE_SECONDS:
            bench.other_writer()

    bench.clock.sleep = sleep  # type: ignore[method-assign]
    assert bench.run().applied is False
    assert bench.catalog.deliver_late() == [False]


def test_unavailable_is_retried_without_deleting(bench: Bench) -> None:
    bench.catalog.faults.append(fault("unavailable"))
    assert bench.run().applied
    assert bench.kept() == [True, True]
    assert bench.snapshot_ids() == [bench.built[1].snapshot_id]


def test_unavailable_that_lied_is_not_doubled(bench: Bench) -> None:
    bench.catalog.faults.append(fault("unavailable", applied=True))
    assert bench.run().snapshot_id == bench.built[0].snapshot_id
    assert bench.snapshot_ids() == [bench.built[0].snapshot_id]
    assert len(bench.built) == 1


def test_unavailable_to_the_end_is_raised(bench: Bench) -> None:
    bench.catalog.load_faults.extend(Unavailable("away") for _ in range(4))
    with pytest.raises(Unavailable):
        bench.run(attempts=4)
    assert bench.built == []


@pytest.mark.parametrize("error", [Invalid("bad"), NoSuchTable("gone")])
def test_definite_refusal_cleans_up_and_is_raised(bench: Bench, error: TableFormatError) -> None:
    bench.catalog.faults.append(Fault(error))
    with pytest.raises(type(error)):
        bench.run()
    assert bench.kept() == [False]


def test_nothing_to_do(bench: Bench) -> None:
    bench.build = lambda _: None  # type: ignore[method-assign,assignment,return-value]
    assert bench.run() == CommitResult(bench.catalog.load(IDENT), False)
    bench.build = lambda _: Change([], [])  # type: ignore[method-assign]
    assert bench.run() == CommitResult(bench.catalog.load(IDENT), False)
    assert bench.catalog.commits == []


def test_unanswered_metadata_only_change_counts_as_applied_once_nothing_is_left_to_do(bench: Bench) -> None:
    def build(table: LoadedTable) -> Change:
        wanted = (
            [] if "k" in table.metadata.properties else [{"action": "set-properties", "updates": {"k": "v"}}]
        )
        return Change(wanted, assert_same_table(table.metadata))

    bench.build = build  # type: ignore[method-assign]
    bench.catalog.faults.append(unknown(applied=True))
    result = bench.run()
    assert (result.applied, result.snapshot_id) == (True, None)
    assert len(bench.catalog.commits) == 1


def test_result_keeps_the_storage_settings_of_the_load(bench: Bench) -> None:
    loaded = bench.catalog.load(IDENT)
    bench.catalog._tables[IDENT] = LoadedTable(
        ident=IDENT,
        metadata_location=loaded.metadata_location,
        metadata=loaded.metadata,
        config={"s3.endpoint": "x"},
    )
    assert bench.run().table.config == {"s3.endpoint": "x"}


def test_late_arrival_after_the_last_attempt_is_success(bench: Bench) -> None:
    """The last attempt's loss is not the end of the story: the first one's request arrived meanwhile."""
    bench.catalog.faults.extend([unknown(late=True), fault("unavailable")])
    bench.catalog.before_commit.extend([lambda: None, bench.catalog.deliver_late])
    assert bench.run(attempts=2).snapshot_id == bench.built[0].snapshot_id
    assert bench.snapshot_ids() == [bench.built[0].snapshot_id]


@pytest.mark.parametrize("moves_on", [True, False])
def test_a_version_that_was_expired_while_it_was_read_is_a_lost_race(bench: Bench, moves_on: bool) -> None:
    missing = [NoSuchFile("snap-1.avro is gone")]

    def build(table: LoadedTable) -> Change:
        if missing:
            if moves_on:
                bench.other_writer()
            raise missing.pop()
        return bench.build(table)

    def run() -> CommitResult:
        return commit_with_retry(
            bench.catalog, IDENT, build, store=bench.store, clock=bench.clock, ids=bench.ids
        )

    if moves_on:
        assert run().applied
        assert len(bench.catalog.load(IDENT).metadata.snapshots) == 2
    else:
        with pytest.raises(NoSuchFile):
            run()
