"""The Iceberg error envelope: every failure below `/iceberg`, expected or not, leaves through here.

Status codes and type names are those that Java's client acts on (`ErrorHandlers`): 409 with
CommitFailedException is retried, 5xx on a commit means "may have happened", 503 with Retry-After means "surely not".
"""

import orjson
from starlette.responses import Response

from catalog_server.api.bodies import UnknownEncoding
from table_format import errors

# Looked up along an error's class hierarchy, so that a new class inherits its parent's answer.
_ANSWERS: dict[type[errors.TableFormatError], tuple[int, str]] = {
    errors.NoSuchWarehouse: (404, "NoSuchWarehouseException"),
    errors.NoSuchNamespace: (404, "NoSuchNamespaceException"),
    errors.NoSuchTable: (404, "NoSuchTableException"),
    errors.NoSuchView: (404, "NoSuchViewException"),
    errors.NoSuchFunction: (404, "NoSuchFunctionException"),
    errors.NoSuchPlan: (404, "NoSuchPlanIdException"),
    errors.NoSuchPlanTask: (404, "NoSuchPlanTaskException"),
    errors.NotFound: (404, "NotFoundException"),
    errors.AlreadyExists: (409, "AlreadyExistsException"),
    errors.NamespaceNotEmpty: (409, "NamespaceNotEmptyException"),
    errors.CommitFailed: (409, "CommitFailedException"),
    errors.VersionConflict: (409, "CommitFailedException"),
    errors.TooLarge: (413, "PayloadTooLargeException"),
    UnknownEncoding: (415, "UnsupportedMediaTypeException"),
    errors.InvalidView: (400, "IllegalArgumentException"),
    errors.Invalid: (400, "BadRequestException"),
    errors.Unprocessable: (422, "UnprocessableEntityException"),
    errors.Unsupported: (406, "UnsupportedOperationException"),
    errors.Forbidden: (403, "ForbiddenException"),
    errors.Unavailable: (503, "ServiceUnavailableException"),
    errors.CommitStateUnknown: (500, "CommitStateUnknownException"),
    errors.TableFormatError: (500, "InternalServerError"),
}


def envelope(status: int, error_type: str, message: str, headers: dict[str, str] | None = None) -> Response:
    """`{"error": {"message", "type", "code"}}`."""
    body = orjson.dumps({"error": {"message": message, "type": error_type, "code": status}})
    return Response(body, status_code=status, media_type="application/json", headers=headers)


def answer_to(error: errors.TableFormatError) -> Response:
    """The envelope of an error of ours."""
    status, error_type = next(_ANSWERS[kind] for kind in type(error).__mro__ if kind in _ANSWERS)
    # Retry-After promises that the request was certainly not applied; only Unavailable means that.
    headers = {"Retry-After": "1"} if isinstance(error, errors.Unavailable) else None
    return envelope(status, error_type, error.message, headers)


def internal_error(request_id: str) -> Response:
    """The envelope of an exception that nobody expected; the details are in the log under the request id."""
    message = f"Unexpected error in the server; its log has the details under request id {request_id}"
    return envelope(500, "InternalServerError", message)
