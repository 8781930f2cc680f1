"""What is kept for buckets and tables over the management API: the same documents that S3 Tables clients see."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.api.iceberg_client import Catalog, Http
from tests.api.test_management import assert_problem

POLICY = json.dumps({"Statement": [{"Effect": "Deny", "Note": "to the byte:  ü"}]}, indent=3)
KEY = "arn:aws:kms:us-east-1:000000000000:key/one"
BODIES = {
    "tags": {"tags": {"team": "web"}},
    "resource-policy": {"resourcePolicy": POLICY},
    "encryption": {"sseAlgorithm": "aws:kms", "kmsKeyArn": KEY},
    "storage-class": {"storageClass": "INTELLIGENT_TIERING"},
}
OTHERS = {
    "tags": {"tags": {}},
    "resource-policy": {"resourcePolicy": '{"Statement": []}'},
    "encryption": {"sseAlgorithm": "AES256"},
    "storage-class": {"storageClass": "STANDARD"},
}
WRONG = (
    ("tags", {"tags": {"aws:x": ""}}, "reserved"),
    ("tags", {}, "tags"),
    ("resource-policy", {"resourcePolicy": "{"}, "not valid"),
    ("resource-policy", {"resourcePolicy": "[]"}, 'with a "Statement"'),
    ("resource-policy", {"resourcePolicy": '{"Statement": [{"Effect": "Maybe"}]}'}, '"Allow" or "Deny"'),
    (
        "resource-policy",
        {"resourcePolicy": '{"Statement": [], "x": "' + "ü" * 12_000 + '"}'},
        "at most 20480",
    ),
    ("resource-policy", {"resourcePolicy": ""}, "at least 1"),
    ("resource-policy", {"resourcePolicy": "x" * 20_481}, "at most 20480"),
    ("encryption", {"sseAlgorithm": "rot13"}, "aws:kms"),
    ("encryption", {"sseAlgorithm": "aws:kms"}, "needs a kmsKeyArn"),
    ("encryption", {"sseAlgorithm": "AES256", "kmsKeyArn": KEY}, "takes no kmsKeyArn"),
    ("encryption", {"sseAlgorithm": "aws:kms", "kmsKeyArn": "key"}, "pattern"),
    ("storage-class", {"storageClass": "GLACIER"}, "INTELLIGENT_TIERING"),
    ("storage-class", {"storageClass": "STANDARD", "days": 1}, "days"),
)


@pytest.fixture(params=["bucket", "table"])
def resource(request: pytest.FixtureRequest, http: Http, catalog: Catalog) -> tuple[str, str]:
    """What it is, and its path."""
    levels, _ = catalog.new_table()
    if request.param == "bucket":
        made = http.post("/api/v1/buckets", json={"name": f"kept-{levels[0].replace('_', '-')}"[:63]})
        assert made.status_code == 201, made.text
        return "bucket", f"/api/v1/buckets/{made.json()['name']}"
    return "table", f"/api/v1/buckets/default/namespaces/{levels[0]}/tables/t"


@pytest.mark.parametrize("name", list(BODIES))
def test_set_read_replaced_by_its_version_and_taken_away(
    http: Http, resource: tuple[str, str], name: str
) -> None:
    what, path = resource[0], f"{resource[1]}/{name}"
    first = "0" if name != "tags" else http.get(path).headers["etag"].strip('"')
    assert_problem(http.put(path, json=BODIES[name], headers={"If-Match": '"7"'}), 412, "conflict")
    made = http.put(path, json=BODIES[name], headers={"If-Match": f'"{first}"'})
    assert made.status_code == 200, made.text
    source = {} if name in ("tags", "resource-policy") else {"source": what}
    assert made.json() == {**BODIES[name], **source}
    found = http.get(path)
    assert (found.json(), found.headers["etag"]) == (made.json(), made.headers["etag"])
    assert_problem(http.put(path, json=OTHERS[name], headers={"If-Match": f'"{first}"'}), 412, "conflict")
    again = http.put(path, json=OTHERS[name], headers={"If-Match": made.headers["etag"]})
    assert again.status_code == 200
    assert again.headers["etag"] != made.headers["etag"]
    assert {key: value for key, value in again.json().items() if value is not None} == {
        **OTHERS[name],
        **source,
    }
    if name == "tags":
        return
    assert_problem(http.delete(path, headers={"If-Match": made.headers["etag"]}), 412, "conflict")
    assert http.delete(path, headers={"If-Match": again.headers["etag"]}).status_code == 204
    assert_problem(http.delete(path), 404, "not-found")
    if name == "storage-class":
        assert http.get(path).json() == {"storageClass": "STANDARD", "source": "default"}
    else:
        assert_problem(http.get(path), 404, "not-found")


@pytest.mark.parametrize(("name", "body", "told"), WRONG)
def test_what_can_not_be_is_refused_and_changes_nothing(
    http: Http, resource: tuple[str, str], name: str, body: dict[str, object], told: str
) -> None:
    path = f"{resource[1]}/{name}"
    before = http.get(path)
    assert told in assert_problem(http.put(path, json=body), 400, "invalid")
    assert http.get(path).content == before.content


def test_what_is_not_there_has_nothing_kept(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    for path in (
        "/api/v1/buckets/nowhere",
        f"/api/v1/buckets/default/namespaces/{levels[0]}/tables/no",
        "/api/v1/buckets/default/namespaces/no/tables/t",
    ):
        for name, body in BODIES.items():
            assert_problem(http.get(f"{path}/{name}"), 404, "not-found")
            assert_problem(http.put(f"{path}/{name}", json=body), 404, "not-found")
    assert_problem(http.get("/api/v1/buckets/nowhere/metrics-configuration"), 404, "not-found")


def test_a_table_without_its_own_has_its_buckets(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    bucket, table = "/api/v1/buckets/default", f"/api/v1/buckets/default/namespaces/{levels[0]}/tables/t"
    try:
        for name in ("encryption", "storage-class"):
            assert http.put(f"{bucket}/{name}", json=BODIES[name]).status_code == 200
            inherited = http.get(f"{table}/{name}")
            assert inherited.json() == {**BODIES[name], "source": "bucket"}
            own = http.put(
                f"{table}/{name}", json=OTHERS[name], headers={"If-Match": inherited.headers["etag"]}
            )
            assert own.json()["source"] == "table"
            assert http.get(f"{bucket}/{name}").json() == {**BODIES[name], "source": "bucket"}
        assert_problem(http.get(f"{table}/resource-policy"), 404, "not-found")
    finally:
        for name in ("encryption", "storage-class"):
            http.delete(f"{bucket}/{name}")


def test_s3_tables_clients_see_the_same(http: Http, resource: tuple[str, str]) -> None:
    what, path = resource
    for name, body in BODIES.items():
        assert http.put(f"{path}/{name}", json=body).status_code == 200
    found = http.get(path).json()
    arn = found["arn"] if what == "bucket" else found["table"]["arn"]
    bucket = arn.partition("/table/")[0].replace(":", "%3A").replace("/", "%2F")
    if what == "bucket":
        base = f"/s3tables/buckets/{bucket}"
    else:
        table = found["table"]
        base = f"/s3tables/tables/{bucket}/{table['namespace'][0]}/{table['name']}"
    assert http.get(f"{base}/policy").json() == {"resourcePolicy": POLICY}
    assert http.get(f"{base}/encryption").json() == {"encryptionConfiguration": BODIES["encryption"]}
    assert http.get(f"{base}/storage-class").json() == {"storageClassConfiguration": BODIES["storage-class"]}
    tagged = arn.replace(":", "%3A").replace("/", "%2F")
    assert http.get(f"/s3tables/tag/{tagged}").json() == {"tags": {"team": "web"}}


def test_metrics_of_a_bucket_are_asked_for_and_no_more(http: Http) -> None:
    path = "/api/v1/buckets/default/metrics-configuration"
    before = http.get(path)
    assert before.json() == {"enabled": False}
    on = http.put(path, json={"enabled": True}, headers={"If-Match": before.headers["etag"]})
    assert (on.status_code, http.get(path).json()) == (200, {"enabled": True})
    stale = http.put(path, json={"enabled": False}, headers={"If-Match": before.headers["etag"]})
    assert_problem(stale, 412, "conflict")
    off = http.put(path, json={"enabled": False}, headers={"If-Match": on.headers["etag"]})
    assert (off.headers["etag"], http.get(path).json()) == (before.headers["etag"], {"enabled": False})


def test_of_many_who_replace_the_same_version_one_does(http: Http, resource: tuple[str, str]) -> None:
    for name in ("tags", "resource-policy"):
        path = f"{resource[1]}/{name}"
        etag = http.put(path, json=BODIES[name]).headers["etag"]

        def replace(number: int, path: str = path, name: str = name, etag: str = etag) -> int:
            body: dict[str, object] = {"tags": {"by": str(number)}}
            if name != "tags":
                body = {"resourcePolicy": f'{{"Statement": [], "by": {number}}}'}
            return http.put(path, json=body, headers={"If-Match": etag}).status_code

        with ThreadPoolExecutor(8) as threads:
            assert sorted(threads.map(replace, range(8))) == [200, *[412] * 7]
