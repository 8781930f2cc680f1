"""The AWS CLI with an `--endpoint-url`, for people and scripts that have only that."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.s3tables_clients.conftest import Lake
from tests.s3tables_clients.fetch import aws_cli

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def packages() -> Path:
    return aws_cli()


class Cli:
    """One shell, so to speak."""

    def __init__(self, lake: Lake, packages: Path) -> None:
        self._command = [sys.executable, "-m", "awscli", "--endpoint-url", lake.endpoint, "s3tables"]
        self._env = {**os.environ, **lake.environment, "PYTHONPATH": str(packages)}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *arguments],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def __call__(self, *arguments: str) -> Any:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None


def test_tables_of_the_command_line(lake: Lake, packages: Path) -> None:
    aws = Cli(lake, packages)
    bucket = ("--table-bucket-arn", lake.arn)
    one = (*bucket, "--namespace", "cli", "--name", "t")
    assert lake.arn in [found["arn"] for found in aws("list-table-buckets")["tableBuckets"]]
    aws("create-namespace", *bucket, "--namespace", "cli")
    schema = {"iceberg": {"schema": {"fields": [{"name": "id", "type": "long"}]}}}
    made = aws("create-table", *one, "--format", "ICEBERG", "--metadata", json.dumps(schema))
    found = aws("get-table", *one)
    assert (found["tableARN"], found["versionToken"]) == (made["tableARN"], made["versionToken"])

    # Written to by another client, the token is another one; the pointer can be told and set again.
    catalog = RestCatalog("lake", uri=lake.server.iceberg, warehouse=lake.arn, **lake.s3.properties)
    table = catalog.load_table("cli.t")
    table.append(table.scan().to_arrow().from_pylist([{"id": 1}, {"id": 2}], table.schema().as_arrow()))
    now = aws("get-table-metadata-location", *one)
    assert now["metadataLocation"] == catalog.load_table("cli.t").metadata_location
    stale = aws.run(
        *("update-table-metadata-location", *one, "--version-token", made["versionToken"]),
        *("--metadata-location", found["metadataLocation"]),
    )
    assert stale.returncode
    assert "ConflictException" in stale.stderr
    assert "Provided version token does not match" in stale.stderr
    again = aws(
        *("update-table-metadata-location", *one, "--version-token", "lost"),
        *("--metadata-location", now["metadataLocation"]),
    )
    assert again["versionToken"] == now["versionToken"]

    value = {"status": "enabled", "settings": {"icebergSnapshotManagement": {"minSnapshotsToKeep": 3}}}
    kind = ("--type", "icebergSnapshotManagement", "--value", json.dumps(value))
    aws("put-table-maintenance-configuration", *one, *kind)
    got = aws("get-table-maintenance-configuration", *one)["configuration"]["icebergSnapshotManagement"]
    assert got["settings"]["icebergSnapshotManagement"]["minSnapshotsToKeep"] == 3

    aws("rename-table", *one, "--new-name", "renamed", "--version-token", now["versionToken"])
    assert [each["name"] for each in aws("list-tables", *bucket, "--namespace", "cli")["tables"]] == [
        "renamed"
    ]
    assert catalog.load_table("cli.renamed").scan().to_arrow().num_rows == 2
    aws("delete-table", *bucket, "--namespace", "cli", "--name", "renamed")
    missing = aws.run("get-table", *one)
    assert "NotFoundException" in missing.stderr
    aws("delete-namespace", *bucket, "--namespace", "cli")
