"""Table buckets: create, list, get, delete."""

from catalog_server.api.s3tables import storage_settings
from catalog_server.api.s3tables.call import Call, timestamp
from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.shapes import (
    ACCOUNT,
    BUCKET_ARN,
    BUCKET_NAME,
    ENCRYPTION,
    PAGE_SIZE,
    STORAGE_CLASS,
    TAGS,
    TIME,
    TOKEN,
    TYPE,
)
from catalog_server.api.s3tables.wire import Items, Struct, Text
from catalog_server.services import names
from catalog_server.store.buckets import BucketRow
from table_format.errors import AlreadyExists, BucketNotEmpty, Invalid
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
# What AWS keeps for itself; buckets made by other ways may have such names.
_RESERVED_STARTS = ("xn--", "sthree-", "amzn-s3-demo-", "aws")
_RESERVED_ENDS = ("-s3alias", "--ol-s3", "--x-s3", "--table-s3")


async def create_table_bucket(call: Call) -> JsonObject:
    """Create one, at a place of its own."""
    name = call.body["name"]
    _check_name(name)
    settings = storage_settings.given(call.body)
    try:
        row = await call.platform.buckets.create(
            call.principal, name, tags=call.body.get("tags", {}), settings=settings
        )
    except AlreadyExists as error:
        text = "The bucket that you tried to create already exists, and you own it."
        raise AlreadyExists(f"{text} {error.message}") from None
    return {"arn": call.home.bucket(row.name)}


async def list_table_buckets(call: Call) -> JsonObject:
    """All of them, by name."""
    if call.query.get("type") == "aws":
        return {"tableBuckets": []}
    page = await call.platform.buckets.list(
        call.principal, call.page("maxBuckets"), prefix=call.query.get("prefix", "")
    )
    answer: JsonObject = {"tableBuckets": [summary(call, row) for row in page.items]}
    if page.next_token is not None:
        answer["continuationToken"] = page.next_token
    return answer


async def get_table_bucket(call: Call) -> JsonObject:
    """One."""
    return summary(call, await call.platform.buckets.get(call.principal, call.bucket))


async def delete_table_bucket(call: Call) -> None:
    """Delete an empty one."""
    try:
        await call.platform.buckets.delete(call.principal, call.bucket)
    except BucketNotEmpty as error:
        raise BucketNotEmpty(f"The bucket that you tried to delete is not empty. {error.message}") from None


def summary(call: Call, row: BucketRow) -> JsonObject:
    """A bucket on the wire."""
    return {
        "arn": call.home.bucket(row.name),
        "name": row.name,
        "ownerAccountId": call.home.account_id,
        "createdAt": timestamp(row.created_at_ms),
        "tableBucketId": row.resource_id,
        "type": "customer",
    }


def _check_name(name: str) -> None:
    try:
        names.check_bucket(name)
    except Invalid as error:
        raise Invalid(f"The specified bucket name is not valid. {error.message}") from None
    if name.startswith(_RESERVED_STARTS) or name.endswith(_RESERVED_ENDS):
        raise Invalid(
            "The specified bucket name is not valid. It must not begin with "
            f"{', '.join(_RESERVED_STARTS)} nor end with {', '.join(_RESERVED_ENDS)} "
            "(our own API allows such names)"
        )


OPERATIONS = (
    Operation(
        name="CreateTableBucket",
        method="PUT",
        path="/buckets",
        handler=create_table_bucket,
        summary="Create a table bucket",
        doc="It lies at a place of its own. Our own API makes buckets at a place of your choice.",
        body=Struct(
            members={
                "name": BUCKET_NAME,
                "encryptionConfiguration": ENCRYPTION,
                "storageClassConfiguration": STORAGE_CLASS,
                "tags": TAGS,
            },
            required=("name",),
        ),
        answer=Struct(members={"arn": BUCKET_ARN}, required=("arn",)),
        errors=("BadRequestException", "ConflictException"),
    ),
    Operation(
        name="ListTableBuckets",
        method="GET",
        path="/buckets",
        handler=list_table_buckets,
        summary="The table buckets, by name",
        query=Struct(
            members={
                "prefix": Text(least=1, most=63),
                "continuationToken": TOKEN,
                "maxBuckets": PAGE_SIZE,
                "type": TYPE,
            }
        ),
        answer=Struct(
            members={"tableBuckets": Items(of=SUMMARY), "continuationToken": TOKEN},
            required=("tableBuckets",),
        ),
        errors=("BadRequestException",),
    ),
    Operation(
        name="GetTableBucket",
        method="GET",
        path="/buckets/{tableBucketARN}",
        handler=get_table_bucket,
        summary="One table bucket",
        answer=SUMMARY,
    ),
    Operation(
        name="DeleteTableBucket",
        method="DELETE",
        path="/buckets/{tableBucketARN}",
        handler=delete_table_bucket,
        summary="Delete a table bucket that is empty",
        doc="Not a protected one, nor the one that clients get who name none. No file is deleted.",
        status=204,
        errors=("BadRequestException", "ForbiddenException", "NotFoundException", "ConflictException"),
    ),
)
