"""The token endpoint: it works without accounts, and refuses malformed forms as OAuth does."""

import pytest

from tests.api.iceberg_client import Http

TOKENS = "/iceberg/v1/oauth/tokens"
TYPE = "urn:ietf:params:oauth:token-type:"
CREDENTIALS = {"grant_type": "client_credentials", "client_id": "a", "client_secret": "b", "scope": "catalog"}
EXCHANGE = {
    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
    "subject_token": "x",
    "subject_token_type": TYPE + "jwt",
}


@pytest.mark.parametrize(
    ("form", "headers"),
    [
        (CREDENTIALS, {}),
        ({"grant_type": "client_credentials", "client_secret": "only"}, {}),
        ({"grant_type": "client_credentials"}, {"Authorization": "Basic YTpi"}),
        (EXCHANGE, {"Authorization": "Bearer None"}),
        ({**EXCHANGE, "actor_token": "y", "actor_token_type": TYPE + "access_token"}, {}),
        ({**EXCHANGE, "requested_token_type": TYPE + "access_token", "scope": ""}, {}),
    ],
    ids=["credentials", "secret-only", "basic", "exchange", "actor", "requested-type"],
)
def test_every_credential_gets_a_token(http: Http, form: dict[str, str], headers: dict[str, str]) -> None:
    answer = http.post(TOKENS, data=form, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert body["access_token"]
    assert body["token_type"] == "bearer"
    assert body["issued_token_type"] == TYPE + "access_token"
    assert isinstance(body["expires_in"], int)
    assert body["expires_in"] > 0
    assert body["scope"] == "catalog"


@pytest.mark.parametrize(
    ("form", "status", "error"),
    [
        ({"grant_type": ""}, 400, "invalid_request"),
        ({"scope": "catalog"}, 400, "invalid_request"),
        ({"grant_type": "password", "username": "a"}, 400, "unsupported_grant_type"),
        ({"grant_type": "refresh_token", "refresh_token": "a"}, 400, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, 401, "invalid_client"),
        ({"grant_type": "client_credentials", "client_id": "a", "client_secret": ""}, 401, "invalid_client"),
        ({**EXCHANGE, "subject_token": ""}, 400, "invalid_request"),
        ({**EXCHANGE, "subject_token_type": "jwt"}, 400, "invalid_request"),
        ({**EXCHANGE, "actor_token": "y"}, 400, "invalid_request"),
        ({**EXCHANGE, "requested_token_type": TYPE + "saml2"}, 400, "invalid_request"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else None,
)
def test_a_form_that_lacks_something_is_told_what(
    http: Http, form: dict[str, str], status: int, error: str
) -> None:
    answer = http.post(TOKENS, data=form)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert answer.json()["error_description"]
    assert ("www-authenticate" in answer.headers) == (status == 401)


def test_a_body_that_is_no_form_is_refused(http: Http) -> None:
    twice = "grant_type=client_credentials&client_secret=a&client_secret=b"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for content, headers in ((twice, form), ('{"grant_type": "x"}', {"Content-Type": "application/json"})):
        answer = http.post(TOKENS, content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
