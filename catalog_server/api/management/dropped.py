"""Dropped tables: list, restore, purge, forget. Each is named by the resource id that the table had."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from catalog_server.api.management import wire_tables as wire
from catalog_server.api.management.parameters import BucketName, By, MaybeNamespace, OnePage, OnPlatform
from catalog_server.api.rawpath import decode
from catalog_server.services.drops import DropFilter, DroppedRow
from table_format.ident import Namespace, TableIdent

router = APIRouter(tags=["dropped tables"])

_DROPPED = "/v1/buckets/{bucket}/dropped-tables"
_ONE = _DROPPED + "/{dropped}"

Id = Annotated[str, Path(description="Id of the dropped table, as the listing gives it.")]


@router.get(_DROPPED)
async def list_dropped_tables(
    *,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: MaybeNamespace,
    page: OnePage,
    name: Annotated[str | None, Query(description="Only tables that had this name.")] = None,
) -> wire.DroppedTables:
    """The dropped tables of a bucket that can be restored or are being purged, the last dropped first."""
    found = await platform.drops.list(principal, bucket, DropFilter(namespace=namespace, name=name), page)
    return wire.DroppedTables(
        dropped_tables=[on_the_wire(row) for row in found.items], next_page_token=found.next_token
    )


@router.get(_ONE)
async def get_dropped_table(
    platform: OnPlatform, principal: By, bucket: BucketName, dropped: Id
) -> wire.DroppedTable:
    """One dropped table."""
    return on_the_wire(await platform.drops.get(principal, bucket, _id(dropped)))


@router.post(_ONE + "/undrop")
async def undrop_table(
    platform: OnPlatform, principal: By, bucket: BucketName, dropped: Id, wanted: wire.NewName
) -> wire.RestoredTable:
    """Restore a dropped table with its policies and tags, under the name it had or another one."""
    ident: TableIdent | None = None
    if wanted.namespace is not None or wanted.name is not None:
        before = await platform.drops.name(principal, bucket, _id(dropped))
        levels = before.namespace.levels if wanted.namespace is None else tuple(wanted.namespace)
        ident = TableIdent(Namespace(levels), before.name if wanted.name is None else wanted.name)
    handle = await platform.drops.undrop(principal, bucket, _id(dropped), ident)
    return wire.RestoredTable(
        bucket=handle.bucket,
        namespace=list(handle.ident.namespace.levels),
        name=handle.ident.name,
        metadata_location=handle.metadata_location or "",
    )


@router.post(_ONE + "/purge", status_code=202)
async def purge_dropped_table(
    platform: OnPlatform, principal: By, bucket: BucketName, dropped: Id
) -> wire.DroppedTable:
    """Have the files of a dropped table deleted by a job; one that is being purged is answered as it is."""
    return on_the_wire(await platform.drops.purge(principal, bucket, _id(dropped)))


@router.delete(_ONE, status_code=204)
async def forget_dropped_table(platform: OnPlatform, principal: By, bucket: BucketName, dropped: Id) -> None:
    """Forget a dropped table before its time is over. Its files stay."""
    await platform.drops.forget(principal, bucket, _id(dropped))


def on_the_wire(row: DroppedRow) -> wire.DroppedTable:
    """A dropped table as the API tells it."""
    return wire.DroppedTable(
        id=row.resource_id,
        bucket=row.bucket,
        namespace=list(row.ident.namespace.levels),
        name=row.ident.name,
        uuid=row.table_uuid,
        location=row.location,
        metadata_location=row.metadata_location,
        dropped_at_ms=row.dropped_at_ms,
        dropped_by=row.dropped_by,
        recoverable=not row.purge_begun,
        recoverable_until_ms=row.expires_at_ms,
        purge_job=row.purge_job_id,
        purge_state=row.purge_state,
    )


def _id(dropped: str) -> str:
    return decode(dropped, plus_is_space=False)
