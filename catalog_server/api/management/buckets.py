"""Table buckets: make, list, describe, change, delete.

What a PUT replaces has an ETag, and `If-Match` keeps it from replacing what somebody else has changed meanwhile.
"""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Response

from catalog_server.api.management import wire_buckets as wire
from catalog_server.api.management.parameters import BucketName, By, IfVersion, OnePage, OnPlatform, Tagged
from catalog_server.bootstrap import Platform
from catalog_server.store.buckets import BucketRow, BucketSettings
from catalog_server.store.figures import Figures

router = APIRouter(tags=["buckets"])

_BUCKET = "/v1/buckets/{bucket}"


@router.get("/v1/buckets")
async def list_buckets(
    platform: OnPlatform,
    principal: By,
    page: OnePage,
    prefix: Annotated[str, Query(description="Only buckets whose name begins so.")] = "",
    figures: Annotated[
        bool, Query(description="Tell each bucket's figures too, as they were measured last.")
    ] = False,
) -> wire.Buckets:
    """All table buckets."""
    found = await platform.buckets.list(principal, page, prefix=prefix)
    ids = [row.id for row in found.items]
    sums = await platform.figures.of_buckets(principal, ids) if figures else {}
    return wire.Buckets(
        buckets=[_bucket(platform, row, sums.get(row.id)) for row in found.items],
        next_page_token=found.next_token,
    )


@router.post("/v1/buckets", status_code=201, responses=Tagged.OF_CREATED)
async def create_bucket(
    platform: OnPlatform, principal: By, wanted: wire.NewBucket, response: Response
) -> wire.Bucket:
    """Make a table bucket: at the location given, once it is known to work, or else at a place of its own."""
    buckets, options = platform.buckets, _settings(wanted)
    if wanted.location is None:
        row = await buckets.create(principal, wanted.name, options=options, tags=wanted.tags)
    else:
        row = await buckets.register(principal, wanted.name, wanted.location, options, wanted.tags)
    return await _described(platform, principal, row, response)


@router.get(_BUCKET, responses=Tagged.OF_OK)
async def get_bucket(
    platform: OnPlatform, principal: By, bucket: BucketName, response: Response
) -> wire.Bucket:
    """One table bucket with its figures, brought up to date as far as one request can."""
    return await _described(platform, principal, await platform.buckets.get(principal, bucket), response)


@router.put(_BUCKET, responses=Tagged.OF_OK)
async def put_bucket(
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    wanted: wire.BucketSettings,
    if_version: IfVersion,
    response: Response,
) -> wire.Bucket:
    """Replace all that can be changed of a bucket: properties, storage, credentials, protection."""
    row = await platform.buckets.update(principal, bucket, _settings(wanted), if_version=if_version)
    return await _described(platform, principal, row, response)


@router.delete(_BUCKET, status_code=204)
async def delete_bucket(
    platform: OnPlatform, principal: By, bucket: BucketName, if_version: IfVersion
) -> None:
    """Delete an empty bucket that is not protected. No file is touched."""
    await platform.buckets.delete(principal, bucket, if_version=if_version)


def figures_on_the_wire(figures: Figures) -> wire.BucketFigures:
    """The figures of a bucket or namespace."""
    return wire.BucketFigures(**asdict(figures))


async def _described(platform: Platform, principal: By, row: BucketRow, response: Response) -> wire.Bucket:
    response.headers["ETag"] = f'"{row.version}"'
    return _bucket(platform, row, await platform.figures.of_bucket(principal, row.id))


def _bucket(platform: Platform, row: BucketRow, figures: Figures | None) -> wire.Bucket:
    return wire.Bucket(
        name=row.name,
        arn=platform.arns.bucket(row.name),
        resource_id=row.resource_id,
        location=row.location,
        properties=dict(row.properties),
        storage=dict(row.storage),
        credentials=row.credentials,
        protected=row.protected,
        version=row.version,
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
        figures=None if figures is None else figures_on_the_wire(figures),
    )


def _settings(wanted: wire.BucketSettings) -> BucketSettings:
    return BucketSettings(
        properties=dict(wanted.properties),
        storage=dict(wanted.storage),
        credentials=wanted.credentials,
        protected=wanted.protected,
    )
