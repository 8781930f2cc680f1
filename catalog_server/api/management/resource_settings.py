"""What is kept for a bucket or a table: tags, and the settings of S3 Tables (see `services/kept_settings.py`).

The same operations at both; a table without an encryption or storage class of its own has its bucket's. Every GET that
a PUT can replace has an ETag; `If-Match: "0"` is for what is not there yet.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Response

from catalog_server.api.management import wire_settings as wire
from catalog_server.api.management.parameters import (
    BucketName,
    By,
    IfVersion,
    InNamespace,
    OnPlatform,
    TableName,
    Tagged,
)
from catalog_server.bootstrap import Platform
from catalog_server.services import kept_settings as kept
from catalog_server.services.resource_settings import Locate, of_bucket, of_table
from table_format.errors import NotFound
from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject

router = APIRouter(tags=["resource settings"])

_BUCKET = "/v1/buckets/{bucket}"
_TABLE = _BUCKET + "/namespaces/{namespace}/tables/{table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A bucket or table out of a path."""

    what: str
    located: Locate
    above: Locate | None = None
    """The bucket of a table."""


def _of_bucket(bucket: BucketName) -> Resource:
    return Resource(what="bucket", located=of_bucket(bucket))


def _of_table(bucket: BucketName, namespace: InNamespace, table: TableName) -> Resource:
    located = of_table(bucket, TableIdent(namespace, table))
    return Resource(what="table", located=located, above=of_bucket(bucket))


async def _own(platform: Platform, principal: By, on: Resource, name: str, response: Response) -> Any:
    """What is set there itself, whose version becomes the ETag."""
    found = await platform.resource_settings.find(principal, on.located, name)
    response.headers["ETag"] = f'"{found.version}"'
    return found.document


async def _in_force(
    platform: Platform, principal: By, on: Resource, name: str, response: Response
) -> tuple[JsonObject, str] | None:
    """What is set there, or else above, and where; the ETag is that of what is set there."""
    document = await _own(platform, principal, on, name, response)
    if document is not None:
        return document, on.what
    if on.above is None:
        return None
    found = await platform.resource_settings.find(principal, on.above, name)
    return None if found.document is None else (found.document, "bucket")


async def _put(
    at: tuple[Platform, By, Resource],
    name: str,
    document: JsonObject,
    if_version: int | None,
    response: Response,
) -> None:
    platform, principal, on = at
    after = await platform.resource_settings.put(principal, on.located, name, document, if_version=if_version)
    response.headers["ETag"] = f'"{after.version}"'


def _serve_tags(path: str, name: str, of: Callable[..., Resource]) -> None:
    async def get_tags(platform: OnPlatform, principal: By, on: Any, response: Response) -> wire.TagSet:
        resource_id = await platform.resource_settings.resource_id(principal, on.located)
        tags = await platform.tags.get(principal, resource_id)
        response.headers["ETag"] = f'"{tags.version}"'
        return wire.TagSet(tags=tags.tags)

    async def put_tags(
        platform: OnPlatform,
        principal: By,
        on: Any,
        wanted: Annotated[wire.TagSet, Body()],
        if_version: IfVersion,
        response: Response,
    ) -> wire.TagSet:
        resource_id = await platform.resource_settings.resource_id(principal, on.located)
        tags = await platform.tags.put(principal, resource_id, wanted.tags, if_version=if_version)
        response.headers["ETag"] = f'"{tags.version}"'
        return wire.TagSet(tags=tags.tags)

    path += "/tags"
    _add(path, "GET", get_tags, of, f"get_{name}_tags", f"The tags of a {name}")
    _add(path, "PUT", put_tags, of, f"put_{name}_tags", f"Replace all tags of a {name}")


def _serve_policy(path: str, name: str, of: Callable[..., Resource]) -> None:
    async def get_policy(
        platform: OnPlatform, principal: By, on: Any, response: Response
    ) -> wire.ResourcePolicy:
        found = await _own(platform, principal, on, kept.RESOURCE_POLICY, response)
        if found is None:
            raise NotFound(f"This {name} has no resource policy")
        return wire.ResourcePolicy(resource_policy=found["text"])

    async def put_policy(
        platform: OnPlatform,
        principal: By,
        on: Any,
        wanted: Annotated[wire.ResourcePolicy, Body()],
        if_version: IfVersion,
        response: Response,
    ) -> wire.ResourcePolicy:
        kept.check_policy(wanted.resource_policy)
        document = {"text": wanted.resource_policy}
        await _put((platform, principal, on), kept.RESOURCE_POLICY, document, if_version, response)
        return wanted

    path += "/resource-policy"
    _add(path, "GET", get_policy, of, f"get_{name}_resource_policy", f"The resource policy of a {name}")
    _add(path, "PUT", put_policy, of, f"put_{name}_resource_policy", f"Set the resource policy of a {name}")
    _serve_delete(path, name, of, kept.RESOURCE_POLICY, "resource policy")


