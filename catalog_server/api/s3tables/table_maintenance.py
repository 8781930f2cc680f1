"""Maintenance of a table: compaction and snapshots, as set, and how all of it went."""

from catalog_server.api.s3tables.call import Call, timestamp
from catalog_server.api.s3tables.maintenance import POSITIVE, put, value_shape
from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.shapes import TABLE_ARN, TIME
from catalog_server.api.s3tables.wire import Struct, Text
from catalog_server.services.policies import PolicyScope
from catalog_server.services.table_entries import TableEntry
from catalog_server.services.table_maintenance import LastRun, RunStatus
from maintenance.policies import PolicyType
from table_format.jsontypes import JsonObject

_KINDS = (PolicyType.COMPACTION, PolicyType.SNAPSHOTS)
_JOB_KINDS = (*_KINDS, PolicyType.UNREFERENCED)
_TYPES = {
    PolicyType.COMPACTION.value: Struct(
        members={
            "targetFileSizeMB": POSITIVE,
            "strategy": Text(choices=("auto", "binpack", "sort", "z-order")),
        }
    ),
    PolicyType.SNAPSHOTS.value: Struct(
        members={"minSnapshotsToKeep": POSITIVE, "maxSnapshotAgeHours": POSITIVE}
    ),
}
_VALUE = value_shape(_TYPES)
_RUN = Text(choices=tuple(RunStatus))
_JOB = Struct(
    members={"status": _RUN, "lastRunTimestamp": TIME, "failureMessage": Text()}, required=("status",)
)


async def get_maintenance(call: Call) -> JsonObject:
    """What is in force for a table, whether it was set for it, above it, or by nobody."""
    entry = await _table(call)
    configuration: JsonObject = {}
    for kind in _KINDS:
        found = await call.platform.table_maintenance.configuration(call.principal, entry, kind)
        configuration[kind.value] = {
            "status": status_text(found.enabled),
            "settings": {kind.value: found.settings},
        }
    return {"tableARN": call.home.table(entry.bucket, entry.resource_id), "configuration": configuration}


async def put_maintenance(call: Call) -> None:
    """Set one kind of maintenance for a table."""
    entry = await _table(call)
    await put(call, scope_of(entry))


async def get_job_status(call: Call) -> JsonObject:
    """How each kind of maintenance went when it ran last."""
    entry = await _table(call)
    status: JsonObject = {}
    for kind in _JOB_KINDS:
        run = await call.platform.table_maintenance.last_run(call.principal, entry, kind)
        status[kind.value] = {"status": run.status.value, **when_and_why(run)}
    return {"tableARN": call.home.table(entry.bucket, entry.resource_id), "status": status}


async def _table(call: Call) -> TableEntry:
    return await call.platform.table_entries.get(call.principal, call.bucket, call.table)


def scope_of(entry: TableEntry) -> PolicyScope:
    """Where the table's own policies hang."""
    return PolicyScope(bucket=entry.bucket, namespace=entry.ident.namespace, table=entry.ident.name)


def status_text(enabled: bool) -> str:
    """The status in the model's words."""
    return "enabled" if enabled else "disabled"


def when_and_why(run: LastRun) -> JsonObject:
    """The members that tell of a run beside its status."""
    found: JsonObject = {}
    if run.finished_at_ms is not None:
        found["lastRunTimestamp"] = timestamp(run.finished_at_ms)
    if run.message is not None:
        found["failureMessage"] = run.message
    return found


_ONE = "/tables/{tableBucketARN}/{namespace}/{name}"

OPERATIONS = (
    Operation(
        name="GetTableMaintenanceConfiguration",
        method="GET",
        path=_ONE + "/maintenance",
        handler=get_maintenance,
        summary="The maintenance that is in force for a table",
        doc="With AWS's defaults, what is set above the table and what the table's properties say merged in.",
        answer=Struct(
            members={
                "tableARN": TABLE_ARN,
                "configuration": Struct(members={kind.value: _VALUE for kind in _KINDS}),
            },
            required=("tableARN", "configuration"),
        ),
    ),
    Operation(
        name="PutTableMaintenanceConfiguration",
        method="PUT",
        path=_ONE + "/maintenance/{type}",
        handler=put_maintenance,
        summary="Set one kind of maintenance for a table",
        doc="Sets the table's own policy of that kind. What is not named stays as it is.",
        status=204,
        path_shapes={"type": Text(choices=tuple(_TYPES))},
        body=Struct(members={"value": _VALUE}, required=("value",)),
    ),
    Operation(
        name="GetTableMaintenanceJobStatus",
        method="GET",
        path=_ONE + "/maintenance-job-status",
        handler=get_job_status,
        summary="How maintenance of a table went when it ran last",
        answer=Struct(
            members={
                "tableARN": TABLE_ARN,
                "status": Struct(members={kind.value: _JOB for kind in _JOB_KINDS}),
            },
            required=("tableARN", "status"),
        ),
    ),
)
