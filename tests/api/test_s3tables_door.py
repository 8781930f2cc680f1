"""The door of the S3 Tables API: paths told apart before they are decoded, errors in AWS's form, bodies bounded."""

import gzip
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from catalog_server.api.s3tables.errors import UNKNOWN_OPERATION
from tests.api.iceberg_client import Catalog, Http, in_process

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
    assert answer.headers["x-amzn-requestid"] == answer.headers["x-request-id"]


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


WORDS = ("policy", "maintenance", "table", "rename", "encryption", "buckets", "tag")


@pytest.mark.parametrize("arn", [DEFAULT, HOME + "default"], ids=["encoded", "raw"])
def test_words_of_paths_can_be_names(http: Http, catalog: Catalog, arn: str) -> None:
    """A name is told from a word by its place alone, however the ARN before it is written."""
    for word in WORDS:
        made = http.put(f"/s3tables/namespaces/{arn}", json={"namespace": [word]})
        assert made.status_code in (200, 409), made.text  # the second time it is there
        if made.status_code == 200:
            assert catalog.create((word,), word).status_code == 200
        found = http.get(f"/s3tables/namespaces/{arn}/{word}")
        assert found.json()["namespace"] == [word]
        policy = {"resourcePolicy": f'{{"Statement": [], "Id": "{word}"}}'}
        put = http.put(f"/s3tables/tables/{arn}/{word}/{word}/policy", json=policy)
        assert (put.status_code, put.content) == (200, b"")
        assert http.get(f"/s3tables/tables/{arn}/{word}/{word}/policy").json() == policy


def test_the_arn_of_a_table_is_read_with_its_slashes_as_they_are(http: Http, catalog: Catalog) -> None:
    _, loaded = catalog.new_table()
    arn = f"{HOME}default/table/{loaded['metadata']['table-uuid']}"
    for number, written in enumerate((arn, quote(arn, safe=""), arn.replace("/", "%2F", 1))):
        tagged = http.post(f"/s3tables/tag/{written}", json={"tags": {f"k{number}": ""}})
        assert (tagged.status_code, tagged.json()) == (200, {})
    assert http.get(f"/s3tables/tag/{arn}").json() == {"tags": {"k0": "", "k1": "", "k2": ""}}
    assert http.get(f"/s3tables/tag/{HOME}default").json() == {"tags": {}}


def test_a_namespace_called_table_is_no_part_of_an_arn(http: Http) -> None:
    """`…/bucket/default/table/x` in a path to a namespace names a table `x` nowhere but under /tag."""
    assert_refused(http.get(f"/s3tables/namespaces/{HOME}default/table/x"), 404, UNKNOWN_OPERATION)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "the body is empty"),
        (b"{", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"namespace": ["x"], "Namespace": ["x"]}', "Value 'Namespace' at 'body'"),
        (b'{"namespace": null}', "Value null at 'namespace'"),
        (b'{"namespace": "x"}', "be an array"),
        (b'{"namespace": [1]}', "Value '1' at 'namespace.1.member'"),
        (b'{"namespace": ["\\ud800"]}', "not valid JSON"),
        (b'{"namespace": ["\\ud800"], "x": 99999999999999999999}', "Value 'x' at 'body'"),
        (b'{"\\ud800": 99999999999999999999}', "Value '\\ud800' at 'body'"),
        (b"\xff", "not valid JSON"),
    ],
)
def test_a_body_is_read_strictly(http: Http, body: bytes, text: str) -> None:
    answer = http.put(f"/s3tables/namespaces/{DEFAULT}", content=body)
    assert text in assert_refused(answer, 400, "BadRequestException")


def test_half_a_character_is_told_of(http: Http) -> None:
    """Text with a number beyond 64 bits is read by a parser that takes such halves."""
    body = b'{"resourcePolicy": "{}", "resourcePolicy": "\\ud800", "x": null, "y": [99999999999999999999]}'
    answer = http.put(f"/s3tables/buckets/{DEFAULT}/policy", content=body.replace(b'"y"', b'"x"'))
    assert_refused(answer, 400, "BadRequestException")
    body = b'{"tags": {"\\ud800": "v", "b": 99999999999999999999}}'
    answer = http.post(f"/s3tables/tag/{DEFAULT}", content=body)
    assert_refused(answer, 400, "BadRequestException")


