"""Our OpenAPI document of the S3 Tables API: current, and served; and the page beside it."""

import json
import re
from pathlib import Path

from catalog_server.api.s3tables.router import OPERATIONS, describe
from tests.api.iceberg_client import Http
from tests.contract.s3tables.model import MODEL

COMMITTED = Path(__file__).parents[2] / "openapi/s3tables.json"
PAGE = Path(__file__).parents[2] / "docs/s3-tables-api.md"


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


def test_every_operation_of_the_model_has_its_row_in_the_page() -> None:
    rows = re.findall(r"^\| `([A-Za-z]+)` \| `([A-Z]+) (/[^`]+)` \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    model = {
        name: (MODEL.operation_model(name).http["method"], MODEL.operation_model(name).http["requestUri"])
        for name in MODEL.operation_names
    }
    assert {name: (method, path) for name, method, path, _ in rows} == model
    said = {name for name, _, _, what in rows if "not offered" in what}
    assert said == {operation.name for operation in OPERATIONS if not operation.offered}
