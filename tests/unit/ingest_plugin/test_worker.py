"""The whole of ingest over fakes: what ends up in the table, and what stops a topic."""

import datetime
import itertools
from collections import deque
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from ingest_plugin.decode.json import JsonDecoder
from ingest_plugin.kafka import TopicInfo, TopicPartition
from table_format.catalog import LoadedTable
from table_format.commit.append import append
from table_format.commit.change import Change
from table_format.commit.expire import expire
from table_format.commit.retry import commit_with_retry
from table_format.errors import CommitStateUnknown, NoSuchFile, Unavailable
from table_format.ident import TableIdent
from table_format.io.faults import Failing, Rule
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import snapshot_files
from tests.factories.ingest_lab import Lab
from tests.fakes.broker import FakeBroker
from tests.fakes.catalog import fault, unknown


def stopped(lab: Lab) -> str:
    (reason,) = lab.run().stopped.values()
    return reason


def files_in_store(lab: Lab) -> set[str]:
    return {info.path for info in lab.store.list("memory://warehouse") if info.path.endswith(".parquet")}


def files_in_table(lab: Lab) -> set[str]:
    tasks = snapshot_files(lab.store, lab.table().metadata).tasks
    return {task.entry.data_file.file_path for task in tasks}


def test_rows_offsets_and_metadata_columns() -> None:
    lab = Lab(partitions=2)
    lab.json({"a": 1}, {"a": 2})
    lab.json({"a": 3}, partition=1)
    assert lab.run().stopped == {}
    assert lab.values("a") == [1, 2, 3]
    at = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    assert lab.rows()[2]["_kafka_metadata"] == {"partition": 1, "offset": 0, "timestamp": at}
    summary = lab.summary()
    assert summary["ingest.offsets"] == '{"flights":{"0":2,"1":1}}'
    assert (summary["ingest.topic-id"], summary["ingest.cluster-id"]) == ("topic-1", "cluster-1")
    assert summary["engine-name"] == "frazil"
    assert (
        orjson.loads(lab.table().metadata.properties["ingest.state"])["ingest.commit-id"]
        == summary["ingest.commit-id"]
    )


def test_the_same_processed_twice_is_there_once_and_nothing_new_is_no_commit() -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.run()
    before = lab.table().metadata_location
    lab.run()
    assert lab.values("a") == [1]
    assert lab.table().metadata_location == before
    lab.json({"a": 2})
    lab.run()
    assert lab.values("a") == [1, 2]


def test_without_metadata_columns() -> None:
    lab = Lab(**{"metadata.columns": False})
    lab.json({"a": 1})
    lab.run()
    assert lab.columns() == {"a": "long"}


def test_commits_come_at_the_interval() -> None:
    lab = Lab(**{"commit.interval.ms": 1000})
    broker = FakeBroker(lab.cluster, lab.clock)
    seen: list[float] = []

    def should_stop() -> bool:
        if not seen or lab.clock.monotonic() - seen[-1] >= 0.4:
            seen.append(lab.clock.monotonic())
            lab.json({"a": len(seen)})
        return lab.clock.monotonic() > 5

    lab.run(broker=broker, exit_at_end=False, should_stop=should_stop)
    assert lab.values("a") == list(range(1, len(seen) + 1))
    commits = [commit for commit in lab.catalog.commits if commit[0] == lab.ident]
    assert 4 <= len(commits) <= 7
    assert broker.progress == {TopicPartition("flights", 0): len(seen)}


def test_a_stop_commits_what_is_buffered() -> None:
    lab = Lab(**{"commit.interval.ms": 900_000})
    lab.json({"a": 1})
    polls = iter([False, False, False])
    lab.run(exit_at_end=False, should_stop=lambda: next(polls, True))
    assert lab.values("a") == [1]


def test_ingest_case_1_a_rebalance_commits_before_it_gives_up() -> None:
    lab = Lab(partitions=2, **{"commit.interval.ms": 900_000})
    lab.json({"a": 1}, {"a": 2})
    lab.json({"a": 3}, partition=1)
    first, second = FakeBroker(lab.cluster, lab.clock), FakeBroker(lab.cluster, lab.clock, [])
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 4:
            first.rebalance([TopicPartition("flights", 0)])
        if polls == 7:
            lab.json({"a": 4}, partition=1)
            second.rebalance([TopicPartition("flights", 1)])
            lab.run(broker=second)
            lab.json({"a": 5})
        return polls > 12

    lab.run(broker=first, exit_at_end=False, should_stop=should_stop)
    assert lab.values("a") == [1, 2, 5, 3, 4]


@pytest.mark.parametrize("lost", [True, False])
def test_ingest_case_1_partitions_lost_while_buffered(lost: bool) -> None:
    lab = Lab(partitions=2, **{"commit.interval.ms": 900_000})
    lab.json({"a": 1})
    lab.json({"a": 2}, partition=1)
    broker = FakeBroker(lab.cluster, lab.clock)
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 4:
            broker.rebalance([], lost=lost)
        if polls == 5:
            lab.run()
        if polls == 6:
            broker.rebalance([TopicPartition("flights", 1)])
        return polls > 9

    lab.run(broker=broker, exit_at_end=False, should_stop=should_stop)
    assert lab.values("a") == [1, 2]


