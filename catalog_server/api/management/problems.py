"""Errors of the management API as RFC 9457 problem documents."""

import orjson
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from catalog_server.api.bodies import UnknownEncoding
from table_format import errors

_log = structlog.get_logger(__name__)

_STATUS: dict[errors.Kind, int] = {
    errors.Kind.NOT_FOUND: 404,
    errors.Kind.ALREADY_EXISTS: 409,
    errors.Kind.CONFLICT: 409,
    errors.Kind.REQUIREMENT_FAILED: 409,
    errors.Kind.INVALID: 400,
    errors.Kind.UNSUPPORTED: 406,
    errors.Kind.FORBIDDEN: 403,
    errors.Kind.UNAVAILABLE: 503,
    errors.Kind.COMMIT_STATE_UNKNOWN: 500,
    errors.Kind.INTERNAL: 500,
}
_EXCEPTIONS: dict[type[errors.TableFormatError], int] = {
    errors.TooLarge: 413,
    UnknownEncoding: 415,
    errors.Unprocessable: 422,
    errors.VersionConflict: 412,
}
_TITLES = {
    400: "Invalid request",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    406: "Not offered",
    409: "Conflict",
    412: "Changed since it was read",
    413: "Request too large",
    415: "Unsupported media type",
    422: "Contradictory request",
    500: "Internal error",
    503: "Unavailable",
}


def problem(status: int, kind: str, detail: str, headers: dict[str, str] | None = None) -> Response:
    """One problem document."""
    body = {
        "type": f"urn:frazil:problem:{kind.replace('_', '-')}",
        "title": _TITLES.get(status, "Error"),
        "status": status,
        "detail": detail,
    }
    return Response(
        orjson.dumps(body), status_code=status, media_type="application/problem+json", headers=headers
    )


def install(app: FastAPI) -> None:
    """Let every error of the app leave as a problem document."""

    @app.exception_handler(errors.TableFormatError)
    async def ours(_: Request, error: errors.TableFormatError) -> Response:
        status = _EXCEPTIONS.get(type(error), _STATUS[error.kind])
        if status >= 500:
            _log.warning("request_failed", kind=error.kind, **errors.log_fields(error))
        headers = {"Retry-After": "1"} if isinstance(error, errors.Unavailable) else None
        return problem(status, error.kind, error.message, headers)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return problem(400, errors.Kind.INVALID, f"{where}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def routing(request: Request, error: HTTPException) -> Response:
        detail = f"{request.method} {request.scope['path']}: {error.detail}"
        kind = errors.Kind.NOT_FOUND if error.status_code == 404 else errors.Kind.INVALID
        return problem(error.status_code, kind, detail, dict(error.headers or {}))


def internal_problem(request_id: str) -> Response:
    """The problem document of an exception that nobody expected."""
    detail = f"Unexpected error in the server; its log has the details under request id {request_id}"
    return problem(500, errors.Kind.INTERNAL, detail)
