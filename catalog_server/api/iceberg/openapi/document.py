"""Puts the OpenAPI document together: the routed operations, what is said about them, the models they use."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from catalog_server.api.iceberg.openapi import (
    models_catalog,
    models_commits,
    models_metadata,
    models_scans,
    models_types,
    operations_catalog,
    operations_scans,
    operations_tables,
)
from catalog_server.api.iceberg.openapi.described import (
    HEADERS,
    JSON,
    PARAMETERS,
    PATH_PARAMETERS,
    REFUSALS,
    Described,
)
from catalog_server.api.iceberg.openapi.shapes import ref
from table_format.jsontypes import JsonObject

DESCRIBED: dict[str, Described] = {
    **operations_catalog.OPERATIONS,
    **operations_tables.OPERATIONS,
    **operations_scans.OPERATIONS,
}
MODELS: dict[str, JsonObject] = {
    **models_types.MODELS,
    **models_metadata.MODELS,
    **models_commits.MODELS,
    **models_catalog.MODELS,
    **models_scans.MODELS,
}
_OF_BODIES = (413, 415)
_RESPONSES = {400: "Malformed", 413: "TooLarge", 415: "UnknownEncoding", 500: "Failed", 503: "Unavailable"}
_TOKENS = "getToken"
_MODELS_BELOW = "#/components/schemas/"
_INFO = {
    "title": "Frazil Iceberg REST catalog",
    "version": "1",
    "description": "The Iceberg REST catalog API as this server speaks it. Members that a request has beyond those "
    "below are passed over or, inside metadata, kept.",
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}


@lru_cache(maxsize=4)
def document(endpoints: tuple[str, ...]) -> JsonObject:
    """The OpenAPI 3.1 document of these operations, each given as `VERB path`. Not to be changed.

    Raises:
        KeyError: an operation is not described.
    """
    paths: dict[str, JsonObject] = {}
    for endpoint in sorted(endpoints, key=lambda one: one.split(" ")[::-1]):
        method, path = endpoint.split(" ")
        item = paths.setdefault(path, _path_item(path))
        item[method.lower()] = _operation(DESCRIBED[endpoint], without_body=method == "HEAD")
    named = {name for endpoint in endpoints for name in DESCRIBED[endpoint].parameters}
    models = {name: MODELS[name] for name in sorted(_used(paths))}
    return {
        "openapi": "3.1.1",
        "info": _INFO,
        "servers": [{"url": "/iceberg"}],
        "paths": paths,
        "components": {
            "schemas": models,
            "parameters": {name: parameter for name, parameter in PARAMETERS.items() if name in named},
            "responses": {_RESPONSES[status]: _refusal(status, REFUSALS[status]) for status in REFUSALS},
        },
    }


def _path_item(path: str) -> JsonObject:
    names = re.findall(r"{([^}]+)}", path)
    if not names:
        return {}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": PATH_PARAMETERS[name]} for name in names
    ]
    return {"parameters": parameters}


def _operation(described: Described, *, without_body: bool) -> JsonObject:
    operation: JsonObject = {
        "operationId": described.id,
        "summary": described.summary,
        "tags": [described.tag],
        "responses": _responses(described, without_body=without_body),
    }
    if described.doc:
        operation["description"] = described.doc
    if described.parameters:
        parameters = [{"$ref": f"#/components/parameters/{name}"} for name in described.parameters]
        operation["parameters"] = parameters
    if described.body is not None:
        content = {described.body_type: {"schema": ref(described.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _responses(described: Described, *, without_body: bool) -> JsonObject:
    responses: JsonObject = {}
    if described.answer is not None:
        responses["200"] = {"description": "Done.", "content": {JSON: {"schema": ref(described.answer)}}}
        if described.headers:
            responses["200"]["headers"] = {name: HEADERS[name] for name in described.headers}
    elif described.offered:
        responses["204"] = {"description": "Done."}
    if described.unchanged:
        responses["304"] = {
            "description": "The client has this version already.",
            "headers": {"ETag": HEADERS["ETag"]},
        }
    for status, when in sorted(_refusals(described).items()):
        if without_body:
            responses[str(status)] = {"description": when}
        elif described.id == _TOKENS and status < 500:
            responses[str(status)] = _refusal(status, when, "OAuthError")
        elif when == REFUSALS.get(status):
            responses[str(status)] = {"$ref": f"#/components/responses/{_RESPONSES[status]}"}
        else:
            responses[str(status)] = _refusal(status, when)
    return responses


def _refusal(status: int, when: str, model: str = "IcebergErrorResponse") -> JsonObject:
    refusal: JsonObject = {"description": when, "content": {JSON: {"schema": ref(model)}}}
    if status == 503:
        refusal["headers"] = {"Retry-After": HEADERS["Retry-After"]}
    return refusal


def _refusals(described: Described) -> dict[int, str]:
    # The token endpoint tells every fault of a body as RFC 6749 does, with 400.
    of_bodies = described.body is not None and described.id != _TOKENS
    shared = {status: when for status, when in REFUSALS.items() if of_bodies or status not in _OF_BODIES}
    return {**shared, **described.refusals}


def _used(paths: JsonObject) -> set[str]:
    """The models that the operations lead to, by way of others too."""
    found = {"IcebergErrorResponse", "ErrorModel"}  # of the shared refusals
    waiting: list[object] = [paths]
    while waiting:
        for name in _references(waiting.pop()):
            if name not in found:
                found.add(name)
                waiting.append(MODELS[name])
    return found


def _references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        target = value.get("$ref")
        if isinstance(target, str) and target.startswith(_MODELS_BELOW):
            yield target.removeprefix(_MODELS_BELOW)
        inner: Iterable[object] = value.values()
    elif isinstance(value, list | tuple):
        inner = value
    else:
        return
    for one in inner:
        yield from _references(one)
