"""`S3ObjectStore`: `s3://bucket/key` (s3a, s3n, oss) on Amazon S3 and whatever speaks its protocol.

What follows `scheme://bucket/` is the key, letter by letter: nothing is decoded, encoded or normalised. A write that
may have been carried out though its answer was lost is looked after: each conditional write and each upload in parts
carries a mark of its own, by which it is known again.
"""

import contextlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, BinaryIO, cast

from botocore.exceptions import ClientError

from table_format.clock import Clock, Ids, SystemClock, SystemIds
from table_format.errors import AlreadyExists, Forbidden, Invalid, NoSuchFile, TableFormatError, Unavailable
from table_format.ident import scheme, strip_slash
from table_format.io.output import Output
from table_format.io.ranges import beyond, replaced
from table_format.io.s3_client import Repeater, Tries, connect
from table_format.io.s3_compose import compose
from table_format.io.s3_errors import code_of, no_bucket, status_of
from table_format.io.s3_settings import SCHEMES, S3Settings, read_settings
from table_format.io.s3_streams import FIRST_BYTES, Chunk, PartsSink, Reader
from table_format.io.store import DeleteFailure, ObjectInfo, Piece, Range

MARK = "frazil-write"
_KEYS_AT_ONCE = 1000
_UPLOAD_THREADS = 4
_STORES_KEPT = 64

_lock = threading.Lock()
_stores: "OrderedDict[S3Settings, S3ObjectStore]" = OrderedDict()


def open_store(location: str, properties: Mapping[str, str]) -> "S3ObjectStore":
    """The store of a location; one for all places with equal settings.

    Raises:
        Invalid: a property has an impossible value.
    """
    settings = read_settings(location, properties)
    with _lock:
        store = _stores.pop(settings, None) or S3ObjectStore(settings)
        _stores[settings] = store
        while len(_stores) > _STORES_KEPT:
            _stores.popitem(last=False)
    return store