def _serve_encryption(path: str, name: str, of: Callable[..., Resource]) -> None:
    async def get_encryption(
        platform: OnPlatform, principal: By, on: Any, response: Response
    ) -> wire.EncryptionInForce:
        found = await _in_force(platform, principal, on, kept.ENCRYPTION, response)
        if found is None:
            raise NotFound(f"No encryption is asked for of this {name}")
        document, source = found
        return wire.EncryptionInForce.model_validate({**document, "source": source})

    async def put_encryption(
        platform: OnPlatform,
        principal: By,
        on: Any,
        wanted: Annotated[wire.Encryption, Body()],
        if_version: IfVersion,
        response: Response,
    ) -> wire.EncryptionInForce:
        document = wanted.model_dump(by_alias=True, exclude_none=True)
        kept.check_encryption(document)
        await _put((platform, principal, on), kept.ENCRYPTION, document, if_version, response)
        return wire.EncryptionInForce.model_validate({**document, "source": name})

    path += "/encryption"
    told = f"The encryption that is asked for of a {name}"
    _add(path, "GET", get_encryption, of, f"get_{name}_encryption", told)
    _add(path, "PUT", put_encryption, of, f"put_{name}_encryption", f"Ask for an encryption of a {name}")
    _serve_delete(path, name, of, kept.ENCRYPTION, "encryption")


def _serve_storage_class(path: str, name: str, of: Callable[..., Resource]) -> None:
    async def get_storage_class(
        platform: OnPlatform, principal: By, on: Any, response: Response
    ) -> wire.StorageClassInForce:
        found = await _in_force(platform, principal, on, kept.STORAGE_CLASS, response)
        document, source = found or ({"storageClass": kept.DEFAULT_STORAGE_CLASS}, "default")
        return wire.StorageClassInForce.model_validate({**document, "source": source})

    async def put_storage_class(
        platform: OnPlatform,
        principal: By,
        on: Any,
        wanted: Annotated[wire.StorageClass, Body()],
        if_version: IfVersion,
        response: Response,
    ) -> wire.StorageClassInForce:
        document = wanted.model_dump(by_alias=True)
        await _put((platform, principal, on), kept.STORAGE_CLASS, document, if_version, response)
        return wire.StorageClassInForce.model_validate({**document, "source": name})

    path += "/storage-class"
    told, asked = f"The storage class that is asked for of a {name}", f"Ask for a storage class of a {name}"
    _add(path, "GET", get_storage_class, of, f"get_{name}_storage_class", told)
    _add(path, "PUT", put_storage_class, of, f"put_{name}_storage_class", asked)
    _serve_delete(path, name, of, kept.STORAGE_CLASS, "storage class")


def _serve_delete(path: str, name: str, of: Callable[..., Resource], setting: str, what: str) -> None:
    async def delete(platform: OnPlatform, principal: By, on: Any, if_version: IfVersion) -> None:
        settings = platform.resource_settings
        if not await settings.remove(principal, on.located, setting, if_version=if_version):
            raise NotFound(f"No {what} is set at this {name}")

    operation = f"delete_{name}_{what.replace(' ', '_')}"
    _add(path, "DELETE", delete, of, operation, f"Take the {what} of a {name} away")


def _add(
    path: str,
    method: str,
    operation: Callable[..., Any],
    of: Callable[..., Resource],
    name: str,
    summary: str,
) -> None:
    # FastAPI reads the dependency from the annotation, which differs per resource.
    operation.__annotations__["on"] = Annotated[Resource, Depends(of)]
    deletes = method == "DELETE"
    router.add_api_route(
        path,
        operation,
        methods=[method],
        name=name,
        summary=summary,
        status_code=204 if deletes else 200,
        responses=None if deletes else Tagged.OF_OK,
    )


@router.get(_BUCKET + "/metrics-configuration", responses=Tagged.OF_OK)
async def get_bucket_metrics_configuration(
    platform: OnPlatform, principal: By, bucket: BucketName, response: Response
) -> wire.MetricsConfiguration:
    """Whether metrics of a bucket were asked for."""
    found = await _own(platform, principal, _of_bucket(bucket), kept.METRICS, response)
    return wire.MetricsConfiguration(enabled=found is not None)


@router.put(_BUCKET + "/metrics-configuration", responses=Tagged.OF_OK)
async def put_bucket_metrics_configuration(
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    wanted: wire.MetricsConfiguration,
    if_version: IfVersion,
    response: Response,
) -> wire.MetricsConfiguration:
    """Ask for metrics of a bucket, or no more."""
    settings, located = platform.resource_settings, of_bucket(bucket)
    if wanted.enabled:
        document: JsonObject = {"id": kept.METRICS_ID}
        await settings.put(principal, located, kept.METRICS, document, if_version=if_version)
    else:
        await settings.remove(principal, located, kept.METRICS, if_version=if_version)
    await _own(platform, principal, _of_bucket(bucket), kept.METRICS, response)
    return wanted


for _path, _name, _of in ((_BUCKET, "bucket", _of_bucket), (_TABLE, "table", _of_table)):
    _serve_tags(_path, _name, _of)
    _serve_policy(_path, _name, _of)
    _serve_encryption(_path, _name, _of)
    _serve_storage_class(_path, _name, _of)
