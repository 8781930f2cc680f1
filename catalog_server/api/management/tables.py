"""Tables: identity, and the figures that tell whether maintenance keeps up."""

import anyio.to_thread
from fastapi import APIRouter

from catalog_server.api.management import wire
from catalog_server.api.management.figures import figures
from catalog_server.api.management.parameters import (
    BucketName,
    By,
    InNamespace,
    MaybeNamespace,
    OnePage,
    OnPlatform,
    TableName,
)
from catalog_server.store.tables import TableRow
from table_format.errors import NoSuchTable
from table_format.ident import TableIdent

router = APIRouter(tags=["tables"])


@router.get("/v1/buckets/{bucket}/tables")
async def list_tables(
    platform: OnPlatform, principal: By, bucket: BucketName, namespace: MaybeNamespace, page: OnePage
) -> wire.Tables:
    """The tables of one namespace, or of the whole bucket."""
    if namespace is None:
        found = await platform.tables.list_all(principal, bucket, page)
    else:
        found = await platform.tables.list(principal, bucket, namespace, page)
    return wire.Tables(tables=[_table(row) for row in found.items], next_page_token=found.next_token)


@router.get("/v1/buckets/{bucket}/namespaces/{namespace}/tables/{table}")
async def get_table(
    platform: OnPlatform, principal: By, bucket: BucketName, namespace: InNamespace, table: TableName
) -> wire.TableDetails:
    """One table with its figures, which are read from the manifests of its current snapshot."""
    ident = TableIdent(namespace, table)
    handle = await platform.tables.load(principal, bucket, ident)
    if handle.row is None:
        raise NoSuchTable(f"Table does not exist: {ident}")
    store = platform.stores.store_for(handle.metadata.location)
    return wire.TableDetails(
        table=_table(handle.row),
        format_version=handle.metadata.format_version,
        properties=dict(handle.metadata.properties),
        figures=await anyio.to_thread.run_sync(figures, store, handle.metadata, len(handle.raw)),
    )


def _table(row: TableRow) -> wire.Table:
    return wire.Table(
        bucket=row.bucket,
        namespace=list(row.ident.namespace.levels),
        name=row.ident.name,
        uuid=row.table_uuid,
        location=row.location,
        metadata_location=row.metadata_location,
        version=row.version,
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
    )