class S3ObjectStore:
    """The object store over one S3 endpoint; safe to share between threads."""

    def __init__(
        self, settings: S3Settings, *, clock: Clock | None = None, ids: Ids | None = None, client: Any = None
    ) -> None:
        self._settings = settings
        self._ids = ids or SystemIds()
        self._client = connect(settings) if client is None else client
        self._repeater = Repeater(settings, clock or SystemClock(), self._ids)
        self._threads = ThreadPoolExecutor(_UPLOAD_THREADS, thread_name_prefix="s3-upload")
        self._seen: set[str] = set()
        """Buckets that are there: an answer about a missing object alone does not tell."""

    def get(self, path: str, byte_range: tuple[int, int] | None = None) -> bytes:
        """The object's bytes, or those of [start, end) that exist."""
        if byte_range is None:
            return self._ranged(path, None, "").data
        start, end = byte_range
        if not 0 <= start <= end:
            raise Invalid(f"byte range [{start}, {end}) of {path} is not a range")
        if start == end:
            self.head(path)
            return b""
        found = self._ranged(path, (start, end), "")
        return found.data[start - found.start : end - found.start]

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> None:
        """Write the whole object.

        Raises:
            Unavailable: not written; or not known to be, and then the message says so.
        """
        bucket, key = object_of(path)
        if if_absent and not self._settings.conditional_write:
            if self.exists(path):
                raise AlreadyExists(f"object exists already: {path}")
            if_absent = False
        if not if_absent:
            self._repeater.run(path, lambda _: self._client.put_object(Bucket=bucket, Key=key, Body=data))
            return
        mark = self._ids.uuid()
        unsure = False

        def once(tries: Tries) -> None:
            nonlocal unsure
            unsure = tries.unsure
            try:
                self._client.put_object(
                    Bucket=bucket, Key=key, Body=data, IfNoneMatch="*", Metadata={MARK: mark}
                )
            except ClientError as error:
                if status_of(error) != 412:
                    raise
                # It may be our own, written by a try whose answer was lost here or in a proxy.
                lost, unsure = unsure, True
                if not self._is_ours(path, mark, lost=lost):
                    raise

        try:
            self._repeater.run(path, once)
        except Unavailable as error:
            raise Unavailable(
                f"{error.message}; it is not known whether it was written" if unsure else error.message
            ) from None

    def head(self, path: str) -> ObjectInfo:
        """Size and age of one object."""
        bucket, key = object_of(path)
        try:
            found = self._repeater.run(path, lambda _: self._client.head_object(Bucket=bucket, Key=key))
        except NoSuchFile:
            self._require_bucket(bucket, path)
            raise
        return ObjectInfo(path, found["ContentLength"], _ms(found["LastModified"]), found["ETag"].strip('"'))

    def exists(self, path: str) -> bool:
        """Whether the object is there."""
        try:
            self.head(path)
        except NoSuchFile:
            return False
        return True

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """All objects below the prefix; names that end with a slash, which some tools make, are no objects."""
        base = strip_slash(prefix)
        bucket, key = _split(base)
        root = base.removesuffix(key)
        root = root if root.endswith("/") else root + "/"
        below = f"{key}/" if key else ""
        wanted = {"Bucket": bucket, "Prefix": below, "MaxKeys": _KEYS_AT_ONCE}
        token: str | None = None
        while True:
            page = self._page(prefix, wanted if token is None else {**wanted, "ContinuationToken": token})
            for found in page.get("Contents", ()):
                name = found["Key"]
                if not name.startswith(below):
                    raise Unavailable(
                        f"the listing of {prefix} at {self._settings.shown} names other objects"
                    )
                if not name.endswith("/"):
                    etag = found.get("ETag", "").strip('"')
                    yield ObjectInfo(root + name, found["Size"], _ms(found.get("LastModified")), etag)
            if not page.get("IsTruncated", False):
                return
            before, token = token, page.get("NextContinuationToken")
            if not token or token == before:
                raise Unavailable(f"the listing of {prefix} at {self._settings.shown} is cut short")

    def delete_many(self, paths: Iterable[str]) -> Sequence[DeleteFailure]:
        """Delete the objects, a thousand by one request."""
        failures: list[DeleteFailure] = []
        buckets: dict[str, dict[str, str]] = {}
        for path in paths:
            try:
                bucket, key = object_of(path)
            except Invalid as error:
                failures.append(DeleteFailure(path, error.message))
                continue
            buckets.setdefault(bucket, {})[key] = path
        for bucket, named in buckets.items():
            # A list of keys is XML, which has no way to write some letters that a key may hold.
            odd = [key for key in named if not _is_xml(key)]
            keys = [key for key in named if _is_xml(key)]
            for key in odd:
                self._delete_one(bucket, key, named[key])
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                failures += self._delete(bucket, keys[start : start + _KEYS_AT_ONCE], named)
        return failures

    def open_input(self, path: str) -> BinaryIO:
        """A seekable reader; what it reads is of one version of the object."""
        first = self._ranged(path, (0, FIRST_BYTES), "")
        reader = Reader(first, lambda start, end: self._ranged(path, (start, end), first.etag))
        return cast("BinaryIO", reader)

    def open_output(self, path: str) -> BinaryIO:
        """A writer whose object appears at `close()`."""
        upload = _Upload(self, self._client, self._repeater, path, self._ids.uuid())
        sink = PartsSink(upload, self._threads, self._settings.part_size)
        return cast("BinaryIO", Output(sink, path))

    def compose(self, path: str, pieces: Sequence[Piece], go_on: Callable[[], None]) -> int:
        """Join the pieces; the store itself copies ranges of 5 MiB and more."""
        upload = _Upload(self, self._client, self._repeater, path, self._ids.uuid())
        return compose(upload, self._version, pieces, self._threads, go_on)

    def _version(self, wanted: Range) -> bytes:
        if wanted.size == 0:
            return b""
        etag = "" if wanted.etag is None else f'"{wanted.etag}"'
        found = self._ranged(wanted.path, (wanted.start, wanted.end), etag)
        return found.data[wanted.start - found.start : wanted.end - found.start]

    def is_marked(self, path: str, mark: str) -> bool:
        """Whether the object that is there now was written under that mark."""
        bucket, key = object_of(path)
        try:
            found = self._repeater.run(path, lambda _: self._client.head_object(Bucket=bucket, Key=key))
        except NoSuchFile:
            return False
        return bool(found.get("Metadata", {}).get(MARK) == mark)

    def _is_ours(self, path: str, mark: str, *, lost: bool) -> bool:
        """`is_marked`; when it may not be looked at, it is another's unless an answer of ours was lost."""
        try:
            return self.is_marked(path, mark)
        except Forbidden:
            if lost:
                raise Unavailable(
                    f"{path} was written by us or by another; it may not be looked at"
                ) from None
            return False

    def _page(self, prefix: str, wanted: Mapping[str, Any]) -> Any:
        return self._repeater.run(prefix, lambda _: self._client.list_objects_v2(**wanted))

    def _delete_one(self, bucket: str, key: str, path: str) -> None:
        self._repeater.run(path, lambda _: self._client.delete_object(Bucket=bucket, Key=key))

    def _delete(self, bucket: str, keys: Sequence[str], named: Mapping[str, str]) -> Sequence[DeleteFailure]:
        wanted = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        answer = self._repeater.run(
            named[keys[0]], lambda _: self._client.delete_objects(Bucket=bucket, Delete=wanted)
        )
        return [
            DeleteFailure(
                named.get(failed.get("Key", ""), failed.get("Key", "")), failed.get("Code", "refused")
            )
            for failed in answer.get("Errors", ())
            if failed.get("Code") != "NoSuchKey"
        ]

    def _ranged(self, path: str, wanted: tuple[int, int] | None, etag: str) -> Chunk:
        """The bytes of a half-open range that exist (None: all), of that version if one is named."""
        bucket, key = object_of(path)
        more: dict[str, str] = {}
        if wanted is not None:
            more["Range"] = f"bytes={wanted[0]}-{wanted[1] - 1}"
        if etag:
            more["IfMatch"] = etag

        def once(_: Tries) -> Chunk:
            try:
                answer = self._client.get_object(Bucket=bucket, Key=key, **more)
            except ClientError as error:
                if status_of(error) == 416 or code_of(error) == "InvalidRange":
                    return Chunk(start=wanted[0] if wanted else 0, data=b"", size=0, etag="")
                raise
            with contextlib.closing(answer["Body"]) as body:
                return _chunk(answer, body.read(), path)

        try:
            return self._repeater.run(path, once)
        except AlreadyExists:
            raise Unavailable(f"{path} was replaced while it was read; read it again") from None

    def _require_bucket(self, bucket: str, path: str) -> None:
        """Tell a missing bucket from a missing object: to a question about an object both are a bare 404.

        Raises:
            Invalid: the bucket is not there.
        """
        if bucket in self._seen:
            return
        try:
            self._repeater.run(path, lambda _: self._client.head_bucket(Bucket=bucket))
        except NoSuchFile:
            raise no_bucket(path, self._settings.shown) from None
        except TableFormatError:
            return  # who may not ask about the bucket was still told about the object
        self._seen.add(bucket)


