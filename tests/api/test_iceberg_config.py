"""Where a client begins: config, tokens, routes that are not there."""

from urllib.parse import quote

import pytest

from catalog_server.api.iceberg.router import ENDPOINTS
from tests.api.iceberg_client import Catalog, Http, assert_error


def test_config_names_the_prefix_and_the_endpoints(http: Http) -> None:
    body = http.get("/iceberg/v1/config").json()
    assert body["overrides"] == {"prefix": "default"}
    assert body["defaults"] == {}
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in body["endpoints"]
    assert "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}" in body["endpoints"]
    assert "POST /v1/{prefix}/transactions/commit" in body["endpoints"]


@pytest.mark.parametrize(
    "warehouse", ["", "default", "arn:aws:s3tables:us-east-1:000000000000:bucket/default"]
)
def test_config_takes_a_name_an_arn_or_nothing(http: Http, warehouse: str) -> None:
    answer = http.get(f"/iceberg/v1/config?warehouse={quote(warehouse)}")
    assert answer.status_code == 200
    assert answer.json()["overrides"]["prefix"] == "default"


@pytest.mark.parametrize("warehouse", ["nowhere", "s3://x/y", "%2F", "a%20b", "arn:aws:s3:::x"])
def test_an_unknown_warehouse_is_a_404(http: Http, warehouse: str) -> None:
    assert_error(http.get(f"/iceberg/v1/config?warehouse={warehouse}"), 404, "NoSuchWarehouseException")


def test_R22_config_members_are_objects_and_never_null(http: Http) -> None:
    body = http.get("/iceberg/v1/config").json()
    assert isinstance(body["defaults"], dict)
    assert isinstance(body["overrides"], dict)
    assert isinstance(body["endpoints"], list)
    assert "idempotency-key-lifetime" not in body["defaults"]
    assert "idempotency-key-lifetime" not in body["overrides"]


def test_R34_every_advertised_endpoint_is_routed_and_those_of_views_are_advertised(http: Http) -> None:
    endpoints = http.get("/iceberg/v1/config").json()["endpoints"]
    assert endpoints == list(ENDPOINTS)
    namespace = "/v1/{prefix}/namespaces/{namespace}"
    assert {endpoint for endpoint in endpoints if "view" in endpoint} == {
        f"GET {namespace}/views",
        f"POST {namespace}/views",
        f"GET {namespace}/views/{{view}}",
        f"HEAD {namespace}/views/{{view}}",
        f"POST {namespace}/views/{{view}}",
        f"DELETE {namespace}/views/{{view}}",
        f"POST {namespace}/register-view",
        "POST /v1/{prefix}/views/rename",
    }
    for endpoint in endpoints:
        method, template = endpoint.split(" ")
        named = {"namespace": "no_such", "table": "no_such", "view": "no_such", "plan-id": "no_such"}
        path = template.format(prefix="default", **named)
        answer = http.request(method, f"/iceberg{path}")
        if method == "HEAD":
            assert answer.status_code == 404
        elif path.endswith("/namespaces"):
            assert answer.status_code in {200, 400}
        else:
            # 404 for the missing thing, or 400 for the missing body: never 404 for the route, never 405.
            assert answer.status_code in {400, 404}, endpoint
            assert answer.json()["error"]["type"] != "NotFoundException", endpoint


def test_tokens_are_given_to_any_credential(http: Http) -> None:
    form = {"grant_type": "client_credentials", "client_id": "a", "client_secret": "b", "scope": "catalog"}
    body = http.post("/iceberg/v1/oauth/tokens", data=form).json()
    assert body["token_type"] == "bearer"
    assert body["expires_in"] > 0
    assert body["access_token"]
    exchange = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": body["access_token"],
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }
    assert (
        http.post("/iceberg/v1/oauth/tokens", data=exchange)
        .json()["issued_token_type"]
        .endswith("access_token")
    )


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "invalid_request"),
        (b"grant_type=password", "unsupported_grant_type"),
        (b"\xff", "invalid_request"),
        (b"grant_type=%ff", "invalid_request"),
        (b"x" * 100_000, "invalid_request"),
        (b"&".join(b"a=%d" % n for n in range(1000)), "invalid_request"),
    ],
)
def test_token_errors_have_the_oauth_form(http: Http, body: bytes, error: str) -> None:
    answer = http.post("/iceberg/v1/oauth/tokens", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"] == error


def test_unknown_paths_and_methods_have_the_envelope(http: Http, catalog: Catalog) -> None:
    for path in (
        "",
        "/",
        "/v1",
        "/v1/",
        "/v1/nowhere",
        "/v2/config",
        "/v1/default/namespaces/a/b/c",
        "//",
        "/v1//x",
    ):
        assert_error(http.get(f"/iceberg{path}"), 404, "NotFoundException")
    for method, path in (
        ("PUT", "/v1/config"),
        ("DELETE", "/v1/config"),
        ("PATCH", "/v1/default/namespaces/a/tables/t"),
        ("PUT", "/v1/default/namespaces"),
        ("GET", "/v1/default/transactions/commit"),
        ("GET", "/v1/oauth/tokens"),
        ("OPTIONS", "/v1/default/namespaces/a"),
    ):
        answer = http.request(method, f"/iceberg{path}")
        assert_error(answer, 405, "MethodNotAllowedException")
        assert answer.headers["allow"]


def test_an_unknown_prefix_is_a_404_of_the_warehouse(http: Http) -> None:
    assert_error(http.get("/iceberg/v1/nowhere/namespaces"), 404, "NoSuchWarehouseException")
    assert_error(http.get("/iceberg/v1/nowhere/namespaces/a/tables/t"), 404, "NoSuchWarehouseException")


@pytest.mark.in_process
@pytest.mark.parametrize(
    "authorization", ["Bearer None", "Bearer ", "Basic x", "nonsense", "Bearer " + "x" * 3000]
)
def test_authorization_is_not_looked_at(http: Http, authorization: str) -> None:
    assert http.get("/iceberg/v1/config", headers={"Authorization": authorization}).status_code == 200


def test_every_answer_carries_a_request_id(http: Http) -> None:
    assert (
        http.get("/iceberg/v1/config", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
    )
    strange = http.get("/iceberg/v1/config", headers={"X-Request-Id": "a b"}).headers["x-request-id"]
    assert len(strange) == 36