def test_a_body_may_come_as_gzip(http: Http) -> None:
    body = gzip.compress(b'{"namespace": ["packed"]}')
    headers = {"Content-Encoding": "gzip"}
    assert http.put(f"/s3tables/namespaces/{DEFAULT}", content=body, headers=headers).json()["namespace"] == [
        "packed"
    ]
    headers = {"Content-Encoding": "br"}
    refused = http.put(f"/s3tables/namespaces/{DEFAULT}", content=body, headers=headers)
    assert "Content-Encoding" in assert_refused(refused, 400, "BadRequestException")


@pytest.mark.in_process
def test_bodies_are_bounded(tmp_path: Path) -> None:
    with in_process(tmp_path, **{"limits.max_body_mb": 1, "limits.max_body_values": 1000}) as (http, _):
        for body in (b" " * (1 << 20) + b"{}", b'{"tags": {' + b'"a": "b",' * 1001 + b'"a": "b"}}'):
            answer = http.post(f"/s3tables/tag/{DEFAULT}", content=body)
            assert "too large" in assert_refused(answer, 400, "BadRequestException")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/buckets?maxBuckets=x", "Value 'x' at 'maxBuckets'"),
        ("/buckets?maxBuckets=" + "9" * 400, "be a whole number"),
        ("/buckets?continuationToken=", "Value '' at 'continuationToken'"),
        ("/buckets?prefix=%FF", "percent-encoded UTF-8"),
        ("/buckets?prefix=%00", "zero byte"),
        ("/buckets?" + "&".join(f"a{n}=1" for n in range(300)), "at most 200 parameters"),
        (f"/tag/{DEFAULT}", "Value null at 'tagKeys'"),
    ],
)
def test_a_query_is_read_strictly(http: Http, path: str, text: str) -> None:
    verb = "DELETE" if path.startswith("/tag") else "GET"
    answer = http.request(verb, httpx.URL(f"/s3tables{path}"))
    assert text in assert_refused(answer, 400, "BadRequestException")


def test_a_parameter_that_nobody_knows_is_passed_over(http: Http) -> None:
    assert http.get("/s3tables/buckets?x-id=ListTableBuckets&maxBuckets=1").status_code == 200


@pytest.mark.in_process
def test_a_database_that_is_away_is_a_500_that_can_be_tried_again(tmp_path: Path) -> None:
    with in_process(tmp_path) as (http, platform):
        http.portal.call(platform.database.close)
        (tmp_path / "data" / "frazil.db").unlink()
        (tmp_path / "data" / "frazil.db").mkdir()
        answer = http.get(f"/s3tables/buckets/{DEFAULT}")
        assert_refused(answer, 500, "InternalServerErrorException")


@pytest.mark.in_process
def test_another_region_and_account_are_the_settings(tmp_path: Path) -> None:
    wanted = {"s3tables.region": "eu-north-1", "s3tables.account_id": "123456789012"}
    with in_process(tmp_path, **wanted) as (http, _):
        arn = "arn:aws:s3tables:eu-north-1:123456789012:bucket/default"
        found = http.get(f"/s3tables/buckets/{quote(arn, safe='')}").json()
        assert (found["arn"], found["ownerAccountId"]) == (arn, "123456789012")
        assert_refused(http.get(f"/s3tables/buckets/{DEFAULT}"), 404, "NotFoundException")


@pytest.mark.in_process
def test_an_error_nobody_expected_is_awss_500(tmp_path: Path) -> None:
    def broken(_: object) -> object:
        raise RuntimeError("a fault of ours")

    with in_process(tmp_path) as (http, platform):
        object.__setattr__(platform.buckets, "get", broken)
        answer = http.get(f"/s3tables/buckets/{DEFAULT}")
        message = assert_refused(answer, 500, "InternalServerErrorException")
        assert answer.headers["x-amzn-requestid"] in message
        assert "a fault of ours" not in message
