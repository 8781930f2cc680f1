"""Paths and the templates that they follow."""

import pytest

from catalog_server.api.paths import Paths

PATHS = Paths(
    [
        ("/v1/{prefix}/namespaces/{namespace}/tables/{table}", "table"),
        ("/v1/{prefix}/namespaces/{namespace}/views/{view}", "view"),
        ("/v1/{prefix}/namespaces/{namespace}", "namespace"),
        ("/v1/{prefix}/tables/rename", "rename"),
        ("/v1/{prefix}/namespaces", "namespaces"),
        ("/v1/oauth/tokens", "tokens"),
        ("/v1/config", "config"),
    ]
)


@pytest.mark.parametrize(
    ("path", "target", "names"),
    [
        ("/v1/b/namespaces/n/tables/t", "table", {"prefix": "b", "namespace": "n", "table": "t"}),
        ("/v1/b/namespaces/n/views/t", "view", {"prefix": "b", "namespace": "n", "view": "t"}),
        ("/v1/b/namespaces/a%1Fb%2Fc", "namespace", {"prefix": "b", "namespace": "a%1Fb%2Fc"}),
        ("/v1/b/tables/rename", "rename", {"prefix": "b"}),
        (
            "/v1/namespaces/namespaces/namespaces",
            "namespace",
            {"prefix": "namespaces", "namespace": "namespaces"},
        ),
        ("/v1/oauth/namespaces", "namespaces", {"prefix": "oauth"}),
        ("/v1/oauth/tokens", "tokens", {}),
        ("/v1/config", "config", {}),
    ],
)
def test_a_path_is_found_with_its_names(path: str, target: str, names: dict[str, str]) -> None:
    assert PATHS.find(path) == (target, names)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/v1",
        "/v1/",
        "/v1/config/",
        "v1/config",
        "/v1//config",
        "/V1/config",
        "/v1/b/namespaces/",
        "/v1//namespaces",
    ],
)
def test_any_other_path_is_not_found(path: str) -> None:
    assert PATHS.find(path) is None


def test_of_two_templates_the_first_counts() -> None:
    assert Paths([("/{a}/b", 1), ("/a/{b}", 2)]).find("/a/b") == (1, {"a": "a"})
