"""The door of the S3 Tables API: paths told apart before they are decoded, errors in AWS's form, bodies bounded."""

from urllib.parse import quote

import httpx
import pytest

from catalog_server.api.s3tables.errors import UNKNOWN_OPERATION
from tests.api.iceberg_client import Http

HOME = "arn:aws:s3tables:us-east-1:000000000000:bucket/"
DEFAULT = quote(HOME + "default", safe="")


def assert_refused(answer: httpx.Response, status: int, name: str) -> str:
    """The answer is that error in AWS's form; its message."""
    assert (answer.status_code, answer.headers.get("x-amzn-errortype")) == (status, name), answer.text
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"message"}
    message: str = answer.json()["message"]
    assert message
    return message


@pytest.mark.parametrize(
    "arn",
    [
        DEFAULT,
        HOME + "default",
        HOME.replace(":", "%3A") + "default",
        HOME.replace("/", "%2f") + "default",
        quote(HOME + "default", safe=":"),
    ],
    ids=["one segment", "raw", "raw slash", "raw colons, lower case", "raw colons"],
)
def test_an_arn_is_read_however_it_is_written(http: Http, arn: str) -> None:
    answer = http.get(f"/s3tables/buckets/{arn}")
    assert answer.status_code == 200, answer.text
    assert (answer.json()["arn"], answer.json()["name"]) == (HOME + "default", "default")


@pytest.mark.parametrize(
    "text", ["default", "arn", "arn:aws:s3tables", HOME, HOME + "A", HOME + "x/y", "", "%20", HOME + "x" * 64]
)
def test_what_is_no_arn_is_refused(http: Http, text: str) -> None:
    answer = http.get(f"/s3tables/buckets/{quote(text, safe='')}")
    assert "The specified ARN is not valid" in assert_refused(answer, 400, "BadRequestException")


def test_the_arn_of_a_table_is_none_of_a_bucket(http: Http) -> None:
    answer = http.get(f"/s3tables/buckets/{quote(HOME + 'default/table/x', safe='')}")
    assert "names a table" in assert_refused(answer, 400, "BadRequestException")


@pytest.mark.parametrize(
    "arn",
    [
        HOME + "missing",
        HOME.replace("us-east-1", "eu-central-1") + "default",
        HOME.replace("0" * 12, "1" * 12) + "default",
        HOME.replace("arn:aws:", "arn:aws-cn:") + "default",
        HOME.replace("s3tables", "s3") + "default",
    ],
)
def test_a_bucket_that_is_none_of_ours_is_not_found(http: Http, arn: str) -> None:
    answer = http.get(f"/s3tables/buckets/{quote(arn, safe='')}")
    assert assert_refused(answer, 404, "NotFoundException").startswith("The specified bucket does not exist.")


@pytest.mark.parametrize(
    "path", ["", "/", "/x", "/buckets/a/b/c/d", "/tables", "//", f"/buckets/{DEFAULT}/x", "/%62uckets/y/z"]
)
def test_what_is_no_operation_is_404_in_awss_form(http: Http, path: str) -> None:
    answer = http.get(f"/s3tables{path}")
    assert "is no operation" in assert_refused(answer, 404, UNKNOWN_OPERATION)
    assert "x-amzn-requestid" in answer.headers or path == ""


def test_a_verb_that_no_operation_has_is_404(http: Http) -> None:
    assert_refused(http.post(f"/s3tables/buckets/{DEFAULT}"), 404, UNKNOWN_OPERATION)
    head = http.head(f"/s3tables/buckets/{DEFAULT}")
    assert (head.status_code, head.content) == (404, b"")


@pytest.mark.parametrize("path", ["/buckets/%", "/buckets/%zz", "/buckets/%FF", "/buckets/%00"])
def test_a_path_that_can_not_be_decoded_is_refused(http: Http, path: str) -> None:
    assert_refused(http.get(httpx.URL(f"/s3tables{path}")), 400, "BadRequestException")


def test_every_answer_has_a_request_id(http: Http) -> None:
    for answer in (http.get(f"/s3tables/buckets/{DEFAULT}"), http.get("/s3tables/buckets/x")):
        assert answer.headers["x-amzn-requestid"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("value", ["Bearer None", "AWS4-HMAC-SHA256 nonsense", "x" * 5000, ""])
def test_a_signature_is_not_looked_at(http: Http, value: str) -> None:
    answer = http.get(f"/s3tables/buckets/{DEFAULT}", headers={"Authorization": value})
    assert answer.status_code == 200
