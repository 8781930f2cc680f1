"""The registry client: several URLs, TLS, credentials, caches, and clear words when it does not work."""

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ingest_plugin.decode.registry import LATEST_SECONDS, NOT_FOUND_SECONDS, Reference, SchemaRegistry
from ingest_plugin.keys import ConfigError
from ingest_plugin.settings import RegistrySettings
from table_format.errors import Forbidden, Unavailable
from tests.fakes.clock import ManualClock
from tests.fakes.registry import FakeRegistry, serve


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve() as running:
        yield running


@pytest.fixture
def other() -> Iterator[FakeRegistry]:
    with serve() as running:
        yield running


def client(*urls: str, clock: ManualClock | None = None, **more: Any) -> SchemaRegistry:
    return SchemaRegistry(RegistrySettings(url=",".join(urls), **more), clock or ManualClock())


GONE = "http://127.0.0.1:9"


def test_the_next_url_is_asked_when_one_does_not_answer(registry: FakeRegistry, other: FakeRegistry) -> None:
    for running in (registry, other):
        running.register("s", "long")
    asking = client(GONE, registry.url, other.url)
    assert asking.schema(1) is not None
    asking.check()
    assert registry.requests == ["/schemas/ids/1", "/subjects"]
    registry.status = 503
    asking.check()
    assert other.requests == ["/subjects"]
    registry.status = None
    asking.check()
    assert other.requests == ["/subjects"] * 2, "who answered last is asked first"


def test_no_url_answers(registry: FakeRegistry) -> None:
    registry.status = 500
    with pytest.raises(Unavailable) as caught:
        client(GONE, registry.url).schema(1)
    assert "127.0.0.1:9 does not answer" in str(caught.value)
    assert "HTTP 500" in str(caught.value)


def test_one_that_refuses_us_is_not_hidden_by_the_next(registry: FakeRegistry, other: FakeRegistry) -> None:
    registry.status = 401
    with pytest.raises(Forbidden, match="check username and password, or token"):
        client(registry.url, other.url).schema(1)
    assert other.requests == []


def test_what_is_not_there_is_asked_for_once_in_a_while(registry: FakeRegistry) -> None:
    clock = ManualClock()
    asking = client(registry.url, clock=clock)
    for _ in range(5):
        assert asking.schema(7) is None
        assert asking.latest("s") is None
    assert len(registry.requests) == 2
    clock.sleep(NOT_FOUND_SECONDS + 1)
    registry.register("s", "long")
    found = asking.latest("s")
    assert found is not None
    assert (found.text, found.id) == ("long", 1)


