"""Tags of buckets and tables."""

from catalog_server.api.s3tables.call import Call
from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.shapes import TAG_KEY, TAGS
from catalog_server.api.s3tables.wire import NOTHING, Items, Struct
from table_format.jsontypes import JsonObject


async def tag_resource(call: Call) -> JsonObject:
    """Set tags; those of other keys stay."""
    await call.platform.tags.add(call.principal, await _resource_id(call), call.body["tags"])
    return {}


async def untag_resource(call: Call) -> None:
    """Remove the tags of these keys."""
    await call.platform.tags.remove(call.principal, await _resource_id(call), call.query["tagKeys"])


async def list_tags(call: Call) -> JsonObject:
    """All tags."""
    found = await call.platform.tags.get(call.principal, await _resource_id(call))
    return {"tags": found.tags}


async def _resource_id(call: Call) -> str:
    return await call.platform.resource_settings.resource_id(call.principal, call.located)


_PATH = "/tag/{resourceArn}"

OPERATIONS = (
    Operation(
        name="ListTagsForResource",
        method="GET",
        path=_PATH,
        handler=list_tags,
        summary="The tags of a table bucket or table",
        answer=Struct(members={"tags": TAGS}),
    ),
    Operation(
        name="TagResource",
        method="POST",
        path=_PATH,
        handler=tag_resource,
        summary="Set tags on a table bucket or table",
        doc="Tags of other keys stay. A resource has at most 50 tags.",
        body=Struct(members={"tags": TAGS}, required=("tags",)),
        answer=NOTHING,
    ),
    Operation(
        name="UntagResource",
        method="DELETE",
        path=_PATH,
        handler=untag_resource,
        summary="Remove tags from a table bucket or table",
        status=204,
        query=Struct(members={"tagKeys": Items(of=TAG_KEY)}, required=("tagKeys",)),
    ),
)
