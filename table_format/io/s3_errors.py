"""What an error of the S3 client amounts to: one of our tree, whether to try again, and whether the work may be done.

Messages are made of our own words and the store's error code; nothing that was signed or sent is in them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError

from table_format.errors import (
    AlreadyExists,
    Forbidden,
    Invalid,
    NoSuchFile,
    TableFormatError,
    Unavailable,
    Unsupported,
)

_THROTTLED = frozenset(
    {
        "SlowDown",
        "SlowDownRead",
        "SlowDownWrite",
        "Throttling",
        "ThrottlingException",
        "RequestLimitExceeded",
        "TooManyRequests",
        "BandwidthLimitExceeded",
        "TooManyRequestsException",
        "429",
    }
)
_PASSING = frozenset(
    {"RequestTimeout", "ConditionalRequestConflict", "OperationAborted", "BadDigest", "IncompleteBody"}
)
_OTHER_REGION = frozenset(
    {
        "PermanentRedirect",
        "TemporaryRedirect",
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
    }
)
_CREDENTIALS = frozenset({"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "ExpiredTokenException"})
_NOT_SENT = (boto.EndpointConnectionError, boto.ConnectTimeoutError, boto.ProxyConnectionError)
_NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.TokenRetrievalError,
    boto.ProfileNotFound,
)
_TOLD = 160  # characters of the store's own message


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed request."""

    error: TableFormatError
    again: bool = False
    """Whether the same request may succeed in a moment."""
    throttled: bool = False
    """Whether the store asks for fewer requests."""
    unsure: bool = False
    """Whether the store may have done the work all the same."""
    wait_seconds: float = 0.0
    """How long the store asks to wait."""


def status_of(error: ClientError) -> int:
    """The HTTP status of a refused request."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def code_of(error: ClientError) -> str:
    """S3's code of a refused request; its HTTP status where it had no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def failure_of(error: Exception, path: str, store: str, secrets: Iterable[str] = ()) -> Failure:
    """What the client's error means for the object at `path`; `store` names the store for people."""
    if isinstance(error, ClientError):
        return _refused(error, path, store, secrets)
    if isinstance(error, _NOT_SENT):
        return Failure(
            error=Unavailable(f"the object store at {store} can not be reached ({type(error).__name__})"),
            again=True,
        )
    if isinstance(error, _NO_CREDENTIALS):
        return Failure(
            error=Forbidden(
                f"no usable credentials for {path} at {store} ({type(error).__name__}): set them in "
                "storage.properties or storage.credentials.NAME, or give the process a role"
            )
        )
    if isinstance(error, boto.SSLError):
        return Failure(
            error=Unavailable(
                f"no trusted TLS connection to {store}: check its certificate and AWS_CA_BUNDLE"
            )
        )
    if isinstance(
        error, (boto.ParamValidationError, boto.ValidationError, boto.EndpointProviderError, ValueError)
    ):
        return Failure(error=Invalid(f"{path} can not be the name of an object in {store}"))
    if isinstance(error, BotoCoreError):
        kind = type(error).__name__
        return Failure(
            error=Unavailable(f"the object store at {store} failed on {path} ({kind})"),
            again=True,
            unsure=True,
        )
    raise error


def _refused(error: ClientError, path: str, store: str, secrets: Iterable[str]) -> Failure:
    status, code = status_of(error), code_of(error)
    said = _said(error, secrets)
    if code in _THROTTLED or status == 429:
        told = Unavailable(f"the object store at {store} asks to slow down ({said}) on {path}")
        return Failure(error=told, again=True, throttled=True, wait_seconds=_retry_after(error))
    if code in _PASSING:
        told = Unavailable(f"the object store at {store} could not do it now ({said}): {path}")
        return Failure(error=told, again=True)
    if status >= 500 and status != 501:
        told = Unavailable(f"the object store at {store} failed on {path} ({said})")
        return Failure(error=told, again=True, unsure=True, wait_seconds=_retry_after(error))
    return Failure(error=_final(status, code, path, store, said))


def _final(status: int, code: str, path: str, store: str, said: str) -> TableFormatError:
    if code == "NoSuchBucket":
        return no_bucket(path, store)
    if code in _OTHER_REGION or status in (301, 307):
        return Invalid(
            f"the bucket of {path} is in another region ({said}): set the storage property s3.region"
        )
    if code in _CREDENTIALS or status in (401, 403):
        return _denied(code, path, store, said)
    if code == "NoSuchUpload":
        return Unavailable(f"the upload of {path} to {store} was ended by another; write it again")
    if status in (404, 412):
        missing = NoSuchFile(f"no such object: {path}")
        return missing if status == 404 else AlreadyExists(f"object exists already: {path}")
    if status in (405, 501):
        return Unsupported(f"the object store at {store} can not do what was asked ({said}) of {path}")
    if status >= 400:
        return Invalid(f"the object store at {store} refuses {path} ({said})")
    return Unavailable(
        f"the object store at {store} gave an answer that is not understood ({said}) on {path}"
    )


def no_bucket(path: str, store: str) -> Invalid:
    """The error for a place in a bucket that is not there."""
    name = path.partition("://")[2].partition("/")[0]
    return Invalid(
        f"there is no bucket {name!r} at {store}: make it there, or correct the location or s3.endpoint"
    )


def _denied(code: str, path: str, store: str, said: str) -> Forbidden:
    what = {
        "RequestTimeTooSkewed": "this machine's clock differs too much from the store's",
        "SignatureDoesNotMatch": "the secret key is not the one of the access key",
        "InvalidAccessKeyId": "the access key is not known there",
        "ExpiredToken": "the credentials have expired",
        "InvalidObjectState": "the object is archived and must be restored first",
    }.get(code, "check the credentials and what they may do")
    return Forbidden(f"access to {path} denied by {store} ({said}): {what}")


def _said(error: ClientError, secrets: Iterable[str]) -> str:
    """Status and code, and what the store said about them, without anything that it echoes of ours."""
    status, code = status_of(error), code_of(error)
    text = str(error.response.get("Error", {}).get("Message", "") or "")
    for secret in secrets:
        text = text.replace(secret, "***")
    text = "".join(letter if letter.isprintable() else " " for letter in text)[:_TOLD].strip()
    head = str(status) if code in ("", str(status)) else f"{status} {code}"
    return head if text in ("", code) or text.isdigit() else f"{head}: {text}"


def _retry_after(error: ClientError) -> float:
    headers: Mapping[str, Any] = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    try:
        return max(0.0, float(headers.get("retry-after", 0)))
    except ValueError:
        return 0.0  # a date; our own waiting will do
