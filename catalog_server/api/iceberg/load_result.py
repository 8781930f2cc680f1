"""Answers that carry metadata of tables and views: the stored bytes, spliced into an envelope, not serialised again.

Metadata is immutable per location, so whatever is derived from it (the `refs` view, compressed forms) is kept with
the document. The ETag depends on table, location and shape only: create, commit and load of one version agree.
"""

import hashlib
from collections.abc import Callable

import anyio.to_thread
import orjson
from starlette.requests import Request
from starlette.responses import Response

from catalog_server.api.bodies import accepted_encoding, compress
from catalog_server.services.documents import AnyDocument, Document
from catalog_server.services.tables import TableHandle
from catalog_server.services.views import ViewHandle
from table_format.metadata.document import TableMetadata

ALL, REFS = "all", "refs"
_COMPRESS_FROM_BYTES = 32 * 1024
_THREAD_FROM_BYTES = 256 * 1024


def etag(metadata_location: str, table_uuid: str, snapshots: str = ALL) -> str:
    """The quoted entity tag of one metadata version in one shape."""
    digest = hashlib.blake2b(
        f"{snapshots}|{table_uuid}|{metadata_location}".encode("utf-8", "surrogatepass"), digest_size=16
    )
    return f'"{digest.hexdigest()}"'


def matches(if_none_match: str, tag: str) -> bool:
    """Whether an If-None-Match header names the tag (weak and strong compare alike)."""
    return any(part.strip().removeprefix("W/") in {tag, "*"} for part in if_none_match.split(","))


def not_modified(tag: str) -> Response:
    """304 without a body."""
    return Response(status_code=304, headers={"ETag": tag})


async def load_result(request: Request, handle: TableHandle, snapshots: str = ALL) -> Response:
    """A LoadTableResult (which is a CommitTableResponse as well)."""
    document, location = handle.document, handle.metadata_location
    if location is None:
        return Response(_spliced(None, document.raw), media_type="application/json")
    encoding = accepted_encoding(request.headers.get("accept-encoding", ""))
    table_uuid = handle.row.table_uuid if handle.row else str(document.metadata.uuid)
    headers = {"ETag": etag(location, table_uuid, snapshots), "Vary": "Accept-Encoding"}
    if encoding is None or len(document.raw) < _COMPRESS_FROM_BYTES:
        shape = document.raw if snapshots == ALL else await _derived(document, REFS, _only_refs(document))
        return Response(_spliced(location, shape), media_type="application/json", headers=headers)
    narrowed = _only_refs(document) if snapshots == REFS else _whole

    def compressed(raw: bytes) -> bytes:
        return compress(_spliced(location, narrowed(raw)), encoding)

    body = await _derived(document, f"{snapshots}+{encoding}", compressed)
    headers["Content-Encoding"] = encoding
    return Response(body, media_type="application/json", headers=headers)


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


def _spliced(location: str | None, raw: bytes) -> bytes:
    head = b"" if location is None else b'"metadata-location":' + orjson.dumps(location) + b","
    return b"{" + head + b'"metadata":' + raw + b',"config":{}}'
