"""A catalog whose buckets lie in S3: engines, our own maintenance, and buckets with a store of their own."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual

from table_format.io.resolve import store_for
from tests.engines.conftest import extension
from tests.process.servers import Server, serving
from tests.process.test_worker_killed import FAST, POLICIES, ended
from tests.s3 import KEY, SECRET, S3Server

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def warehouse(s3: S3Server) -> str:
    return f"s3://{s3.bucket()}/ware house"


@pytest.fixture(scope="module")
def server(s3: S3Server, warehouse: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its default bucket in S3, with the keys in the settings; a second set of keys by name."""
    environment = {
        **FAST,
        "FRAZIL_STORAGE__DEFAULT_BUCKET_LOCATION": warehouse,
        "FRAZIL_STORAGE__PROPERTIES": json.dumps(s3.properties),
        "FRAZIL_STORAGE__CREDENTIALS__SECOND": json.dumps(s3.credentials),
        "FRAZIL_PLANNING__THREAD_FILES": "0",
    }
    with serving(tmp_path_factory.mktemp("s3"), env=environment, maintenance=True) as running:
        yield running
    assert SECRET not in running.log_text()


@pytest.fixture
def connect(server: Server) -> Callable[..., Catalog]:
    def catalog(warehouse: str = "default", **properties: str) -> Catalog:
        own = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
        return load_catalog("c", type="rest", uri=server.iceberg, warehouse=warehouse, **own, **properties)

    return catalog


@pytest.fixture(scope="module")
def unsafe_policies(server: Server) -> None:
    for kind, settings in POLICIES.items():
        document = {"status": "enabled", "settings": {**settings, "intervalSeconds": 86400}}
        requests.put(
            f"{server.api}/buckets/default/policies/{kind}", json=document, timeout=30
        ).raise_for_status()


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "name": [f"n{number}" for number in numbers]})


def ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def job(server: Server, namespace: str, kind: str) -> dict[str, Any]:
    url = f"{server.api}/buckets/default/namespaces/{namespace}/tables/t/jobs"
    answer = requests.post(url, json={"kind": kind}, timeout=30)
    assert answer.status_code == 202, answer.text
    done = ended(server, answer.json()["id"])
    assert done["state"] == "done", done
    return done


def listed(s3: S3Server, prefix: str) -> set[str]:
    return {info.path for info in store_for(prefix, s3.properties).list(prefix)}


def test_engines_are_told_where_and_no_secret(
    s3: S3Server, server: Server, connect: Callable[..., Catalog]
) -> None:
    catalog = connect()
    catalog.create_namespace("told")
    catalog.create_table("told.t", rows(1).schema)
    told = {**s3.storage, "client.region": "us-east-1"}
    config = requests.get(f"{server.iceberg}/v1/config", timeout=30)
    assert config.json()["defaults"] == told
    url = f"{server.iceberg}/v1/default/namespaces/told/tables/t"
    answer = requests.get(url, timeout=30)
    assert answer.json()["config"] == told
    again = requests.get(url, headers={"If-None-Match": answer.headers["ETag"]}, timeout=30)
    assert again.status_code == 304
    staged = requests.post(
        f"{server.iceberg}/v1/default/namespaces/told/tables",
        json={"name": "s", "stage-create": True, "schema": answer.json()["metadata"]["schemas"][0]},
        timeout=30,
    )
    assert staged.json()["config"] == told
    assert SECRET not in config.text + answer.text + staged.text + str(dict(answer.headers))


