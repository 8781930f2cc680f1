"""Namespaces: make, list, describe, change properties, delete."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from catalog_server.api.management import wire_buckets as wire
from catalog_server.api.management.buckets import figures_on_the_wire
from catalog_server.api.management.parameters import (
    BucketName,
    By,
    IfVersion,
    InNamespace,
    OnePage,
    OnPlatform,
    Tagged,
)
from catalog_server.api.rawpath import split_namespace
from catalog_server.bootstrap import Platform
from catalog_server.services.namespaces import NamespaceDetails
from table_format.ident import Namespace

router = APIRouter(tags=["namespaces"])

_NAMESPACES = "/v1/buckets/{bucket}/namespaces"
_NAMESPACE = _NAMESPACES + "/{namespace}"


@router.get(_NAMESPACES)
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


@router.post(_NAMESPACES, status_code=201, responses=Tagged.OF_CREATED)
async def create_namespace(
    platform: OnPlatform, principal: By, bucket: BucketName, wanted: wire.NewNamespace, response: Response
) -> wire.Namespace:
    """Make a namespace; its parent must be there."""
    namespace = Namespace(tuple(wanted.namespace))
    found = await platform.namespaces.make(principal, bucket, namespace, wanted.properties)
    return await _described(platform, principal, bucket, found, response)


@router.get(_NAMESPACE, responses=Tagged.OF_OK)
async def get_namespace(
    platform: OnPlatform, principal: By, bucket: BucketName, namespace: InNamespace, response: Response
) -> wire.Namespace:
    """One namespace with the figures of what is directly in it."""
    found = await platform.namespaces.describe(principal, bucket, namespace)
    return await _described(platform, principal, bucket, found, response)


@router.put(_NAMESPACE + "/properties", responses=Tagged.OF_OK)
async def put_namespace_properties(
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    wanted: wire.NamespaceProperties,
    if_version: IfVersion,
    response: Response,
) -> wire.Namespace:
    """Replace all properties of a namespace."""
    found = await platform.namespaces.set_properties(
        principal, bucket, namespace, wanted.properties, if_version=if_version
    )
    return await _described(platform, principal, bucket, found, response)


@router.delete(_NAMESPACE, status_code=204)
async def delete_namespace(
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    if_version: IfVersion,
) -> None:
    """Delete an empty namespace."""
    await platform.namespaces.drop(principal, bucket, namespace, if_version=if_version)


async def _described(
    platform: Platform, principal: By, bucket: str, found: NamespaceDetails, response: Response
) -> wire.Namespace:
    row = found.row
    response.headers["ETag"] = f'"{row.version}"'
    return wire.Namespace(
        bucket=bucket,
        namespace=list(row.namespace.levels),
        properties=dict(row.properties),
        location=found.location,
        version=row.version,
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
        figures=figures_on_the_wire(await platform.figures.of_namespace(principal, row.id)),
    )
