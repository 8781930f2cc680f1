"""Listings in pages while entries come and go: what stays is listed exactly once, and nothing is listed twice."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.iceberg_client import Catalog, Http, in_process, segment
from tests.factories.views import SCHEMA as VIEW_SCHEMA
from tests.factories.views import version

NAMES = st.sampled_from([
    "a", "A", "aa", "a b", "a.b", "ab", "b", "z", "Z", "_", "~", "é", "水", "🧊", "\U0010ffff", "a\ufffd", "10", "9",
])  # fmt: skip
CHANGES = st.lists(st.tuples(st.sampled_from(["make", "drop"]), NAMES), max_size=4)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with in_process(tmp_path_factory.mktemp("pages")) as (http, _):
        yield Catalog(http)


class Listing:
    """One kind of thing in a fresh namespace: made, dropped, and listed."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.http: Http = catalog.http
        self.levels = catalog.new_namespace()

    def make(self, name: str) -> None:
        raise AssertionError

    def path(self, name: str) -> str:
        raise AssertionError

    def drop(self, name: str) -> None:
        assert self.http.delete(self.path(name)).status_code == 204

    def page(self, params: dict[str, Any]) -> tuple[list[str], str | None]:
        raise AssertionError


class Tables(Listing):
    def make(self, name: str) -> None:
        assert self.catalog.create(self.levels, name).status_code == 200

    def path(self, name: str) -> str:
        return self.catalog.table(self.levels, name)

    def page(self, params: dict[str, Any]) -> tuple[list[str], str | None]:
        body = self.http.get(self.catalog.tables(self.levels), params=params).json()
        return [entry["name"] for entry in body["identifiers"]], body["next-page-token"]


class Views(Listing):
    def all(self) -> str:
        return f"{self.catalog.base}/namespaces/{segment(*self.levels)}/views"

    def make(self, name: str) -> None:
        body = {"name": name, "schema": VIEW_SCHEMA, "view-version": version(), "properties": {}}
        assert self.http.post(self.all(), json=body).status_code == 200

    def path(self, name: str) -> str:
        return f"{self.all()}/{segment(name)}"

    def page(self, params: dict[str, Any]) -> tuple[list[str], str | None]:
        body = self.http.get(self.all(), params=params).json()
        return [entry["name"] for entry in body["identifiers"]], body["next-page-token"]


class Namespaces(Listing):
    def make(self, name: str) -> None:
        self.catalog.new_namespace(*self.levels, name)

    def path(self, name: str) -> str:
        return f"{self.catalog.base}/namespaces/{segment(*self.levels, name)}"

    def page(self, params: dict[str, Any]) -> tuple[list[str], str | None]:
        asked = {"parent": "\x1f".join(self.levels), **params}
        body = self.http.get(f"{self.catalog.base}/namespaces", params=asked).json()
        return [entry[-1] for entry in body["namespaces"]], body["next-page-token"]


class ManagedTables(Tables):
    """The same tables through the management API, of the whole bucket: others' are passed over."""

    def page(self, params: dict[str, Any]) -> tuple[list[str], str | None]:
        asked = {"pageSize": params["pageSize"]}
        if params["pageToken"]:
            asked["pageToken"] = params["pageToken"]
        body = self.http.get("/api/v1/buckets/default/tables", params=asked).json()
        mine = [table["name"] for table in body["tables"] if table["namespace"] == list(self.levels)]
        return mine, body["nextPageToken"]


@pytest.mark.parametrize("kind", [Tables, Views, Namespaces, ManagedTables])
@settings(max_examples=8, deadline=None)
@given(before=st.sets(NAMES), between=st.lists(CHANGES, max_size=6), size=st.integers(1, 4))
def test_what_stays_is_listed_once_and_nothing_twice(
    catalog: Catalog,
    kind: Callable[[Catalog], Listing],
    before: set[str],
    between: list[list[tuple[str, str]]],
    size: int,
) -> None:
    listing = kind(catalog)
    for name in sorted(before):
        listing.make(name)
    there, stayed, ever = set(before), set(before), set(before)
    seen: list[str] = []
    tokens: list[str] = [""]
    rounds = iter(between)
    while True:
        names, token = listing.page({"pageSize": size, "pageToken": tokens[-1]})
        assert len(names) <= size
        seen += names
        if token is None:
            break
        assert token not in tokens
        tokens.append(token)
        for action, name in next(rounds, []):
            if action == "make" and name not in there:
                listing.make(name)
                there.add(name)
                ever.add(name)
            elif action == "drop" and name in there:
                listing.drop(name)
                there.discard(name)
                stayed.discard(name)
    assert len(seen) == len(set(seen))
    assert stayed <= set(seen) <= ever
    everything, end = listing.page({"pageSize": 1000, "pageToken": ""})
    assert (set(everything), end) == (there, None)
    for name in sorted(there):
        listing.drop(name)
