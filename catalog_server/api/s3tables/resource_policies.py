"""Resource policies of buckets and tables: kept and given back as they were given, with their form checked.

They are not enforced: nobody is told apart yet. What could not be enforced later is refused now.
"""

from catalog_server.api.s3tables.call import Call
from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.wire import Struct, Text
from table_format.errors import Invalid, NotFound, TableFormatError
from table_format.jsontypes import JsonObject
from table_format.metadata import jsontext

MOST_BYTES = 20_480
SETTING = "resourcePolicy"

_BUCKET = "/buckets/{tableBucketARN}/policy"
_TABLE = "/tables/{tableBucketARN}/{namespace}/{name}/policy"
_DOCUMENT = Struct(
    members={
        "resourcePolicy": Text(
            least=1, most=MOST_BYTES, doc="A policy in JSON, of at most 20,480 bytes. Kept, not enforced."
        )
    },
    required=("resourcePolicy",),
)


async def get_policy(call: Call) -> JsonObject:
    """The policy."""
    [found] = await call.platform.resource_settings.get(call.principal, call.located, SETTING)
    if found is None:
        raise NotFound(f"The specified {call.what} does not have a resource policy.")
    return {"resourcePolicy": found["text"]}


async def put_policy(call: Call) -> None:
    """Set it."""
    text = call.body["resourcePolicy"]
    check(text)
    await call.platform.resource_settings.put(call.principal, call.located, SETTING, {"text": text})


async def delete_policy(call: Call) -> None:
    """Take it away, if there is one."""
    await call.platform.resource_settings.remove(call.principal, call.located, SETTING)


def check(text: str) -> None:
    """Check the form of a policy.

    Raises:
        Invalid: it is too long, no JSON, or has no statements with an effect.
    """
    size = len(text.encode())
    if size > MOST_BYTES:
        raise Invalid(
            f"The specified resource policy is not valid: it has {size} bytes, at most {MOST_BYTES} are allowed"
        )
    try:
        document = jsontext.loads(text.encode())
    except TableFormatError as error:
        raise Invalid(f"The specified resource policy is not valid: it is {error.message}") from None
    statements = document.get("Statement") if isinstance(document, dict) else None
    if isinstance(statements, dict):
        statements = [statements]
    if not isinstance(statements, list):
        raise Invalid(
            'The specified resource policy is not valid: it must be a JSON object with a "Statement"'
        )
    for place, statement in enumerate(statements):
        if not isinstance(statement, dict) or statement.get("Effect") not in ("Allow", "Deny"):
            raise Invalid(
                f"The specified resource policy is not valid: statement {place} must be an object with "
                'an "Effect" of "Allow" or "Deny"'
            )


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
