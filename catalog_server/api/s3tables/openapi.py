"""The OpenAPI document of the operations that are offered, made of the very shapes that requests are read with."""

from collections.abc import Iterable

from catalog_server.api.s3tables.errors import ERROR_TYPE, STATUSES
from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.shapes import BUCKET_ARN, NAME, RESOURCE_ARN
from catalog_server.api.s3tables.wire import Shape
from table_format.jsontypes import JsonObject

_JSON = "application/json"
_INFO = {
    "title": "Frazil S3 Tables API",
    "version": "1",
    "description": "The operations of the S3 Tables API of AWS that this server offers. ARNs stand in paths as one "
    "percent-encoded segment or with their slashes as they are. Signatures are accepted and not verified.",
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}
_PARAMETERS: dict[str, Shape] = {
    "tableBucketARN": BUCKET_ARN,
    "resourceArn": RESOURCE_ARN,
    "namespace": NAME,
    "name": NAME,
}
_WHEN = {
    "BadRequestException": "The request is malformed; the message names the member or parameter.",
    "ForbiddenException": "It is protected.",
    "NotFoundException": "What the request names does not exist.",
    "MethodNotAllowedException": "The operation does not apply to this table.",
    "ConflictException": "It exists already, is not empty, or was changed since it was read.",
    "InternalServerErrorException": "The server failed; with Retry-After nothing was changed.",
}
_ERROR: JsonObject = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "For people: what, which and what to do."}},
    "required": ["message"],
}


def document(operations: Iterable[Operation]) -> JsonObject:
    """The OpenAPI 3.1 document of the operations that are offered."""
    paths: dict[str, JsonObject] = {}
    schemas: JsonObject = {"Error": _ERROR}
    errors: set[str] = set()
    for operation in sorted(operations, key=lambda one: (one.path, one.method)):
        if not operation.offered:
            continue
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
        errors |= _errors(operation)
        for suffix, shape in (("Request", operation.body), ("Response", operation.answer)):
            if shape is not None:
                schemas[operation.name + suffix] = shape.schema()
    return {
        "openapi": "3.1.1",
        "info": _INFO,
        "servers": [{"url": "/s3tables"}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "responses": {name: _error(name) for name in sorted(errors)},
        },
    }


def _described(operation: Operation) -> JsonObject:
    made: JsonObject = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": _responses(operation),
    }
    if operation.doc:
        made["description"] = operation.doc
    parameters = [
        _parameter(name, "path", operation.path_shapes.get(name) or _PARAMETERS[name], required=True)
        for name in operation.parameters
    ]
    parameters += [
        _parameter(name, "query", shape, required=name in operation.query.required)
        for name, shape in operation.query.members.items()
    ]
    if parameters:
        made["parameters"] = parameters
    if operation.body is not None:
        made["requestBody"] = {"required": True, "content": _content(operation.name + "Request")}
    return made


def _responses(operation: Operation) -> JsonObject:
    done: JsonObject = {"description": "Done."}
    if operation.answer is not None:
        done["content"] = _content(operation.name + "Response")
    refused = {
        str(STATUSES[name]): {"$ref": f"#/components/responses/{name}"} for name in sorted(_errors(operation))
    }
    return {str(operation.status): done, **dict(sorted(refused.items()))}


def _errors(operation: Operation) -> set[str]:
    return {*operation.errors, "InternalServerErrorException"}


def _error(name: str) -> JsonObject:
    return {
        "description": _WHEN[name],
        "headers": {ERROR_TYPE: {"description": "The exception's name.", "schema": {"const": name}}},
        "content": _content("Error"),
    }


def _parameter(name: str, place: str, shape: Shape, *, required: bool) -> JsonObject:
    return {"name": name, "in": place, "required": required, "schema": shape.schema()}


def _content(model: str) -> JsonObject:
    return {_JSON: {"schema": {"$ref": f"#/components/schemas/{model}"}}}