def test_a_zombie_is_refused() -> None:
    """A process that lost its partitions long ago wakes up in the middle of its commit."""
    lab = Lab()
    lab.json({"a": 1}, {"a": 2})
    lab.catalog.before_commit.append(lab.run)
    with capture_logs() as logs:
        lab.run()
    assert lab.values("a") == [1, 2]
    assert [line["why"] for line in logs if line["event"] == "files_superseded"] == ["covered"]


def test_a_zombie_that_overlaps_reads_again_from_where_the_table_is() -> None:
    lab = Lab()
    lab.json({"a": 1}, {"a": 2})

    def other() -> None:
        lab.json({"a": 3})
        log = lab.cluster.topics["flights"].logs[0]
        kept, log[1:] = log[1:], []
        lab.run()
        log.extend(kept)

    lab.catalog.before_commit.append(other)
    with capture_logs() as logs:
        lab.run()
    lab.run()
    assert lab.values("a") == [1, 2, 3]
    assert [line["why"] for line in logs if line["event"] == "files_superseded"] == ["overlap"]


def test_ingest_case_4_an_unanswered_commit_that_landed_is_not_repeated() -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.catalog.faults.append(unknown(applied=True))
    assert lab.run().stopped == {}
    assert lab.values("a") == [1]
    assert len(lab.table().metadata.snapshots) == 1


def test_ingest_case_5_files_of_an_unknown_commit_are_never_deleted() -> None:
    """The catalog goes silent for good; the request arrives when the process is gone."""
    lab = Lab()
    lab.json({"a": 1})
    lab.catalog.faults.append(unknown(late=True))
    lab.catalog.faults.extend(fault("unavailable") for _ in range(500))
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        return polls > 20

    worker = lab.worker(should_stop=should_stop)
    assert worker.run() is False
    lab.catalog.faults.clear()
    assert lab.catalog.deliver_late() == [True]
    assert files_in_table(lab) <= files_in_store(lab)
    lab.run()
    assert lab.values("a") == [1]


def test_files_that_no_commit_named_are_deleted() -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.run()
    lab.json({"a": 2})
    broker = FakeBroker(lab.cluster, lab.clock)
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 4:
            lab.run()
        return polls > 8

    lab.document["topics"]["flights"]["commit.interval.ms"] = 500
    with capture_logs() as logs:
        lab.run(broker=broker, exit_at_end=False, should_stop=should_stop)
    assert "files_superseded" in [line["event"] for line in logs]
    assert lab.values("a") == [1, 2]
    assert files_in_store(lab) == files_in_table(lab)


def test_a_store_that_fails_while_writing_loses_nothing() -> None:
    lab = Lab()
    lab.json({"a": 1}, {"a": 2})
    failing = Failing(lab.store, [Rule(methods=frozenset({"open_output"}), pattern="parquet", times=2)])
    lab.store = failing
    with capture_logs() as logs:
        lab.run()
    assert lab.values("a") == [1, 2]
    assert "topic_waiting" in [line["event"] for line in logs]


def test_a_catalog_that_is_away_at_the_start_and_later() -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.catalog.load_faults.extend(Unavailable("away") for _ in range(3))
    assert lab.run().stopped == {}
    lab.json({"a": 2})
    lab.catalog.faults.extend(fault("unavailable") for _ in range(60))
    assert lab.run().stopped == {}
    assert lab.values("a") == [1, 2]


def test_ingest_case_7_offsets_survive_expiry_on_an_idle_table() -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.run()
    first = lab.table().metadata.current_snapshot_id
    foreign(lab)
    assert first is not None
    commit_with_retry(
        lab.catalog,
        lab.ident,
        lambda table: expire(table, [first], []),
        store=lab.store,
        clock=lab.clock,
        ids=lab.ids,
    )
    assert all("ingest.offsets" not in s["summary"] for s in lab.table().metadata.snapshots)
    lab.json({"a": 2})
    lab.run()
    assert lab.values("a") == [1, 2]


def foreign(lab: Lab) -> None:
    """An append of nothing by another engine: a new head without our keys."""

    def build(table: LoadedTable) -> Change:
        return append(lab.store, table, [], summary={}, clock=lab.clock, ids=lab.ids)

    commit_with_retry(lab.catalog, lab.ident, build, store=lab.store, clock=lab.clock, ids=lab.ids)


def test_a_rollback_of_the_table_rewinds_ingest() -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.run()
    before = lab.table().metadata
    lab.json({"a": 2})
    lab.run()
    rolled = {**lab.table().metadata.document, "current-snapshot-id": before.current_snapshot_id}
    rolled["refs"] = {"main": {"snapshot-id": before.current_snapshot_id, "type": "branch"}}
    lab.catalog.put(lab.ident, TableMetadata(rolled))
    assert lab.values("a") == [1]
    lab.run()
    assert lab.values("a") == [1, 2]


