"""Maintenance of tables: configuration, and how jobs went."""

import json
import sqlite3
from contextlib import closing
from typing import Any

from tests.contract.s3tables.cases_buckets import BAD, MISSING
from tests.contract.s3tables.cases_tables import NO_TABLE, blank
from tests.contract.s3tables.world import HOME, Cases, World

CASES = Cases()
COMPACTION, SNAPSHOTS = "icebergCompaction", "icebergSnapshotManagement"
GET, PUT, JOBS = (
    "GetTableMaintenanceConfiguration",
    "PutTableMaintenanceConfiguration",
    "GetTableMaintenanceJobStatus",
)


def get(world: World, where: dict[str, str]) -> Any:
    found = world.client.get_table_maintenance_configuration(**where)
    assert found["tableARN"] == world.client.get_table(**where)["tableARN"]
    return found["configuration"]


def put(world: World, where: dict[str, str], kind: str, status: str | None = None, **settings: Any) -> None:
    value: dict[str, Any] = {} if status is None else {"status": status}
    if settings:
        value["settings"] = {kind: settings}
    world.client.put_table_maintenance_configuration(**where, type=kind, value=value)


@CASES.success(GET, "defaults where nothing is set")
def get_defaults(world: World) -> None:
    for where in (world.table, blank(world)):
        assert get(world, where) == {
            COMPACTION: {
                "status": "enabled",
                "settings": {COMPACTION: {"targetFileSizeMB": 512, "strategy": "auto"}},
            },
            SNAPSHOTS: {
                "status": "enabled",
                "settings": {SNAPSHOTS: {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 120}},
            },
        }


@CASES.success(GET, "what is set above the table is in force")
def get_inherited(world: World) -> None:
    arn = world.new_bucket()
    where = world.new_table(bucket=arn)
    path = f"/buckets/{arn.removeprefix(HOME)}/policies/{SNAPSHOTS}"
    ours = {"status": "disabled", "settings": {"maxSnapshotAgeSeconds": 10_799}}
    assert world.management("PUT", path, ours).status_code == 200
    assert get(world, where)[SNAPSHOTS] == {
        "status": "disabled",
        "settings": {SNAPSHOTS: {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 2}},
    }


@CASES.success(PUT)
def put_and_get(world: World) -> None:
    for where in (world.new_table(), blank(world)):
        put(world, where, COMPACTION, "disabled", targetFileSizeMB=64, strategy="binpack")
        put(world, where, SNAPSHOTS, "enabled", minSnapshotsToKeep=5, maxSnapshotAgeHours=24)
        found = get(world, where)
        assert found[COMPACTION] == {
            "status": "disabled",
            "settings": {COMPACTION: {"targetFileSizeMB": 64, "strategy": "binpack"}},
        }
        assert found[SNAPSHOTS]["settings"] == {
            SNAPSHOTS: {"minSnapshotsToKeep": 5, "maxSnapshotAgeHours": 24}
        }


@CASES.success(PUT, "every strategy, with a sort order")
def put_strategies(world: World) -> None:
    where = {"tableBucketARN": world.bucket, "namespace": world.new_namespace(), "name": "t"}
    field = {"sourceId": 1, "transform": "identity", "direction": "desc", "nullOrder": "nulls-last"}
    iceberg = {
        "schema": {"fields": [{"id": 1, "name": "id", "type": "long"}]},
        "writeOrder": {"orderId": 1, "fields": [field]},
    }
    world.client.create_table(**where, format="ICEBERG", metadata={"iceberg": iceberg})
    for strategy in ("sort", "z-order", "binpack", "auto"):
        put(world, where, COMPACTION, strategy=strategy)
        assert get(world, where)[COMPACTION]["settings"][COMPACTION]["strategy"] == strategy


@CASES.success(PUT, "what is not named stays")
def put_parts(world: World) -> None:
    where = world.new_table()
    put(world, where, SNAPSHOTS, "enabled", minSnapshotsToKeep=5, maxSnapshotAgeHours=24)
    put(world, where, SNAPSHOTS, minSnapshotsToKeep=6)
    put(world, where, SNAPSHOTS, "disabled")
    assert get(world, where)[SNAPSHOTS] == {
        "status": "disabled",
        "settings": {SNAPSHOTS: {"minSnapshotsToKeep": 6, "maxSnapshotAgeHours": 24}},
    }


