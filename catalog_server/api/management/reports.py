"""Metrics reports that clients sent: what they scanned and committed, and how long it took."""

from typing import Annotated

import orjson
from fastapi import APIRouter, Query
from starlette.responses import Response

from catalog_server.api.management import wire
from catalog_server.api.management.parameters import (
    BucketName,
    By,
    InNamespace,
    OnePage,
    OnPlatform,
    TableName,
)
from catalog_server.services.reports import ReportRow
from table_format.ident import TableIdent

router = APIRouter(tags=["tables"])


@router.get(
    "/v1/buckets/{bucket}/namespaces/{namespace}/tables/{table}/metrics-reports",
    response_model=wire.MetricsReports,
)
async def list_metrics_reports(
    *,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    table: TableName,
    page: OnePage,
    report_type: Annotated[
        str | None, Query(alias="type", description="scan-report or commit-report; all when not given.")
    ] = None,
) -> Response:
    """The reports that clients sent after scans and commits of one table, newest first."""
    ident = TableIdent(namespace, table)
    found = await platform.reports.list(principal, bucket, ident, report_type or None, page)
    # The reports are spliced in as they were sent: numbers of any size stay exact.
    body = b'{"reports":[%b],"nextPageToken":%b}' % (
        b",".join(_report(row) for row in found.items),
        orjson.dumps(found.next_token),
    )
    return Response(body, media_type="application/json")


def _report(row: ReportRow) -> bytes:
    head = orjson.dumps({"id": row.id, "type": row.type, "receivedAtMs": row.received_at_ms})
    return head[:-1] + b',"report":' + row.text.encode() + b"}"