def test_ingest_case_10_an_idle_partition_holds_nothing_up() -> None:
    lab = Lab(partitions=3)
    lab.json({"a": 1}, partition=1)
    lab.run()
    assert lab.summary()["ingest.offsets"] == '{"flights":{"1":1}}'
    lab.json({"a": 2}, partition=2)
    lab.run()
    assert lab.summary()["ingest.offsets"] == '{"flights":{"1":1,"2":1}}'
    assert lab.values("a") == [1, 2]


def test_ingest_case_28_a_schema_change_closes_the_files_before_it() -> None:
    lab = Lab(**{"commit.interval.ms": 900_000})
    lab.json({"a": 1}, {"a": 2})
    steps = {4: {"a": 3, "b": "x"}, 6: {"a": 4, "c": [{"d": 1}]}, 8: {"a": 5}}
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls in steps:
            lab.json(steps[polls])
        return polls > 10

    lab.run(exit_at_end=False, should_stop=should_stop)
    assert lab.values("a", "b") == [(1, None), (2, None), (3, "x"), (4, None), (5, None)]
    assert lab.values("c")[3] == [{"d": 1}]
    assert len(lab.table().metadata.snapshots) == 1
    assert len(files_in_table(lab)) == 3


def test_ingest_case_13_fields_are_added_inside_structs_and_lists() -> None:
    lab = Lab()
    lab.json({"s": {"a": 1}, "l": [{"a": 1}]})
    lab.run()
    lab.json({"s": {"a": 2, "b": {"c": True}}, "l": [{"z": "x"}, None]})
    assert lab.run().stopped == {}
    assert lab.values("s") == [{"a": 1, "b": None}, {"a": 2, "b": {"c": True}}]
    assert lab.values("l") == [[{"a": 1, "z": None}], [{"a": None, "z": "x"}, None]]


def test_ingest_case_17_a_column_of_other_case_is_reused() -> None:
    lab = Lab(**{"metadata.columns": False})
    lab.json({"Name": "a"})
    lab.run()
    lab.json({"name": "b", "NAME2": 1})
    assert lab.run().stopped == {}
    assert list(lab.columns()) == ["Name", "NAME2"]
    assert sorted(lab.values("Name")) == ["a", "b"]


def test_two_processes_add_the_same_column() -> None:
    lab = Lab(partitions=2)
    lab.json({"a": 1})
    lab.run()
    lab.json({"a": 2, "new": 1})
    lab.json({"a": 3, "new": 2}, partition=1)
    lab.catalog.before_commit.append(lambda: lab.run(share=[1]))
    lab.run(share=[0])
    assert list(lab.columns()) == ["a", "_kafka_metadata", "new"]
    assert lab.values("a", "new") == [(1, None), (2, 1), (3, 2)]


def test_a_schema_commit_without_an_answer() -> None:
    for applied in (True, False):
        lab = Lab()
        lab.json({"a": 1})
        lab.run()
        lab.json({"a": 2, "b": 2})
        lab.catalog.faults.append(unknown(applied=applied))
        assert lab.run().stopped == {}
        assert lab.values("b") == [None, 2]


def test_ingest_case_29_partition_values_are_real() -> None:
    lab = Lab(
        **{
            "partition.by": "[day(ts), bucket(4, id), region]",
            "schema": {"columns": {"ts": "timestamptz", "id": "long", "region": "string"}},
        }
    )
    lab.json(
        {"ts": "2024-01-01T10:00:00Z", "id": 34, "region": "a"},
        {"ts": "2024-01-02T10:00:00Z", "id": 34, "region": None},
    )
    assert lab.run().stopped == {}
    found = {task.entry.data_file.partition for task in snapshot_files(lab.store, lab.table().metadata).tasks}
    assert found == {(19723, 3, "a"), (19724, 3, None)}
    assert [field["name"] for field in lab.table().metadata.spec()["fields"]] == [
        "ts_day",
        "id_bucket",
        "region",
    ]


def test_ingest_case_25_decimals_partition_by_value() -> None:
    lab = Lab(**{"partition.by": "price", "schema": {"columns": {"price": "decimal(9,2)"}}})
    lab.json({"price": "-1.50"}, {"price": "300.00"}, {"price": -1.5})
    assert lab.run().stopped == {}
    partitions = sorted(
        task.entry.data_file.partition for task in snapshot_files(lab.store, lab.table().metadata).tasks
    )
    assert [str(partition[0]) for partition in partitions] == ["-1.50", "300.00"]


def test_partitions_by_the_records_own_time() -> None:
    lab = Lab(**{"partition.by": "hour(_kafka_metadata.timestamp)"})
    lab.json({"a": 1})
    assert lab.run().stopped == {}
    assert [
        task.entry.data_file.partition for task in snapshot_files(lab.store, lab.table().metadata).tasks
    ] == [(472222,)]


def test_ingest_case_32_timestamps_follow_the_tables_type() -> None:
    lab = Lab(schema={"columns": {"z": "timestamptz", "l": "timestamp"}})
    lab.json({"z": "2024-01-01T10:00:00+02:00", "l": "2024-01-01T10:00:00.000001"})
    assert lab.run().stopped == {}
    (row,) = lab.rows()
    assert row["z"] == datetime.datetime(2024, 1, 1, 8, tzinfo=datetime.UTC)
    assert row["l"] == datetime.datetime.fromisoformat("2024-01-01T10:00:00.000001")


