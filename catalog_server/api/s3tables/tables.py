"""Tables: create, list, get, rename, delete, and the pointer to their metadata."""

from catalog_server.api.s3tables import arn, storage_settings
from catalog_server.api.s3tables.call import Call, plain_namespace, plain_table, timestamp
from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.shapes import (
    ACCOUNT,
    BUCKET_ARN,
    ENCRYPTION,
    NAME,
    PAGE_SIZE,
    STORAGE_CLASS,
    TABLE_ARN,
    TAGS,
    TIME,
    TOKEN,
    TYPE,
)
from catalog_server.api.s3tables.table_metadata import METADATA, spec_of
from catalog_server.api.s3tables.wire import Items, Struct, Text
from catalog_server.services.table_entries import Attached, TableEntry, token_of
from table_format.errors import Invalid, NoSuchTable
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject

_VERSION_TOKEN = Text(
    least=1, most=2048, doc="Names this version of the table: every change gives it another."
)
_METADATA_LOCATION = Text(least=1, most=2048, doc="Where the table's metadata file is.")
_WAREHOUSE = Text(doc="Where the table lies; its metadata files are to be written below it.")
_NAMESPACES = Items(of=NAME, doc="The namespace, alone in a list.")
_FORMAT = Text(choices=("ICEBERG",))

_CREATED = Struct(
    members={"tableARN": TABLE_ARN, "versionToken": _VERSION_TOKEN}, required=("tableARN", "versionToken")
)
_SUMMARY = Struct(
    members={
        "namespace": _NAMESPACES,
        "name": NAME,
        "type": TYPE,
        "tableARN": TABLE_ARN,
        "createdAt": TIME,
        "modifiedAt": TIME,
        "tableBucketId": Text(),
    },
    required=("namespace", "name", "type", "tableARN", "createdAt", "modifiedAt"),
)
_PAGE = Struct(
    members={"tables": Items(of=_SUMMARY), "continuationToken": TOKEN},
    required=("tables",),
)
_TABLE = Struct(
    members={
        **_SUMMARY.members,
        "versionToken": _VERSION_TOKEN,
        "metadataLocation": _METADATA_LOCATION,
        "warehouseLocation": _WAREHOUSE,
        "createdBy": ACCOUNT,
        "modifiedBy": ACCOUNT,
        "ownerAccountId": ACCOUNT,
        "format": _FORMAT,
    },
    required=(
        *_SUMMARY.required,
        "versionToken",
        "warehouseLocation",
        "createdBy",
        "modifiedBy",
        "ownerAccountId",
        "format",
    ),
)
_POINTER = Struct(
    members={
        "versionToken": _VERSION_TOKEN,
        "metadataLocation": _METADATA_LOCATION,
        "warehouseLocation": _WAREHOUSE,
    },
    required=("versionToken", "warehouseLocation"),
)
_MOVED = Struct(
    members={
        "name": NAME,
        "tableARN": TABLE_ARN,
        "namespace": _NAMESPACES,
        "versionToken": _VERSION_TOKEN,
        "metadataLocation": _METADATA_LOCATION,
    },
    required=("name", "tableARN", "namespace", "versionToken", "metadataLocation"),
)


async def create_table(call: Call) -> JsonObject:
    """A new table, blank when the request says nothing of its metadata."""
    body = call.body
    spec = spec_of(body["metadata"]) if "metadata" in body else None
    entry = await call.platform.table_entries.create(
        call.principal,
        call.bucket,
        TableIdent(call.namespace, body["name"]),
        spec,
        attached=Attached(settings=storage_settings.given(body), tags=body.get("tags", {})),
    )
    return {"tableARN": _arn(call, entry), "versionToken": _token(entry)}


