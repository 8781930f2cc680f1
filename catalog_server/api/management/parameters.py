"""What every route takes: the platform, the principal, names out of the raw path, a page, a version to match."""

from typing import Annotated, Any, ClassVar

from fastapi import Depends, Header, Path, Query, Request

from catalog_server.api.auth import principal_of
from catalog_server.api.rawpath import decode, split_namespace
from catalog_server.bootstrap import Platform
from catalog_server.services.paging import PageRequest
from catalog_server.services.principals import Principal
from table_format.errors import Invalid
from table_format.ident import Namespace

PAGE_LIMIT = 1000
_DIGITS = 18  # a version of more would not fit the database


def _platform(request: Request) -> Platform:
    platform: Platform = request.app.state.platform
    return platform


def _bucket(bucket: Annotated[str, Path(description="Name of the table bucket.")]) -> str:
    return decode(bucket, plus_is_space=False)


def _namespace(
    namespace: Annotated[str, Path(description="Namespace levels, joined by %1F.")],
) -> Namespace:
    return split_namespace(decode(namespace, plus_is_space=False))


def _table(table: Annotated[str, Path(description="Name of the table.")]) -> str:
    return decode(table, plus_is_space=False)


def _page(
    page_token: Annotated[
        str | None, Query(alias="pageToken", description="nextPageToken of the page before.")
    ] = None,
    page_size: Annotated[int | None, Query(alias="pageSize", ge=1, le=PAGE_LIMIT)] = None,
) -> PageRequest:
    return PageRequest(token=page_token or "", size=page_size)


def _if_version(
    if_match: Annotated[
        str | None, Header(alias="If-Match", description="ETag of the version that is meant.")
    ] = None,
) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    version = if_match.strip().removeprefix("W/").strip('"')
    if not (version.isascii() and version.isdigit() and len(version) <= _DIGITS):
        raise Invalid(f'If-Match must be an ETag of this API such as "3", not {if_match!r}')
    return int(version)


def _optional_namespace(
    namespace: Annotated[str | None, Query(description="Namespace levels, joined by %1F.")] = None,
) -> Namespace | None:
    return split_namespace(namespace) if namespace else None


OnPlatform = Annotated[Platform, Depends(_platform)]
By = Annotated[Principal, Depends(principal_of)]
BucketName = Annotated[str, Depends(_bucket)]
InNamespace = Annotated[Namespace, Depends(_namespace)]
TableName = Annotated[str, Depends(_table)]
OnePage = Annotated[PageRequest, Depends(_page)]
IfVersion = Annotated[int | None, Depends(_if_version)]
MaybeNamespace = Annotated[Namespace | None, Depends(_optional_namespace)]


class Tagged:
    """`responses=` of a route whose answer has an ETag."""

    _HEADERS: ClassVar = {
        "ETag": {"description": "What If-Match of a change compares with.", "schema": {"type": "string"}}
    }
    OF_OK: ClassVar[dict[int | str, dict[str, Any]]] = {200: {"headers": _HEADERS}}
    OF_CREATED: ClassVar[dict[int | str, dict[str, Any]]] = {201: {"headers": _HEADERS}}
