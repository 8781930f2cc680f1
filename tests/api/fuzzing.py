"""The fuzzer's engine: sends requests in chunks, and what must hold of every answer.

`FUZZ_REQUESTS` is how many requests a run sends to the Iceberg API (a fifth of that to the management API), 20,000
when it is not set; `FUZZ_SEED` draws others. The same numbers send the same requests.
"""

import json
import os
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from catalog_server.app import create_app
from tests.api.catalog_state import CatalogState
from tests.api.direct import Answer, Sent, ask
from tests.api.iceberg_client import Catalog, in_process

CHUNK = 1000
REQUESTS = int(os.environ.get("FUZZ_REQUESTS", "20000"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
FRESH_EVERY = 500
"""After so many requests the good ones are made anew: others may have changed or dropped what they are about."""

Generator = Callable[[Catalog, random.Random], Iterator[Sent]]


def chunks(requests: int) -> range:
    """The chunks of a run of that many requests."""
    return range(-(-requests // CHUNK))


def run(directory: Path, chunk: int, generator: Generator, check: Callable[[Answer, Sent], None]) -> None:
    """One chunk on a platform of its own. No 5xx, nothing changed by what is refused, and most is refused."""
    rng = random.Random(f"{SEED}/{chunk}")
    # Planned in threads: a chunk is not worth the start of a process.
    with in_process(directory, **{"planning.processes": 0}) as (http, platform):
        app, state = create_app(platform), CatalogState(directory / "data")
        try:
            refused = 0
            for _ in range(CHUNK // FRESH_EVERY):
                requests = _some(generator(Catalog(http), rng), FRESH_EVERY)
                state.take()
                refused += http.portal.call(_send, app, requests, check, state)
        finally:
            state.close()
    assert refused > CHUNK // 2, "these requests are not malformed enough to show anything"


def _some(requests: Iterator[Sent], count: int) -> list[Sent]:
    return [next(requests) for _ in range(count)]


async def _send(
    app: ASGIApp, requests: Iterable[Sent], check: Callable[[Answer, Sent], None], state: CatalogState
) -> int:
    refused = 0
    for sent in requests:
        answer = await ask(app, sent)
        check(answer, sent)
        if answer.status >= 400:
            refused += 1
            changes = state.changes()
            assert not changes, (changes, answer, sent)
        elif sent.method not in {"GET", "HEAD"}:
            state.take()
    return refused


def packed(body: Any) -> bytes:
    """JSON as a client would send it; lone surrogates as they are."""
    return json.dumps(body).encode("utf-8", "surrogatepass")
