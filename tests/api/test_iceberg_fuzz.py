"""Tens of thousands of malformed requests to the Iceberg API: bodies, bytes, paths, queries, headers, encodings.

Whatever is sent, the answer is no 5xx and no HTML, every error has the envelope, and what is refused changes nothing.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog_server.api.iceberg.openapi.document import DESCRIBED
from catalog_server.api.iceberg.router import OPERATIONS
from tests.api import fuzzing
from tests.api.direct import Answer, Sent
from tests.api.iceberg_client import Catalog
from tests.api.mutations import (
    ODD_NAMES,
    mangle,
    mutate,
    odd_encoding,
    odd_headers,
    odd_query,
    odd_target,
    odd_verb,
)
from tests.factories.requests import Request, seeds

TOKENS = "/iceberg/v1/oauth/tokens"


def check(answer: Answer, sent: Sent) -> None:
    assert 0 < answer.status < 500, (answer, sent)
    assert "html" not in answer.headers.get("content-type", ""), sent
    if answer.status < 400 or sent.method == "HEAD":
        return
    body = json.loads(answer.body)
    if sent.target.startswith(TOKENS.encode()) and answer.status in {400, 401}:
        assert set(body) == {"error", "error_description"}, sent
        return
    assert set(body) == {"error"}, sent
    assert set(body["error"]) == {"message", "type", "code"}, sent
    assert body["error"]["code"] == answer.status, sent
    assert body["error"]["message"], sent


def requests(catalog: Catalog, rng: random.Random) -> Iterator[Sent]:
    """Without end."""
    good = seeds(catalog)
    names = {"prefix": "default", "namespace": good[0][1].split("/")[5], "table": "t", "view": "v"}
    while True:
        kind = rng.choices(["body", "path", "query", "headers", "encoding", "form"], [50, 22, 8, 8, 9, 3])[0]
        method, path, body = rng.choice(good)
        content = fuzzing.packed(mutate(body, rng))
        if kind == "body":
            content = content if rng.random() < 0.8 else mangle(fuzzing.packed(body), rng)
            yield Sent(method, path.encode(), content)
        elif kind == "path":
            yield _odd_path(names, rng)
        elif kind == "query":
            yield _odd_query(names, rng)
        elif kind == "headers":
            yield Sent(method, path.encode(), content, odd_headers(rng))
        elif kind == "encoding":
            encoded, headers = odd_encoding(fuzzing.packed(body), rng)
            yield Sent(method, path.encode(), encoded, headers)
        else:
            form = b"grant_type=client_credentials&client_id=a&client_secret=b&scope=catalog"
            yield Sent("POST", TOKENS.encode(), mangle(form, rng), odd_headers(rng))


def _odd_path(names: dict[str, str], rng: random.Random) -> Sent:
    """Any operation on a name that is odd, or with its path mangled; now and then by another verb."""
    operation = rng.choice(OPERATIONS)
    parts = [b"/iceberg"]
    for part in operation.path.split("/")[1:]:
        known = names.get(part.strip("{}"), "no-such").encode() if part.startswith("{") else part.encode()
        parts.append(rng.choice(ODD_NAMES) if part.startswith("{") and rng.random() < 0.4 else known)
    target = b"/".join(parts)
    if rng.random() < 0.5:
        target = odd_target(target, rng)
    method = odd_verb(rng) if rng.random() < 0.2 else operation.method
    return Sent(method, target, b"{}" if method == "POST" else b"")


def _odd_query(names: dict[str, str], rng: random.Random) -> Sent:
    """An operation that takes parameters, with odd values for them."""
    operation = rng.choice([one for one in OPERATIONS if one.method in {"GET", "HEAD", "DELETE"}])
    path = operation.path
    for name, value in names.items():
        path = path.replace(f"{{{name}}}", value)
    declared = list(DESCRIBED[operation.endpoint].parameters)
    target = f"/iceberg{path}?".encode() + odd_query(declared, rng)
    return Sent(operation.method, target, b"", odd_headers(rng) if rng.random() < 0.2 else ())


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", fuzzing.chunks(fuzzing.REQUESTS))
def test_malformed_requests(tmp_path: Path, chunk: int) -> None:
    fuzzing.run(tmp_path, chunk, requests, check)


def test_every_operation_that_takes_a_body_is_fuzzed(catalog: Catalog) -> None:
    """A new one needs a good request in tests/factories/requests.py"""
    sent = {_template(request) for request in seeds(catalog)}
    with_body = {one for one in DESCRIBED if DESCRIBED[one].body} & {one.endpoint for one in OPERATIONS}
    assert sent == with_body


def _template(request: Request) -> str:
    method, path, _ = request
    parts = path.removeprefix("/iceberg").split("/")
    for operation in OPERATIONS:
        templates = operation.path.split("/")
        if operation.method == method and len(templates) == len(parts):
            pairs = zip(templates, parts, strict=True)
            if all(template == part or template.startswith("{") for template, part in pairs):
                return operation.endpoint
    raise AssertionError(f"no operation for {method} {path}")
