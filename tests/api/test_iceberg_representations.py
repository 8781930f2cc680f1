"""Which answer a client may keep, and what it may say in odd ways: tags, delegation, separators, encodings, lists."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.principals import SYSTEM
from tests.api.iceberg_client import (
    SCHEMA,
    Catalog,
    Http,
    append_updates,
    assert_error,
    in_process,
    new_key,
    segment,
)

DELEGATED = {"X-Iceberg-Access-Delegation": "vended-credentials"}


def register_again(catalog: Catalog) -> tuple[tuple[str, ...], Any]:
    levels, made = catalog.new_table()
    catalog.http.delete(catalog.table(levels, "t"))
    path = f"{catalog.base}/namespaces/{segment(*levels)}/register"
    return levels, catalog.http.post(path, json={"name": "t", "metadata-location": made["metadata-location"]})


def create(catalog: Catalog) -> tuple[tuple[str, ...], Any]:
    levels = catalog.new_namespace()
    return levels, catalog.create(levels, "t")


def commit(catalog: Catalog) -> tuple[tuple[str, ...], Any]:
    levels, made = catalog.new_table()
    return levels, catalog.commit(levels, "t", append_updates(made["metadata"], 1), [])


def commit_nothing(catalog: Catalog) -> tuple[tuple[str, ...], Any]:
    levels, _ = catalog.new_table()
    return levels, catalog.commit(levels, "t", [], [])


def commit_with_a_key(catalog: Catalog) -> tuple[tuple[str, ...], Any]:
    levels, made = catalog.new_table()
    body = {"requirements": [], "updates": append_updates(made["metadata"], 1)}
    key = new_key()
    catalog.http.post(catalog.table(levels, "t"), json=body, headers=key)
    return levels, catalog.http.post(catalog.table(levels, "t"), json=body, headers=key)


@pytest.mark.parametrize(
    "change",
    [create, register_again, commit, commit_nothing, commit_with_a_key],
    ids=lambda change: change.__name__,
)
def test_R23_the_tag_of_a_change_is_that_of_the_load_after_it(
    http: Http, catalog: Catalog, change: Callable[[Catalog], tuple[tuple[str, ...], Any]]
) -> None:
    levels, answer = change(catalog)
    assert answer.status_code == 200
    tag = answer.headers["etag"]
    path = catalog.table(levels, "t")
    assert http.get(path).headers["etag"] == tag
    unchanged = http.get(path, headers={"If-None-Match": tag})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert unchanged.headers["etag"] == tag


def test_R23_each_shape_and_kind_of_access_has_a_tag_of_its_own(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    path = catalog.table(levels, "t")
    both = {"X-Iceberg-Access-Delegation": "remote-signing,vended-credentials"}
    forms = [(query, headers) for query in ("", "?snapshots=refs") for headers in ({}, DELEGATED, both)]
    tags = {
        number: http.get(path + query, headers=headers).headers["etag"]
        for number, (query, headers) in enumerate(forms)
    }
    assert len(set(tags.values())) == len(forms)
    for number, (query, headers) in enumerate(forms):
        for other, tag in tags.items():
            answer = http.get(path + query, headers={**headers, "If-None-Match": tag})
            assert answer.status_code == (304 if number == other else 200)


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("form", "status"),
    [
        ("{tag}", 304),
        ("W/{tag}", 304),
        ('"x", {tag}', 304),
        ('"x",W/{tag} , "y"', 304),
        ('"a,b",{tag}', 304),
        ("*", 304),
        (" * ", 304),
        ('"x"', 200),
        ("", 200),
        ("nonsense", 200),
        ("{bare}", 200),
        ('"{bare}', 200),
        ("w/{tag}x", 304),
        ('*, "x"', 200),
        ("\xfc", 200),
    ],
)
def test_R23_forms_of_if_none_match(http: Http, catalog: Catalog, form: str, status: int) -> None:
    levels, _ = catalog.new_table()
    path = catalog.table(levels, "t")
    tag = http.get(path).headers["etag"]
    value = form.format(tag=tag, bare=tag.strip('"'))
    assert http.get(path, headers={"If-None-Match": value.encode("latin-1")}).status_code == status


def test_R23_several_headers_of_tags_are_one_list(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    path = catalog.table(levels, "t")
    tag = http.get(path).headers["etag"]
    headers = [("If-None-Match", '"x"'), ("If-None-Match", tag)]
    assert http.get(path, headers=headers).status_code == 304


def test_S15_a_tag_of_another_bucket_is_never_a_304(http: Http, catalog: Catalog, platform: Platform) -> None:
    http.portal.call(platform.buckets.create, SYSTEM, "tag-bucket")
    other = Catalog(http, "tag-bucket")
    levels, _ = catalog.new_table()
    other.new_namespace(*levels)
    assert other.create(levels, "t").status_code == 200
    tags = {one.base: http.get(one.table(levels, "t")).headers["etag"] for one in (catalog, other)}
    for one, foreign in ((catalog, other), (other, catalog)):
        answer = http.get(one.table(levels, "t"), headers={"If-None-Match": tags[foreign.base]})
        assert answer.status_code == 200
    assert http.get(other.table((*levels, "x"), "t")).status_code == 404
    gone = http.get(catalog.table(levels, "gone"), headers={"If-None-Match": "*"})
    assert_error(gone, 404, "NoSuchTableException")


def test_S15_a_table_that_took_the_name_has_another_tag(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    path = catalog.table(levels, "t")
    tag = http.get(path).headers["etag"]
    http.delete(path)
    assert catalog.create(levels, "t").status_code == 200
    assert http.get(path, headers={"If-None-Match": tag}).status_code == 200


@pytest.mark.in_process
@pytest.mark.parametrize(
    "values",
    [
        ["vended-credentials", "remote-signing"],
        ["vended-credentials,vended-credentials"],
        [" VENDED-Credentials "],
        [",", ""],
        ["vended-credentials;q=1"],
        ["vended-credentials\xfc\xdf"],
        ["\x7f"],
        ["x" * 5000],
        ["vended-credentials"] * 50,
    ],
    ids=lambda values: f"{len(values)}x{ascii(values[0])[:24]}",
)
def test_R26_odd_access_delegation_is_taken_on_every_operation_that_has_it(
    http: Http, catalog: Catalog, values: list[str]
) -> None:
    headers = [(b"X-Iceberg-Access-Delegation", value.encode("latin-1")) for value in values]
    levels = catalog.new_namespace()
    made = http.post(catalog.tables(levels), json={"name": "t", "schema": SCHEMA}, headers=headers)
    assert made.status_code == 200, made.text
    assert "storage-credentials" not in made.json()
    loaded = http.get(catalog.table(levels, "t"), headers=headers)
    assert loaded.json() == made.json()
    assert loaded.headers["etag"] == made.headers["etag"]
    assert http.get(f"{catalog.table(levels, 't')}/credentials", headers=headers).status_code == 200


def test_the_namespace_separator_is_the_default_and_not_announced(http: Http, catalog: Catalog) -> None:
    config = http.get("/iceberg/v1/config").json()
    assert "namespace-separator" not in {**config["defaults"], **config["overrides"]}
    (top,) = catalog.new_namespace()
    catalog.new_namespace(top, "a.b")
    assert http.head(f"{catalog.base}/namespaces/{top}%1Fa.b").status_code == 204
    assert http.head(f"{catalog.base}/namespaces/{top}%1fa%2Eb").status_code == 204
    for other in (f"{top}.a.b", f"{top}%2Ea.b", f"{top}%1Fa%1Fb"):
        assert http.head(f"{catalog.base}/namespaces/{other}").status_code == 404
    listed = http.get(f"{catalog.base}/namespaces?parent={top}").json()
    assert listed["namespaces"] == [[top, "a.b"]]


def test_a_staged_name_with_a_raw_plus_is_born_with_a_plus(http: Http, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    for name, raw, born in (("a+b", "a+b", "a+b"), ("c d", "c+d", "c d"), ("e+f", "e%2Bf", "e+f")):
        staged = catalog.create(levels, name, **{"stage-create": True})
        assert staged.status_code == 200
        body = {
            "requirements": [{"type": "assert-create"}],
            "updates": [
                {"action": "add-schema", "schema": SCHEMA},
                {"action": "set-current-schema", "schema-id": -1},
            ],
        }
        assert http.post(f"{catalog.tables(levels)}/{raw}", json=body).status_code == 200
        assert http.head(catalog.table(levels, born)).status_code == 204
    names = {entry["name"] for entry in http.get(catalog.tables(levels)).json()["identifiers"]}
    assert names == {"a+b", "c d", "e+f"}


@pytest.mark.parametrize(("there", "born"), [("n+m", "n+m"), ("n m", "n m")])
def test_a_raw_plus_in_the_namespace_of_a_new_table_is_what_exists(
    http: Http, catalog: Catalog, there: str, born: str
) -> None:
    (top,) = catalog.new_namespace()
    catalog.new_namespace(top, there)
    body = {
        "requirements": [{"type": "assert-create"}],
        "updates": [
            {"action": "add-schema", "schema": SCHEMA},
            {"action": "set-current-schema", "schema-id": -1},
        ],
    }
    answer = http.post(f"{catalog.base}/namespaces/{top}%1Fn+m/tables/t", json=body)
    assert answer.status_code == 200, answer.text
    assert http.head(catalog.table((top, born), "t")).status_code == 204


@pytest.mark.parametrize(
    "query",
    ["pageSize=1e9", "pageSize=1000000000000", "pageSize=0", "pageSize=-1", "pageSize=%F0%9D%9F%99"],
)
def test_S19_page_sizes_that_are_none_are_refused(http: Http, catalog: Catalog, query: str) -> None:
    (top,) = catalog.new_namespace()
    for path in (f"{catalog.base}/namespaces", catalog.tables((top,)), catalog.tables((top,))[:-6] + "views"):
        assert_error(http.get(f"{path}?{query}"), 400, "BadRequestException")


def test_S19_a_page_has_at_most_a_thousand_entries(tmp_path: Path) -> None:
    with in_process(tmp_path) as (http, platform):
        catalog = Catalog(http)
        http.portal.call(make_namespaces, platform, 1005)
        first = http.get(f"{catalog.base}/namespaces?pageSize=999999999").json()
        assert len(first["namespaces"]) == 1000
        token = first["next-page-token"]
        rest = http.get(f"{catalog.base}/namespaces", params={"pageToken": token, "pageSize": 999}).json()
        assert (len(rest["namespaces"]), rest["next-page-token"]) == (5, None)
        assert len(http.get(f"{catalog.base}/namespaces").json()["namespaces"]) == 1005


async def make_namespaces(platform: Platform, count: int) -> None:
    from table_format.ident import Namespace

    for number in range(count):
        await platform.namespaces.create(SYSTEM, "default", Namespace((f"n{number:05}",)), {})


def test_S19_tampered_tokens_are_refused(http: Http, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    for name in ("a", "b", "c"):
        catalog.create(levels, name)
    path = catalog.tables(levels)
    token = http.get(f"{path}?pageSize=1").json()["next-page-token"]
    other = catalog.new_namespace()
    for tampered in (
        token[:-1],
        token[1:],
        token + "x",
        token[::-1],
        "AAAA",
        "%00",
        "💥",
        "bnVsbA",
        "e30",
        "[]",
    ):
        answer = http.get(path, params={"pageToken": tampered})
        assert_error(answer, 400, "BadRequestException")
    assert_error(http.get(catalog.tables(other), params={"pageToken": token}), 400, "BadRequestException")


def test_S19_a_chain_of_very_many_views_is_refused(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    path = catalog.table(levels, "t")
    for count, status in ((100, 200), (101, 400), (10_000, 400)):
        chain = ",".join(["n.v"] * count)
        assert http.get(path, params={"referenced-by": chain}).status_code == status


def test_a_management_body_in_chunks_that_is_too_large_is_413(tmp_path: Path) -> None:
    with in_process(tmp_path, **{"limits.max_body_mb": 1}) as (http, _):
        path = "/api/v1/buckets/default/policies/icebergCompaction"
        headers = {"Content-Type": "application/json"}

        async def chunks() -> Any:
            yield b'{"status": "enabled", "settings": {"x": "'
            for _ in range(20):
                yield b"x" * 65536
            yield b'"}}'

        answer = http.put(path, content=chunks(), headers=headers)
        assert (answer.status_code, answer.json()["status"]) == (413, 413)
        assert "1048576" in answer.json()["detail"]
        fine = http.put(path, json={"status": "enabled", "settings": {}}, headers=headers)
        assert fine.status_code == 200, fine.text


def test_gzip_bodies_are_taken_with_a_key_too(http: Http, catalog: Catalog) -> None:
    levels, made = catalog.new_table()
    body = b'{"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}'
    key = new_key()
    packed = {"Content-Encoding": "gzip", **key}
    first = http.post(catalog.table(levels, "t"), content=gzip.compress(body), headers=packed)
    assert first.status_code == 200
    assert first.json()["metadata"]["properties"]["a"] == "1"
    assert http.post(catalog.table(levels, "t"), content=body, headers=key).content == first.content
    assert made["metadata-location"] != first.json()["metadata-location"]
