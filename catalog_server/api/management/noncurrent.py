"""Noncurrent files of a table: list them, hold one back from deletion, release it."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from catalog_server.api.management import wire_tables as wire
from catalog_server.api.management.parameters import (
    BucketName,
    By,
    IfVersion,
    InNamespace,
    OnePage,
    OnPlatform,
    TableName,
    Tagged,
)
from catalog_server.services.noncurrent import NoncurrentFile
from table_format.ident import TableIdent

router = APIRouter(tags=["noncurrent files"])

_FILES = "/v1/buckets/{bucket}/namespaces/{namespace}/tables/{table}/noncurrent-files"
_HOLD = _FILES + "/hold"

FilePath = Annotated[
    str, Query(alias="path", min_length=1, max_length=4096, description="The file, as the listing names it.")
]


@router.get(_FILES)
async def list_noncurrent_files(
    *,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    table: TableName,
    page: OnePage,
    held: Annotated[bool, Query(description="Only files that are held.")] = False,
) -> wire.NoncurrentFiles:
    """Files that no metadata refers to and that are deleted after a while, by path, and those that are held."""
    found = await platform.noncurrent.list(
        principal, bucket, TableIdent(namespace, table), page, held_only=held
    )
    return wire.NoncurrentFiles(files=[_file(one) for one in found.items], next_page_token=found.next_token)


@router.get(_HOLD, responses=Tagged.OF_OK)
async def get_noncurrent_file(
    *,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    table: TableName,
    path: FilePath,
    response: Response,
) -> wire.NoncurrentFile:
    """One noncurrent file; the ETag is of its hold ("0": it is not held)."""
    found = await platform.noncurrent.get(principal, bucket, TableIdent(namespace, table), path)
    return _tagged(found, response)


@router.put(_HOLD, responses=Tagged.OF_OK)
async def hold_noncurrent_file(  # noqa: PLR0913 - each is one part of the request
    *,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    table: TableName,
    path: FilePath,
    wanted: wire.HoldRequest,
    if_version: IfVersion,
    response: Response,
) -> wire.NoncurrentFile:
    """Hold a file back from deletion, until a moment or until it is released. Refused once its deletion has begun."""
    found = await platform.noncurrent.hold(
        principal,
        bucket,
        TableIdent(namespace, table),
        path,
        until_ms=wanted.until_ms,
        if_version=if_version,
    )
    return _tagged(found, response)


@router.delete(_HOLD, status_code=204)
async def release_noncurrent_file(
    *,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    table: TableName,
    path: FilePath,
    if_version: IfVersion,
) -> None:
    """Hold a file back no more; it is deleted once it has been noted for long enough."""
    ident = TableIdent(namespace, table)
    await platform.noncurrent.release(principal, bucket, ident, path, if_version=if_version)


def _tagged(found: NoncurrentFile, response: Response) -> wire.NoncurrentFile:
    response.headers["ETag"] = f'"{found.hold.version if found.hold else 0}"'
    return _file(found)


def _file(found: NoncurrentFile) -> wire.NoncurrentFile:
    hold = found.hold
    return wire.NoncurrentFile(
        path=found.path,
        size=found.size,
        noted_at_ms=found.noted_at_ms,
        deleted_after_ms=found.deleted_after_ms,
        deleting=found.deleting,
        hold=None
        if hold is None
        else wire.Hold(until_ms=hold.until_ms, held_at_ms=hold.held_at_ms, held_by=hold.held_by),
    )
