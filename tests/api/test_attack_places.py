"""Attacks on places: whatever a request names lies inside the bucket, in no other's place, and is read by nobody else.

Every refusal comes before anything is written, and tells nothing of what lies at the place that was named.
"""

import http.server
import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.principals import SYSTEM
from table_format.io.local import LocalObjectStore
from table_format.manifest.entries import ManifestContent, ManifestFile
from table_format.manifest.lists import write_manifest_list
from tests.api.iceberg_client import SCHEMA, Catalog, Http, append_updates, segment, snapshot
from tests.factories.views import version

PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
SECRET = "root:x:0:0:secret"

# The first element of a path below the bucket is filled in for %s.
ODD = {
    "a parent": "%s/a/../b",
    "a parent at the end": "%s/a/..",
    "an encoded parent": "%s/a/%%2e%%2e/b",
    "an encoded parent in capitals": "%s/a/%%2E%%2E/b",
    "a half encoded parent": "%s/a/.%%2e/b",
    "an encoded slash": "%s/a%%2fb",
    "an encoded backslash": "%s/a%%5cb",
    "an encoded zero": "%s/a%%00b",
    "a zero": "%s/a\0b",
    "an empty segment": "%s//a",
    "a dot segment": "%s/./a",
    "a blank at the end": "%s/a ",
    "a tab at the end": "%s/a\t",
    "a line": "%s/a\nb",
    "a right-to-left mark": "%s/a\u202eb",
    "a zero-width space": "%s/a\u200bb",
    "half a character": "%s/a\ud800",
    "a fragment": "%s/a#b",
    "a query": "%s/a?b",
    "a backslash": "%s/..\\b",
}
ELSEWHERE = (
    "file:///etc/passwd",
    "file:/etc",
    "file://localhost%s/a",
    "file://evil.example%s/a",
    "file:////etc",
    "FILE:///etc",
    "File://%s/a",
    "s3://bucket/x",
    "s3a://bucket/x",
    "s3n://bucket/x",
    "S3://bucket/x",
    "s3://user:secret@bucket/x",
    "http://169.254.169.254/latest/meta-data/",
    "https://evil.example/x",
    "gs://bucket/x",
    "data:text/plain,x",
    "memory://x/y",
    "/etc/passwd",
    "etc",
    "",
    ":",
    "file:",
    "file://",
)


@pytest.fixture
def bucket(platform: Platform) -> str:
    """The path of the default bucket on the disk."""
    return str(platform.settings.server.data_dir / "warehouse")


@pytest.fixture
def odd(bucket: str) -> list[str]:
    """Locations that nothing may lie at."""
    inside = [f"file://{text % bucket}" for text in ODD.values()]
    outside = [text % bucket if "%s" in text else text for text in ELSEWHERE]
    siblings = [f"file://{bucket}", f"file://{bucket}/", f"file:{bucket}", f"file://{bucket}2/x"]
    return [*inside, *outside, *siblings]


def files(bucket: str) -> list[str]:
    return sorted(str(path) for path in Path(bucket).rglob("*"))


def body(content: Any) -> dict[str, Any]:
    """JSON that httpx could not encode by itself: halves of characters are written as escapes."""
    return {"content": json.dumps(content).encode(), "headers": {"Content-Type": "application/json"}}


def refused(answer: Any, what: str) -> None:
    assert answer.status_code in {400, 403, 409, 413}, f"{what}: {answer.status_code} {answer.text[:300]}"
    assert set(answer.json()["error"]) == {"message", "type", "code"}, what
    assert SECRET not in answer.text
    assert "credential" not in answer.text.lower()


def test_S1_a_staged_create_gives_nothing_of_another_place(
    http: Http, catalog: Catalog, bucket: str, odd: list[str]
) -> None:
    levels, victim = catalog.new_table()
    before = files(bucket)
    delegation = {"X-Iceberg-Access-Delegation": "vended-credentials"}
    for location in (*odd, victim["metadata"]["location"], victim["metadata"]["location"] + "/data"):
        for staged in (True, False):
            wanted = {"name": "x", "schema": SCHEMA, "stage-create": staged, "location": location}
            options = body(wanted)
            options["headers"] |= delegation
            refused(http.post(catalog.tables(levels), **options), repr(location))
    assert files(bucket) == before


