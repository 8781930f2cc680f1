"""The management API as one FastAPI app, to be mounted at `/api` on raw paths."""

from collections.abc import Iterator

import structlog
from fastapi import Depends, FastAPI, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from catalog_server.api.bodies import declared_length
from catalog_server.api.management import (
    buckets,
    dropped,
    ingest_topics,
    jobs,
    namespaces,
    noncurrent,
    policies,
    reports,
    resource_settings,
    table_ingest,
    tables,
)
from catalog_server.api.management.openapi import complete
from catalog_server.api.management.problems import install, internal_problem, problem
from catalog_server.bootstrap import Platform
from table_format.errors import Invalid, Kind, TooLarge
from table_format.jsontypes import JsonObject

_log = structlog.get_logger(__name__)

# Policies and jobs are small; JSON takes up to a hundred times its length once it is parsed.
MAX_BODY_BYTES = 1 << 20


def build_api(platform: Platform) -> FastAPI:
    """The app with its routes and its own OpenAPI document at `/openapi.json`."""
    app = describe_api()
    app.state.platform = platform
    app.add_middleware(_Guard, limit=min(MAX_BODY_BYTES, platform.settings.limits.max_body_bytes))
    return app


def describe_api() -> FastAPI:
    """The app without a platform: enough for its OpenAPI document."""
    app = _Api(
        title="Frazil management API",
        version="1",
        description="Table buckets, maintenance policies and jobs, topics for ingest. Errors are RFC 9457 problems.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
        dependencies=[Depends(_only_known_parameters)],
    )
    for router in (
        buckets.router,
        namespaces.router,
        tables.router,
        resource_settings.router,
        dropped.router,
        reports.router,
        policies.router,
        jobs.router,
        noncurrent.router,
        ingest_topics.router,
        table_ingest.router,
    ):
        app.include_router(router)
    install(app)
    return app


class _Api(FastAPI):
    """The app, whose document says of errors what is really answered."""

    def openapi(self) -> JsonObject:
        """The OpenAPI document. Not to be changed."""
        if self.openapi_schema is None:
            complete(super().openapi())
        document: JsonObject = super().openapi()
        return document


async def _only_known_parameters(request: Request) -> None:
    """A parameter that is passed over in silence may have been meant to keep something from being done."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = set(_parameters(route.dependant))
    unknown = next((name for name in request.query_params if name not in known), None)
    if unknown is not None:
        has = f"it has {', '.join(sorted(known))}" if known else "it has none"
        raise Invalid(f"unknown parameter {unknown[:80]!r} of this operation: {has}")


def _parameters(of: Dependant) -> Iterator[str]:
    """Names of the query parameters of an operation and of what it depends on."""
    yield from (one.alias for one in of.query_params)
    for inner in of.dependencies:
        yield from _parameters(inner)


def _operation_id(route: APIRoute) -> str:
    return route.name


class _Guard:
    """ASGI middleware: bounds bodies, and turns what nobody expected into a problem document."""

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        self.app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = too_large = False
        received = 0

        async def bounded_receive() -> Message:
            nonlocal received, too_large
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._limit:
                too_large = True
                raise TooLarge(detail)
            return message

        async def watched_send(message: Message) -> None:
            nonlocal started
            if too_large:
                return  # what the framework makes of the broken-off body; it is told below what was wrong
            started = True
            await send(message)

        detail = f"Request body too large: the limit is {self._limit} bytes"
        if self._declared_length(scope) > self._limit:
            await problem(413, Kind.INVALID, detail)(scope, receive, send)
            return
        try:
            await self.app(scope, bounded_receive, watched_send)
            if too_large:
                await problem(413, Kind.INVALID, detail)(scope, receive, send)
        except Exception:
            _log.exception("request_crashed", method=scope["method"], path=scope["path"])
            if started:
                raise
            request_id = scope.get("state", {}).get("request_id", "-")
            await internal_problem(request_id)(scope, receive, send)

    @staticmethod
    def _declared_length(scope: Scope) -> int:
        for name, value in scope["headers"]:
            if name == b"content-length":
                return declared_length(value.decode("latin-1"))
        return 0
