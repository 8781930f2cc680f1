"""What FastAPI cannot know about the management API's document: its errors are problems, policies have ETags."""

from table_format.jsontypes import JsonObject

_PROBLEM: JsonObject = {
    "type": "object",
    "description": "What went wrong (RFC 9457).",
    "properties": {
        "type": {
            "type": "string",
            "description": "For programs, for example `urn:frazil:problem:not-found`.",
        },
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "For people: what, where, and what to do about it."},
    },
    "required": ["type", "title", "status", "detail"],
}
_WHEN = {
    400: "The request is malformed; the detail names the member or parameter.",
    403: "It is protected.",
    404: "What the path or the query names does not exist.",
    409: "It exists already, overlaps with what exists, or is not empty.",
    412: "It was changed since the version that If-Match names.",
    413: "The body is larger than the server takes.",
    500: "The server failed.",
    503: "The server cannot answer now; with Retry-After nothing was changed.",
}
_ALWAYS = (400, 404, 500, 503)
_REFUSED_IF_PROTECTED = ("make_table", "unregister_table")
_ETAG: JsonObject = {"description": "The policy's version, for If-Match.", "schema": {"type": "string"}}
_FRAMEWORK_ERRORS = ("HTTPValidationError", "ValidationError")


def complete(document: JsonObject) -> None:
    """Declare the errors that are really answered in place of the framework's, and the ETags."""
    schemas = document["components"]["schemas"]
    for model in _FRAMEWORK_ERRORS:
        schemas.pop(model, None)
    schemas["Problem"] = _PROBLEM
    for item in document["paths"].values():
        for verb, operation in item.items():
            responses = operation["responses"]
            responses.pop("422", None)
            for status in _statuses(verb, operation):
                responses[str(status)] = _response(status)
            if _answers_a_policy(responses):
                responses["200"]["headers"] = {"ETag": _ETAG}


def _statuses(verb: str, operation: JsonObject) -> tuple[int, ...]:
    body = (413,) if "requestBody" in operation else ()
    exists = (409,) if verb in ("post", "delete") else ()
    protected = (403,) if verb == "delete" or operation["operationId"] in _REFUSED_IF_PROTECTED else ()
    names = {parameter["name"] for parameter in operation.get("parameters", [])}
    changed = (412,) if "If-Match" in names else ()
    return (*_ALWAYS, *body, *exists, *protected, *changed)


def _response(status: int) -> JsonObject:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": _WHEN[status], "content": content}


def _answers_a_policy(responses: JsonObject) -> bool:
    content = responses.get("200", {}).get("content", {}).get("application/json", {})
    return str(content.get("schema", {}).get("$ref", "")).endswith("/Policy")
