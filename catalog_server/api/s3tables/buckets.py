"""Table buckets: get (more follows)."""

from catalog_server.api.s3tables.call import Call, timestamp
from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.shapes import ACCOUNT, BUCKET_ARN, BUCKET_NAME, TIME, TYPE
from catalog_server.api.s3tables.wire import Struct, Text
from catalog_server.store.buckets import BucketRow
from table_format.jsontypes import JsonObject

SUMMARY = Struct(
    members={
        "arn": BUCKET_ARN,
        "name": BUCKET_NAME,
        "ownerAccountId": ACCOUNT,
        "createdAt": TIME,
        "tableBucketId": Text(doc="Stays the bucket's own; a later one of the same name has another."),
        "type": TYPE,
    },
    required=("arn", "name", "ownerAccountId", "createdAt"),
)


async def get_table_bucket(call: Call) -> JsonObject:
    """One bucket."""
    return summary(call, await call.platform.buckets.get(call.principal, call.bucket))


def summary(call: Call, row: BucketRow) -> JsonObject:
    """A bucket on the wire."""
    return {
        "arn": call.home.bucket(row.name),
        "name": row.name,
        "ownerAccountId": call.home.account,
        "createdAt": timestamp(row.created_at_ms),
        "type": "customer",
    }


OPERATIONS = (
    Operation(
        name="GetTableBucket",
        method="GET",
        path="/buckets/{tableBucketARN}",
        handler=get_table_bucket,
        summary="One table bucket",
        answer=SUMMARY,
    ),
)
