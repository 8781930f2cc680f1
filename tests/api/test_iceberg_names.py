"""Names that need encoding: every one comes back as it was given, or is refused cleanly."""

import pytest

from tests.api.iceberg_client import Catalog, Http, assert_error, segment

ODD_NAMES = [
    "with space",
    "dot.ted",
    "slash/ed",
    "per%cent",
    "%41",
    "%2F",
    "pl+us",
    "grüße",
    "水",
    "🧊",
    "...",
    "a&b=c?d#e",
    'quo"te',
    "back\\slash",
    "semi;colon",
    " leading",
    "trailing ",
    "UPPER",
    "upper",
    "x" * 200,
]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "new\nline", "tab\t", "zero\0", "level\x1fs", "\x7f", "x" * 5000]
)
def test_R28_names_that_no_url_or_person_can_carry_are_refused(
    http: Http, catalog: Catalog, name: str
) -> None:
    levels = catalog.new_namespace()
    assert_error(catalog.create(levels, name), 400, "BadRequestException")
    answer = http.post(f"{catalog.base}/namespaces", json={"namespace": [*levels, name]})
    assert_error(answer, 400, "BadRequestException")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_R28_a_table_of_any_name_round_trips(http: Http, catalog: Catalog, name: str) -> None:
    levels = catalog.new_namespace()
    created = catalog.create(levels, name)
    assert created.status_code == 200, created.text
    location = created.json()["metadata"]["location"]
    assert set(location) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/")
    assert http.head(catalog.table(levels, name)).status_code == 204
    assert http.get(catalog.table(levels, name)).json() == created.json()
    listed = http.get(catalog.tables(levels)).json()["identifiers"]
    assert listed == [{"namespace": list(levels), "name": name}]
    commit = catalog.commit(levels, name, [{"action": "set-properties", "updates": {"k": "v"}}], [])
    assert commit.status_code == 200, commit.text
    target = {"namespace": list(levels), "name": name + "2"}
    body = {"source": {"namespace": list(levels), "name": name}, "destination": target}
    assert http.post(f"{catalog.base}/tables/rename", json=body).status_code == 204
    assert http.delete(catalog.table(levels, name + "2")).status_code == 204


@pytest.mark.parametrize("name", ODD_NAMES)
def test_R28_a_namespace_of_any_name_round_trips(http: Http, catalog: Catalog, name: str) -> None:
    top = catalog.new_namespace()
    levels = catalog.new_namespace(*top, name)
    path = f"{catalog.base}/namespaces/{segment(*levels)}"
    assert http.get(path).json()["namespace"] == list(levels)
    listed = http.get(f"{catalog.base}/namespaces?parent={segment(*top)}").json()["namespaces"]
    assert listed == [list(levels)]
    assert http.get(f"{catalog.base}/namespaces?parent={segment(*levels)}").json()["namespaces"] == []
    assert catalog.create(levels, "t").status_code == 200
    assert http.delete(catalog.table(levels, "t")).status_code == 204
    assert http.delete(path).status_code == 204


def test_a_plus_is_a_space_or_else_a_plus(http: Http, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    catalog.create(levels, "a b")
    catalog.create(levels, "c+d")
    catalog.create(levels, "e f")
    catalog.create(levels, "e+f")

    def uuid(raw: str) -> str:
        found: str = http.get(f"{catalog.tables(levels)}/{raw}").json()["metadata"]["table-uuid"]
        return found

    assert uuid("a+b") == uuid("a%20b")
    assert uuid("c+d") == uuid("c%2Bd")
    assert uuid("e+f") == uuid("e%20f") != uuid("e%2Bf")
    assert http.head(f"{catalog.tables(levels)}/c+d").status_code == 204
    assert_error(http.get(f"{catalog.tables(levels)}/g+h"), 404, "NoSuchTableException")
    assert http.delete(f"{catalog.tables(levels)}/c+d").status_code == 204


def test_R28_dots_and_separators_are_different_things(http: Http, catalog: Catalog) -> None:
    top = catalog.new_namespace()
    catalog.new_namespace(*top, "a")
    catalog.new_namespace(*top, "a", "b")
    catalog.new_namespace(*top, "a.b")
    catalog.create((*top, "a", "b"), "nested")
    catalog.create((*top, "a.b"), "dotted")
    nested = http.get(catalog.tables((*top, "a", "b"))).json()["identifiers"]
    dotted = http.get(catalog.tables((*top, "a.b"))).json()["identifiers"]
    assert [entry["name"] for entry in nested] == ["nested"]
    assert [entry["name"] for entry in dotted] == ["dotted"]


@pytest.mark.parametrize(
    "raw",
    [
        "%00",
        "a%00b",
        "%ff",
        "%C0%AF",
        "%E0%80%AF",
        "%ED%A0%80",
        "%zz",
        "%",
        "a%1",
        "%1F",
        "a%1F",
        "%1Fa",
        "a%1F%1Fb",
    ],
)
def test_path_nonsense_is_400(http: Http, catalog: Catalog, raw: str) -> None:
    for path in (f"{catalog.base}/namespaces/{raw}", f"{catalog.base}/namespaces/{raw}/tables/t"):
        for method in ("GET", "DELETE"):
            assert_error(raw_request(http, method, path), 400, "BadRequestException")


def raw_request(http: Http, method: str, path: str):
    """A request whose path is sent as written (httpx would re-encode a lone percent sign)."""
    url = http.base_url.copy_with(raw_path=path.encode("latin-1"))
    return http.request(method, url)
