"""The expiration of records of a table: as set, and how it went."""

from typing import NoReturn

from catalog_server.api.s3tables.call import Call
from catalog_server.api.s3tables.errors import MethodNotAllowed
from catalog_server.api.s3tables.maintenance import POSITIVE, STATUS, Change, change
from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.shapes import TABLE_ARN, TIME
from catalog_server.api.s3tables.table_maintenance import scope_of, status_text, when_and_why
from catalog_server.api.s3tables.tables import by_arn
from catalog_server.api.s3tables.wire import Struct, Text, Whole
from catalog_server.services.table_entries import TableEntry
from catalog_server.services.table_maintenance import LastRun
from maintenance.policies import PolicyType
from table_format.errors import Invalid
from table_format.jsontypes import JsonObject

_RECORDS = Struct(
    members={"status": STATUS, "settings": Struct(members={"days": POSITIVE})},
)
_RECORD_JOB = Struct(
    members={
        "status": Text(choices=("NotYetRun", "Successful", "Failed", "Disabled")),
        "lastRunTimestamp": TIME,
        "failureMessage": Text(),
        "metrics": Struct(
            members={
                "deletedDataFiles": Whole(least=0, most=2**63 - 1),
                "deletedRecords": Whole(least=0, most=2**63 - 1),
                "removedFilesSize": Whole(least=0, most=2**63 - 1),
            }
        ),
    },
    required=("status",),
)
_METRICS = ("deletedDataFiles", "deletedRecords", "removedFilesSize")


async def get_record_expiration(call: Call) -> JsonObject:
    """After how many days rows of a table expire, if they do."""
    entry = await _expiring(call)
    found = await call.platform.table_maintenance.configuration(call.principal, entry, PolicyType.RECORDS)
    answer: JsonObject = {"status": status_text(found.enabled)}
    if found.settings:
        answer["settings"] = found.settings
    return {"configuration": answer}


async def put_record_expiration(call: Call) -> None:
    """Let rows of a table expire, or no more; without a status it stays as it is, which is off at first."""
    entry = await _expiring(call)
    value = call.body["value"]
    settings = value.get("settings", {})
    now = await call.platform.table_maintenance.configuration(call.principal, entry, PolicyType.RECORDS)
    changed = Change(status=value.get("status") or status_text(now.enabled), settings=settings)
    if changed.status == "enabled" and not settings and not now.settings:
        raise Invalid("The specified settings are not valid: say after how many days records expire")
    await change(call, scope_of(entry), PolicyType.RECORDS.value, changed)


async def get_record_expiration_status(call: Call) -> JsonObject:
    """How the expiration of rows went when it ran last."""
    entry = await _expiring(call)
    run = await call.platform.table_maintenance.last_run(call.principal, entry, PolicyType.RECORDS)
    answer: JsonObject = {"status": run.status.value.replace("_", "")}  # as the model has it here
    return answer | when_and_why(run) | _metrics(run)


async def _expiring(call: Call) -> TableEntry:
    """The table of the query's ARN, if its rows can expire."""
    entry = await by_arn(call, call.query["tableArn"])
    why = await call.platform.table_maintenance.why_no_record_expiration(call.principal, entry)
    if why is not None:
        _not_allowed(why)
    return entry


def _not_allowed(why: str) -> NoReturn:
    raise MethodNotAllowed(f"Record expiration can not be applied to this table: {why}")


def _metrics(run: LastRun) -> JsonObject:
    figures = (run.report or {}).get("figures") or {}
    known = {name: figures[name] for name in _METRICS if isinstance(figures.get(name), int)}
    return {"metrics": known} if known else {}


_PATH = "/table-record-expiration"
_OF_ARN = Struct(members={"tableArn": TABLE_ARN}, required=("tableArn",))
_ERRORS = ("BadRequestException", "NotFoundException", "MethodNotAllowedException")
_WHERE_NOT = (
    "405 for a table that is not partitioned by the time of one column, unless a policy names a column."
)

OPERATIONS = (
    Operation(
        name="GetTableRecordExpirationConfiguration",
        method="GET",
        path=_PATH,
        handler=get_record_expiration,
        summary="After how many days records of a table expire",
        doc=_WHERE_NOT,
        query=_OF_ARN,
        answer=Struct(members={"configuration": _RECORDS}, required=("configuration",)),
        errors=_ERRORS,
    ),
    Operation(
        name="PutTableRecordExpirationConfiguration",
        method="PUT",
        path=_PATH,
        handler=put_record_expiration,
        summary="Let records of a table expire, or no more",
        doc=_WHERE_NOT,
        status=204,
        query=_OF_ARN,
        body=Struct(members={"value": _RECORDS}, required=("value",)),
        errors=_ERRORS,
    ),
    Operation(
        name="GetTableRecordExpirationJobStatus",
        method="GET",
        path="/table-record-expiration-job-status",
        handler=get_record_expiration_status,
        summary="How the expiration of records went when it ran last",
        doc=_WHERE_NOT,
        query=_OF_ARN,
        answer=_RECORD_JOB,
        errors=_ERRORS,
    ),
)