async def list_tables(call: Call) -> JsonObject:
    """One page of the tables of a bucket, or of a namespace of it."""
    query, bucket = call.query, call.bucket
    namespace = plain_namespace(query["namespace"]) if "namespace" in query else None
    page = await call.platform.table_entries.list(
        call.principal, bucket, namespace, query.get("prefix", ""), call.page("maxTables")
    )
    bucket_id = (await call.platform.buckets.get(call.principal, bucket)).resource_id
    answer: JsonObject = {"tables": [_summary(call, entry, bucket_id) for entry in page.items]}
    if page.next_token is not None:
        answer["continuationToken"] = page.next_token
    return answer


async def get_table(call: Call) -> JsonObject:
    """One table, by its names or by its ARN."""
    entry = await _asked_for(call)
    bucket = await call.platform.buckets.get(call.principal, entry.bucket)
    account = call.home.account_id
    answer = {
        **_summary(call, entry, bucket.resource_id),
        "versionToken": _token(entry),
        "warehouseLocation": entry.location,
        "createdBy": account,
        "modifiedBy": account,
        "ownerAccountId": account,
        "format": "ICEBERG",
    }
    if entry.metadata_location is not None:
        answer["metadataLocation"] = entry.metadata_location
    return answer


async def delete_table(call: Call) -> None:
    """Delete a table with its files, which go later, by a job."""
    await call.platform.table_entries.delete(
        call.principal, call.bucket, call.table, call.query.get("versionToken")
    )


async def rename_table(call: Call) -> None:
    """Give a table another name, another namespace, or both."""
    body, source = call.body, call.table
    if "newName" not in body and "newNamespaceName" not in body:
        raise Invalid("Neither a new namespace name nor a new table name is specified.")
    namespace = Namespace((body["newNamespaceName"],)) if "newNamespaceName" in body else source.namespace
    destination = TableIdent(namespace, body.get("newName", source.name))
    await call.platform.table_entries.rename(
        call.principal, call.bucket, source, destination, body.get("versionToken")
    )


async def get_table_metadata_location(call: Call) -> JsonObject:
    """Where a table's metadata is, and the token to move it by: what clients ask most."""
    entry = await call.platform.table_entries.get(call.principal, call.bucket, call.table)
    answer: JsonObject = {"versionToken": _token(entry), "warehouseLocation": entry.location}
    if entry.metadata_location is not None:
        answer["metadataLocation"] = entry.metadata_location
    return answer


async def update_table_metadata_location(call: Call) -> JsonObject:
    """Point a table at metadata that the client wrote."""
    entry = await call.platform.table_entries.update_metadata_location(
        call.principal, call.bucket, call.table, call.body["versionToken"], call.body["metadataLocation"]
    )
    return {
        "name": entry.ident.name,
        "tableARN": _arn(call, entry),
        "namespace": [*entry.ident.namespace.levels],
        "versionToken": _token(entry),
        "metadataLocation": entry.metadata_location,
    }


async def _asked_for(call: Call) -> TableEntry:
    """The table that a query names, one way or the other."""
    query, names = call.query, ("tableBucketARN", "namespace", "name")
    by_name = [name for name in names if name in query]
    if "tableArn" in query:
        if by_name:
            raise Invalid("Specify either tableArn, or tableBucketARN with namespace and name, not both")
        return await by_arn(call, query["tableArn"])
    if len(by_name) < len(names):
        raise Invalid("Specify tableArn, or all of tableBucketARN, namespace and name")
    bucket = arn.bucket_name(query["tableBucketARN"], call.home)
    return await call.platform.table_entries.get(
        call.principal, bucket, plain_table(query["namespace"], query["name"])
    )


async def by_arn(call: Call, text: str) -> TableEntry:
    """The table of an ARN.

    Raises:
        Invalid: it is none of a table.
        NoSuchTable: there is no such table.
    """
    named = arn.read(text, call.home)
    if named.table_id is None:
        raise Invalid("The specified ARN is not valid: it names a table bucket, and a table is needed")
    found = await call.platform.table_entries.get_by_id(call.principal, named.bucket, named.table_id)
    if found is None:
        raise NoSuchTable("The specified table does not exist.")
    return found


def _arn(call: Call, entry: TableEntry) -> str:
    return call.home.table(entry.bucket, entry.resource_id)


