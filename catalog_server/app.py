"""The root ASGI app: three APIs, the probes and the start page, in one order of middleware.

The platform under it is started and closed by whoever runs the app, so that a start that fails is told in one line.
"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from catalog_server.api import health
from catalog_server.api.iceberg.errors import envelope
from catalog_server.api.iceberg.router import build_router
from catalog_server.api.management.problems import internal_problem, problem
from catalog_server.api.management.router import build_api
from catalog_server.api.middleware import RequestContext
from catalog_server.api.rawpath import take_raw_path
from catalog_server.api.s3tables import router as s3tables
from catalog_server.api.s3tables.errors import REQUEST_ID, unknown_operation
from catalog_server.bootstrap import Platform
from table_format.errors import Kind

_ICEBERG = "/iceberg"


class _Doors:
    """Hands each request on by its raw path: to the API that is asked most straight, to all others by their routes."""

    def __init__(self, iceberg: ASGIApp, others: ASGIApp) -> None:
        self._iceberg = iceberg
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand one connection event on."""
        app = self._others
        if scope["type"] == "http":
            take_raw_path(scope)
            if scope["path"].startswith(_ICEBERG + "/"):
                app = self._iceberg
        await app(scope, receive, send)


def create_app(platform: Platform) -> ASGIApp:
    """The server over one platform."""
    others = Starlette(
        routes=[
            Mount("/s3tables", app=s3tables.build_router(platform)),
            Mount("/api", app=build_api(platform)),
            *health.routes(platform),
        ],
        exception_handlers={404: _not_found, 405: _wrong_method, 500: _crashed},
    )
    others.router.redirect_slashes = False
    doors = _Doors(build_router(platform, _ICEBERG), others)
    return RequestContext(doors, clock=platform.clock, ids=platform.ids)


async def _not_found(request: Request, _: Exception) -> Response:
    path = request.scope["path"]
    if path.startswith(_ICEBERG):
        return envelope(404, "NotFoundException", f"No such endpoint: {request.method} {path}")
    if path == "/s3tables" or path.startswith("/s3tables/"):
        request_id = request.scope.get("state", {}).get("request_id", "-")
        return unknown_operation(request.method, path, {REQUEST_ID: request_id})
    return problem(404, Kind.NOT_FOUND, f"{request.method} {path}: nothing is here; see / for what is")


async def _crashed(request: Request, _: Exception) -> Response:
    # Only the probes and the start page get here: the APIs answer for themselves. The exception is logged below.
    return internal_problem(request.scope.get("state", {}).get("request_id", "-"))


async def _wrong_method(request: Request, error: Exception) -> Response:
    headers = getattr(error, "headers", None)
    detail = f"{request.method} {request.scope['path']}: method not allowed"
    return problem(405, Kind.INVALID, detail, headers)
