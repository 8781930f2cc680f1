"""Names, bounds and secrecy of the properties of S3 stores."""

import pytest

from table_format.errors import Invalid
from table_format.io.s3_settings import check_plain, for_clients, read_settings, without_secrets

KEYS = {"s3.access-key-id": "the-key", "s3.secret-access-key": "the-secret", "s3.session-token": "the-token"}


def test_iceberg_names() -> None:
    found = read_settings(
        "s3://b/x",
        {
            **KEYS,
            "s3.endpoint": "https://store.example:9000/",
            "client.region": "eu-1",
            "s3.path-style-access": "True",
            "s3.connect-timeout": "2.5",
            "s3.retry.num-retries": "3",
        },
    )
    assert (found.endpoint, found.region, found.path_style) == ("https://store.example:9000", "eu-1", True)
    assert (found.access_key_id, found.secret_access_key, found.session_token) == tuple(KEYS.values())
    assert (found.connect_timeout_seconds, found.retries) == (2.5, 3)


def test_nothing_given_is_amazon_with_the_surroundings_credentials() -> None:
    found = read_settings("s3://b/x", {})
    assert (found.endpoint, found.region, found.path_style, found.access_key_id) == (None, None, None, None)
    assert found.conditional_write
    assert not found.anonymous


def test_the_clients_own_names_of_credentials() -> None:
    found = read_settings("s3://b", {"client.access-key-id": "k", "client.secret-access-key": "s"})
    assert (found.access_key_id, found.secret_access_key) == ("k", "s")


def test_secrets_are_in_no_repr() -> None:
    text = repr(read_settings("s3://b/x", KEYS))
    assert not any(value in text for value in KEYS.values())


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"s3.endpoint": "store:9000"}, "s3.endpoint"),
        ({"s3.endpoint": "https://user:hidden-word@store"}, "s3.endpoint"),
        ({"s3.endpoint": "https://store/path"}, "s3.endpoint"),
        ({"s3.endpoint": "https://store?x=hidden-word"}, "s3.endpoint"),
        ({"s3.endpoint": "https://[hidden-word"}, "s3.endpoint"),
        ({"s3.endpoint": "https://store:99999"}, "s3.endpoint"),
        ({"s3.endpoint": "file:///etc"}, "s3.endpoint"),
        ({"s3.client-endpoint": "nothing"}, "s3.client-endpoint"),
        ({"s3.region": "eu 1"}, "s3.region"),
        ({"s3.path-style-access": "yes"}, "s3.path-style-access"),
        ({"s3.connect-timeout": "soon"}, "s3.connect-timeout"),
        ({"s3.request-timeout": "0"}, "s3.request-timeout"),
        ({"s3.multipart.part-size-bytes": "1024"}, "s3.multipart.part-size-bytes"),
        ({"s3.retry.num-retries": "nan"}, "s3.retry.num-retries"),
        ({"s3.regoin": "eu-1"}, "s3.region"),
        ({"s3.access-key-id": "hidden-word"}, "storage.credentials.NAME"),
        ({"s3.sse.key-secret": "hidden-word"}, "storage.credentials.NAME"),
        ({"adls.sas-token.x": "hidden-word"}, "storage.credentials.NAME"),
    ],
)
def test_what_can_not_be_stored_with_a_bucket(properties: dict[str, str], named: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_plain("s3://b/x", properties)
    assert named in caught.value.message
    assert "hidden-word" not in caught.value.message


def test_half_of_the_credentials_is_refused() -> None:
    with pytest.raises(Invalid, match="given together"):
        read_settings("s3://b", {"s3.access-key-id": "k"})


def test_what_can_be_stored_with_a_bucket() -> None:
    check_plain("s3://b/x", {"s3.endpoint": "http://[::1]:9000", "s3.region": "auto", "s3.anonymous": "true"})


def test_alibaba_by_its_s3_endpoint() -> None:
    found = read_settings("oss://b/x", {"s3.region": "oss-cn-hangzhou"})
    assert (found.endpoint, found.path_style) == ("https://s3.oss-cn-hangzhou.aliyuncs.com", False)
    assert read_settings("oss://b", {"s3.endpoint": "http://other"}).endpoint == "http://other"
    with pytest.raises(Invalid, match=r"s3\.region"):
        read_settings("oss://b/x", {})


def test_what_engines_are_told_holds_no_secret_and_every_name_they_read() -> None:
    told = for_clients(
        {**KEYS, "s3.endpoint": "http://inside:9000", "s3.region": "r", "s3.request-timeout": "3"}
    )
    assert told == {
        "s3.endpoint": "http://inside:9000",
        "s3.region": "r",
        "client.region": "r",
        "s3.path-style-access": "true",
    }
    assert for_clients({"s3.endpoint": "http://inside", "s3.client-endpoint": "https://outside"})[
        "s3.endpoint"
    ] == ("https://outside")
    virtual = for_clients({"s3.path-style-access": "false", "s3.anonymous": "true"})
    assert virtual == {
        "s3.path-style-access": "false",
        "s3.force-virtual-addressing": "true",
        "s3.anonymous": "true",
    }
    assert for_clients({}) == {}


def test_secrets_are_left_out() -> None:
    assert without_secrets({**KEYS, "s3.region": "r", "adls.account-key": "x"}) == {"s3.region": "r"}
