"""A server whose bucket lies in a real object store, for the clients of AWS."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.java.fixtures import s3tables_jars
from tests.process.servers import Server, serving
from tests.s3 import KEY, SECRET, S3Server, s3

__all__ = ["s3", "s3tables_jars"]


@dataclass(frozen=True)
class Lake:
    """The server, the object store under it, and what AWS's clients are told of both."""

    server: Server
    s3: S3Server

    @property
    def endpoint(self) -> str:
        return f"{self.server.url}/s3tables"

    @property
    def arn(self) -> str:
        return "arn:aws:s3tables:us-east-1:000000000000:bucket/default"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        }


@pytest.fixture(scope="session")
def lake(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    env = {
        "FRAZIL_STORAGE__DEFAULT_BUCKET_LOCATION": f"s3://{s3.bucket()}/warehouse",
        "FRAZIL_STORAGE__PROPERTIES": json.dumps(s3.properties),
    }
    with serving(tmp_path_factory.mktemp("lake"), env=env) as server:
        yield Lake(server, s3)
