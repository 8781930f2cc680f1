"""Metadata in its envelope: the right bytes and length, and long ones never copied."""

from collections.abc import MutableMapping
from typing import Any

import orjson
import pytest

from catalog_server.api.iceberg.load_result import SplicedResponse

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def sent(response: SplicedResponse) -> list[MutableMapping[str, Any]]:
    messages: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        messages.append(message)

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("nothing is read")

    await response({"type": "http"}, receive, send)
    return messages


@pytest.mark.parametrize("size", [0, 10, 64 * 1024, 1_000_000], ids=str)
async def test_the_body_is_whole_whatever_its_size(size: int) -> None:
    raw = orjson.dumps({"x": "y" * size})
    start, *bodies = await sent(SplicedResponse("file:///t/m.json", raw, b"{}", '"e"'))
    body = b"".join(message["body"] for message in bodies)
    assert orjson.loads(body) == {
        "metadata-location": "file:///t/m.json",
        "metadata": {"x": "y" * size},
        "config": {},
    }
    headers = dict(start["headers"])
    assert headers[b"content-length"] == str(len(body)).encode()
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"etag"] == b'"e"'
    assert [message.get("more_body", False) for message in bodies] == [True] * (len(bodies) - 1) + [False]


async def test_load_1_a_long_document_is_sent_as_it_lies_in_memory() -> None:
    raw = b'{"x":"' + b"y" * 1_000_000 + b'"}'
    _, *bodies = await sent(SplicedResponse("file:///t/m.json", raw, b"{}", '"e"'))
    assert any(message["body"] is raw for message in bodies)
