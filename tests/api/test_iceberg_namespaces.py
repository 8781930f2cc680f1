"""Namespaces over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.api.iceberg_client import SCHEMA, Catalog, Http, assert_error, in_process, segment


def test_create_load_and_drop(http: Http, catalog: Catalog) -> None:
    created = http.post(
        f"{catalog.base}/namespaces", json={"namespace": ["made"], "properties": {"owner": "ada"}}
    )
    assert created.status_code == 200
    assert created.json()["namespace"] == ["made"]
    assert created.json()["properties"]["owner"] == "ada"
    loaded = http.get(f"{catalog.base}/namespaces/made")
    assert loaded.json() == created.json()
    assert http.delete(f"{catalog.base}/namespaces/made").status_code == 204
    assert_error(http.get(f"{catalog.base}/namespaces/made"), 404, "NoSuchNamespaceException")


def test_second_create_is_409(http: Http, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    again = http.post(f"{catalog.base}/namespaces", json={"namespace": list(levels)})
    assert assert_error(again, 409, "AlreadyExistsException").startswith("Namespace already exists")


def test_R16_namespace_not_empty(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    path = f"{catalog.base}/namespaces/{segment(*levels)}"
    assert "is not empty" in assert_error(http.delete(path), 409, "NamespaceNotEmptyException")
    parent = catalog.new_namespace()
    catalog.new_namespace(*parent, "child")
    path = f"{catalog.base}/namespaces/{segment(*parent)}"
    assert "is not empty" in assert_error(http.delete(path), 409, "NamespaceNotEmptyException")
    assert http.delete(f"{catalog.base}/namespaces/{segment(*parent, 'child')}").status_code == 204
    assert http.delete(path).status_code == 204


def test_R19_head_has_no_body_and_a_missing_parent_is_404(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    for path, status in (
        (f"{catalog.base}/namespaces/{segment(*levels)}", 204),
        (f"{catalog.base}/namespaces/missing", 404),
        (catalog.table(levels, "t"), 204),
        (catalog.table(levels, "missing"), 404),
        (catalog.table(("missing",), "t"), 404),
    ):
        answer = http.head(path)
        assert (answer.status_code, answer.content) == (status, b""), path
    listing = http.get(f"{catalog.base}/namespaces?parent=missing")
    assert_error(listing, 404, "NoSuchNamespaceException")
    assert_error(http.get(f"{catalog.base}/namespaces/missing/tables"), 404, "NoSuchNamespaceException")


def test_R20_a_missing_namespace_is_named(http: Http, catalog: Catalog) -> None:
    message = assert_error(http.get(f"{catalog.base}/namespaces/a%1Fb"), 404, "NoSuchNamespaceException")
    assert message == "Namespace does not exist: a.b"


def test_R29_properties_are_always_an_object(http: Http, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    assert isinstance(http.get(f"{catalog.base}/namespaces/{segment(*levels)}").json()["properties"], dict)


def test_properties_are_set_and_removed(http: Http, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    path = f"{catalog.base}/namespaces/{segment(*levels)}/properties"
    answer = http.post(path, json={"updates": {"a": "1", "b": "2"}})
    assert answer.json() == {"updated": ["a", "b"], "removed": [], "missing": []}
    answer = http.post(path, json={"updates": {"c": "3"}, "removals": ["a", "zz"]})
    assert answer.json() == {"updated": ["c"], "removed": ["a"], "missing": ["zz"]}
    properties = http.get(f"{catalog.base}/namespaces/{segment(*levels)}").json()["properties"]
    assert {key: properties.get(key) for key in "abc"} == {"a": None, "b": "2", "c": "3"}
    both = http.post(path, json={"updates": {"x": "1"}, "removals": ["x"]})
    assert_error(both, 422, "UnprocessableEntityException")
    missing = http.post(f"{catalog.base}/namespaces/missing/properties", json={"updates": {"x": "1"}})
    assert_error(missing, 404, "NoSuchNamespaceException")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"namespace": []},
        {"namespace": "a"},
        {"namespace": [1]},
        {"namespace": [""]},
        {"namespace": [None]},
        {"namespace": ["a\u001fb"]},
        {"namespace": ["a\u0000"]},
        {"Namespace": ["a"]},
        {"namespace": ["a"], "properties": []},
        {"namespace": ["a"], "properties": {"x": 1}},
        {"namespace": ["a"], "properties": {"x": None}},
    ],
)
def test_malformed_creates_are_400(http: Http, catalog: Catalog, body: object) -> None:
    assert_error(http.post(f"{catalog.base}/namespaces", json=body), 400, "BadRequestException")


def test_children_of_a_parent_that_is_missing(http: Http, catalog: Catalog) -> None:
    answer = http.post(f"{catalog.base}/namespaces", json={"namespace": ["missing", "child"]})
    assert_error(answer, 404, "NoSuchNamespaceException")


def test_listing_shows_direct_children_only(http: Http, catalog: Catalog) -> None:
    parent = catalog.new_namespace()
    catalog.new_namespace(*parent, "a")
    catalog.new_namespace(*parent, "a", "deep")
    catalog.new_namespace(*parent, "b.c")
    # A sibling whose name begins alike is no child.
    catalog.new_namespace(parent[0] + "x")
    listed = http.get(f"{catalog.base}/namespaces?parent={segment(*parent)}").json()
    assert sorted(listed["namespaces"]) == [[*parent, "a"], [*parent, "b.c"]]
    assert listed.get("next-page-token") is None
    top = http.get(f"{catalog.base}/namespaces").json()["namespaces"]
    assert list(parent) in top
    assert all(len(levels) == 1 for levels in top)


def test_a_parent_that_is_encoded_twice_is_understood(http: Http, catalog: Catalog) -> None:
    parent = catalog.new_namespace()
    inner = catalog.new_namespace(*parent, "in ner%41")
    catalog.new_namespace(*inner, "x")
    twice = quote(segment(*inner), safe="")
    assert http.get(f"{catalog.base}/namespaces?parent={twice}").json()["namespaces"] == [[*inner, "x"]]
    missing = http.get(f"{catalog.base}/namespaces?parent=missing%2541")
    assert assert_error(missing, 404, "NoSuchNamespaceException") == "Namespace does not exist: missing%41"


def test_pages_cover_everything_once_while_entries_go(http: Http, catalog: Catalog) -> None:
    parent = catalog.new_namespace()
    names = [f"n{number:02}" for number in range(11)]
    for name in names:
        catalog.new_namespace(*parent, name)
    url = f"{catalog.base}/namespaces?parent={segment(*parent)}&pageSize=3"
    seen: list[str] = []
    page = http.get(f"{url}&pageToken=").json()
    while True:
        seen += [levels[-1] for levels in page["namespaces"]]
        assert len(page["namespaces"]) <= 3
        token = page["next-page-token"]
        if token is None:
            break
        assert token
        # What was listed already goes away: nothing that follows may be skipped.
        http.delete(f"{catalog.base}/namespaces/{segment(*parent, page['namespaces'][0][-1])}")
        page = http.get(
            url, params={"parent": "\x1f".join(parent), "pageSize": "3", "pageToken": token}
        ).json()
    assert seen == names


@pytest.mark.parametrize(
    "query", ["pageSize=0", "pageSize=-1", "pageSize=x", "pageSize=1.5", "pageToken=nonsense"]
)
def test_odd_paging_is_400(http: Http, catalog: Catalog, query: str) -> None:
    assert_error(http.get(f"{catalog.base}/namespaces?{query}"), 400, "BadRequestException")
    levels = catalog.new_namespace()
    assert_error(http.get(f"{catalog.tables(levels)}?{query}"), 400, "BadRequestException")


@pytest.fixture
def dotted(tmp_path: Path) -> Iterator[Catalog]:
    """A server that announces a dot between levels."""
    with in_process(tmp_path, **{"iceberg.namespace_separator": "."}) as (http, _):
        yield Catalog(http)


def test_another_separator_is_announced_and_understood_beside_the_usual_one(dotted: Catalog) -> None:
    http, base = dotted.http, dotted.base
    overrides = http.get("/iceberg/v1/config").json()["overrides"]
    assert overrides == {"prefix": "default", "namespace-separator": "."}
    dotted.new_namespace("a")
    dotted.new_namespace("a", "b")
    for both in ("a.b", "a%2Eb", "a%1Fb"):
        assert http.get(f"{base}/namespaces/{both}").json()["namespace"] == ["a", "b"]
        made = http.post(
            f"{base}/namespaces/{both}/tables", json={"name": f"t.{both[1:3]}", "schema": SCHEMA}
        )
        assert made.status_code == 200, made.text
        assert http.get(f"{base}/namespaces?parent={both}").json()["namespaces"] == []
    assert http.get(f"{base}/namespaces?parent=a").json()["namespaces"] == [["a", "b"]]
    names = [entry["name"] for entry in http.get(f"{base}/namespaces/a.b/tables").json()["identifiers"]]
    assert set(names) == {"t.%1", "t.%2", "t..b"}
    assert http.get(f"{base}/namespaces/a..b").status_code == 400


def test_a_level_that_holds_the_separator_could_not_be_addressed(dotted: Catalog) -> None:
    answer = dotted.http.post(f"{dotted.base}/namespaces", json={"namespace": ["a.b"]})
    assert "'.'" in assert_error(answer, 400, "BadRequestException")


def test_the_usual_separator_is_not_announced(http: Http) -> None:
    assert "namespace-separator" not in http.get("/iceberg/v1/config").json()["overrides"]


def test_half_a_character_in_a_property_is_refused(http: Http) -> None:
    """A number beyond 64 bits has the body read by a parser that takes such halves."""
    body = b'{"namespace": ["halves"], "properties": {"a": "\\ud800"}, "x": 99999999999999999999}'
    answer = http.post("/iceberg/v1/default/namespaces", content=body)
    assert "half a character" in assert_error(answer, 400, "BadRequestException")