class _Upload:
    """One object on its way to the store."""

    def __init__(self, store: S3ObjectStore, client: Any, repeater: Repeater, path: str, mark: str) -> None:
        self._store, self._client, self._repeater = store, client, repeater
        self._path = path
        self._bucket, self._key = object_of(path)
        self._mark = mark
        self._id = ""

    def put(self, data: bytes) -> None:
        """Write it in one request."""
        self._store.put(self._path, data)

    def begin(self) -> None:
        """Begin an upload in parts."""
        answer = self._repeater.run(
            self._path,
            lambda _: self._client.create_multipart_upload(
                Bucket=self._bucket, Key=self._key, Metadata={MARK: self._mark}
            ),
        )
        self._id = answer["UploadId"]

    def part(self, number: int, data: bytes) -> str:
        """Upload a part; the same part again replaces it."""
        answer = self._repeater.run(
            self._path,
            lambda _: self._client.upload_part(
                Bucket=self._bucket, Key=self._key, UploadId=self._id, PartNumber=number, Body=data
            ),
        )
        return str(answer["ETag"])

    def copy_part(self, number: int, source: Range) -> str:
        """Have the store copy a part out of another object, of the version that the range names."""
        bucket, key = object_of(source.path)
        condition = {} if source.etag is None else {"CopySourceIfMatch": f'"{source.etag}"'}

        def once(_: Tries) -> str:
            try:
                answer = self._client.upload_part_copy(
                    Bucket=self._bucket,
                    Key=self._key,
                    UploadId=self._id,
                    PartNumber=number,
                    CopySource={"Bucket": bucket, "Key": key},
                    CopySourceRange=f"bytes={source.start}-{source.end - 1}",
                    **condition,
                )
            except ClientError as error:
                if status_of(error) == 416 or code_of(error) == "InvalidRange":
                    raise beyond(source) from None
                raise
            tag = answer.get("CopyPartResult", {}).get("ETag")
            if not tag:
                raise Unavailable(f"the store did not say what it copied of {source.path}")
            return str(tag)

        try:
            return self._repeater.run(source.path, once)
        except AlreadyExists:
            raise replaced(source) from None

    def complete(self, tags: list[str]) -> None:
        """Make the object of its parts."""
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]

        def once(tries: Tries) -> None:
            try:
                self._client.complete_multipart_upload(
                    Bucket=self._bucket, Key=self._key, UploadId=self._id, MultipartUpload={"Parts": parts}
                )
            except ClientError as error:
                gone = tries.unsure and code_of(error) == "NoSuchUpload"
                if not gone or not self._store.is_marked(self._path, self._mark):
                    raise

        self._repeater.run(self._path, once)

    def abort(self) -> None:
        """Forget the parts; an upload that is gone has none."""

        def once(_: Tries) -> None:
            try:
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=self._key, UploadId=self._id)
            except ClientError as error:
                if code_of(error) != "NoSuchUpload":
                    raise

        self._repeater.run(self._path, once)


