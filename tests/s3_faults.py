"""A proxy in front of an S3 server that misbehaves by rules: the network and the store on a bad day."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from tests.s3 import S3Server

Kind = Literal["slow_down", "failed", "cut_before", "answer_lost", "cut_in_body"]
_HOP = ("connection", "transfer-encoding", "keep-alive")
_SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your rate.</Message></Error>"
_FAILED = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>We failed.</Message></Error>"


@dataclass(slots=True, kw_only=True)
class Fault:
    """What goes wrong with requests that match: `METHOD /bucket/key?query`, so many times.

    slow_down and failed answer 503 and 500 and do nothing; cut_before ends the connection before the store hears of
    it; answer_lost lets the store do the work, then ends the connection; cut_in_body ends it within the answer.
    """

    kind: Kind
    pattern: str = ""
    times: int = 1
    skip: int = 0


@dataclass
class Proxy:
    """The proxy's rules, and what it was asked."""

    server: S3Server
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def due(self, request: str) -> Kind | None:
        with self.lock:
            self.requests.append(request)
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.pattern, request):
                    if fault.skip > 0:
                        fault.skip -= 1
                        continue
                    fault.times -= 1
                    return fault.kind
        return None


@contextmanager
def faulty(upstream: S3Server) -> Iterator[Proxy]:
    """A proxy for the length of a `with` block; `proxy.server` reaches the store through it."""
    host = upstream.endpoint.removeprefix("http://")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None: ...

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kind = proxy.due(f"{self.command} {self.path}")
            if kind in ("slow_down", "failed"):
                self._refuse(
                    503 if kind == "slow_down" else 500, _SLOW_DOWN if kind == "slow_down" else _FAILED
                )
                return
            if kind == "cut_before":
                self._cut()
                return
            connection = HTTPConnection(host, timeout=30)
            try:
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in _HOP:
                        connection.putheader(name, value)
                connection.endheaders(body or None)
                answer = connection.getresponse()
                data = answer.read()
            finally:
                connection.close()
            if kind == "answer_lost":
                self._cut()
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            if "content-length" not in {name.lower() for name, _ in answer.getheaders()}:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data[: len(data) // 2] if kind == "cut_in_body" else data)
            if kind == "cut_in_body":
                self._cut()

        def _refuse(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _cut(self) -> None:
            self.close_connection = True

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass  # noqa: N815 - names that the base class calls

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that went away is what is being tested."""

    listener = Server(("127.0.0.1", 0), Handler)
    proxy = Proxy(S3Server(f"http://127.0.0.1:{listener.server_port}"))
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()
