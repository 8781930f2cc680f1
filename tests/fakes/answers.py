"""An HTTP server that gives the answers it is told to, and remembers what it was asked."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]


@dataclass(slots=True)
class Answers:
    """The server: `next` are (status, body) in order; without one left it answers 404."""

    url: str = ""
    next: list[tuple[int, str]] = field(default_factory=list)
    seen: list[Request] = field(default_factory=list)


@contextmanager
def answering() -> Iterator[Answers]:
    """Run for the length of the block."""
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers.seen.append(Request(self.path, dict(self.headers)))
            status, body = answers.next.pop(0) if answers.next else (404, "")
            self.send_response(status)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Requests are not logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    answers.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        server.shutdown()
        server.server_close()