def test_S2_a_create_sends_no_files_elsewhere(
    http: Http, catalog: Catalog, bucket: str, odd: list[str]
) -> None:
    levels, victim = catalog.new_table()
    before = files(bucket)
    for location in (*odd, victim["metadata"]["location"] + "/x"):
        for name in PATHS:
            for staged in (True, False):
                properties = {name: location}
                wanted = {"name": "x", "schema": SCHEMA, "stage-create": staged, "properties": properties}
                refused(http.post(catalog.tables(levels), **body(wanted)), f"{name} {location!r}")
    assert files(bucket) == before


def test_S3_a_commit_sends_no_files_elsewhere(
    http: Http, catalog: Catalog, bucket: str, odd: list[str]
) -> None:
    """Also what staged tables are born by, and what transactions do."""
    victim = catalog.new_table()[1]["metadata"]["location"]
    levels, mine = catalog.new_table()
    before = files(bucket)
    identifier = {"namespace": list(levels), "name": "t"}
    for location in (*odd, victim, victim + "/", victim + "/metadata"):
        ways = [[{"action": "set-location", "location": location}]]
        ways += [[{"action": "set-properties", "updates": {name: location}}] for name in PATHS]
        for updates in ways:
            change = {"requirements": [], "updates": updates}
            refused(http.post(catalog.table(levels, "t"), **body(change)), f"{updates}")
            together = {"table-changes": [{"identifier": identifier, **change}]}
            refused(http.post(f"{catalog.base}/transactions/commit", **body(together)), f"{updates}")
            born = {
                "requirements": [{"type": "assert-create"}],
                "updates": [{"action": "add-schema", "schema": SCHEMA}, *updates],
            }
            refused(http.post(catalog.table(levels, "born"), **body(born)), f"{updates}")
    assert files(bucket) == before
    assert catalog.http.get(catalog.table(levels, "t")).json() == mine


def statistics(path: str) -> dict[str, Any]:
    return {
        "snapshot-id": 1,
        "statistics-path": path,
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }


def naming(metadata: dict[str, Any], path: str) -> Iterator[list[dict[str, Any]]]:
    """Every update that names a file."""
    yield append_updates(metadata, 2, **{"manifest-list": path})
    yield [{"action": "set-statistics", "statistics": statistics(path)}]
    partition = {"snapshot-id": 1, "statistics-path": path, "file-size-in-bytes": 1}
    yield [{"action": "set-partition-statistics", "partition-statistics": partition}]


def test_S3_a_commit_names_no_file_elsewhere(http: Http, catalog: Catalog, bucket: str) -> None:
    victim = catalog.new_table()[1]["metadata"]["location"]
    levels, mine = catalog.new_table()
    answer = catalog.commit(levels, "t", append_updates(mine["metadata"], 1), [])
    assert answer.status_code == 200, answer.text
    metadata = answer.json()["metadata"]
    here = metadata["location"]
    before = files(bucket)
    outside = [text % bucket if "%s" in text else text for text in ELSEWHERE]
    tricks = [
        f"{here}/metadata/../../../x",
        f"{here}/%2e%2e/x",
        f"{here}/a%2f..%2fx",
        f"{here}/\0",
        f"{here}/\u202e",
    ]
    for path in (*outside, *tricks, f"{victim}/metadata/snap.avro", f"{victim}/x"):
        for updates in naming(metadata, path):
            change = {"requirements": [], "updates": updates}
            refused(http.post(catalog.table(levels, "t"), **body(change)), f"{updates}")
    assert files(bucket) == before
    # Its own files are fine, in either slash form and below.
    own = f"{here.replace('file:///', 'file:/')}/metadata/deep/snap.avro"
    assert (
        catalog.commit(levels, "t", append_updates(metadata, 2, **{"manifest-list": own}), []).status_code
        == 200
    )


