"""Requests made from our OpenAPI documents, right and wrong ones, by schemathesis: no 5xx, every answer as declared.

`FUZZ_EXAMPLES` is how many requests each operation gets of each kind, 15 when it is not set.
"""

import copy
import os
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.errors import InvalidSchema
from schemathesis.specs.openapi import checks

from catalog_server.api.iceberg.router import describe
from catalog_server.api.management.router import describe_api
from catalog_server.api.s3tables import router as s3tables
from catalog_server.app import create_app
from catalog_server.bootstrap import Platform
from tests.api.direct import Sent, ask
from tests.api.iceberg_client import SCHEMA, Catalog, Http, segment
from tests.contract.upstream import resolve
from tests.factories.views import version

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "15"))
ORIGIN = "http://testserver"
APIS: dict[str, Any] = {
    "/iceberg": describe(),
    "/api": describe_api().openapi(),
    "/s3tables": s3tables.describe(),
}
OPERATIONS = [
    (base, path, verb)
    for base, document in APIS.items()
    for path, item in document["paths"].items()
    for verb in item
    if verb != "parameters"
]


def can_be_wrong(base: str, path: str, verb: str) -> bool:
    """Whether a request can break what the document says: any text is right where text is all that is asked for."""
    document = APIS[base]
    operation = document["paths"][path][verb]
    given_there = document["paths"][path].get("parameters", []) + operation.get("parameters", [])
    schemas = [resolve(document, one)["schema"] for one in given_there]
    kinds = {
        kind for schema in schemas for kind in (one.get("type") for one in schema.get("anyOf", [schema]))
    }
    return "requestBody" in operation or bool(kinds & {"integer", "boolean"})


CASES = [
    pytest.param(*operation, mode, id=f"{operation[2]} {operation[0]}{operation[1]} {mode.value}")
    for operation in OPERATIONS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or can_be_wrong(*operation)
]
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
# Bodies get further when the words in them are known ones, and when nothing is in them that nobody reads.
WORDS = {
    "PrimitiveType": ["int", "long", "string", "timestamptz", "decimal(9, 2)", "fixed[16]", "variant", "x"],
    "Transform": ["identity", "void", "day", "bucket[16]", "truncate[4]", "x"],
}


def narrowed(document: Any) -> Any:
    """The document as requests are made from: no members but those it names, a few words for free text."""

    def close(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("type") == "object" and "properties" in value:
                value.setdefault("additionalProperties", False)
            for inner in value.values():
                close(inner)
        elif isinstance(value, list):
            for inner in value:
                close(inner)

    narrow = copy.deepcopy(document)
    close(narrow["components"]["schemas"])
    for model, words in WORDS.items():
        if model in narrow["components"]["schemas"]:
            narrow["components"]["schemas"][model] = {"type": "string", "enum": words}
    return narrow


@pytest.fixture(scope="module")
def schemas() -> dict[str, tuple[Any, Any]]:
    """Per API: what requests are made from, and what answers are held against."""
    load_all_checks()
    load = schemathesis.openapi.from_dict
    return {base: (load(narrowed(document)), load(document)) for base, document in APIS.items()}


def existing(catalog: Catalog) -> dict[str, str]:
    """Names in paths that lead somewhere, percent-encoded."""
    levels, loaded = catalog.new_table()
    body = {"name": "v", "schema": SCHEMA, "view-version": version(), "properties": {}}
    made = catalog.http.post(f"{catalog.base}/namespaces/{segment(*levels)}/views", json=body)
    assert made.status_code == 200
    names = {"namespace": levels[0], "table": "t", "view": "v", "prefix": "default", "bucket": "default"}
    arn = "arn:aws:s3tables:us-east-1:000000000000:bucket/default"
    table = f"{arn}/table/{loaded['metadata']['table-uuid']}"
    of_s3tables = {"name": "t", "tableBucketARN": quote(arn, safe=""), "resourceArn": quote(table, safe="")}
    return {**names, **of_s3tables, "policy_type": "icebergCompaction"}


@st.composite
def drawn(draw: st.DrawFn, cases: st.SearchStrategy[Any]) -> Any:
    """A request; another one where the generator breaks one in a way that it cannot then fill in itself."""
    try:
        return draw(cases)
    except InvalidSchema:
        reject()


def put_together(case: Any, base: str) -> Sent:
    """The request as bytes."""
    wanted = case.as_transport_kwargs(base_url=f"{ORIGIN}{base}")
    known = ("method", "url", "headers", "params", "json", "data", "files")
    prepared = requests.Request(**{key: wanted[key] for key in known if key in wanted}).prepare()
    body = prepared.body or b""
    headers = {name.lower(): value for name, value in prepared.headers.items()}
    return Sent(
        str(prepared.method),
        str(prepared.url).removeprefix(ORIGIN).encode(),
        body.encode() if isinstance(body, str) else body,
        tuple((_bytes(name), _bytes(value)) for name, value in headers.items()),
    )


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


@pytest.mark.in_process
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("base", "path", "verb", "mode"), CASES)
def test_answers_are_as_declared(
    running: tuple[Http, Platform],
    schemas: dict[str, tuple[Any, Any]],
    base: str,
    path: str,
    verb: str,
    mode: GenerationMode,
) -> None:
    http, platform = running
    app = create_app(platform)
    made_from, held_against = (schema[path][verb.upper()] for schema in schemas[base])
    names = existing(Catalog(http))
    there = {one.name: names[one.name] for one in made_from.path_parameters if one.name in names}
    # The generator takes no parameter of a path that holds a slash, and looks for an ARN without one for ever.
    has_arn = not there.keys().isdisjoint({"tableBucketARN", "resourceArn"})
    cases = [] if has_arn else [made_from.as_strategy(generation_mode=mode)]
    if has_arn or (there and (mode is GenerationMode.POSITIVE or made_from.body or made_from.query)):
        cases.append(made_from.as_strategy(generation_mode=mode, path_parameters=there))

    @settings(
        max_examples=EXAMPLES, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None
    )
    @given(drawn(st.one_of(cases)))
    def every(case: Any) -> None:
        sent = put_together(case, base)
        answer = http.portal.call(ask, app, sent)
        asked = httpx.Request(sent.method, ORIGIN)
        response = httpx.Response(answer.status, headers=answer.headers, content=answer.body, request=asked)
        response.elapsed = timedelta()
        case.operation = held_against
        case.validate_response(response, checks=CHECKS)

    every()