def test_pyiceberg_and_duckdb_write_and_read(server: Server, connect: Callable[..., Catalog]) -> None:
    catalog = connect()
    catalog.create_namespace("both")
    table = catalog.create_table("both.t", rows(1).schema)
    table.append(rows(1, 2, 3))
    table.delete(EqualTo("id", 2))
    duck = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("httpfs", "avro", "iceberg"):
        duck.execute(f"LOAD '{extension(name)}'")
    endpoint = catalog.properties["s3.endpoint"].removeprefix("http://")
    duck.execute(
        f"CREATE SECRET (TYPE S3, KEY_ID '{KEY}', SECRET '{SECRET}', REGION 'us-east-1', ENDPOINT '{endpoint}', "
        "URL_STYLE 'path', USE_SSL false)"
    )
    duck.execute(
        f"ATTACH 'default' AS lake (TYPE ICEBERG, ENDPOINT '{server.iceberg}', AUTHORIZATION_TYPE 'none', "
        "ACCESS_DELEGATION_MODE 'none')"
    )
    assert duck.execute("SELECT id, name FROM lake.both.t ORDER BY id").fetchall() == [(1, "n1"), (3, "n3")]
    duck.execute("INSERT INTO lake.both.t VALUES (7, 'duck')")
    duck.close()
    table = catalog.load_table("both.t")
    assert ids(table) == [1, 3, 7]
    assert table.location().startswith("s3://")


def test_views_lie_in_the_bucket(s3: S3Server, server: Server, warehouse: str) -> None:
    views = f"{server.iceberg}/v1/default/namespaces/seen/views"
    requests.post(f"{server.iceberg}/v1/default/namespaces", json={"namespace": ["seen"]}, timeout=30)
    version = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1,
        "summary": {},
        "default-namespace": ["seen"],
        "representations": [{"type": "sql", "sql": "SELECT 1 AS id", "dialect": "duckdb"}],
    }
    schema = {"type": "struct", "schema-id": 0, "fields": []}
    body = {"name": "v", "schema": schema, "view-version": version, "properties": {}}
    made = requests.post(views, json=body, timeout=30)
    assert made.status_code == 200, made.text
    location = made.json()["metadata-location"]
    assert location.startswith(f"{warehouse}/seen/")
    assert listed(s3, f"{warehouse}/seen") == {location}
    assert requests.get(f"{views}/v", timeout=30).json()["metadata"] == made.json()["metadata"]
    assert requests.delete(f"{views}/v", timeout=30).status_code == 204


def test_scans_are_planned_by_processes(server: Server, connect: Callable[..., Catalog]) -> None:
    catalog = connect(**{"scan-planning-mode": "server", "rest-scan-planning-enabled": "true"})
    catalog.create_namespace("planned")
    table = catalog.create_table("planned.t", rows(1).schema)
    table.append(rows(1, 2))
    table.append(rows(8, 9))
    answer = requests.post(
        f"{server.iceberg}/v1/default/namespaces/planned/tables/t/plan",
        json={"filter": {"type": "gt-eq", "term": "id", "value": 8}},
        timeout=60,
    )
    assert answer.json()["status"] == "completed", answer.text
    (task,) = answer.json()["file-scan-tasks"]
    assert task["data-file"]["record-count"] == 2
    assert ids(catalog.load_table("planned.t")) == [1, 2, 8, 9]
    assert table.scan(GreaterThanOrEqual("id", 8)).to_arrow().num_rows == 2


@pytest.mark.usefixtures("unsafe_policies")
def test_a_table_is_maintained_dropped_and_purged(
    s3: S3Server, server: Server, connect: Callable[..., Catalog]
) -> None:
    catalog = connect()
    catalog.create_namespace("kept")
    table = catalog.create_table("kept.t", rows(1).schema)
    for number in range(5):
        table.append(rows(number))
    stray = f"{table.location()}/data/stray #1.parquet"
    store_for(stray, s3.properties).put(stray, b"nobody's")
    assert job(server, "kept", "icebergCompaction")["report"]["figures"]["filesRewritten"] == 5
    table.refresh()
    assert ids(table) == [0, 1, 2, 3, 4]
    assert len(list(table.scan().plan_files())) == 1
    before = listed(s3, table.location())
    for _ in range(20):  # the last appends may be younger than the second that snapshots are kept
        job(server, "kept", "icebergSnapshotManagement")
        table.refresh()
        if len(table.metadata.snapshots) == 1:
            break
    assert len(table.metadata.snapshots) == 1
    assert len([path for path in before - listed(s3, table.location()) if path.endswith(".parquet")]) == 5
    for _ in range(20):  # marked at first, deleted once it has been so for a second
        job(server, "kept", "icebergUnreferencedFileRemoval")
        if stray not in listed(s3, table.location()):
            break
    assert stray not in listed(s3, table.location())
    assert ids(catalog.load_table("kept.t")) == [0, 1, 2, 3, 4]
    catalog.purge_table("kept.t")
    told = requests.get(f"{server.api}/jobs", params={"kind": "tablePurge"}, timeout=30).json()
    (purge,) = [job for job in told["jobs"] if job["namespace"] == ["kept"]]
    assert ended(server, purge["id"])["state"] == "done"
    assert listed(s3, table.location()) == set()


