"""Metrics reports from clients, after a scan or a commit. Checked loosely: a report must not fail a query."""

import re
from collections.abc import Mapping

from starlette.responses import Response

from catalog_server.api.iceberg.call import Call, no_content
from catalog_server.api.iceberg.wire import optional, required, string_list, strings
from table_format.errors import Invalid, TooLarge
from table_format.jsontypes import JsonObject
from table_format.metadata import jsontext

_TYPE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LONG = 1 << 63
# What the known types hold, where they hold it; members that nobody knows are kept as they are.
_MEMBERS: Mapping[str, Mapping[str, type]] = {
    "scan-report": {
        "table-name": str,
        "snapshot-id": int,
        "schema-id": int,
        "projected-field-ids": list,
        "projected-field-names": list,
        "metrics": dict,
        "metadata": dict,
    },
    "commit-report": {
        "table-name": str,
        "snapshot-id": int,
        "sequence-number": int,
        "operation": str,
        "metrics": dict,
        "metadata": dict,
    },
}


async def report_metrics(call: Call) -> Response:
    """Take note of a client's report; 204 before it is written anywhere."""
    ident = call.table
    kind = required(call.body, "report-type", str)
    if not _TYPE.fullmatch(kind):
        raise Invalid("Malformed request: 'report-type' must be a name such as scan-report or commit-report")
    snapshot_id = _checked(kind, call.body)
    text = jsontext.dumps(call.body)
    limit = call.platform.settings.reports.max_kb << 10
    if len(text) > limit:
        raise TooLarge(f"Metrics report too large: the limit is {limit} bytes (setting reports.max_kb)")
    report = (kind, snapshot_id, text.decode())
    await call.platform.reports.accept(call.principal, call.bucket, ident, report)
    return no_content()


def _checked(kind: str, body: JsonObject) -> int | None:
    """The report's snapshot id.

    Raises:
        Invalid: a member has another type, or the metrics of a known type are missing.
    """
    members = _MEMBERS.get(kind, {})
    if members:
        required(body, "metrics", dict)
    for member, of in members.items():
        optional(body, member, of)
    if "projected-field-names" in members:
        string_list(body, "projected-field-names")
    if members:
        strings(body, "metadata")
    snapshot_id = optional(body, "snapshot-id", int) if members else None
    if snapshot_id is not None and not -_LONG <= snapshot_id < _LONG:
        raise Invalid("Malformed request: 'snapshot-id' must be a number of 64 bits")
    return snapshot_id