def test_S3_a_commit_names_no_file_behind_a_link(http: Http, catalog: Catalog, tmp_path: Path) -> None:
    levels, mine = catalog.new_table()
    place = Path(mine["metadata"]["location"].removeprefix("file://"))
    (tmp_path / "secret.avro").write_text(SECRET)
    (place / "metadata" / "link.avro").symlink_to(tmp_path / "secret.avro")
    (place / "away").symlink_to(tmp_path)
    for name in ("metadata/link.avro", "away/secret.avro", "away/none.avro"):
        for updates in naming(mine["metadata"], f"{mine['metadata']['location']}/{name}"):
            refused(catalog.commit(levels, "t", updates, []), name)


HOSTILE_NAMES = (
    "*",
    "f*",
    "?",
    "${aws:username}",
    "a'||true||'",
    'x"',
    "[a-z]",
    "a|b",
    "%2e%2e",
    "a$b",
    "~",
    "-",
)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_S4_no_character_of_a_name_that_a_policy_could_read_gets_into_a_place(
    http: Http, catalog: Catalog, name: str
) -> None:
    levels = catalog.new_namespace(f"{name}{uuid.uuid4().hex[:8]}")
    made = catalog.create(levels, name)
    assert made.status_code == 200, made.text
    place = made.json()["metadata"]["location"].rpartition("/warehouse/")[2]
    assert set(place) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/")
    assert "storage-credentials" not in made.json()
    loaded = http.get(
        catalog.table(levels, name), headers={"X-Iceberg-Access-Delegation": "vended-credentials"}
    )
    assert loaded.json()["metadata"] == made.json()["metadata"]
    assert loaded.json().get("config", {}) == {}


def test_S5_a_namespace_and_a_view_lie_inside_the_bucket(
    http: Http, catalog: Catalog, bucket: str, odd: list[str]
) -> None:
    levels = catalog.new_namespace()
    before = files(bucket)
    for location in odd:
        wanted = {"namespace": ["x"], "properties": {"location": location}}
        if location and not location.startswith((f"file://{bucket}", f"file:{bucket}")):
            refused(http.post(f"{catalog.base}/namespaces", **body(wanted)), f"namespace {location!r}")
        views = catalog.tables(levels).replace("/tables", "/views")
        for place in ({"location": location}, {"properties": {"write.metadata.path": location}}):
            view = {"name": "v", "schema": SCHEMA, "view-version": version(), "properties": {}, **place}
            refused(http.post(views, **body(view)), f"view {place}")
    assert files(bucket) == before


def test_S5_the_two_slash_forms_are_one_place(catalog: Catalog, bucket: str) -> None:
    levels = catalog.new_namespace()
    here = f"{bucket}/{levels[0]}"
    assert catalog.create(levels, "one", location=f"file:{here}/one").status_code == 200
    for location in (f"file://{here}/one", f"file:{here}/one/", f"file://{here}/one/x", f"file:{here}"):
        assert catalog.create(levels, "two", location=location).status_code == 409, location


def test_S7_no_place_inside_or_around_a_tables_or_views(http: Http, catalog: Catalog, bucket: str) -> None:
    levels = catalog.new_namespace()
    here = f"file://{bucket}/{levels[0]}"
    assert catalog.create(levels, "t", location=f"{here}/a/t").status_code == 200
    views = catalog.tables(levels).replace("/tables", "/views")
    view = {"name": "v", "schema": SCHEMA, "view-version": version(), "properties": {}}
    assert http.post(views, json={**view, "location": f"{here}/b/v"}).status_code == 200
    overlapping = [
        form
        for place in (
            f"{here}/a",
            f"{here}/a/t",
            f"{here}/a/t/data",
            f"{here}/b",
            f"{here}/b/v",
            f"{here}/b/v/x",
        )
        for form in (place, place + "/", place.replace("file:///", "file:/"))
    ]
    for place in overlapping:
        assert catalog.create(levels, "x", location=place).status_code == 409, place
        assert catalog.create(levels, "x", properties={"write.data.path": place}).status_code == 409, place
        other = {**view, "name": "w", "location": place}
        assert http.post(views, json=other).status_code == 409, place
    for beside in (f"{here}/a/t2", f"{here}/b/v2"):
        assert catalog.create(levels, segment(beside[-2:]), location=beside).status_code == 200


