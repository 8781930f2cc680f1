"""`Recorder`: an ASGI app around ours that keeps every exchange, whoever the client is."""

import gzip
import json
from dataclasses import dataclass, field
from typing import Any

import zstandard
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PREFIX = "/iceberg"


@dataclass(slots=True)
class Exchange:
    """One request to the Iceberg API and its answer."""

    client: str
    method: str
    path: str
    """As sent, still percent-encoded, below `/iceberg`."""
    query: str
    request_headers: dict[str, str]
    request: bytes = b""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    answer: bytes = b""

    def __str__(self) -> str:
        return f"{self.client}: {self.method} {self.path}?{self.query} -> {self.status}"

    def sent(self) -> Any:
        """The request's JSON body."""
        packed = self.request_headers.get("content-encoding") == "gzip"
        return json.loads(gzip.decompress(self.request) if packed else self.request)

    def answered(self) -> Any:
        """The answer's JSON body."""
        encoding = self.headers.get("content-encoding")
        if encoding == "zstd":
            return json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(self.answer))
        return json.loads(gzip.decompress(self.answer) if encoding == "gzip" else self.answer)


class Recorder:
    """Passes everything on, and keeps what concerns the Iceberg API."""

    def __init__(self, app: ASGIApp, client: str) -> None:
        self._app = app
        self._client = client
        self.exchanges: list[Exchange] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("raw_path", b"").decode("latin-1").partition("?")[0]
        if scope["type"] != "http" or not path.startswith(f"{PREFIX}/v1/"):
            await self._app(scope, receive, send)
            return
        exchange = Exchange(
            client=self._client,
            method=scope["method"],
            path=path.removeprefix(PREFIX),
            query=scope["query_string"].decode("latin-1"),
            request_headers=_texts(scope["headers"]),
        )

        async def heard() -> Message:
            message = await receive()
            exchange.request += message.get("body", b"")
            return message

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status, exchange.headers = message["status"], _texts(message["headers"])
            exchange.answer += message.get("body", b"")
            await send(message)

        await self._app(scope, heard, told)
        self.exchanges.append(exchange)


def _texts(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
