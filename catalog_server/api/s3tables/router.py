"""The table of operations, and the door around them: paths matched, requests read, errors put into AWS's form.

Routing is on the raw path: segments are told apart before they are decoded, so that a slash inside an ARN separates
nothing, and a name is told from a word of the path by its place alone.
"""

from collections.abc import Awaitable, Iterable
from urllib.parse import parse_qs

import orjson
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from catalog_server.api.auth import principal_of
from catalog_server.api.bodies import read_json_object
from catalog_server.api.s3tables import (
    buckets,
    maintenance,
    namespaces,
    not_offered,
    record_expiration,
    resource_policies,
    storage_settings,
    table_maintenance,
    tables,
    tags,
)
from catalog_server.api.s3tables.arn import segments
from catalog_server.api.s3tables.call import Call
from catalog_server.api.s3tables.errors import (
    REQUEST_ID,
    answer_to,
    failure,
    internal_error,
    unknown_operation,
)
from catalog_server.api.s3tables.openapi import document
from catalog_server.api.s3tables.operation import Operation
from catalog_server.bootstrap import Platform
from table_format.errors import Invalid, TableFormatError, log_fields
from table_format.jsontypes import JsonObject

_log = structlog.get_logger(__name__)
_MOST_PARAMETERS = 200
_DOCUMENT = "/openapi.json"
"""Where the OpenAPI document is; no operation of AWS's has that path."""

OPERATIONS: tuple[Operation, ...] = (
    *buckets.OPERATIONS,
    *namespaces.OPERATIONS,
    *resource_policies.OPERATIONS,
    *storage_settings.OPERATIONS,
    *tags.OPERATIONS,
    *maintenance.OPERATIONS,
    *not_offered.OPERATIONS,
    *tables.OPERATIONS,
    *table_maintenance.OPERATIONS,
    *record_expiration.OPERATIONS,
)


def describe() -> JsonObject:
    """The OpenAPI document of all operations."""
    return document(OPERATIONS)


def build_router(platform: Platform) -> ASGIApp:
    """The S3 Tables API over one platform, to be mounted on raw paths."""
    return _Door(platform)


class Routes:
    """Finds the operation that a path and verb mean."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._by_shape: dict[tuple[str, int, str], list[Operation]] = {}
        for operation in operations:
            parts = operation.parts
            self._by_shape.setdefault((parts[0], len(parts), operation.method), []).append(operation)

    def find(self, method: str, raw: str) -> tuple[Operation, dict[str, str]] | None:
        """The operation and its path parameters, decoded.

        Raises:
            Invalid: a segment can not be decoded.
        """
        found = segments(raw.removeprefix("/").split("/"))
        for operation in self._by_shape.get((found[0], len(found), method), ()):
            pairs = list(zip(operation.parts, found, strict=True))
            if all(part == segment for part, segment in pairs if not part.startswith("{")):
                return operation, {part[1:-1]: segment for part, segment in pairs if part.startswith("{")}
        return None


ROUTES = Routes(OPERATIONS)


class _Door:
    """The API as an ASGI app."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await _guarded(request, self._answer(request))
        response.headers[REQUEST_ID] = scope.get("state", {}).get("request_id", "-")
        if request.method == "HEAD":
            response = Response(status_code=response.status_code, headers=_without_length(response))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        if (request.method, path) == ("GET", _DOCUMENT):
            return Response(orjson.dumps(describe()), media_type="application/json")
        found = ROUTES.find(request.method, path)
        if found is None:
            return unknown_operation(request.method, request.scope["path"])
        operation, parameters = found
        for name, shape in operation.path_shapes.items():
            shape.read(parameters[name], name)
        call = Call(
            platform=self._platform,
            principal=principal_of(request),
            path=parameters,
            query=operation.query.read_query(_query(request.scope["query_string"])),
            body=await self._body(request, operation),
        )
        answer = await operation.handler(call)
        if answer is None:
            return Response(status_code=operation.status)
        return Response(orjson.dumps(answer), status_code=operation.status, media_type="application/json")

    async def _body(self, request: Request, operation: Operation) -> JsonObject:
        if operation.body is None:
            return {}
        limits = self._platform.settings.limits
        return operation.body.read(
            await read_json_object(request, limits.max_body_bytes, limits.max_body_values), ""
        )


def _query(query_string: bytes) -> dict[str, list[str]]:
    """The parameters of a raw query string; an empty one is there: what it should guard must not be done unguarded.

    Raises:
        Invalid: not percent-encoded UTF-8, or too many parameters.
    """
    try:
        return parse_qs(
            query_string.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:  # UnicodeDecodeError is one
        raise Invalid(
            f"The query string must be percent-encoded UTF-8 with at most {_MOST_PARAMETERS} parameters"
        ) from None


async def _guarded(request: Request, answer: Awaitable[Response]) -> Response:
    """The answer, or AWS's form of whatever went wrong."""
    try:
        return await answer
    except TableFormatError as error:
        response = answer_to(error)
        if response.status_code >= 500:
            # What is refused under load must stay cheap: a traceback costs more than the request.
            _log.warning("request_failed", kind=error.kind, **log_fields(error))
        return response
    except ClientDisconnect:
        return failure("BadRequestException", "The client went away before its request was read")
    except Exception:  # noqa: BLE001 - the door: whatever happens inside, the client gets AWS's form
        _log.exception("request_crashed", method=request.method, path=request.scope["path"])
        return internal_error(request.scope.get("state", {}).get("request_id", "-"))


def _without_length(response: Response) -> dict[str, str]:
    dropped = {"content-length", "content-type"}
    return {name: value for name, value in response.headers.items() if name not in dropped}