def object_of(path: str) -> tuple[str, str]:
    """Bucket and key of an object's path.

    Raises:
        Invalid: it names none.
    """
    bucket, key = _split(path)
    if not key or key.endswith("/"):
        raise Invalid(f"{path!r} is not the name of an object")
    return bucket, key


def _split(path: str) -> tuple[str, str]:
    if scheme(path) not in SCHEMES:
        raise Invalid(f"{path!r} is no S3 location: write s3://bucket/path")
    bucket, _, key = path.partition("://")[2].partition("/")
    if not bucket:
        raise Invalid(f"{path!r} names no S3 bucket: write s3://bucket/path")
    if "\0" in key or ".." in key.split("/"):
        raise Invalid(f"{path!r} has '..' or NUL in it, which no file of a table may have")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{path!r} cannot be encoded as the key of an object") from None
    return bucket, key


def _is_xml(key: str) -> bool:
    """Whether XML 1.0 can hold the text."""
    return all(
        letter in "\t\n\r" or " " <= letter <= "\ud7ff" or "\ue000" <= letter <= "\ufffd" or letter > "\uffff"
        for letter in key
    )


def _ms(modified: datetime | None) -> int | None:
    """Milliseconds of a time that stores tell in whole seconds: the last it can be, so that nothing seems older."""
    return None if modified is None else int(modified.timestamp()) * 1000 + 999


_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


def _chunk(answer: Mapping[str, Any], data: bytes, path: str) -> Chunk:
    told, etag = answer.get("ContentRange"), answer.get("ETag", "")
    if not told:  # all of it: nothing else was asked for, or the store knows no ranges
        return Chunk(start=0, data=data, size=len(data), etag=etag)
    found = _RANGE.fullmatch(told)
    if found is None:
        raise Unavailable(f"the store told the range {told!r} of {path}, which is not understood")
    return Chunk(start=int(found[1]), data=data, size=int(found[2]), etag=etag)
