"""The table of operations, and the door around them: names decoded, bodies read, errors put into the envelope.

The advertised `endpoints` are derived from the same table that routes, so the list cannot promise what is not there.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from itertools import groupby

import orjson
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from catalog_server.api.auth import principal_of
from catalog_server.api.bodies import read_json_object
from catalog_server.api.iceberg import (
    config,
    functions,
    idempotency,
    namespaces,
    plans,
    reports,
    tables,
    transactions,
    views,
)
from catalog_server.api.iceberg.call import Call
from catalog_server.api.iceberg.errors import answer_to, envelope, internal_error
from catalog_server.api.iceberg.idempotency import Note
from catalog_server.api.iceberg.oauth import get_token
from catalog_server.api.iceberg.openapi.document import document
from catalog_server.api.iceberg.wire import Query
from catalog_server.api.paths import Paths
from catalog_server.api.rawpath import RawNames
from catalog_server.bootstrap import Platform
from table_format.errors import NotFound, TableFormatError, log_fields
from table_format.jsontypes import JsonObject

_log = structlog.get_logger(__name__)

Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One verb on one path template."""

    method: str
    path: str
    handler: Handler
    note: Note | None = None
    """What is kept of its success for an Idempotency-Key; None where a key means nothing."""
    advertised: bool = True
    body: bool = True
    """Whether a POST has one."""

    @property
    def endpoint(self) -> str:
        """The operation as `GET /v1/config` lists it."""
        return f"{self.method} {self.path}"


async def _config(call: Call) -> Response:
    return await config.get_config(call, ENDPOINTS)


_BUCKET = "/v1/{prefix}"
_NAMESPACE = _BUCKET + "/namespaces/{namespace}"
_TABLE = _NAMESPACE + "/tables/{table}"
_PLAN = _TABLE + "/plan/{plan-id}"
_VIEW = _NAMESPACE + "/views/{view}"

# Hot paths first: routes are tried in this order.
OPERATIONS = (
    Operation("GET", _TABLE, tables.load_table),
    Operation("HEAD", _TABLE, tables.table_exists),
    Operation("POST", _TABLE, tables.commit_table, idempotency.table),
    Operation("DELETE", _TABLE, tables.drop_table, idempotency.no_content),
    Operation("GET", _VIEW, views.load_view),
    Operation("HEAD", _VIEW, views.view_exists),
    Operation("POST", _VIEW, views.replace_view, idempotency.view),
    Operation("DELETE", _VIEW, views.drop_view, idempotency.no_content),
    Operation("GET", "/v1/config", _config, advertised=False),
    Operation(
        "POST",
        _BUCKET + "/transactions/commit",
        transactions.commit_transaction,
        idempotency.no_content,
    ),
    Operation("POST", _TABLE + "/plan", plans.plan_table_scan),
    Operation("POST", _TABLE + "/tasks", plans.fetch_scan_tasks),
    Operation("GET", _PLAN, plans.fetch_planning_result),
    Operation("DELETE", _PLAN, plans.cancel_planning),
    Operation("POST", _TABLE + "/metrics", reports.report_metrics),
    Operation("GET", _TABLE + "/credentials", tables.load_credentials),
    Operation("GET", _NAMESPACE, namespaces.load_namespace),
    Operation("HEAD", _NAMESPACE, namespaces.namespace_exists),
    Operation("DELETE", _NAMESPACE, namespaces.drop_namespace, idempotency.no_content),
    Operation("GET", _NAMESPACE + "/tables", tables.list_tables),
    Operation("POST", _NAMESPACE + "/tables", tables.create_table, idempotency.table),
    Operation("GET", _BUCKET + "/namespaces", namespaces.list_namespaces),
    Operation("POST", _BUCKET + "/namespaces", namespaces.create_namespace, idempotency.namespace),
    Operation("POST", _NAMESPACE + "/properties", namespaces.update_properties, idempotency.properties),
    Operation("POST", _NAMESPACE + "/register", tables.register_table, idempotency.table),
    Operation("POST", _BUCKET + "/tables/rename", tables.rename_table, idempotency.no_content),
    Operation("POST", _TABLE + "/unregister", tables.unregister_table, idempotency.unregistered, body=False),
    Operation("POST", _TABLE + "/sign", tables.sign_request, advertised=False),
    Operation("GET", _NAMESPACE + "/views", views.list_views),
    Operation("POST", _NAMESPACE + "/views", views.create_view, idempotency.view),
    Operation("POST", _NAMESPACE + "/register-view", views.register_view, idempotency.view),
    Operation("POST", _BUCKET + "/views/rename", views.rename_view, idempotency.no_content),
    Operation("GET", _NAMESPACE + "/functions", functions.list_functions, advertised=False),
    Operation("GET", _NAMESPACE + "/functions/{function}", functions.load_function, advertised=False),
)
ENDPOINTS = tuple(operation.endpoint for operation in OPERATIONS if operation.advertised)
_TOKENS = "/v1/oauth/tokens"