def test_ingest_case_46_a_malformed_record_is_kept_with_its_reason_and_the_rest_goes_on() -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.cluster.produce("flights", b"{broken", key=b"k", timestamp_ms=1000)
    lab.json({"a": "text"}, {"a": 2})
    assert lab.run().stopped == {}
    assert lab.values("a") == [1, 2]
    broken, wrong = lab.dead_letters()
    assert (broken["key"], broken["value"], broken["offset"], broken["topic"]) == (
        b"k",
        b"{broken",
        1,
        "flights",
    )
    assert broken["timestamp"] == datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)
    assert broken["reason"].startswith("not valid JSON")
    assert wrong["reason"] == "column 'a': expected a whole number, got string \"text\""
    assert lab.summary()["ingest.offsets"] == '{"flights":{"0":4}}'


def test_ingest_case_44_headers_with_null_values_are_kept() -> None:
    lab = Lab()
    lab.cluster.produce("flights", b"{", headers=[("only", None)])
    lab.cluster.produce("flights", b"{", headers=[("a", b"1"), ("a", b"\xff"), ("b", None)])
    lab.run()
    assert [row["headers"] for row in lab.dead_letters()] == [
        '[["only",null]]',
        '[["a","1"],["a",{"base64":"/w=="}],["b",null]]',
    ]


def test_tolerance_none_stops_the_topic_after_what_is_good() -> None:
    lab = Lab(partitions=2, **{"errors.tolerance": "none"})
    lab.json({"a": 1}, {"a": "x"}, {"a": 3})
    lab.json({"a": 4}, partition=1)
    reason = stopped(lab)
    assert reason.startswith("record at partition 0 offset 1: column 'a'")
    assert lab.values("a") == [1, 4]
    assert lab.summary()["ingest.offsets"] == '{"flights":{"0":1,"1":1}}'
    assert stopped(lab) == reason
    assert lab.values("a") == [1, 4]


def test_only_dead_letters_move_the_offsets_too() -> None:
    lab = Lab()
    lab.cluster.produce("flights", b"{")
    assert lab.run().stopped == {}
    assert lab.rows() == []
    assert lab.summary()["ingest.offsets"] == '{"flights":{"0":1}}'
    lab.run()
    assert len(lab.dead_letters()) == 1


def test_a_log_without_a_single_row_and_nothing_to_make_a_table_of() -> None:
    lab = Lab(**{"metadata.columns": False})
    lab.cluster.produce("flights", b"{")
    assert "none of the first 1 records could become a row" in stopped(lab)
    lab.json({"a": 1})
    assert lab.run().stopped == {}
    assert lab.values("a") == [1]
    assert len(lab.dead_letters()) == 1


def test_dead_letters_come_before_offsets() -> None:
    """Whatever happens to the commit of the rows, the dead letters before it are in."""
    lab = Lab()
    lab.cluster.produce("flights", b"{")
    lab.json({"a": 1})

    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    lab.catalog.before_commit.extend([lambda: None, lambda: None, kill])
    # First the dead letters' table is filled, then the rows are committed: the kill falls between the two.
    while lab.catalog.before_commit:
        try:
            lab.run()
        except Killed:
            break
        lab.cluster.produce("flights", b"{")
    letters = len(lab.dead_letters())
    lab.run()
    assert lab.values("a") == [1]
    assert {row["offset"] for row in lab.dead_letters()} == {
        offset for offset, m in enumerate(lab.cluster.topics["flights"].logs[0]) if m and m.value() == b"{"
    }
    assert len(lab.dead_letters()) >= letters


def test_a_recreated_topic_stops() -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.run()
    lab.cluster.create("flights")
    lab.json({"a": 8}, {"a": 9})
    assert "filled from another topic" in stopped(lab)
    assert lab.values("a") == [1]


def test_a_topic_recreated_while_it_is_read_stops() -> None:
    lab = Lab(**{"commit.interval.ms": 5000})
    lab.json({"a": 1})
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 5:
            lab.cluster.create("flights")
            lab.json({"a": 7}, {"a": 8})
        return polls > 60

    worker = lab.run(exit_at_end=False, should_stop=should_stop)
    assert "made anew while it was read" in worker.stopped["flights"]
    assert not lab.catalog.commits


def test_another_cluster_stops() -> None:
    lab = Lab(with_ids=False)
    lab.json({"a": 1})
    lab.run()
    lab.cluster.id = "cluster-2"
    assert "filled from another cluster" in stopped(lab)


def test_a_retention_gap_stops() -> None:
    lab = Lab()
    lab.json({"a": 1}, {"a": 2}, {"a": 3})
    lab.cluster.trim("flights", 1)
    assert lab.run().stopped == {}
    assert lab.values("a") == [2, 3]
    lab.json({"a": 4}, {"a": 5})
    lab.cluster.trim("flights", 4)
    assert "records 3 to 3 were deleted from the log" in stopped(lab)