def test_a_dropped_table_keeps_its_files_and_is_registered(
    s3: S3Server, connect: Callable[..., Catalog]
) -> None:
    catalog = connect()
    catalog.create_namespace("back")
    table = catalog.create_table("back.t", rows(1).schema)
    table.append(rows(1, 2))
    catalog.drop_table("back.t")
    assert table.metadata_location in listed(s3, table.location())
    again = catalog.register_table("back.again", table.metadata_location)
    assert ids(again) == [1, 2]
    again.append(rows(3))
    assert ids(catalog.load_table("back.again")) == [1, 2, 3]


def test_a_bucket_with_credentials_of_its_own(
    s3: S3Server, server: Server, connect: Callable[..., Catalog]
) -> None:
    url = f"{server.api}/buckets"
    wanted = {
        "name": "second",
        "location": f"s3://{s3.bucket()}/x",
        "storage": s3.storage,
        "credentials": "second",
    }
    refused = requests.post(url, json={**wanted, "credentials": "unheard-of"}, timeout=60)
    assert refused.status_code == 400
    assert "unheard-of" in refused.text
    made = requests.post(url, json=wanted, timeout=60)
    assert made.status_code == 201, made.text
    assert SECRET not in made.text + refused.text
    catalog = connect("second")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", rows(1).schema)
    table.append(rows(1))
    assert table.location().startswith(wanted["location"])
    assert ids(catalog.load_table("n.t")) == [1]


def test_a_location_that_does_not_work_is_told_and_not_stored(s3: S3Server, server: Server) -> None:
    url = f"{server.api}/buckets"
    refused = requests.post(
        url, json={"name": "nowhere", "location": "s3://no-such-bucket-at-all/x"}, timeout=60
    )
    assert refused.status_code == 400
    assert "write failed: there is no bucket 'no-such-bucket-at-all'" in refused.json()["detail"]
    assert requests.get(f"{url}/nowhere", timeout=30).status_code == 404


def test_other_storage_of_a_bucket_counts_at_once(
    s3: S3Server, server: Server, connect: Callable[..., Catalog]
) -> None:
    url = f"{server.api}/buckets/other"
    wanted = {"name": "other", "location": f"s3://{s3.bucket()}"}
    assert requests.post(f"{server.api}/buckets", json=wanted, timeout=60).status_code == 201
    catalog = connect("other")
    catalog.create_namespace("n")
    catalog.create_table("n.t", rows(1).schema)
    table = f"{server.iceberg}/v1/other/namespaces/n/tables/t"
    before = requests.get(table, timeout=30)
    outside = s3.endpoint.replace("127.0.0.1", "localhost")
    version = requests.get(url, timeout=30).headers["ETag"]
    described = {
        "properties": {},
        "storage": {"s3.client-endpoint": outside},
        "credentials": None,
        "protected": False,
    }
    changed = requests.put(url, json=described, headers={"If-Match": version}, timeout=60)
    assert changed.status_code == 200, changed.text
    after = requests.get(table, headers={"If-None-Match": before.headers["ETag"]}, timeout=30)
    assert after.status_code == 200  # the metadata is the same, the way to it is not
    assert after.json()["config"]["s3.endpoint"] == outside
    connect("other").load_table("n.t").append(rows(1))