class _Listener(http.server.BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def listener() -> Iterator[tuple[str, list[str]]]:
    """An HTTP server that remembers who asked."""
    asked: list[str] = []
    handler = type("Handler", (_Listener,), {"asked": asked})
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def register(
    http: Http, catalog: Catalog, levels: tuple[str, ...], location: str, *, view: bool = False
) -> Any:
    end = "register-view" if view else "register"
    path = f"{catalog.base}/namespaces/{segment(*levels)}/{end}"
    return http.post(path, **body({"name": "r", "metadata-location": location}))


@pytest.mark.parametrize("view", [False, True])
def test_S8_register_asks_nobody_and_tells_nothing(
    http: Http,
    catalog: Catalog,
    bucket: str,
    odd: list[str],
    listener: tuple[str, list[str]],
    tmp_path: Path,
    view: bool,
) -> None:
    levels = catalog.new_namespace()
    url, asked = listener
    secret = tmp_path / "x.metadata.json"
    secret.write_text(SECRET)
    inside = Path(bucket) / levels[0]
    inside.mkdir(parents=True)
    (inside / "link.metadata.json").symlink_to(secret)
    (inside / "plain.metadata.json").write_text(SECRET)
    named = [f"{url}/x.metadata.json", f"file://{secret}", "file:///proc/self/environ"]
    named += [f"file://{inside}/{name}.metadata.json" for name in ("link", "plain")]
    for location in (*odd, *named):
        refused(register(http, catalog, levels, location, view=view), repr(location))
    assert asked == []


def write(metadata: dict[str, Any], at: str) -> str:
    path = Path(at.removeprefix("file://"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(metadata))
    return at


def test_S8_register_takes_no_metadata_that_names_anything_elsewhere(
    http: Http, catalog: Catalog, bucket: str
) -> None:
    victim = catalog.new_table()[1]["metadata"]["location"]
    levels, mine = catalog.new_table()
    here = f"file://{bucket}/{levels[0]}/foreign"
    base = {**mine["metadata"], "table-uuid": str(uuid.uuid4()), "location": here}
    first = snapshot({**base, "current-snapshot-id": -1}, 1)
    for path in (
        "file:///etc/passwd",
        "http://169.254.169.254/x",
        f"{here}/../../x",
        f"{here}/%2e%2e/x",
        f"{victim}/x",
    ):
        changes: list[dict[str, Any]] = [
            {"location": path},
            *({"properties": {name: path}} for name in PATHS),
            {"snapshots": [{**first, "manifest-list": path}], "last-sequence-number": 1},
            {"metadata-log": [{"timestamp-ms": 1, "metadata-file": path}]},
            {"statistics": [statistics(path)]},
            {"partition-statistics": [{"snapshot-id": 1, "statistics-path": path, "file-size-in-bytes": 1}]},
        ]
        for change in changes:
            at = write({**base, **change}, f"{here}/metadata/{uuid.uuid4()}.metadata.json")
            refused(register(http, catalog, levels, at), f"{change}")
    # In the victim's place lies what its clean-up deletes one day: nothing of anybody else's may.
    refused(register(http, catalog, levels, write(base, f"{victim}/metadata/mine.metadata.json")), "the file")
    fine = write(base, f"{here}/metadata/fine.metadata.json")
    assert register(http, catalog, levels, fine).status_code == 200


def test_S8_a_registered_file_outside_its_tables_place_is_in_no_other_tables_way(
    http: Http, catalog: Catalog, bucket: str
) -> None:
    levels, mine = catalog.new_table()
    here = f"file://{bucket}/{levels[0]}"
    base = {**mine["metadata"], "table-uuid": str(uuid.uuid4()), "location": f"{here}/place"}
    at = write(base, f"{here}/lists/one.metadata.json")
    assert register(http, catalog, levels, at).status_code == 200
    for taken in (f"{here}/lists", f"{here}/lists/one.metadata.json"):
        assert catalog.create(levels, "u", location=taken).status_code == 409, taken
    assert catalog.create(levels, "u", location=f"{here}/lists/two").status_code == 200


def test_S8_a_clash_of_uuids_is_a_conflict(http: Http, catalog: Catalog, bucket: str) -> None:
    levels, mine = catalog.new_table()
    here = f"file://{bucket}/{levels[0]}/foreign"
    at = write({**mine["metadata"], "location": here}, f"{here}/metadata/x.metadata.json")
    assert register(http, catalog, levels, at).status_code == 409


def test_S15_one_bucket_tells_and_takes_nothing_of_another(
    http: Http, catalog: Catalog, platform: Platform
) -> None:
    name = f"other-{uuid.uuid4().hex[:8]}"
    http.portal.call(platform.buckets.create, SYSTEM, name)
    other = Catalog(http, name)
    levels, mine = catalog.new_table()
    assert http.get(other.table(levels, "t")).status_code == 404
    assert http.head(other.table(levels, "t")).status_code == 404
    other.new_namespace(*levels)
    made = other.create(levels, "t")
    assert made.status_code == 200
    # A tag of the one is no tag of the other, whatever their names.
    tag = http.get(catalog.table(levels, "t")).headers["etag"]
    answer = http.get(other.table(levels, "t"), headers={"If-None-Match": tag})
    assert (answer.status_code, answer.json()["metadata"]["table-uuid"]) == (
        200,
        made.json()["metadata"]["table-uuid"],
    )
    # No place of the other bucket, no file of it, no commit across.
    place, file = mine["metadata"]["location"], mine["metadata-location"]
    refused(other.create(levels, "x", location=place + "x"), "location")
    refused(other.create(levels, "x", properties={"write.data.path": place + "x"}), "property")
    refused(register(http, other, levels, file), "register")
    updates = append_updates(made.json()["metadata"], 1, **{"manifest-list": f"{place}/metadata/x.avro"})
    refused(other.commit(levels, "t", updates, []), "manifest list")
    # A key used in the one is new in the other.
    key = {"Idempotency-Key": "0198b4a0-1111-7222-8333-444455556666"}
    for each in (catalog, other):
        created = http.post(each.tables(levels), json={"name": "k", "schema": SCHEMA}, headers=key)
        assert created.status_code == 200, created.text
        assert created.json()["metadata"]["location"] in http.get(each.table(levels, "k")).text
    assert http.get(catalog.table(levels, "k")).json() != http.get(other.table(levels, "k")).json()


def naming_manifest(metadata: dict[str, Any], path: str, snapshot_id: int) -> str:
    """A manifest list that names this manifest."""
    at = f"{metadata['location']}/metadata/list-{uuid.uuid4()}.avro"
    manifest = ManifestFile(
        path=path,
        length=100,
        spec_id=0,
        content=ManifestContent.DATA,
        sequence_number=1,
        min_sequence_number=1,
        added_snapshot_id=snapshot_id,
        added_files_count=1,
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=1,
        existing_rows_count=0,
        deleted_rows_count=0,
    )
    write_manifest_list(
        LocalObjectStore(),
        at,
        [manifest],
        format_version=2,
        snapshot_id=snapshot_id,
        parent_snapshot_id=None,
        sequence_number=1,
    )
    return at


def test_S8_planning_a_scan_reads_no_manifest_outside_the_bucket(
    http: Http, catalog: Catalog, tmp_path: Path, listener: tuple[str, list[str]]
) -> None:
    """Whether a file is there is told as little as what it holds."""
    url, asked = listener
    secret = tmp_path / "secret.avro"
    secret.write_text(SECRET)
    named = [f"file://{secret}", f"file://{tmp_path}/none.avro", "file:///dev/zero", "file:///etc/passwd"]
    messages = set()
    for path in (*named, f"{url}/x.avro", "s3://other/x.avro", "nonsense"):
        levels, made = catalog.new_table()
        at = naming_manifest(made["metadata"], path, 1)
        updates = append_updates(made["metadata"], 1, **{"manifest-list": at})
        assert catalog.commit(levels, "t", updates, []).status_code == 200
        answer = http.post(f"{catalog.table(levels, 't')}/plan", json={"snapshot-id": 1})
        refused(answer, path)
        messages.add(answer.json()["error"]["message"].replace(path, "..."))
    assert len(messages) == 1
    assert asked == []
