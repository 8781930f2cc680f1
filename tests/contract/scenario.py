"""A long visit to the Iceberg API by hand: every operation, as it should be called and as it should not."""

import gzip
import json
from typing import Any

import httpx

from table_format.ident import TableIdent
from tests.api.iceberg_client import SCHEMA, Catalog, append_requirements, append_updates, segment
from tests.factories.lake import BY_NAME
from tests.factories.requests import every_requirement, every_update, scan_report, seeds
from tests.factories.scans import ClientCatalog, PlannedLake
from tests.factories.views import query, replacing, setting, version

TYPES = [
    "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string", "uuid",
    "binary", "fixed[16]", "decimal(38, 10)",
    {"type": "list", "element-id": 101, "element": "long", "element-required": False},
    {"type": "map", "key-id": 102, "key": "string", "value-id": 103, "value": "double", "value-required": True},
    {"type": "struct", "fields": [{"id": 104, "name": "x", "required": True, "type": "int", "doc": "inner"}]},
]  # fmt: skip
SINCE_V3 = ["timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry(srid:4326)"]


class Visit:
    """Calls by intention: `fine` must be answered 2xx or 3xx, `refused` with exactly that status."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.http = catalog.http
        self.base = catalog.base

    def fine(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        answer: httpx.Response = self.http.request(method, path, **_with(body, options))
        assert answer.status_code < 400, (method, path, answer.text)
        return answer

    def refused(
        self, status: int, method: str, path: str, body: Any = None, **options: Any
    ) -> httpx.Response:
        answer: httpx.Response = self.http.request(method, path, **_with(body, options))
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        return answer


def _with(body: Any, options: dict[str, Any]) -> dict[str, Any]:
    return options if body is None else {"json": body, **options}


def drive(catalog: Catalog) -> None:
    """The whole visit."""
    visit = Visit(catalog)
    for part in (
        start,
        namespaces,
        tables,
        table_types,
        commits,
        transactions,
        moves,
        views,
        scans,
        oddities,
    ):
        part(visit)


def start(visit: Visit) -> None:
    """Configuration and tokens."""
    visit.fine("GET", "/iceberg/v1/config")
    visit.fine("GET", "/iceberg/v1/config?warehouse=default")
    visit.refused(404, "GET", "/iceberg/v1/config?warehouse=nowhere")
    tokens = "/iceberg/v1/oauth/tokens"
    credential = {
        "grant_type": "client_credentials",
        "client_id": "a",
        "client_secret": "b",
        "scope": "catalog",
    }
    visit.fine("POST", tokens, data=credential)
    kind = "urn:ietf:params:oauth:token-type:access_token"
    exchange = {"subject_token": "x", "subject_token_type": kind}
    grant = "urn:ietf:params:oauth:grant-type:token-exchange"
    visit.fine("POST", tokens, data={"grant_type": grant, **exchange})
    visit.refused(400, "POST", tokens, data={"grant_type": "password"})
    visit.refused(400, "POST", tokens, data={"scope": "catalog"})


def namespaces(visit: Visit) -> None:
    """Namespaces of several levels, their properties, pages of them."""
    base = f"{visit.base}/namespaces"
    (outer,) = visit.catalog.new_namespace()
    one = f"{base}/{segment(outer)}"
    visit.fine("POST", base, {"namespace": [outer, "in ner"], "properties": {"owner": "ada"}})
    visit.refused(409, "POST", base, {"namespace": [outer]})
    visit.refused(404, "POST", base, {"namespace": ["no such", "x"]})
    visit.refused(400, "POST", base, {"namespace": []})
    visit.fine("GET", base)
    visit.fine("GET", base, params={"parent": outer})
    visit.refused(404, "GET", base, params={"parent": "no such"})
    visit.catalog.new_namespace()
    first = visit.fine("GET", base, params={"pageSize": 1, "pageToken": ""}).json()
    visit.fine("GET", base, params={"pageSize": 1, "pageToken": first["next-page-token"]})
    visit.refused(400, "GET", base, params={"pageSize": 0})
    visit.fine("GET", one)
    visit.fine("HEAD", one)
    for method in ("GET", "HEAD", "DELETE"):
        visit.refused(404, method, f"{base}/no-such")
    visit.fine("POST", f"{one}/properties", {"updates": {"a": "b"}, "removals": ["c"]})
    visit.refused(422, "POST", f"{one}/properties", {"updates": {"a": "b"}, "removals": ["a"]})
    visit.refused(404, "POST", f"{base}/no-such/properties", {"updates": {}})
    visit.refused(400, "POST", f"{one}/properties", {"updates": {"a": 1}})
    visit.refused(409, "DELETE", one)
    visit.fine("DELETE", f"{base}/{segment(outer, 'in ner')}")


def tables(visit: Visit) -> None:
    """A table made, staged, loaded in every form, and everything that is not there."""
    levels, loaded = visit.catalog.new_table(properties={"a": "b"})
    all_of_them, one = visit.catalog.tables(levels), visit.catalog.table(levels, "t")
    visit.fine("POST", all_of_them, {"name": "staged", "schema": SCHEMA, "stage-create": True})
    visit.refused(409, "POST", all_of_them, {"name": "t", "schema": SCHEMA})
    visit.refused(400, "POST", all_of_them, {"name": "u", "schema": {"type": "struct"}})
    visit.refused(404, "POST", visit.catalog.tables(("no such",)), {"name": "t", "schema": SCHEMA})
    visit.catalog.create(levels, "second table")
    first = visit.fine("GET", all_of_them, params={"pageSize": 1, "pageToken": ""}).json()
    visit.fine("GET", all_of_them, params={"pageSize": 9, "pageToken": first["next-page-token"]})
    visit.refused(404, "GET", visit.catalog.tables(("no such",)))
    delegation = {"X-Iceberg-Access-Delegation": "vended-credentials"}
    answer = visit.fine("GET", f"{one}?snapshots=refs", headers=delegation)
    tag = {**delegation, "If-None-Match": answer.headers["etag"]}
    assert visit.fine("GET", f"{one}?snapshots=refs", headers=tag).status_code == 304
    visit.refused(400, "GET", f"{one}?snapshots=some")
    visit.fine("HEAD", one)
    missing = visit.catalog.table(levels, "missing")
    for method in ("GET", "HEAD", "DELETE"):
        visit.refused(404, method, missing)
    visit.fine("GET", f"{one}/credentials")
    visit.refused(404, "GET", f"{missing}/credentials")
    visit.refused(404, "POST", f"{missing}/unregister")
    signed = {
        "uri": "https://bucket.s3.amazonaws.com/x",
        "region": "us-east-1",
        "method": "GET",
        "headers": {},
    }
    visit.refused(400, "POST", f"{one}/sign", signed)
    functions = f"{visit.base}/namespaces/{segment(*levels)}/functions"
    visit.refused(404, "GET", functions)
    visit.refused(404, "GET", f"{functions}/f")
    visit.fine("POST", f"{one}/metrics", scan_report())
    visit.fine("POST", f"{one}/metrics", _commit_report())
    visit.refused(404, "POST", f"{missing}/metrics", scan_report())
    visit.refused(400, "POST", f"{one}/metrics", {"metrics": {}})
    assert loaded["metadata-location"]
    visit.refused(400, "DELETE", f"{one}?purgeRequested=maybe")
    visit.catalog.create(levels, "handed over")
    visit.fine("POST", f"{visit.catalog.table(levels, 'handed over')}/unregister")
    visit.fine("DELETE", f"{one}?purgeRequested=true")


def table_types(visit: Visit) -> None:
    """Tables of every format version and type."""
    for version_number, types in ((1, TYPES), (2, TYPES), (3, TYPES + SINCE_V3)):
        fields = [
            {"id": number, "name": f"c{number}", "required": False, "type": kind, "doc": "a column"}
            for number, kind in enumerate(types, 1)
        ]
        if version_number == 3:
            defaults = {"initial-default": 5, "write-default": 6}
            fields.append({"id": 90, "name": "d", "required": True, "type": "int", **defaults})
        spec = {"fields": [{"source-id": 2, "transform": "bucket[16]", "name": "b"}]}
        field = {"source-id": 3, "transform": "identity", "direction": "desc", "null-order": "nulls-last"}
        levels = visit.catalog.new_namespace()
        answer = visit.catalog.create(
            levels,
            "t",
            schema={"type": "struct", "schema-id": 0, "fields": fields, "identifier-field-ids": []},
            **{"partition-spec": spec, "write-order": {"order-id": 1, "fields": [field]}},
            properties={"format-version": str(version_number)},
        )
        assert answer.status_code == 200, answer.text
        visit.fine("GET", visit.catalog.table(levels, "t"), headers={"Accept-Encoding": "gzip"})


def commits(visit: Visit) -> None:
    """Every update and every requirement; commits that lose."""
    levels, loaded = visit.catalog.new_table()
    one, metadata = visit.catalog.table(levels, "t"), loaded["metadata"]
    visit.refused(409, "POST", one, {"requirements": [{"type": "assert-create"}], "updates": []})
    commit = {"requirements": every_requirement(metadata), "updates": every_update(metadata)}
    visit.fine("POST", one, commit, headers={"Idempotency-Key": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"})
    visit.fine("GET", f"{one}?snapshots=all")
    visit.refused(409, "POST", one, {**commit, "updates": []})
    visit.refused(400, "POST", one, {"requirements": [], "updates": [{"action": "no-such"}]})
    tag = {
        "action": "set-snapshot-ref",
        "ref-name": "v1",
        "type": "tag",
        "snapshot-id": 1,
        "max-ref-age-ms": 9,
    }
    visit.fine("POST", one, {"requirements": [], "updates": [tag]})
    visit.refused(404, "POST", visit.catalog.table(levels, "missing"), {"requirements": [], "updates": []})
    third, key = visit.catalog.table(levels, "keys"), {"key-id": "k", "encrypted-key-metadata": "YWJj"}
    visit.catalog.create(levels, "keys", properties={"format-version": "3"})
    add = {"action": "add-encryption-key", "encryption-key": key}
    visit.fine("POST", third, {"requirements": [], "updates": [add]})
    remove = {"action": "remove-encryption-key", "key-id": "k"}
    visit.fine("POST", third, {"requirements": [], "updates": [remove]})


def transactions(visit: Visit) -> None:
    """Commits to two tables at once, and one that makes a staged table."""
    path = f"{visit.base}/transactions/commit"
    levels, loaded = visit.catalog.new_table()
    other = visit.catalog.create(levels, "other").json()
    changes = [
        {
            "identifier": {"namespace": list(levels), "name": name},
            "requirements": append_requirements(result["metadata"]),
            "updates": append_updates(result["metadata"], 7),
        }
        for name, result in (("t", loaded), ("other", other))
    ]
    visit.fine("POST", path, {"table-changes": changes})
    visit.refused(409, "POST", path, {"table-changes": changes})
    visit.refused(400, "POST", path, {"table-changes": []})
    unknown = {**changes[0], "identifier": {"namespace": list(levels), "name": "missing"}}
    visit.refused(404, "POST", path, {"table-changes": [unknown]})


def moves(visit: Visit) -> None:
    """Register and rename tables."""
    levels, loaded = visit.catalog.new_table()
    namespace = f"{visit.base}/namespaces/{segment(*levels)}"
    register = {"name": "r", "metadata-location": loaded["metadata-location"]}
    visit.refused(409, "POST", f"{namespace}/register", register)
    visit.fine("DELETE", visit.catalog.table(levels, "t"))
    visit.fine("POST", f"{namespace}/register", register)
    visit.fine("POST", f"{namespace}/register", {**register, "overwrite": True})
    visit.catalog.create(levels, "t")
    visit.refused(409, "POST", f"{namespace}/register", register)
    visit.refused(400, "POST", f"{namespace}/register", {"name": "r"})
    visit.refused(404, "POST", f"{visit.base}/namespaces/no-such/register", register)
    source, target = ({"namespace": list(levels), "name": name} for name in ("t", "moved"))
    rename = f"{visit.base}/tables/rename"
    visit.fine("POST", rename, {"source": source, "destination": target})
    visit.refused(404, "POST", rename, {"source": source, "destination": target})
    visit.refused(409, "POST", rename, {"source": target, "destination": {**source, "name": "r"}})
    visit.refused(404, "POST", rename, {"source": target, "destination": {**source, "namespace": ["no"]}})
    visit.refused(400, "POST", rename, {"source": source})


def views(visit: Visit) -> None:
    """The life of a view."""
    levels = visit.catalog.new_namespace()
    namespace = f"{visit.base}/namespaces/{segment(*levels)}"
    create = {"name": "v", "schema": SCHEMA, "view-version": version(), "properties": {"a": "b"}}
    made = visit.fine("POST", f"{namespace}/views", create).json()
    visit.refused(409, "POST", f"{namespace}/views", create)
    visit.refused(400, "POST", f"{namespace}/views", {**create, "name": "w", "view-version": {}})
    visit.refused(404, "POST", f"{visit.base}/namespaces/no-such/views", create)
    one, missing = f"{namespace}/views/v", f"{namespace}/views/missing"
    visit.fine("GET", f"{namespace}/views", params={"pageToken": "", "pageSize": 5})
    visit.refused(404, "GET", f"{visit.base}/namespaces/no-such/views")
    visit.fine("GET", one)
    visit.fine("HEAD", one)
    needs = [{"type": "assert-view-uuid", "uuid": made["metadata"]["view-uuid"]}]
    updates = [*replacing(query("select 2"), query("select 2", "trino"), schema=SCHEMA), setting(b="c")]
    visit.fine("POST", one, {"requirements": needs, "updates": updates})
    wrong = [{"type": "assert-view-uuid", "uuid": "00000000-0000-7000-8000-000000000000"}]
    visit.refused(409, "POST", one, {"requirements": wrong, "updates": []})
    visit.refused(400, "POST", one, {"updates": [{"action": "no-such"}]})
    visit.refused(404, "POST", missing, {"updates": []})
    register = {"name": "r", "metadata-location": made["metadata-location"]}
    visit.fine("DELETE", one)
    visit.fine("POST", f"{namespace}/register-view", register)
    visit.fine("POST", f"{namespace}/views", create)
    visit.refused(409, "POST", f"{namespace}/register-view", register)
    visit.refused(404, "POST", f"{visit.base}/namespaces/no-such/register-view", register)
    visit.refused(400, "POST", f"{namespace}/register-view", {"name": "r"})
    source, target = ({"namespace": list(levels), "name": name} for name in ("v", "moved"))
    rename = f"{visit.base}/views/rename"
    visit.fine("POST", rename, {"source": source, "destination": target})
    visit.refused(404, "POST", rename, {"source": source, "destination": target})
    visit.refused(409, "POST", rename, {"source": target, "destination": {**source, "name": "r"}})
    for method in ("GET", "HEAD", "DELETE"):
        visit.refused(404, method, missing)
    visit.fine("DELETE", f"{namespace}/views/r")


def scans(visit: Visit) -> None:
    """Plans with everything in them, their pages, and the ends of plans."""
    levels = ("scanned",)
    schema = {"type": "struct", "schema-id": 0, "fields": SCHEMA["fields"]}
    lake = PlannedLake(ClientCatalog(visit.catalog), TableIdent.of(*levels, "t"), schema=schema, spec=BY_NAME)
    (data,) = lake.named("a", partition=("x",), value_counts={1: 1}, lower_bounds={1: b"\x01" + b"\0" * 7})
    lake.row_delta([data], [lake.position_file([(data.file_path, 0)], partition=("x",))])
    lake.append_named("b", partition=(None,), split_offsets=[4], sort_order_id=0)
    lake.row_delta([], [lake.equality_file([{"id": 1}], [1], partition=("x",))])
    one, missing = visit.catalog.table(levels, "t"), visit.catalog.table(levels, "missing")
    query = {"type": "gt", "term": "id", "value": 0}
    wanted = {"select": ["id"], "filter": query, "case-sensitive": True, "stats-fields": ["id"]}
    visit.refused(404, "POST", f"{missing}/plan", wanted)
    visit.refused(400, "POST", f"{one}/plan", {"snapshot-id": 5})
    plan = visit.fine("POST", f"{one}/plan", wanted).json()
    assert len(plan["delete-files"]) == 2
    path = f"{one}/plan/{plan['plan-id']}"
    token = visit.fine("GET", path).json()["plan-tasks"][0]
    visit.fine("POST", f"{one}/tasks", {"plan-task": token})
    visit.refused(404, "POST", f"{one}/tasks", {"plan-task": "no such"})
    visit.refused(400, "POST", f"{one}/tasks", {})
    visit.fine("DELETE", path)
    assert visit.fine("GET", path).json() == {"status": "cancelled"}
    for method in ("GET", "DELETE"):
        visit.refused(404, method, f"{one}/plan/no-such")


def oddities(visit: Visit) -> None:
    """Encodings of bodies, and bodies that are none."""
    path = f"{visit.base}/namespaces"
    for number, body in enumerate((gzip.compress(_namespace("packed")), _namespace("plain"))):
        encoding = {} if number else {"Content-Encoding": "gzip"}
        visit.fine("POST", path, content=body, headers={"Content-Type": "application/json", **encoding})
    visit.refused(415, "POST", path, content=b"x", headers={"Content-Encoding": "br"})
    visit.refused(400, "POST", path, content=b"x", headers={"Content-Encoding": "gzip"})
    visit.refused(400, "POST", path, content=b"")
    for method, url, body in seeds(visit.catalog):
        visit.http.request(method, url, json=body)
    levels = visit.catalog.new_namespace()
    many = {f"property-{number}": "x" * 100 for number in range(400)}
    assert visit.catalog.create(levels, "large", properties=many).status_code == 200
    for encoding_name in ("zstd", "gzip"):
        accepts = {"Accept-Encoding": encoding_name}
        visit.http.raw(visit.catalog.table(levels, "large"), headers=accepts)


def _namespace(name: str) -> bytes:
    return json.dumps({"namespace": [name]}).encode()


def _commit_report() -> dict[str, Any]:
    return {
        "report-type": "commit-report",
        "table-name": "t",
        "snapshot-id": 1,
        "sequence-number": 1,
        "operation": "append",
        "metrics": {"attempts": {"unit": "count", "value": 1}},
    }