def _token(entry: TableEntry) -> str:
    return token_of(entry)


def _summary(call: Call, entry: TableEntry, bucket_id: str) -> JsonObject:
    return {
        "namespace": [*entry.ident.namespace.levels],
        "name": entry.ident.name,
        "type": "customer",
        "tableARN": _arn(call, entry),
        "createdAt": timestamp(entry.created_at_ms),
        "modifiedAt": timestamp(entry.updated_at_ms),
        "tableBucketId": bucket_id,
    }


_BUCKET_TABLES = "/tables/{tableBucketARN}"
_NAMESPACE_TABLES = _BUCKET_TABLES + "/{namespace}"
_ONE = _NAMESPACE_TABLES + "/{name}"
_POINTER_PATH = _ONE + "/metadata-location"
_CONFLICTS = ("BadRequestException", "NotFoundException", "ConflictException")

OPERATIONS = (
    Operation(
        name="CreateTable",
        method="PUT",
        path=_NAMESPACE_TABLES,
        handler=create_table,
        summary="Create a table",
        doc="Without `metadata` the table is blank: it has a name and a place, and its metadata comes by "
        "UpdateTableMetadataLocation.",
        body=Struct(
            members={
                "name": NAME,
                "format": _FORMAT,
                "metadata": METADATA,
                "encryptionConfiguration": ENCRYPTION,
                "storageClassConfiguration": STORAGE_CLASS,
                "tags": TAGS,
            },
            required=("name", "format"),
        ),
        answer=_CREATED,
        errors=_CONFLICTS,
    ),
    Operation(
        name="ListTables",
        method="GET",
        path=_BUCKET_TABLES,
        handler=list_tables,
        summary="Tables of a bucket, or of one namespace of it",
        doc="Tables whose names or namespaces this API can not write are not listed.",
        query=Struct(
            members={
                "namespace": NAME,
                "prefix": Text(least=1, most=255, doc="How the tables' names begin."),
                "continuationToken": TOKEN,
                "maxTables": PAGE_SIZE,
            }
        ),
        answer=_PAGE,
    ),
    Operation(
        name="GetTable",
        method="GET",
        path="/get-table",
        handler=get_table,
        summary="One table, by its names or by its ARN",
        query=Struct(
            members={"tableBucketARN": BUCKET_ARN, "namespace": NAME, "name": NAME, "tableArn": TABLE_ARN}
        ),
        answer=_TABLE,
    ),
    Operation(
        name="DeleteTable",
        method="DELETE",
        path=_ONE,
        handler=delete_table,
        summary="Delete a table with its files",
        doc="A job deletes the files. What lies in the place of a blank table stays.",
        status=204,
        query=Struct(members={"versionToken": _VERSION_TOKEN}),
        errors=(*_CONFLICTS, "ForbiddenException"),
    ),
    Operation(
        name="RenameTable",
        method="PUT",
        path=_ONE + "/rename",
        handler=rename_table,
        summary="Give a table another name, maybe in another namespace",
        status=204,
        body=Struct(members={"newNamespaceName": NAME, "newName": NAME, "versionToken": _VERSION_TOKEN}),
        errors=_CONFLICTS,
    ),
    Operation(
        name="GetTableMetadataLocation",
        method="GET",
        path=_POINTER_PATH,
        handler=get_table_metadata_location,
        summary="Where a table's metadata is",
        answer=_POINTER,
    ),
    Operation(
        name="UpdateTableMetadataLocation",
        method="PUT",
        path=_POINTER_PATH,
        handler=update_table_metadata_location,
        summary="Point a table at new metadata",
        doc="Compare-and-swap on the pointer that commits of the Iceberg API move as well. The new file must follow "
        "from the current one. When the table points to the file already, the answer is 200 whatever the token.",
        body=Struct(
            members={"versionToken": _VERSION_TOKEN, "metadataLocation": _METADATA_LOCATION},
            required=("versionToken", "metadataLocation"),
        ),
        answer=_MOVED,
        errors=_CONFLICTS,
    ),
)
