"""PyIceberg and DuckDB pointed at S3 Tables: signed requests to the Iceberg API, the bucket by its ARN."""

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.engines.conftest import extension
from tests.s3 import KEY, SECRET
from tests.s3tables_clients.conftest import Lake

pytestmark = [pytest.mark.process, pytest.mark.engine]


@pytest.fixture
def signed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> RestCatalog:
    """PyIceberg's catalog as AWS's documentation has it, but for the `uri`."""
    for name, value in lake.environment.items():
        monkeypatch.setenv(name, value)
    signing = {"sigv4-enabled": "true", "signing-name": "s3tables", "signing-region": "us-east-1"}
    return RestCatalog(
        "lake",
        uri=lake.server.iceberg,
        warehouse=lake.arn,
        **{f"rest.{name}": value for name, value in signing.items()},
        **lake.s3.properties,
    )


@pytest.fixture
def database(lake: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the bucket attached; it reads service and region to sign for out of the host's name."""
    host = lake.s3.endpoint.removeprefix("http://")
    uri = lake.server.iceberg.replace("127.0.0.1", "s3tables.us-east-1.localhost")
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        for name in ("httpfs", "avro", "iceberg"):
            connection.execute(f"LOAD '{extension(name)}'")
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', REGION 'us-east-1', ENDPOINT '{host}', "
            "URL_STYLE 'path', USE_SSL false)"
        )
        connection.execute(
            f"ATTACH '{lake.arn}' AS lake (TYPE ICEBERG, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'sigv4')"
        )
        yield connection


def test_both_write_and_read_the_same_table(
    lake: Lake, signed: RestCatalog, database: duckdb.DuckDBPyConnection
) -> None:
    signed.create_namespace("signed")
    table = signed.create_table("signed.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2]}))
    database.execute("INSERT INTO lake.signed.t VALUES (3)")
    assert database.execute("SELECT sum(id) FROM lake.signed.t").fetchall() == [(6,)]
    assert sorted(signed.load_table("signed.t").scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
