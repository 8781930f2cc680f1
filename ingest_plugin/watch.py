"""A port on which a running ingest tells what it does: `/metrics` for Prometheus, `/status` as JSON.

Read only, without authentication: listen on an address that only those reach who may know.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from ingest_plugin.keys import ConfigError
from ingest_plugin.metrics import REGISTRY
from table_format.jsontypes import JsonObject


@contextmanager
def watched(listen: str, document: Callable[[], JsonObject]) -> Iterator[int | None]:
    """Serve while the block runs; gives the port, or None when `listen` is empty.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    if not listen:
        yield None
        return
    host, _, port = listen.rpartition(":")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(REGISTRY))
            elif self.path == "/status":
                self._answer(200, "application/json", orjson.dumps(document()))
            else:
                self._answer(404, "text/plain", b"there are /metrics and /status\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Requests are not logged."""

    try:
        server = ThreadingHTTPServer((host.strip("[]") or "127.0.0.1", int(port)), Handler)
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(f"[status]: cannot listen on '{listen}': {error}") from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
