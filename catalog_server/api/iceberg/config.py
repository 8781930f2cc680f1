"""`GET /v1/config`: where a client begins."""

from collections.abc import Sequence
from urllib.parse import quote

from starlette.responses import Response

from catalog_server.api.iceberg.call import Call, json_answer
from catalog_server.api.rawpath import SEPARATOR
from catalog_server.services import arns
from catalog_server.services.storage import takes_properties
from table_format.errors import Invalid


async def get_config(call: Call, endpoints: Sequence[str]) -> Response:
    """The bucket as the prefix of all further paths, and the operations that work."""
    platform = call.platform
    warehouse = call.query.text("warehouse")
    # Asked by every writer and reader of an engine when it starts: one indexed read at most.
    name = _bucket_name(warehouse) if warehouse else platform.buckets.default_name
    bucket = await platform.commits.bucket(name)
    overrides = {"prefix": quote(bucket.name, safe="")}
    if platform.settings.iceberg.separator != SEPARATOR:
        overrides["namespace-separator"] = platform.settings.iceberg.namespace_separator
    return json_answer(
        {
            # Of lower rank than what an engine is told of each table: it may know a nearer address.
            "defaults": await platform.storage.told_properties(bucket.name)
            if takes_properties(bucket.location)
            else {},
            "overrides": overrides,
            "endpoints": endpoints,
            # Its presence says that keys are honoured; it is a member of its own, not a property.
            "idempotency-key-lifetime": f"PT{platform.settings.limits.idempotency_minutes}M",
        }
    )


def _bucket_name(warehouse: str) -> str:
    """A bucket's name as given, or out of its ARN."""
    try:
        return arns.parse(warehouse).bucket
    except Invalid:
        return warehouse