@CASES.success(PUT, "settings alone do not switch on what is off above the table")
def put_settings_below_what_is_off(world: World) -> None:
    arn = world.new_bucket()
    where = world.new_table(bucket=arn)
    path = f"/buckets/{arn.removeprefix(HOME)}/policies/{SNAPSHOTS}"
    assert world.management("PUT", path, {"status": "disabled", "settings": {}}).status_code == 200
    put(world, where, SNAPSHOTS, maxSnapshotAgeHours=24)
    assert get(world, where)[SNAPSHOTS] == {
        "status": "disabled",
        "settings": {SNAPSHOTS: {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 24}},
    }
    put(world, where, SNAPSHOTS, "enabled")
    assert get(world, where)[SNAPSHOTS]["status"] == "enabled"


for _what, _kind, _value in (
    ("below the target sizes", COMPACTION, {"settings": {COMPACTION: {"targetFileSizeMB": 63}}}),
    ("above the target sizes", COMPACTION, {"settings": {COMPACTION: {"targetFileSizeMB": 513}}}),
    ("strategy", COMPACTION, {"settings": {COMPACTION: {"strategy": "best"}}}),
    ("sorted without a sort order", COMPACTION, {"settings": {COMPACTION: {"strategy": "sort"}}}),
    ("z-order without a sort order", COMPACTION, {"settings": {COMPACTION: {"strategy": "z-order"}}}),
    ("none to keep", SNAPSHOTS, {"settings": {SNAPSHOTS: {"minSnapshotsToKeep": 0}}}),
    ("no hours", SNAPSHOTS, {"settings": {SNAPSHOTS: {"maxSnapshotAgeHours": 0}}}),
    ("settings of the other type", SNAPSHOTS, {"settings": {COMPACTION: {"targetFileSizeMB": 64}}}),
    ("status", SNAPSHOTS, {"status": "on"}),
    ("no value", SNAPSHOTS, None),
    ("a type of buckets", "icebergUnreferencedFileRemoval", {"status": "enabled"}),
    ("no type", "x", {"status": "enabled"}),
):
    CASES.refused(PUT, BAD, _what)(
        lambda world, kind=_kind, value=_value: {**world.table, "type": kind, "value": value}
    )

CASES.refused(PUT, BAD, "sorted while blank")(
    lambda world: {
        **blank(world),
        "type": COMPACTION,
        "value": {"settings": {COMPACTION: {"strategy": "sort"}}},
    }
)


@CASES.success(JOBS)
def job_status(world: World) -> None:
    where = world.new_table()
    kinds = (COMPACTION, SNAPSHOTS, "icebergUnreferencedFileRemoval")
    found = world.client.get_table_maintenance_job_status(**where)
    assert found["tableARN"] == world.client.get_table(**where)["tableARN"]
    assert found["status"] == {kind: {"status": "Not_Yet_Run"} for kind in kinds}
    put(world, where, SNAPSHOTS, "disabled")
    ended(world, where, COMPACTION, "done", 1_700_000_000_000, None)
    ended(world, where, "icebergUnreferencedFileRemoval", "done", 1_600_000_000_000, None)
    ended(world, where, "icebergUnreferencedFileRemoval", "failed", 1_700_000_000_000, "the store was away")
    found = world.client.get_table_maintenance_job_status(**where)["status"]
    assert found[COMPACTION]["status"] == "Successful"
    assert found[COMPACTION]["lastRunTimestamp"].timestamp() == 1_700_000_000
    assert found[SNAPSHOTS]["status"] == "Disabled"
    assert found["icebergUnreferencedFileRemoval"]["status"] == "Failed"
    assert found["icebergUnreferencedFileRemoval"]["failureMessage"] == "the store was away"


RECORDS = "icebergRecordExpiration"
GET_RECORDS, PUT_RECORDS, RECORD_JOBS = (
    "GetTableRecordExpirationConfiguration",
    "PutTableRecordExpirationConfiguration",
    "GetTableRecordExpirationJobStatus",
)
BY_DAY = {
    "iceberg": {
        "schema": {"fields": [{"id": 1, "name": "at", "type": "timestamptz"}]},
        "partitionSpec": {"fields": [{"sourceId": 1, "transform": "day", "name": "day"}]},
    }
}
NOT_ALLOWED = "MethodNotAllowedException"


def by_day(world: World) -> str:
    """A table that is partitioned by day: its ARN."""
    where = {"tableBucketARN": world.bucket, "namespace": world.new_namespace(), "name": world.fresh("t")}
    arn: str = world.client.create_table(**where, format="ICEBERG", metadata=BY_DAY)["tableARN"]
    return arn


@CASES.success(GET_RECORDS, "off where nothing is set")
def get_records(world: World) -> None:
    found = world.client.get_table_record_expiration_configuration(tableArn=by_day(world))
    assert found["configuration"] == {"status": "disabled"}