def test_garbage_ids_do_not_fill_the_memory(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest_plugin.decode.registry._MAX_NOT_FOUND", 10)
    asking = client(registry.url)
    for number in range(100, 130):
        asking.schema(number)
    asking.schema(129)
    asking.schema(120)
    assert len(registry.requests) == 30
    asking.schema(119)
    assert len(registry.requests) == 31


def test_ids_that_the_registry_has_no_path_for_do_not_exist(registry: FakeRegistry) -> None:
    """A damaged record's guid, or number, must not keep its topic waiting for a registry that works."""
    asking = client(registry.url)
    assert asking.schema_by_guid("01234567-89ab-cdef-0123-456789abcdef") is None
    assert asking.schema_by_guid("01234567-89ab-cdef-0123-456789abcdef") is None
    assert len(registry.requests) == 2
    assert client(GONE, registry.url).schema_by_guid("x") is None, "whoever else does not answer"
    with pytest.raises(Unavailable, match="is its path part of the URL"):
        client(registry.url + "/elsewhere").schema_by_guid("x")


def test_the_latest_version_is_kept_for_a_while(registry: FakeRegistry) -> None:
    clock = ManualClock()
    asking = client(registry.url, clock=clock)
    registry.register("s", "long")
    first = asking.latest("s")
    registry.register("s", "string")
    assert asking.latest("s") == first
    assert asking.latest("s", newer=True) == first, "no more often than every five seconds"
    clock.sleep(6)
    newer = asking.latest("s", newer=True)
    assert newer is not None
    assert newer.text == "string"
    registry.register("s", "bytes")
    clock.sleep(LATEST_SECONDS + 1)
    latest = asking.latest("s")
    assert latest is not None
    assert latest.text == "bytes"


def test_references_keep_their_names_and_come_after_what_they_need(registry: FakeRegistry) -> None:
    registry.register("a", "A", kind="PROTOBUF")
    registry.register(
        "b", "B", kind="PROTOBUF", references=[{"name": "a.proto", "subject": "a", "version": 1}]
    )
    both = [
        {"name": "b.proto", "subject": "b", "version": 1},
        {"name": "x/a.proto", "subject": "a", "version": 1},
    ]
    found = client(registry.url).schema(registry.register("c", "C", kind="PROTOBUF", references=both))
    assert found is not None
    assert found.references == (
        Reference(name="a.proto", text="A"),
        Reference(name="b.proto", text="B"),
        Reference(name="x/a.proto", text="A"),
    )


def test_references_in_a_circle_end(registry: FakeRegistry) -> None:
    registry.register("a", "A", kind="PROTOBUF", references=[{"name": "b", "subject": "b", "version": 1}])
    schema_id = registry.register(
        "b", "B", kind="PROTOBUF", references=[{"name": "a", "subject": "a", "version": 1}]
    )
    found = client(registry.url).schema(schema_id)
    assert found is not None
    assert {one.name for one in found.references} == {"a", "b"}


def test_a_reference_that_is_missing_is_no_fault_of_a_record(registry: FakeRegistry) -> None:
    schema_id = registry.register("b", "B", references=[{"name": "a", "subject": "a", "version": 1}])
    with pytest.raises(Unavailable, match="referenced subject a version 1 is missing"):
        client(registry.url).schema(schema_id)


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"<html>", "no JSON"), (b"[]", "without 'schema'"), (b'{"schema": 1}', "without 'schema'")],
)
def test_answers_that_are_none(body: bytes, reason: str) -> None:
    with plain_server(body) as url, pytest.raises(Unavailable, match=reason):
        client(url).schema(1)


def test_a_redirect_is_not_followed_with_our_credentials() -> None:
    with plain_server(b"", status=302) as url, pytest.raises(Unavailable, match="HTTP 302"):
        client(url, token="t").schema(1)


@pytest.mark.parametrize("url", ["", ",", "ftp://x", "registry:8081", 5])
def test_urls_that_are_none(url: Any) -> None:
    with pytest.raises((ConfigError, ValueError)):
        RegistrySettings(url=url)


def test_tls_with_an_authority_of_our_own_and_a_certificate_of_ours(tmp_path: Path) -> None:
    authority, server, ours = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server, server.with_suffix(".key"))
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    body = json.dumps({"schema": "long"}).encode()
    with plain_server(body, context=context) as url:
        cert = {"cert_file": str(ours), "key_file": str(ours.with_suffix(".key"))}
        found = client(url, ca_file=str(authority), **cert).schema(1)
        assert found is not None
        assert found.text == "long"
        with pytest.raises(Unavailable, match="no trusted TLS connection"):
            client(url, **cert).schema(1)
        with pytest.raises(Unavailable, match=r"does not answer|no trusted TLS connection"):
            client(url, ca_file=str(authority)).schema(1)
    with pytest.raises(Unavailable, match="does not answer"):
        client(url, ca_file=str(tmp_path / "none.pem")).schema(1)


class plain_server:  # noqa: N801 - used as a function
    """Answers every request alike."""

    def __init__(self, body: bytes, *, status: int = 200, context: ssl.SSLContext | None = None) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:9/")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(HTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """A refused handshake is what a test is about."""

        self._server = Server(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        scheme = "http" if context is None else "https"
        self._url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> str:
        self._thread.start()
        return self._url

    def __exit__(self, *args: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """An authority, and certificates of a server and of a client by it, each with its key beside it."""
    authority = folder / "ca.pem"
    made = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    openssl(
        *made, "-subj", "/CN=authority", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        "-keyout", authority.with_suffix(".key"), "-out", authority,
    )  # fmt: skip
    for name in ("server", "ours"):
        path = folder / f"{name}.pem"
        openssl(
            *made, "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
            "-addext", "basicConstraints=critical,CA:FALSE", "-CA", authority, "-CAkey", authority.with_suffix(".key"),
            "-keyout", path.with_suffix(".key"), "-out", path,
        )  # fmt: skip
    return authority, folder / "server.pem", folder / "ours.pem"


def openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
