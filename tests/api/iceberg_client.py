"""A client of the server, in process or over HTTP, and shorthand for bodies that tests send often."""

import functools
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal

from catalog_server.app import create_app
from catalog_server.bootstrap import Platform, build
from catalog_server.settings import load
from table_format.clock import Clock
from tests.process.servers import serving

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
    ],
}


class Http:
    """httpx on an ASGI app, for tests that are not async themselves; may be used from several threads."""

    def __init__(self, app: Any, portal: BlockingPortal) -> None:
        self.base_url = httpx.URL("http://testserver")
        self._connect(httpx.ASGITransport(app, raise_app_exceptions=False), portal)

    def _connect(self, transport: httpx.AsyncBaseTransport, portal: BlockingPortal) -> None:
        self._client = httpx.AsyncClient(transport=transport, base_url=self.base_url, timeout=120)
        self.portal = portal

    def request(self, method: str, url: str | httpx.URL, **options: Any) -> httpx.Response:
        response: httpx.Response = self.portal.call(
            functools.partial(self._client.request, method, url, **options)
        )
        return response

    def get(self, url: str | httpx.URL, **options: Any) -> httpx.Response:
        return self.request("GET", url, **options)

    def head(self, url: str | httpx.URL, **options: Any) -> httpx.Response:
        return self.request("HEAD", url, **options)

    def post(self, url: str | httpx.URL, **options: Any) -> httpx.Response:
        return self.request("POST", url, **options)

    def put(self, url: str | httpx.URL, **options: Any) -> httpx.Response:
        return self.request("PUT", url, **options)

    def delete(self, url: str | httpx.URL, **options: Any) -> httpx.Response:
        return self.request("DELETE", url, **options)

    def raw(self, url: str, **options: Any) -> tuple[httpx.Response, bytes]:
        """A GET whose body is left as it was sent."""

        async def read() -> tuple[httpx.Response, bytes]:
            async with self._client.stream("GET", url, **options) as response:
                return response, b"".join([chunk async for chunk in response.aiter_raw()])

        result: tuple[httpx.Response, bytes] = self.portal.call(read)
        return result


class Wire(Http):
    """The same on a server process."""

    def __init__(self, url: str, portal: BlockingPortal) -> None:
        self.base_url = httpx.URL(url)
        self._connect(httpx.AsyncHTTPTransport(), portal)

    def close(self) -> None:
        self.portal.call(self._client.aclose)


@contextmanager
def over_http(directory: Path, **env: str) -> Iterator[Wire]:
    """A client of a server process of its own."""
    with serving(directory, env=env) as server, start_blocking_portal() as portal:
        wire = Wire(server.url, portal)
        yield wire
        wire.close()


@contextmanager
def in_process(
    directory: Path, *, clock: Clock | None = None, **overrides: Any
) -> Iterator[tuple[Http, Platform]]:
    """A client on a platform of its own."""
    # No worker runs here, so no plan of maintenance is worth waiting for.
    standing = {"server.data_dir": directory / "data", "maintenance.plan_wait_seconds": 0.001}
    settings = load(None, {}, {**standing, **overrides})
    platform = build(settings, clock=clock)
    with start_blocking_portal() as portal:
        portal.call(platform.start)
        try:
            yield Http(create_app(platform), portal), platform
        finally:
            portal.call(platform.close)


def segment(*levels: str) -> str:
    """Levels as one path segment."""
    return quote("\x1f".join(levels), safe="")


class Catalog:
    """Shorthand over one client and bucket."""

    def __init__(self, http: Any, bucket: str = "default") -> None:
        self.http = http
        self.base = f"/iceberg/v1/{bucket}"

    def new_namespace(self, *levels: str) -> tuple[str, ...]:
        """Create a namespace; of a fresh name when none is given."""
        levels = levels or (f"ns_{uuid.uuid4().hex[:12]}",)
        answer = self.http.post(f"{self.base}/namespaces", json={"namespace": list(levels)})
        assert answer.status_code == 200, answer.text
        return levels

    def tables(self, levels: tuple[str, ...]) -> str:
        return f"{self.base}/namespaces/{segment(*levels)}/tables"

    def table(self, levels: tuple[str, ...], name: str) -> str:
        return f"{self.tables(levels)}/{segment(name)}"

    def create(self, levels: tuple[str, ...], name: str, **body: Any) -> httpx.Response:
        response: httpx.Response = self.http.post(
            self.tables(levels), json={"name": name, "schema": SCHEMA, **body}
        )
        return response

    def new_table(self, name: str = "t", **body: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
        """A table in a fresh namespace: the namespace and the LoadTableResult."""
        levels = self.new_namespace()
        answer = self.create(levels, name, **body)
        assert answer.status_code == 200, answer.text
        return levels, answer.json()

    def commit(
        self, levels: tuple[str, ...], name: str, updates: list[Any], requirements: list[Any]
    ) -> httpx.Response:
        body = {"updates": updates, "requirements": requirements}
        response: httpx.Response = self.http.post(self.table(levels, name), json=body)
        return response


def snapshot(metadata: dict[str, Any], snapshot_id: int, **changes: Any) -> dict[str, Any]:
    """A snapshot that would follow the table's current one (its manifest list is not read by the catalog)."""
    current = metadata.get("current-snapshot-id")
    made = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": metadata["last-updated-ms"] + 1,
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": metadata["current-schema-id"],
    }
    if current is not None and current != -1:
        made["parent-snapshot-id"] = current
    return {**made, **changes}


def append_updates(metadata: dict[str, Any], snapshot_id: int, **changes: Any) -> list[dict[str, Any]]:
    """The updates of a plain append."""
    return [
        {"action": "add-snapshot", "snapshot": snapshot(metadata, snapshot_id, **changes)},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
    ]


def append_requirements(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """What an append asserts."""
    current = metadata.get("current-snapshot-id")
    return [
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None if current == -1 else current},
        {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]},
    ]


def assert_error(response: httpx.Response, status: int, error_type: str) -> str:
    """The response is that error in the Iceberg envelope; its message."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert (error["code"], error["type"]) == (status, error_type)
    assert isinstance(error["message"], str)
    assert error["message"]
    message: str = error["message"]
    return message


def new_key() -> dict[str, str]:
    """An Idempotency-Key header with a key that nobody used before: a UUID of version 7 by its form."""
    made = uuid.uuid4().hex
    return {"Idempotency-Key": f"{made[:8]}-{made[8:12]}-7{made[13:16]}-a{made[17:20]}-{made[20:]}"}
