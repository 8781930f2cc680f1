"""AWS's S3TablesCatalog, which users of S3 Tables have in Spark and Flink, as it is, against this server."""

import os
import subprocess
from pathlib import Path

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.s3tables_clients.conftest import Lake

pytestmark = [pytest.mark.process, pytest.mark.java, pytest.mark.timeout(600)]


def test_the_life_of_tables(lake: Lake, s3tables_jars: Path) -> None:
    command = ["java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    command += ["-cp", f"{s3tables_jars}/*", str(Path(__file__).with_name("Life.java"))]
    done = subprocess.run(
        [*command, lake.endpoint, lake.s3.endpoint, lake.arn, "java"],
        env={**os.environ, **lake.environment},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:] + lake.server.log_text()[-3000:]
    assert done.stdout.splitlines() == [
        "namespace twice = refused",
        "table of nothing = refused",
        "table twice = refused",
        "rows after one append = 10",
        "rows after all writers = 90",
        "change of an old schema = refused",
        "columns = 3",
        "snapshots after expiration = 1",
        "rows of a table created with its rows = 5",
        "rows of a table replaced = 0",
        "tables = [java.renamed, java.second]",
        "rows after the rename = 90",
        "namespace with tables = refused",
        "drop that keeps files = refused",
        "dropped = true",
        "dropped table = refused",
    ]
    # The same table through the Iceberg API, in another client; `warehouse` may be the bucket's ARN there too.
    catalog = RestCatalog("lake", uri=lake.server.iceberg, warehouse=lake.arn, **lake.s3.properties)
    rows = catalog.load_table("java.renamed").scan().to_arrow()
    assert rows.num_rows == 90
    assert len(set(rows["id"].to_pylist())) == 90