def test_retention_that_overtakes_a_running_reader_stops() -> None:
    lab = Lab(**{"commit.interval.ms": 500})
    lab.json({"a": 1})
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 5:
            lab.cluster.trim("flights", 3)
            lab.json({"a": 2}, {"a": 3}, {"a": 4})
        return polls > 30

    worker = lab.run(exit_at_end=False, should_stop=should_stop)
    assert "no longer has the next offset" in worker.stopped["flights"]
    assert lab.values("a") == [1]


def test_a_log_that_ends_before_the_recorded_offset_stops() -> None:
    lab = Lab(with_ids=False)
    lab.json({"a": 1}, {"a": 2})
    lab.run()
    lab.cluster.truncate("flights", 1)
    assert "the log ends at 1" in stopped(lab)


def test_a_table_dropped_or_made_anew_while_written_stops() -> None:
    for recreate in (False, True):
        lab = Lab()
        lab.json({"a": 1})
        lab.run()
        lab.json({"a": 2})

        def vanish(lab: Lab = lab, recreate: bool = recreate) -> None:
            lab.catalog.drop(lab.ident)
            if recreate:
                other = Lab()
                other.json({"a": 1})
                other.run()
                lab.catalog.put(
                    lab.ident, TableMetadata({**other.table().metadata.document, "table-uuid": "0" * 8})
                )

        polls = 0

        def should_stop(vanish: Any = vanish) -> bool:
            nonlocal polls
            polls += 1
            if polls == 4:
                vanish()
            return polls > 30

        worker = lab.run(exit_at_end=False, should_stop=should_stop)
        assert "was dropped" in worker.stopped["flights"]


def test_a_partition_expression_that_does_not_fit_stops() -> None:
    lab = Lab(**{"partition.by": "month(time)"})
    lab.json({"time": "2024-01-01T00:00:00Z"})
    assert "month(time) does not work on a string column" in stopped(lab)
    missing = Lab(**{"partition.by": "month(tim)"})
    missing.json({"time": 1})
    assert "did you mean 'time'" in stopped(missing)


def test_an_explicit_schema_that_contradicts_the_table_stops() -> None:
    lab = Lab()
    lab.json({"a": "x"})
    lab.run()
    lab.keys["schema"] = {"columns": {"a": "long"}}
    assert "column 'a' is string, the data has long" in stopped(lab)
    lab.keys["schema"] = {"columns": {"b": "date"}}
    assert lab.run().stopped == {}
    assert lab.columns()["b"] == "date"


def test_a_closed_schema_quarantines_unknown_fields() -> None:
    lab = Lab(schema={"columns": {"a": "int"}, "extra": "reject"})
    lab.json({"a": 1}, {"a": 2, "b": 1}, {"a": 2**40}, {"a": 3, "b": None})
    assert lab.run().stopped == {}
    assert lab.values("a") == [1, 3]
    assert [row["offset"] for row in lab.dead_letters()] == [1, 2]
    assert lab.columns()["a"] == "int"


def test_a_table_that_exists_with_other_partitioning_is_used_as_it_is() -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.run()
    lab.keys["partition.by"] = "a"
    lab.json({"a": 2})
    with capture_logs() as logs:
        assert lab.run().stopped == {}
    assert "partition_by_differs_from_table" in [line["event"] for line in logs]
    assert lab.values("a") == [1, 2]


def upgraded(lab: Lab, *columns: dict[str, Any]) -> None:
    """Make the table one of format version 3, with more columns."""
    metadata = lab.table().metadata
    schema = metadata.schema()
    added = [{"id": metadata.last_column_id + 1, "required": False, **column} for column in columns]
    updates: list[Any] = [
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "add-schema", "schema": {**schema, "fields": [*schema["fields"], *added]}},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    lab.catalog.commit(lab.table().ident, [], updates)


def test_rows_of_a_v3_table_get_ids() -> None:
    lab = Lab()
    lab.json({"a": 1}, {"a": 2})
    lab.run()
    upgraded(lab)
    for number in (3, 4):
        lab.json({"a": number})
        assert lab.run().stopped == {}
    metadata = lab.table().metadata
    found = [
        (task.entry.data_file.first_row_id, task.entry.data_file.record_count)
        for task in snapshot_files(lab.store, metadata).tasks
    ]
    assert sorted(found, key=str) == [(0, 1), (1, 2), (3, 1)]
    assert metadata.next_row_id == 4
    assert lab.values("a") == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ({"name": "v", "type": "variant"}, "variant"),
        ({"name": "g", "type": "geometry"}, "geometry"),
        ({"name": "d", "type": "int", "write-default": 5}, "column 'd' has a write-default"),
    ],
)
def test_a_v3_column_that_can_not_be_written_stops(column: dict[str, Any], reason: str) -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.run()
    upgraded(lab, column)
    lab.json({"a": 2})
    assert reason in stopped(lab)
    assert lab.summary()["total-records"] == "1"


def test_one_topics_trouble_is_its_own() -> None:
    lab = Lab(**{"errors.tolerance": "none"})
    lab.cluster.create("other", 2)
    lab.document["topics"]["other"] = {**lab.keys, "errors.tolerance": "all"}
    lab.cluster.produce("flights", b"{")
    lab.cluster.produce("other", b'{"b":1}')
    worker = lab.run()
    assert list(worker.stopped) == ["flights"]
    assert [row["b"] for row in lab.rows(TableIdent.of("demo", "other"))] == [1]


