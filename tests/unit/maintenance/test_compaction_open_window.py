"""The newest time partition waits while it is written to, and no other."""

import pytest

from maintenance.compaction.open_window import open_window
from maintenance.compaction.plan_types import CompactionPlan, Nothing
from table_format.manifest.lines import FileLine
from table_format.metadata.document import TableMetadata
from tests.unit.maintenance.test_compaction_plan import NOW, metadata, paths, planned, task

REASON = "in the newest partition, written to within openPartitionSeconds"


def table(transform="day", *, source=1, kind="timestamp", snapshots=((9, 0, "append"),), specs=None):
    """Snapshots as (id, seconds ago, operation)."""
    document = metadata(transform=transform).document
    fields = [{"id": 1, "name": "p", "required": False, "type": kind}]
    by_time = {"source-id": source, "field-id": 1000, "name": "p", "transform": transform}
    return TableMetadata(
        {
            **document,
            "schemas": [{"schema-id": 0, "type": "struct", "fields": fields}],
            "partition-specs": specs or [{"spec-id": 0, "fields": []}, {"spec-id": 1, "fields": [by_time]}],
            "snapshots": [
                {
                    "snapshot-id": number,
                    "timestamp-ms": NOW - ago * 1000,
                    "sequence-number": 9,
                    "summary": {"operation": operation},
                }
                for number, ago, operation in snapshots
            ],
        }
    )


def days(*partitions, spec_id=1):
    return [
        task(f"{name}{day}", 20, partition=(day,), spec_id=spec_id)
        for day in partitions
        for name in ("a", "b")
    ]


def test_the_newest_waits_and_older_ones_do_not():
    result = planned(*days(18, 20, 19), of=table(), open_partition_seconds=60)
    assert isinstance(result, CompactionPlan)
    assert sorted(paths(result)) == [["a18", "b18"], ["a19", "b19"]]
    assert result.left_alone == {REASON: 2}


@pytest.mark.parametrize(("ago", "waits"), [(59, True), (60, False), (61, False)])
def test_until_nothing_was_written_for_so_long(ago, waits):
    result = planned(*days(20), of=table(snapshots=[(9, ago, "append")]), open_partition_seconds=60)
    assert isinstance(result, Nothing if waits else CompactionPlan)


def test_it_is_off_by_default():
    assert isinstance(planned(*days(20), of=table()), CompactionPlan)


def test_what_maintenance_wrote_does_not_count():
    result = planned(*days(20), of=table(snapshots=[(9, 0, "replace")]), open_partition_seconds=60)
    assert isinstance(result, CompactionPlan)


def test_a_snapshot_that_is_gone_is_old():
    result = planned(*days(20), of=table(snapshots=[(8, 0, "append")]), open_partition_seconds=60)
    assert isinstance(result, CompactionPlan)


@pytest.mark.parametrize("transform", ["year", "month", "day", "hour"])
def test_every_transform_of_time(transform):
    assert isinstance(planned(*days(-3), of=table(transform), open_partition_seconds=60), Nothing)


@pytest.mark.parametrize(("kind", "waits"), [("date", True), ("int", False), ("string", False)])
def test_a_partition_by_the_date_itself(kind, waits):
    result = planned(*days(20), of=table("identity", kind=kind), open_partition_seconds=60)
    assert isinstance(result, Nothing if waits else CompactionPlan)


def test_no_time_no_window():
    bucket = planned(*days(3), of=table("bucket[4]", kind="long"), open_partition_seconds=60)
    plain = planned(task("a", 20), task("b", 20), of=table(), open_partition_seconds=60)
    unknown = planned(*days(None), of=table(), open_partition_seconds=60)
    assert all(isinstance(result, CompactionPlan) for result in (bucket, plain, unknown))


def test_the_window_of_each_spec_and_the_place_of_its_time():
    by_bucket = {"source-id": 1, "field-id": 1001, "name": "b", "transform": "bucket[4]"}
    by_hour = {"source-id": 1, "field-id": 1002, "name": "h", "transform": "hour"}
    by_day = {"source-id": 1, "field-id": 1000, "name": "d", "transform": "day"}
    specs = [{"spec-id": 1, "fields": [by_day]}, {"spec-id": 2, "fields": [by_bucket, by_hour]}]
    tasks = [*days(20), *(task(f"h{n}", 20, spec_id=2, partition=(n % 2, 480 + n)) for n in range(3))]
    files = [FileLine.of(one.entry) for one in tasks]
    window = open_window(files, table(specs=specs), 60, NOW)
    assert window.newest == {1: (0, 20), 2: (1, 482)}
    assert [window.has(one) for one in files] == [True, True, False, False, True]
    # The one that nothing writes to any more is closed.
    assert open_window(files, table(specs=specs, snapshots=[]), 60, NOW).newest == {}
