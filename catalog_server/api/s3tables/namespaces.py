"""Namespaces: create, list, get, delete. They have one level here; what has more, or another name, is not shown."""

import uuid

from catalog_server.api.s3tables.call import Call, plain, timestamp
from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.shapes import ACCOUNT, BUCKET_ARN, NAME, PAGE_SIZE, TIME, TOKEN
from catalog_server.api.s3tables.wire import Items, Struct, Text
from catalog_server.services.namespaces import Shown
from catalog_server.store.buckets import BucketRow
from catalog_server.store.namespaces import NamespaceRow
from table_format.errors import AlreadyExists, NamespaceNotEmpty
from table_format.ident import Namespace
from table_format.jsontypes import JsonObject

ONE_LEVEL = Items(of=NAME, least=1, most=1, doc="One level.")
SUMMARY = Struct(
    members={
        "namespace": ONE_LEVEL,
        "createdAt": TIME,
        "createdBy": ACCOUNT,
        "ownerAccountId": ACCOUNT,
        "namespaceId": Text(),
        "tableBucketId": Text(),
    },
    required=("namespace", "createdAt", "createdBy", "ownerAccountId"),
)


async def create_namespace(call: Call) -> JsonObject:
    """Create one."""
    bucket = call.bucket
    [name] = call.body["namespace"]
    try:
        await call.platform.namespaces.create(call.principal, bucket, Namespace((name,)), {})
    except AlreadyExists:
        raise AlreadyExists("A namespace with an identical name already exists in the bucket.") from None
    return {"tableBucketARN": call.home.bucket(bucket), "namespace": [name]}


async def list_namespaces(call: Call) -> JsonObject:
    """Those of one bucket, by name."""
    owner = await call.platform.buckets.get(call.principal, call.bucket)
    page = await call.platform.namespaces.top_level(
        call.principal,
        owner.name,
        Shown(prefix=call.query.get("prefix", ""), can_be=plain),
        call.page("maxNamespaces"),
    )
    answer: JsonObject = {"namespaces": [summary(call, owner, row) for row in page.items]}
    if page.next_token is not None:
        answer["continuationToken"] = page.next_token
    return answer


async def get_namespace(call: Call) -> JsonObject:
    """One."""
    owner = await call.platform.buckets.get(call.principal, call.bucket)
    return summary(
        call, owner, await call.platform.namespaces.row(call.principal, owner.name, call.namespace)
    )


async def delete_namespace(call: Call) -> None:
    """Delete an empty one."""
    try:
        await call.platform.namespaces.drop(call.principal, call.bucket, call.namespace)
    except NamespaceNotEmpty as error:
        raise NamespaceNotEmpty(f"The specified namespace is not empty. {error.message}") from None


def summary(call: Call, owner: BucketRow, row: NamespaceRow) -> JsonObject:
    """A namespace on the wire."""
    return {
        "namespace": list(row.namespace.levels),
        "createdAt": timestamp(row.created_at_ms),
        "createdBy": call.home.account_id,
        "ownerAccountId": call.home.account_id,
        "namespaceId": namespace_id(owner.resource_id, row.id),
        "tableBucketId": owner.resource_id,
    }


def namespace_id(bucket_id: str, row_id: int) -> str:
    """An id that stays a namespace's own: a later one of the same name has another."""
    return str(uuid.uuid5(uuid.UUID(bucket_id), f"namespace {row_id}"))


_BUCKET = "/namespaces/{tableBucketARN}"

OPERATIONS = (
    Operation(
        name="CreateNamespace",
        method="PUT",
        path=_BUCKET,
        handler=create_namespace,
        summary="Create a namespace",
        body=Struct(members={"namespace": ONE_LEVEL}, required=("namespace",)),
        answer=Struct(
            members={"tableBucketARN": BUCKET_ARN, "namespace": ONE_LEVEL},
            required=("tableBucketARN", "namespace"),
        ),
        errors=("BadRequestException", "NotFoundException", "ConflictException"),
    ),
    Operation(
        name="ListNamespaces",
        method="GET",
        path=_BUCKET,
        handler=list_namespaces,
        summary="The namespaces of a table bucket, by name",
        doc="Those that have one level and a name that S3 Tables allows.",
        query=Struct(
            members={
                "prefix": Text(least=1, most=255),
                "continuationToken": TOKEN,
                "maxNamespaces": PAGE_SIZE,
            }
        ),
        answer=Struct(
            members={"namespaces": Items(of=SUMMARY), "continuationToken": TOKEN}, required=("namespaces",)
        ),
    ),
    Operation(
        name="GetNamespace",
        method="GET",
        path=_BUCKET + "/{namespace}",
        handler=get_namespace,
        summary="One namespace",
        answer=SUMMARY,
    ),
    Operation(
        name="DeleteNamespace",
        method="DELETE",
        path=_BUCKET + "/{namespace}",
        handler=delete_namespace,
        summary="Delete a namespace that is empty",
        status=204,
        errors=("BadRequestException", "NotFoundException", "ConflictException"),
    ),
)