def test_string_and_raw_topics() -> None:
    for kind, key, value in (("string", "k", "v"), ("raw", b"k", b"v")):
        lab = Lab(**{"convert.value.type": kind})
        lab.cluster.produce("flights", b"v", key=b"k")
        lab.cluster.produce("flights", None)
        assert lab.run().stopped == {}
        assert lab.values("_kafka_key", "_kafka_value") == [(key, value), (None, None)]


def test_big_batches_roll_files() -> None:
    lab = Lab(**{"write.target.file.size.bytes": 100_000})
    for number in range(4000):
        lab.json({"a": number, "text": f"{number * 7919 % 100003:0>60}"})
    assert lab.run().stopped == {}
    assert lab.values("a") == list(range(4000))


def test_kafka_away_for_a_while() -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.cluster.away = True
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 10:
            lab.cluster.away = False
        return polls > 500

    assert lab.run(should_stop=should_stop).stopped == {}
    assert lab.values("a") == [1]


def test_offsets_that_deliver_nothing_do_not_hold_up_the_end() -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.cluster.skip("flights")
    lab.json({"a": 2})
    lab.cluster.skip("flights")
    lab.run()
    assert lab.values("a") == [1, 2]
    assert lab.summary()["ingest.offsets"] == '{"flights":{"0":3}}'


def test_unknown_is_not_refused() -> None:
    """The commit loop gives up without an answer: the same files are offered again, not written again."""
    lab = Lab()
    lab.json({"a": 1})
    lab.catalog.faults.append(unknown(late=True))
    lab.catalog.load_faults.extend([None] * 5)
    lab.catalog.faults.extend(unknown() for _ in range(25))
    with capture_logs() as logs:
        lab.run()
    assert lab.values("a") == [1]
    waits = [line for line in logs if line["event"] == "topic_waiting"]
    assert [line["kind"] for line in waits] == [CommitStateUnknown.kind]
    assert len(files_in_store(lab)) == 1


def test_a_batch_load_of_a_topic_that_is_not_there_ends() -> None:
    lab = Lab()
    lab.cluster.delete("flights")
    assert stopped(lab) == "the topic does not exist"


def test_a_field_named_like_our_column_in_other_case_is_one_dead_letter() -> None:
    lab = Lab()
    lab.json({"n": 1}, {"_KAFKA_Metadata": 1, "n": 2}, {"n": 3})
    assert lab.run().stopped == {}
    assert lab.values("n") == [1, 3]
    assert [row["offset"] for row in lab.dead_letters()] == [1]


def test_fields_whose_dotted_path_another_column_has_are_dead_letters() -> None:
    lab = Lab()
    lab.json({"a.b": 1}, {"a": {"b": 2}}, {"_kafka_metadata.offset": 3}, {"a": {"c": 4}})
    assert lab.run().stopped == {}
    assert [row["a.b"] for row in lab.rows()] == [1, None]
    assert [row["offset"] for row in lab.dead_letters()] == [1, 2]


def test_a_store_that_fails_while_dead_letters_are_closed_loses_nothing() -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.cluster.produce(lab.topic, b"{")
    failing = Failing(lab.store, [Rule(methods=frozenset({"close_output"}), pattern="parquet", nth=2)])
    lab.store = failing
    assert lab.run().stopped == {}
    assert lab.values("a") == [1]
    assert [row["offset"] for row in lab.dead_letters()] == [1]


