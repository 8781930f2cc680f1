"""The AWS CLI with an `--endpoint-url`, for people and scripts that have only that."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.documented import commands
from tests.s3tables_clients.conftest import Lake
from tests.s3tables_clients.fetch import aws_cli

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


# One process for all commands: most of the time of each would go into starting Python.
_SHELL = """
import contextlib, io, json, sys
from awscli.clidriver import create_clidriver
for line in sys.stdin:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = create_clidriver().main(json.loads(line))
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


class Cli:
    """The CLI's own program, told one command line after the other."""

    def __init__(self, lake: Lake, process: "subprocess.Popen[str]") -> None:
        self._options = ["--endpoint-url", lake.endpoint, "s3tables"]
        self._process = process

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, what is printed, and what is said of errors."""
        return self.whole(*self._options, *arguments)

    def whole(self, *arguments: str) -> tuple[int, str, str]:
        """The same with every argument as it is given."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        code, out, error = json.loads(self._process.stdout.readline())
        return code, out, error

    def __call__(self, *arguments: str) -> Any:
        code, out, error = self.run(*arguments)
        assert code == 0, error
        return json.loads(out) if out.strip() else None


@pytest.fixture
def aws(lake: Lake) -> Iterator[Cli]:
    env = {**os.environ, **lake.environment, "PYTHONPATH": str(aws_cli())}
    command = [sys.executable, "-W", "ignore", "-c", _SHELL]
    with subprocess.Popen(
        command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield Cli(lake, process)
        finally:
            process.kill()


def test_what_the_pages_show_of_the_command_line(lake: Lake, aws: Cli) -> None:
    shown = [command for command in commands() if command.words[0] == "aws"]
    assert shown
    for command in shown:
        words = [word.replace("http://127.0.0.1:8181", lake.server.url) for word in command.words[1:]]
        assert lake.server.url in " ".join(words)
        code, _, error = aws.whole(*words)
        assert code == 0, error


def test_tables_of_the_command_line(lake: Lake, aws: Cli) -> None:
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
    code, _, error = aws.run(
        *("update-table-metadata-location", *one, "--version-token", made["versionToken"]),
        *("--metadata-location", found["metadataLocation"]),
    )
    assert code
    assert "ConflictException" in error
    assert "Provided version token does not match" in error
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
    assert "NotFoundException" in aws.run("get-table", *one)[2]
    aws("delete-namespace", *bucket, "--namespace", "cli")
