"""Thousands of mutated requests: whatever is sent, the answer is no 5xx, no HTML, and always the envelope."""

import json
import random
from typing import Any

import pytest

from tests.api.iceberg_client import Catalog, Http, segment
from tests.api.mutations import mangle, mutate
from tests.factories.requests import seeds

REQUESTS = 3000


def check(answer: Any, sent: object) -> None:
    assert answer.status_code < 500, (answer.status_code, answer.text, sent)
    assert "html" not in answer.headers.get("content-type", ""), sent
    if answer.status_code >= 400 and answer.content:
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "code"}, sent
        assert error["code"] == answer.status_code, sent


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_bodies_never_give_a_5xx(http: Http, catalog: Catalog, seed: int) -> None:
    rng = random.Random(seed)
    good = seeds(catalog)
    for number in range(REQUESTS):
        if number % 300 == 0:
            good = seeds(catalog)  # a fresh table: earlier requests may have changed or dropped the last one
        method, path, body = rng.choice(good)
        if rng.random() < 0.85:
            content = json.dumps(mutate(body, rng)).encode("utf-8", "surrogatepass")
        else:
            content = mangle(json.dumps(body).encode(), rng)
        check(http.request(method, path, content=content), (method, path, content))


@pytest.mark.slow
def test_mutated_paths_and_queries_never_give_a_5xx(http: Http, catalog: Catalog) -> None:
    rng = random.Random(3)
    levels, _ = catalog.new_table()
    paths = [
        catalog.table(levels, "t"),
        f"{catalog.table(levels, 't')}?snapshots=refs",
        f"{catalog.tables(levels)}?pageSize=1&pageToken=",
        f"{catalog.base}/namespaces?parent=a%1Fb&pageSize=1",
        f"{catalog.base}/namespaces/{segment(*levels)}",
        f"{catalog.table(levels, 't')}/credentials",
        "/iceberg/v1/config?warehouse=default",
        f"{catalog.base}/namespaces/a%20b/views/v",
        f"{catalog.base}/namespaces/{segment(*levels)}/views?pageToken=&pageSize=1",
    ]
    alphabet = b"abc/%.?&=+0129AFx-~!$'()*,;:@[]{}|^`\"<>\\"
    for _ in range(1500):
        mangled = bytearray(rng.choice(paths).encode())
        for _ in range(rng.randint(1, 4)):
            position = rng.randrange(len("/iceberg/"), len(mangled))
            mangled[position : position + rng.randint(0, 2)] = bytes(
                rng.choice(alphabet) for _ in range(rng.randint(1, 3))
            )
        url = http.base_url.copy_with(raw_path=bytes(mangled))
        method = rng.choice(["GET", "GET", "HEAD", "DELETE"])
        check(http.request(method, url), (method, bytes(mangled)))
