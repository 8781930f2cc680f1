"""Errors as AWS's SDKs read them: the exception's name in `x-amzn-ErrorType`, and `message` in the body.

Only names of the service's model leave here (an SDK makes nothing of others), and `UnknownOperationException`, which
is how AWS answers a request for what is no operation at all.
"""

import orjson
from starlette.responses import Response

from catalog_server.services.paging import BadToken
from table_format import errors

ERROR_TYPE = "x-amzn-ErrorType"
REQUEST_ID = "x-amzn-RequestId"
STATUSES = {
    "BadRequestException": 400,
    "ForbiddenException": 403,
    "NotFoundException": 404,
    "MethodNotAllowedException": 405,
    "ConflictException": 409,
    "InternalServerErrorException": 500,
}
UNKNOWN_OPERATION = "UnknownOperationException"

_NAMES: dict[errors.Kind, str] = {
    errors.Kind.NOT_FOUND: "NotFoundException",
    errors.Kind.ALREADY_EXISTS: "ConflictException",
    errors.Kind.CONFLICT: "ConflictException",
    errors.Kind.REQUIREMENT_FAILED: "ConflictException",
    errors.Kind.INVALID: "BadRequestException",
    errors.Kind.UNSUPPORTED: "BadRequestException",
    errors.Kind.FORBIDDEN: "ForbiddenException",
    errors.Kind.UNAVAILABLE: "InternalServerErrorException",
    errors.Kind.COMMIT_STATE_UNKNOWN: "InternalServerErrorException",
    errors.Kind.INTERNAL: "InternalServerErrorException",
}
# What AWS says where an SDK's user may know the text; the rest are our own words.
_TEXTS: dict[type[errors.TableFormatError], str] = {
    errors.NoSuchWarehouse: "The specified bucket does not exist.",
    errors.NoSuchNamespace: "The specified namespace does not exist.",
    errors.NoSuchTable: "The specified table does not exist.",
    errors.NameTaken: "A table with an identical name already exists in the namespace.",
    BadToken: "The continuation token is not valid.",
}


class MethodNotAllowed(errors.Unsupported):
    """The operation does not apply to this resource; the model has it for record expiration only."""


def failure(name: str, message: str, headers: dict[str, str] | None = None) -> Response:
    """One error of the model."""
    return _answer(STATUSES[name], name, message, headers)


def unknown_operation(method: str, path: str, headers: dict[str, str] | None = None) -> Response:
    """404 for what is no operation of the API."""
    return _answer(404, UNKNOWN_OPERATION, f"{method} {path} is no operation of the S3 Tables API", headers)


def answer_to(error: errors.TableFormatError) -> Response:
    """The answer to an error of ours."""
    wrong_method = isinstance(error, MethodNotAllowed)
    name = "MethodNotAllowedException" if wrong_method else _NAMES[error.kind]
    # Retry-After promises that the request was certainly not applied; only Unavailable means that.
    headers = {"Retry-After": "1"} if isinstance(error, errors.Unavailable) else None
    return failure(name, _worded(error), headers)


def internal_error(request_id: str) -> Response:
    """The answer to an exception that nobody expected; the details are in the log under the request id."""
    message = f"Unexpected error in the server; its log has the details under request id {request_id}"
    return failure("InternalServerErrorException", message)


def _worded(error: errors.TableFormatError) -> str:
    """AWS's text, then ours when it says more."""
    text = _TEXTS.get(type(error))
    if text is None or error.message.startswith(text):
        return error.message
    return f"{text} {error.message}"


def _answer(status: int, name: str, message: str, headers: dict[str, str] | None) -> Response:
    # Half a character, of which JSON may have an escape, can be told of but not written.
    text = message.encode("utf-8", "backslashreplace").decode()
    return Response(
        orjson.dumps({"message": text}),
        status_code=status,
        media_type="application/json",
        headers={ERROR_TYPE: name, **(headers or {})},
    )
