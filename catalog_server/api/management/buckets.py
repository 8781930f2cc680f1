"""Table buckets and the namespaces in them."""

from typing import Annotated

from fastapi import APIRouter, Query

from catalog_server.api.management import wire
from catalog_server.api.management.parameters import BucketName, By, OnePage, OnPlatform
from catalog_server.api.rawpath import split_namespace
from catalog_server.store.buckets import BucketRow
from table_format.ident import Namespace

router = APIRouter(tags=["buckets"])


@router.get("/v1/buckets")
async def list_buckets(platform: OnPlatform, principal: By, page: OnePage) -> wire.Buckets:
    """All table buckets."""
    found = await platform.buckets.list(principal, page)
    return wire.Buckets(buckets=[_bucket(row) for row in found.items], next_page_token=found.next_token)


@router.get("/v1/buckets/{bucket}")
async def get_bucket(platform: OnPlatform, principal: By, bucket: BucketName) -> wire.Bucket:
    """One table bucket."""
    return _bucket(await platform.buckets.get(principal, bucket))


@router.get("/v1/buckets/{bucket}/namespaces")
async def list_namespaces(
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    page: OnePage,
    parent: Annotated[
        str | None, Query(description="Levels joined by %1F; the top level when omitted.")
    ] = None,
) -> wire.Namespaces:
    """The namespaces directly below a parent."""
    above = split_namespace(parent) if parent else Namespace(())
    found = await platform.namespaces.list(principal, bucket, above, page)
    return wire.Namespaces(
        namespaces=[list(namespace.levels) for namespace in found.items], next_page_token=found.next_token
    )


def _bucket(row: BucketRow) -> wire.Bucket:
    return wire.Bucket(
        name=row.name,
        location=row.location,
        properties=dict(row.properties),
        created_at_ms=row.created_at_ms,
    )
