"""`Described`: what the document says about one operation; parameters and refusals that several share."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog_server.api.iceberg.openapi.shapes import flag, text, word
from table_format.jsontypes import JsonObject

BAD, DENIED, UNKNOWN, NOT_OFFERED, CONFLICT, CONTRADICTORY = 400, 403, 404, 406, 409, 422
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One operation, but for its verb and path."""

    id: str
    summary: str
    doc: str = ""
    tag: str
    parameters: tuple[str, ...] = ()
    """Names out of PARAMETERS; those in the path are found there."""
    body: str | None = None
    """Model of the request's body."""
    body_type: str = JSON
    answer: str | None = None
    """Model of the body of the answer; 204 without."""
    offered: bool = True
    """Whether it can succeed at all."""
    headers: tuple[str, ...] = ()
    """Names out of HEADERS."""
    unchanged: bool = False
    """Whether 304 is an answer."""
    refusals: Mapping[int, str] = field(default_factory=dict)
    """By status, beside those of every operation: when it is given."""


def _query(name: str, schema: JsonObject) -> JsonObject:
    return {"name": name, "in": "query", "required": False, "schema": schema}


def _header(name: str, doc: str) -> JsonObject:
    return {"name": name, "in": "header", "required": False, "description": doc, "schema": text()}


REFUSALS: dict[int, str] = {
    BAD: "The request is malformed; the message names the member or parameter.",
    413: "The body is larger than the server takes, as sent or decompressed.",
    415: "The body's Content-Encoding is neither gzip nor identity.",
    500: "The server failed. On a change: whether it was made is not known.",
    503: "The server cannot answer now; with `Retry-After` nothing was changed.",
}

ON_FILES: dict[int, str] = {DENIED: "Storage denies the server access to a file or directory."}
"""Refusals of what reads or writes metadata files."""

PATH_PARAMETERS: dict[str, JsonObject] = {
    "prefix": text("The table bucket, as `overrides.prefix` of the configuration gives it.", minLength=1),
    "namespace": text("The namespace's levels, each percent-encoded, joined by `%1F`.", minLength=1),
    "table": text("The table's name, percent-encoded.", minLength=1),
    "view": text("The view's name, percent-encoded.", minLength=1),
    "function": text("The function's name, percent-encoded.", minLength=1),
    "plan-id": text("The plan's id, as planning answered it.", minLength=1),
}

_PAGE_SIZE = {"type": "integer", "minimum": 1, "maximum": 999_999_999}
PARAMETERS: dict[str, JsonObject] = {
    "warehouse": _query("warehouse", text("A table bucket's name or ARN; the default bucket when left out.")),
    "pageToken": _query("pageToken", text("`next-page-token` of the page before; empty for the first page.")),
    "pageSize": _query(
        "pageSize", {**_PAGE_SIZE, "description": "At most so many entries; without it and a token, all."}
    ),
    "parent": _query(
        "parent", text("Whose children to list, levels joined by `%1F`; the top level's without.")
    ),
    "snapshots": _query(
        "snapshots", word("all", "refs", doc="All snapshots, or those that a branch or tag is at.")
    ),
    "purgeRequested": _query(
        "purgeRequested", flag("Also delete the table's files, later, by maintenance.", default=False)
    ),
    "referenced-by": _query(
        "referenced-by", text("The views through which the table or view is read; taken and not looked at.")
    ),
    "planId": _query("planId", text("The plan whose files are to be read; taken and not looked at.")),
    "If-None-Match": _header("If-None-Match", "An `ETag` that the client has: 304 if it is still that."),
    "Idempotency-Key": _header(
        "Idempotency-Key", "A UUID of version 7: a repeated request with it is answered, not done again."
    ),
    "X-Iceberg-Access-Delegation": _header(
        "X-Iceberg-Access-Delegation", "How the client could be given access to files; taken in any form."
    ),
}

HEADERS: dict[str, JsonObject] = {
    "ETag": {"description": "Stands for this version of the metadata in this shape.", "schema": text()},
    "Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}},
    "Cache-Control": {"description": "`no-store`.", "schema": text()},
}
