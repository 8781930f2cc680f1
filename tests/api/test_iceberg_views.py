"""Views over the Iceberg API: every operation, and the words and codes that clients act on."""

import uuid
from typing import Any

import httpx
import orjson
import pytest
import zstandard

from catalog_server.bootstrap import Platform
from tests.api.iceberg_client import Catalog, Http, assert_error, segment
from tests.factories.views import (
    OTHER_SCHEMA,
    SCHEMA,
    add_version,
    query,
    replacing,
    set_current,
    setting,
    version,
)


class Views:
    """Shorthand over views."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.http = catalog.http

    def all(self, levels: tuple[str, ...]) -> str:
        return f"{self.catalog.base}/namespaces/{segment(*levels)}/views"

    def one(self, levels: tuple[str, ...], name: str = "v") -> str:
        return f"{self.all(levels)}/{segment(name)}"

    def create(self, levels: tuple[str, ...], name: str = "v", **body: Any) -> httpx.Response:
        given = {"name": name, "schema": SCHEMA, "view-version": version(), "properties": {}, **body}
        answer: httpx.Response = self.http.post(
            self.all(levels), json={key: value for key, value in given.items() if value is not ...}
        )
        return answer

    def new(self, name: str = "v", **body: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
        levels = self.catalog.new_namespace()
        answer = self.create(levels, name, **body)
        assert answer.status_code == 200, answer.text
        return levels, answer.json()

    def replace(self, levels: tuple[str, ...], updates: list[Any], needs: Any = ()) -> httpx.Response:
        answer: httpx.Response = self.http.post(
            self.one(levels), json={"requirements": list(needs), "updates": updates}
        )
        return answer

    def register(self, levels: tuple[str, ...], name: str, at: str) -> httpx.Response:
        answer: httpx.Response = self.http.post(
            f"{self.catalog.base}/namespaces/{segment(*levels)}/register-view",
            json={"name": name, "metadata-location": at},
        )
        return answer

    def rename(self, source: tuple[str, ...], destination: tuple[str, ...]) -> httpx.Response:
        body = {
            "source": {"namespace": list(source[:-1]), "name": source[-1]},
            "destination": {"namespace": list(destination[:-1]), "name": destination[-1]},
        }
        answer: httpx.Response = self.http.post(f"{self.catalog.base}/views/rename", json=body)
        return answer


@pytest.fixture
def views(catalog: Catalog) -> Views:
    return Views(catalog)


def test_create_load_and_exists(views: Views) -> None:
    levels, made = views.new(properties={"a": "b"})
    assert set(made) == {"metadata-location", "metadata", "config"}
    metadata = made["metadata"]
    assert metadata["format-version"] == 1
    assert uuid.UUID(metadata["view-uuid"])
    assert metadata["location"].rpartition("/")[2].startswith("v-")
    assert made["metadata-location"].startswith(f"{metadata['location']}/metadata/00000-")
    assert made["metadata-location"].endswith(".metadata.json")
    assert metadata["properties"] == {"a": "b"}
    assert metadata["schemas"] == [{**SCHEMA, "schema-id": 0}]
    assert metadata["versions"] == [version()]
    assert metadata["current-version-id"] == 1
    loaded = views.http.get(views.one(levels))
    assert (loaded.status_code, loaded.json()) == (200, made)
    head = views.http.head(views.one(levels))
    assert (head.status_code, head.content) == (204, b"")


def test_summaries_and_unknown_keys_survive(views: Views) -> None:
    given = version(summary={"user": "x", "y": "z"}, x_own={"deep": [1]})
    _, made = views.new(**{"view-version": given})
    assert made["metadata"]["versions"] == [given]


def test_a_missing_view_is_a_404_of_the_view(views: Views, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    for where, name in ((levels, f"{levels[0]}.v"), (("no_such",), "no_such.v")):
        path = views.one(where)
        replaced = views.http.post(path, json={"requirements": [], "updates": []})
        for answer in (views.http.get(path), views.http.delete(path), replaced):
            assert assert_error(answer, 404, "NoSuchViewException") == f"View does not exist: {name}"
        head = views.http.head(path)
        assert (head.status_code, head.content) == (404, b"")


def test_a_missing_bucket_is_a_404_of_the_bucket(http: Http) -> None:
    elsewhere = Views(Catalog(http, "nowhere"))
    for answer in (
        http.get(elsewhere.one(("a",))),
        http.get(elsewhere.all(("a",))),
        elsewhere.create(("a",)),
    ):
        assert_error(answer, 404, "NoSuchWarehouseException")
    assert http.head(elsewhere.one(("a",))).status_code == 404


def test_create_where_it_can_not_be(views: Views, catalog: Catalog) -> None:
    assert_error(views.create(("no_such",)), 404, "NoSuchNamespaceException")
    levels, _ = views.new()
    said = assert_error(views.create(levels), 409, "AlreadyExistsException")
    assert said == f"View already exists: {levels[0]}.v"
    assert catalog.create(levels, "t").status_code == 200
    said = assert_error(views.create(levels, "t"), 409, "AlreadyExistsException")
    assert said == f"Table with same name already exists: {levels[0]}.t"


def test_a_table_can_not_take_the_name_of_a_view(views: Views, catalog: Catalog) -> None:
    levels, made = views.new()
    wanted = f"View with same name already exists: {levels[0]}.v"
    assert assert_error(catalog.create(levels, "v"), 409, "AlreadyExistsException") == wanted
    staged = catalog.create(levels, "v", **{"stage-create": True})
    assert assert_error(staged, 409, "AlreadyExistsException") == wanted
    assert catalog.create(levels, "t").status_code == 200
    table = views.http.get(catalog.table(levels, "t")).json()
    register = f"{catalog.base}/namespaces/{segment(*levels)}/register"
    for overwrite in (False, True):
        body = {"name": "v", "metadata-location": table["metadata-location"], "overwrite": overwrite}
        assert assert_error(views.http.post(register, json=body), 409, "AlreadyExistsException") == wanted
    source = {"namespace": list(levels), "name": "t"}
    body = {"source": source, "destination": {**source, "name": "v"}}
    renamed = views.http.post(f"{catalog.base}/tables/rename", json=body)
    assert assert_error(renamed, 409, "AlreadyExistsException") == (
        f"Cannot rename {levels[0]}.t to {levels[0]}.v. View already exists: {levels[0]}.v"
    )
    assert_error(views.http.get(catalog.table(levels, "v")), 404, "NoSuchTableException")
    assert_error(views.http.get(views.one(levels, "t")), 404, "NoSuchViewException")
    assert views.http.get(views.one(levels)).json() == made


def test_a_staged_create_finds_the_view_that_came_between(views: Views, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    staged = catalog.create(levels, "v", **{"stage-create": True}).json()["metadata"]
    assert views.create(levels).status_code == 200
    updates = [
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "add-schema", "schema": staged["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "set-location", "location": staged["location"]},
    ]
    answer = catalog.commit(levels, "v", updates, [{"type": "assert-create"}])
    said = assert_error(answer, 409, "AlreadyExistsException")
    assert said == f"View with same name already exists: {levels[0]}.v"


@pytest.mark.parametrize(
    ("body", "error_type", "text"),
    [
        ({"name": ""}, "BadRequestException", "'name'"),
        ({"name": "a\x1fb"}, "BadRequestException", "0x1F"),
        ({"schema": ...}, "BadRequestException", "'schema' is missing"),
        ({"schema": {"type": "struct"}}, "BadRequestException", "fields"),
        ({"view-version": ...}, "BadRequestException", "'view-version' is missing"),
        ({"view-version": []}, "BadRequestException", "must be an object"),
        ({"view-version": {}}, "BadRequestException", "lacks the member 'timestamp-ms'"),
        ({"properties": {"a": 1}}, "BadRequestException", "strings"),
        ({"location": 5}, "BadRequestException", "'location' must be a string"),
        ({"location": ""}, "BadRequestException", "must not be empty"),
        ({"location": "file:///etc"}, "BadRequestException", "not inside the table bucket"),
        ({"location": "relative"}, "BadRequestException", "not an absolute URI"),
        ({"properties": {"write.metadata.path": "file:///etc"}}, "BadRequestException", "not inside"),
        (
            {"properties": {"version.history.num-entries": "x"}},
            "IllegalArgumentException",
            "must be positive",
        ),
        (
            {"view-version": version(query(dialect="trino"), query(dialect="trino"))},
            "IllegalArgumentException",
            "Invalid view version: Cannot add multiple queries for dialect trino",
        ),
    ],
)
def test_bad_creates_are_400(
    views: Views, catalog: Catalog, body: dict[str, Any], error_type: str, text: str
) -> None:
    levels = catalog.new_namespace()
    said = assert_error(views.create(levels, **body), 400, error_type)
    assert text in said
    assert views.http.get(views.all(levels)).json()["identifiers"] == []


def test_a_location_is_kept_as_given_and_is_the_views_alone(
    views: Views, catalog: Catalog, platform: Platform
) -> None:
    root = views.http.get(f"{catalog.base}/namespaces/{segment(*catalog.new_namespace())}").json()
    at = root["properties"]["location"].replace("file:///", "file:/") + "/my-place"
    custom = f"{at}/custom"
    levels, made = views.new(location=at, properties={"write.metadata.path": custom})
    assert made["metadata"]["location"] == at
    assert made["metadata-location"].startswith(f"{custom}/00000-")
    for inside in (at, f"{at}/deeper", at.replace("file:/", "file:///")):
        assert "overlaps that of another view" in assert_error(
            views.create(levels, "w", location=inside), 409, "AlreadyExistsException"
        )
        assert "overlaps that of another view" in assert_error(
            catalog.create(levels, "t", location=inside), 409, "AlreadyExistsException"
        )
    table = catalog.create(levels, "t").json()["metadata"]
    assert "overlaps that of another table" in assert_error(
        views.create(levels, "w", location=f"{table['location']}/metadata"), 409, "AlreadyExistsException"
    )


def test_a_replacement_with_a_new_schema(views: Views) -> None:
    levels, made = views.new()
    needs = [{"type": "assert-view-uuid", "uuid": made["metadata"]["view-uuid"]}]
    updates = replacing(query("select 2"), schema=OTHER_SCHEMA, version_id=2)
    after = views.replace(levels, [*updates, setting(a="b")], needs)
    assert after.status_code == 200, after.text
    metadata = after.json()["metadata"]
    assert [row["version-id"] for row in metadata["versions"]] == [1, 2]
    assert metadata["versions"][1]["schema-id"] == 1
    assert [row["version-id"] for row in metadata["version-log"]] == [1, 2]
    assert metadata["properties"] == {"a": "b"}
    assert "/metadata/00001-" in after.json()["metadata-location"]
    assert views.http.get(views.one(levels)).json() == after.json()


def test_a_replacement_that_changes_nothing_writes_nothing(views: Views) -> None:
    levels, made = views.new()
    for updates in ([], [add_version(version_id=9), set_current()]):
        assert views.replace(levels, updates).json() == made
    without = views.http.post(views.one(levels), json={"updates": []})
    assert without.json() == made


def test_a_requirement_that_does_not_hold_is_a_409(views: Views) -> None:
    levels, made = views.new()
    answer = views.replace(
        levels, [setting(a="b")], [{"type": "assert-view-uuid", "uuid": str(uuid.uuid4())}]
    )
    said = assert_error(answer, 409, "CommitFailedException")
    assert said.startswith("Requirement failed: view UUID does not match: expected ")
    assert views.http.get(views.one(levels)).json() == made


@pytest.mark.parametrize(
    ("body", "error_type"),
    [
        ({}, "BadRequestException"),
        ({"updates": {}}, "BadRequestException"),
        ({"updates": [5]}, "BadRequestException"),
        ({"updates": [{"action": "add-snapshot"}]}, "BadRequestException"),
        ({"updates": [], "requirements": [{"type": "assert-create"}]}, "BadRequestException"),
        ({"updates": [], "requirements": 5}, "BadRequestException"),
        ({"updates": [], "identifier": 5}, "BadRequestException"),
        ({"updates": [add_version()["view-version"]]}, "BadRequestException"),
        ({"updates": [{"action": "set-location", "location": "file:///etc/x"}]}, "BadRequestException"),
        ({"updates": [set_current(44)]}, "IllegalArgumentException"),
        ({"updates": replacing(query("x", "trino"))}, "IllegalArgumentException"),
        ({"updates": replacing(query("x", "trino"), query("y", "TRINO"))}, "IllegalArgumentException"),
    ],
)
def test_bad_replacements_are_400_and_change_nothing(
    views: Views, body: dict[str, Any], error_type: str
) -> None:
    levels, made = views.new()
    assert_error(views.http.post(views.one(levels), json=body), 400, error_type)
    assert views.http.get(views.one(levels)).json() == made


def test_a_view_moves_to_another_place_and_keeps_the_old_one(views: Views) -> None:
    levels, made = views.new()
    old = made["metadata"]["location"]
    move = {"action": "set-location", "location": f"{old}-moved"}
    after = views.replace(levels, [move]).json()
    assert after["metadata-location"].startswith(f"{old}-moved/metadata/00001-")
    back = views.replace(levels, [{**move, "location": old}]).json()
    assert back["metadata-location"].startswith(f"{old}/metadata/00002-")
    for place in (old, f"{old}-moved"):
        assert_error(views.create(levels, "w", location=place), 409, "AlreadyExistsException")
    other = views.create(levels, "w").json()["metadata"]["location"]
    assert_error(views.replace(levels, [{**move, "location": other}]), 409, "AlreadyExistsException")


def test_rename(views: Views, catalog: Catalog) -> None:
    levels, made = views.new()
    other = catalog.new_namespace()
    assert views.rename((*levels, "v"), (*other, "w")).status_code == 204
    assert views.http.get(views.one(other, "w")).json() == made
    assert_error(views.http.get(views.one(levels)), 404, "NoSuchViewException")
    assert views.rename((*other, "w"), (*other, "w")).status_code == 204


def test_renames_that_can_not_be(views: Views, catalog: Catalog) -> None:
    levels, _ = views.new()
    ns = levels[0]
    views.create(levels, "w")
    catalog.create(levels, "t")
    for target, kind in (("w", "View"), ("t", "Table")):
        said = assert_error(views.rename((ns, "v"), (ns, target)), 409, "AlreadyExistsException")
        assert said == f"Cannot rename {ns}.v to {ns}.{target}. {kind} already exists: {ns}.{target}"
    said = assert_error(views.rename((ns, "no"), (ns, "x")), 404, "NoSuchViewException")
    assert said == f"View does not exist: {ns}.no"
    said = assert_error(views.rename((ns, "t"), (ns, "x")), 404, "NoSuchViewException")
    assert said == f"View does not exist: {ns}.t"
    said = assert_error(views.rename((ns, "v"), ("no_such", "x")), 404, "NoSuchNamespaceException")
    assert said == "Namespace does not exist: no_such"
    assert_error(views.rename((ns, "v"), (ns, "")), 400, "BadRequestException")
    assert_error(views.rename((ns, "v"), (ns, "..")), 400, "BadRequestException")
    assert_error(views.http.post(f"{catalog.base}/views/rename", json={}), 400, "BadRequestException")


def test_drop_keeps_the_files_and_register_brings_the_view_back(views: Views, catalog: Catalog) -> None:
    levels, made = views.new()
    at = made["metadata-location"]
    said = assert_error(views.register(levels, "v", at), 409, "AlreadyExistsException")
    assert said == f"View already exists: {levels[0]}.v"
    # The same view under a second name would be two views on the same files.
    assert_error(views.register(levels, "second", at), 409, "AlreadyExistsException")
    assert views.http.delete(views.one(levels)).status_code == 204
    assert_error(views.http.delete(views.one(levels)), 404, "NoSuchViewException")
    back = views.register(levels, "again", at)
    assert (back.status_code, back.json()) == (200, made)
    catalog.create(levels, "t")
    said = assert_error(views.register(levels, "t", at), 409, "AlreadyExistsException")
    assert said == f"Table with same name already exists: {levels[0]}.t"


def test_registers_that_can_not_be(views: Views, catalog: Catalog, tmp_path: Any) -> None:
    levels, table = catalog.new_table()
    at = table["metadata-location"]
    said = assert_error(views.register(levels, "v", at), 400, "BadRequestException")
    assert said == f"{at} is not a readable view metadata file"
    said = assert_error(views.register(levels, "v", f"{at}.none"), 404, "NotFoundException")
    assert said == f"Failed to open input stream for file: {at}.none"
    outside = tmp_path / "v.metadata.json"
    outside.write_bytes(b"{}")
    assert_error(views.register(levels, "v", f"file://{outside}"), 400, "BadRequestException")
    _, made = views.new()
    assert_error(
        views.register(("no_such",), "v", made["metadata-location"]), 404, "NoSuchNamespaceException"
    )
    path = f"{catalog.base}/namespaces/{segment(*levels)}/register-view"
    for body in ({}, {"name": "v"}, {"metadata-location": at}, {"name": 5, "metadata-location": at}):
        assert_error(views.http.post(path, json=body), 400, "BadRequestException")
    body = {"name": "r", "metadata-location": made["metadata-location"]}
    as_table = views.http.post(f"{catalog.base}/namespaces/{segment(*levels)}/register", json=body)
    assert_error(as_table, 400, "BadRequestException")


def test_a_registered_file_outside_its_views_place_must_not_lie_in_a_tables(
    views: Views, catalog: Catalog
) -> None:
    levels, table = catalog.new_table()
    _, made = views.new()
    at = f"{table['metadata']['location']}/metadata/view.metadata.json"
    document = {
        **made["metadata"],
        "view-uuid": str(uuid.uuid4()),
        "location": f"{made['metadata']['location']}x",
    }
    with open(at.removeprefix("file://"), "wb") as handle:
        handle.write(orjson.dumps(document))
    said = assert_error(views.register(levels, "v", at), 409, "AlreadyExistsException")
    assert "overlaps that of another table" in said


def test_listing_is_by_name_in_pages_and_without_tables(views: Views, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    assert views.http.get(views.all(levels)).json() == {"identifiers": [], "next-page-token": None}
    catalog.create(levels, "b-table")
    for name in ("c", "a", "b"):
        views.create(levels, name)
    everything = views.http.get(views.all(levels)).json()
    assert everything["identifiers"] == [{"namespace": list(levels), "name": name} for name in "abc"]
    assert [row["name"] for row in views.http.get(catalog.tables(levels)).json()["identifiers"]] == [
        "b-table"
    ]
    seen: list[str] = []
    token: str | None = ""
    while token is not None:
        page = views.http.get(views.all(levels), params={"pageToken": token, "pageSize": 2}).json()
        seen += [row["name"] for row in page["identifiers"]]
        token = page["next-page-token"]
    assert seen == ["a", "b", "c"]
    assert_error(views.http.get(f"{views.all(levels)}?pageToken=x"), 400, "BadRequestException")
    # A token is for the listing that gave it.
    tables = views.http.get(catalog.tables(levels), params={"pageToken": "", "pageSize": 1}).json()
    if tables["next-page-token"]:
        other = views.http.get(views.all(levels), params={"pageToken": tables["next-page-token"]})
        assert_error(other, 400, "BadRequestException")
    assert_error(views.http.get(views.all(("no_such",))), 404, "NoSuchNamespaceException")


def test_a_namespace_with_a_view_is_not_empty(views: Views, catalog: Catalog) -> None:
    levels, _ = views.new()
    path = f"{catalog.base}/namespaces/{segment(*levels)}"
    said = assert_error(views.http.delete(path), 409, "NamespaceNotEmptyException")
    assert "is not empty" in said
    views.http.delete(views.one(levels))
    assert views.http.delete(path).status_code == 204


@pytest.mark.parametrize("name", ["a b", "a.b", "a/b", "a%20b", "ä€", "a+b"])
def test_names_of_every_sort(views: Views, catalog: Catalog, name: str) -> None:
    levels = catalog.new_namespace()
    made = views.create(levels, name)
    assert made.status_code == 200
    assert views.http.get(views.one(levels, name)).json() == made.json()
    assert views.http.delete(views.one(levels, name)).status_code == 204


def test_a_view_under_a_missing_metadata_file_says_so(views: Views, tmp_path: Any) -> None:
    levels, made = views.new()
    at = made["metadata-location"].removeprefix("file://")
    import os

    os.rename(at, tmp_path / "away")
    said = assert_error(views.http.get(views.one(levels)), 404, "NotFoundException")
    assert said == f"Failed to open input stream for file: {made['metadata-location']}"


def test_a_large_view_is_compressed(views: Views) -> None:
    levels, made = views.new(**{"view-version": version(query("select '" + "x" * 50_000 + "'"))})
    answer, body = views.http.raw(views.one(levels), headers={"Accept-Encoding": "zstd"})
    assert answer.headers["content-encoding"] == "zstd"
    assert orjson.loads(zstandard.ZstdDecompressor().decompressobj().decompress(body)) == made


def test_wrong_methods_have_the_envelope(views: Views, catalog: Catalog) -> None:
    for method, path in (
        ("PUT", views.one(("a",))),
        ("DELETE", views.all(("a",))),
        ("GET", f"{catalog.base}/views/rename"),
        ("GET", f"{catalog.base}/namespaces/a/register-view"),
    ):
        assert_error(views.http.request(method, path), 405, "MethodNotAllowedException")


def test_a_place_behind_a_symbolic_link_is_refused(views: Views, catalog: Catalog, tmp_path: Any) -> None:
    import os

    levels, made = views.new()
    root = made["metadata"]["location"].rpartition("/")[0]
    os.symlink(tmp_path, f"{root.removeprefix('file://')}/link")
    said = assert_error(views.create(levels, "w", location=f"{root}/link/w"), 400, "BadRequestException")
    assert "symbolic link" in said
    (tmp_path / "1.metadata.json").write_bytes(orjson.dumps(made["metadata"]))
    assert_error(views.register(levels, "w", f"{root}/link/1.metadata.json"), 400, "BadRequestException")
