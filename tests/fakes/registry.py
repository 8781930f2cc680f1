"""A schema registry over HTTP with Confluent's paths: enough for clients that read and for tests that register."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


@dataclass
class FakeRegistry:
    """Schemas by id and by subject; `status` makes every answer fail with it."""

    base_path: str = ""
    url: str = ""
    status: int | None = None
    requests: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    given: dict[int, str] = field(default_factory=dict)
    """Schemas under ids that were given elsewhere."""
    _schemas: list[dict[str, Any]] = field(default_factory=list)
    _subjects: dict[str, list[int]] = field(default_factory=dict)

    def register(
        self,
        subject: str,
        schema: Any,
        *,
        kind: str = "AVRO",
        references: list[dict[str, Any]] | None = None,
    ) -> int:
        """The id of the schema; equal content has one id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        entry: dict[str, Any] = {"schema": text}
        if kind != "AVRO":
            entry["schemaType"] = kind
        if references:
            entry["references"] = references
        if entry not in self._schemas:
            self._schemas.append(entry)
        schema_id = self._schemas.index(entry) + 1
        versions = self._subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, path: str) -> tuple[int, Any]:
        """Status and body for a path below the base path."""
        if self.status is not None:
            return self.status, {"error_code": self.status, "message": "as told"}
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match parts:
            case ["subjects"]:
                return 200, list(self._subjects)
            case ["schemas", "ids", number]:
                if int(number) in self.given:
                    return 200, {"schema": self.given[int(number)]}
                index = int(number) - 1
                if 0 <= index < len(self._schemas):
                    return 200, self._schemas[index]
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case ["subjects", subject, "versions", version]:
                versions = self._subjects.get(subject, [])
                index = len(versions) if version == "latest" else int(version)
                if not 1 <= index <= len(versions):
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
                schema_id = versions[index - 1]
                body = {"subject": subject, "version": index, "id": schema_id, **self._schemas[schema_id - 1]}
                return 200, body
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Registration, for clients that produce."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match parts:
            case ["subjects", subject, "versions"]:
                kind = body.get("schemaType", "AVRO")
                schema_id = self.register(
                    subject, body["schema"], kind=kind, references=body.get("references")
                )
                return 200, {"id": schema_id}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


def _handler(registry: FakeRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.requests.append(self.path)
            registry.authorizations.append(self.headers.get("Authorization"))
            if not self.path.startswith(registry.base_path):
                self._send(404, {"error_code": 404, "message": "HTTP 404 Not Found"})
                return
            self._send(*registry.answer(self.path[len(registry.base_path) :]))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(*registry.post(self.path[len(registry.base_path) :], body))

        def _send(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@contextmanager
def serve(base_path: str = "") -> Iterator[FakeRegistry]:
    """A running registry on a free loopback port."""
    registry = FakeRegistry(base_path=base_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(registry))
    registry.url = f"http://127.0.0.1:{server.server_address[1]}{base_path}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
