"""Maintenance configuration of buckets; that of tables is in `cases_tables`."""

from typing import Any

from tests.contract.s3tables.cases_buckets import BAD, MISSING, NO_BUCKET
from tests.contract.s3tables.world import HOME, Cases, World

CASES = Cases()
KIND = "icebergUnreferencedFileRemoval"
GET, PUT = "GetTableBucketMaintenanceConfiguration", "PutTableBucketMaintenanceConfiguration"


def value(status: str | None = "enabled", **settings: Any) -> dict[str, Any]:
    made: dict[str, Any] = {} if status is None else {"status": status}
    return {**made, "settings": {KIND: settings}} if settings else made


def put(world: World, arn: str, document: dict[str, Any]) -> None:
    world.client.put_table_bucket_maintenance_configuration(tableBucketARN=arn, type=KIND, value=document)


def get(world: World, arn: str) -> Any:
    found = world.client.get_table_bucket_maintenance_configuration(tableBucketARN=arn)
    assert found["tableBucketARN"] == arn
    assert list(found["configuration"]) == [KIND]
    return found["configuration"][KIND]


@CASES.success(GET, "defaults where nothing is set")
def get_defaults(world: World) -> None:
    assert get(world, world.bucket) == value(unreferencedDays=3, nonCurrentDays=10)


@CASES.success(PUT)
def put_and_get(world: World) -> None:
    arn = world.new_bucket()
    put(world, arn, value("disabled", unreferencedDays=4, nonCurrentDays=11))
    assert get(world, arn) == value("disabled", unreferencedDays=4, nonCurrentDays=11)


@CASES.success(PUT, "what is not named stays")
def put_parts(world: World) -> None:
    arn = world.new_bucket()
    put(world, arn, value(unreferencedDays=4, nonCurrentDays=11))
    put(world, arn, value(None, nonCurrentDays=12))
    assert get(world, arn) == value(unreferencedDays=4, nonCurrentDays=12)
    put(world, arn, value("disabled"))
    assert get(world, arn) == value("disabled", unreferencedDays=4, nonCurrentDays=12)
    put(world, arn, {})
    assert get(world, arn) == value("disabled", unreferencedDays=4, nonCurrentDays=12)


@CASES.success(PUT, "it is the policy of the management API")
def put_beside_the_management_api(world: World) -> None:
    arn = world.new_bucket()
    path = f"/buckets/{arn.removeprefix(HOME)}/policies/{KIND}"
    ours = {"status": "enabled", "settings": {"unreferencedSeconds": 90 * 3600, "intervalSeconds": 7200}}
    assert world.management("PUT", path, ours).status_code == 200
    assert get(world, arn) == value(unreferencedDays=3, nonCurrentDays=10)
    put(world, arn, value("disabled", unreferencedDays=5))
    found = world.management("GET", path).json()
    assert found["status"] == "disabled"
    assert found["settings"] == {"unreferencedDays": 5, "intervalSeconds": 7200}


@CASES.success(PUT, "from 1 day on")
def put_least(world: World) -> None:
    arn = world.new_bucket()
    put(world, arn, value(unreferencedDays=1, nonCurrentDays=1))
    assert get(world, arn) == value(unreferencedDays=1, nonCurrentDays=1)


for _what, _value in (
    ("zero days", value(unreferencedDays=0)),
    ("more than a number", value(nonCurrentDays=2**31)),
    ("a text", value(nonCurrentDays="3")),
    ("a fraction", value(nonCurrentDays=1.5)),
    ("status", value("on")),
    ("no settings of any type", {"status": "enabled", "settings": {}}),
    ("no value", None),
):
    CASES.refused(PUT, BAD, _what)(
        lambda world, document=_value: {"tableBucketARN": world.bucket, "type": KIND, "value": document}
    )
for _type in ("icebergCompaction", "icebergSnapshotManagement", "x"):
    CASES.refused(PUT, BAD, f"type {_type}", f"enum value set: [{KIND}]")(
        lambda world, kind=_type: {"tableBucketARN": world.bucket, "type": kind, "value": value()}
    )
CASES.refused(GET, MISSING, "no bucket", NO_BUCKET)(lambda _: {"tableBucketARN": HOME + "missing"})
CASES.refused(PUT, MISSING, "no bucket", NO_BUCKET)(
    lambda _: {"tableBucketARN": HOME + "missing", "type": KIND, "value": value()}
)
CASES.refused(GET, BAD, "no ARN")(lambda _: {"tableBucketARN": "x"})
