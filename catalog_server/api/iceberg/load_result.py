"""Answers that carry metadata of tables and views: the stored bytes, spliced into an envelope, not serialised again.

Metadata is immutable per location, so whatever is derived from it (the `refs` view, compressed forms) is kept with
the document. Create, register, commit and load of one version by one caller have the same ETag; another shape,
bucket, caller or kind of access has another.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import anyio.to_thread
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from catalog_server.api.bodies import accepted_encoding, compress
from catalog_server.api.headers import header
from catalog_server.api.iceberg.call import Call
from catalog_server.services.documents import AnyDocument, Document
from catalog_server.services.storage import takes_properties
from catalog_server.services.tables import TableHandle
from catalog_server.services.views import ViewHandle
from table_format.metadata.document import TableMetadata

ALL, REFS = "all", "refs"
_ENTITY_TAG = re.compile(r'(?:W/)?("[^"]*")')
_VARY = "Accept-Encoding, X-Iceberg-Access-Delegation"
_NO_CONFIG = b"{}"
_COMPRESS_FROM_BYTES = 32 * 1024
# Below this a copy is cheaper than two more writes.
_PIECES_FROM_BYTES = 64 * 1024
_THREAD_FROM_BYTES = 256 * 1024


class SplicedResponse(Response):
    """Metadata in its envelope, sent without a copy: many answers of one long document share its bytes."""

    def __init__(self, location: str, raw: bytes, config: bytes, tag: str) -> None:
        super().__init__(None)
        self._pieces: tuple[bytes, ...] = (_head(location), raw, _tail(config))
        if len(raw) < _PIECES_FROM_BYTES:
            self._pieces = (b"".join(self._pieces),)
        self.raw_headers = [
            (b"etag", tag.encode()),
            (b"vary", _VARY.encode()),
            (b"content-length", b"%d" % sum(map(len, self._pieces))),
            (b"content-type", b"application/json"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, piece by piece."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in self._pieces[:-1]:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": self._pieces[-1]})


async def etag(call: Call, metadata_location: str, table_uuid: str, snapshots: str = ALL) -> str:
    """The quoted entity tag of one metadata version as this caller gets it in one shape."""
    return _etag(call, metadata_location, table_uuid, snapshots, await _config(call, metadata_location))


def _etag(call: Call, metadata_location: str, table_uuid: str, snapshots: str, config: bytes) -> str:
    parts = [snapshots, table_uuid, metadata_location, call.bucket, call.principal.name, *call.delegation()]
    if config != _NO_CONFIG:
        parts.append(config.decode())
    return _digest(tuple(parts))


@lru_cache(maxsize=1024)
def _digest(parts: tuple[str, ...]) -> str:
    digest = hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16)
    return f'"{digest.hexdigest()}"'


def matches(if_none_match: Sequence[str], tag: str) -> bool:
    """Whether If-None-Match headers name the tag (weak and strong compare alike); malformed ones name none."""
    listed = ",".join(if_none_match)
    return listed.strip() == "*" or tag in _ENTITY_TAG.findall(listed)


def not_modified(tag: str) -> Response:
    """304 without a body."""
    return Response(status_code=304, headers={"ETag": tag, "Vary": _VARY})


async def load_result(call: Call, handle: TableHandle, snapshots: str = ALL) -> Response:
    """A LoadTableResult (which is a CommitTableResponse as well)."""
    document, location = handle.document, handle.metadata_location
    config = await _config(call, document.metadata.location)
    if location is None:
        return Response(_spliced(None, document.raw, config), media_type="application/json")
    encoding = accepted_encoding(header(call.request.scope, b"accept-encoding") or "")
    table_uuid = handle.row.table_uuid if handle.row else str(document.metadata.uuid).lower()
    tag = _etag(call, location, table_uuid, snapshots, config)
    if encoding is None or len(document.raw) < _COMPRESS_FROM_BYTES:
        shape = document.raw if snapshots == ALL else await _derived(document, REFS, _only_refs(document))
        return SplicedResponse(location, shape, config, tag)
    narrowed = _only_refs(document) if snapshots == REFS else _whole

    def compressed(raw: bytes) -> bytes:
        return compress(_spliced(location, narrowed(raw), config), encoding)

    shape_name = f"{snapshots}+{encoding}"
    if config != _NO_CONFIG:
        shape_name += f"+{hashlib.blake2b(config, digest_size=8).hexdigest()}"
    body = await _derived(document, shape_name, compressed)
    headers = {"ETag": tag, "Vary": _VARY, "Content-Encoding": encoding}
    return Response(body, media_type="application/json", headers=headers)


def unregister_result(handle: TableHandle) -> Response:
    """An UnregisterTableResult."""
    head = b'{"metadata-location":' + orjson.dumps(handle.metadata_location)
    return Response(head + b',"metadata":' + handle.raw + b"}", media_type="application/json")


async def view_result(request: Request, handle: ViewHandle) -> Response:
    """A LoadViewResult."""
    document, location = handle.document, handle.metadata_location
    encoding = accepted_encoding(request.headers.get("accept-encoding", ""))
    headers = {"Vary": "Accept-Encoding"}
    if encoding is None or len(document.raw) < _COMPRESS_FROM_BYTES:
        body = _spliced(location, document.raw)
        return Response(body, media_type="application/json", headers=headers)

    def compressed(raw: bytes) -> bytes:
        return compress(_spliced(location, raw), encoding)

    headers["Content-Encoding"] = encoding
    body = await _derived(document, encoding, compressed)
    return Response(body, media_type="application/json", headers=headers)


async def _derived(document: AnyDocument, name: str, make: Callable[[bytes], bytes]) -> bytes:
    if len(document.raw) < _THREAD_FROM_BYTES:
        return document.variant(name, make)
    return await anyio.to_thread.run_sync(document.variant, name, make)


def _whole(raw: bytes) -> bytes:
    return raw


def _only_refs(document: Document) -> Callable[[bytes], bytes]:
    """The metadata with only those snapshots that a branch or tag names."""

    def narrowed(raw: bytes) -> bytes:
        metadata = document.metadata
        referenced = {ref["snapshot-id"] for ref in metadata.refs.values()}
        kept = [snapshot for snapshot in metadata.snapshots if snapshot["snapshot-id"] in referenced]
        if len(kept) == len(metadata.snapshots):
            return raw
        return TableMetadata({**metadata.document, "snapshots": kept}).to_bytes()

    return narrowed


async def _config(call: Call, location: str) -> bytes:
    """What the engine needs to know to reach the files, as JSON."""
    storage = call.platform.storage
    return await storage.told(call.bucket) if takes_properties(location) else _NO_CONFIG


def _spliced(location: str | None, raw: bytes, config: bytes = _NO_CONFIG) -> bytes:
    return b"".join((_head(location), raw, _tail(config)))


def _tail(config: bytes) -> bytes:
    return b',"config":' + config + b"}"


def _head(location: str | None) -> bytes:
    named = b"" if location is None else b'"metadata-location":' + orjson.dumps(location) + b","
    return b"{" + named + b'"metadata":'