@CASES.success(PUT_RECORDS)
def put_records(world: World) -> None:
    arn = by_day(world)

    def put_and_get(**value: Any) -> Any:
        world.client.put_table_record_expiration_configuration(tableArn=arn, value=value)
        return world.client.get_table_record_expiration_configuration(tableArn=arn)["configuration"]

    assert put_and_get(settings={"days": 30}) == {"status": "disabled", "settings": {"days": 30}}
    assert put_and_get(status="enabled") == {"status": "enabled", "settings": {"days": 30}}
    assert put_and_get(settings={"days": 7}) == {"status": "enabled", "settings": {"days": 7}}
    assert put_and_get(status="disabled") == {"status": "disabled", "settings": {"days": 7}}


@CASES.success(RECORD_JOBS)
def record_job_status(world: World) -> None:
    arn = by_day(world)
    found = world.client.get_table(tableArn=arn)
    where = {"namespace": found["namespace"][0], "name": found["name"]}
    assert world.client.get_table_record_expiration_job_status(tableArn=arn)["status"] == "Disabled"
    value = {"status": "enabled", "settings": {"days": 7}}
    world.client.put_table_record_expiration_configuration(tableArn=arn, value=value)
    assert world.client.get_table_record_expiration_job_status(tableArn=arn)["status"] == "NotYetRun"
    figures = {"deletedDataFiles": 2, "deletedRecords": 30, "removedFilesSize": 4000}
    ended(world, where, RECORDS, "done", 1_700_000_000_000, None, {"figures": figures})
    found = world.client.get_table_record_expiration_job_status(tableArn=arn)
    assert (found["status"], found["metrics"]) == ("Successful", figures)
    assert found["lastRunTimestamp"].timestamp() == 1_700_000_000


for _operation in (GET_RECORDS, PUT_RECORDS, RECORD_JOBS):
    _value: dict[str, Any] = (
        {"value": {"status": "enabled", "settings": {"days": 1}}} if _operation == PUT_RECORDS else {}
    )
    CASES.refused(_operation, NOT_ALLOWED, "no time to go by", "can not be applied to this table")(
        lambda world, more=_value: {"tableArn": world.client.get_table(**world.table)["tableARN"], **more}
    )
    CASES.refused(_operation, NOT_ALLOWED, "blank", "the table has no metadata yet")(
        lambda world, more=_value: {"tableArn": world.client.get_table(**blank(world))["tableARN"], **more}
    )
    CASES.refused(_operation, MISSING, "ARN of none", NO_TABLE)(
        lambda world, more=_value: {"tableArn": f"{world.bucket}/table/none", **more}
    )
    CASES.refused(_operation, BAD, "no ARN", "at 'tableArn'")(
        lambda _, more=_value: {"tableArn": "x", **more}
    )
    CASES.refused(_operation, BAD, "no ARN at all", "at 'tableArn'")(lambda _, more=_value: {**more})
for _what, _given in (
    ("no days", {"status": "enabled"}),
    ("zero days", {"status": "enabled", "settings": {"days": 0}}),
    ("more than a number", {"settings": {"days": 2**31}}),
    ("status", {"status": "on"}),
    ("no value", None),
):
    CASES.refused(PUT_RECORDS, BAD, _what)(
        lambda world, value=_given: {"tableArn": by_day(world), "value": value}
    )


def ended(
    world: World,
    where: dict[str, str],
    kind: str,
    state: str,
    at_ms: int,
    error: str | None,
    report: Any = None,
) -> None:
    """Note a job as ended."""
    with closing(sqlite3.connect(world.server.data_dir / "frazil.db", timeout=30)) as database, database:
        bucket_id, table_id, table_uuid = database.execute(
            "SELECT bucket_id, id, table_uuid FROM tables WHERE name = ?", [where["name"]]
        ).fetchone()
        database.execute(
            "INSERT INTO jobs (kind, state, origin, bucket_id, namespace_key, table_name, table_id, table_uuid, "
            "dry_run, payload, priority, attempts, max_attempts, run_after_ms, error, "
            "created_at_ms, finished_at_ms, report) "
            "VALUES (?, ?, 'test', ?, ?, ?, ?, ?, 0, '{}', 0, 1, 1, 0, ?, 1, ?, ?)",
            [
                *(
                    kind,
                    state,
                    bucket_id,
                    where["namespace"],
                    where["name"],
                    table_id,
                    table_uuid,
                    error,
                    at_ms,
                ),
                None if report is None else json.dumps(report),
            ],
        )
