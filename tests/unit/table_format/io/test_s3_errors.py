"""What the answers of S3 stores amount to, by their codes and never by their texts."""

from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    IncompleteReadError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
    SSLError,
)

from table_format.errors import (
    AlreadyExists,
    Forbidden,
    Invalid,
    NoSuchFile,
    TableFormatError,
    Unavailable,
    Unsupported,
)
from table_format.io.s3_errors import Failure, failure_of

PATH, STORE = "s3://b/k", "http://store:9000"


def refused(status: int, code: str, message: str = "", **headers: str) -> ClientError:
    told: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers},
    }
    return ClientError(told, "PutObject")


def failure(error: Exception) -> Failure:
    return failure_of(error, PATH, STORE, ["the-secret"])


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "NoSuchKey", NoSuchFile),
        (404, "404", NoSuchFile),
        (404, "NoSuchBucket", Invalid),
        (404, "NoSuchUpload", Unavailable),
        (412, "PreconditionFailed", AlreadyExists),
        (403, "AccessDenied", Forbidden),
        (403, "403", Forbidden),
        (403, "SignatureDoesNotMatch", Forbidden),
        (403, "RequestTimeTooSkewed", Forbidden),
        (400, "ExpiredToken", Forbidden),
        (401, "Unauthorized", Forbidden),
        (301, "PermanentRedirect", Invalid),
        (400, "AuthorizationHeaderMalformed", Invalid),
        (400, "KeyTooLongError", Invalid),
        (405, "MethodNotAllowed", Unsupported),
        (501, "NotImplemented", Unsupported),
    ],
)
def test_refusals_that_stay(status: int, code: str, kind: type[TableFormatError]) -> None:
    told = failure(refused(status, code))
    assert type(told.error) is kind
    assert (told.again, told.unsure) == (False, False)
    assert PATH in told.error.message or "'b'" in told.error.message


@pytest.mark.parametrize(
    ("status", "code", "throttled", "unsure"),
    [
        (503, "SlowDown", True, False),
        (429, "429", True, False),
        (400, "Throttling", True, False),
        (503, "ServiceUnavailable", False, True),
        (500, "InternalError", False, True),
        (504, "504", False, True),
        (409, "ConditionalRequestConflict", False, False),
        (409, "OperationAborted", False, False),
        (400, "RequestTimeout", False, False),
    ],
)
def test_refusals_that_may_pass(status: int, code: str, throttled: bool, unsure: bool) -> None:
    told = failure(refused(status, code))
    assert type(told.error) is Unavailable
    assert (told.again, told.throttled, told.unsure) == (True, throttled, unsure)


@pytest.mark.parametrize(
    ("error", "kind", "again", "unsure"),
    [
        (EndpointConnectionError(endpoint_url=f"{STORE}/b/k?signature"), Unavailable, True, False),
        (ReadTimeoutError(endpoint_url=STORE), Unavailable, True, True),
        (IncompleteReadError(actual_bytes=1, expected_bytes=2), Unavailable, True, True),
        (SSLError(endpoint_url=STORE, error="self-signed"), Unavailable, False, False),
        (NoCredentialsError(), Forbidden, False, False),
        (ParamValidationError(report="the-secret"), Invalid, False, False),
    ],
)
def test_errors_of_the_network_and_the_library(
    error: Exception, kind: type[TableFormatError], again: bool, unsure: bool
) -> None:
    told = failure(error)
    assert type(told.error) is kind
    assert (told.again, told.unsure) == (again, unsure)
    assert "signature" not in told.error.message
    assert "the-secret" not in told.error.message


def test_a_store_that_echoes_a_secret_does_not_get_it_into_the_message() -> None:
    told = failure(refused(403, "AccessDenied", "key the-secret is\nnot known " + "x" * 500))
    assert "the-secret" not in told.error.message
    assert "key *** is not known" in told.error.message
    assert "\n" not in told.error.message
    assert len(told.error.message) < 400


@pytest.mark.parametrize(
    ("text", "seconds"), [("7", 7.0), ("-3", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0)]
)
def test_how_long_a_store_asks_to_wait(text: str, seconds: float) -> None:
    assert failure(refused(503, "SlowDown", **{"retry-after": text})).wait_seconds == seconds


def test_what_is_no_error_of_the_client_is_not_made_one() -> None:
    with pytest.raises(ZeroDivisionError):
        failure(ZeroDivisionError())