def test_a_fault_of_ours_stops_one_topic_only(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab()
    lab.cluster.create("other")
    lab.document["topics"]["other"] = {**lab.keys, "convert.value.type": "string"}
    lab.json({"a": 1})
    lab.cluster.produce("other", b"x")

    def broken(*_: object) -> None:
        raise KeyError("never thought of")

    monkeypatch.setattr(JsonDecoder, "decode", broken)
    assert lab.run().stopped == {"flights": "unexpected KeyError: 'never thought of'"}
    assert len(lab.rows(TableIdent.of("demo", "other"))) == 1


def test_partitions_added_while_running_are_read() -> None:
    lab = Lab()
    lab.json({"a": 1})
    turns = itertools.count()

    def should_stop() -> bool:
        turn = next(turns)
        if turn == 3:
            lab.cluster.topics[lab.topic].logs.append([])
            lab.json({"a": 2}, partition=1)
        return turn > 300

    assert lab.run(exit_at_end=False, should_stop=should_stop).stopped == {}
    assert sorted(lab.values("a")) == [1, 2]


@pytest.mark.parametrize("moves_on", [True, False])
def test_a_table_version_expired_while_it_was_read(moves_on: bool) -> None:
    """A process that slept may have loaded a version whose manifest list is gone."""
    lab = Lab()
    lab.json({"a": 1})
    lab.run()
    lab.json({"a": 2})

    def gone() -> NoSuchFile:
        if moves_on:
            foreign(lab)
        return NoSuchFile("no such file")

    lab.store = Failing(lab.store, [Rule(pattern="/snap-", error=gone)])
    stopped = lab.run().stopped
    if moves_on:
        assert stopped == {}
        assert [value for value in lab.values("a") if value] == [1, 2]
    else:
        assert stopped == {"flights": "no such file"}


def test_a_record_timestamp_that_no_column_holds_is_null() -> None:
    lab = Lab()
    for value in (b'{"a":1}', b"{"):
        lab.cluster.produce(lab.topic, value, timestamp_ms=2**62)
    assert lab.run().stopped == {}
    assert [row["_kafka_metadata"]["timestamp"] for row in lab.rows()] == [None]
    assert [row["timestamp"] for row in lab.dead_letters()] == [None]


def test_many_topics_that_wait_for_kafka_do_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab()
    for number in range(50):
        lab.cluster.create(f"t{number}")
        lab.document["topics"][f"t{number}"] = lab.keys
        lab.cluster.produce(f"t{number}", b'{"a":1}')
    lab.json({"a": 1})
    original = FakeBroker.topic

    def slow(self: FakeBroker, name: str) -> TopicInfo | None:
        if lab.cluster.away:
            lab.clock.advance(10)
        return original(self, name)

    monkeypatch.setattr(FakeBroker, "topic", slow)
    asked_at = lab.clock.monotonic() + 100
    lab.cluster.away = True
    lab.run(exit_at_end=False, should_stop=lambda: lab.clock.monotonic() >= asked_at)
    assert lab.clock.monotonic() - asked_at < 30
    lab.cluster.away = False
    assert lab.run().stopped == {}
    assert all(len(lab.rows(TableIdent.of("demo", f"t{number}"))) == 1 for number in range(50))


@pytest.mark.parametrize("applied", [True, False])
def test_an_unanswered_commit_of_dead_letters_leaves_each_once(applied: bool) -> None:
    lab = Lab()
    lab.json({"a": 1}, "bad", {"a": 2})
    lab.catalog.faults.append(unknown(applied=applied))
    assert lab.run().stopped == {}
    assert lab.values("a") == [1, 2]
    assert [row["offset"] for row in lab.dead_letters()] == [1]


def test_a_conflict_on_the_dead_letters_table_alone_is_tried_again() -> None:
    lab = Lab()
    lab.json({"a": 1}, "bad")
    letters = TableIdent(lab.ident.namespace, f"{lab.ident.name}__dead_letters")

    def other_writer() -> None:
        def build(table: LoadedTable) -> Change:
            return append(lab.store, table, [], summary={}, clock=lab.clock, ids=lab.ids)

        hooks, lab.catalog.before_commit = lab.catalog.before_commit, deque()
        commit_with_retry(lab.catalog, letters, build, store=lab.store, clock=lab.clock, ids=lab.ids)
        lab.catalog.before_commit = hooks

    lab.catalog.before_commit.append(other_writer)
    assert lab.run().stopped == {}
    assert lab.values("a") == [1]
    assert [row["offset"] for row in lab.dead_letters()] == [1]
    assert len(lab.table().metadata.snapshots) == 1


def test_a_dead_letters_table_that_is_dropped_meanwhile_stops_the_topic_and_loses_nothing() -> None:
    lab = Lab()
    lab.json({"a": 1}, "bad")
    lab.run()
    lab.json({"a": 2}, "bad")
    letters = TableIdent(lab.ident.namespace, f"{lab.ident.name}__dead_letters")
    broker = FakeBroker(lab.cluster, lab.clock)
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 4:
            lab.catalog.drop(letters)
        return polls > 20

    worker = lab.run(broker=broker, exit_at_end=False, should_stop=should_stop)
    assert "was dropped or made anew" in worker.stopped["flights"]
    assert lab.run().stopped == {}
    assert lab.values("a") == [1, 2]
    assert [row["offset"] for row in lab.dead_letters()] == [3]


def recreate(lab: Lab, partitions: int = 1) -> None:
    lab.cluster.delete(lab.topic)
    lab.cluster.create(lab.topic, partitions)


def test_a_recreated_topic_is_read_from_its_beginning_where_that_is_wanted() -> None:
    lab = Lab(partitions=2, **{"on.topic.recreated": "restart"})
    lab.json({"a": 1}, {"a": 2})
    lab.json({"a": 3}, partition=1)
    lab.run()
    recreate(lab, 2)
    lab.json({"a": 10}, {"a": 11}, {"a": 12})
    assert lab.run().stopped == {}
    assert sorted(lab.values("a")) == [1, 2, 3, 10, 11, 12]
    # The other partition's offset was the old topic's.
    assert lab.summary()["ingest.offsets"] == '{"flights":{"0":3}}'
    assert lab.summary()["ingest.topic-id"] == "topic-2"
    lab.json({"a": 13}, partition=1)
    assert lab.run().stopped == {}
    assert lab.run().stopped == {}
    assert sorted(lab.values("a")) == [1, 2, 3, 10, 11, 12, 13]


@pytest.mark.parametrize("policy", ["fail", "restart"])
def test_a_topic_recreated_while_it_is_read(policy: str) -> None:
    """What was read and not committed is dropped: it came from a log that nobody can look up any more."""
    lab = Lab(**{"on.topic.recreated": policy, "commit.interval.ms": 500})
    lab.json({"a": 1})
    lab.run()
    lab.json({"a": 2})
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 4:
            recreate(lab)
            lab.json({"a": 10}, {"a": 11}, {"a": 12})
        return polls > 30

    worker = lab.run(exit_at_end=False, should_stop=should_stop)
    if policy == "fail":
        assert "deleted or made anew" in worker.stopped["flights"]
        assert lab.values("a") == [1]
    else:
        assert worker.stopped == {}
        assert sorted(lab.values("a")) == [1, 10, 11, 12]


def test_a_zombie_of_the_old_topic_is_refused_although_the_offsets_agree() -> None:
    """It read one record behind offset 1 of the old topic; the table stands at offset 1 of the new one."""
    lab = Lab(**{"on.topic.recreated": "restart", "commit.interval.ms": 500})
    lab.json({"a": 1})
    lab.run()
    lab.json({"a": 2})

    def takes_over() -> None:
        recreate(lab)
        lab.json({"a": 10})
        lab.run()
        assert lab.summary()["ingest.offsets"] == '{"flights":{"0":1}}'

    lab.catalog.before_commit.append(takes_over)
    lab.run()
    lab.run()
    assert sorted(lab.values("a")) == [1, 10]


def test_another_cluster_under_the_same_address_stops_with_a_reason() -> None:
    lab = Lab(**{"commit.interval.ms": 500})
    lab.json({"a": 1})
    lab.run()
    lab.json({"a": 2})
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 4:
            lab.cluster.id = "cluster-2"
        return polls > 30

    worker = lab.run(exit_at_end=False, should_stop=should_stop)
    assert "deleted or made anew" in worker.stopped["flights"]
    assert lab.values("a") == [1]
    assert "filled from another cluster" in stopped(lab)


def test_a_retention_gap_is_skipped_where_that_is_wanted_and_noted_in_the_table() -> None:
    lab = Lab(partitions=2, **{"on.retention.gap": "skip"})
    lab.json({"a": 1})
    lab.json({"a": 9}, partition=1)
    lab.run()
    lab.json({"a": 2}, {"a": 3}, {"a": 4})
    lab.cluster.trim(lab.topic, 3)
    with capture_logs() as logs:
        assert lab.run().stopped == {}
    assert sorted(lab.values("a")) == [1, 4, 9]
    assert lab.summary()["ingest.lost-offsets"] == '{"flights":{"0":[1,3]}}'
    (lost,) = [line for line in logs if line["event"] == "records_deleted_before_they_were_read"]
    assert (lost["partition"], lost["first"], lost["end"]) == (0, 1, 3)
    lab.json({"a": 5})
    lab.run()
    assert "ingest.lost-offsets" not in lab.summary()


def test_a_retention_gap_while_it_runs() -> None:
    lab = Lab(**{"on.retention.gap": "skip", "commit.interval.ms": 500})
    lab.json({"a": 1})
    broker = FakeBroker(lab.cluster, lab.clock)
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 4:
            lab.json({"a": 2}, {"a": 3})
            lab.cluster.trim(lab.topic, 2)
        return polls > 40

    worker = lab.run(broker=broker, exit_at_end=False, should_stop=should_stop)
    assert worker.stopped == {}
    assert lab.values("a") == [1, 3]


def test_the_table_says_up_to_when_it_is_complete() -> None:
    lab = Lab(partitions=2, **{"commit.interval.ms": 900_000})
    lab.json({"a": 1})
    lab.json({"a": 2}, partition=1)
    began = lab.clock.now_ms()
    lab.run()
    through = int(lab.summary()["ingest.valid-through-ts"])
    assert began <= through <= lab.clock.now_ms()
    assert set(orjson.loads(lab.summary()["ingest.valid-through"])["flights"]) == {"0", "1"}


def test_a_partition_with_more_to_read_is_complete_up_to_its_last_record() -> None:
    """A stop in the middle of partition 1, whose records are of 2023; partition 0 has been read to its end."""
    lab = Lab(partitions=2, **{"commit.interval.ms": 900_000})
    lab.json({"a": 1})
    lab.json({"a": 2}, {"a": 3}, partition=1)
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        if polls == 4:
            lab.json({"a": 4}, partition=1)
        return polls > 3

    lab.run(exit_at_end=False, should_stop=should_stop)
    per = orjson.loads(lab.summary()["ingest.valid-through"])["flights"]
    assert per["1"] == 1_700_000_000_000 < per["0"]
    assert lab.summary()["ingest.valid-through-ts"] == "1700000000000"


def test_ingest_case_8_a_commit_of_two_thousand_partitions() -> None:
    """No message that could grow too large goes between processes: files are told to the catalog in manifests."""
    lab = Lab(**{"partition.by": "[id]"})
    lab.json(*({"id": number} for number in range(2000)))
    assert lab.run().stopped == {}
    assert sorted(lab.values("id")) == list(range(2000))
    assert lab.summary()["added-data-files"] == "2000"
    ((_, _, updates),) = [commit for commit in lab.catalog.commits if commit[0] == lab.ident]
    assert len(orjson.dumps(updates)) < 10_000
