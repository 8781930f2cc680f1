"""Idempotency-Key at the door: a request is carried out once, and answered alike however often it is sent.

Kept are successes (written with their effect) and refusals that would be the same the next time: a client that was
told 409 may have deleted its files, so the same request must never succeed later. 5xx is not kept. Of tables and
views the metadata location is kept, not the document; small bodies are kept whole.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.responses import Response

from catalog_server.api.iceberg.call import Call
from catalog_server.api.iceberg.errors import answer_to
from catalog_server.api.iceberg.load_result import (
    SplicedResponse,
    load_result,
    unregister_result,
    view_result,
)
from catalog_server.api.iceberg.namespaces import changed, described
from catalog_server.services.handles import TableHandle, ViewHandle
from catalog_server.services.idempotency import Claim, RequestKey
from catalog_server.services.namespaces import NamespaceDetails, PropertiesChange
from catalog_server.store.idempotency import AlreadyAnswered
from catalog_server.store.tables import TableRow
from catalog_server.store.views import ViewRow
from table_format.errors import (
    CommitStateUnknown,
    Invalid,
    NoSuchFile,
    NotFound,
    TableFormatError,
    Unavailable,
)
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject
from table_format.metadata import jsontext

HEADER = "Idempotency-Key"
FINAL_REFUSALS = frozenset({400, 404, 406, 409, 422})
"""Told again as they are. Not: 401, 403, 413, 415, 429, which the same client may have put right."""

_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_LARGEST_KEPT_BODY = 1 << 20

Note = Callable[[Any], JsonObject]
"""What to keep of the result of the unit of work that had the effect."""


def no_content(_: object) -> JsonObject:
    """Of an operation whose success is a 204."""
    return {"status": 204}


def table(result: TableRow | list[TableRow]) -> JsonObject:
    """Of an operation whose success is a LoadTableResult."""
    row = result[0] if isinstance(result, list) else result
    return {"table": _named(row)}


def unregistered(row: TableRow) -> JsonObject:
    """Of an operation whose success is an UnregisterTableResult."""
    return {"unregistered": _named(row)}


def view(row: ViewRow) -> JsonObject:
    """Of an operation whose success is a LoadViewResult."""
    return {"view": _named(row)}


def namespace(result: NamespaceDetails) -> JsonObject:
    """Of an operation whose success describes a namespace."""
    return _small(described(result.info))


def properties(change: PropertiesChange) -> JsonObject:
    """Of an operation whose success tells changed properties."""
    return _small(changed(change))


async def once(call: Call, note: Note, work: Callable[[], Awaitable[Response]]) -> Response:
    """The answer of `work`, or the one that a request with the same key got.

    Raises:
        Invalid: the key is no UUIDv7, or was used for another request.
        Unavailable: the answer of the other request is gone already.
        CommitStateUnknown: the change was made, but what to tell of it is gone.
    """
    key = await _request_key(call)
    if key is None:
        return await work()
    service = call.platform.idempotency
    async with service.turn(key):
        told = await service.find(key)
        if told is not None:
            return await _again(call, told)
        try:
            with service.claim(key, note) as claim:
                response = await _first(claim, work)
        except AlreadyAnswered:
            told = await service.find(key)
            if told is None:
                raise Unavailable("the answer to this Idempotency-Key is no longer kept; retry") from None
            return await _again(call, told)
        if claim.recorded or isinstance(response, SplicedResponse) or len(response.body) > _LARGEST_KEPT_BODY:
            return response  # one that large is a staged table's: it had no effect that could happen twice
        ours = {"status": response.status_code, "body": bytes(response.body).decode()}
        told = await service.settle(key, ours)
        return response if told == ours else await _again(call, told)


async def _first(claim: Claim, work: Callable[[], Awaitable[Response]]) -> Response:
    try:
        return await work()
    except AlreadyAnswered:
        raise
    except TableFormatError as error:
        response = answer_to(error)
        if claim.recorded or response.status_code not in FINAL_REFUSALS:
            raise
        return response


async def _again(call: Call, told: JsonObject) -> Response:
    if "table" in told:
        return await load_result(call, await _table(call, told["table"]))
    if "unregistered" in told:
        # Whatever has that name by now is registered.
        return unregister_result(await _table_then(call, told["unregistered"]))
    if "view" in told:
        return await view_result(call.request, await _view(call, told["view"]))
    body = told.get("body", "")
    return Response(body, status_code=told["status"], media_type="application/json" if body else None)


async def _table(call: Call, told: JsonObject) -> TableHandle:
    try:
        return await _table_then(call, told)
    except CommitStateUnknown as gone:
        try:
            now = await call.platform.tables.load(call.principal, call.bucket, _ident(told))
        except NotFound:
            raise gone from None
        if now.row is None or now.row.table_uuid != told["uuid"]:
            raise
        # Long replaced and deleted: the table as it is now says at least that the change is in its past.
        return now


async def _table_then(call: Call, told: JsonObject) -> TableHandle:
    location = told["metadata-location"]
    try:
        document = await call.platform.documents.load(location)
    except NoSuchFile:
        raise _gone(_ident(told)) from None
    return TableHandle(
        bucket=call.bucket, ident=_ident(told), metadata_location=location, document=document, row=None
    )


async def _view(call: Call, told: JsonObject) -> ViewHandle:
    location = told["metadata-location"]
    ident = _ident(told)
    try:
        document = await call.platform.documents.load_view(location)
    except NoSuchFile:
        try:
            now = await call.platform.views.load(call.principal, call.bucket, ident)
        except NotFound:
            raise _gone(ident) from None
        if now.row is None or now.row.view_uuid != told["uuid"]:
            raise _gone(ident) from None
        return now
    return ViewHandle(
        bucket=call.bucket, ident=ident, metadata_location=location, document=document, row=None
    )


def _gone(ident: TableIdent) -> CommitStateUnknown:
    """The change was made, but the file to tell it with is deleted, and its name is free or another's.

    A 404 would say that the change was refused: clients then delete what they wrote for it.
    """
    return CommitStateUnknown(
        f"the change to {ident} was made, but the metadata file that told of it is gone: "
        "look what is there now, and delete nothing"
    )


def _named(row: TableRow | ViewRow) -> JsonObject:
    return {
        "namespace": list(row.ident.namespace.levels),
        "name": row.ident.name,
        "uuid": row.table_uuid if isinstance(row, TableRow) else row.view_uuid,
        "metadata-location": row.metadata_location,
    }


def _ident(told: JsonObject) -> TableIdent:
    return TableIdent(Namespace(tuple(told["namespace"])), told["name"])


def _small(body: JsonObject) -> JsonObject:
    return {"status": 200, "body": orjson.dumps(body).decode()}


async def _request_key(call: Call) -> RequestKey | None:
    """The header's key, bound to this very request.

    Raises:
        Invalid: several keys, none of the right form, or a body that nests too deeply to be compared.
        NoSuchWarehouse: the bucket is not there.
    """
    given = {value.strip().lower() for value in call.request.headers.getlist(HEADER)}
    if not given - {""}:
        return None
    if len(given) > 1:
        raise Invalid(f"Malformed {HEADER}: a request has one key, not several")
    key = given.pop()
    if not _UUID7.fullmatch(key):
        raise Invalid(
            f"Malformed {HEADER}: it must be a UUID of version 7, "
            "for example 017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
        )
    digest = hashlib.blake2b(digest_size=16)
    scope = call.request.scope
    for part in (call.request.method.encode(), scope["path"].encode("latin-1"), scope["query_string"]):
        digest.update(part + b"\0")
    try:
        digest.update(jsontext.canonical(call.body))
    except Invalid:
        raise Invalid(f"Malformed request: with an {HEADER} it must not nest so deeply") from None
    return RequestKey(
        bucket_id=(await call.platform.commits.bucket(call.bucket)).id,
        principal=call.principal.name,
        key=key,
        fingerprint=digest.hexdigest(),
    )