def describe() -> JsonObject:
    """The OpenAPI document of all operations."""
    return document((*(operation.endpoint for operation in OPERATIONS), f"POST {_TOKENS}"))


def build_router(platform: Platform, at: str) -> ASGIApp:
    """The Iceberg API over one platform, to be asked with raw paths that begin with `at`."""
    apps: list[tuple[str, ASGIApp]] = [
        (path, _Resource(platform, {operation.method: operation for operation in operations}))
        for path, operations in groupby(OPERATIONS, key=lambda operation: operation.path)
    ]
    apps += [(_TOKENS, _Tokens(platform)), ("/openapi.json", _Document())]
    return _Router(Paths((at + path, app) for path, app in apps))


class _Router:
    """Hands each request to the app of its path."""

    def __init__(self, paths: Paths[ASGIApp]) -> None:
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._paths.find(scope["path"])
        if found is None:
            await _no_route(scope, receive, send)
            return
        app, scope["path_params"] = found
        await app(scope, receive, send)


class _Resource:
    """All operations of one path, as an ASGI app."""

    def __init__(self, platform: Platform, operations: dict[str, Operation]) -> None:
        self._platform = platform
        self._operations = operations
        self._limits = platform.settings.limits
        self._separator = platform.settings.iceberg.separator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        operation = self._operations.get(request.method)
        if operation is None:
            response = _wrong_method(request.method, self._operations)
        else:
            response = await _guarded(request, self._answer(request, operation))
        if request.method == "HEAD":
            response = _without_body(response)
        await response(scope, receive, send)

    async def _answer(self, request: Request, operation: Operation) -> Response:
        limits, separator = self._limits, self._separator
        has_body = request.method == "POST" and operation.body
        call = Call(
            request=request,
            platform=self._platform,
            principal=principal_of(request),
            names=RawNames(request.path_params, separator=separator),
            query=Query.parse(request.scope["query_string"], separator),
            body=await read_json_object(request, limits.max_body_bytes, limits.max_body_values)
            if has_body
            else {},
        )
        if operation.note is None:
            return await _carried_out(call, operation.handler)
        return await idempotency.once(call, operation.note, lambda: _carried_out(call, operation.handler))


async def _carried_out(call: Call, handler: Handler) -> Response:
    try:
        return await handler(call)
    except NotFound:
        if not call.names.ambiguous:
            raise
        # Not found with the plus read as a space: the client may mean a plus. The error speaks of the first.
        try:
            return await handler(replace(call, names=call.names.literal()))
        except NotFound:
            pass
        raise


class _Tokens:
    """The token endpoint, whose bodies are forms and whose errors are OAuth's."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method == "POST":
            response = await _guarded(request, get_token(request, self._platform))
        else:
            response = _wrong_method(request.method, ["POST"])
        await response(scope, receive, send)


class _Document:
    """The OpenAPI document, as an ASGI app."""

    def __init__(self) -> None:
        self._answer = Response(orjson.dumps(describe()), media_type="application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = scope["method"] == "GET"
        await (self._answer if known else _wrong_method(scope["method"], ["GET"]))(scope, receive, send)


async def _guarded(request: Request, answer: Awaitable[Response]) -> Response:
    """The answer, or the envelope of whatever went wrong."""
    try:
        return await answer
    except TableFormatError as error:
        response = answer_to(error)
        if response.status_code >= 500:
            # What is refused under load must stay cheap: a traceback costs more than the request.
            _log.warning("request_failed", kind=error.kind, **log_fields(error))
        return response
    except ClientDisconnect:
        return envelope(400, "BadRequestException", "The client went away before its request was read")
    except Exception:  # noqa: BLE001 - the door: whatever happens inside, the client gets an envelope
        _log.exception("request_crashed", method=request.method, path=request.scope["path"])
        return internal_error(request.scope.get("state", {}).get("request_id", "-"))


def _without_body(response: Response) -> Response:
    kept = {
        name: value
        for name, value in response.headers.items()
        if name not in {"content-length", "content-type"}
    }
    return Response(status_code=response.status_code, headers=kept)


def _wrong_method(method: str, allowed: Iterable[str]) -> Response:
    listed = ", ".join(sorted(allowed))
    message = f"Method {method} is not allowed here; allowed: {listed}"
    return envelope(405, "MethodNotAllowedException", message, {"Allow": listed})


async def _no_route(scope: Scope, receive: Receive, send: Send) -> None:
    message = f"No such endpoint: {scope['method']} {scope['path']}; GET /v1/config lists those that exist"
    await envelope(404, "NotFoundException", message)(scope, receive, send)
