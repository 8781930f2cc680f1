"""Our OpenAPI document of the S3 Tables API: current, and served."""

import json
from pathlib import Path

from catalog_server.api.s3tables.router import OPERATIONS, describe
from tests.api.iceberg_client import Http

COMMITTED = Path(__file__).parents[2] / "openapi/s3tables.json"


def test_the_committed_document_is_up_to_date() -> None:
    """Renew it with: make openapi"""
    assert json.loads(COMMITTED.read_bytes()) == describe()


def test_the_server_hands_the_document_out(http: Http) -> None:
    assert http.get("/s3tables/openapi.json").json() == describe()


def test_every_operation_that_is_offered_is_described_once() -> None:
    described = [
        operation["operationId"] for item in describe()["paths"].values() for operation in item.values()
    ]
    assert sorted(described) == sorted(operation.name for operation in OPERATIONS if operation.offered)
