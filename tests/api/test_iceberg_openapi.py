"""Our OpenAPI document of the Iceberg API: complete, current, and in step with what the code knows."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from catalog_server.api.iceberg import errors, oauth
from catalog_server.api.iceberg.openapi.document import DESCRIBED, document
from catalog_server.api.iceberg.router import OPERATIONS, Operation, describe
from table_format.metadata import requirements, updates, view_updates
from tests.api.iceberg_client import Http, assert_error

COMMITTED = Path(__file__).parents[2] / "openapi/iceberg.json"
PAGE = Path(__file__).parents[2] / "docs/iceberg-api.md"
TOKENS = "POST /v1/oauth/tokens"
DOCUMENT = describe()
MODELS = DOCUMENT["components"]["schemas"]


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        yield from (found for inner in value.values() for found in references(inner))
    elif isinstance(value, list):
        yield from (found for inner in value for found in references(inner))


def test_the_committed_document_is_up_to_date() -> None:
    """Renew it with: make openapi"""
    assert json.loads(COMMITTED.read_bytes()) == DOCUMENT


def test_every_routed_operation_is_described_and_no_other() -> None:
    """Describe a new one in catalog_server/api/iceberg/openapi/operations_*.py"""
    routed = {operation.endpoint for operation in OPERATIONS} | {TOKENS}
    assert set(DESCRIBED) == routed
    listed = {f"{verb.upper()} {path}" for path, verbs in DOCUMENT["paths"].items() for verb in verbs}
    assert {one for one in listed if not one.startswith("PARAMETERS")} == routed


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.endpoint)
def test_bodies_and_keys_are_described_where_they_are_taken(operation: Operation) -> None:
    described = DESCRIBED[operation.endpoint]
    assert (described.body is not None) == (operation.method == "POST" and operation.body)
    assert ("Idempotency-Key" in described.parameters) == (operation.note is not None)


def test_every_status_of_an_error_is_described() -> None:
    described = {
        int(status)
        for item in DOCUMENT["paths"].values()
        for verb, operation in item.items()
        if verb != "parameters"
        for status in operation["responses"]
    }
    assert {status for status, _ in errors._ANSWERS.values()} <= described


def test_tokens_are_described_as_they_are_given() -> None:
    assert set(MODELS["OAuthTokenRequest"]["discriminator"]["mapping"]) == set(oauth._GRANTS)


def test_the_page_lists_every_operation() -> None:
    """docs/iceberg-api.md: one line each, in the order of the document."""
    lines = [
        f"| `{verb.upper()} {path}` | {operation['summary']} |"
        for path, item in DOCUMENT["paths"].items()
        for verb, operation in item.items()
        if verb != "parameters"
    ]
    assert [line for line in PAGE.read_text().splitlines() if line.startswith("| `")] == lines


def test_operation_ids_are_unique() -> None:
    ids = [described.id for described in DESCRIBED.values()]
    assert len(set(ids)) == len(ids)


def test_an_operation_that_nobody_described_is_refused() -> None:
    with pytest.raises(KeyError, match="GET /v1/unheard-of"):
        document(("GET /v1/unheard-of",))


def test_the_document_is_served(http: Http) -> None:
    answer = http.get("/iceberg/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == DOCUMENT
    assert_error(http.post("/iceberg/openapi.json"), 405, "MethodNotAllowedException")


def test_every_reference_leads_somewhere() -> None:
    for target in set(references(DOCUMENT)):
        found: Any = DOCUMENT
        for step in target.removeprefix("#/").split("/"):
            found = found[step]


@pytest.mark.parametrize("model", sorted(MODELS))
def test_a_model_is_a_valid_schema_and_tells_what_it_is(model: str) -> None:
    assert jsonschema_rs.meta.is_valid(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **MODELS[model]}
    )
    assert MODELS[model]["description"].endswith((".", ":"))


def test_the_updates_and_requirements_are_those_that_the_code_knows() -> None:
    def words(model: str) -> set[str]:
        return set(MODELS[model]["discriminator"]["mapping"])

    assert words("TableUpdate") == set(updates._ACTIONS)
    assert words("ViewUpdate") == set(view_updates._ACTIONS)
    assert words("TableRequirement") == set(requirements._CHECKS)
