"""Resource policies of buckets and tables: kept and given back as they were given, with their form checked.

They are not enforced: nobody is told apart yet. What could not be enforced later is refused now.
"""

from catalog_server.api.s3tables.call import Call
from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.wire import Struct, Text
from catalog_server.services.kept_settings import MOST_POLICY_BYTES, RESOURCE_POLICY, check_policy
from table_format.errors import NotFound
from table_format.jsontypes import JsonObject

_BUCKET = "/buckets/{tableBucketARN}/policy"
_TABLE = "/tables/{tableBucketARN}/{namespace}/{name}/policy"
_DOCUMENT = Struct(
    members={
        "resourcePolicy": Text(
            least=1,
            most=MOST_POLICY_BYTES,
            doc="A policy in JSON, of at most 20,480 bytes. Kept, not enforced.",
        )
    },
    required=("resourcePolicy",),
)


async def get_policy(call: Call) -> JsonObject:
    """The policy."""
    [found] = await call.platform.resource_settings.get(call.principal, call.located, RESOURCE_POLICY)
    if found is None:
        raise NotFound(f"The specified {call.what} does not have a resource policy.")
    return {"resourcePolicy": found["text"]}


async def put_policy(call: Call) -> None:
    """Set it."""
    text = call.body["resourcePolicy"]
    check_policy(text)
    await call.platform.resource_settings.put(call.principal, call.located, RESOURCE_POLICY, {"text": text})


async def delete_policy(call: Call) -> None:
    """Take it away, if there is one."""
    await call.platform.resource_settings.remove(call.principal, call.located, RESOURCE_POLICY)


def _operations(what: str, path: str) -> tuple[Operation, ...]:
    thing = "table bucket" if what == "TableBucket" else "table"
    return (
        Operation(
            name=f"Get{what}Policy",
            method="GET",
            path=path,
            handler=get_policy,
            summary=f"The resource policy of a {thing}",
            answer=_DOCUMENT,
        ),
        Operation(
            name=f"Put{what}Policy",
            method="PUT",
            path=path,
            handler=put_policy,
            summary=f"Set the resource policy of a {thing}",
            doc="Kept for the time when requests are made by known people; until then it allows and denies nothing.",
            body=_DOCUMENT,
        ),
        Operation(
            name=f"Delete{what}Policy",
            method="DELETE",
            path=path,
            handler=delete_policy,
            summary=f"Remove the resource policy of a {thing}",
            status=204,
        ),
    )


OPERATIONS = (*_operations("TableBucket", _BUCKET), *_operations("Table", _TABLE))
