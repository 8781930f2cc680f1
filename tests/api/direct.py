"""Requests put straight into an ASGI app, byte for byte: what no HTTP client would send, a fuzzer must."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as it goes over the wire."""

    method: str
    target: bytes
    """Path and query as in the request line: visible ASCII."""
    body: bytes = b""
    headers: Headers = ()


@dataclass(slots=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes


async def ask(app: ASGIApp, sent: Sent) -> Answer:
    """One request and its answer; an exception that leaves the app is the caller's to see."""
    path, _, query = sent.target.partition(b"?")
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": sent.method,
        "scheme": "http",
        "path": unquote_to_bytes(path).decode("utf-8", "replace"),
        "raw_path": path,
        "root_path": "",
        "query_string": query,
        "headers": [(b"host", b"testserver"), *sent.headers],
        "client": ("127.0.0.1", 1),
        "server": ("testserver", 80),
    }
    answer = Answer(0, {}, b"")
    bodies = [sent.body, None]

    async def receive() -> Message:
        body = bodies.pop(0) if bodies else None
        if body is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message["headers"]
            }
        answer.body += message.get("body", b"")

    await app(scope, receive, send)
    return answer
