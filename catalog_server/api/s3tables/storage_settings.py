"""Encryption, storage class and metrics configuration: kept and given back, as they are the object store's business.

A table has what it was created with, or else what its bucket has.
"""

from catalog_server.api.s3tables.call import Call
from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.shapes import BUCKET_ARN, ENCRYPTION, STORAGE_CLASS
from catalog_server.api.s3tables.wire import Struct, Text
from catalog_server.services import kept_settings as kept
from catalog_server.services.resource_settings import of_bucket
from table_format.errors import NotFound
from table_format.jsontypes import JsonObject

_ENCRYPTION = Struct(members={kept.ENCRYPTION: ENCRYPTION}, required=(kept.ENCRYPTION,))
_STORAGE_CLASS = Struct(members={kept.STORAGE_CLASS: STORAGE_CLASS}, required=(kept.STORAGE_CLASS,))
_METRICS = Struct(members={"tableBucketARN": BUCKET_ARN, "id": Text()}, required=("tableBucketARN",))


def given(body: JsonObject) -> dict[str, JsonObject]:
    """The settings that a request to create a bucket or table has, by the names they are kept under.

    Raises:
        Invalid: the algorithm and the key do not go together.
    """
    found: dict[str, JsonObject] = {
        name: body[name] for name in (kept.ENCRYPTION, kept.STORAGE_CLASS) if name in body
    }
    if kept.ENCRYPTION in found:
        kept.check_encryption(found[kept.ENCRYPTION])
    return found


async def get_encryption(call: Call) -> JsonObject:
    """The encryption of a bucket, or of a table by itself or by its bucket."""
    found = await _nearest(call, kept.ENCRYPTION)
    if found is None:
        raise NotFound(f"The specified {call.what} does not have an encryption configuration.")
    return {kept.ENCRYPTION: found}


async def put_encryption(call: Call) -> None:
    """Set the encryption of a bucket."""
    document = call.body[kept.ENCRYPTION]
    kept.check_encryption(document)
    await call.platform.resource_settings.put(call.principal, call.located, kept.ENCRYPTION, document)


async def delete_encryption(call: Call) -> None:
    """Take the encryption of a bucket away, if there is one."""
    await call.platform.resource_settings.remove(call.principal, call.located, kept.ENCRYPTION)


async def get_storage_class(call: Call) -> JsonObject:
    """The storage class of a bucket, or of a table by itself or by its bucket."""
    found = await _nearest(call, kept.STORAGE_CLASS)
    return {kept.STORAGE_CLASS: found or {"storageClass": kept.DEFAULT_STORAGE_CLASS}}


async def put_storage_class(call: Call) -> None:
    """Set the storage class of a bucket."""
    document = call.body[kept.STORAGE_CLASS]
    await call.platform.resource_settings.put(call.principal, call.located, kept.STORAGE_CLASS, document)


async def get_metrics(call: Call) -> JsonObject:
    """The metrics configuration of a bucket."""
    [found] = await call.platform.resource_settings.get(call.principal, call.located, kept.METRICS)
    if found is None:
        raise NotFound("The specified bucket does not have a metrics configuration.")
    return {"tableBucketARN": call.home.bucket(call.bucket), "id": found["id"]}


async def put_metrics(call: Call) -> None:
    """Switch the metrics configuration of a bucket on."""
    document: JsonObject = {"id": kept.METRICS_ID}
    await call.platform.resource_settings.put(call.principal, call.located, kept.METRICS, document)


async def delete_metrics(call: Call) -> None:
    """Switch it off, if it is on."""
    await call.platform.resource_settings.remove(call.principal, call.located, kept.METRICS)


async def _nearest(call: Call, name: str) -> JsonObject | None:
    settings = call.platform.resource_settings
    [found] = await settings.get(call.principal, call.located, name)
    if found is None and call.is_table:
        [found] = await settings.get(call.principal, of_bucket(call.bucket), name)
    return found


_BUCKET = "/buckets/{tableBucketARN}"
_TABLE = "/tables/{tableBucketARN}/{namespace}/{name}"

OPERATIONS = (
    Operation(
        name="GetTableBucketEncryption",
        method="GET",
        path=_BUCKET + "/encryption",
        handler=get_encryption,
        summary="The encryption that was asked for a table bucket",
        answer=_ENCRYPTION,
    ),
    Operation(
        name="PutTableBucketEncryption",
        method="PUT",
        path=_BUCKET + "/encryption",
        handler=put_encryption,
        summary="Ask for an encryption of a table bucket",
        doc="Kept and given back. Objects are encrypted as the object store is set up to.",
        body=_ENCRYPTION,
    ),
    Operation(
        name="DeleteTableBucketEncryption",
        method="DELETE",
        path=_BUCKET + "/encryption",
        handler=delete_encryption,
        summary="Ask for no encryption of a table bucket any more",
        status=204,
    ),
    Operation(
        name="GetTableEncryption",
        method="GET",
        path=_TABLE + "/encryption",
        handler=get_encryption,
        summary="The encryption that was asked for a table, or else for its bucket",
        answer=_ENCRYPTION,
    ),
    Operation(
        name="GetTableBucketStorageClass",
        method="GET",
        path=_BUCKET + "/storage-class",
        handler=get_storage_class,
        summary="The storage class that was asked for a table bucket",
        answer=_STORAGE_CLASS,
    ),
    Operation(
        name="PutTableBucketStorageClass",
        method="PUT",
        path=_BUCKET + "/storage-class",
        handler=put_storage_class,
        summary="Ask for a storage class of a table bucket",
        doc="Kept and given back. Objects are written in the object store's default class.",
        body=_STORAGE_CLASS,
    ),
    Operation(
        name="GetTableStorageClass",
        method="GET",
        path=_TABLE + "/storage-class",
        handler=get_storage_class,
        summary="The storage class that was asked for a table, or else for its bucket",
        answer=_STORAGE_CLASS,
    ),
    Operation(
        name="GetTableBucketMetricsConfiguration",
        method="GET",
        path=_BUCKET + "/metrics",
        handler=get_metrics,
        summary="Whether metrics of a table bucket were asked for",
        answer=_METRICS,
    ),
    Operation(
        name="PutTableBucketMetricsConfiguration",
        method="PUT",
        path=_BUCKET + "/metrics",
        handler=put_metrics,
        summary="Ask for metrics of a table bucket",
        doc="Kept and given back. The server's metrics are at `/metrics`, whether asked for or not.",
        status=204,
    ),
    Operation(
        name="DeleteTableBucketMetricsConfiguration",
        method="DELETE",
        path=_BUCKET + "/metrics",
        handler=delete_metrics,
        summary="Ask for no metrics of a table bucket any more",
        status=204,
    ),
)
